"""What comes of one turn of an agent."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from jazz_select.agent.chain.output_schema import OutputSchema
from jazz_select.agent.chain.transcript import Chain
from jazz_select.agent.conversation import Conversation, OpenFlow
from jazz_select.agent.flows.flow_run import FlowRun
from jazz_select.agent.graph.guards import Route
from jazz_select.agent.graph.state import TurnState
from jazz_select.errors import JazzSelectError
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.telemetry import Trace
from jazz_select.values import Usage

TurnStatus = Literal["done", "active", "open", "waiting", "failed", "blocked"]


class TurnInput(TurnState):
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
class TurnResult:
    """One turn: what to say, how it came about, and what to go on with.

    Attributes:
        status: `done`; `active` where a flow goes on in the next turn; `open` where the caller has to go on, with
            `prompt`; `waiting` for what it asked for; `failed`; or `blocked` by a guard.
        text: What to tell the user; with a schema, the JSON text of `value`. Empty where that is the caller's: `open`
            and nothing done so far, or `blocked` without words.
        value: The answer in the schema that was asked for; None where there was none, or it could not be given.
        conversation: To pass to the next turn.
        runs: The flows that were run, in order.
        selection: How they were found; None where there was nothing to find.
        prompt: The prompts of the flows that are under way, the active one first.
        resumed: The flow that was parked and is under way again.
        incomplete: Whether a limit cut the answer short.
        reason: Why it came out so, where that is not plain: for logs, not for users.
        chain: What a model and its tools did, if one did.
        error: What went wrong; a FormatError keeps the chain, so that formatting alone can be tried again.
        trace: Every narrowing, decision and call.
    """

    status: TurnStatus
    text: str
    conversation: Conversation
    value: Any = None
    runs: tuple[FlowRun, ...] = ()
    selection: FlowSelectionResult | None = None
    prompt: str = ""
    resumed: str = ""
    incomplete: bool = False
    reason: str = ""
    chain: Chain | None = None
    error: JazzSelectError | None = None
    trace: Trace = field(default_factory=Trace)

    @property
    def flows(self) -> list[str]:
        """The names of the flows that were run."""
        return [run.flow for run in self.runs]

    @property
    def model_calls(self) -> int:
        """How often a model was asked."""
        return sum(span.kind == "chat" for span in self.trace)

    @property
    def usage(self) -> Usage:
        """The tokens that all calls took, as far as they were counted."""
        chats = [span.attributes for span in self.trace if span.kind == "chat"]
        return Usage(
            input_tokens=sum(each.get("input_tokens", 0) for each in chats),
            output_tokens=sum(each.get("output_tokens", 0) for each in chats),
        )


@dataclass(slots=True, kw_only=True)
class Work:
    """A turn on its way: the state of its graph."""

    message: str
    conversation: Conversation
    context: Mapping[str, Any]
    schema: OutputSchema | None
    status: TurnStatus = "done"
    text: str = ""
    value: Any = None
    flows: tuple[OpenFlow, ...] = ()
    failed: tuple[OpenFlow, ...] = ()
    runs: list[FlowRun] = field(default_factory=list[FlowRun])
    selection: FlowSelectionResult | None = None
    resumed: str = ""
    incomplete: bool = False
    reason: str = ""
    chain: Chain | None = None
    error: JazzSelectError | None = None
    paused: bool = False

    def blocked(self, route: Route) -> None:
        """A guard ends the turn."""
        decision = route.decision
        self.status = "blocked"
        self.reason = (decision.reason if decision else "") or route.tag
        said = decision.arguments.get("text", "") if decision else ""
        self.text = said if isinstance(said, str) else ""

    def result(self, conversation: Conversation, *, prompt: str, trace: Trace) -> TurnResult:
        """The turn as it ended."""
        return TurnResult(
            status=self.status,
            text=self.text,
            value=self.value,
            conversation=conversation,
            runs=tuple(self.runs),
            selection=self.selection,
            prompt=prompt,
            resumed=self.resumed,
            incomplete=self.incomplete,
            reason=self.reason,
            chain=self.chain,
            error=self.error,
            trace=trace,
        )
