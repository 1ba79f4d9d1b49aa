"""The values of a turn: its request, its state, the runs of its flows, and its result."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple, cast

from pydantic import ConfigDict

from jazz_select.agent.agenda import Agenda
from jazz_select.agent.chain.output_schema import OutputSchema
from jazz_select.agent.chain.transcript import Chain
from jazz_select.agent.conversation import (
    MOST_EPISODES,
    MOST_FLOWS,
    MOST_LOOK_UPS,
    MOST_MESSAGES,
    Conversation,
    FlowStatus,
    InputOptions,
    OpenFlow,
    Part,
    PastCall,
    PendingCall,
    Said,
    bound_text,
    stored_calls,
    stored_question,
    user_episode,
)
from jazz_select.agent.graph.guards import GuardInput
from jazz_select.errors import ConfigError, JazzSelectError, SnapshotError
from jazz_select.flow.base import BaseFlow
from jazz_select.json_values import Secret, is_object, json_text, plain, too_much
from jazz_select.notebook import facts_html, page_html, rows_html
from jazz_select.routing.records import StepRecord
from jazz_select.selector.prompt import PromptHistoryRecorder
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.serialization import Read, error_of, read_json, unreadable, value_of, whole_of
from jazz_select.stages import UserQuestion
from jazz_select.telemetry import Trace
from jazz_select.text import describe_error
from jazz_select.values import Usage
from jazz_select.words import excess_of_names

TurnStatus = Literal["done", "active", "open", "waiting", "confirming", "failed", "blocked", "handed_over"]
UNDONE: Final = frozenset({"failed", "blocked"})
"""Statuses of a flow that has ended without being done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRun(Part):
    """The outcome of one flow in a turn: its progress, and how it came about.

    Attributes:
        path: "0" for the flow itself, "0/NAME" for its part of that name (`part_paths`).
        records: The steps of its own chain in this turn.
        facts: All values known afterwards: those known before and those that its tools returned.
        asks: Inputs that it waits for.
        choices: For an ambiguous input, the candidate values; a single one is proposed.
        options: For an input whose choices a tool lists, these.
        wrong: For an input that was refused, the tool's reason.
        unfound: Values that an earlier tool should have returned and a later one needs; the run failed for them.
        text: What the model that continued it said.
        changed: The new remaining steps, if they changed since it began and need an approval.
        begun: False if it never started; then nothing of it is stored.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="ignore")  # a newer server may tell more of a run

    flow: str
    status: FlowStatus = "done"
    type: str = "flow"
    path: str = "0"
    records: tuple[StepRecord, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    parts: tuple["FlowRun", ...] = ()
    asks: tuple[str, ...] = ()
    choices: Mapping[str, tuple[Any, ...]] = field(default_factory=dict[str, tuple[Any, ...]])
    options: Mapping[str, InputOptions] = field(default_factory=dict[str, InputOptions])
    wrong: Mapping[str, str] = field(default_factory=dict[str, str])
    unfound: tuple[str, ...] = ()
    text: str = ""
    problem: str = ""
    changed: tuple[str, ...] = ()
    begun: bool = True

    @property
    def all(self) -> Iterator["FlowRun"]:
        """This run and all runs nested in it."""
        yield self
        for part in self.parts:
            yield from part.all

    @property
    def steps(self) -> tuple[StepRecord, ...]:
        """The records of this run and its parts, in order."""
        return tuple(record for run in self.all for record in run.records)

    @property
    def known(self) -> dict[str, Any]:
        """All values that its tools returned; later ones replace earlier ones."""
        values: dict[str, Any] = {}
        for run in self.all:
            values.update(run.own)
        return values


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnOutcome:
    """What the state of a turn and its result have in common; `TurnResult` explains it."""

    status: TurnStatus
    text: str
    value: Any = None
    runs: tuple[FlowRun, ...] = ()
    selection: Annotated[FlowSelectionResult | None, Read()] = None
    resumed: str = ""
    incomplete: bool = False
    reason: str = ""
    notes: tuple[str, ...] = ()
    chain: Chain | None = None
    error: Annotated[JazzSelectError | None, Read(error_of)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult(TurnOutcome):
    """The result of one turn.

    Attributes:
        status: `done`; `active` if a flow continues in the next turn; `open` if the caller has to continue, with
            `prompt`; `waiting` for missing inputs, or for which flow is meant (`question`); `confirming` if a call
            waits for the user's yes; `failed`; `blocked` by a guard, or if a flow cannot be done here or is refused by
            a tool (`CannotDo`); `handed_over` to a person, with the reason in `reason` and the findings in
            `conversation`.
        text: What to tell the user; with a schema, the JSON text of `value`. Tool outputs appear only through a flow's
            `reply`, a schema or a model. Where the caller goes on (`open`), it says what the message is about, or that
            nothing fits and what can be done; replace it by your own.
        conversation: Input of the next turn.
        value: The answer in the requested schema; None if none was requested or it could not be given.
        runs: The flows that ran, in order.
        selection: How they were selected; None if nothing had to be.
        prompt: The prompts of the flows under way, the active one first.
        resumed: The parked flow that is under way again.
        incomplete: Whether a limit cut the answer short; the text then says what is left, and asks whether to go on.
        reason: Why the turn ended so, if that is not plain: for logs, not for users.
        notes: What was read and did not count, such as a yes or a value, and why; degradations, such as facts of an
            open flow that could not be kept in `conversation`; and that nothing keeps two processes from continuing
            with the same approved call.
        chain: What a model and its tools did, if one did.
        error: What went wrong; a FormatError keeps the chain, so that formatting alone can be retried.
        trace: Spans of every step, decision and call.
    """

    conversation: Annotated[Conversation, Read()]
    prompt: str = ""
    trace: Annotated[Trace, Read(Trace.from_json)] = field(default_factory=Trace)

    def to_dict(self, *, secret: Secret | None = None) -> dict[str, Any]:
        """Return plain JSON values, always with all keys in the same order.

        Values that are no JSON become text; an error becomes its text and fields, without its cause. `conversation` is
        an opaque text to store and send back.

        Args:
            secret: Signs the conversation, as `Conversation.to_json` does, against changes by whoever holds it.

        Raises:
            ConfigError: The secret is empty or of the wrong type.
            FlowValidationError: A nested part of a selected flow has left its registry since.
        """
        data = {each.name: getattr(self, each.name) for each in fields(self)}
        data["conversation"] = self.conversation.to_json(secret=secret)
        data["selection"] = None if self.selection is None else self.selection.to_dict()
        data["trace"] = self.trace.as_json()
        return cast("dict[str, Any]", plain(data))

    @classmethod
    def from_dict(
        cls,
        data: Mapping[str, Any],
        *,
        registry: Mapping[str, BaseFlow] | None = None,
        secret: Secret | None = None,
    ) -> "TurnResult":
        """Read what `to_dict` returned.

        Args:
            data: The data.
            registry: The live flows, as of `FlowSelectionResult.from_dict`.
            secret: Verifies the conversation's signature. Without it the content is trusted; a signature is kept for
                the conversation's next `to_json`.

        Raises:
            ConfigError: The data is no turn result.
            SnapshotError: The conversation is not signed with this secret.
        """
        what = cls.__name__
        known = whole_of(data, what)
        selection = known.get("selection")
        try:
            conversation = Conversation.from_json(value_of(str, known.get("conversation"), what), secret=secret)
        except SnapshotError as error:
            if secret is not None:
                raise
            raise unreadable(what, f"conversation: {error.problem}") from error
        known["conversation"] = conversation
        if selection is not None:
            known["selection"] = FlowSelectionResult.from_dict(selection, registry=registry)
        if "trace" in known and known["trace"] is None:
            del known["trace"]  # an absent trace is an empty one
        return value_of(cls, known)

    def to_json(self, *, secret: Secret | None = None) -> str:
        """Return `to_dict` as JSON text."""
        return json_text(self.to_dict(secret=secret))

    @classmethod
    def from_json(
        cls,
        text: str | bytes,
        *,
        registry: Mapping[str, BaseFlow] | None = None,
        secret: Secret | None = None,
    ) -> "TurnResult":
        """Read what `to_json` returned; see `from_dict`.

        Raises:
            ConfigError: The text is no turn result.
            SnapshotError: The conversation is not signed with this secret.
        """
        return cls.from_dict(read_json(text, cls.__name__), registry=registry, secret=secret)

    def _repr_html_(self) -> str:
        facts = [
            ("status", self.status),
            ("text", self.text),
            ("flows", ", ".join(self.flows)),
            ("reason", self.reason),
            ("error", "" if self.error is None else describe_error(self.error)),
            *(("note", note) for note in self.notes),
        ]
        steps: list[tuple[object, ...]] = []
        for run in self.runs:
            steps += [(step.tool, step.status, step.arguments, step.error or step.output) for step in run.steps]
        spans: list[tuple[object, ...]] = []
        for each in self.trace:
            indented = f"{'· ' * each.depth}{each.name}"
            spans.append((indented, each.kind, 1e3 * (each.duration_s or 0)))
        return page_html(
            facts_html("turn", facts),
            rows_html(("tool", "", "arguments", "result"), steps),
            rows_html(("span", "", "ms"), spans),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as data, except `value`, whose class is the caller's, and the selection, whose flows may be live."""
        return _unpickled, (replace(self, value=None, selection=None).to_dict(), self.value, self.selection)

    def __copy__(self) -> "TurnResult":
        return replace(self)

    @property
    def flows(self) -> list[str]:
        """The names of the flows that ran."""
        return [run.flow for run in self.runs]

    @property
    def question(self) -> UserQuestion | None:
        """The question which flow is meant, with its options as data, for buttons; None if the turn asks none.

        `text` contains the question; the next turn's message is read as its answer.
        """
        return self.conversation.question

    @property
    def model_calls(self) -> int:
        """Number of chat model calls."""
        chats = [span for span in self.trace if span.kind == "chat"]
        return len(chats)

    @property
    def usage(self) -> Usage:
        """The total token usage of chat and decision models, as far as reported."""
        input_tokens = output_tokens = 0
        for span in self.trace:
            if span.kind in {"chat", "decide"}:
                input_tokens += span.attributes.get("input_tokens", 0)
                output_tokens += span.attributes.get("output_tokens", 0)
        return Usage(input_tokens=input_tokens, output_tokens=output_tokens)


def _unpickled(data: Mapping[str, Any], value: object, selection: FlowSelectionResult | None) -> TurnResult:
    return replace(TurnResult.from_dict(data), value=value, selection=selection)


_MOST_STORED: Final = 2 * MOST_FLOWS
"""The most open flows that are stored: those that others call come on top of those that are wished for."""
_WITHHELD: Final = "(withheld, since a guard failed)"
Destination = Literal["run", "open", "ask"]


class Way(NamedTuple):
    """How a turn goes on once its message is decided about.

    Attributes:
        to: Whether to `run` the flow on top, to answer without a flow (`open`), or only to say the text (`ask`).
        is_first: Whether the model at work on the top flow reads the message first, and may hand it back.
        about: Whether the message only asks or comments about the top flow.
        pauses: Whether the user asked for time, so that what waits is not asked again.
    """

    to: Destination = "open"
    is_first: bool = False
    about: bool = False
    pauses: bool = False


OPEN: Final = Way()
RUN: Final = Way("run")
ASK: Final = Way("ask")


class TurnInput(GuardInput):
    """The input of an agent's guards: the user's message, the conversation before it, and the caller's context."""

    message: str
    conversation: Conversation
    context: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """The message of a turn with its surroundings.

    Attributes:
        schema: The schema of the answer; None for prose.
        key: Identifies the turn, also when it is retried elsewhere.
        facts: Facts for models, of the agent and of this conversation.
        ledger: What models were shown so far, with append-only prompts; else None.
        now: The time for the user, with their time zone.
    """

    message: str
    conversation: Conversation
    context: Mapping[str, Any]
    schema: OutputSchema | None = None
    key: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    ledger: PromptHistoryRecorder | None = None
    now: datetime | None = None

    def guarded(self, updates: Mapping[str, Any], *, withheld: bool) -> "TurnRequest":
        """Apply the updates of guards. Withhold the message if a guard failed that might have had to redact it."""
        known = {name: updates[name] for name in ("message", "conversation", "context") if name in updates}
        if "context" in known:
            known["context"] = checked_input("", known["context"])
        if "conversation" in known:
            # A guard may replace the conversation, but the id stays. The count of turns must not fall: it tells two
            # turns with the same message apart.
            replacement: Conversation = known["conversation"]
            own = self.conversation
            turns = max(replacement.turns, own.turns)
            known["conversation"] = replacement.model_copy(update={"id": own.id, "turns": turns})
        if withheld:
            known["message"] = _WITHHELD
        return replace(self, **known)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnState(TurnOutcome):
    """The state of a turn: each step takes one and returns the next. The state of a router is another thing.

    What it has in common with a `TurnResult` is explained there.

    Attributes:
        request: The message, with its surroundings.
        agenda: The open flows, the one to run on top.
        way: How the turn goes on.
        granted: The call that the user has just approved.
        pending: The call that needs the user's approval; asked about again if the message was neither yes nor no.
        question: The question which flow is meant, if the turn asks it.
        rest: The words of a message beside a yes or a no, if no flow fits it.
        no_yes: Why a yes in the message does not count, in words; empty if there is none, or it counts.
        handed_back: The part of the message that a model handed back or over; it is selected for again.
        hands_over: Whether models at work on flows may hand over another wish: once in a turn.
        calls: All calls of the turn.
        look_ups: Tools offered because no flow fitted.
        called: Results of flows that other flows call, by flow, in this turn and before.
        returned: Names of these results that tools returned, by flow.
        not_understood: The turns in a row that were not understood: before this one until it ends, then with it.
    """

    status: TurnStatus = "done"
    text: str = ""
    request: TurnRequest
    agenda: Agenda = field(default_factory=Agenda)
    way: Way = OPEN
    granted: PendingCall | None = None
    pending: PendingCall | None = None
    question: UserQuestion | None = None
    rest: str = ""
    no_yes: str = ""
    handed_back: str = ""
    hands_over: bool = True
    calls: tuple[PastCall, ...] = ()
    look_ups: tuple[str, ...] = ()
    called: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    returned: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    not_understood: int = 0

    @classmethod
    def from_request(cls, request: TurnRequest) -> "TurnState":
        """Return the state of a turn before anybody has looked at its message."""
        before = request.conversation
        return cls(
            request=request,
            agenda=Agenda(before.flows, before.failed),
            called=before.called,
            returned=before.returned,
            not_understood=before.not_understood,
        )

    def with_live_flows(self, is_live: Callable[[str], bool]) -> "TurnState":
        """Return the state without flows that are gone, and with the call that waits if its flow is still on top."""
        live: list[OpenFlow] = []
        gone: list[str] = []
        for flow in self.agenda.flows:
            if is_live(flow.name):
                live.append(flow)
            else:
                gone.append(flow.name)
        agenda = replace(self.agenda, flows=tuple(live))
        pending = agenda.call_of_top(self.request.conversation.pending)
        reason = f"there is no flow {', '.join(gone)} any more" if gone else ""
        return replace(self, agenda=agenda, pending=pending, reason=reason)

    def for_part(self) -> "TurnState":
        """Return the state in which the part of the message that a model handed back is read and decided about.

        What the turn has done is kept. What was decided about the whole message is not: it is decided anew.
        """
        return replace(
            self,
            request=replace(self.request, message=self.handed_back),
            handed_back="",
            hands_over=False,
            status="done",
            way=OPEN,
            selection=None,
            granted=None,
            pending=None,
            question=None,
            resumed="",
            rest="",
            no_yes="",
            reason="",
            incomplete=False,
            look_ups=(),
        )

    def opening_of(self, flow: str) -> str:
        """Return what the model that read the message began for this flow, or for none if empty; "" if it did not.

        What it began for a flow whose call was just approved, it began before that was made: it does not count.
        """
        if self.selection is None or (self.granted is not None and self.granted.flow == flow):
            return ""
        first = self.selection.names[0] if self.selection.names else ""
        is_used = any(run.flow == flow for run in self.runs)
        if first != flow or is_used:
            return ""
        return self.selection.decision.opening

    def with_call_parked(self) -> "TurnState":
        """Keep the call that waits for a yes with its flow on top; it is asked about again when that flow resumes."""
        top, pending = self.agenda.top, self.pending
        if top is None or pending is None or pending.flow != top.name:
            return replace(self, pending=None)
        return replace(self, agenda=self.agenda.with_top(top.model_copy(update={"pending": pending})), pending=None)

    def with_status_before(self) -> "TurnState":
        """Return the state as its work begins: confirming if a call waits, waiting if the turn asks what is meant."""
        if self.pending is not None:
            return replace(self, status="confirming")
        if self.question is not None:
            return replace(self, status="waiting")
        return replace(self, status="done")

    def result(self, *, prompt: str, trace: Trace) -> TurnResult:
        """Return the result for the caller; `prompt` holds the prompts of the open flows."""
        ledger, agenda = self.request.ledger, self.agenda
        notes: list[str] = []
        if not self.request.message.strip():
            notes.append("nothing was asked: the message is blank")
        if ledger is not None:
            notes += ledger.notes
        notes += self.notes
        for flow in (*agenda.flows, *agenda.failed):
            if flow.lost_outputs:
                notes.append(_lost_note(flow))
        outcome = {each.name: getattr(self, each.name) for each in fields(TurnOutcome)}
        outcome["notes"] = tuple(notes)
        return TurnResult(conversation=self._conversation_after(), prompt=prompt, trace=trace, **outcome)

    def _conversation_after(self) -> Conversation:
        before, ledger = self.request.conversation, self.request.ledger
        turns = before.turns + 1
        messages = [*before.messages, Said(role="user", content=bound_text(self.request.message))]
        if self.text:
            messages.append(Said(role="assistant", content=bound_text(self.text)))
        ran = tuple(run.flow for run in self.runs)
        done = [run.flow for run in self.runs if run.status == "done"]
        episode = user_episode(self.request.message)
        if ran:
            episode += f" The agent ran {', '.join(ran)}."
        calls = [call.model_copy(update={"turn": turns}) for call in self.calls]
        look_ups = dict.fromkeys((*self.look_ups, *before.look_ups))
        return before.model_copy(
            update={
                "messages": tuple(messages[-MOST_MESSAGES:]),
                "flows": self._stored_flows(),
                "failed": _last_failed(self.agenda.failed),
                "episodes": (*before.episodes, episode)[-MOST_EPISODES:],
                "ran": (*before.ran, ran)[-MOST_EPISODES:],
                "pending": self.pending,
                "done": (*before.done, *done)[-MOST_EPISODES:],
                "turns": turns,
                "calls": stored_calls((*before.calls, *calls)),
                "shown": ledger.shown if ledger is not None else (),
                "question": self.question and stored_question(self.question),
                "look_ups": tuple(look_ups)[:MOST_LOOK_UPS],
                "called": self.called,
                "returned": self.returned,
                "not_understood": self.not_understood,
            }
        )

    def _stored_flows(self) -> tuple[OpenFlow, ...]:
        """Return the uppermost open flows, and all that have destroyed something: these are never forgotten."""
        flows = self.agenda.flows
        forgotten = flows[: max(0, len(flows) - _MOST_STORED)]
        kept = [flow for flow in forgotten if flow.is_final]
        return (*kept, *flows[len(forgotten) :])


def _last_failed(failed: tuple[OpenFlow, ...]) -> tuple[OpenFlow, ...]:
    """Return the flows that failed as a conversation keeps them: the last ones, and all in which a call was made."""
    older = [flow for flow in failed[:-MOST_FLOWS] if flow.past_calls]
    return (*older, *failed[-MOST_FLOWS:])


def _lost_note(flow: OpenFlow) -> str:
    names = ", ".join(flow.lost_outputs)
    return f"{flow.name}: not kept in the conversation, since it is too large or no JSON: {names}"


def checked_input(message: object, context: object) -> dict[str, Any]:
    """Check a message and a context. Return the context without values of None.

    Raises:
        ConfigError: The message is not a text, or the context is not a mapping or is too large.
    """
    if not isinstance(message, str):
        raise ConfigError(f"message must be a text, got {type(message).__name__}")
    values: object = {} if context is None else context
    if not is_object(values) or not all(isinstance(name, str) for name in cast("Mapping[Any, Any]", values)):
        raise ConfigError(f"context must be a mapping of names to values, got {values!r:.80}")
    excess = excess_of_names(values) or too_much(dict(values))
    if excess:
        msg = f"context holds {excess}: have a tool look up what is large, and give here what it needs for that"
        raise ConfigError(msg)
    return {name: value for name, value in values.items() if value is not None}
