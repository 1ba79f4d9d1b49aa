"""Where new requests would lie in a catalogue: which flow is nearest to each, and which of them say something new."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from jazz_select.evaluation.checks.nearness import standing_out, together
from jazz_select.evaluation.checks.sameness import Sames
from jazz_select.evaluation.checks.wording import is_unwritten
from jazz_select.flow.base import BaseFlow
from jazz_select.memory.encoder import Encoder, printable
from jazz_select.memory.fit.leave_one_out import LeaveOneOut
from jazz_select.ports import Vectors

_USUAL = 0.95
"""Of all examples, the share whose likeness to the nearest of their flow counts as usual."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A catalogue's flows where they lie, ready to place requests in it.

    Attributes:
        known: All examples, so that none is suggested again.
    """

    known: Sames
    _flows: Sequence[BaseFlow]
    _encoder: Encoder
    _catalogue: LeaveOneOut
    _examples: dict[str, Vectors]
    _usual: float

    @classmethod
    def of(cls, flows: Sequence[BaseFlow], encoder: Encoder) -> Self | None:
        """Embed the catalogue; None where no flow has an example.

        Raises:
            EmbeddingError: The embedder failed.
        """
        if not any(flow.examples for flow in flows):
            return None
        cards = [flow.card() for flow in flows]
        rows = encoder.rows(cards)
        own = {card.id: encoder.of_stage(0, rows[card.id]) for card in cards}
        examples = {card.name: own[card.id][len(own[card.id]) - len(card.examples) :] for card in cards}
        return cls(
            known=Sames((text for flow in flows for text in flow.examples), numbers=True),
            _flows=flows,
            _encoder=encoder,
            _catalogue=LeaveOneOut(cards, own, encoder.lexical),
            _examples=examples,
            _usual=_nearest_usual(list(examples.values())),
        )

    def holds(self, flow: str) -> bool:
        """Whether it has a flow of this name."""
        return flow in self._examples

    def first(self, texts: Sequence[str]) -> list[str]:
        """The name of the flow that lies nearest to each request, by meaning and words as `check` weighs them.

        Raises:
            EmbeddingError: The embedder failed.
        """
        if not texts:
            return []
        vectors = self._vectors(texts)
        heard = [self._catalogue.ask(text, vector, 0, None) for text, vector in zip(texts, vectors, strict=True)]
        dense, words = (np.stack([getattr(each, arm) for each in heard]) for arm in ("dense", "bm25"))
        scores = together(standing_out(dense), standing_out(words))
        return [self._flows[int(place)].name for place in scores.argmax(axis=1)]

    def diverse(self, flow: str, texts: Sequence[str], taken: Sequence[str], most: int) -> list[str]:
        """At most so many of these that are unlike the flow's examples, those taken, and each other; the newest first.

        Raises:
            EmbeddingError: The embedder failed.
        """
        if not texts:
            return []
        vectors, have = self._vectors(texts), self._examples[flow]
        if taken:
            have = np.vstack([have, self._vectors(taken)])
        kept: list[int] = []
        sames = [Sames([text], numbers=True) for text in texts]
        nearest = (vectors @ have.T).max(axis=1) if len(have) else np.full(len(texts), -1.0)
        while len(kept) < most:
            left = [
                place
                for place in range(len(texts))
                if place not in kept
                and nearest[place] <= self._usual
                and not any(sames[other].of(texts[place]) for other in kept)
            ]
            if not left:
                break
            newest = min(left, key=lambda place: float(nearest[place]))
            kept.append(newest)
            nearest = np.maximum(nearest, vectors @ vectors[newest])
        return [texts[place] for place in kept]

    def neighbours(self, flow: BaseFlow, count: int) -> list[BaseFlow]:
        """The flows that lie nearest to this one."""
        mine = next(place for place, each in enumerate(self._flows) if each is flow)
        near = np.argsort(-(self._catalogue.prototypes @ self._catalogue.prototypes[mine]), kind="stable")
        return [self._flows[int(place)] for place in near if int(place) != mine][:count]

    def is_placeholder(self, text: str) -> bool:
        """Whether it is none that anybody would send."""
        return is_unwritten(text)

    def _vectors(self, texts: Sequence[str]) -> Vectors:
        return self._encoder.of_stage(0, self._encoder.embed([printable(text) for text in texts]))


def _nearest_usual(examples: Sequence[Vectors]) -> float:
    """How like its nearest neighbour a new example may be: halfway from what most are to 1."""
    found: list[float] = []
    for rows in examples:
        if len(rows) > 1:
            like = rows @ rows.T
            np.fill_diagonal(like, -1)
            found.extend(map(float, like.max(axis=1)))
    return (1 + max(float(np.quantile(found, _USUAL)), 0.0)) / 2 if found else 1.0
