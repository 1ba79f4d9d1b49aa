"""Two lists into one, by reciprocal rank that knows how far apart the ranks are. Pure."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import NamedTuple

from jazz_select.ports import Key, Legs

_TINY = 1e-9
"""The least that scores of words are divided by."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmScale:
    """How one arm's scores count."""

    width: float
    """The drop in score that is worth one rank; a typical distance between neighbours at the top of a list."""
    weight: float
    """How much the arm counts in the fusion."""


class Fused(NamedTuple):
    """One flow in the fused list."""

    key: Key
    score: float
    ranks: Mapping[str, int]
    scores: Mapping[str, float]


def with_numbers(legs: Legs) -> Legs:
    """Without what scored no number: weights that others wrote may be so large that an engine's sums overflow."""
    if isfinite(sum(legs.dense.values()) + sum(legs.bm25.values())):
        return legs
    _log.warning("flows of the index have scores that are no numbers, so passed over")
    dense, bm25 = ({key: score for key, score in leg.items() if isfinite(score)} for leg in (legs.dense, legs.bm25))
    return Legs(dense=dense, bm25=bm25, payloads=legs.payloads)


def soft_scores(legs: Legs, scales: Mapping[str, ArmScale], rrf_k: int) -> dict[Key, float]:
    """The fused score of each flow that an arm found.

    Reciprocal rank fusion sums w / (k + rank) over the arms (Cormack, Clarke and Büttcher 2009). Ranks throw away
    what scores know: whether the second is a close second. So the rank here is a soft one,
    1 + (best score - score) / width: it is the rank where neighbours lie a typical distance apart,
    near-ties share one, and a runaway leader leaves the others far behind. The lower `k`, the more the very top
    weighs, as ever. BM25 scores are taken relative to the best, since they grow with the length of the request.

    A flow that an arm did not find is no better there than the last one that it found: it is taken to lie where the
    last hit of the dense arm lies, and to score 0 in BM25. Were it to get nothing at all, the mere length of a list
    would decide who is lifted over the edge.
    """
    k = rrf_k + 1.0
    dense_weight, dense_width = scales["dense"].weight, scales["dense"].width
    bm25_weight, bm25_width = scales["bm25"].weight, scales["bm25"].width
    unsaid = bm25_weight / (k + 1.0 / bm25_width) if legs.bm25 else 0.0
    unseen = 0.0
    fused: dict[Key, float] = {}
    if legs.dense:
        best = max(legs.dense.values())
        fused = {key: dense_weight / (k + (best - score) / dense_width) + unsaid for key, score in legs.dense.items()}
        unseen = dense_weight / (k + (best - min(legs.dense.values())) / dense_width)
    if legs.bm25:
        best = max(*legs.bm25.values(), _TINY)
        for key, score in legs.bm25.items():
            said = bm25_weight / (k + (1.0 - score / best) / bm25_width)
            fused[key] = fused[key] - unsaid + said if key in fused else unseen + said
    return fused


def merged(whole: Mapping[Key, float], clauses: Sequence[Mapping[Key, float]], weight: float) -> dict[Key, float]:
    """The scores of a request and of its clauses: each flow gets its best clause's score, times `weight`, on top."""
    total = dict(whole)
    for key in {key for clause in clauses for key in clause}:
        best = max(clause.get(key, 0.0) for clause in clauses)
        total[key] = total.get(key, 0.0) + weight * best
    return total


def mixed(alone: Mapping[Key, float], widened: Mapping[Key, float], clarity: float) -> dict[Key, float]:
    """The scores of a request by itself and with its context, the former counting as far as it speaks for itself."""
    return {
        key: clarity * alone.get(key, 0.0) + (1.0 - clarity) * widened.get(key, 0.0)
        for key in dict.fromkeys((*alone, *widened))
    }


def ranked(scores: Mapping[Key, float], legs: Legs, best: Sequence[Key]) -> list[Fused]:
    """The flows of these keys, best first, with rank and raw score in each arm."""
    dense, bm25 = [*legs.dense], [*legs.bm25]
    found: list[Fused] = []
    for key in best:  # ten thousands of them where many are asked, so written out
        ranks: dict[str, int] = {}
        own: dict[str, float] = {}
        if key in legs.dense:
            ranks["dense"], own["dense"] = 1 + dense.index(key), legs.dense[key]
        if key in legs.bm25:
            ranks["bm25"], own["bm25"] = 1 + bm25.index(key), legs.bm25[key]
        found.append(Fused(key, scores[key], ranks, own))
    return found


def in_order(scores: Mapping[Key, float]) -> list[Key]:
    """Best first; of equal ones those that the dense arm found before others, so that order never wavers.

    Stable, and the dense arm's flows come first in `scores`. Of so few, to sort all is faster than to pick.
    """
    return sorted(scores, key=scores.__getitem__, reverse=True)
