"""The first stage of a selection: the candidates, given by the caller or recalled, without unavailable flows."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from inspect import isawaitable
from itertools import chain, count, islice, repeat
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from jazz_select.arguments import Constraint, checked
from jazz_select.errors import ConfigError, HungError
from jazz_select.flow.base import BaseFlow
from jazz_select.memory.requests import written_now
from jazz_select.ports import FlowMemory, has_capability
from jazz_select.selector.calibration import Line
from jazz_select.selector.prompt import ConversationContext, candidate_of
from jazz_select.selector.result import note_recall
from jazz_select.stages import LeaveOneOutConfidence, Thresholds, UserQuestion, listed_confidences
from jazz_select.telemetry import span
from jazz_select.text import clean, in_log, some_of
from jazz_select.threads import run_with_timeout
from jazz_select.values import AUTO, UNSIZED, Candidate, Decision, TopK, chance_in

_log = logging.getLogger(__name__)
T = TypeVar("T")
_READ = 8_000
"""Characters of a request that recall and prompts read."""
_MOST_SUMMARIES = 1_000
_LATE = "it gave no answer in the time of the turn"
_NAMED = 5
_RRF_K = 10
_QUESTION = re.compile(r"[^.!?;\n]+[?？؟]")
_Metadata = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a user wants, and what was said before. `within` a conversation, "none" is an answer."""

    query: str
    summaries: tuple[str, ...] = ()
    situation: ConversationContext | None = None
    within: bool = False

    @classmethod
    def from_query(
        cls,
        query: str,
        summaries: Sequence[str] | None,
        situation: ConversationContext | None = None,
        *,
        has_model: bool = True,
    ) -> "Request":
        """Build a request with the summaries that are not blank; a lone string is one summary.

        Without a chat model the situation is dropped, since nobody reads it; `within` stays.
        """
        given = (summaries,) if isinstance(summaries, str) else summaries or ()
        first = islice(given, _MOST_SUMMARIES)
        kept = tuple(summary for summary in first if not _blank(summary))
        within = situation is not None
        return cls(query=query, summaries=kept, situation=situation if has_model else None, within=within)

    @property
    def under_way(self) -> tuple[str, ...]:
        """The ids of the flows under way, the current one first."""
        if self.situation is None:
            return ()
        return tuple(each.flow_id for each in self.situation.under_way)

    @property
    def goes_on(self) -> bool:
        """Whether it may continue a flow or answer a question, so that a model has more to choose than a flow."""
        return bool(self.under_way) or (self.situation is not None and bool(self.situation.confirms))

    def with_earlier(self, earlier: str) -> "Request":
        """Return the request with an earlier one appended to its summaries."""
        return self if _blank(earlier) else replace(self, summaries=(*self.summaries, earlier))

    def may_begin(self, flow_id: str, *, is_likely: bool) -> bool:
        """Whether this flow, likely to be right or not, may begin without asking the chat model."""
        begins = None if self.situation is None else self.situation.begins
        return begins is None or begins(flow_id, is_likely)

    @property
    def done(self) -> tuple[str, ...]:
        """The ids of the flows done last."""
        return () if self.situation is None else tuple(self.situation.done)

    @property
    def opens(self) -> bool:
        """Whether it opens a conversation, so that its text is all that was asked."""
        situation = self.situation
        return not self.summaries and (situation is None or not (situation.messages or self.goes_on or situation.done))

    @property
    def ways(self) -> tuple["Request", ...]:
        """The requests that recall looks for: this one; in a conversation, also it alone and with the last question.

        "Yes please, do that" is found by the question; a new subject by the message alone.
        """
        if self.situation is None or not self.situation.messages:
            return (self,)
        ways = [self]
        if self.summaries:
            ways.append(replace(self, summaries=()))
        last = self.situation.messages[-1]
        questions = [] if last.role == "user" else _QUESTION.findall(last.content)
        if questions:
            ways.append(replace(self, summaries=(questions[-1].strip(),)))
        return tuple(ways)

    @property
    def blank(self) -> bool:
        """Whether nothing is asked, now or before."""
        return _blank(self.query) and not self.summaries

    @property
    def own_words(self) -> str:
        """What the user wrote now: the query without quotations, forwarded messages and signatures."""
        return written_now(self.query)

    @property
    def text(self) -> str:
        """The text that recall searches: the query and the summaries, so that "help with that" finds its "that"."""
        text = self.own_words
        room = 2 * _READ
        for summary in self.summaries:
            if room <= 0:
                break
            text += f" {summary[:room]}"
            room -= len(summary)
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateSet:
    """The candidates to choose from, best first: as received, and as values."""

    metadata: tuple[Mapping[str, Any], ...] = ()
    candidates: tuple[Candidate, ...] = ()
    notes: tuple[str, ...] = ()
    p_none: float | None = None
    """P(no flow is right), where it is known."""
    caveat: str = ""
    """Why confidence is unknown."""
    sized: str = ""
    """Their number and why, where recall chose it."""
    recalled_by: str = ""
    """Which embedder of a cascade answered, and why."""
    reread: bool = False
    """Whether the second embedder of a cascade answered."""
    why_reread: str = ""
    """Why the first one was not enough."""
    answers: LeaveOneOutConfidence | None = None
    """Recall's confidence in its answers to the catalogue's own examples."""
    limits: Literal["", "guards", "caller"] = ""
    """Who limited the choice: the caller, who gave the candidates or restricted them, or guards that closed a flow. A
    choice among them says less of what the request is for."""
    thresholds: Thresholds | None = None
    """How sure recall must be to decide alone, by what was learned from a log."""

    @property
    def confidence(self) -> float | None:
        """The first candidate's confidence; None if there is none, or it is unknown."""
        return self.candidates[0].confidence if self.candidates else None

    def with_flows(self, flows: Iterable[BaseFlow], notes: Sequence[str] = ()) -> "CandidateSet":
        """Return the set with the flows that it lacks at its end, and these notes at their beginning."""
        here = {each.flow_id for each in self.candidates}
        more = [candidate_of(flow) for flow in flows if flow.id not in here]
        if not more and not notes:
            return self
        metadata = (*self.metadata, *(each.as_metadata() for each in more))
        candidates = (*self.candidates, *more)
        return replace(self, metadata=metadata, candidates=candidates, notes=(*notes, *self.notes))

    def calibrate(self, line: Line) -> "CandidateSet":
        """Return the set with the first confidence calibrated; the others and `p_none` share what it leaves."""
        first = next(iter(self.candidates), None)
        if first is None or first.confidence is None or line.is_identity:
            return self
        highest = line(first.confidence)
        share = (1 - highest) / (1 - first.confidence) if first.confidence < 1 else 1.0
        confidences: list[float | None] = [highest]
        for other in self.candidates[1:]:
            if other.confidence is None:
                confidences.append(None)
            else:  # never above the first one's, since the order stays
                confidences.append(min(highest, share * other.confidence))
        p_none = None if self.p_none is None else share * self.p_none
        return replace(self.with_confidences(confidences), p_none=p_none)

    def with_confidences(self, confidences: Sequence[float | None]) -> "CandidateSet":
        """Return the set with these confidences of its candidates."""
        metadata: list[Mapping[str, Any]] = []
        candidates: list[Candidate] = []
        for known, candidate, sure in zip(self.metadata, self.candidates, confidences, strict=True):
            metadata.append({**known, "confidence": sure})
            candidates.append(replace(candidate, confidence=sure))
        return replace(self, metadata=tuple(metadata), candidates=tuple(candidates))


def fuse(found: Sequence[CandidateSet]) -> CandidateSet:
    """Fuse several recalls by reciprocal rank (Cormack, Clarke & Büttcher 2009), to the size of the largest.

    Everything but the candidates and their confidences is the first one's.
    """
    first = found[0]
    if len(found) == 1:
        return first
    scores: dict[str, float] = {}
    known: dict[str, tuple[Mapping[str, Any], Candidate]] = {}
    for each in found:
        for rank, (metadata, candidate) in enumerate(zip(each.metadata, each.candidates, strict=True), 1):
            known.setdefault(candidate.flow_id, (metadata, candidate))
            scores[candidate.flow_id] = scores.get(candidate.flow_id, 0.0) + 1 / (_RRF_K + rank)
    most = max(len(each.candidates) for each in found)
    ranked = sorted(scores, key=scores.__getitem__, reverse=True)
    best = [known[flow_id] for flow_id in ranked[:most]]
    candidates = tuple(candidate for _, candidate in best)
    together = replace(first, metadata=tuple(metadata for metadata, _ in best), candidates=candidates)
    confidences = [candidate.confidence for candidate in candidates if candidate.confidence is not None]
    if len(confidences) < len(best):
        return together
    listed = listed_confidences(confidences, p_none=None)
    p_none = first.p_none
    if p_none is not None:  # a flow that one of the recalls is sure of leaves less for "none"
        p_none = min(p_none, max(0.0, 1 - sum(listed)))
    return replace(together.with_confidences(listed), p_none=p_none)


def usable_candidates(
    found: Iterable[Mapping[str, Any]], *, find_unavailable: Collection[str] = (), notes: tuple[str, ...] = ()
) -> CandidateSet:
    """Return the candidates that can be chosen: distinct, with an id or a name, and not `closed`."""
    kept: dict[str, tuple[Mapping[str, Any], Candidate]] = {}
    unusable = 0
    read: Sequence[Candidate] = getattr(found, "read", ())
    for metadata, known in zip(found, chain(read, repeat(None))):  # noqa: B905 - the second has no end
        # A recall result holds its candidates as values too; metadata that a caller changed is read again.
        is_unchanged = known is not None and known.as_metadata() == metadata
        candidate = known if is_unchanged else _candidate(metadata)
        if candidate is None:
            unusable += 1
        elif candidate.flow_id not in find_unavailable:
            kept.setdefault(candidate.flow_id, (metadata, candidate))
    if unusable:
        notes = (*notes, f"{unusable} candidates without a usable id or name were left out")
    return CandidateSet(
        metadata=tuple(metadata for metadata, _ in kept.values()),
        candidates=tuple(candidate for _, candidate in kept.values()),
        notes=notes,
        p_none=chance_in(getattr(found, "p_none", None)),
        caveat=getattr(found, "caveat", ""),
        sized=getattr(found, "sized", ""),
        recalled_by=reader_of(found),
        reread=getattr(found, "reread", False),
        why_reread=getattr(found, "why", ""),
        answers=getattr(found, "answers", None),
        thresholds=getattr(found, "thresholds", None),
    )


def reader_of(found: object) -> str:
    """Describe which embedder of a cascade found the candidates, and why; empty without a cascade."""
    stage, why = getattr(found, "stage", ""), getattr(found, "why", "")
    if stage and why:
        return f"{stage}: {why}"
    return stage


def _candidate(metadata: object) -> Candidate | None:
    """Parse a candidate of any origin; None if it is unusable."""
    if not isinstance(metadata, Mapping):
        return None
    try:
        candidate = Candidate.from_metadata(metadata)  # pyright: ignore[reportUnknownArgumentType]
    except (ArithmeticError, ValueError):  # malformed numbers
        return None
    return candidate if not _blank(candidate.flow_id) else None


def _blank(text: str) -> bool:
    """Whether the text is blank, as far as it is read."""
    if text[:1].isalnum():
        return False  # the common case, checked fast
    return not clean(text.lstrip()[:_READ]).strip()


class Unavailable(NamedTuple):
    """Flows that may not be offered."""

    closed_by_guard: Mapping[str, tuple[str, str]]
    """Flows whose guards disagree: id to name, and the guard's error if it failed."""
    others: frozenset[str] = frozenset()
    """Ids of other excluded flows, whose guards were not asked."""

    @property
    def ids(self) -> frozenset[str]:
        """The ids of all of them."""
        return self.others.union(self.closed_by_guard)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the guards that disagree."""
        refused: list[str] = []
        failures: list[str] = []
        for name, problem in self.closed_by_guard.values():
            if problem:
                failures.append(f"the guard of {name} failed, so it counts as not available: {problem}")
            else:
                refused.append(name)
        if not refused:
            return tuple(failures)
        return (f"not available in this context: {', '.join(sorted(refused))}", *failures)


class Availability:
    """The guards of a registry's flows, asked before recall and again after the choice.

    A guard that fails closes its flow. The guarded flows are cached per version of the registry, if it has versions.
    """

    def __init__(self, registry: Mapping[str, BaseFlow]) -> None:
        self._registry = registry
        self._seen: tuple[object, tuple[BaseFlow, ...]] = (None, ())
        self._compared: tuple[object, object, str] = (None, None, "")
        self._called: tuple[object, frozenset[str]] = (None, frozenset())

    async def closed(self, context: Mapping[str, Any], *, only: Collection[str] | None = None) -> Unavailable:
        """Return the flows not available in `context`; with `only`, also all flows of other ids.

        Flows that are only called are never available by themselves.
        """
        closed = await _run_guards(self._guarded(), context)
        others = frozenset[str]() if only is None else frozenset(self._registry).difference(only)
        return closed._replace(others=others | self._only_called())

    def check_selectable(self, only: Collection[str] | None) -> None:
        """Refuse ids of flows that run only when other flows call them.

        Raises:
            ConfigError: There is one.
        """
        called = sorted(self._registry[each].name for each in self._only_called().intersection(only or ()))
        if called:
            msg = f"only={called[:_NAMED]} names flows that run only when another flow calls them; leave them out"
            raise ConfigError(msg)

    def _only_called(self) -> frozenset[str]:
        version: object = getattr(self._registry, "version", None)
        seen, ids = self._called
        if version is None or version != seen:
            ids = frozenset(flow_id for flow_id, flow in self._registry.items() if flow.only_called)
            self._called = version, ids
        return ids

    def unindexed(self, indexed: Collection[str] | None) -> str:
        """Return a note on registered flows that are not `indexed`, so that recall cannot find them; else "".

        The note is cached per version of the registry and collection.
        """
        if indexed is None:
            return ""
        version: object = getattr(self._registry, "version", None)
        seen, among, note = self._compared
        if version is None or version != seen or among is not indexed:
            missing: list[str] = []
            for flow_id, flow in self._registry.items():
                if flow_id not in indexed and not flow.only_called:
                    missing.append(flow.name)
            note = _not_synced(missing) if missing else ""
            self._compared = version, indexed, note
        return note

    @staticmethod
    async def closed_among(flows: Iterable[BaseFlow], context: Mapping[str, Any]) -> Unavailable:
        """Return those of `flows` not available in `context`. Guards run in a thread: they may block."""
        return await _run_guards([flow for flow in flows if flow.has_guard], context)

    def _guarded(self) -> tuple[BaseFlow, ...]:
        version: object = getattr(self._registry, "version", None)
        seen, flows = self._seen
        if version is None or version != seen:
            flows = tuple(flow for flow in self._registry.values() if flow.has_guard)
            self._seen = version, flows
        return flows


async def _run_guards(guarded: Sequence[BaseFlow], context: Mapping[str, Any]) -> Unavailable:
    problems: dict[str, str | None] = {}

    def ask() -> None:
        for flow in guarded:
            problems[flow.id] = _problem(flow, context)

    if guarded:
        with suppress(TimeoutError, HungError):
            await run_with_timeout(ask, limit_s=None, name="jazz-select-available", of=guarded[0])
    closed: dict[str, tuple[str, str]] = {}
    for flow in guarded:
        problem = problems.get(flow.id, _LATE)  # a guard that hangs, and those behind it, count as refusing
        if problem is not None:
            closed[flow.id] = flow.name, problem
    return Unavailable(closed)


def _not_synced(names: list[str]) -> str:
    verb = "is" if len(names) == 1 else "are"
    shown = some_of(sorted(names), _NAMED)
    return f"registered, and cannot be found until sync_registry (jazz-select sync) is run, {verb} {shown}"


def _problem(flow: BaseFlow, context: Mapping[str, Any]) -> str | None:
    """Return None if the flow is available, "" if it is not, else the error of its guard."""
    try:
        answer: object = flow.available(context)
        if not isawaitable(answer):
            return None if answer else ""
        getattr(answer, "close", lambda: None)()  # a coroutine never awaited would warn
        problem = "available() is async; declare it with `def`"
    except Exception as error:  # noqa: BLE001 - an author's guard may raise anything; failing open would run what it guards
        problem = f"{type(error).__name__}: {error}"
    _log.warning("flow=<%s>, problem=<%s> | guard failed, flow counts as not available", flow.name, in_log(problem))
    return problem


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateSource:
    """Finds the candidates of a request."""

    memory: FlowMemory | None
    agent_id: str
    top_k: TopK
    coverage: float
    rrf_k: int
    guards: Availability

    async def from_caller(self, candidates: _Metadata, context: Mapping[str, Any]) -> CandidateSet:
        """Return the usable ones of the caller's candidates."""
        closed = await self.guards.closed(context)
        return replace(usable_candidates(candidates, find_unavailable=closed.ids, notes=closed.notes), limits="caller")

    async def recall_each(
        self, requests: Sequence[Request], context: Mapping[str, Any], *, only: Collection[str] | None = None
    ) -> list[CandidateSet]:
        """Recall candidates for requests that share a context, in their order; `only` among flows of these ids."""
        closed = await self.guards.closed(context, only=only)
        if self.memory is None or not self.agent_id:
            missing = "no candidates were given, and without a memory and an agent_id none are recalled"
            return [CandidateSet(notes=(*closed.notes, missing)) for _ in requests]
        with span("recall", "recall") as traced:
            if traced is not None:
                traced.note({"data_source": self.agent_id, "top_k": None if self.top_k == AUTO else self.top_k})
            found = await self._ask(self.memory, requests, closed)
            if traced is not None and len(found) == 1:
                note_recall(traced, list(found[0]), reader_of(found[0]))
        limits = "" if only is None else "caller"
        if closed.closed_by_guard and not limits:
            limits = "guards"
        sets: list[CandidateSet] = []
        for each in found:
            notes = (*closed.notes, *self._notes_on(each))
            usable = usable_candidates(each, find_unavailable=closed.ids, notes=notes)
            sets.append(replace(usable, limits=limits))
        return sets

    def _notes_on(self, found: _Metadata) -> tuple[str, ...]:
        """Return the memory's notes, and those on unindexed flows and an unsupported "auto"."""
        notes: list[str] = list(getattr(found, "notes", ()))
        if self.top_k == AUTO and not has_capability(self.memory, "auto_size"):
            notes.append(f'this memory does not know top_k="auto", so {UNSIZED} candidates were asked for')
        unindexed = self.guards.unindexed(getattr(found, "indexed", None))
        if unindexed:
            notes.append(unindexed)
        return tuple(notes)

    async def _ask(self, memory: Any, requests: Sequence[Request], closed: Unavailable) -> Sequence[_Metadata]:
        """Recall, passing only options that differ from the defaults, so that a memory without them works too."""
        options: dict[str, Any] = {"top_k": self.top_k, "rrf_k": self.rrf_k}
        if self.top_k == AUTO and has_capability(memory, "auto_size"):
            options["coverage"] = self.coverage
        elif self.top_k == AUTO:
            options["top_k"] = UNSIZED
        if closed.ids:
            options["exclude"] = closed.ids
        focuses = [""] * len(requests)
        if has_capability(memory, "focus"):
            focuses = [request.own_words if request.summaries else "" for request in requests]
        if len(requests) > 1 and hasattr(memory, "recall_many"):
            if any(focuses):
                options["focuses"] = focuses
            return await memory.recall_many([request.text for request in requests], self.agent_id, **options)

        async def recall_one(request: Request, focus: str) -> _Metadata:
            own = {"focus": focus} if focus else {}
            return await memory.recall(request.text, self.agent_id, **options, **own)

        if len(requests) == 1:
            return [await recall_one(requests[0], focuses[0])]
        return await asyncio.gather(*(recall_one(*each) for each in zip(requests, focuses, strict=True)))


@checked
@dataclass(frozen=True, slots=True)
class SelectRequest:
    """One request among many: what `FlowSelector.select` takes for one."""

    enhanced_query: Annotated[str, Constraint("what the user wants, as a string")]
    candidates: Sequence[Mapping[str, Any]] | None = None
    episode_summaries: Annotated[str | Sequence[str] | None, Constraint("a list of strings, or None")] = None
    only: Collection[str] | None = None
    asked: Annotated[
        Decision | UserQuestion | None, Constraint("the decision that a question came with, or the question")
    ] = None


async def candidate_sets(
    asked: Sequence[SelectRequest],
    requests: Sequence[Request | None],
    narrower: CandidateSource,
    context: Mapping[str, Any],
) -> list[CandidateSet | None]:
    """Return the candidates of each request, with one recall for all of the same `only`; None for a blank request."""
    found: dict[int, CandidateSet] = {}
    recalled: dict[frozenset[str] | None, dict[int, Request]] = {}
    for number, (each, request) in enumerate(zip(asked, requests, strict=True)):
        if request is not None and each.candidates is not None:
            found[number] = await narrower.from_caller(each.candidates, context)
        elif request is not None and not request.blank:
            only = None if each.only is None else frozenset(each.only)
            recalled.setdefault(only, {})[number] = request
    for only, these in recalled.items():
        results = await narrower.recall_each([*these.values()], context, only=only)
        found.update(zip(these, results, strict=True))
    return [found.get(number) for number in range(len(asked))]


async def side_by_side(
    calls: Sequence[Callable[[], Awaitable[T]]], *, at_once: int, progress: Callable[[int, int], None] | None = None
) -> list[T]:
    """Await all calls, `at_once` at a time, and return their results in order. The first error cancels the rest.

    `progress` receives the number of finished calls and of all, after each.
    """
    places, done = asyncio.Semaphore(at_once), count(1)

    async def call_in_turn(call: Callable[[], Awaitable[T]]) -> T:
        async with places:
            found = await call()
        if progress is not None:
            progress(next(done), len(calls))
        return found

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call_in_turn(call)) for call in calls]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]
