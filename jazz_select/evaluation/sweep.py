"""Error budgets: what each leaves to recall alone, and how much of that is right.

Recall decides a request alone if the expected error of answers as sure is within the budget, so one pass over the
cases gives the result of every budget.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from jazz_select.evaluation.metrics import Z95, interval
from jazz_select.evaluation.route import Outcome, Routed

BUDGETS: Final = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5)
"""Tried values of `max_error`; 0 leaves to recall what needs no decision."""
LEVELS: Final = (0.9, 0.95, 0.98, 0.99)
"""Accuracies that are reported besides the wanted one."""
_FOLDS: Final = 5
_LEAST_FOR_FOLDS: Final = 50
_Cases = Sequence[tuple[Routed, frozenset[str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """An error budget, and its result.

    Counted are requests that no model is asked about, and those of them for which exactly the expected flows are taken.
    """

    max_error: float = 0.0
    cases: int = 0
    unasked: int = 0
    right: int = 0

    @property
    def saved(self) -> float:
        """The share of requests for which no model is asked."""
        return self.unasked / self.cases if self.cases else 0.0

    @property
    def accuracy(self) -> float | None:
        """The share of those that is right; None if a model is always asked."""
        return self.right / self.unasked if self.unasked else None

    @property
    def between(self) -> tuple[float, float]:
        """The 95 % interval of `accuracy`."""
        return interval(self.right, self.unasked)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        low, high = self.between
        values = asdict(self)
        return {
            "requests": values.pop("cases"),
            **values,
            "saved": self.saved,
            "accuracy": self.accuracy,
            "low": low if self.unasked else None,
            "high": high if self.unasked else None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The model calls that error budgets save on labelled requests.

    Attributes:
        at: The wanted accuracy of requests decided without a model.
        best: The budget that saves most at this accuracy; None if none reaches it or saves more than a budget of 0.
        nearest: The budget with the highest accuracy, if `best` is None.
        without: The result of a budget of 0.
        levels: The best budget for each of several accuracies.
        held_out: The result of budgets chosen without the cases they are judged by; None if there are too few cases.
        known: Number of cases with a confidence.
    """

    at: float
    best: Setting | None
    nearest: Setting | None
    without: Setting
    levels: Mapping[float, Setting | None]
    held_out: Setting | None
    known: int

    def __str__(self) -> str:
        cases = self.without.cases
        if not cases:
            return "there are no cases to choose an error budget by"
        if not self.known:
            return (
                "the confidence of recall is not known (the catalogue has too few examples), so no budget saves calls"
            )
        if self.best is None:
            return self._explain_unmet()
        best, (low, high) = self.best, self.best.between
        already = ""
        if self.without.unasked:
            already = f" ({_percent(self.without.saved, 1)} without a budget)"
        text = (
            f"with max_error={_point(best.max_error)} you save {_percent(best.saved, 1)} of {cases:,} calls{already} "
            f"at {_percent(best.right / best.unasked, 1)}: {best.right:,} of {best.unasked:,} right, "
            f"which is between {_percent(low, 1)} and {_percent(high, 1)}"
        )
        if self.held_out is not None and self.held_out.unasked:
            kept = self.held_out
            text += f"; {_percent(kept.right / kept.unasked, 1)} of {kept.unasked:,} on cases it was not chosen by"
        if low < self.at:
            text += f" (to be sure of {_percent(self.at, 1)} takes at least {_cases_needed(self.at):,} such requests)"
        return text

    def _explain_unmet(self) -> str:
        cases, near = self.without.cases, self.nearest
        wanted = _percent(self.at, 1)
        if self.without.accuracy is not None and self.without.accuracy >= self.at:
            return f"no error budget saves calls at {wanted} that are not saved without one"
        if near is None or near.accuracy is None:
            return f"no error budget saves calls at {wanted} on these {cases:,} requests"
        return (
            f"no error budget reaches {wanted} on these {cases:,} requests; the nearest is "
            f"{_percent(near.accuracy, 1)} of {near.unasked:,} decided without a model, "
            f"with max_error={_point(near.max_error)}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""

        def plain(setting: Setting | None) -> dict[str, Any] | None:
            return None if setting is None else setting.to_dict()

        return {
            "at": self.at,
            "best": plain(self.best),
            "nearest": plain(self.nearest),
            "without": self.without.to_dict(),
            "levels": [{"at": level, "best": plain(best)} for level, best in self.levels.items()],
            "held_out": plain(self.held_out),
            "known": self.known,
            "says": str(self),
        }


def sweep(cases: _Cases, *, at: float = 0.99) -> Sweep:
    """Return the error budget that saves most calls at a wanted accuracy of requests decided without a model.

    Cases are routes with the expected names; `at` is above 0 and at most 1.
    """
    settings = [count_outcomes(cases, budget) for budget in BUDGETS]
    best = _best(settings, at)
    nearest: Setting | None = None
    if best is None:
        deciding = [each for each in settings if each.accuracy is not None]
        nearest = max(deciding, key=lambda each: (each.accuracy or 0.0, each.unasked), default=None)
    return Sweep(
        at=at,
        best=best,
        nearest=nearest,
        without=settings[0],
        levels={level: _best(settings, level) for level in sorted({*LEVELS, at})},
        held_out=_held_out(cases, at),
        known=sum(route.least_error is not None for route, _ in cases),
    )


def count_outcomes(cases: _Cases, max_error: float) -> Setting:
    """Return the result of an error budget."""
    unasked = right = 0
    for route, expect in cases:
        outcome = route.outcome_at(max_error)
        if outcome is not Outcome.ASKED:
            unasked += 1
            right += route.is_right(outcome, expect)
    return Setting(max_error=max_error, cases=len(cases), unasked=unasked, right=right)


def _best(settings: Sequence[Setting], at: float) -> Setting | None:
    """Return the setting that saves most, the smaller budget of equals; None if none saves more than the first."""
    without = settings[0]
    accurate = [each for each in settings if each.unasked > without.unasked and each.right >= at * each.unasked]
    return max(accurate, key=lambda each: (each.unasked, -each.max_error), default=None)


def _held_out(cases: _Cases, at: float) -> Setting | None:
    """Return the result of each fifth under the best budget of the other four: the best of many is biased."""
    if len(cases) < _LEAST_FOR_FOLDS:
        return None
    unasked = right = 0
    for number in range(_FOLDS):
        rest = [case for place, case in enumerate(cases) if place % _FOLDS != number]
        best = _best([count_outcomes(rest, budget) for budget in BUDGETS], at) or Setting()
        found = count_outcomes(cases[number::_FOLDS], best.max_error)
        unasked += found.unasked
        right += found.right
    return Setting(cases=len(cases), unasked=unasked, right=right)


def _point(value: float) -> str:
    return f"{value:g}".removeprefix("0") or "0"


def _percent(share: float, digits: int) -> str:
    """Return a percentage, rounded down so that 100% means all."""
    scale = 100 * 10**digits
    # The addend keeps a share such as .29, which is 28.999… in binary, from losing its last digit.
    return f"{int(share * scale + 1e-9) / 10**digits:g}%"


def _cases_needed(at: float) -> int:
    """Return the number of right cases without a wrong one that puts the interval's lower end at a share."""
    if at >= 1:
        return 10**6  # no number is enough
    # Of n right cases the lower end of Wilson's interval is n / (n + z²); solved for n, and rounded up.
    return -int(-(Z95**2) * at // (1 - at))
