"""Many requests read together: what both arms found for each, fused, ordered and weighed as matrices.

To the bit what `soft_scores` and `Evidence` say of each alone, in a fraction of the time: every number comes from the
same operations in the same order, on many at once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, repeat
from math import nan

import numpy as np
import numpy.typing as npt

from jazz_select.memory.fit.model import REFERENCE_K, SCALE, Evidence, Matrix, Reading, RecallModel, chance
from jazz_select.memory.fusion import TINY, ArmScale
from jazz_select.ports import Key, Legs

_WEIGHED = 10
"""Candidates whose chances are found at once; those further down are weighed one by one where somebody asks."""
FEW = 4
"""Below so many requests, matrices take longer than they save."""


def readings(model: RecallModel, rrf_k: int, found: Sequence[Legs], terms: Sequence[int]) -> list[Reading]:
    """What each of these legs says, of texts of so many lexical terms: as `Reading.of` each."""
    table = LegTable.of(found)
    fused = table.fused(model.scales, REFERENCE_K)
    scores = fused if rrf_k == REFERENCE_K else table.fused(model.scales, rrf_k)
    order = np.argsort(-fused, axis=1, kind="stable")
    places: list[list[int]] = order.tolist()
    told = _chances(table, found, model, fused, order, terms)
    rows = _listed(fused)
    scored = rows if scores is fused else _listed(scores)
    made: list[Reading] = []
    for number, (legs, keys) in enumerate(zip(found, table.keys, strict=True)):
        own = dict(zip(keys, rows[number], strict=False))
        by_key = own if scored is rows else dict(zip(keys, scored[number], strict=False))
        ordered = [keys[place] for place in places[number][: len(keys)]]
        evidence = Evidence.known(legs, own, terms[number], model.usual, order=ordered, chances=told[number])
        made.append(Reading(legs=legs, scores=by_key, evidence=evidence))
    return made


@dataclass(frozen=True, slots=True)
class LegTable:
    """Legs as rows: the flows of the dense arm first, then those that BM25 alone found.

    Attributes:
        keys: The flows of each row.
        dense: Their scores, shape (rows, width); NaN where the arm did not find them, and behind the last.
        bm25: Likewise.
        width: As many as the longest row has.
    """

    keys: list[list[Key]]
    dense: Matrix
    bm25: Matrix
    width: int

    @classmethod
    def of(cls, found: Sequence[Legs]) -> "LegTable":
        """Of these legs, a row each."""
        keys = [list({**legs.dense, **legs.bm25}) for legs in found]
        width = max(map(len, keys), default=0)
        dense = _filled([legs.dense.values() for legs in found], width)
        bm25 = _filled([map(legs.bm25.get, own, repeat(nan)) for legs, own in zip(found, keys, strict=True)], width)
        return cls(keys, dense, bm25, width)

    def fused(self, scales: Mapping[str, ArmScale], rrf_k: int) -> Matrix:
        """As `soft_scores`, operation by operation; minus infinity where a row has no flow."""
        if not self.width:
            return self.dense
        k = rrf_k + 1.0
        by_meaning, by_words = scales["dense"], scales["bm25"]
        near, said = ~np.isnan(self.dense), ~np.isnan(self.bm25)
        unsaid = np.where(said.any(axis=1), by_words.weight / (k + 1.0 / by_words.width), 0.0)[:, None]
        nearest = np.where(near, self.dense, -np.inf).max(axis=1, keepdims=True)
        farthest = np.where(near, self.dense, np.inf).min(axis=1, keepdims=True)
        top = np.maximum(np.where(said, self.bm25, -np.inf).max(axis=1, keepdims=True), TINY)
        with np.errstate(invalid="ignore"):  # of rows without a hit, which are left out below
            unseen: Matrix = by_meaning.weight / (k + (nearest - farthest) / by_meaning.width)
            unseen = np.where(near.any(axis=1, keepdims=True), unseen, 0.0)
            meant: Matrix = by_meaning.weight / (k + (nearest - self.dense) / by_meaning.width) + unsaid
            worded: Matrix = by_words.weight / (k + (1.0 - self.bm25 / top) / by_words.width)
            both: Matrix = np.where(said, meant - unsaid + worded, meant)
            fused: Matrix = np.where(near, both, unseen + worded)
        return np.where(near | said, fused, -np.inf)

    def reciprocal_ranks(self, scales: Mapping[str, ArmScale], rrf_k: int, wanted: Sequence[Key]) -> list[float]:
        """Of the wanted flow of each row, one for each; 0 where it was not found."""
        fused = self.fused(scales, rrf_k)
        ranks: list[float] = []
        for keys, row, key in zip(self.keys, fused, wanted, strict=True):
            ranks.append(1.0 / (1 + int((row > row[keys.index(key)]).sum())) if key in keys else 0.0)
        return ranks


def _chances(
    table: LegTable,
    found: Sequence[Legs],
    model: RecallModel,
    fused: Matrix,
    order: npt.NDArray[np.intp],
    terms: Sequence[int],
) -> list[dict[Key, float]]:
    """P(each of the first candidates is right), by key, of each row; empty where that is not known."""
    if model.confidence is None or not table.width:
        return [{} for _ in found]
    logits = _listed(model.confidence.of_all(_features(table, found, model, fused, order, terms)))
    best: list[list[int]] = order[:, :_WEIGHED].tolist()
    return [
        {keys[place]: chance(logit) for place, logit in zip(places, row, strict=True) if place < len(keys)}
        for keys, places, row in zip(table.keys, best, logits, strict=True)
    ]


def _listed(values: Matrix) -> list[list[float]]:
    return values.tolist()


def _filled(rows: Sequence[Iterable[float]], width: int) -> Matrix:
    """Rows of numbers, each filled up with NaN."""
    listed, rest = [list(row) for row in rows], [nan] * width
    return np.array([row + rest[len(row) :] for row in listed], dtype=np.float64).reshape(len(listed), width)


def _features(
    table: LegTable,
    found: Sequence[Legs],
    model: RecallModel,
    fused: Matrix,
    order: npt.NDArray[np.intp],
    terms: Sequence[int],
) -> list[Matrix]:
    """As `Evidence.candidate`, of the first `_WEIGHED` of this order; what stands for no flow is any number."""
    best = order[:, :_WEIGHED]
    usual, at = model.usual, model.usual.keyed.get
    expected = _filled([map(at, own, repeat(usual.mean)) for own in table.keys], table.width)
    near, said = ~np.isnan(table.dense), ~np.isnan(table.bm25)
    floor = np.where(near, table.dense, np.inf).min(axis=1, keepdims=True)
    floor = np.where(np.isinf(floor), 0.0, floor)
    by_words = _filled([islice(chain(legs.bm25.values(), (0.0, 0.0)), 2) for legs in found], 2)
    by_meaning = np.nan_to_num(np.pad(table.dense, ((0, 0), (0, 2)), constant_values=nan)[:, :2])
    leaders = np.pad(np.take_along_axis(fused, order[:, :2], axis=1), ((0, 0), (0, 1)), constant_values=-np.inf)[:, :2]
    nearer = np.where(near, table.dense - expected, -np.inf)
    nearest = -np.sort(-np.pad(nearer, ((0, 0), (0, 2)), constant_values=-np.inf), axis=1)[:, :2]
    dense = _at(np.where(near, table.dense, floor), best)
    words = _at(np.where(said, table.bm25, 0.0), best)
    unusual = dense - _at(expected, best)
    return [
        SCALE * _lead(_some(_at(fused, best)), _some(leaders)),
        dense,
        _lead(dense, by_meaning),
        _lead(words, by_words) / np.maximum(by_words[:, :1], TINY),
        words / np.maximum(np.array(terms, dtype=np.float64), 1.0)[:, None],
        unusual,
        _lead(unusual, _some(nearest)),
    ]


def _at(values: Matrix, places: npt.NDArray[np.intp]) -> Matrix:
    return np.take_along_axis(values, places, axis=1)


def _some(values: Matrix) -> Matrix:
    """0 where there is nothing."""
    return np.where(np.isinf(values), 0.0, values)


def _lead(scores: Matrix, best: Matrix) -> Matrix:
    """Ahead of the best other one; below 0 for one that is behind."""
    first, second = best[:, :1], best[:, 1:]
    return scores - np.where(scores >= first, second, first)
