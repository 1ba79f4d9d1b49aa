"""A case with its result, the measures of groups of cases, and floors under them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from jazz_select.errors import ConfigError
from jazz_select.evaluation import metrics
from jazz_select.evaluation.cases import Case
from jazz_select.evaluation.route import DEPTH, Outcome, Routed
from jazz_select.selector.forecast import AnsweredCase, DecidedAlone, chosen_alone
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.text import misspelt

Verdict = Literal["right", "wrong", "open"]
"""`open`: only a model could decide, and none was asked."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A case, its route, and the choice of a selector with a model, if there was one."""

    case: Case
    route: Routed
    chosen: FlowSelectionResult | None = None

    @cached_property
    def expect(self) -> frozenset[str]:
        """The right flows."""
        return frozenset(self.case.expect)

    @property
    def taken(self) -> tuple[str, ...]:
        """The flows to continue with: the model's choice, or without a model the first candidate, or none."""
        if self.chosen is not None:
            return tuple(self.chosen.names)
        if self.route.outcome is Outcome.NONE:
            return ()
        return self.route.candidates[:1]

    @property
    def exact(self) -> bool:
        """Whether exactly the expected flows are taken."""
        return frozenset(self.taken) == self.expect

    @property
    def is_alone(self) -> bool:
        """Whether recall chose a flow, and no model was asked: in the selection, or without one on the route."""
        if self.chosen is None:
            return self.route.outcome is Outcome.TAKEN
        decision = self.chosen.decision
        is_asked = bool(decision.error) or any(each.calls for each in decision.stages)
        return chosen_alone(decision.reason, asked=is_asked)

    @property
    def settled_right(self) -> bool:
        """Whether recall alone decides, and is exactly right."""
        return self.route.outcome is not Outcome.ASKED and self.route.is_right(self.route.outcome, self.expect)

    @property
    def recall_at_1(self) -> float:
        """The share of the right flows in the first place, or in as many places as there are right flows."""
        return metrics.recall_at(self.route.ranking, self.expect, 1)

    @property
    def verdict(self) -> Verdict:
        """The verdict of a test: the exact choice with a model; without one, that recall has the right flows first."""
        if self.chosen is not None:
            return "right" if self.exact else "wrong"
        if self.route.outcome is Outcome.NONE:
            return "wrong" if self.expect else "right"
        if not self.expect:  # recall alone takes a flow, or leaves it to a model that was not asked
            return "open" if self.route.outcome is Outcome.ASKED else "wrong"
        return "right" if self.recall_at_1 == 1 else "wrong"

    @property
    def says(self) -> str:
        """The result as text: `expected a, found b first`."""
        expect = ", ".join(self.case.expect) or "none"
        if self.chosen is not None:
            return f"expected {expect}, chosen: {', '.join(self.chosen.names) or 'none'}"
        if self.route.outcome is Outcome.NONE:
            return f"expected {expect}, and nothing is chosen"
        first = self.route.ranking[: max(1, len(self.expect))]
        return f"expected {expect}, found {', '.join(first) or 'nothing'} first"

    def row(self) -> dict[str, Any]:
        """Return a table row of plain JSON types."""
        route, chosen = self.route, self.chosen
        return {
            "id": self.case.id,
            "request": self.case.request,
            "expect": list(self.case.expect),
            "verdict": self.verdict,
            "first": route.first,
            "depth": metrics.depth_of(route.ranking[:DEPTH], self.expect) if self.expect else None,
            "candidates": list(route.candidates),
            "outcome": route.outcome.value,
            "confidence": route.confidence,
            "p_none": route.p_none,
            "chosen": None if chosen is None else chosen.names,
            "reason": None if chosen is None else chosen.decision.reason.value,
            "error": None if chosen is None else chosen.decision.error,
            "tags": list(self.case.tags),
            "took_s": route.took_s,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A number over some cases (None without any), with the 95 % interval of a share."""

    value: float | None
    cases: int
    low: float | None = None
    high: float | None = None

    @classmethod
    def share(cls, part: float, cases: int) -> "Measure":
        """Return a share of cases with its interval."""
        if not cases:
            return cls(value=None, cases=0)
        low, high = metrics.interval(part, cases)
        return cls(value=part / cases, cases=cases, low=low, high=high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The measures of the cases that share the name's property, by measure."""

    name: str
    cases: int
    measures: Mapping[str, Measure]


def group_of(name: str, judged: Sequence[Judged], depths: Sequence[int]) -> Group:
    """Return the measures of these cases.

    | Name | Meaning | Over |
    |---|---|---|
    | `R@1`, `R@3`, … | share of the right flows within so many places, see `recall_at` | cases with a flow |
    | `R@k` | likewise, within the candidates | likewise |
    | `MRR` | one over the rank of the first right flow, of ten | likewise |
    | `coverage` | share of cases with all right flows among the candidates | likewise |
    | `size` | mean number of candidates | likewise |
    | `exact` | share of cases with exactly the expected flows taken, by a model or without | all |
    | `unasked` | share of cases for which no model is asked | all |
    | `unasked-right` | share of these with exactly the expected flows taken | cases without a model call |
    """
    # A rank is measured only where there is a right flow to find.
    labelled = [each for each in judged if each.expect]
    measures: dict[str, Measure] = {}
    for depth in depths:
        found = [metrics.recall_at(each.route.ranking, each.expect, depth) for each in labelled]
        measures[f"R@{depth}"] = Measure.share(sum(found), len(labelled))
    in_candidates: list[float] = []
    ranks: list[float] = []
    sizes: list[float] = []
    covered = 0
    for each in labelled:
        route = each.route
        in_candidates.append(metrics.recall_at(route.candidates, each.expect, max(route.offered, 1)))
        ranks.append(metrics.reciprocal_rank(route.ranking[:DEPTH], each.expect))
        sizes.append(float(route.offered))
        covered += each.expect <= set(route.candidates)
    measures["R@k"] = Measure.share(sum(in_candidates), len(labelled))
    measures["MRR"] = Measure(value=metrics.mean(ranks), cases=len(labelled))
    measures["coverage"] = Measure.share(covered, len(labelled))
    measures["size"] = Measure(value=metrics.mean(sizes), cases=len(labelled))
    unasked = sum(each.route.outcome is not Outcome.ASKED for each in judged)
    measures["exact"] = Measure.share(sum(each.exact for each in judged), len(judged))
    measures["unasked"] = Measure.share(unasked, len(judged))
    measures["unasked-right"] = Measure.share(sum(each.settled_right for each in judged), unasked)
    return Group(name=name, cases=len(judged), measures=measures)


def decided_alone(judged: Sequence[Judged]) -> DecidedAlone:
    """Count the cases that recall decides without a model, and how many of them it has wrong."""
    alone = [each for each in judged if each.is_alone]
    return DecidedAlone(
        requests=len(judged),
        alone=len(alone),
        known=sum(bool(each.route.is_known) for each in alone),
        judged=len(alone),
        wrong=sum(not each.exact for each in alone),
    )


def evidence_of(judged: Sequence[Judged]) -> list[AnsweredCase]:
    """Return recall's answers to the cases of one flow or none that are no example, title or alias."""
    answers: list[AnsweredCase] = []
    for each in judged:
        confidence = each.route.confidence
        if len(each.expect) > 1 or each.case.episodes or each.route.is_known or confidence is None:
            continue
        answers.append((confidence, each.case.expect == (each.route.first,)))
    return answers


CEILINGS = {"ECE", "size"}
"""Measures of which less is better, so that their floor is a ceiling."""
_LONGEST, _MOST = 60, 1_000


def floors_of(texts: Sequence[str], measures: Mapping[str, Measure]) -> tuple[tuple[str, float], ...]:
    """Parse floors such as `R@1=.8`, `several:R@3=0.7` or `none-F1=50%`, separated by commas; case does not matter.

    Raises:
        ConfigError: A floor has another form, or names an unknown measure.
    """
    names = {name.casefold(): name for name in measures}
    floors: list[str] = []
    for text in texts:
        parts = [part.strip() for part in text.split(",")]
        if not any(parts):
            raise ConfigError("a floor is empty, and would let everything through: write for example R@1=.8")
        floors += [part for part in parts if part]
    found: list[tuple[str, float]] = []
    for text in floors:
        name, equals, number = (part.strip() for part in text.rpartition("="))
        if not equals or not name:
            raise ConfigError(f"{text[:_LONGEST]!r} is no floor under a measure: write for example R@1=.8")
        if name.casefold() not in names:
            raise ConfigError(f"there is no measure {misspelt(name, measures)}; there are {', '.join(measures)}")
        found.append((names[name.casefold()], _number(text, number)))
    return tuple(found)


def failures(floors: Sequence[tuple[str, float]], measures: Mapping[str, Measure]) -> tuple[str, ...]:
    """Return a line for each missed floor; a measure over no cases misses every floor."""
    lines: list[str] = []
    for name, value in floors:
        measure = measures[name]
        if measure.value is None:
            lines.append(f"{name} is not known: no case measures it, and it has to be {value:g}")
            continue
        measured = f"{name} is {measure.value:.3f} of {measure.cases} cases"
        if name.rpartition(":")[2] in CEILINGS:
            if measure.value > value:
                lines.append(f"{measured}, above {value:g}")
        elif measure.value < value:
            lines.append(f"{measured}, below {value:g}")
    return tuple(lines)


def _number(text: str, number: str) -> float:
    try:
        value = float(number.removesuffix("%"))
    except ValueError:
        value = float("nan")
    if number.endswith("%"):
        value /= 100
    if not 0 <= value <= _MOST:  # false of nan as well
        raise ConfigError(f"{text[:_LONGEST]!r}: {number[:_LONGEST]!r} is no number such as .8 or 80%")
    return value
