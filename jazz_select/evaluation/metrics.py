"""Measures of rankings, decisions and confidences: pure functions with the sources of their formulas.

A measure over no cases is None.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import fsum, isqrt, sqrt
from statistics import fmean

import numpy as np

Z95 = 1.959963984540054
"""The .975 quantile of the standard normal distribution, for 95 % intervals."""
_BINS = 10


def recall_at(ranking: Sequence[str], right: Collection[str], k: int) -> float:
    """Return the share of the right flows within the first `k` places.

    If there are more right flows than `k`, as many places count as there are right flows. `recall_at(…, 1)` of n flows
    is thus R-precision (Manning, Raghavan and Schütze, Introduction to Information Retrieval, 2008, section 8.4), and 1
    can always be reached.
    """
    wanted = set(right)
    return len(wanted.intersection(ranking[: max(k, len(wanted))])) / len(wanted)


def reciprocal_rank(ranking: Sequence[str], right: Collection[str]) -> float:
    """Return one over the rank of the first right flow; 0 if none is ranked (Voorhees, TREC-8, 1999)."""
    for rank, name in enumerate(ranking, 1):
        if name in right:
            return 1 / rank
    return 0.0


def depth_of(ranking: Sequence[str], right: Collection[str]) -> int | None:
    """Return the rank, from 1, by which all right flows are found; None if one is missing."""
    places = [place for place, name in enumerate(ranking, 1) if name in right]
    return max(places) if len(places) == len(set(right)) else None


def mean(values: Iterable[float]) -> float | None:
    """Return the mean, summed exactly."""
    kept = list(values)
    return fmean(kept) if kept else None


@dataclass(frozen=True, slots=True)
class Detection:
    """Detection of out-of-scope requests: counts and F1."""

    cases: int
    answered: int
    right: int

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[bool, bool]]) -> "Detection":
        """Count pairs of (none was expected, none was answered)."""
        given = list(pairs)
        return cls(
            cases=sum(expected for expected, _ in given),
            answered=sum(answered for _, answered in given),
            right=sum(expected and answered for expected, answered in given),
        )

    @property
    def f1(self) -> float | None:
        """The harmonic mean of precision and recall (van Rijsbergen, 1979); 0 if no rejection was right."""
        return 2 * self.right / (self.cases + self.answered) if self.cases else None


def interval(right: float, cases: int, z: float = Z95) -> tuple[float, float]:
    """Return the 95 % confidence interval of a share; (0, 1) for no cases.

    Wilson's score interval (Wilson, JASA 22, 1927; recommended for small numbers by Brown, Cai and DasGupta,
    Statistical Science 16, 2001).
    """
    if not cases:
        return 0.0, 1.0
    share = right / cases
    middle = (share + z * z / (2 * cases)) / (1 + z * z / cases)
    half = z / (1 + z * z / cases) * sqrt(share * (1 - share) / cases + z * z / (4 * cases * cases))
    # With no or only right answers, a bound is exactly 0 or 1, which rounding would miss.
    low = 0.0 if right == 0 else max(0.0, middle - half)
    high = 1.0 if right == cases else min(1.0, middle + half)
    return low, high


def calibration_error(sureness: Sequence[float], right: Sequence[bool]) -> float | None:
    """Return the expected calibration error: the mean difference between confidence and accuracy.

    Bins have about equal counts: at most ten, and no more than the square root of the cases. Confidences crowd near 1,
    so bins of equal width would be empty (Nguyen and O'Connor, EMNLP 2015). Equal confidences share a bin.
    """
    pairs = sorted(zip(sureness, right, strict=True))
    if not pairs:
        return None
    bins = max(1, min(_BINS, isqrt(len(pairs))))
    size = -(-len(pairs) // bins)  # rounded up
    gaps: list[float] = []
    begin = 0
    while begin < len(pairs):
        end = min(begin + size, len(pairs))
        # Equal confidences share a bin, since their order in the sorted pairs is arbitrary.
        while end < len(pairs) and pairs[end][0] == pairs[end - 1][0]:
            end += 1
        gaps.append(abs(fsum(sure - is_right for sure, is_right in pairs[begin:end])))
        begin = end
    return fsum(gaps) / len(pairs)


def separation(scores: Sequence[float], positive: Sequence[bool]) -> float | None:
    """Return P(a positive case scores higher than a negative one), ties counted half: the area under the ROC curve.

    Computed by ranks, as the Mann-Whitney statistic (Hanley and McNeil, Radiology 143, 1982). None unless there are
    cases of both kinds.
    """
    _, place, counts = np.unique(np.asarray(scores, float), return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2  # those that are equal have the mean of their ranks
    is_positive = np.asarray(positive, bool)
    positives, negatives = int(is_positive.sum()), int((~is_positive).sum())
    if not positives or not negatives:
        return None
    # U: the sum of the positives' ranks, less what it would be if they held the lowest ones.
    pairs_won = float(ranks[place][is_positive].sum() - positives * (positives + 1) / 2)
    return pairs_won / (positives * negatives)
