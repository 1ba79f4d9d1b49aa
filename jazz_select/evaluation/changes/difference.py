"""What a change moves: two snapshots of a catalogue compared, flow by flow and request by request. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from jazz_select.evaluation.changes.snapshots import Question, Snapshot, Source
from jazz_select.evaluation.metrics import recall_at
from jazz_select.evaluation.route import Outcome, Route

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


def _different(before: _Fields, after: _Fields) -> tuple[str, ...]:
    both = before.keys() & after.keys()
    return tuple(sorted(field for field in both if field != "name" and _told(before[field]) != _told(after[field])))


def _told(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


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
    says = any(one.get(field) for field in ("description", "examples"))
    if says and all(_told(one[field]) == _told(other[field]) for field in both):
        return 1.0
    mine, theirs = set(map(str, one.get("examples") or ())), set(map(str, other.get("examples") or ()))
    share = len(mine & theirs) / len(mine | theirs) if mine and theirs else 0.0
    return share if share >= _ALIKE else 0.0


_BANDS = ((0.98, "sure"), (0.8, "likely"), (0.5, "open"), (0.0, "unlikely"))
"""Lowest confidence of each class, P(the first candidate is right). `sure` is what `skip_llm_above` mostly is."""
_RIGHT = 2
_DRIFT = 0.02
"""How far a confidence has to move, class or not, to be more than the drift of any refit."""


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
class Leading:
    """Where one version leads a request.

    Attributes:
        first: The first candidate; empty where there is none.
        candidates: All of them, best first.
        outcome: What becomes of it.
        confidence: P(the first is right), None where that is not known.
        confidence_class: The class of that; `unknown` where it is not.
    """

    first: str
    candidates: tuple[str, ...]
    outcome: Outcome
    confidence: float | None
    confidence_class: str

    @classmethod
    def of(cls, route: Route) -> "Leading":
        """From the route."""
        return cls(
            first=route.first,
            candidates=route.candidates,
            outcome=route.outcome,
            confidence=route.confidence,
            confidence_class=confidence_class(route.confidence),
        )


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
    before: Leading
    after: Leading
    kinds: tuple[ChangeKind, ...]
    effect: Effect
    entered: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """How one version does on all of it.

    Attributes:
        flows: How many it has.
        requests: How many it was asked.
        labelled: How many of them are cases whose right flow it has, or had: a case that lost its flow counts as wrong.
        right: How many of those lead to the right flow first.
        asked: How many of the requests would ask a model.
        taken: How many are decided without.
        none: How many lead nowhere.
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
    def asked_share(self) -> float:
        """The share of the requests that would ask a model."""
        return self.asked / self.requests if self.requests else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NewConfusion:
    """Labelled requests and examples of one flow that lead to another one first, and more of them than before."""

    expected: str
    first: str
    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """All that is different between two snapshots.

    Attributes:
        flows: What happened to the flows.
        changes: The requests that are led elsewhere, the most harmful first.
        confusions: Pairs of flows that are confused more often, those that grew most first.
        before: How the version before does on all of it.
        after: How the version after does.
        notes: What there is to know besides.
    """

    flows: FlowChanges
    changes: tuple[RouteChange, ...]
    confusions: tuple[NewConfusion, ...]
    before: Totals
    after: Totals
    notes: tuple[str, ...] = ()


def confidence_class(confidence: float | None) -> str:
    """In words."""
    if confidence is None:
        return "unknown"
    return next(name for least, name in _BANDS if confidence >= least or not least)


def compared(base: Snapshot, head: Snapshot, asked: Sequence[Question]) -> Compared:
    """What is different in `head`, the most harmful change first.

    Args:
        base: The version before.
        head: The version after.
        asked: What both were asked.
    """
    flows = FlowChanges.of(base.flows, head.flows)
    told = [_Told.of(each, base, head, flows) for each in asked]
    changes = [change for each in told if (change := _change(each, flows)) is not None]
    changes.sort(key=_harm)
    return Compared(
        flows=flows,
        changes=tuple(changes),
        confusions=_confusions(told, flows),
        before=_totals(base, told, older=True),
        after=_totals(head, told, older=False),
        notes=tuple(dict.fromkeys((*base.notes, *head.notes, *_stale(base, head, asked, flows)))),
    )


@dataclass(frozen=True, slots=True)
class _Told:
    """A question with what both versions say to it, and which flows are right in each: see `labels`."""

    question: Question
    before: Route
    after: Route
    had: tuple[str, ...] | None
    has: tuple[str, ...] | None

    @classmethod
    def of(cls, question: Question, base: Snapshot, head: Snapshot, flows: FlowChanges) -> "_Told":
        return cls(
            question,
            _route(base, question),
            _route(head, question),
            labels(question, base.flows, flows.renamed, older=True),
            labels(question, head.flows, flows.renamed, older=False),
        )

    def side(self, *, older: bool) -> tuple[Route, tuple[str, ...] | None]:
        return (self.before, self.had) if older else (self.after, self.has)


def _route(side: Snapshot, question: Question) -> Route:
    """Where nothing is, nothing is found."""
    return side.routes.get(question.key) or Route(request=question.asked.request)


def _change(told: _Told, flows: FlowChanges) -> RouteChange | None:
    question, before, after, had, has = told.question, told.before, told.after, told.had, told.has
    kinds = _kinds(before, after, flows)
    gone = question.source is Source.CASE and had and has is None
    if not kinds and not gone:
        return None
    effect = _effect(_rightness(before, had), _rightness(after, has))
    if gone:
        effect = Effect.GONE
    elif effect is Effect.NONE and ChangeKind.CONFIDENCE in kinds and _is_misled(after, has):
        effect = Effect.SURER if (after.confidence or 0) > (before.confidence or 0) else effect
    entered, left = _moved(before, after, flows)
    return RouteChange(
        request=question.asked.request,
        episodes=question.asked.episodes,
        source=question.source,
        expect=question.expect,
        before=Leading.of(before),
        after=Leading.of(after),
        kinds=kinds,
        effect=effect,
        entered=entered,
        left=left,
        why="; ".join(_reasons(before.first, after.first, flows, had or () if effect is Effect.GONE else ())),
    )


def _kinds(before: Route, after: Route, flows: FlowChanges) -> tuple[ChangeKind, ...]:
    kinds: list[ChangeKind] = []
    if flows.now(before.first) != after.first:
        kinds.append(ChangeKind.FIRST)
    if (flows.renamed or before.candidates != after.candidates) and any(_moved(before, after, flows)):
        kinds.append(ChangeKind.CANDIDATES)
    if before.outcome is not after.outcome:
        kinds.append(ChangeKind.OUTCOME)
    old, new = before.confidence, after.confidence
    if not _drifted(old, new) and confidence_class(old) != confidence_class(new):
        kinds.append(ChangeKind.CONFIDENCE)
    return tuple(kinds)


def _moved(before: Route, after: Route, flows: FlowChanges) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The candidates that were none before, and those that are none any more."""
    offered = {flows.now(each): each for each in before.candidates}
    kept = frozenset(after.candidates)
    entered = tuple(each for each in after.candidates if each not in offered)
    return entered, tuple(each for name, each in offered.items() if name not in kept)


def _drifted(one: float | None, other: float | None) -> bool:
    return one is not None and other is not None and abs(one - other) < _DRIFT


def labels(
    question: Question, flows: Mapping[str, Mapping[str, Any]], renamed: Mapping[str, str], *, older: bool
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


def _rightness(route: Route, right: tuple[str, ...] | None) -> int | None:
    """`_RIGHT` where the first is, 1 where it is a candidate, 0 where it is not; None where that is unknown."""
    if right is None:
        return None
    if not right:  # nothing fits: right is what chooses nothing, and a model may say so yet
        return {Outcome.NONE: 2, Outcome.ASKED: 1, Outcome.TAKEN: 0}[route.outcome]
    if route.first in right:
        return 2
    return int(bool(set(right) & set(route.candidates)))


def _is_misled(route: Route, right: tuple[str, ...] | None) -> bool:
    rightness = _rightness(route, right)
    return rightness is not None and rightness < _RIGHT


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


def _totals(side: Snapshot, told: Sequence[_Told], *, older: bool) -> Totals:
    """Of one side; the later one has to answer for the cases of the earlier one as well."""
    outcomes: Counter[Outcome] = Counter()
    labelled, right = 0, 0.0
    for each in told:
        route, expected = each.side(older=older)
        outcomes[route.outcome] += 1
        if each.question.source is not Source.CASE:
            continue
        if expected:
            labelled += 1
            right += recall_at(route.ranking, expected, 1)
        elif expected is None and not older and each.had:
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


def _stale(base: Snapshot, head: Snapshot, asked: Sequence[Question], flows: FlowChanges) -> list[str]:
    """What there is to say of cases that name flows which the later version does not have."""
    gone, unknown = Counter[str](), Counter[str]()
    for each in asked:
        for name in (each.expect or ()) if each.source is Source.CASE else ():
            if name not in head.flows and flows.now(name) not in head.flows:
                (gone if name in base.flows else unknown)[name] += 1
    told = [(gone, "the earlier version alone has"), (unknown, "nobody has")]
    return [f"{_labels_of(counts)} flows that {what}: {_named(counts)}" for counts, what in told if counts]


def _labels_of(counts: Counter[str]) -> str:
    return f"{counts.total()} labels of cases name" if counts.total() > 1 else "a label of a case names"


def _named(counts: Counter[str]) -> str:
    return f"{', '.join(sorted(counts)[:_SHOWN])}{' …' if len(counts) > _SHOWN else ''}"
