"""Which corrections agree with what is around them, and which of them say something new."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from jazz_select.evaluation.lessons.corrections import Correction, Refused
from jazz_select.evaluation.route import DEPTH, Route
from jazz_select.flow.base import BaseFlow
from jazz_select.memory.embedders.static import unit_rows
from jazz_select.memory.encoder import printable
from jazz_select.ports import Embedder, Vectors, stages_of

_NEAR_COPY: Final = 0.95
"""Cosine from which on a text says what another one of its flow says already."""
_BELIEVED: Final = 4
"""A flow that recall has among its first ten for a request, or in the first quarter of fewer than forty flows, may well
be the right one."""
_CHUNK: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What can become examples, the most telling first, and what cannot."""

    examples: tuple[Correction, ...] = ()
    refused: tuple[Refused, ...] = ()


class Neighbourhood:
    """The texts that stand for flows, as vectors: their examples, and the corrections beside them."""

    def __init__(self, registry: Mapping[str, BaseFlow], embedder: Embedder) -> None:
        """Embed the examples of these flows."""
        self._embedder = stages_of(embedder)[0]
        self._count = len(registry)
        self._flows = [flow.name for flow in registry.values() for _ in flow.examples]
        self._rows = self.vectors([text for flow in registry.values() for text in flow.examples])

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """A unit row for each text."""
        if not texts:
            return np.zeros((0, self._embedder.dim), np.float32)
        return unit_rows(np.asarray(self._embedder.embed([printable(text) for text in texts]), np.float32))

    def chosen(
        self,
        corrections: Sequence[Correction],
        led: Sequence[Route],
        *,
        taken: Mapping[str, int],
        most: int,
        most_confirmed: int,
    ) -> Chosen:
        """The corrections to learn from.

        Held back is what nothing speaks for: recall does not have the flow among its first for the request, and
        the nearest text to it, among examples and other corrections, is another flow's. Left out is what a text of the
        flow says already, and what is more than `most` texts for one flow. First come requests that are led wrongly,
        then those that recall is least sure of.

        Args:
            corrections: Each for one flow.
            led: Where each of them leads before anything is learned.
            taken: How many texts each flow has learned before, by its name.
            most: Texts that one flow learns at most, with those.
            most_confirmed: Of these, requests that lead to their flow already.
        """
        rows = self.vectors([each.request for each in corrections])
        doubted = self._doubted(corrections, rows, led)
        order = sorted(
            (place for place in range(len(corrections)) if place not in doubted),
            key=lambda place: (led[place].first == corrections[place].flow, led[place].confidence or 0.0, place),
        )
        own: defaultdict[str, list[Vectors]] = defaultdict(list)
        for name, row in zip(self._flows, self._rows, strict=True):
            own[name].append(row)
        counts, confirmed = defaultdict[str, int](int, taken), defaultdict[str, int](int)
        kept: list[int] = []
        refused = [_refused(corrections[place], _DOUBT) for place in sorted(doubted)]
        for place in order:
            name, is_led = corrections[place].flow, led[place].first == corrections[place].flow
            if own[name] and float((np.stack(own[name]) @ rows[place]).max()) >= _NEAR_COPY:
                refused.append(_refused(corrections[place], "an example of the flow says it already"))
            elif counts[name] >= most or (is_led and confirmed[name] >= most_confirmed):
                why = "it leads there already" if is_led else f"the flow learns {most} others"
                refused.append(_refused(corrections[place], why))
            else:
                kept.append(place)
                own[name].append(rows[place])
                counts[name] += 1
                confirmed[name] += is_led
        return Chosen(examples=tuple(corrections[place] for place in kept), refused=tuple(refused))

    def _doubted(self, corrections: Sequence[Correction], rows: Vectors, led: Sequence[Route]) -> set[int]:
        """Places of corrections that nothing speaks for."""
        believed = min(DEPTH, max(1, self._count // _BELIEVED))
        asked = [place for place, each in enumerate(corrections) if each.flow not in led[place].ranking[:believed]]
        flows = np.array([*self._flows, *(each.flow for each in corrections)])
        texts = np.concatenate([self._rows, rows])
        doubted: set[int] = set()
        for start in range(0, len(asked), _CHUNK):
            places = asked[start : start + _CHUNK]
            near = rows[places] @ texts.T
            for line, place in enumerate(places):
                near[line, len(self._flows) + place] = -2.0  # no text speaks for itself
                if len(texts) > 1 and flows[int(near[line].argmax())] != corrections[place].flow:
                    doubted.add(place)
        return doubted


def blamed(
    lost: Sequence[tuple[str, str]], learned: Sequence[Correction], neighbourhood: Neighbourhood
) -> tuple[int, ...]:
    """Places of the learned examples that took requests away from their flows.

    Args:
        lost: Each request that was led rightly, and the flow that it is led to now.
        learned: The examples that were added.
        neighbourhood: Who makes vectors.
    """
    rows = neighbourhood.vectors([each.request for each in learned])
    asked = neighbourhood.vectors([text for text, _ in lost])
    blame: set[int] = set()
    for row, (_, flow) in zip(asked, lost, strict=True):
        own = [place for place, each in enumerate(learned) if each.flow == flow]
        if own:
            blame.add(own[int((rows[own] @ row).argmax())])
    return tuple(sorted(blame))


_DOUBT: Final = "neither recall nor any text near it speaks for this flow: a person should look"


def _refused(correction: Correction, why: str) -> Refused:
    return Refused(request=correction.request, right=correction.right, why=why, ids=correction.ids)
