"""A turn of an agent as values: what is asked, which flows it is for, what was done, what is told, what comes of it."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, cast

from jazz_select.agent.chain.output_schema import OutputSchema
from jazz_select.agent.chain.transcript import (
    Chain,
    Event,
    OnEvent,
    ToolCalled,
    ToolRequest,
    ToolResult,
    ToolReturned,
    tell,
)
from jazz_select.agent.conversation import Conversation, OpenFlow, Ran
from jazz_select.agent.flows.flow_runner import FlowRun
from jazz_select.agent.graph.state import GuardInput
from jazz_select.agent.pending_call import PendingCall
from jazz_select.agent.reading.grounding import Grounded
from jazz_select.agent.turn_result import TurnResult, TurnStatus
from jazz_select.errors import ConfigError, JazzSelectError
from jazz_select.json_values import too_much
from jazz_select.routing.records import Fault, StepRecord
from jazz_select.selector.growing import Ledger
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.stages import UserQuestion
from jazz_select.telemetry import Trace

_of_the_turn: ContextVar[OnEvent | None] = ContextVar("jazz_select_on_event", default=None)
_WITHHELD: Final = "(withheld, since a guard failed)"
Way = Literal["run", "open", "ask"]
"""What is to be done with the flows of a turn: run the one on top, go on without one, or only tell what stands."""


class TurnInput(GuardInput):
    """What an agent's guards look at.

    Attributes:
        message: What the user says.
        conversation: What was before.
        context: What the caller knows.
    """

    message: str
    conversation: Conversation
    context: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """What a turn is to answer.

    Attributes:
        message: What the user says.
        conversation: What was before.
        context: What the caller knows.
        schema: What the answer is to have; None for prose.
        key: What the turn is known by, wherever it is taken once more.
        facts: What holds for every conversation: models are told of it.
        ledger: What models were shown and are shown, where prompts only grow; None where each is made afresh.
    """

    message: str
    conversation: Conversation
    context: Mapping[str, Any]
    schema: OutputSchema | None = None
    key: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    ledger: Ledger | None = None

    def guarded(self, updates: Mapping[str, Any], *, withheld: bool) -> "TurnRequest":
        """As guards left it; without the message where one failed that might have had to take something out of it."""
        known = {name: updates[name] for name in ("message", "conversation", "context") if name in updates}
        if "context" in known:
            known["context"] = checked_input("", known["context"])
        if "conversation" in known:  # a guard may make another one, but not of another conversation
            given: Conversation = known["conversation"]
            own = self.conversation
            # Its turns are counted on: by them two turns with the same words are told apart.
            turns = max(given.turns, own.turns)
            known["conversation"] = given.model_copy(update={"id": own.id, "turns": turns})
        if withheld:
            known["message"] = _WITHHELD
        return replace(self, **known) if known else self

    @property
    def stack(self) -> "FlowStack":
        """The flows as the conversation has them."""
        return FlowStack(self.conversation.flows, self.conversation.failed)


@dataclass(frozen=True, slots=True)
class FlowStack:
    """The flows that are under way."""

    flows: tuple[OpenFlow, ...] = ()
    failed: tuple[OpenFlow, ...] = ()

    @property
    def top(self) -> OpenFlow | None:
        """The active one."""
        return self.flows[-1] if self.flows else None

    def with_top(self, flow: OpenFlow) -> "FlowStack":
        """With this one in the place of the active one."""
        return replace(self, flows=(*self.flows[:-1], flow))

    def without_top(self, kept: tuple[OpenFlow, ...] = ()) -> "FlowStack":
        """Without the active one, of which this is kept."""
        return FlowStack(self.flows[:-1], (*self.failed, *kept))


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedFlows:
    """Which flows a message is for.

    Attributes:
        request: What is to be answered.
        stack: The flows, the one to run on top.
        way: What is to be done with them.
        selection: How it was found; None where there was nothing to find.
        granted: The call that the user has just said yes to.
        pending: The call that is asked for once more, since the message said neither yes nor no.
        text: What is told already.
        resumed: The flow that is under way again.
        question: Which flow is meant, where the user is asked that now.
        wanted: What the user wanted before, where the message only says which flow is meant.
        about: Whether the message only asks or says something about the flow on top.
        besides: What the message says beside a yes or a no, and no flow was found for.
        said: Flow to what the user's words give for it.
        hears_first: Whether the model at work on the flow on top hears the message first, and may hand it back.
        earlier: What was done in this turn before the message was handed back.
        reason: Why it came out so.
        notes: What a decider made of the message, or why it did not count.
        error: What went wrong.
    """

    request: TurnRequest
    stack: FlowStack
    way: Way = "open"
    selection: FlowSelectionResult | None = None
    granted: PendingCall | None = None
    pending: PendingCall | None = None
    text: str = ""
    resumed: str = ""
    question: UserQuestion | None = None
    wanted: str = ""
    about: bool = False
    besides: str = ""
    said: Mapping[str, Grounded] = field(default_factory=dict[str, Grounded])
    hears_first: bool = False
    earlier: "TurnWork | None" = None
    reason: str = ""
    notes: tuple[str, ...] = ()
    error: JazzSelectError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnWork:
    """What was done for a message: by flows, by a model without one, or nothing.

    Attributes:
        selected: What it was done for.
        stack: The flows after it.
        status: How far it came.
        runs: The flows that were run, in order.
        chain: What a model and its tools did.
        pending: The call that waits for the user's yes.
        said: What a model said without a flow.
        resumed: The flow that is under way again.
        incomplete: Whether a limit cut it short.
        reason: Why it came out so.
        notes: What was degraded.
        calls: The calls of tools that were made, with arguments and results.
        look_ups: The tools that were offered where no flow fitted.
        called: What was found by flows that others call, by flow.
        handed_back: What the model at work on a flow says is another wish; then the message is looked at once more.
        error: What went wrong.
    """

    selected: SelectedFlows
    stack: FlowStack
    status: TurnStatus = "done"
    runs: tuple[FlowRun, ...] = ()
    chain: Chain | None = None
    pending: PendingCall | None = None
    said: str = ""
    resumed: str = ""
    incomplete: bool = False
    reason: str = ""
    notes: tuple[str, ...] = ()
    calls: tuple[Ran, ...] = ()
    look_ups: tuple[str, ...] = ()
    called: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    handed_back: str = ""
    error: JazzSelectError | None = None

    @classmethod
    def of(cls, selected: SelectedFlows) -> "TurnWork":
        """Nothing is done yet."""
        status: TurnStatus = "done" if selected.question is None else "waiting"
        earlier = selected.earlier
        return cls(
            runs=earlier.runs if earlier is not None else (),
            chain=earlier.chain if earlier is not None else None,
            calls=earlier.calls if earlier is not None else (),
            selected=selected,
            stack=selected.stack,
            status=status if selected.pending is None else "confirming",
            pending=selected.pending,
            said=selected.text,
            resumed=selected.resumed,
            reason=selected.reason,
            error=selected.error,
        )

    @property
    def request(self) -> TurnRequest:
        """What is to be answered."""
        return self.selected.request


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnOutcome:
    """A turn as it ended.

    Attributes:
        work: What was done.
        status: How it ended.
        text: What to tell the user.
        value: The answer in the schema.
        incomplete: Whether a limit cut the answer short.
        reason: Why it came out so.
        error: What went wrong.
    """

    work: TurnWork
    status: TurnStatus
    text: str
    value: Any = None
    incomplete: bool = False
    reason: str = ""
    error: JazzSelectError | None = None

    @classmethod
    def blocked(cls, request: TurnRequest, *, text: str, reason: str) -> "TurnOutcome":
        """A guard ended it before anything was done."""
        work = TurnWork.of(SelectedFlows(request=request, stack=request.stack))
        return cls(work=work, status="blocked", text=text, reason=reason)

    def result(self, *, prompt: str, trace: Trace) -> TurnResult:
        """What the caller gets, with the prompts of the flows under way."""
        work = self.work
        afresh = work.request.ledger.notes if work.request.ledger is not None else ()
        lost = [flow for flow in (*work.stack.flows, *work.stack.failed) if flow.lost]
        blank = () if work.request.message.strip() else ("nothing was asked: the message is blank",)
        return TurnResult(
            status=self.status,
            text=self.text,
            value=self.value,
            conversation=self._conversation(),
            runs=work.runs,
            selection=work.selected.selection,
            prompt=prompt,
            resumed=work.resumed,
            incomplete=self.incomplete,
            reason=self.reason,
            notes=(*blank, *afresh, *work.selected.notes, *work.notes, *map(_lost, lost)),
            chain=work.chain,
            error=self.error,
            trace=trace,
        )

    def _conversation(self) -> Conversation:
        """What to go on with."""
        work = self.work
        return work.request.conversation.after(
            work.request.message,
            self.text,
            flows=work.stack.flows,
            failed=work.stack.failed,
            ran=[run.flow for run in work.runs],
            done=[run.flow for run in work.runs if run.status == "done"],
            pending=work.pending,
            calls=work.calls,
            shown=work.request.ledger.shown if work.request.ledger is not None else (),
            question=work.selected.question,
            look_ups=work.look_ups,
            called=work.called,
        )


def _lost(flow: OpenFlow) -> str:
    return f"{flow.name}: not kept in the conversation, since it is too large or no JSON: {', '.join(flow.lost)}"


def checked_input(message: object, context: object) -> dict[str, Any]:
    """What is known of a context; what is None is not."""
    if not isinstance(message, str):
        raise ConfigError(f"message is a text, not {type(message).__name__}")
    given: object = {} if context is None else context
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in cast("Mapping[Any, Any]", given)):
        raise ConfigError(f"context is a mapping of names to values, not {given!r:.80}")
    if excess := too_much(dict(cast("Mapping[str, Any]", given))):
        msg = f"context holds {excess}: have a tool look up what is large, and give here what it needs for that"
        raise ConfigError(msg)
    return {name: value for name, value in cast("Mapping[str, Any]", given).items() if value is not None}


@contextmanager
def listening(listener: OnEvent | None) -> Generator[None]:
    """While a turn runs, its parts tell this one, and not who listens to a turn around it, of which it is a tool."""
    before = _of_the_turn.set(listener)
    try:
        yield
    finally:
        _of_the_turn.reset(before)


def listener() -> OnEvent | None:
    """Who listens to the turn that runs."""
    return _of_the_turn.get()


async def tell_turn(event: Event) -> None:
    """Tell whoever listens to the turn."""
    heard = listener()
    if heard is not None:
        await tell(heard, event)


async def tell_of_step(call: StepRecord, ended: StepRecord | None) -> None:
    """Tell whoever listens to the turn of a call that a step makes, before it and after."""
    heard = listener()
    if heard is None:
        return
    # The record of a call is one object from its beginning to its end: that tells it from one beside it.
    own = f"{call.tool}-{call.step}-{id(call):x}"
    if ended is None:
        request = ToolRequest(id=own, round=0, tool=call.tool, requested=call.tool, arguments=call.arguments)
        await tell(heard, ToolCalled(call=request))
        return
    result = ToolResult(
        id=own,
        round=0,
        tool=call.tool,
        ok=ended.status == "ok",
        output=ended.output,
        error=ended.error,
        fault=cast("Fault", ended.fault),
        unknown=ended.unknown,
        called=ended.attempts > 0,
    )
    await tell(heard, ToolReturned(result=result))
