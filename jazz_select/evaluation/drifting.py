"""Drift: what the log of the last days says against the days before, and what of that is worth an alarm.

Requests that no flow is for are put together by what they ask: what a catalogue lacks.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from statistics import fmean, stdev
from typing import Annotated, Any, Final

import numpy as np

from jazz_select.arguments import Constraint, checked
from jazz_select.errors import ConfigError
from jazz_select.evaluation.corrections import to_the_nearest, unit_vectors
from jazz_select.evaluation.metrics import interval
from jazz_select.evaluation.tables import Frame, Framed, html_table
from jazz_select.flow.base import BaseFlow
from jazz_select.memory.embedders.known_embedders import open_embedder
from jazz_select.memory.embedders.static import unit_rows
from jazz_select.outcomes.log import Logged
from jazz_select.ports import Embedder
from jazz_select.values import Reason

LEAST: Final = 3
"""Requests that make a group."""
MOST_READ: Final = 3_000
_SHOWN, _MOST_GROUPS = 3, 20
_USUAL, _LOWEST, _HIGHEST = 0.6, 0.4, 0.8
_MOST_FLOWS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Requests that ask for much the same.

    Attributes:
        size: How many there are.
        before: How many there were in the window before.
        texts: Those that stand for them best.
        nearest: The flow that recall had first for most of them; empty where it had none.
    """

    size: int
    before: int = 0
    texts: tuple[str, ...] = ()
    nearest: str = ""


def _clusters(
    now: Sequence[Logged], before: Sequence[Logged], registry: Mapping[str, BaseFlow], embedder: str | Embedder
) -> tuple[Cluster, ...]:
    """The requests without a flow in groups of at least `LEAST`, the largest first; the same ones for the same log.

    Again and again the text with the most others around it is taken, with these; they are a group, and the rest is
    looked at again. At most the last `MOST_READ` texts are read. Requests for one thing lie as near to one another as
    the examples of one flow do.
    """
    lacking, lacked = ([each for each in some if _lacks_a_flow(each)][-MOST_READ:] for some in (now, before))
    if not lacking:
        return ()
    opened = open_embedder(embedder)
    within = _usual_nearness(registry, opened)
    rows, earlier = (unit_vectors([each.request for each in some], opened) for some in (lacking, lacked))
    near = (rows @ rows.T >= within) & np.any(rows, axis=1)[:, None]
    left = np.ones(len(lacking), bool)
    found: list[Cluster] = []
    while left.any() and len(found) < _MOST_GROUPS:
        counts = (near & left).sum(axis=1) * left
        if counts.max() < LEAST:
            break
        members = np.flatnonzero(near[counts.argmax()] & left)
        left[members] = False
        middle = unit_rows(rows[members].mean(axis=0, keepdims=True))[0]
        order = members[np.argsort(-(rows[members] @ middle), kind="stable")]
        shown = dict.fromkeys(lacking[each].request for each in map(int, order))
        names = [first for each in map(int, members) if (first := lacking[each].first)]
        found.append(
            Cluster(
                size=len(members),
                before=int((earlier @ middle >= within).sum()),
                texts=tuple(shown)[:_SHOWN],
                nearest=max(sorted(set(names)), key=names.count) if names else "",
            )
        )
    return tuple(sorted(found, key=lambda each: -each.size))


def _usual_nearness(registry: Mapping[str, BaseFlow], embedder: Embedder) -> float:
    """The median cosine of an example and the nearest other one of its flow."""
    flows = [flow for flow in registry.values() if len(flow.examples) > 1][:_MOST_FLOWS]
    rows = unit_vectors([text for flow in flows for text in flow.examples], embedder)
    nearest = to_the_nearest(np.split(rows, np.cumsum([len(flow.examples) for flow in flows])))
    usual = float(np.median(nearest)) if nearest else _USUAL
    return min(max(usual, _LOWEST), _HIGHEST)


DAY_S: Final = 86_400.0
_ALARM: Final = 3.0
"""Standard errors of a change that is no chance, though many things are looked at: one in 370 by chance."""
_LEAST_CHANGE, _LEAST_SAID, _LEAST_ASKED = 0.05, 5, 20
_OUTSIDE: Final = 0.5
"""P(some flow is right) below which a request counts as one that no flow is for."""
_NEW_SHARE, _NEW_SIZE = 0.01, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """So many of so many, and where the share lies in 95 of 100 (Wilson's interval); None where there are none."""

    count: int
    of: int
    share: float | None = None
    low: float | None = None
    high: float | None = None

    @classmethod
    def of_all(cls, count: int, of: int) -> "Share":
        """With its interval."""
        if not of:
            return cls(count=count, of=of)
        low, high = interval(count, of)
        return cls(count=count, of=of, share=count / of, low=low, high=high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """How often what comes first is right, as recall expects it and as people said.

    Attributes:
        requests: How many there were.
        known: Of how many recall knew how sure it was.
        expected: The mean of P(the first is right) of those; None where there are none.
        spread: Its standard error.
        observed: Of those that a person spoke of, how many were right. People speak up more where something is wrong.
    """

    requests: int
    known: int = 0
    expected: float | None = None
    spread: float | None = None
    observed: Share = Share(count=0, of=0)

    @classmethod
    def of_entries(cls, entries: Sequence[Logged]) -> "Accuracy":
        """Of these."""
        sure = [each.confidence for each in entries if each.confidence is not None]
        said = [each for each in entries if each.right is not None and each.source == "user"]
        right = sum(each.first in (each.right or ()) for each in said)
        observed = Share.of_all(right, len(said))
        if not sure:
            return cls(requests=len(entries), observed=observed)
        error = stdev(sure) / sqrt(len(sure)) if len(sure) > 1 else 0.0
        return cls(requests=len(entries), known=len(sure), expected=fmean(sure), spread=error, observed=observed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Some days of a log; times are seconds since 1970, `until` not among them.

    The shares are of the requests that came to an end: where the user was asked which flow is meant, the answer counts.
    """

    since: float
    until: float
    requests: int
    asked: Share
    """Where a model was asked."""
    none: Share
    """Where nothing was chosen."""
    accuracy: Accuracy


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowDrift:
    """What became of one flow: the requests that recall had it first for, in these days and in those before."""

    flow: str
    now: Accuracy
    before: Accuracy


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """A change that is larger than chance makes it. `kind` is a word to sort by, `subject` a flow or empty."""

    kind: str
    subject: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift(Framed):
    """What changed.

    Attributes:
        days: The length of a window.
        now: The last days.
        before: As many days before them.
        flows: Each flow, those that are expected to be right least often first.
        silent: Flows that came first for no request in the last days.
        clusters: Requests of the last days without a flow, in groups.
        alarms: What to look at.
        notes: What could not be told, and why.
    """

    days: float
    now: Window
    before: Window
    flows: tuple[FlowDrift, ...] = ()
    silent: tuple[str, ...] = ()
    clusters: tuple[Cluster, ...] = ()
    alarms: tuple[Alarm, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """One sentence."""
        told = f"{self.now.requests} requests in the last {self.days:g} days, {self.before.requests} in those before: "
        if not self.alarms:
            return f"{told}nothing to look at."
        first, more = self.alarms[0], len(self.alarms) - 1
        subject = f"{first.subject}: " if first.subject else ""
        return f"{told}{subject}{first.message}{f', and {more} more to look at' if more else ''}."

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values; times in seconds since 1970."""
        return asdict(self)

    def _frame(self) -> Frame:
        columns = ("flow", "requests", "requests before", "expected right", "expected before")
        rows = [
            (each.flow, each.now.requests, each.before.requests, each.now.expected, each.before.expected)
            for each in self.flows
        ]
        return [dict(zip(columns, row, strict=True)) for row in rows], columns

    def _repr_html_(self) -> str:
        """For a notebook."""
        alarms = [(each.kind, each.subject, each.message) for each in self.alarms]
        return (html_table(("alarm", "flow", "what"), alarms) if alarms else "") + Framed._repr_html_(self)


@checked
async def drift(
    entries: Iterable[Logged],
    registry: Mapping[str, BaseFlow],
    *,
    days: Annotated[float, Constraint("a number above 0, and below 10,000", gt=0, lt=10_000)] = 7,
    until: float | None = None,
    embedder: str | Embedder = "auto",
) -> Drift:
    """Compare the last days of a log with as many days before them.

    Args:
        entries: Such as `OutcomeLog.read` gives them; older ones than two windows are passed over.
        registry: The flows that there are.
        days: The length of a window.
        until: The end of the last one, in seconds since 1970; the last entry where None.
        embedder: Puts requests without a flow into groups; as for `ProceduralMemory.open`.

    Raises:
        ConfigError: The log is empty, or `days` makes no sense.
        EmbeddingError: The embedder failed.
    """
    found = list(entries)
    if not found:
        raise ConfigError("the log has no entries for this agent: FlowSelector(…, log=PATH) writes them")
    end = until if until is not None else max(each.at for each in found) + 1.0
    length = days * DAY_S
    now = [each for each in found if end - length <= each.at < end]
    before = [each for each in found if end - 2 * length <= each.at < end - length]
    windows = (_window(now, end - length, end), _window(before, end - 2 * length, end - length))
    flows = _flows(now, before, registry)
    silent = tuple(each.flow for each in flows if not each.now.requests)
    clusters = await asyncio.to_thread(_clusters, now, before, registry, embedder)
    return Drift(
        days=days,
        now=windows[0],
        before=windows[1],
        flows=flows,
        silent=silent,
        clusters=clusters,
        alarms=(*_shifts(*windows), *_of_flows(flows), *_of_clusters(clusters, *windows)),
        notes=_notes(now, before, days),
    )


def _window(entries: Sequence[Logged], since: float, until: float) -> Window:
    ended = [each for each in entries if not _is_question(each)]
    return Window(
        since=since,
        until=until,
        requests=len(entries),
        asked=Share.of_all(sum(each.asked for each in ended), len(ended)),
        none=Share.of_all(sum(not each.chosen for each in ended), len(ended)),
        accuracy=Accuracy.of_entries(entries),
    )


def _flows(now: Sequence[Logged], before: Sequence[Logged], registry: Mapping[str, BaseFlow]) -> tuple[FlowDrift, ...]:
    """Of those that there are: one that is gone has nothing to be mended."""
    sides: list[defaultdict[str, list[Logged]]] = []
    for entries in (now, before):
        by_flow: defaultdict[str, list[Logged]] = defaultdict(list)
        for each in entries:
            by_flow[each.first].append(each)
        sides.append(by_flow)
    names = sorted(flow.name for flow in registry.values())
    found = [
        FlowDrift(
            flow=name,
            now=Accuracy.of_entries(sides[0].get(name, ())),
            before=Accuracy.of_entries(sides[1].get(name, ())),
        )
        for name in names
    ]
    return tuple(sorted(found, key=lambda each: (each.now.expected is None, each.now.expected or 0.0)))


def _is_question(entry: Logged) -> bool:
    """Whether the user was asked which flow is meant: what came of it is an entry of its own."""
    return entry.reason == Reason.ASK.value


def _lacks_a_flow(entry: Logged) -> bool:
    if not entry.request:
        return False
    if entry.right is not None and entry.source == "user":
        return not entry.right
    return (not entry.chosen and not _is_question(entry)) or (entry.in_scope is not None and entry.in_scope < _OUTSIDE)


def _shifts(now: Window, before: Window) -> list[Alarm]:
    alarms: list[Alarm] = []
    for kind, words, new, old in (
        ("asked", "a model was asked", now.asked, before.asked),
        ("none", "nothing was chosen", now.none, before.none),
    ):
        if new.share is None or old.share is None or old.of < _LEAST_ASKED:
            continue
        pooled = (new.count + old.count) / (new.of + old.of)
        error = sqrt(pooled * (1 - pooled) * (1 / new.of + 1 / old.of))
        change = new.share - old.share
        if change > max(_LEAST_CHANGE, _ALARM * error):
            message = f"for {new.share:.0%} of {new.of} requests {words}, before for {old.share:.0%} of {old.of}"
            alarms.append(Alarm(kind=kind, subject="", message=message))
    if _is_less(now.accuracy, before.accuracy):
        alarms.append(Alarm(kind="accuracy", subject="", message=_less(now.accuracy, before.accuracy)))
    return alarms


def _of_flows(flows: Sequence[FlowDrift]) -> list[Alarm]:
    alarms: list[Alarm] = []
    for each in flows:
        if _is_less(each.now, each.before):
            alarms.append(Alarm(kind="accuracy", subject=each.flow, message=_less(each.now, each.before)))
        said = each.now.observed
        if said.high is not None and said.of >= _LEAST_SAID and said.high < (each.now.expected or 0.5):
            message = f"right in {said.count} of the {said.of} requests that people spoke of"
            alarms.append(Alarm(kind="corrected", subject=each.flow, message=message))
        if not each.now.requests and each.before.requests >= _LEAST_ASKED:
            message = f"came first for no request, before for {each.before.requests}"
            alarms.append(Alarm(kind="silent", subject=each.flow, message=message))
    return alarms


def _of_clusters(clusters: Sequence[Cluster], now: Window, before: Window) -> list[Alarm]:
    alarms: list[Alarm] = []
    for each in clusters:
        usual = each.before / before.requests if before.requests else 0.0
        grown = each.size - usual * now.requests
        if each.size >= max(_NEW_SIZE, _NEW_SHARE * now.requests) and grown > _ALARM * sqrt(max(1.0, each.size)):
            message = f"{each.size} requests such as {each.texts[0]!r:.200} have no flow, before {each.before}"
            alarms.append(Alarm(kind="unserved", subject=each.nearest, message=message))
    return alarms


def _is_less(now: Accuracy, before: Accuracy) -> bool:
    """Whether fewer are expected to be right, by more than chance (Welch's test)."""
    if now.expected is None or before.expected is None or min(now.known, before.known) < _LEAST_ASKED:
        return False
    error = sqrt((now.spread or 0.0) ** 2 + (before.spread or 0.0) ** 2)
    return before.expected - now.expected > max(_LEAST_CHANGE, _ALARM * error)


def _less(now: Accuracy, before: Accuracy) -> str:
    expected, was = now.expected or 0.0, before.expected or 0.0
    return (
        f"expected to be right {expected:.0%} of the time in {now.known} requests, before {was:.0%} in {before.known}"
    )


def _notes(now: Sequence[Logged], before: Sequence[Logged], days: float) -> tuple[str, ...]:
    notes: list[str] = []
    if not before:
        notes.append(f"there is nothing from the {days:g} days before, so no change can be told")
    if now and all(each.confidence is None for each in now):
        notes.append("how sure recall was is not known: the catalogue is too small to tell, or the flows were given")
    if now and not any(each.request for each in now):
        notes.append("texts were not kept, so requests without a flow cannot be put into groups")
    return tuple(notes)
