"""The results of an evaluation: measures by group, flow and stage, confusions, misses, choices, error budgets."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from statistics import median
from typing import Any, Final

from jazz_select.chat.client import total_usage
from jazz_select.evaluation import metrics
from jazz_select.evaluation.cases import CaseProblem
from jazz_select.evaluation.judged import Group, Judged, Measure, group_of
from jazz_select.evaluation.route import DEPTH, Outcome, RouteOptions
from jazz_select.evaluation.sweep import Sweep, sweep
from jazz_select.evaluation.tables import Frame, Framed
from jazz_select.json_values import plain
from jazz_select.selector.forecast import Forecast
from jazz_select.stages import StageName
from jazz_select.text import count_of
from jazz_select.values import Usage

_ORDER: Final[tuple[StageName, ...]] = ("recall", "transformer", "decider", "chat", "user")


@dataclass(frozen=True, slots=True, kw_only=True)
class StageMeasures:
    """The counts of one stage over all cases."""

    name: StageName
    cases: int
    asked: int
    decided: int
    right: int
    failed: int
    input_tokens: int
    output_tokens: int
    took_s: float

    @classmethod
    def from_cases(cls, name: StageName, cases: Sequence[Judged]) -> "StageMeasures":
        """Count a stage over the cases."""
        asked = decided = right = failed = 0
        took_s: float = 0
        usage: Usage | None = None
        for case in cases:
            if case.chosen is None:
                continue
            for record in case.chosen.decision.stages:
                if record.name != name or record.outcome == "skipped":
                    continue
                asked += 1
                took_s += record.took_s
                if record.outcome in {"decided", "none"}:
                    decided += 1
                    right += case.exact
                elif record.outcome == "failed":
                    failed += 1
                usage = total_usage(usage, record.usage)
        return cls(
            name=name,
            cases=len(cases),
            asked=asked,
            decided=decided,
            right=right,
            failed=failed,
            input_tokens=0 if usage is None else usage.input_tokens,
            output_tokens=0 if usage is None else usage.output_tokens,
            took_s=took_s,
        )

    @property
    def share(self) -> float:
        """The share of all cases that it decided."""
        return self.decided / self.cases

    @property
    def accuracy(self) -> float | None:
        """The share of its decisions that are exactly right; None where it decided nothing."""
        return self.right / self.decided if self.decided else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {**asdict(self), "share": self.share, "accuracy": self.accuracy}


DEPTHS = (1, 3, 5)
"""The default depths k of recall at k."""
_SHOWN = 3
_IN_SUMMARY = ("R@1", "R@3", "coverage", "exact")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowScore:
    """The measures of one flow.

    Attributes:
        recall_at_1: Share of them with the flow first, or among the first n where n flows are expected.
        coverage: Share of them with the flow among the candidates.
        taken_by: The flows found in its place with their counts, the most frequent first.
        takes: Number of cases that have it first and do not expect it.
    """

    name: str
    cases: int
    recall_at_1: float
    coverage: float
    taken_by: tuple[tuple[str, int], ...]
    takes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Confusion:
    """A pair of flows where the second is found in place of the first (empty for none), with some requests."""

    expected: str
    first: str
    count: int
    requests: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """A case whose right flows are not first; `rank` is the depth that covers all of them, None beyond ten."""

    request: str
    expect: tuple[str, ...]
    first: str
    rank: int | None
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The choices of a model on the same cases.

    Attributes:
        failed: Number of cases with a failed call, where recall's first was taken.
        asked: Number of cases that asked the model.
        calls: Answered calls, with retries and those of a decision model.
    """

    model: str
    exact: int
    failed: int
    asked: int
    calls: int
    input_tokens: int
    output_tokens: int
    tiers: Mapping[str, int]
    reasons: Mapping[str, int]

    @classmethod
    def from_judged(cls, model: str, judged: Sequence[Judged]) -> "Choices":
        """Count the choices in judged cases."""
        exact = failed = asked = calls = 0
        usage: Usage | None = None
        tiers: Counter[str] = Counter()
        reasons: Counter[str] = Counter()
        for case in judged:
            if case.chosen is None:
                continue
            decision = case.chosen.decision
            # A selector without stages tells its attempts alone.
            own_calls = sum(stage.calls for stage in decision.stages) or decision.attempts
            exact += case.exact
            failed += bool(decision.error)
            asked += bool(own_calls or decision.error)
            calls += own_calls
            usage = total_usage(usage, decision.usage)
            tiers[decision.tier.value] += 1
            reasons[decision.reason.value] += 1
        return cls(
            model=model,
            exact=exact,
            failed=failed,
            asked=asked,
            calls=calls,
            input_tokens=0 if usage is None else usage.input_tokens,
            output_tokens=0 if usage is None else usage.output_tokens,
            tiers=dict(tiers.most_common()),
            reasons=dict(reasons.most_common()),
        )


@dataclass(frozen=True, kw_only=True)
class Evaluation(Framed):
    """The measures of a catalogue on labelled requests; `model` is empty if none was asked.

    `forecast` is the share expected to be decided alone beside the measured one; None if it was not looked at.
    Thresholds have to keep the accuracy `at`. Entries excluded by problems in the file of cases are in no number.
    """

    judged: tuple[Judged, ...]
    routing: RouteOptions
    agent_id: str
    embedder: str
    flows: int
    at: float = 0.99
    depths: tuple[int, ...] = DEPTHS
    model: str = ""
    problems: tuple[CaseProblem, ...] = ()
    forecast: Forecast | None = None

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """All cases, then those with one right flow, with several, and follow-ups, then each tag; no empty groups."""
        one = [each for each in self.judged if len(each.expect) == 1]
        parts: dict[str, Sequence[Judged]] = {"all": self.judged}
        if len(one) < len(self.judged):  # else it is the group of all, again
            parts["one"] = one
        parts["several"] = [each for each in self.judged if len(each.expect) > 1]
        parts["follow-ups"] = [each for each in self.judged if each.case.episodes]
        tags: set[str] = set()
        for each in self.judged:
            tags.update(each.case.tags)
        for tag in sorted(tags):
            parts[f"tag:{tag}"] = [each for each in self.judged if tag in each.case.tags]
        groups: list[Group] = []
        for name, part in parts.items():
            if part:
                groups.append(group_of(name, part, self.depths))
        return tuple(groups)

    @cached_property
    def none(self) -> metrics.Detection:
        """Precision and recall of "no flow fits"."""
        return metrics.Detection.from_pairs((not each.expect, not each.taken) for each in self.judged)

    @cached_property
    def measures(self) -> Mapping[str, Measure]:
        """Every measure by its name for `--fail-under`; those of a group as `group:name`.

        Added to those of `group_of`: `none-precision`, `none-recall` and `none-F1`; `none-AUROC` of P(no flow is
        right); `AUROC` and `ECE` (expected calibration error) of the confidence in the first candidate.
        """
        none, measures = self.none, dict(self.groups[0].measures) if self.groups else {}
        measures["none-precision"] = Measure.share(none.right, none.answered)
        measures["none-recall"] = Measure.share(none.right, none.cases)
        measures["none-F1"] = Measure(value=none.f1, cases=none.cases)
        doubts: list[float] = []
        expects_none: list[bool] = []
        confidences: list[float] = []
        is_right: list[bool] = []
        for each in self.judged:
            if each.route.p_none is not None:
                doubts.append(each.route.p_none)
                expects_none.append(not each.expect)
            if each.route.confidence is not None:
                confidences.append(each.route.confidence)
                is_right.append(each.route.first in each.expect)
        measures["none-AUROC"] = Measure(value=metrics.separation(doubts, expects_none), cases=len(doubts))
        measures["AUROC"] = Measure(value=metrics.separation(confidences, is_right), cases=len(confidences))
        measures["ECE"] = Measure(value=metrics.calibration_error(confidences, is_right), cases=len(confidences))
        for group in self.groups[1:]:  # the first has all cases, and its measures have no prefix
            for name, measure in group.measures.items():
                measures[f"{group.name}:{name}"] = measure
        return measures

    @cached_property
    def by_flow(self) -> tuple[FlowScore, ...]:
        """The expected flows, worst first."""
        cases_of: defaultdict[str, list[Judged]] = defaultdict(list)
        for each in self.judged:
            for name in each.expect:
                cases_of[name].append(each)
        takes: Counter[str] = Counter()
        taken: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for expected, first, _ in self._mistakes:
            takes[first] += 1
            taken[expected][first] += 1
        scores: list[FlowScore] = []
        for name, cases in cases_of.items():
            first_places = sum(name in _places(each) for each in cases)
            covered = sum(name in each.route.candidates for each in cases)
            score = FlowScore(
                name=name,
                cases=len(cases),
                recall_at_1=first_places / len(cases),
                coverage=covered / len(cases),
                taken_by=tuple(taken[name].most_common(_SHOWN)),
                takes=takes[name],
            )
            scores.append(score)
        return tuple(sorted(scores, key=lambda each: (each.recall_at_1, each.coverage, -each.cases, each.name)))

    @cached_property
    def confusions(self) -> tuple[Confusion, ...]:
        """Pairs of the expected flow and the one found in its place, the most frequent first."""
        pairs: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for expected, first, request in self._mistakes:
            pairs[expected, first].append(request)
        found: list[Confusion] = []
        for (expected, first), requests in pairs.items():
            shown = tuple(requests[:_SHOWN])
            found.append(Confusion(expected=expected, first=first, count=len(requests), requests=shown))
        return tuple(sorted(found, key=lambda each: (-each.count, each.expected, each.first)))

    @cached_property
    def _mistakes(self) -> tuple[tuple[str, str, str], ...]:
        """The expected flow, the one in its place and the request of each mistake; an empty name for none."""
        found: list[tuple[str, str, str]] = []
        for each in self.judged:
            request = each.case.request
            if not each.expect:
                # Without a model, a request that one would be asked about is not decided yet.
                is_decided = each.chosen is not None or each.route.outcome is Outcome.TAKEN
                if each.taken and is_decided:
                    found.append(("", each.taken[0], request))
                continue
            places = _places(each)
            missing = [name for name in each.case.expect if name not in places]
            wrong = [name for name in places if name not in each.expect] or [""]
            for number, name in enumerate(missing):
                # Of several the nth missing one is paired with the nth wrong one, and the rest with the last.
                found.append((name, wrong[min(number, len(wrong) - 1)], request))
        return tuple(found)

    @cached_property
    def misses(self) -> tuple[Miss, ...]:
        """The cases whose right flows are not first, worst first."""
        found: list[Miss] = []
        for each in self.judged:
            if not each.expect or each.recall_at_1 == 1:
                continue
            miss = Miss(
                request=each.case.request,
                expect=each.case.expect,
                first=each.route.first,
                rank=metrics.depth_of(each.route.ranking[:DEPTH], each.expect),
                id=each.case.id,
            )
            found.append(miss)
        return tuple(sorted(found, key=lambda miss: -(miss.rank or DEPTH + 1)))

    @cached_property
    def choices(self) -> Choices | None:
        """The model's choices; None if none was asked."""
        if all(each.chosen is None for each in self.judged):
            return None
        return Choices.from_judged(self.model, self.judged)

    @cached_property
    def sweep(self) -> Sweep:
        """The calls that each error budget would save."""
        return sweep([(each.route, each.expect) for each in self.judged], at=self.at)

    @property
    def p50_s(self) -> float | None:
        """Median time of recall in seconds, in batches."""
        return median(each.route.took_s for each in self.judged) if self.judged else None

    @cached_property
    def stages(self) -> list[StageMeasures]:
        """The stages, in the order in which they are asked; empty if none was run."""
        cases = [each for each in self.judged if each.chosen is not None and each.chosen.decision.stages]
        stages = [StageMeasures.from_cases(name, cases) for name in _ORDER]
        return [stage for stage in stages if stage.asked]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types: times in seconds, None for unknown values."""
        none = self.none
        values = {name: measure.value for name, measure in self.measures.items()}
        by_flow: list[dict[str, Any]] = []
        for score in self.by_flow:
            taken_by = [{"flow": name, "count": count} for name, count in score.taken_by]
            by_flow.append({**asdict(score), "taken_by": taken_by})
        return {
            "agent_id": self.agent_id,
            "embedder": self.embedder,
            "flows": self.flows,
            "routing": asdict(self.routing),
            "requests": len(self.judged),
            "unlabelled": none.cases,
            "recall_at_1": values.get("R@1"),
            "recall_at_3": values.get("R@3"),
            "mrr": values.get("MRR"),
            "p50_s": self.p50_s,
            "measures": {name: asdict(measure) for name, measure in self.measures.items()},
            "groups": [asdict(group) for group in self.groups],
            "none": asdict(none),
            "by_flow": by_flow,
            "confusions": plain(self.confusions),
            "misses": plain(self.misses),
            "choices": None if self.choices is None else asdict(self.choices),
            "sweep": self.sweep.to_dict(),
            "forecast": None if self.forecast is None else self.forecast.as_data(),
            "stages": [each.to_dict() for each in self.stages],
            "problems": [each.to_dict() for each in self.problems],
        }

    def _frame(self) -> Frame:
        rows = [each.row() for each in self.judged]
        columns = list(rows[0]) if rows else ()
        return rows, columns

    def __str__(self) -> str:
        """Return one line: the numbers of cases and flows, and the main measures."""
        parts = [count_of(len(self.judged), "case"), count_of(self.flows, "flow")]
        for name, measure in self.measures.items():
            if name in _IN_SUMMARY and measure.value is not None:
                parts.append(f"{name} {measure.value:.1%}")
        return ", ".join(parts)


def _places(each: Judged) -> tuple[str, ...]:
    """Return the first n flows of the ranking, for n right flows; at least one."""
    return each.route.ranking[: max(1, len(each.expect))]
