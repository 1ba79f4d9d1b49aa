"""Calibration of the stages by labelled requests: Platt lines, and fitting them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import exp, log
from typing import Annotated, Final

from jazz_select.arguments import Constraint, Count, checked
from jazz_select.serialization import JsonData

_PRECISION: Final = (1_000.0, 4.0)
"""Precision of the priors that hold the slope to 1 and the shift to 0. A hundred requests show the overall error rate,
but say little about the few surest answers: a slope fitted to those alone would be mostly noise."""
_EDGE: Final = 1e-6


def log_odds(chance: float) -> float:
    """Return the log odds of a probability, which is first clipped away from 0 and 1."""
    inside = min(max(chance, _EDGE), 1 - _EDGE)
    return log(inside / (1 - inside))


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Platt scaling of a probability: P = 1 / (1 + exp(-(shift + slope · log odds))). The default changes nothing.

    The slope is positive: a falling line would make the surest answer the least sure.
    """

    slope: Annotated[float, Constraint("a number above 0 and below 1,000", gt=0, lt=1_000)] = 1.0
    shift: Annotated[float, Constraint("a number between -1,000 and 1,000", gt=-1_000, lt=1_000)] = 0.0
    cases: Count = 0
    """Number of labelled requests that the line was fitted to."""

    @property
    def is_identity(self) -> bool:
        """Whether it changes no probability."""
        return (self.slope, self.shift) == (1.0, 0.0)

    def __call__(self, chance: float) -> float:
        """Return the calibrated probability. 0 and 1 stay: they are known, not estimated."""
        if not 0 < chance < 1 or self.is_identity:
            return chance
        return 1 / (1 + exp(-max(-_SUREST, min(_SUREST, self.shift + self.slope * log_odds(chance)))))


_SUREST: Final = 30.0
"""Largest log odds that a line returns, in either direction: an estimate is never certain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration(JsonData):
    """The calibration lines of the stages, fitted to labelled requests. The default leaves every confidence as it is.

    `recall` is for recall's confidence, `decider` for that of recall and decision model together. `lost` is the number
    of labelled requests that the decision model did not answer.
    """

    recall: Line = field(default_factory=Line)
    decider: Line = field(default_factory=Line)
    lost: int = 0


def fit_line(outcomes: Iterable[tuple[float, bool]]) -> Line:
    """Fit a line to pairs of (claimed probability, whether it was right), with a prior that favours no change.

    The slope is at least .05, so that the line rises.
    """
    answers = list(outcomes)
    if not answers:
        return Line()
    import numpy as np

    from jazz_select.memory.fit.sureness import newton

    claimed = np.array([[log_odds(chance)] for chance, _ in answers])
    right = np.array([float(right) for _, right in answers])
    counts = np.ones(len(answers))
    slope, shift = newton(claimed, right, counts=counts, expected=(1.0, 0.0), held=_PRECISION).tolist()
    return Line(slope=max(slope, 0.05), shift=shift, cases=len(answers))
