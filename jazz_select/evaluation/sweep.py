"""Thresholds that save model calls: the pair that leaves most requests without a model at a wanted accuracy.

`Settling` determines the result of a pair. All pairs of a grid are counted in one pass over the cases.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from jazz_select.evaluation.metrics import Z95, interval
from jazz_select.evaluation.route import Outcome, Policy, Routed

SKIPS = (*(number / 100 for number in range(50, 100)), 0.995, 0.999)
"""Tried values of `skip_llm_above`."""
ABSTENTIONS = tuple(number / 100 for number in range(1, 100))
"""Tried values of `abstain_below`."""
LEVELS = (0.9, 0.95, 0.98, 0.99)
"""Accuracies that are reported besides the wanted one."""
_FOLDS, _LEAST_FOR_FOLDS = 5, 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A pair of thresholds, None for never, and its result.

    Counted are requests that no model is asked about, and those of them for which exactly the expected flows are taken.
    A threshold replaces an error budget here.
    """

    skip_llm_above: float | None = None
    abstain_below: float | None = None
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

    @property
    def named(self) -> str:
        """The thresholds that are set, as arguments."""
        named = (("skip_llm_above", self.skip_llm_above), ("abstain_below", self.abstain_below))
        return " and ".join(f"{name}={_point(value)}" for name, value in named if value is not None)

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
    """The savings that thresholds allow.

    Attributes:
        at: The wanted accuracy of requests decided without a model.
        best: The pair that saves most at this accuracy; None if no pair reaches it or saves more than no thresholds do.
        without: The result without thresholds.
        held_out: The result of pairs chosen without the cases they are judged by; None if there are too few cases.
        none_cases: Number of cases that expect no flow; `abstain_below` cannot be judged without them.
        known: Number of cases with a confidence.
    """

    at: float
    best: Setting | None
    nearest: Setting | None
    without: Setting
    levels: Mapping[float, Setting | None]
    held_out: Setting | None
    none_cases: int
    known: int

    def __str__(self) -> str:
        cases = self.without.cases
        if not cases:
            return "there are no cases to choose thresholds by"
        if not self.known:
            return (
                "recall does not know how sure it is (the catalogue has too few examples), so no threshold saves calls"
            )
        limits = "" if self.none_cases else "; no case expects none, so nothing is said of abstain_below"
        if self.best is None:
            return f"{self._unmet()}{limits}"
        best, (low, high) = self.best, self.best.between
        already = f" ({_percent(self.without.saved, 1)} without them)" if self.without.unasked else ""
        text = (
            f"with {best.named} you save {_percent(best.saved, 1)} of {cases:,} calls{already} at "
            f"{_percent(best.right / best.unasked, 1)}: {best.right:,} of {best.unasked:,} right, "
            f"which is between {_percent(low, 1)} and {_percent(high, 1)}"
        )
        if self.held_out is not None and self.held_out.unasked:
            kept = self.held_out
            text += f"; {_percent(kept.right / kept.unasked, 1)} of {kept.unasked:,} on cases they were not chosen by"
        if low < self.at:
            text += f" (to be sure of {_percent(self.at, 1)} takes at least {_needed(self.at):,} such requests)"
        return text + limits

    def _unmet(self) -> str:
        cases = self.without.cases
        near = self.nearest
        if self.without.accuracy is not None and self.without.accuracy >= self.at:
            return f"no thresholds save calls at {_percent(self.at, 1)} that are not saved without them"
        if near is None or near.accuracy is None:
            return f"no thresholds save calls at {_percent(self.at, 1)} on these {cases:,} requests"
        how = f"with {near.named}" if near.named else "without thresholds"
        return (
            f"no thresholds reach {_percent(self.at, 1)} on these {cases:,} requests; the nearest is "
            f"{_percent(near.accuracy, 1)} of {near.unasked:,} decided without a model, {how}"
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
            "none_requests": self.none_cases,
            "known": self.known,
            "says": str(self),
        }


def sweep(cases: Sequence[tuple[Routed, frozenset[str]]], policy: Policy, *, at: float = 0.99) -> Sweep:
    """Return the thresholds that save most calls at a wanted accuracy of requests decided without a model.

    Cases are routes with the expected names. The thresholds of `policy` are ignored; `at` is above 0 and at most 1.
    """
    settings = list(_settings(cases, policy))
    without = settings[0]
    best = _best(settings, at)
    reached = [each for each in settings if each.accuracy is not None]
    nearest = max(reached, key=lambda each: (each.accuracy or 0.0, each.unasked)) if reached else None
    return Sweep(
        at=at,
        best=best,
        nearest=None if best else nearest,
        without=without,
        levels={level: _best(settings, level) for level in sorted({*LEVELS, at})},
        held_out=_held_out(cases, policy, at),
        none_cases=sum(not expect for _, expect in cases),
        known=sum(policy.settling.sureness(route.known) is not None for route, _ in cases),
    )


def count_outcomes(cases: Sequence[tuple[Routed, frozenset[str]]], policy: Policy) -> Setting:
    """Return the result of a policy with its thresholds."""
    settling = policy.settling
    outcomes = [(route.outcome_under(settling), route, expect) for route, expect in cases]
    settled = [route.is_right(outcome, expect) for outcome, route, expect in outcomes if outcome is not Outcome.ASKED]
    return Setting(
        skip_llm_above=policy.skip_llm_above,
        abstain_below=policy.abstain_below,
        cases=len(cases),
        unasked=len(settled),
        right=sum(settled),
    )


def _best(settings: Sequence[Setting], at: float) -> Setting | None:
    """Return the setting that saves most, the more careful of equals; None if none saves more than no thresholds."""
    without = settings[0]
    enough = [each for each in settings if each.unasked > without.unasked and each.right >= at * each.unasked]
    return max(
        enough,
        key=lambda each: (each.unasked, each.right, each.skip_llm_above or 2.0, -(each.abstain_below or 0.0)),
        default=None,
    )


def _held_out(cases: Sequence[tuple[Routed, frozenset[str]]], policy: Policy, at: float) -> Setting | None:
    """Return the result of each fifth under the best pair of the other four: the best of many pairs is biased."""
    if len(cases) < _LEAST_FOR_FOLDS:
        return None
    folds = [cases[start::_FOLDS] for start in range(_FOLDS)]
    found: list[Setting] = []
    for number, fold in enumerate(folds):
        rest = [case for other, each in enumerate(folds) if other != number for case in each]
        best = _best(list(_settings(rest, policy)), at) or Setting()
        chosen = replace(policy, skip_llm_above=best.skip_llm_above, abstain_below=best.abstain_below)
        found.append(count_outcomes(fold, chosen))
    return Setting(
        cases=len(cases), unasked=sum(each.unasked for each in found), right=sum(each.right for each in found)
    )


def _settings(cases: Sequence[tuple[Routed, frozenset[str]]], policy: Policy) -> Iterator[Setting]:
    bare = replace(policy, skip_llm_above=None, abstain_below=None).settling
    lows = ABSTENTIONS if any(not expect for _, expect in cases) else ()
    outcomes = [route.outcome_under(bare) for route, _ in cases]
    asked = np.array([outcome is Outcome.ASKED for outcome in outcomes], bool)
    scopes = np.array([1.0 if route.in_scope is None else route.in_scope for route, _ in cases])
    skips = np.searchsorted(SKIPS, [bare.sureness(route.known) or 0.0 for route, _ in cases], side="right")
    unfit = np.array([not expect for _, expect in cases], bool)
    right = np.array(
        [route.is_right(each, expect) for each, (route, expect) in zip(outcomes, cases, strict=True)], bool
    )
    for low in (None, *lows):
        gone = scopes < (low or 0.0)
        totals: list[list[int]] = []
        for abstained, taken in ((gone, ~gone), (gone & unfit, ~gone & right)):
            sure = np.bincount(skips[taken & asked], minlength=len(SKIPS) + 1)[::-1].cumsum()[::-1]
            sure[0] = 0  # where there is no skip, all of them are asked about
            totals.append((sure + abstained.sum() + (taken & ~asked).sum()).tolist())
        for skip, unasked, good in zip((None, *SKIPS), *totals, strict=True):
            yield Setting(skip_llm_above=skip, abstain_below=low, cases=len(cases), unasked=unasked, right=good)


def _point(value: float) -> str:
    return f"{value:g}".removeprefix("0")


def _percent(share: float, digits: int) -> str:
    """Return a percentage, rounded down so that 100% means all."""
    scale = 100 * 10**digits
    return f"{int(share * scale + 1e-9) / 10**digits:g}%"


def _needed(at: float) -> int:
    """Return the number of right cases without a wrong one that puts the interval's lower end at a share."""
    return -int(-(Z95**2) * at // (1 - at)) if at < 1 else 10**6
