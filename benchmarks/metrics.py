"""Rank metrics over lists of names, best first. Pure; each request may have several right answers."""

import math
from collections.abc import Collection, Sequence


def recall_at(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """The share of the right answers among the first `k`; with one right answer: 1 if it is there."""
    return sum(name in gold for name in ranked[:k]) / len(gold)


def complete_at(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """1 if every right answer is among the first `k`, else 0 (COMP@k)."""
    return float(set(gold) <= set(ranked[:k]))


def reciprocal_rank(ranked: Sequence[str], gold: Collection[str]) -> float:
    """One over the rank of the first right answer; 0 where none is listed."""
    return next((1 / rank for rank, name in enumerate(ranked, 1) if name in gold), 0.0)


def ndcg_at(ranked: Sequence[str], gold: Collection[str], k: int) -> float:
    """Gain of the first `k`, discounted by log2 of the rank, over the best gain possible (binary relevance)."""
    gain = math.fsum(1 / math.log2(rank + 1) for rank, name in enumerate(ranked[:k], 1) if name in gold)
    best = math.fsum(1 / math.log2(rank + 1) for rank in range(1, min(len(gold), k) + 1))
    return gain / best


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the values lie, interpolated between neighbours.

    Raises:
        ValueError: There are no values.
    """
    if not values:
        msg = "no values"
        raise ValueError(msg)
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def mean(values: Sequence[float]) -> float:
    """The mean; 0 of nothing. Summed exactly: from 3.12 on `sum` compensates, and its last digit is another."""
    return math.fsum(values) / len(values) if values else 0.0


def summary(lists: Sequence[Sequence[str]], golds: Sequence[Collection[str]]) -> dict[str, float]:
    """Every metric, averaged over the requests."""
    pairs = list(zip(lists, golds, strict=True))
    table = {f"R@{k}": mean([recall_at(ranked, gold, k) for ranked, gold in pairs]) for k in (1, 3, 5, 10)}
    table["MRR"] = mean([reciprocal_rank(ranked, gold) for ranked, gold in pairs])
    table["nDCG@10"] = mean([ndcg_at(ranked, gold, 10) for ranked, gold in pairs])
    if any(len(gold) > 1 for gold in golds):
        table |= {f"COMP@{k}": mean([complete_at(ranked, gold, k) for ranked, gold in pairs]) for k in (3, 5, 8)}
    return table
