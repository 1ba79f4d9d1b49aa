"""What an evaluation says: measures by group, flow and stage, confusions, misses, choices, what could be saved."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from statistics import median
from typing import Any, Final

from jazz_select.evaluation import metrics
from jazz_select.evaluation.cases import NONE, CaseProblem
from jazz_select.evaluation.judged import Group, Judged, Measure, group_of
from jazz_select.evaluation.route import DEPTH, Outcome, Policy
from jazz_select.evaluation.sweep import Sweep, sweep
from jazz_select.evaluation.tables import Frame, Framed, html_table
from jazz_select.json_values import plain
from jazz_select.stages import StageName
from jazz_select.text import counted

_ORDER: Final[tuple[StageName, ...]] = ("recall", "transformer", "decider", "chat", "user")


@dataclass(frozen=True, slots=True, kw_only=True)
class StageMeasures:
    """One stage, over all cases that were put to a cascade."""

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
    def of(cls, name: StageName, cases: Sequence[Judged]) -> "StageMeasures":
        """Of the cases that were put to a cascade."""
        records = [
            (record, case.exact)
            for case in cases
            if case.chosen is not None
            for record in case.chosen.decision.stages
            if record.name == name and record.outcome != "spared"
        ]
        decided = [exact for record, exact in records if record.outcome in {"decided", "none"}]
        usages = [record.usage for record, _ in records if record.usage is not None]
        return cls(
            name=name,
            cases=len(cases),
            asked=len(records),
            decided=len(decided),
            right=sum(decided),
            failed=sum(record.outcome == "failed" for record, _ in records),
            input_tokens=sum(each.input_tokens for each in usages),
            output_tokens=sum(each.output_tokens for each in usages),
            took_s=sum(record.took_s for record, _ in records),
        )

    @property
    def share(self) -> float:
        """The share of all cases that it decided."""
        return self.decided / self.cases

    @property
    def accuracy(self) -> float | None:
        """The share of what it decided that is exactly right; None where it decided nothing."""
        return self.right / self.decided if self.decided else None

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {**asdict(self), "share": self.share, "accuracy": self.accuracy}


DEPTHS = (1, 3, 5)
"""The places within which right flows are looked for, unless others are named."""
_SHOWN = 3
"""Requests that stand for a confusion."""


_TOLD = ("R@1", "R@3", "coverage", "exact")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowScore:
    """How the requests of one flow fare.

    Attributes:
        name: The flow.
        cases: How many cases expect it.
        recall_at_1: In how many of them, as a share, it stands first; among the first n where n flows are expected.
        coverage: In how many it is among the candidates.
        taken_by: Who stands in its place otherwise, with how often, most often first.
        takes: How many cases that do not expect it have it first.
    """

    name: str
    cases: int
    recall_at_1: float
    coverage: float
    taken_by: tuple[tuple[str, int], ...]
    takes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Confusion:
    """Two flows, the second of which is found where the first is expected; empty for none.

    Attributes:
        expected: The flow that is right.
        first: The one that is found in its place.
        count: In how many cases.
        requests: Some of them.
    """

    expected: str
    first: str
    count: int
    requests: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """A case whose right flows are not first; `rank` is the place down to which all are found, None beyond ten."""

    request: str
    expect: tuple[str, ...]
    first: str
    rank: int | None
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """How a model did on the same cases.

    Attributes:
        model: Which.
        exact: In how many cases exactly the expected flows were chosen.
        failed: In how many a call failed, and recall's first was taken instead.
        asked: For how many it was asked at all.
        calls: Calls that got an answer, those to ask again and those of a decision model included.
        input_tokens: Of all of them.
        output_tokens: Likewise.
        tiers: How free the choices were: tier to number of cases.
        reasons: Why they came out as they did: reason to number of cases.
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
    def of(cls, model: str, judged: Sequence[Judged]) -> "Choices":
        """Counted."""
        made = [each.chosen.decision for each in judged if each.chosen is not None]
        calls = [sum(stage.calls for stage in each.stages) or each.attempts for each in made]
        usages = [each.usage for each in made if each.usage is not None]
        return cls(
            model=model,
            exact=sum(each.exact for each in judged if each.chosen is not None),
            failed=sum(bool(each.error) for each in made),
            asked=sum(bool(count or each.error) for count, each in zip(calls, made, strict=True)),
            calls=sum(calls),
            input_tokens=sum(each.input_tokens for each in usages),
            output_tokens=sum(each.output_tokens for each in usages),
            tiers=dict(Counter(each.tier.value for each in made).most_common()),
            reasons=dict(Counter(each.reason.value for each in made).most_common()),
        )


@dataclass(frozen=True, kw_only=True)
class Evaluation(Framed):
    """How well a catalogue is found, on labelled requests.

    Attributes:
        judged: Each case with what became of it.
        policy: How was selected.
        agent_id: Whose flows.
        embedder: With which embedder.
        flows: How many flows there are.
        at: The accuracy that thresholds are to keep.
        depths: The places within which right flows were looked for.
        model: The model that chose; empty where none was asked.
        problems: What is wrong with the file of cases; what was left out for it is in no number.
    """

    judged: tuple[Judged, ...]
    policy: Policy
    agent_id: str
    embedder: str
    flows: int
    at: float = 0.99
    depths: tuple[int, ...] = DEPTHS
    model: str = ""
    problems: tuple[CaseProblem, ...] = ()

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """All cases, then those of one flow, of several, and follow-ups, as far as there are any, then each tag."""
        parts = {
            "all": self.judged,
            "one": [each for each in self.judged if len(each.expect) == 1],
            "several": [each for each in self.judged if len(each.expect) > 1],
            "follow-ups": [each for each in self.judged if each.case.episodes],
        }
        for tag in sorted({tag for each in self.judged for tag in each.case.tags}):
            parts[f"tag:{tag}"] = [each for each in self.judged if tag in each.case.tags]
        kept = {name: part for name, part in parts.items() if part and (name != "one" or len(part) < len(self.judged))}
        return tuple(group_of(name, part, self.depths) for name, part in kept.items())

    @cached_property
    def none(self) -> metrics.Detection:
        """How well "no flow fits" is told, by a model or under `abstain_below`."""
        said = ((not each.taken) for each in self.judged)
        return metrics.Detection.of(zip((not each.expect for each in self.judged), said, strict=True))

    @cached_property
    def measures(self) -> Mapping[str, Measure]:
        """Every number by the name that `--fail-under` takes: those of all cases plain, `group:name` of a group.

        Beside those of `group_of`: `none-precision`, `none-recall` and `none-F1`; `none-AUROC`: how well P(some
        flow is right) tells where one is; `AUROC` and `ECE`: how well confidence in the first tells where it is right,
        and by how much it lies beside the share that is.
        """
        none, found = self.none, dict(self.groups[0].measures) if self.groups else {}
        found["none-precision"] = Measure.share(none.right, none.said)
        found["none-recall"] = Measure.share(none.right, none.cases)
        found["none-F1"] = Measure(value=none.f1, cases=none.cases)
        scoped = [(each.route.in_scope, bool(each.expect)) for each in self.judged if each.route.in_scope is not None]
        told = metrics.separation([scope for scope, _ in scoped], [fits for _, fits in scoped])
        found["none-AUROC"] = Measure(value=told, cases=len(scoped))
        sure = [
            (each.route.confidence, each.route.first in each.expect)
            for each in self.judged
            if each.expect and each.route.confidence is not None
        ]
        confidences, right = [each for each, _ in sure], [each for _, each in sure]
        found["AUROC"] = Measure(value=metrics.separation(confidences, right), cases=len(sure))
        found["ECE"] = Measure(value=metrics.calibration_error(confidences, right), cases=len(sure))
        for group in self.groups[1:]:
            found |= {f"{group.name}:{name}": measure for name, measure in group.measures.items()}
        return found

    @cached_property
    def by_flow(self) -> tuple[FlowScore, ...]:
        """The flows that cases expect, worst first."""
        of: defaultdict[str, list[Judged]] = defaultdict(list)
        takes: Counter[str] = Counter()
        taken: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for each in self.judged:
            for name in each.expect:
                of[name].append(each)
        for expected, first, _ in self._mistaken:
            takes[first] += 1
            taken[expected][first] += 1
        scores = [
            FlowScore(
                name=name,
                cases=len(cases),
                recall_at_1=sum(name in _places(each) for each in cases) / len(cases),
                coverage=sum(name in each.route.candidates for each in cases) / len(cases),
                taken_by=tuple(taken[name].most_common(_SHOWN)),
                takes=takes[name],
            )
            for name, cases in of.items()
        ]
        return tuple(sorted(scores, key=lambda each: (each.recall_at_1, each.coverage, -each.cases, each.name)))

    @cached_property
    def confusions(self) -> tuple[Confusion, ...]:
        """Who is found in whose place, most often first."""
        pairs: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for expected, first, request in self._mistaken:
            pairs[expected, first].append(request)
        found = [
            Confusion(expected=expected, first=first, count=len(requests), requests=tuple(requests[:_SHOWN]))
            for (expected, first), requests in pairs.items()
        ]
        return tuple(sorted(found, key=lambda each: (-each.count, each.expected, each.first)))

    @cached_property
    def _mistaken(self) -> tuple[tuple[str, str, str], ...]:
        """Expected flow, the one in its place, request."""
        found: list[tuple[str, str, str]] = []
        for each in self.judged:
            places = _places(each)
            wrong = [name for name in places if name not in each.expect]
            lacking = [name for name in each.case.expect if name not in places]
            if each.expect:
                first = wrong or [""]
                found += [(name, first[min(at, len(first) - 1)], each.case.request) for at, name in enumerate(lacking)]
            elif each.taken and (each.chosen is not None or each.route.outcome is Outcome.TAKEN):
                found.append(("", each.taken[0], each.case.request))
        return tuple(found)

    @cached_property
    def misses(self) -> tuple[Miss, ...]:
        """The cases whose right flows are not first, worst first."""
        found = [
            Miss(
                request=each.case.request,
                expect=each.case.expect,
                first=each.route.first,
                rank=metrics.depth_of(each.route.ranking[:DEPTH], each.expect),
                id=each.case.id,
            )
            for each in self.judged
            if each.expect and each.recall_at_1 < 1
        ]
        return tuple(sorted(found, key=lambda miss: -(miss.rank or DEPTH + 1)))

    @cached_property
    def choices(self) -> Choices | None:
        """What the model chose; None where none was asked."""
        return Choices.of(self.model, self.judged) if any(each.chosen is not None for each in self.judged) else None

    @cached_property
    def sweep(self) -> Sweep:
        """Which thresholds would save how many calls."""
        return sweep([(each.route, each.expect) for each in self.judged], self.policy, at=self.at)

    @property
    def p50_s(self) -> float | None:
        """How long half of the requests take to be recalled, in seconds, asked together."""
        return median(each.route.took_s for each in self.judged) if self.judged else None

    @cached_property
    def stages(self) -> list[StageMeasures]:
        """What each stage of a cascade did, in the order in which they are asked; empty without one."""
        cases = [each for each in self.judged if each.chosen is not None and each.chosen.decision.stages]
        return [found for name in _ORDER if (found := StageMeasures.of(name, cases)).asked]

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types: times in seconds, None for what is not known."""
        none = self.none
        values = {name: measure.value for name, measure in self.measures.items()}
        return {
            "agent_id": self.agent_id,
            "embedder": self.embedder,
            "flows": self.flows,
            "policy": asdict(self.policy),
            "requests": len(self.judged),
            "unlabelled": none.cases,
            "recall_at_1": values.get("R@1"),
            "recall_at_3": values.get("R@3"),
            "mrr": values.get("MRR"),
            "p50_s": self.p50_s,
            "measures": {name: asdict(measure) for name, measure in self.measures.items()},
            "groups": [asdict(group) for group in self.groups],
            "none": none.to_dict(),
            "by_flow": [
                {**asdict(each), "taken_by": [{"flow": name, "count": count} for name, count in each.taken_by]}
                for each in self.by_flow
            ],
            "confusions": plain(self.confusions),
            "misses": plain(self.misses),
            "choices": None if self.choices is None else asdict(self.choices),
            "sweep": self.sweep.to_dict(),
            "stages": [each.to_dict() for each in self.stages],
            "problems": [each.to_dict() for each in self.problems],
        }

    def _frame(self) -> Frame:
        return [each.row() for each in self.judged], ()

    def __str__(self) -> str:
        """One line: how many cases of how many flows, and the measures that matter most."""
        told = [
            f"{name} {each.value:.1%}"
            for name, each in self.measures.items()
            if name in _TOLD and each.value is not None
        ]
        return ", ".join((self._counts, *told))

    @property
    def _counts(self) -> str:
        return f"{counted(len(self.judged), 'case')}, {counted(self.flows, 'flow')}"

    def _repr_html_(self) -> str:
        """For a notebook."""
        names = list(self.groups[0].measures) if self.groups else []
        groups = [(each.name, each.cases, *(each.measures[name].value for name in names)) for each in self.groups]
        flows = [(each.name, each.cases, each.recall_at_1, each.coverage, each.takes) for each in self.by_flow]
        pairs = [(each.expected or NONE, each.first or NONE, each.count, each.requests) for each in self.confusions]
        return "".join(
            (
                html_table(["", "cases", *names], groups, self._counts),
                html_table(["flow", "cases", "R@1", "coverage", "takes"], flows, "by flow, worst first"),
                html_table(["expected", "first", "cases", "requests"], pairs, "confusions"),
                html_table(["thresholds"], [(str(self.sweep),)]),
            )
        )


def _places(each: Judged) -> tuple[str, ...]:
    """The first place, or as many as there are right flows."""
    return each.route.ranking[: max(1, len(each.expect))]
