"""Drift: the last days of a log compared with the days before, and alarms for significant changes.

Requests without a fitting flow are clustered by meaning; they show what a catalogue lacks.
"""

from array import array
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev
from typing import Annotated, Any, Final

import numpy as np

from jazz_select.arguments import Constraint, checked
from jazz_select.errors import ConfigError
from jazz_select.evaluation.checks.nearness import to_the_nearest, unit_vectors
from jazz_select.evaluation.metrics import interval
from jazz_select.evaluation.tables import Frame, Framed
from jazz_select.flow.base import BaseFlow
from jazz_select.memory.embedders.known_embedders import open_embedder
from jazz_select.memory.embedders.static import unit_rows
from jazz_select.outcomes.audit import Audit
from jazz_select.outcomes.entries import Logged
from jazz_select.ports import Embedder
from jazz_select.serialization import JsonData
from jazz_select.stages import is_none_suspected
from jazz_select.threads import compute
from jazz_select.values import Reason

LEAST: Final = 3
"""Least requests of a cluster."""
MOST_READ: Final = 3_000
_SHOWN, _MOST_GROUPS = 3, 20
_USUAL, _LOWEST, _HIGHEST = 0.6, 0.4, 0.8
_MOST_FLOWS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster of requests: its sizes in both windows, its most central texts, and their commonest first flow."""

    size: int
    before: int = 0
    texts: tuple[str, ...] = ()
    nearest: str = ""


def _clusters(
    now: Iterable[Logged], before: Iterable[Logged], registry: Mapping[str, BaseFlow], embedder: str | Embedder
) -> tuple[Cluster, ...]:
    """Cluster the requests without a flow, in clusters of at least `LEAST`, the largest first. Deterministic.

    The text with the most neighbours forms a cluster with them, and the rest is clustered again. Neighbours are as near
    as examples of one flow usually are.
    """
    unserved, unserved_before = list(now), list(before)
    if not unserved:
        return ()
    opened = open_embedder(embedder)
    within = _usual_nearness(registry, opened)
    rows = unit_vectors([entry.request for entry in unserved], opened)
    earlier = unit_vectors([entry.request for entry in unserved_before], opened)
    # A text of which the embedder knows no word has a zero vector, and is no centre of a cluster.
    near = (rows @ rows.T >= within) & np.any(rows, axis=1)[:, None]
    unclustered = np.ones(len(unserved), bool)
    found: list[Cluster] = []
    while unclustered.any() and len(found) < _MOST_GROUPS:
        counts = (near & unclustered).sum(axis=1) * unclustered
        if counts.max() < LEAST:
            break
        members = np.flatnonzero(near[counts.argmax()] & unclustered)
        unclustered[members] = False
        middle = unit_rows(rows[members].mean(axis=0, keepdims=True))[0]
        # Most central first; a stable sort, so that equal texts come out in one order everywhere.
        central = members[np.argsort(-(rows[members] @ middle), kind="stable")]
        texts = dict.fromkeys(unserved[int(place)].request for place in central)
        cluster = Cluster(
            size=len(members),
            before=int((earlier @ middle >= within).sum()),
            texts=tuple(texts)[:_SHOWN],
            nearest=_nearest_flow([unserved[int(place)] for place in members]),
        )
        found.append(cluster)
    return tuple(sorted(found, key=lambda each: -each.size))


def _nearest_flow(entries: Sequence[Logged]) -> str:
    """Return the flow that recall found first for most of the entries, the first by name of several; "" for none."""
    names = [entry.first for entry in entries if entry.first]
    return max(sorted(set(names)), key=names.count) if names else ""


def _usual_nearness(registry: Mapping[str, BaseFlow], embedder: Embedder) -> float:
    """Return the median cosine of an example and the nearest other one of its flow, within fixed bounds."""
    flows = [flow for flow in registry.values() if len(flow.examples) > 1][:_MOST_FLOWS]
    texts: list[str] = []
    for flow in flows:
        texts.extend(flow.examples)
    rows = unit_vectors(texts, embedder)
    ends = np.cumsum([len(flow.examples) for flow in flows])
    nearest = to_the_nearest(np.split(rows, ends))
    usual = float(np.median(nearest)) if nearest else _USUAL
    return min(max(usual, _LOWEST), _HIGHEST)


DAY_S: Final = 86_400.0
_ALARM: Final = 3.0
"""Standard errors from which a change is significant: 1 in 370 by chance, low enough for many comparisons."""
_LEAST_CHANGE, _LEAST_REPORTED, _LEAST_ASKED = 0.05, 5, 20
_NEW_SHARE, _NEW_SIZE = 0.01, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A count of a total, with the share and its 95 % Wilson interval; None for a total of 0."""

    count: int
    of: int
    share: float | None = None
    low: float | None = None
    high: float | None = None

    @classmethod
    def of_all(cls, count: int, of: int) -> "Share":
        """Compute the share and its interval."""
        if not of:
            return cls(count=count, of=of)
        low, high = interval(count, of)
        return cls(count=count, of=of, share=count / of, low=low, high=high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """The accuracy of the first candidate, as recall estimates it and as people report it.

    Attributes:
        known: Number of requests with a confidence.
        expected: Mean confidence in the first candidate of those; None without any.
        spread: Its standard error.
        observed: Share that people reported as right. It is biased: people report mistakes more often.
    """

    requests: int
    known: int = 0
    expected: float | None = None
    spread: float | None = None
    observed: Share = Share(count=0, of=0)


class _AccuracyTally:
    """Counts entries for an `Accuracy`, without keeping them."""

    def __init__(self) -> None:
        self.requests = self._reported = self._right = 0
        self.sure = array("d")

    def add(self, entry: Logged) -> None:
        """Count an entry."""
        self.requests += 1
        if entry.confidence is not None:
            self.sure.append(entry.confidence)
        if entry.right is not None and entry.is_corrected_by_human:
            self._reported += 1
            self._right += entry.first in entry.right

    def accuracy(self) -> Accuracy:
        """Return the accuracy of what was counted."""
        observed, sure = Share.of_all(self._right, self._reported), self.sure
        if not sure:
            return Accuracy(requests=self.requests, observed=observed)
        error = stdev(sure) / sqrt(len(sure)) if len(sure) > 1 else 0.0
        return Accuracy(requests=self.requests, known=len(sure), expected=fmean(sure), spread=error, observed=observed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Some days of a log. Times are seconds since 1970; `until` is excluded.

    The shares count completed requests: where the user was asked which flow is meant, only the answer counts.
    """

    since: float
    until: float
    requests: int
    asked: Share
    """Requests that asked a model."""
    none: Share
    """Requests for which nothing was chosen."""
    accuracy: Accuracy


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowDrift:
    """The accuracy of the requests with one flow first, in the last days and in those before."""

    flow: str
    now: Accuracy
    before: Accuracy


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """A significant change; `kind` is a word to sort by, `subject` a flow or empty."""

    kind: str
    subject: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift(JsonData, Framed):
    """The change between two windows of a log, with the flows of lowest expected accuracy first.

    Silent flows were first for no request in the last days. Clusters are of requests without a flow in the last days.
    `audit` is what was measured of the promise since a sync last learned from the log; None if it never did.
    """

    days: float
    now: Window
    before: Window
    flows: tuple[FlowDrift, ...] = ()
    silent: tuple[str, ...] = ()
    clusters: tuple[Cluster, ...] = ()
    audit: Audit | None = None
    alarms: tuple[Alarm, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return one sentence."""
        counts = (
            f"{self.now.requests} requests in the last {self.days:g} days, {self.before.requests} in those before: "
        )
        if not self.alarms:
            return f"{counts}nothing to look at."
        first, *others = self.alarms
        subject = f"{first.subject}: " if first.subject else ""
        more = f", and {len(others)} more to look at" if others else ""
        return f"{counts}{subject}{first.message}{more}."

    def _frame(self) -> Frame:
        rows: list[dict[str, Any]] = []
        for each in self.flows:
            row = {
                "flow": each.flow,
                "requests": each.now.requests,
                "requests before": each.before.requests,
                "expected right": each.now.expected,
                "expected before": each.before.expected,
            }
            rows.append(row)
        return rows, ("flow", "requests", "requests before", "expected right", "expected before")


@checked
async def drift(
    entries: Iterable[Logged],
    registry: Mapping[str, BaseFlow],
    *,
    days: Annotated[float, Constraint("a number above 0, and below 10,000", gt=0, lt=10_000)] = 7,
    until: float | None = None,
    embedder: str | Embedder = "auto",
    audit: Annotated[Audit | None, Constraint("what `audit_of` measured, or None")] = None,
) -> Drift:
    """Compare the last days of a log with as many days before them.

    Args:
        entries: Log entries, such as `OutcomeLog.read` returns; those before both windows are ignored. They are read
            in a thread, and kept in memory only without `until`.
        registry: The live flows.
        days: Length of a window.
        until: End of the last window, in seconds since 1970; by default after the last entry.
        embedder: Embeds requests without a flow for clustering; as for `ProceduralMemory.open`.
        audit: What was measured of the promise, by `audit_of`.

    Raises:
        ConfigError: The log is empty, or `days` is invalid.
        EmbeddingError: The embedder failed.
    """
    if until is None:
        entries = list(entries)
        latest = max((each.at for each in entries), default=0.0)
        until = latest + 1.0  # the end is excluded, and the last entry counts
    length = days * DAY_S
    now, before = await compute(_tally_windows, entries, until - 2 * length, until - length, until)
    windows = (now.window(until - length, until), before.window(until - 2 * length, until - length))
    flows = _flows(now, before, registry)
    silent = tuple(each.flow for each in flows if not each.now.requests)
    clusters = await compute(_clusters, now.unserved, before.unserved, registry, embedder)
    return Drift(
        days=days,
        now=windows[0],
        before=windows[1],
        flows=flows,
        silent=silent,
        clusters=clusters,
        audit=audit,
        alarms=(*_of_audit(audit), *_shifts(*windows), *_of_flows(flows), *_of_clusters(clusters, *windows)),
        notes=tuple(_notes(now, before, days)),
    )


class _WindowTally:
    """Counts the entries of a window. Of those without a flow the last `MOST_READ` are kept, to be clustered."""

    def __init__(self) -> None:
        self._ended = self._asked = self._none = 0
        self.accuracy, self.by_flow = _AccuracyTally(), defaultdict[str, _AccuracyTally](_AccuracyTally)
        self.unserved = deque[Logged](maxlen=MOST_READ)
        self.has_texts = False

    def add(self, entry: Logged) -> None:
        """Count an entry."""
        self.accuracy.add(entry)
        self.by_flow[entry.first].add(entry)
        self.has_texts = self.has_texts or bool(entry.request)
        if _lacks_a_flow(entry):
            self.unserved.append(entry)
        if not _is_question(entry):
            self._ended += 1
            self._asked += entry.asked
            self._none += not entry.chosen

    def window(self, since: float, until: float) -> Window:
        """Return the window."""
        return Window(
            since=since,
            until=until,
            requests=self.accuracy.requests,
            asked=Share.of_all(self._asked, self._ended),
            none=Share.of_all(self._none, self._ended),
            accuracy=self.accuracy.accuracy(),
        )


def _tally_windows(
    entries: Iterable[Logged], since: float, middle: float, until: float
) -> tuple[_WindowTally, _WindowTally]:
    """Count the entries from the middle on, and those before it. Blocking.

    Raises:
        ConfigError: There are no entries.
    """
    now, before = _WindowTally(), _WindowTally()
    entry: Logged | None = None
    for entry in entries:  # in one pass: a log may be too large for memory
        if middle <= entry.at < until:
            now.add(entry)
        elif since <= entry.at < middle:
            before.add(entry)
    if entry is None:
        raise ConfigError("the log has no entries for this agent: FlowSelector(…, log=PATH) writes them")
    return now, before


def _flows(now: _WindowTally, before: _WindowTally, registry: Mapping[str, BaseFlow]) -> tuple[FlowDrift, ...]:
    found: list[FlowDrift] = []
    for name in sorted(flow.name for flow in registry.values()):
        drifted = FlowDrift(flow=name, now=now.by_flow[name].accuracy(), before=before.by_flow[name].accuracy())
        found.append(drifted)
    # The lowest accuracy comes first, an unknown one last.
    return tuple(sorted(found, key=lambda each: (each.now.expected is None, each.now.expected or 0.0)))


def _is_question(entry: Logged) -> bool:
    """Whether the user was asked which flow is meant; the answer has an entry of its own."""
    return entry.reason == Reason.ASK.value


def _lacks_a_flow(entry: Logged) -> bool:
    if not entry.request:
        return False
    if entry.right is not None and entry.is_corrected_by_human:
        return not entry.right
    if not entry.chosen and not _is_question(entry):
        return True
    return is_none_suspected(entry.p_none)


def _of_audit(audit: Audit | None) -> Iterator[Alarm]:
    """Yield an alarm for each threshold that a broken promise raised, and that is still raised."""
    if audit is None:
        return
    raised = {each.flow: each for each in audit.moves if each.kind == "raised"}
    for scope in (audit.whole, *audit.flows):
        move = raised.get(scope.flow)
        if scope.threshold and move is not None:
            message = f"{move.why}, and at most {move.promise:.1%} may: "
            message += f"since then a model is asked below a confidence of {move.threshold:.4f}"
            yield Alarm(kind="promise", subject=scope.flow, message=message)


def _shifts(now: Window, before: Window) -> Iterator[Alarm]:
    for kind, words, new, old in (
        ("asked", "a model was asked", now.asked, before.asked),
        ("none", "nothing was chosen", now.none, before.none),
    ):
        if new.share is None or old.share is None or old.of < _LEAST_ASKED:
            continue
        # The standard error of the difference of two shares, pooled as if nothing had changed (the two-sample z-test).
        pooled = (new.count + old.count) / (new.of + old.of)
        error = sqrt(pooled * (1 - pooled) * (1 / new.of + 1 / old.of))
        change = new.share - old.share
        if change > max(_LEAST_CHANGE, _ALARM * error):
            message = f"for {new.share:.0%} of {new.of} requests {words}, before for {old.share:.0%} of {old.of}"
            yield Alarm(kind=kind, subject="", message=message)
    if _is_less(now.accuracy, before.accuracy):
        yield Alarm(kind="accuracy", subject="", message=_describe_loss(now.accuracy, before.accuracy))


def _of_flows(flows: Sequence[FlowDrift]) -> Iterator[Alarm]:
    for each in flows:
        if _is_less(each.now, each.before):
            yield Alarm(kind="accuracy", subject=each.flow, message=_describe_loss(each.now, each.before))
        observed = each.now.observed
        expected = each.now.expected or 0.5
        if observed.high is not None and observed.of >= _LEAST_REPORTED and observed.high < expected:
            message = f"right in {observed.count} of the {observed.of} requests that people judged"
            yield Alarm(kind="corrected", subject=each.flow, message=message)
        if not each.now.requests and each.before.requests >= _LEAST_ASKED:
            message = f"came first for no request, before for {each.before.requests}"
            yield Alarm(kind="silent", subject=each.flow, message=message)


def _of_clusters(clusters: Sequence[Cluster], now: Window, before: Window) -> Iterator[Alarm]:
    for each in clusters:
        usual = each.before / before.requests if before.requests else 0.0
        grown = each.size - usual * now.requests
        # The standard deviation of a count is about its square root (Poisson).
        is_significant = grown > _ALARM * sqrt(max(1.0, each.size))
        if each.size >= max(_NEW_SIZE, _NEW_SHARE * now.requests) and is_significant:
            message = f"{each.size} requests such as {each.texts[0]!r:.200} have no flow, before {each.before}"
            yield Alarm(kind="unserved", subject=each.nearest, message=message)


def _is_less(now: Accuracy, before: Accuracy) -> bool:
    """Whether the expected accuracy dropped significantly (Welch's test)."""
    if now.expected is None or before.expected is None or min(now.known, before.known) < _LEAST_ASKED:
        return False
    error = sqrt((now.spread or 0.0) ** 2 + (before.spread or 0.0) ** 2)
    return before.expected - now.expected > max(_LEAST_CHANGE, _ALARM * error)


def _describe_loss(now: Accuracy, before: Accuracy) -> str:
    expected, was = now.expected or 0.0, before.expected or 0.0
    return (
        f"expected to be right {expected:.0%} of the time in {now.known} requests, before {was:.0%} in {before.known}"
    )


def _notes(now: _WindowTally, before: _WindowTally, days: float) -> Iterator[str]:
    requests = now.accuracy.requests
    if not before.accuracy.requests:
        yield f"there are no requests in the {days:g} days before, so there is nothing to compare with"
    if requests and not now.accuracy.sure:
        yield "the confidence of recall is not known: the catalogue is too small, or the caller gave the candidates"
    if requests and not now.has_texts:
        yield "texts were not kept, so requests without a flow cannot be clustered"
