"""Two lists into one, by reciprocal rank that knows how far apart the ranks are. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jazz_select.ports import Key, Legs


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmScale:
    """How one arm's scores count."""

    width: float
    """The drop in score that is worth one rank; a typical distance between neighbours at the top of a list."""
    weight: float
    """How much the arm counts in the fusion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused:
    """One flow in the fused list."""

    key: Key
    score: float
    ranks: Mapping[str, int]
    scores: Mapping[str, float]


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
    fused = dict.fromkeys((*legs.dense, *legs.bm25), 0.0)
    if legs.dense:
        scale = scales["dense"]
        best = next(iter(legs.dense.values()))
        last = min(legs.dense.values())
        for key in fused:
            soft_rank = 1.0 + (best - legs.dense.get(key, last)) / scale.width
            fused[key] += scale.weight / (rrf_k + soft_rank)
    if legs.bm25:
        scale = scales["bm25"]
        best = max(next(iter(legs.bm25.values())), 1e-9)
        for key in fused:
            soft_rank = 1.0 + (1.0 - legs.bm25.get(key, 0.0) / best) / scale.width
            fused[key] += scale.weight / (rrf_k + soft_rank)
    return fused


def merged(whole: Mapping[Key, float], clauses: Sequence[Mapping[Key, float]], weight: float) -> dict[Key, float]:
    """The scores of a request and of its clauses: each flow gets its best clause's score, times `weight`, on top."""
    total = dict(whole)
    for key in {key for clause in clauses for key in clause}:
        best = max(clause.get(key, 0.0) for clause in clauses)
        total[key] = total.get(key, 0.0) + weight * best
    return total


def ranked(scores: Mapping[Key, float], legs: Legs) -> list[Fused]:
    """Best first, with rank and raw score in each arm; equal scores by dense rank, so that order never wavers."""
    dense = {key: rank for rank, key in enumerate(legs.dense, start=1)}
    bm25 = {key: rank for rank, key in enumerate(legs.bm25, start=1)}
    order = sorted(scores, key=lambda key: (-scores[key], dense.get(key, len(scores) + 1), key))
    return [
        Fused(
            key=key,
            score=scores[key],
            ranks={arm: places[key] for arm, places in (("dense", dense), ("bm25", bm25)) if key in places},
            scores={arm: leg[key] for arm, leg in (("dense", legs.dense), ("bm25", legs.bm25)) if key in leg},
        )
        for key in order
    ]
