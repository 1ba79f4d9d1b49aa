"""How sure a stage is, corrected by what labelled requests show: a straight line between log odds, and its fit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log
from typing import Any, cast

from jazz_select.travel import as_data, value_of, whole_of

_PRECISION = (1_000.0, 4.0)
"""How firmly the slope and the shift are held to 1 and 0. A hundred requests say how often all is right, and nothing of
those few that are surest: a slope learned from them would put a budget into the hands of chance."""
_STEPS, _SMALL = 50, 1e-9
_EDGE = 1e-6


def log_odds(chance: float) -> float:
    """Of a probability; those of one that is all but 0 or 1 have an end."""
    inside = min(max(chance, _EDGE), 1 - _EDGE)
    return log(inside / (1 - inside))


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """P = 1 / (1 + exp(-(shift + slope · log odds))): as it is said to be, where nothing was learned."""

    slope: float = 1.0
    shift: float = 0.0
    cases: int = 0
    """Labelled requests that it was learned from."""

    def __post_init__(self) -> None:
        """A line that falls would make the surest the least sure.

        Raises:
            ValueError: It does not rise, or is no line.
        """
        if not (0 < self.slope < _STEEPEST and abs(self.shift) < _STEEPEST and self.cases >= 0):
            msg = "slope is above 0, and neither it nor the shift beyond 1,000"
            raise ValueError(msg)

    def __call__(self, chance: float) -> float:
        """What a probability is worth; 0 and 1, which are known and not estimated, stay."""
        if not 0 < chance < 1 or (self.slope, self.shift) == (1.0, 0.0):
            return chance
        return 1 / (1 + exp(-max(-_SUREST, min(_SUREST, self.shift + self.slope * log_odds(chance)))))


_STEEPEST = 1_000.0
_SUREST = 30.0
"""Log odds that no line goes beyond: what was estimated is never certain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What labelled requests say of how sure the stages are; without any, they are taken at their word.

    "Scoped" is how sure they are where "none" is an answer, with `on_empty="none"` and within a conversation.

    Attributes:
        recall: Of recall's confidence.
        decider: Of the confidence of recall and decision model together.
        recall_scoped: As `recall`, and that the request is one for a flow at all.
        decider_scoped: As `decider`, where it may also be that nothing fits.
        lost: Labelled requests that the decision model gave no answer about.
    """

    recall: Line = field(default_factory=Line)
    decider: Line = field(default_factory=Line)
    recall_scoped: Line = field(default_factory=Line)
    decider_scoped: Line = field(default_factory=Line)
    lost: int = 0

    def of_recall(self, *, scoped: bool) -> Line:
        """How sure recall is; `scoped` where "none" is an answer."""
        return self.recall_scoped if scoped else self.recall

    def of_decider(self, *, scoped: bool) -> Line:
        """Likewise of recall and decision model together."""
        return self.decider_scoped if scoped else self.decider

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return cast("dict[str, Any]", as_data(self))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Calibration":
        """What `to_dict` told.

        Raises:
            ConfigError: It is none.
        """
        return value_of(cls, whole_of(data, cls.__name__), sparse=True)


def fitted(answers: Sequence[tuple[float, bool]]) -> Line:
    """The line under which what was claimed, and whether it was right, is likeliest; drawn towards what is claimed.

    Newton's method on two numbers; a line that would not rise stays as steep as it was.
    """
    slope, shift = 1.0, 0.0
    told = [(log_odds(chance), float(right)) for chance, right in answers]
    for _ in range(_STEPS):
        found = [(at, 1 / (1 + exp(-max(-50.0, min(50.0, shift + slope * at)))), right) for at, right in told]
        down_slope = sum((p - right) * at for at, p, right in found) + _PRECISION[0] * (slope - 1)
        down_shift = sum(p - right for _, p, right in found) + _PRECISION[1] * shift
        bend = [p * (1 - p) for _, p, _ in found]
        aa = sum(each * at * at for each, (at, _, _) in zip(bend, found, strict=True)) + _PRECISION[0]
        ab = sum(each * at for each, (at, _, _) in zip(bend, found, strict=True))
        bb = sum(bend) + _PRECISION[1]
        scale = aa * bb - ab * ab
        by_slope = (bb * down_slope - ab * down_shift) / scale
        by_shift = (aa * down_shift - ab * down_slope) / scale
        longest = max(abs(by_slope), abs(by_shift))
        damped = min(1.0, 1.0 / longest) if longest else 1.0
        slope, shift = slope - damped * by_slope, shift - damped * by_shift
        if longest < _SMALL:
            break
    return Line(slope=max(slope, 0.05), shift=shift, cases=len(told))
