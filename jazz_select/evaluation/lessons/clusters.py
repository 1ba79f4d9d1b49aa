"""Requests that no flow is for, put together by what they ask: what a catalogue lacks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from jazz_select.flow.base import BaseFlow
from jazz_select.memory.embedders.static import unit_rows
from jazz_select.memory.encoder import printable
from jazz_select.ports import Embedder, Vectors, stages_of

LEAST: Final = 3
"""Requests that make a group."""
MOST_READ: Final = 3_000
_SHOWN, _MOST_GROUPS = 3, 20
_USUAL, _LOWEST, _HIGHEST = 0.6, 0.4, 0.8
_MOST_FLOWS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Requests that ask for much the same.

    Attributes:
        size: How many there are.
        before: How many there were in the window before.
        texts: Those that stand for them best.
        nearest: The flow that recall had first for most of them; empty where it had none.
    """

    size: int
    before: int = 0
    texts: tuple[str, ...] = ()
    nearest: str = ""


class Grouping:
    """Groups of texts. The same texts in the same order always give the same groups."""

    def __init__(self, registry: Mapping[str, BaseFlow], embedder: Embedder) -> None:
        """Find out how near to one another requests for one thing lie: as near as the examples of one flow."""
        self._embedder = stages_of(embedder)[0]
        self.within = self._usual_nearness(registry)

    def clusters(self, texts: Sequence[str], before: Sequence[str], firsts: Sequence[str]) -> tuple[Cluster, ...]:
        """The groups of at least `LEAST`, the largest first.

        Again and again the text with the most others around it is taken, with these; they are a group, and the rest is
        looked at again. At most the last `MOST_READ` texts are read.

        Args:
            texts: Requests without a flow.
            before: Those of the window before, to say what is new.
            firsts: The flow that recall had first for each of `texts`.
        """
        texts, firsts, before = texts[-MOST_READ:], firsts[-MOST_READ:], before[-MOST_READ:]
        rows, earlier = self._vectors(texts), self._vectors(before)
        near = (rows @ rows.T >= self.within) & np.any(rows, axis=1)[:, None]
        left = np.ones(len(texts), bool)
        found: list[Cluster] = []
        while left.any() and len(found) < _MOST_GROUPS:
            counts = (near & left).sum(axis=1) * left
            place = int(counts.argmax())
            if counts[place] < LEAST:
                break
            members = np.flatnonzero(near[place] & left)
            left[members] = False
            middle = unit_rows(rows[members].mean(axis=0, keepdims=True))[0]
            order = members[np.argsort(-(rows[members] @ middle), kind="stable")]
            shown = dict.fromkeys(texts[int(each)] for each in order)
            names = [firsts[int(each)] for each in members if firsts[int(each)]]
            found.append(
                Cluster(
                    size=len(members),
                    before=int((earlier @ middle >= self.within).sum()),
                    texts=tuple(shown)[:_SHOWN],
                    nearest=max(sorted(set(names)), key=names.count) if names else "",
                )
            )
        return tuple(sorted(found, key=lambda each: -each.size))

    def _vectors(self, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.zeros((0, self._embedder.dim), np.float32)
        return unit_rows(np.asarray(self._embedder.embed([printable(text) for text in texts]), np.float32))

    def _usual_nearness(self, registry: Mapping[str, BaseFlow]) -> float:
        """The median cosine of an example and the nearest other one of its flow."""
        flows = [flow for flow in registry.values() if len(flow.examples) > 1][:_MOST_FLOWS]
        rows = self._vectors([text for flow in flows for text in flow.examples])
        nearest: list[float] = []
        start = 0
        for flow in flows:
            own = rows[start : start + len(flow.examples)]
            start += len(flow.examples)
            cosines = own @ own.T
            np.fill_diagonal(cosines, -1.0)
            nearest += cosines.max(axis=1).tolist()
        usual = float(np.median(nearest)) if nearest else _USUAL
        return min(max(usual, _LOWEST), _HIGHEST)
