"""The difference between two versions of a catalogue, by flow and by request, and the gates that limit it.

Gates are read from `[tool.jazz-select.gates]` in pyproject.toml.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from jazz_select.arguments import Constraint, Probability, checked
from jazz_select.evaluation.changes.snapshots import Probe, SideState, Source
from jazz_select.evaluation.metrics import recall_at
from jazz_select.evaluation.route import Outcome, Routed
from jazz_select.evaluation.rules import FILE, rules
from jazz_select.evaluation.tables import Frame, Framed
from jazz_select.json_values import plain
from jazz_select.text import some_of

_ALIKE = 0.6
"""Flows whose examples overlap by at least this much (Jaccard) count as one flow that was renamed."""
_NAMED = frozenset({"name", "title", "aliases"})
"""Fields that change with a rename."""
_Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowChanges:
    """Flows that were added, removed, renamed (old name to new), or changed (fields by new name).

    A flow counts as renamed if its other fields, or most of its examples, are the same.
    """

    added: tuple[str, ...]
    removed: tuple[str, ...]
    renamed: Mapping[str, str]
    changed: Mapping[str, tuple[str, ...]]

    @classmethod
    def between(cls, before: Mapping[str, _Fields], after: Mapping[str, _Fields]) -> "FlowChanges":
        """Compare the fields that both versions have."""
        gone = sorted(before.keys() - after.keys())
        new = sorted(after.keys() - before.keys())
        renamed = _find_renamed({name: before[name] for name in gone}, {name: after[name] for name in new})
        earlier_names = {name: name for name in before.keys() & after.keys()}
        earlier_names.update({now: old for old, now in renamed.items()})
        changed: dict[str, tuple[str, ...]] = {}
        for name in sorted(earlier_names):
            fields = _different(before[earlier_names[name]], after[name])
            if fields:
                changed[name] = fields
        return cls(
            added=tuple(name for name in new if name not in renamed.values()),
            removed=tuple(name for name in gone if name not in renamed),
            renamed=renamed,
            changed=changed,
        )

    def now(self, name: str) -> str:
        """Return the new name of a flow of the earlier version."""
        return self.renamed.get(name, name)

    def describe(self, name: str) -> str:
        """Return what happened to a flow; empty if nothing did."""
        if name in self.added:
            return f"{name} is new"
        if name in self.removed:
            return f"{name} was removed"
        if name in self.renamed.values():
            return f"{name} has a new name"
        if name in self.changed:
            return f"{name} changed ({', '.join(self.changed[name])})"
        return ""

    @property
    def any(self) -> bool:
        """Whether any flow is different."""
        return bool(self.added or self.removed or self.renamed or self.changed)

    @property
    def in_words(self) -> dict[str, tuple[str, ...]]:
        """The flows of each kind of change, rendered as text."""
        return {
            "added": self.added,
            "removed": self.removed,
            "renamed": tuple(f"{old} → {new}" for old, new in self.renamed.items()),
            "changed": tuple(f"{name} ({', '.join(fields)})" for name, fields in self.changed.items()),
        }


def _different(before: _Fields, after: _Fields) -> tuple[str, ...]:
    both = before.keys() & after.keys()
    return tuple(sorted(field for field in both if field != "name" and before[field] != after[field]))


def _find_renamed(gone: Mapping[str, _Fields], new: Mapping[str, _Fields]) -> dict[str, str]:
    """Return the most similar pairs, each flow at most once. Swapping the versions gives the same pairs."""
    candidates: list[tuple[float, list[str], str, str]] = []
    for old in gone:
        for now in new:
            similarity = _similarity(gone[old], new[now])
            if similarity:
                # Equal pairs are ordered by both names, whichever version is the earlier one.
                candidates.append((-similarity, sorted((old, now)), old, now))
    pairs: dict[str, str] = {}
    for _, _, old, now in sorted(candidates):
        if old not in pairs and now not in pairs.values():
            pairs[old] = now
    return pairs


def _similarity(one: _Fields, other: _Fields) -> float:
    """Return the similarity of two flows from 0 to 1, with values below `_ALIKE` as 0."""
    both = (one.keys() & other.keys()) - _NAMED
    has_content = any(one[field] for field in both & {"description", "examples"})
    if has_content and all(one[field] == other[field] for field in both):
        return 1.0
    mine = set(map(str, one.get("examples") or ()))
    theirs = set(map(str, other.get("examples") or ()))
    if not mine or not theirs:
        return 0.0
    share = len(mine & theirs) / len(mine | theirs)
    return share if share >= _ALIKE else 0.0


_BANDS = ((0.98, "sure"), (0.8, "likely"), (0.5, "open"), (0.0, "unlikely"))
"""Lowest confidence of each class."""
_DRIFT = 0.02
"""Smaller changes of a confidence are ignored, even across classes: any refit causes them."""
_MOST_NAMED = 3


class ChangeKind(StrEnum):
    """What changed for a request."""

    FIRST = "first"
    """The first candidate is another flow."""
    CANDIDATES = "candidates"
    """Other flows are offered."""
    OUTCOME = "outcome"
    """Whether the first is taken without a model, a model is asked, or nothing is chosen."""
    CONFIDENCE = "confidence"
    """The confidence in the first is of another class: `sure` from .98, `likely` from .8, `open` from .5."""


class Effect(StrEnum):
    """The effect of a change on a labelled request, the most harmful first."""

    BROKEN = "broken"
    """The first candidate was right and is now wrong."""
    GONE = "gone"
    """Every right flow was removed."""
    LOST = "lost"
    """The right flow is no longer a candidate, so no model can choose it."""
    SURER = "surer"
    """The first is still wrong, with a higher confidence class: it may now be taken without a model."""
    FOUND = "found"
    """The right flow is now a candidate."""
    FIXED = "fixed"
    """The first was wrong and is now right."""
    NONE = ""
    """Neither better nor worse, or the request has no label."""


@dataclass(frozen=True, kw_only=True)
class RouteChange(Probe):
    """A request whose route changed, and why: what confirmably moved it, or what perhaps did."""

    before: Routed
    after: Routed
    kinds: tuple[ChangeKind, ...]
    effect: Effect
    entered: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    why: str = ""

    @property
    def is_shuffle(self) -> bool:
        """Whether only candidates behind the first change, without an effect on the label."""
        return self.kinds == (ChangeKind.CANDIDATES,) and self.effect is Effect.NONE

    @property
    def details(self) -> list[str]:
        """Lines about every difference except the first candidate, and the known reason."""
        before, after = self.before, self.after
        moves = [f"+{name}" for name in self.entered] + [f"-{name}" for name in self.left]
        more = len(moves) - _MOST_NAMED
        if more > 1:  # a single one takes no more room than its count
            moves = [*moves[:_MOST_NAMED], f"and {more} more"]
        of_first = f" of {after.first}" if self.effect is Effect.SURER else ""
        texts = {
            ChangeKind.CANDIDATES: f"candidates {' '.join(moves)}",
            ChangeKind.OUTCOME: f"{before.outcome.value} → {after.outcome.value}",
            ChangeKind.CONFIDENCE: f"{sure_in_words(before.confidence)} → {sure_in_words(after.confidence)}{of_first}",
        }
        lines = [line for kind, line in texts.items() if kind in self.kinds]
        if self.effect is Effect.GONE:
            lines.append(f"lost its flow: {', '.join(self.expect or ())}")
        is_wrong = bool(self.expect) and {before.first, after.first}.isdisjoint(self.expect or ())
        if self.effect is Effect.SURER or (is_wrong and ChangeKind.FIRST in self.kinds):
            lines.append(f"right is {', '.join(self.expect or ()) or 'no flow'}")
        if self.why:
            lines.append(self.why)
        return lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The counts of one version over all requests.

    Outcomes (asked, taken, none) leave examples out, because recall has these indexed. Prompt tokens are estimates for
    a fixed sample. A labelled case that lost its flow counts as wrong.
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
        """R@1 of the labelled requests, as in `jazz-select eval`; None without any."""
        return self.right / self.labelled if self.labelled else None

    @property
    def users(self) -> int:
        """Number of cases and logged requests."""
        return self.asked + self.taken + self.none

    @property
    def asked_share(self) -> float:
        """Share of cases and logged requests that would ask a model; 0 without any."""
        return self.asked / self.users if self.users else 0.0

    @property
    def figures(self) -> dict[str, str]:
        """Each number as text, by its label."""
        recall = asking = tokens = "–"
        if self.recall_at_1 is not None:
            recall = f"{self.recall_at_1:.1%} of {self.labelled:,}"
        if self.users:
            asking = f"{self.asked:,} of {self.users:,} ({self.asked_share:.1%})"
        if self.counted:
            tokens = f"{self.prompt_tokens:,} in {self.counted:,}"
        return {
            "flows": f"{self.flows:,}",
            "R@1": recall,
            "requests": f"{self.requests:,}",
            "would ask a model": asking,
            "decided without": f"{self.taken:,}",
            "lead nowhere": f"{self.none:,}",
            "tokens of prompts": tokens,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class NewConfusion:
    """A pair of flows where more labelled requests of one lead to the other first than before."""

    expected: str
    first: str
    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GateFailure:
    """A gate that a change does not pass: its name, its limit, the measured value and a message."""

    gate: str
    allowed: str
    found: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference(Framed):
    """The difference between two versions of a catalogue; the most harmful changes and worst confusions come first."""

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
        """Compare two versions over the requests that both were asked, and apply the gates."""
        flows = FlowChanges.between(base.flows, head.flows)
        pairs = [_RoutePair.from_sides(probe, base, head, flows) for probe in asked]
        changes: list[RouteChange] = []
        for pair in pairs:
            change = _change(pair, flows)
            if change is not None:
                changes.append(change)
        difference = cls(
            base=base.label,
            head=head.label,
            flows=flows,
            changes=tuple(sorted(changes, key=_harm)),
            confusions=_confusions(pairs, flows),
            before=_totals(base, pairs, older=True),
            after=_totals(head, pairs, older=False),
            notes=tuple(dict.fromkeys((*base.notes, *head.notes, *_stale(base, head, asked, flows)))),
        )
        if gates is None:
            return difference
        return replace(difference, failures=gates.failures(difference))

    @property
    def moved(self) -> tuple[RouteChange, ...]:
        """The requests whose first candidate is another flow."""
        return tuple(each for each in self.changes if ChangeKind.FIRST in each.kinds)

    @property
    def broken(self) -> tuple[RouteChange, ...]:
        """The cases that the change breaks: see `BROKEN`."""
        return tuple(each for each in self.changes if each.source is Source.CASE and each.effect in BROKEN)

    @property
    def fixed(self) -> tuple[RouteChange, ...]:
        """The cases whose right flow is newly first, or newly a candidate."""
        return tuple(each for each in self.changes if each.source is Source.CASE and each.effect in _BETTER)

    @property
    def led_away(self) -> tuple[RouteChange, ...]:
        """Examples whose own flow is no longer first, or no longer a candidate."""
        return tuple(each for each in self.changes if each.source is not Source.CASE and each.effect in BROKEN)

    @property
    def shuffled(self) -> tuple[RouteChange, ...]:
        """The requests where only candidates behind the first change."""
        return tuple(each for each in self.changes if each.is_shuffle)

    @property
    def why(self) -> dict[str, int]:
        """Number of requests with another first candidate by known reason, the commonest first."""
        return dict(Counter(each.why for each in self.moved if each.why).most_common())

    @property
    def passed(self) -> bool:
        """Whether the change passes every gate."""
        return not self.failures

    @property
    def summary(self) -> str:
        """The difference in one sentence."""
        asked = f"{self.after.requests:,} requests"
        if not self.changes:
            return f"No request is led elsewhere ({asked})."
        moved, behind = len(self.moved), len(self.shuffled)
        others = len(self.changes) - moved - behind
        parts = [f"{moved:,} of {asked} {'has' if moved == 1 else 'have'} another first candidate"]
        if others:
            verb = "changes" if others == 1 else "change"
            parts.append(f"{others:,} more {verb} in candidates, outcome or confidence")
        if behind:
            verb = "has" if behind == 1 else "have"
            parts.append(f"{behind:,} {verb} other candidates behind the same first")
        away = len(self.led_away)
        if away:
            what = "example lies" if away == 1 else "examples lie"
            parts.append(f"{away:,} {what} with another flow now")
        if self.after.labelled:
            gone = sum(each.effect is Effect.GONE for each in self.broken)
            lost = ""
            if gone:
                lost = f" ({gone:,} lost {'its' if gone == 1 else 'their'} flow)"
            parts.append(f"{_cases(len(self.broken))} broken{lost}, {len(self.fixed) or 'none'} fixed")
        return f"{'; '.join(parts)}."

    def __str__(self) -> str:
        """Return `summary`."""
        return self.summary

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types: times in seconds, `None` for unknown values."""
        return {
            **asdict(self),
            "changes": list(map(_change_to_dict, self.changes)),
            "summary": self.summary,
            "passed": self.passed,
            "before": _totals_to_dict(self.before),
            "after": _totals_to_dict(self.after),
        }

    def _frame(self) -> Frame:
        return [_row(each) for each in plain(self.to_dict()["changes"])], _COLUMNS


_OF_CHANGE = ("request", "episodes", "source", "expect", "kinds", "effect", "entered", "left", "why")
_SIDES = ("first", "outcome", "confidence")
_COLUMNS = (
    *("request", "source", "expect", "kinds", "effect"),
    *("first_before", "first_after", "outcome_before", "outcome_after", "confidence_before", "confidence_after"),
    *("entered", "left", "why"),
)


def _row(change: Mapping[str, Any]) -> dict[str, Any]:
    row = {name: change[name] for name in _OF_CHANGE}
    for name in _SIDES:
        row[f"{name}_before"] = change["before"][name]
        row[f"{name}_after"] = change["after"][name]
    return {name: row[name] for name in _COLUMNS}


def _change_to_dict(change: RouteChange) -> dict[str, Any]:
    values = {name: getattr(change, name) for name in _OF_CHANGE}
    return values | {"before": _route_to_dict(change.before), "after": _route_to_dict(change.after)}


def _route_to_dict(route: Routed) -> dict[str, Any]:
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
    """Return the name of a confidence's class."""
    if confidence is None:
        return "unknown"
    return next(name for least, name in _BANDS if confidence >= least or not least)


def sure_in_words(confidence: float | None) -> str:
    """Return the class of a confidence, and the number rounded to the fewest digits that stay in that class."""
    name = confidence_class(confidence)
    if confidence is None:
        return name
    for digits in range(2, 7):
        rounded = f"{confidence:.{digits}f}"
        if confidence_class(float(rounded)) == name:
            return f"{name} ({rounded})"
    return f"{name} ({confidence})"


@dataclass(frozen=True, slots=True)
class _RoutePair:
    """A request with its route and its right flows (see `expected_flows`) in both versions."""

    probe: Probe
    before: Routed
    after: Routed
    had: tuple[str, ...] | None
    has: tuple[str, ...] | None

    @classmethod
    def from_sides(cls, probe: Probe, base: SideState, head: SideState, flows: FlowChanges) -> "_RoutePair":
        return cls(
            probe,
            _route(base, probe),
            _route(head, probe),
            expected_flows(probe, base.flows, flows.renamed, older=True),
            expected_flows(probe, head.flows, flows.renamed, older=False),
        )

    def side(self, *, older: bool) -> tuple[Routed, tuple[str, ...] | None]:
        return (self.before, self.had) if older else (self.after, self.has)


def _route(side: SideState, probe: Probe) -> Routed:
    """Return the route of a request; an empty one where the version has no flows."""
    return side.routes.get(probe.key) or Routed(request=probe.asked.request)


def _change(pair: _RoutePair, flows: FlowChanges) -> RouteChange | None:
    probe, before, after = pair.probe, pair.before, pair.after
    kinds = tuple(_kinds(before, after, flows))
    has_lost_flow = probe.source is Source.CASE and pair.had and pair.has is None
    if not kinds and not has_lost_flow:
        return None
    rightness = _rightness(after, pair.has)
    effect = _effect(_rightness(before, pair.had), rightness)
    if has_lost_flow:
        effect = Effect.GONE
    elif effect is Effect.NONE and ChangeKind.CONFIDENCE in kinds and rightness in {0, 1}:
        # Both answers are wrong; a more confident one may now be taken without a model.
        is_surer = (after.confidence or 0) > (before.confidence or 0)
        effect = Effect.SURER if is_surer else Effect.NONE
    entered, left = _moved_candidates(before, after, flows)
    why = ""
    if ChangeKind.FIRST in kinds:
        changes = dict.fromkeys((flows.describe(before.first), flows.describe(after.first)))
        reasons = [change for change in changes if change]
        why = f"perhaps {'; '.join(reasons)}" if reasons else ""
    return RouteChange(
        asked=probe.asked,
        source=probe.source,
        expect=probe.expect,
        before=before,
        after=after,
        kinds=kinds,
        effect=effect,
        entered=entered,
        left=left,
        why=why,
    )


def _kinds(before: Routed, after: Routed, flows: FlowChanges) -> Iterator[ChangeKind]:
    if flows.now(before.first) != after.first:
        yield ChangeKind.FIRST
    if (flows.renamed or before.candidates != after.candidates) and any(_moved_candidates(before, after, flows)):
        yield ChangeKind.CANDIDATES
    # An index holds no examples, so that what is known word for word cannot be told there.
    known = {before.is_known, after.is_known}
    if before.outcome is not after.outcome and known != {None, True}:
        yield ChangeKind.OUTCOME
    old, new = before.confidence, after.confidence
    is_close = old is not None and new is not None and abs(old - new) < _DRIFT
    if not is_close and confidence_class(old) != confidence_class(new):
        yield ChangeKind.CONFIDENCE


def _moved_candidates(before: Routed, after: Routed, flows: FlowChanges) -> tuple[tuple[str, ...], tuple[str, ...]]:
    earlier = {flows.now(old): old for old in before.candidates}
    entered = tuple(name for name in after.candidates if name not in earlier)
    left = tuple(old for name, old in earlier.items() if name not in after.candidates)
    return entered, left


def expected_flows(
    probe: Probe, flows: Mapping[str, Mapping[str, Any]], renamed: Mapping[str, str], *, older: bool
) -> tuple[str, ...] | None:
    """Return the right flows by their names on one side; None without a label, or if none of them exists there."""
    if probe.expect is None:
        return None
    if not probe.expect:
        # Only a case says that nothing fits; an entry of the log without a flow is not labelled.
        return () if probe.source is Source.CASE else None
    if all(name in flows for name in probe.expect):
        return tuple(dict.fromkeys(probe.expect))
    other_names = {new: old for old, new in renamed.items()} if older else renamed
    found: dict[str, None] = {}
    for expected in probe.expect:
        name = expected if expected in flows else other_names.get(expected, "")
        if name in flows:
            found[name] = None
    return tuple(found) or None


def _rightness(route: Routed, right: tuple[str, ...] | None) -> int | None:
    """Return 2 if a right flow is first, 1 if it is a candidate, otherwise 0; None without a label."""
    if right is None:
        return None
    if not right:  # no flow fits: choosing nothing is right, and a model may still decide that
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


_SOURCES = {source: place for place, source in enumerate(Source)}
_EFFECTS = {effect: place for place, effect in enumerate(Effect)}
_BETTER = frozenset({Effect.FOUND, Effect.FIXED})
BROKEN = frozenset({Effect.BROKEN, Effect.GONE, Effect.LOST})
"""The effects that break a case: its right flow is no longer first, no longer a candidate, or removed."""
_WORSE = BROKEN | {Effect.SURER}


def _harm(change: RouteChange) -> tuple[object, ...]:
    """Sort key: broken cases, moved firsts (logged requests before examples), other harm, improvements, the rest."""
    is_worse = change.effect in _WORSE
    if is_worse and change.source is Source.CASE:
        group = 0
    elif change.effect in _BETTER:
        group = 3
    elif ChangeKind.FIRST in change.kinds:
        group = 1
    elif is_worse:
        group = 2
    elif change.kinds != (ChangeKind.CANDIDATES,):
        group = 4
    else:
        group = 5
    effect = _EFFECTS[change.effect] if is_worse else 0
    return (group, effect, _SOURCES[change.source], change.request, change.episodes)


def _confusions(routes: Sequence[_RoutePair], flows: FlowChanges) -> tuple[NewConfusion, ...]:
    """Return the pairs that grew, those that grew most first, by the names of the later version."""
    before = _pairs(routes, flows, older=True)
    after = _pairs(routes, flows, older=False)
    grown: list[NewConfusion] = []
    for pair, count in after.items():
        if count > before[pair]:
            expected, first = pair
            grown.append(NewConfusion(expected=expected, first=first, before=before[pair], after=count))
    return tuple(sorted(grown, key=lambda each: (each.before - each.after, each.expected, each.first)))


def _pairs(routes: Sequence[_RoutePair], flows: FlowChanges, *, older: bool) -> Counter[tuple[str, str]]:
    pairs: Counter[tuple[str, str]] = Counter()
    for each in routes:
        route, right = each.side(older=older)
        if right and route.first and route.first not in right:
            expected, first = right[0], route.first
            if older:  # counted by the names of the later version, like the pairs beside it
                expected, first = flows.now(expected), flows.now(first)
            pairs[expected, first] += 1
    return pairs


def _totals(side: SideState, pairs: Sequence[_RoutePair], *, older: bool) -> Totals:
    """Count one side. Cases whose flow the later version removed count against it."""
    outcomes: Counter[Outcome] = Counter()
    labelled, right = 0, 0.0
    for each in pairs:
        route, expected = each.side(older=older)
        outcomes[route.outcome] += each.probe.source is not Source.EXAMPLE
        if each.probe.source is not Source.CASE:
            continue
        if expected:
            labelled += 1
            right += recall_at(route.ranking, expected, 1)
        elif not older and each.had:
            labelled += 1
    return Totals(
        flows=len(side.flows),
        requests=len(pairs),
        labelled=labelled,
        right=right,
        asked=outcomes[Outcome.ASKED],
        taken=outcomes[Outcome.TAKEN],
        none=outcomes[Outcome.NONE],
        counted=len(side.tokens),
        prompt_tokens=sum(side.tokens.values()),
    )


_SHOWN = 5


def _stale(base: SideState, head: SideState, asked: Sequence[Probe], flows: FlowChanges) -> Iterator[str]:
    """Return notes about cases that name flows which the later version does not have."""
    removed = Counter[str]()
    unknown = Counter[str]()
    for each in asked:
        if each.source is not Source.CASE:
            continue
        for name in each.expect or ():
            if name in head.flows or flows.now(name) in head.flows:
                continue
            if name in base.flows:
                removed[name] += 1
            else:
                unknown[name] += 1
    for counts, what in ((removed, "the earlier version alone has"), (unknown, "nobody has")):
        total = counts.total()
        if not total:
            continue
        names = ", ".join(sorted(counts)[:_SHOWN])
        if len(counts) > _SHOWN:
            names += " …"
        labels = f"{total} labels of cases name" if total > 1 else "a label of a case names"
        yield f"{labels} flows that {what}: {names}"


_Count = Annotated[int, Constraint("a count, such as 0", ge=0)]
_Share = Annotated[str, Constraint("a share", pattern=r"^\s*(\d+\.?\d*|\.\d+)\s*%\s*$")]
Limit = Annotated[_Count | _Share | None, Constraint('a count, such as 10, or a share, such as "2%"')]
"""A count, or a share such as "2%"; None for no limit."""


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """Limits on a change. A gate that is None lets everything through.

    Attributes:
        max_broken_cases: Most cases whose right flow is no longer first, no longer a candidate, or removed; a share is
            of the labelled cases.
        min_recall_at_1: Lowest R@1 of the labelled cases afterwards, from 0 to 1; cases that lost their flow are wrong.
        max_changed_first: Most requests with another first candidate; a share is of all requests.
        max_new_confusions: Most pairs of flows that are confused more often.
        max_extra_model_calls: Most additional requests that ask a model; a share is of all cases and logged requests.
        max_extra_tokens: Most additional tokens of the counted prompts; a share is of the tokens before.
        allow_removed_flows: Whether flows may be removed, renames aside.
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
        """Load the gates from the pyproject.toml of `folder`; all None without such a file or table.

        Raises:
            ConfigError: The file cannot be read, or a gate is invalid.
        """
        return rules(cls, "gates", file=folder / FILE)

    @property
    def any(self) -> bool:
        """Whether any gate is set."""
        return self != Gates()

    def failures(self, found: Difference) -> tuple[GateFailure, ...]:
        """Return the gates that the change does not pass, in the order of their definition."""
        broken = [each.request for each in found.broken]
        moved = [each.request for each in found.moved]
        pairs = [f"{each.expected} → {each.first}" for each in found.confusions]
        # If the flow of a case was removed, only one version labels the case.
        labelled = max(found.before.labelled, found.after.labelled)
        asked = found.after.requests
        more = found.after.asked - found.before.asked
        checked = (
            self._check_limit("max_broken_cases", len(broken), labelled, "broken cases", broken),
            self._recall(found),
            self._check_limit("max_changed_first", len(moved), asked, "requests with another first candidate", moved),
            self._check_limit(
                "max_new_confusions", len(pairs), 0, "pairs of flows that are confused more often", pairs
            ),
            self._check_limit("max_extra_model_calls", more, found.after.users, "additional requests that ask a model"),
            self._tokens(found),
            self._check_removed(found),
        )
        return tuple(each for each in checked if each is not None)

    def _recall(self, found: Difference) -> GateFailure | None:
        least, now = self.min_recall_at_1, found.after.recall_at_1
        if least is None or (now is not None and now >= least):
            return None
        measured = "no labelled cases to measure it by" if now is None else f"{now:.1%}"
        message = f"min_recall_at_1: R@1 must be at least {least:.1%}, got {measured}"
        value = "unknown" if now is None else f"{now:.4f}"
        return GateFailure(gate="min_recall_at_1", allowed=str(least), found=value, message=message)

    def _tokens(self, found: Difference) -> GateFailure | None:
        if found.before.flows and found.before.counted != found.after.counted:
            return None  # one side could not be counted; its notes say so
        before = found.before.prompt_tokens
        more = found.after.prompt_tokens - before
        what = f"additional tokens in the prompts of {found.after.counted} requests"
        return self._check_limit("max_extra_tokens", more, before, what)

    def _check_removed(self, found: Difference) -> GateFailure | None:
        gone = found.flows.removed
        if self.allow_removed_flows or not gone:
            return None
        message = f"allow_removed_flows: no flow may be removed, got {_name_some(gone)}"
        return GateFailure(gate="allow_removed_flows", allowed="false", found=str(len(gone)), message=message)

    def _check_limit(self, gate: str, found: int, of: int, what: str, which: Sequence[str] = ()) -> GateFailure | None:
        limit: Limit = getattr(self, gate)
        if limit is None:
            return None
        if isinstance(limit, str):
            most = float(limit.replace("%", "")) / 100 * of
            allowed = f"{limit} of {of:,}"
        else:
            most = float(limit)
            allowed = str(limit)
        if found <= most:
            return None
        named = f": {_name_some(which)}" if which else ""
        message = f"{gate}: {what} must be at most {allowed}, got {found:,}{named}"
        return GateFailure(gate=gate, allowed=str(limit), found=str(found), message=message)


def _name_some(names: Sequence[str]) -> str:
    return some_of(names, _MOST_NAMED, lambda name: f"{name:.80}")
