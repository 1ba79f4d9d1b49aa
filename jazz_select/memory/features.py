"""The evidence in what both arms found: for one candidate, and for there being any right one. Pure."""

from collections.abc import Mapping
from heapq import nlargest
from itertools import islice

from jazz_select.ports import Key, Legs

REFERENCE_K = 10
"""Evidence is weighed with this constant whatever `rrf_k` a caller orders by, so that its meaning never changes."""

_SCALE = 100.0


class Evidence:
    """Reads one request's legs; each number it gives is larger the more speaks for the candidate."""

    def __init__(self, legs: Legs, fused: Mapping[Key, float], terms: int) -> None:
        """Take the legs of a request of so many lexical terms, and their fusion at `REFERENCE_K`."""
        self._legs = legs
        self._terms = max(terms, 1)
        self._fused = fused
        self._floor = min(legs.dense.values(), default=0.0)
        self._best = {
            "fused": _two_best(self._fused),
            "dense": _first_two(legs.dense),
            "bm25": _first_two(legs.bm25),
        }
        self._top_bm25 = max(self._best["bm25"][0], 1e-9)

    def candidate(self, key: Key) -> tuple[float, ...]:
        """For this flow being right: its lead over all others, fused and per arm, its cosine, and words matched."""
        dense = self._legs.dense.get(key, self._floor)
        words = self._legs.bm25.get(key, 0.0)
        return (
            _SCALE * _lead(self._fused.get(key, 0.0), self._best["fused"]),
            dense,
            _lead(dense, self._best["dense"]),
            _lead(words, self._best["bm25"]) / self._top_bm25,
            words / self._terms,
        )

    def scope(self) -> tuple[float, ...]:
        """For any flow being right: the best cosine, the best share of words matched, and whether the arms agree."""
        dense, words = self._best["dense"], self._best["bm25"]
        leader = next(iter(self._legs.dense), None)
        agreed = self._legs.bm25.get(leader, 0.0) / self._top_bm25 if leader is not None else 0.0
        return (dense[0], words[0] / self._terms, agreed)


def _two_best(scores: Mapping[Key, float]) -> tuple[float, float]:
    best, second = (*nlargest(2, scores.values()), 0.0, 0.0)[:2]
    return best, second


def _first_two(leg: Mapping[Key, float]) -> tuple[float, float]:
    """As `_two_best`, of what is in order already."""
    best, second = (*islice(leg.values(), 2), 0.0, 0.0)[:2]
    return best, second


def _lead(score: float, best: tuple[float, float]) -> float:
    """Ahead of the best other one; below 0 for one that is behind."""
    return score - (best[1] if score >= best[0] else best[0])
