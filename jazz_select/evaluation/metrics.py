"""Measures of a ranking, of a decision and of sureness: pure functions, each with the source of its formula.

None stands for a measure of nothing: there is no share of no cases.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import fsum, isqrt, sqrt
from statistics import fmean
from typing import Any

import numpy as np

Z95 = 1.959963984540054
"""Standard normal quantile of .975: standard errors to either side of an interval of 95 %."""
_BINS = 10


def recall_at(ranking: Sequence[str], right: Collection[str], k: int) -> float:
    """The share of the right flows that are found within the first `k` places.

    Several right flows cannot all stand first: where there are more of them than `k`, as many places are looked at as
    there are right flows. `recall_at(…, 1)` of n flows is R-precision (Manning, Raghavan and Schütze, Introduction to
    Information Retrieval, 2008, section 8.4), and 1 can always be reached.
    """
    wanted = set(right)
    return len(wanted.intersection(ranking[: max(k, len(wanted))])) / len(wanted)


def reciprocal_rank(ranking: Sequence[str], right: Collection[str]) -> float:
    """One over the rank of the first right flow, 0 where none is ranked (Voorhees, TREC-8, 1999)."""
    return next((1 / rank for rank, name in enumerate(ranking, 1) if name in right), 0.0)


def depth_of(ranking: Sequence[str], right: Collection[str]) -> int | None:
    """The place, from 1, down to which all right flows are found; None where one is not."""
    places = [place for place, name in enumerate(ranking, 1) if name in right]
    return max(places) if len(places) == len(set(right)) else None


def mean(values: Iterable[float]) -> float | None:
    """The mean, summed exactly."""
    kept = list(values)
    return fmean(kept) if kept else None


@dataclass(frozen=True, slots=True)
class Detection:
    """How well "no flow fits" is told from the rest."""

    cases: int
    said: int
    right: int

    @classmethod
    def of(cls, pairs: Iterable[tuple[bool, bool]]) -> "Detection":
        """Of (none was expected, none was said), one pair for each case."""
        given = list(pairs)
        return cls(
            cases=sum(expected for expected, _ in given),
            said=sum(said for _, said in given),
            right=sum(expected and said for expected, said in given),
        )

    @property
    def precision(self) -> float | None:
        """Of those that were told so, the share that is right; None where nobody was."""
        return self.right / self.said if self.said else None

    @property
    def recall(self) -> float | None:
        """Of those that expect it, the share that was told so; None where nobody expects it."""
        return self.right / self.cases if self.cases else None

    @property
    def f1(self) -> float | None:
        """The harmonic mean of both (van Rijsbergen, 1979); 0 where nothing right was said."""
        return 2 * self.right / (self.cases + self.said) if self.cases else None

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        shares = {"precision": self.precision, "recall": self.recall, "f1": self.f1}
        return {"requests": self.cases, "said": self.said, "right": self.right, **shares}


def interval(right: float, cases: int, z: float = Z95) -> tuple[float, float]:
    """Between what and what a share lies that was seen as `right` of `cases`, with 95 % confidence.

    Wilson's score interval (Wilson, JASA 22, 1927; recommended for small numbers by Brown, Cai and DasGupta,
    Statistical Science 16, 2001). Of no cases it is (0, 1).
    """
    if not cases:
        return 0.0, 1.0
    share = right / cases
    middle = (share + z * z / (2 * cases)) / (1 + z * z / cases)
    half = z / (1 + z * z / cases) * sqrt(share * (1 - share) / cases + z * z / (4 * cases * cases))
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return (0.0 if right == 0 else low), (1.0 if right == cases else high)


def calibration_error(sureness: Sequence[float], right: Sequence[bool]) -> float | None:
    """The expected calibration error: by how much, on average, sureness lies beside the share that is right.

    Bins of about equal counts, at most ten and no more than the root of the cases (Nguyen and O'Connor, EMNLP 2015:
    sureness crowds near 1, and empty bins of equal width say nothing); what is equally sure is in one bin.
    """
    pairs = sorted(zip(sureness, right, strict=True))
    if not pairs:
        return None
    size = -(-len(pairs) // max(1, min(_BINS, isqrt(len(pairs)))))
    gaps: list[float] = []
    begin = 0
    while begin < len(pairs):
        end = min(begin + size, len(pairs))
        while end < len(pairs) and pairs[end][0] == pairs[end - 1][0]:
            end += 1
        gaps.append(abs(fsum(sure - is_right for sure, is_right in pairs[begin:end])))
        begin = end
    return fsum(gaps) / len(pairs)


def separation(scores: Sequence[float], positive: Sequence[bool]) -> float | None:
    """P(a positive case scores higher than a negative one), ties counted half: the area under the ROC curve.

    By ranks, as the Mann-Whitney statistic (Hanley and McNeil, Radiology 143, 1982). None without cases of both kinds.
    """
    _, place, counts = np.unique(np.asarray(scores, float), return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2  # those that are equal have the mean of their ranks
    is_positive = np.asarray(positive, bool)
    positives, negatives = int(is_positive.sum()), int((~is_positive).sum())
    if not positives or not negatives:
        return None
    return float(ranks[place][is_positive].sum() - positives * (positives + 1) / 2) / (positives * negatives)
