"""What a change moves: two snapshots of a catalogue compared, flow by flow and request by request; and what it may.

How much it may move before it is stopped is said by gates: `[tool.jazz-select.gates]` in pyproject.toml.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from jazz_select.arguments import Constraint, Probability, checked
from jazz_select.evaluation.changes.snapshots import Probe, SideState, Source
from jazz_select.evaluation.metrics import recall_at
from jazz_select.evaluation.route import Outcome, Routed
from jazz_select.evaluation.rules import rules, table_as
from jazz_select.evaluation.tables import Frame, Framed
from jazz_select.json_values import plain

_ALIKE = 0.6
"""The share of examples that two flows have in common (Jaccard) from which on one is the other under a new name."""
_NAMED = frozenset({"name", "title", "aliases"})
"""What a new name brings along."""
_Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowChanges:
    """What happened to the flows themselves.

    Attributes:
        added: Names of flows that were not there before.
        removed: Names of flows that are not there any more.
        renamed: The old name of a flow to its new one: what else it says is the same, or most of its examples are.
        changed: The fields that are different, of each flow that both versions have, by its later name.
    """

    added: tuple[str, ...]
    removed: tuple[str, ...]
    renamed: Mapping[str, str]
    changed: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, before: Mapping[str, _Fields], after: Mapping[str, _Fields]) -> "FlowChanges":
        """From what the flows of both versions say, as far as both say it."""
        gone = sorted(before.keys() - after.keys())
        new = sorted(after.keys() - before.keys())
        renamed = _renamed({name: before[name] for name in gone}, {name: after[name] for name in new})
        pairs = {name: name for name in before.keys() & after.keys()} | {now: old for old, now in renamed.items()}
        changed = {name: fields for name in sorted(pairs) if (fields := _different(before[pairs[name]], after[name]))}
        return cls(
            added=tuple(name for name in new if name not in renamed.values()),
            removed=tuple(name for name in gone if name not in renamed),
            renamed=renamed,
            changed=changed,
        )

    def now(self, name: str) -> str:
        """What a flow of the earlier version is called in the later one."""
        return self.renamed.get(name, name)

    @property
    def any(self) -> bool:
        """Whether anything is different."""
        return bool(self.added or self.removed or self.renamed or self.changed)

    @property
    def in_words(self) -> dict[str, tuple[str, ...]]:
        """What happened, and to which flows, in words."""
        return {
            "added": self.added,
            "removed": self.removed,
            "renamed": tuple(f"{old} → {new}" for old, new in self.renamed.items()),
            "changed": tuple(f"{name} ({', '.join(fields)})" for name, fields in self.changed.items()),
        }


def _different(before: _Fields, after: _Fields) -> tuple[str, ...]:
    both = before.keys() & after.keys()
    return tuple(sorted(field for field in both if field != "name" and before[field] != after[field]))


def _renamed(gone: Mapping[str, _Fields], new: Mapping[str, _Fields]) -> dict[str, str]:
    """The likeliest pairs, each flow in one of them; the same whichever version is the earlier."""
    likeness = sorted(
        (
            (-alike, *sorted((old, now)), old, now)
            for old in gone
            for now in new
            if (alike := _alike(gone[old], new[now]))
        ),
    )
    pairs: dict[str, str] = {}
    for *_, old, now in likeness:
        if old not in pairs and now not in pairs.values():
            pairs[str(old)] = str(now)
    return pairs


def _alike(one: _Fields, other: _Fields) -> float:
    """From 0 to 1; 0 where it is too little to be one flow."""
    both = (one.keys() & other.keys()) - _NAMED
    says = any(one[field] for field in both & {"description", "examples"})
    if says and all(one[field] == other[field] for field in both):
        return 1.0
    mine, theirs = set(map(str, one.get("examples") or ())), set(map(str, other.get("examples") or ()))
    share = len(mine & theirs) / len(mine | theirs) if mine and theirs else 0.0
    return share if share >= _ALIKE else 0.0


_BANDS = ((0.98, "sure"), (0.8, "likely"), (0.5, "open"), (0.0, "unlikely"))
"""Lowest confidence of each class, P(the first candidate is right). `sure` is what `skip_llm_above` mostly is."""
_DRIFT = 0.02
"""How far a confidence has to move, class or not, to be more than the drift of any refit."""


_MOST_NAMED = 3


class ChangeKind(StrEnum):
    """What may change for a request."""

    FIRST = "first"
    """The first candidate is another flow."""
    CANDIDATES = "candidates"
    """Other flows are offered."""
    OUTCOME = "outcome"
    """It is taken, asked of a model or not chosen, and was another of these."""
    CONFIDENCE = "confidence"
    """How sure recall is of its first is of another class: `sure` from .98, `likely` from .8, `open` from .5."""


class Effect(StrEnum):
    """What a change does to a request of which somebody said what is right, the most harmful first."""

    BROKEN = "broken"
    """The first was right, and is not any more."""
    GONE = "gone"
    """The case lost its flow: no flow that is right is there any more, under whatever name."""
    LOST = "lost"
    """The right flow was offered, and is not any more: no model can choose it."""
    SURER = "surer"
    """The first is wrong as before, and recall is surer of it, by a class: it may be taken without a model."""
    FOUND = "found"
    """The right flow was not offered, and is now."""
    FIXED = "fixed"
    """The first was wrong, and is right now."""
    NONE = ""
    """Neither better nor worse, or nobody said what is right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteChange:
    """A request that is led elsewhere.

    Attributes:
        request: Its text.
        episodes: What was said before it.
        source: Where it comes from.
        expect: What is right, None where nobody said.
        before: Where it led.
        after: Where it leads.
        kinds: What is different.
        effect: Whether that is better or worse.
        entered: The candidates that were none before.
        left: The candidates that are none any more.
        why: What is known of the reason, such as a flow that is gone.
    """

    request: str
    episodes: tuple[str, ...]
    source: Source
    expect: tuple[str, ...] | None
    before: Routed
    after: Routed
    kinds: tuple[ChangeKind, ...]
    effect: Effect
    entered: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    why: str = ""

    @property
    def is_shuffle(self) -> bool:
        """Whether nothing but candidates behind the first change, neither for better nor for worse."""
        return self.kinds == (ChangeKind.CANDIDATES,) and self.effect is Effect.NONE

    @property
    def details(self) -> list[str]:
        """What is different beside the first candidate, and what is known of it."""
        before, after = self.before, self.after
        moves = [*(f"+{name}" for name in self.entered), *(f"-{name}" for name in self.left)]
        more = len(moves) - _MOST_NAMED
        moves = [*moves[:_MOST_NAMED], f"and {more} more"] if more > 1 else moves
        of_first = f" of {after.first}" if self.effect is Effect.SURER else ""
        told = {
            ChangeKind.CANDIDATES: f"candidates {' '.join(moves)}",
            ChangeKind.OUTCOME: f"{before.outcome.value} → {after.outcome.value}",
            ChangeKind.CONFIDENCE: f"{sure_in_words(before.confidence)} → {sure_in_words(after.confidence)}{of_first}",
        }
        lines = [line for kind, line in told.items() if kind in self.kinds]
        wrong = bool(self.expect) and not {before.first, after.first} & set(self.expect or ())
        if self.effect is Effect.SURER or (wrong and ChangeKind.FIRST in self.kinds):
            lines.append(f"right is {', '.join(self.expect or ()) or 'no flow'}")
        return [*lines, self.why] if self.why else lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """How one version does on all of it.

    Attributes:
        flows: How many it has.
        requests: How many it was asked.
        labelled: How many of them are cases whose right flow it has, or had: a case that lost its flow counts as wrong.
        right: How many of those lead to the right flow first.
        asked: How many of the cases and logged requests would ask a model. The flows' own examples say nothing of
            that: recall knows them by heart.
        taken: How many of those are decided without.
        none: How many of those lead nowhere.
        counted: Of how many requests the prompt was counted: cases and logged requests, at most a stated sample.
        prompt_tokens: The tokens of those prompts together, by estimate.
    """

    flows: int
    requests: int
    labelled: int
    right: float
    asked: int
    taken: int
    none: int
    counted: int
    prompt_tokens: int

    @property
    def recall_at_1(self) -> float | None:
        """R@1 of the labelled requests, as `jazz-select eval` measures it; None where there are none."""
        return self.right / self.labelled if self.labelled else None

    @property
    def users(self) -> int:
        """How many of the requests are cases and logged ones."""
        return self.asked + self.taken + self.none

    @property
    def asked_share(self) -> float:
        """The share of the cases and logged requests that would ask a model; 0 where there are none."""
        return self.asked / self.users if self.users else 0.0

    @property
    def figures(self) -> dict[str, str]:
        """Each number by what it is called."""
        first = self.recall_at_1
        return {
            "flows": f"{self.flows:,}",
            "R@1": "–" if first is None else f"{first:.1%} of {self.labelled:,}",
            "requests": f"{self.requests:,}",
            "would ask a model": f"{self.asked:,} of {self.users:,} ({self.asked_share:.1%})",
            "decided without": f"{self.taken:,}",
            "lead nowhere": f"{self.none:,}",
            "tokens of prompts": f"{self.prompt_tokens:,} in {self.counted:,}" if self.counted else "–",
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class NewConfusion:
    """Labelled requests and examples of one flow that lead to another one first, and more of them than before."""

    expected: str
    first: str
    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GateFailure:
    """A gate that a change does not pass: which, what it allows, what was found, and in which words to say so."""

    gate: str
    allowed: str
    found: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference(Framed):
    """What a change of a catalogue moves, and how that was found out.

    Attributes:
        base: The version before, in words.
        head: The version after.
        flows: What happened to the flows.
        changes: The requests that are led elsewhere, the most harmful first.
        confusions: Pairs of flows that are confused more often, those that grew most first.
        before: How the version before does on all of it.
        after: How the version after does.
        failures: The gates that the change does not pass.
        notes: What there is to know besides.
        took_s: How long it took, in seconds.
    """

    base: str
    head: str
    flows: FlowChanges
    changes: tuple[RouteChange, ...]
    confusions: tuple[NewConfusion, ...]
    before: Totals
    after: Totals
    failures: tuple[GateFailure, ...] = ()
    notes: tuple[str, ...] = ()
    took_s: float = 0.0

    @classmethod
    def between(
        cls, base: SideState, head: SideState, asked: Sequence[Probe], gates: "Gates | None" = None
    ) -> "Difference":
        """What is different in `head`, the most harmful change first.

        Args:
            base: The version before.
            head: The version after.
            asked: What both were asked.
            gates: What the change may do.
        """
        flows = FlowChanges.of(base.flows, head.flows)
        told = [_Told.of(each, base, head, flows) for each in asked]
        changes = [change for each in told if (change := _change(each, flows)) is not None]
        found = cls(
            base=base.label,
            head=head.label,
            flows=flows,
            changes=tuple(sorted(changes, key=_harm)),
            confusions=_confusions(told, flows),
            before=_totals(base, told, older=True),
            after=_totals(head, told, older=False),
            notes=tuple(dict.fromkeys((*base.notes, *head.notes, *_stale(base, head, asked, flows)))),
        )
        return found if gates is None else replace(found, failures=gates.failures(found))

    @property
    def moved(self) -> tuple[RouteChange, ...]:
        """The requests whose first candidate is another flow."""
        return tuple(each for each in self.changes if ChangeKind.FIRST in each.kinds)

    @property
    def broken(self) -> tuple[RouteChange, ...]:
        """The cases whose right flow was first, or offered, and is not any more, or is gone altogether."""
        return tuple(each for each in self.changes if each.source is Source.CASE and each.effect in BROKEN)

    @property
    def fixed(self) -> tuple[RouteChange, ...]:
        """The cases whose right flow is first now, or offered, and was not before."""
        better = {Effect.FIXED, Effect.FOUND}
        return tuple(each for each in self.changes if each.source is Source.CASE and each.effect in better)

    @property
    def led_away(self) -> tuple[RouteChange, ...]:
        """Examples whose own flow was first, or offered, and is not any more."""
        return tuple(each for each in self.changes if each.source is not Source.CASE and each.effect in BROKEN)

    @property
    def shuffled(self) -> tuple[RouteChange, ...]:
        """The requests for which nothing but candidates behind the first changes, neither for better nor for worse."""
        return tuple(each for each in self.changes if each.is_shuffle)

    @property
    def why(self) -> dict[str, int]:
        """How many requests have another first candidate for each reason that is known, the commonest first."""
        return dict(Counter(each.why for each in self.moved if each.why).most_common())

    @property
    def passed(self) -> bool:
        """Whether every gate was passed."""
        return not self.failures

    @property
    def summary(self) -> str:
        """It all in one sentence."""
        asked = f"{self.after.requests:,} requests"
        if not self.changes:
            return f"No request is led elsewhere ({asked})."
        moved, behind = len(self.moved), len(self.shuffled)
        others = len(self.changes) - moved - behind
        told = [f"{moved:,} of {asked} {'has' if moved == 1 else 'have'} another first candidate"]
        if others:
            told.append(
                f"{others:,} more {'changes' if others == 1 else 'change'} in candidates, outcome or confidence"
            )
        if behind:
            told.append(f"{behind:,} {'has' if behind == 1 else 'have'} other candidates behind the same first")
        if away := len(self.led_away):
            told.append(f"{away:,} {'example lies' if away == 1 else 'examples lie'} with another flow now")
        if self.after.labelled:
            gone = sum(each.effect is Effect.GONE for each in self.broken)
            lost = f" ({gone:,} lost {'its' if gone == 1 else 'their'} flow)" if gone else ""
            told.append(f"{_cases(len(self.broken))} broken{lost}, {len(self.fixed) or 'none'} fixed")
        return f"{'; '.join(told)}."

    def __str__(self) -> str:
        """It all in one sentence."""
        return self.summary

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types; times in seconds, `None` for what is not known."""
        return {
            **asdict(self),
            "changes": [
                asdict(each) | {"before": _led(each.before), "after": _led(each.after)} for each in self.changes
            ],
            "summary": self.summary,
            "passed": self.passed,
            "before": _totals_to_dict(self.before),
            "after": _totals_to_dict(self.after),
        }

    def _frame(self) -> Frame:
        return [_row(each) for each in plain(self.to_dict()["changes"])], _COLUMNS


_SIDES = ("first", "outcome", "confidence")
_COLUMNS = (
    *("request", "source", "expect", "kinds", "effect"),
    *(f"{name}_{side}" for name in _SIDES for side in ("before", "after")),
    *("entered", "left", "why"),
)


def _row(told: Mapping[str, Any]) -> dict[str, Any]:
    """A change as the row of a data frame."""
    sides = {f"{name}_{side}": told[side][name] for name in _SIDES for side in ("before", "after")}
    return {name: sides[name] if name in sides else told[name] for name in _COLUMNS}


def _led(route: Routed) -> dict[str, Any]:
    """Where a version leads a request, as plain JSON types."""
    return {
        "first": route.first,
        "candidates": route.candidates,
        "outcome": route.outcome,
        "confidence": route.confidence,
        "confidence_class": confidence_class(route.confidence),
    }


def _totals_to_dict(totals: Totals) -> dict[str, Any]:
    return asdict(totals) | {"recall_at_1": totals.recall_at_1, "asked_share": totals.asked_share}


def _cases(count: int) -> str:
    return "no case is" if not count else "1 case is" if count == 1 else f"{count} cases are"


def confidence_class(confidence: float | None) -> str:
    """In words."""
    if confidence is None:
        return "unknown"
    return next(name for least, name in _BANDS if confidence >= least or not least)


def sure_in_words(confidence: float | None) -> str:
    """The class of a confidence, and the number with as many digits as it takes to be of that class."""
    name = confidence_class(confidence)
    if confidence is None:
        return name
    spellings = (f"{confidence:.{digits}f}" for digits in range(2, 7))
    return f"{name} ({next((each for each in spellings if confidence_class(float(each)) == name), confidence)})"


@dataclass(frozen=True, slots=True)
class _Told:
    """A question with what both versions say to it, and which flows are right in each: see `expected_flows`."""

    question: Probe
    before: Routed
    after: Routed
    had: tuple[str, ...] | None
    has: tuple[str, ...] | None

    @classmethod
    def of(cls, question: Probe, base: SideState, head: SideState, flows: FlowChanges) -> "_Told":
        return cls(
            question,
            _route(base, question),
            _route(head, question),
            expected_flows(question, base.flows, flows.renamed, older=True),
            expected_flows(question, head.flows, flows.renamed, older=False),
        )

    def side(self, *, older: bool) -> tuple[Routed, tuple[str, ...] | None]:
        return (self.before, self.had) if older else (self.after, self.has)


def _route(side: SideState, question: Probe) -> Routed:
    """Where nothing is, nothing is found."""
    return side.routes.get(question.key) or Routed(request=question.asked.request)


def _change(told: _Told, flows: FlowChanges) -> RouteChange | None:
    question, before, after, had, has = told.question, told.before, told.after, told.had, told.has
    kinds = _kinds(before, after, flows)
    gone = question.source is Source.CASE and had and has is None
    if not kinds and not gone:
        return None
    effect = _effect(_rightness(before, had), _rightness(after, has))
    if gone:
        effect = Effect.GONE
    elif effect is Effect.NONE and ChangeKind.CONFIDENCE in kinds and _rightness(after, has) in {0, 1}:
        effect = Effect.SURER if (after.confidence or 0) > (before.confidence or 0) else effect
    entered, left = _moved(before, after, flows)
    return RouteChange(
        request=question.asked.request,
        episodes=question.asked.episodes,
        source=question.source,
        expect=question.expect,
        before=before,
        after=after,
        kinds=kinds,
        effect=effect,
        entered=entered,
        left=left,
        why="; ".join(_reasons(before.first, after.first, flows, had or () if effect is Effect.GONE else ())),
    )


def _kinds(before: Routed, after: Routed, flows: FlowChanges) -> tuple[ChangeKind, ...]:
    kinds: list[ChangeKind] = []
    if flows.now(before.first) != after.first:
        kinds.append(ChangeKind.FIRST)
    if (flows.renamed or before.candidates != after.candidates) and any(_moved(before, after, flows)):
        kinds.append(ChangeKind.CANDIDATES)
    if before.outcome is not after.outcome:
        kinds.append(ChangeKind.OUTCOME)
    old, new = before.confidence, after.confidence
    drifted = old is not None and new is not None and abs(old - new) < _DRIFT
    if not drifted and confidence_class(old) != confidence_class(new):
        kinds.append(ChangeKind.CONFIDENCE)
    return tuple(kinds)


def _moved(before: Routed, after: Routed, flows: FlowChanges) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The candidates that were none before, and those that are none any more."""
    offered = {flows.now(each): each for each in before.candidates}
    kept = frozenset(after.candidates)
    entered = tuple(each for each in after.candidates if each not in offered)
    return entered, tuple(each for name, each in offered.items() if name not in kept)


def expected_flows(
    question: Probe, flows: Mapping[str, Mapping[str, Any]], renamed: Mapping[str, str], *, older: bool
) -> tuple[str, ...] | None:
    """The right flows under the names that they have on one side; None where nobody said, or none of them is there."""
    if question.expect is None:
        return None
    if not question.expect:
        return () if question.source is Source.CASE else None
    if all(name in flows for name in question.expect):
        return tuple(dict.fromkeys(question.expect))
    back = {new: old for old, new in renamed.items()} if older else renamed
    there = tuple(dict.fromkeys(name for each in question.expect if (name := _there(each, flows, back))))
    return there or None


def _there(name: str, flows: Mapping[str, Mapping[str, Any]], names: Mapping[str, str]) -> str:
    other = names.get(name, "")
    return name if name in flows else other if other in flows else ""


def _rightness(route: Routed, right: tuple[str, ...] | None) -> int | None:
    """2 where the first is, 1 where it is a candidate, 0 where it is not; None where that is unknown."""
    if right is None:
        return None
    if not right:  # nothing fits: right is what chooses nothing, and a model may say so yet
        return {Outcome.NONE: 2, Outcome.ASKED: 1, Outcome.TAKEN: 0}[route.outcome]
    if route.first in right:
        return 2
    return int(bool(set(right) & set(route.candidates)))


def _effect(before: int | None, after: int | None) -> Effect:
    if before is None or after is None or before == after:
        return Effect.NONE
    if before > after:
        return Effect.BROKEN if before > 1 else Effect.LOST
    return Effect.FIXED if after > 1 else Effect.FOUND


def _reasons(before: str, after: str, flows: FlowChanges, lost: Sequence[str]) -> list[str]:
    """Why a case lost its flow, and why another flow is first."""
    told = [f"lost its flow: {', '.join(lost)} was removed"] if lost else []
    if flows.now(before) == after:
        return told
    if before in flows.removed and before not in lost:
        told.append(f"{before} was removed")
    elif before in flows.changed:
        told.append(f"{before} changed ({', '.join(flows.changed[before])})")
    if after in flows.added:
        told.append(f"{after} is new")
    elif after in flows.changed and after != before:
        told.append(f"{after} changed ({', '.join(flows.changed[after])})")
    elif after in flows.renamed.values():
        told.append(f"{after} has a new name")
    return told


_SOURCES = {source: place for place, source in enumerate(Source)}
_EFFECTS = {effect: place for place, effect in enumerate(Effect)}
_BETTER = frozenset({Effect.FOUND, Effect.FIXED})
BROKEN = frozenset({Effect.BROKEN, Effect.GONE, Effect.LOST})
"""What makes a case a broken one."""
_WORSE = BROKEN | {Effect.SURER}


def _harm(change: RouteChange) -> tuple[object, ...]:
    """Broken cases, then firsts that moved (of logged requests before examples), what is better, and then the rest."""
    worse = change.effect in _WORSE
    moved = ChangeKind.FIRST in change.kinds
    if worse and change.source is Source.CASE:
        group = 0
    elif change.effect in _BETTER:
        group = 3
    elif moved or worse:
        group = 1 if moved else 2
    else:
        group = 4 if change.kinds != (ChangeKind.CANDIDATES,) else 5
    return (group, _EFFECTS[change.effect] if worse else 0, _SOURCES[change.source], change.request, change.episodes)


def _confusions(told: Sequence[_Told], flows: FlowChanges) -> tuple[NewConfusion, ...]:
    """Pairs that grew, those that grew most first; under the names of the later version."""
    before, after = (_pairs(told, flows, older=older) for older in (True, False))
    grown = [
        NewConfusion(expected=pair[0], first=pair[1], before=before[pair], after=count)
        for pair, count in after.items()
        if count > before[pair]
    ]
    return tuple(sorted(grown, key=lambda each: (each.before - each.after, each.expected, each.first)))


def _pairs(told: Sequence[_Told], flows: FlowChanges, *, older: bool) -> Counter[tuple[str, str]]:
    pairs: Counter[tuple[str, str]] = Counter()
    for each in told:
        route, right = each.side(older=older)
        if right and route.first and route.first not in right:
            expected, first = right[0], route.first
            pairs[(flows.now(expected), flows.now(first)) if older else (expected, first)] += 1
    return pairs


def _totals(side: SideState, told: Sequence[_Told], *, older: bool) -> Totals:
    """Of one side; the later one has to answer for the cases of the earlier one as well."""
    outcomes: Counter[Outcome] = Counter()
    labelled, right = 0, 0.0
    for each in told:
        route, expected = each.side(older=older)
        outcomes[route.outcome] += each.question.source is not Source.EXAMPLE
        if each.question.source is not Source.CASE:
            continue
        if expected:
            labelled += 1
            right += recall_at(route.ranking, expected, 1)
        elif not older and each.had:
            labelled += 1
    return Totals(
        flows=len(side.flows),
        requests=len(told),
        labelled=labelled,
        right=right,
        asked=outcomes[Outcome.ASKED],
        taken=outcomes[Outcome.TAKEN],
        none=outcomes[Outcome.NONE],
        counted=len(side.tokens),
        prompt_tokens=sum(side.tokens.values()),
    )


_SHOWN = 5


def _stale(base: SideState, head: SideState, asked: Sequence[Probe], flows: FlowChanges) -> list[str]:
    """What there is to say of cases that name flows which the later version does not have."""
    gone, unknown = Counter[str](), Counter[str]()
    for each in asked:
        for name in (each.expect or ()) if each.source is Source.CASE else ():
            if name not in head.flows and flows.now(name) not in head.flows:
                (gone if name in base.flows else unknown)[name] += 1
    told = [(gone, "the earlier version alone has"), (unknown, "nobody has")]
    lines: list[str] = []
    for counts, what in told:
        if many := counts.total():
            which = f"{', '.join(sorted(counts)[:_SHOWN])}{' …' if len(counts) > _SHOWN else ''}"
            labels = f"{many} labels of cases name" if many > 1 else "a label of a case names"
            lines.append(f"{labels} flows that {what}: {which}")
    return lines


_Count = Annotated[int, Constraint("a count, such as 0", ge=0)]
_Share = Annotated[str, Constraint("a share", pattern=r"^\s*(\d+\.?\d*|\.\d+)\s*%\s*$")]
Limit = Annotated[_Count | _Share | None, Constraint('a count, such as 10, or a share, such as "2%"')]
"""A count, or a share such as "2%"; None for no limit."""


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """What a change may do; a gate that is None lets everything through.

    Attributes:
        max_broken_cases: Cases whose right flow was first, or offered, and is not any more, or is gone altogether; a
            share is one of the labelled cases.
        min_recall_at_1: The least share of labelled cases whose first is right afterwards, from 0 to 1; cases that
            lost their flow count as wrong.
        max_changed_first: Requests of any kind whose first is another flow; a share is one of all requests.
        max_new_confusions: Pairs of flows that more requests are confused between than before.
        max_extra_model_calls: Requests that ask a model, more than before; a share is one of all cases and logged
            requests.
        max_extra_tokens: Tokens of the counted prompts, more than before; a share is one of those before.
        allow_removed_flows: Whether flows may be gone without one that took their place.
    """

    max_broken_cases: Limit = None
    min_recall_at_1: Annotated[Probability | None, Constraint("a number from 0 to 1, such as 0.8")] = None
    max_changed_first: Limit = None
    max_new_confusions: Annotated[_Count | None, Constraint("a count, such as 0")] = None
    max_extra_model_calls: Limit = None
    max_extra_tokens: Limit = None
    allow_removed_flows: Annotated[bool, Constraint("true or false")] = True

    @classmethod
    def load(cls, folder: Path) -> "Gates":
        """From the pyproject.toml of `folder`; none where there is no such file or no such table in it.

        Raises:
            ConfigError: The file cannot be read, or a gate in it cannot work.
        """
        file = folder / "pyproject.toml"
        return table_as(cls, rules("gates", file=file), f"{file}, [tool.jazz-select.gates]")

    @property
    def any(self) -> bool:
        """Whether one of them may stop something."""
        return self != Gates()

    def failures(self, found: Difference) -> tuple[GateFailure, ...]:
        """Those that this change does not pass, in the order of their names here."""
        broken, moved = ([each.request for each in some] for some in (found.broken, found.moved))
        pairs = [f"{each.expected} → {each.first}" for each in found.confusions]
        labelled, asked = max(found.before.labelled, found.after.labelled), found.after.requests
        more = found.after.asked - found.before.asked
        checked = (
            self._over("max_broken_cases", len(broken), labelled, "cases are broken", broken),
            self._recall(found),
            self._over("max_changed_first", len(moved), asked, "requests have another first candidate", moved),
            self._over("max_new_confusions", len(pairs), 0, "pairs of flows are confused more often", pairs),
            self._over("max_extra_model_calls", more, found.after.users, "more requests ask a model"),
            self._tokens(found),
            self._removed(found),
        )
        return tuple(each for each in checked if each is not None)

    def _recall(self, found: Difference) -> GateFailure | None:
        least, now = self.min_recall_at_1, found.after.recall_at_1
        if least is None or (now is not None and now >= least):
            return None
        told = "there are no labelled cases to find R@1 by" if now is None else f"R@1 is {now:.1%}"
        message = f"min_recall_at_1: {told}, and at least {least:.1%} is asked for"
        value = "unknown" if now is None else f"{now:.4f}"
        return GateFailure(gate="min_recall_at_1", allowed=str(least), found=value, message=message)

    def _tokens(self, found: Difference) -> GateFailure | None:
        if found.before.flows and found.before.counted != found.after.counted:
            return None  # of one side they are not known, which its notes say
        before, more = found.before.prompt_tokens, found.after.prompt_tokens - found.before.prompt_tokens
        what = f"more tokens are in the prompts of {found.after.counted} requests"
        return self._over("max_extra_tokens", more, before, what)

    def _removed(self, found: Difference) -> GateFailure | None:
        gone = found.flows.removed
        if self.allow_removed_flows or not gone:
            return None
        message = f"allow_removed_flows: {_some(gone)} removed, and none may be"
        return GateFailure(gate="allow_removed_flows", allowed="false", found=str(len(gone)), message=message)

    def _over(self, gate: str, found: int, of: int, what: str, which: Sequence[str] = ()) -> GateFailure | None:
        limit: Limit = getattr(self, gate)
        if limit is None:
            return None
        share = float(limit.replace("%", "")) / 100 if isinstance(limit, str) else None
        most = float(limit) if share is None else share * of
        if found <= most:
            return None
        allowed = str(limit) if share is None else f"{limit} of {of:,}"
        named = f": {_some(which)}" if which else ""
        message = f"{gate}: {found:,} {what}, and {allowed} may{named}"
        return GateFailure(gate=gate, allowed=str(limit), found=str(found), message=message)


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(f"{name:.80}" for name in names[:_MOST_NAMED])
    return f"{shown} and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else shown
