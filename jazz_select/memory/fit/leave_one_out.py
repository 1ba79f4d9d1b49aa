"""Leave-one-out: every example is asked against the whole catalogue, its own flow without it. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum, isfinite
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt

from jazz_select.memory.encoder import (
    Lexical,
    TermCounts,
    indexable,
    own_worth,
    prototype,
    reads_stop_words,
    unit,
)
from jazz_select.memory.fit.model import CosineScaling
from jazz_select.ports import ArmHits, SparseVector, Vectors
from jazz_select.values import FlowCard

FOLDS = 5
"""Folds of cross-validation: the transform of an example is fitted without its fold."""
_FEWEST_TO_TELL = 2
_ALIKE, _SURMISED = 0.5, 20.0
"""Prior of the mean cosine of two examples of one flow, and its weight in examples."""
NEIGHBOURS = 0.1
"""Share of a catalogue that counts as one flow's neighbourhood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """A labelled request with the scores of both arms for every flow."""

    flow: int
    dense: Vectors
    bm25: Vectors
    terms: int

    def legs(self, depth: int, *, without: Sequence[int] = ()) -> ArmHits:
        """Return the legs as an engine would, for a catalogue without these flows."""
        dense, bm25 = self.dense, self.bm25
        if len(without):
            dense, bm25 = dense.copy(), bm25.copy()
            dense[without], bm25[without] = -np.inf, 0.0
        dense_top, bm25_top = _top(dense, depth), _top(bm25, depth)
        return ArmHits(
            dense={
                key: score for key, score in zip(dense_top, dense[dense_top].tolist(), strict=True) if isfinite(score)
            },
            bm25={key: score for key, score in zip(bm25_top, bm25[bm25_top].tolist(), strict=True) if score > 0},
            payloads={},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lessons:
    """Labelled requests with the prototypes of their own flows and of the rivals."""

    requests: Vectors
    right: Vectors
    """Prototype of each request's flow without the request, shape (requests, dim)."""
    wrong: Vectors
    """Prototypes of its rivals, shape (requests, rivals, dim)."""
    allowed: npt.NDArray[np.bool_]
    """Which of them count as rivals, shape (requests, rivals)."""
    folds: npt.NDArray[np.int_]
    own_worth: float

    def without(self, fold: int) -> "Lessons":
        """Return the requests of the other folds."""
        kept = self.folds != fold
        return replace(self, **{each: getattr(self, each)[kept] for each in _OF_EACH})


_OF_EACH = ("requests", "right", "wrong", "allowed", "folds")


def measure_scaling(examples: Sequence[Vectors]) -> CosineScaling:
    """Measure how alike the examples of one flow are, by the vectors of each flow's."""
    total, weight = _ALIKE * _SURMISED, _SURMISED
    for vectors in examples:
        count = len(vectors)
        if count <= 1 or not vectors.any():
            continue
        # The squared length of a sum of unit vectors is count + count · (count - 1) · mean cosine; solved for that.
        together = np.square(vectors.sum(axis=0)).sum() / np.square(vectors).sum()
        total += count * (float(together) - 1) / (count - 1)
        weight += count
    scaling = CosineScaling(alike=max(0.0, total / weight))
    factors = [scaling.factor_for(len(vectors)) for vectors in examples]
    return replace(scaling, median=float(np.median(factors)))


class LeaveOneOut:
    """A catalogue with the vectors of its texts, as it would be indexed; `prototypes` have the shape (flows, dim)."""

    def __init__(
        self,
        cards: Sequence[FlowCard],
        rows: Mapping[str, Vectors],
        lexical: Lexical,
        *,
        terms: TermCounts | None = None,
    ) -> None:
        self.cards = cards
        self._rows = [rows[card.id] for card in cards]
        self._lexical = lexical
        self._worths = [own_worth(card) for card in cards]
        prototypes: list[Vectors] = []
        examples: list[Vectors] = []
        for card, own, worth in zip(cards, self._rows, self._worths, strict=True):
            prototypes.append(prototype(card, own, worth=worth))
            examples.append(own[len(own) - len(card.examples) :])
        self.prototypes = np.stack(prototypes)
        self.lengths = measure_scaling(examples)
        factors = [self.lengths.factor_for(len(card.examples)) for card in cards]
        self._evening = np.array(factors, dtype=np.float32)
        self._counts = [lexical.count_card_terms(card) for card in cards]
        documents = list(map(lexical.document, cards, self._counts))
        self._words = Postings(documents, terms or TermCounts.from_documents(map(lexical.terms, cards)))
        self._less: dict[tuple[int, int], Vectors] = {}

    def residuals(self, *, without_fold: int | None = None) -> Vectors:
        """Return each example's vector minus the mean of its flow, shape (examples, dim)."""
        parts: list[Vectors] = []
        for card, rows in zip(self.cards, self._rows, strict=True):
            if len(card.examples) > 1:
                examples = rows[-len(card.examples) :]
                if without_fold is not None:
                    examples = examples[np.arange(len(examples)) % FOLDS != without_fold]
                if len(examples) > 1:
                    parts.append(examples - examples.mean(axis=0))
        return np.vstack(parts) if parts else np.zeros((0, self.prototypes.shape[1]), dtype=np.float32)

    def lessons(self, limit: int, rivals: int) -> "Lessons | None":
        """Return at most `limit` examples with their flow and the nearest `rivals` without that example; else None."""
        spread = self._spread(limit)
        if not spread or len(self.cards) < _FEWEST_TO_TELL:
            return None
        vectors = np.stack([self._example(flow, example) for flow, example in spread])
        nearness = vectors @ self.prototypes.T
        having: dict[str, list[int]] = {}
        for number, card in enumerate(self.cards):
            for text in card.examples:
                having.setdefault(text, []).append(number)
        # A flow with the very same example is no rival: nothing tells the two apart.
        for row, (flow, example) in enumerate(spread):
            text = self.cards[flow].examples[example]
            nearness[row, having[text]] = -np.inf
        count = min(rivals, len(self.cards) - 1)
        nearest = np.argpartition(-nearness, count - 1, axis=1)[:, :count]
        taught = {flow for flow, _ in spread}
        return Lessons(
            requests=vectors,
            right=np.stack([self._prototype_without(flow, example) for flow, example in spread]),
            wrong=self.prototypes[nearest],
            allowed=np.isfinite(np.take_along_axis(nearness, nearest, axis=1)),
            folds=np.array([example % FOLDS for _, example in spread]),
            own_worth=fmean(self._worths[flow] for flow in taught),
        )

    def ask_examples(self, transforms: Sequence[Vectors | None], limit: int) -> Iterator[HeldOut]:
        """Ask at most `limit` examples, spread evenly over the flows, each against its flow without it."""
        for flow, example in self._spread(limit):
            yield self.ask_example(flow, example, transforms)

    def ask_example(self, flow: int, example: int, transforms: Sequence[Vectors | None]) -> HeldOut:
        """Ask one example, by the places of its flow and in it, against its flow without it."""
        aimed = _apply_transform(self._example(flow, example), transforms[example % FOLDS])
        dense = self.prototypes @ aimed
        dense[flow] = self._prototype_without(flow, example) @ aimed
        dense *= self._evening
        query = self._lexical.query(indexable(self.cards[flow].examples[example]))
        bm25 = self._words.scores(query)
        bm25[flow] = self._words.score(self._document_without(flow, example, query), query)
        return HeldOut(flow=flow, dense=dense, bm25=bm25, terms=len(query.indices) if query else 0)

    def ask(self, text: str, vector: Vectors, flow: int, transform: Vectors | None) -> HeldOut:
        """Ask a labelled request that is no example."""
        query = self._lexical.query(indexable(text))
        dense = self.prototypes @ _apply_transform(vector, transform) * self._evening
        return HeldOut(flow=flow, dense=dense, bm25=self._words.scores(query), terms=len(query.indices) if query else 0)

    def neighbourhood(self, flow: int) -> list[int]:
        """Return a flow and its nearest flows: `NEIGHBOURS` of the catalogue, at least one other."""
        return _top(self.prototypes @ self.prototypes[flow], max(2, round(NEIGHBOURS * len(self.cards))))

    def _example(self, flow: int, example: int) -> Vectors:
        return self._rows[flow][example - len(self.cards[flow].examples)]

    def _prototype_without(self, flow: int, example: int) -> Vectors:
        known = self._less.get((flow, example))
        if known is None:
            known = prototype(self.cards[flow], self._rows[flow], without=example, worth=self._worths[flow])
            self._less[flow, example] = known
        return known

    def _document_without(self, flow: int, example: int, query: SparseVector | None) -> Mapping[int, float]:
        """Return the weights of the query's terms in the flow's document without an example.

        Terms are counted by part, so the example's are subtracted and nothing is read again.
        """
        card = self.cards[flow]
        others = tuple(text for number, text in enumerate(card.examples) if number != example)
        rest = replace(card, examples=others, text="")
        stop_words = reads_stop_words(card)
        if reads_stop_words(rest) != stop_words:
            left = self._lexical.document(rest)
            return dict(zip(left.indices, left.values, strict=True))
        counts = self._counts[flow]
        less = self._lexical.count_terms([indexable(card.examples[example])], stop_words=stop_words)
        length = counts.total() - less.total()
        weights: dict[int, float] = {}
        for term in query.indices if query else ():
            count = counts[term] - less[term]
            if count > 0:
                weights[term] = self._lexical.weight(count, length)
        return weights

    def _spread(self, limit: int) -> list[tuple[int, int]]:
        """Return flows and examples by index: the first example of every flow, then the second, and so on."""
        deepest = max((len(card.examples) for card in self.cards), default=0)
        spread: list[tuple[int, int]] = []
        for example in range(deepest):
            for flow, card in enumerate(self.cards):
                if len(spread) == limit:
                    return spread
                if 1 < len(card.examples) > example:  # without its only example a flow is not itself
                    spread.append((flow, example))
        return spread


class Postings:
    """An inverted index like the engine's, for many requests at once."""

    def __init__(self, vectors: Sequence[SparseVector], counts: TermCounts) -> None:
        """Index these documents of a catalogue with these counts."""
        self._size = len(vectors)
        tokens = np.array([token for vector in vectors for token in vector.indices], dtype=np.int64)
        weights = np.array([weight for vector in vectors for weight in vector.values], dtype=np.float32)
        documents = np.repeat(np.arange(self._size), [len(vector.indices) for vector in vectors])
        # One sort and a view per token: an array made for each of them took half the time of all.
        order = np.argsort(tokens, kind="stable")
        known, starts, lengths = np.unique(tokens[order], return_index=True, return_counts=True)
        rarities = [counts.rarity(token) for token in known.tolist()]
        documents = documents[order]
        weights = weights[order] * np.repeat(np.array(rarities, dtype=np.float32), lengths)
        self._rarity = dict(zip(known.tolist(), rarities, strict=True))
        self._lists: dict[int, tuple[Any, Any]] = {}
        for token, start, length in zip(known.tolist(), starts.tolist(), lengths.tolist(), strict=True):
            end = start + length
            self._lists[token] = (documents[start:end], weights[start:end])

    def scores(self, query: SparseVector | None) -> Vectors:
        """Return the BM25 scores of all documents, shape (documents,)."""
        total = np.zeros(self._size, dtype=np.float32)
        for token in query.indices if query else ():
            if token in self._lists:
                numbers, weights = self._lists[token]
                total[numbers] += weights
        return total

    def score(self, weights: Mapping[int, float], query: SparseVector | None) -> float:
        """Return the BM25 score of a document that is not indexed, from the weights of its terms."""
        return fsum(
            weights[token] * self._rarity[token]
            for token in (query.indices if query else ())
            if token in weights and token in self._rarity
        )


def _apply_transform(vector: Vectors, transform: Vectors | None) -> Vectors:
    if transform is None:
        return vector
    return unit(vector @ transform)


def _top(scores: Vectors, depth: int) -> list[int]:
    if len(scores) > depth:
        found = np.argpartition(-scores, depth)[:depth]
        return [int(key) for key in found[np.argsort(-scores[found], kind="stable")]]
    return [int(key) for key in np.argsort(-scores, kind="stable")]
