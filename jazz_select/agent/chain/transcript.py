"""A chain of tool calls as a frozen value that can be stored, and the events it emits."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Literal, cast

from jazz_select.arguments import adapter_of
from jazz_select.chat.client import total_usage
from jazz_select.routing.records import Fault
from jazz_select.routing.tools.context_inputs import describe_dropped
from jazz_select.serialization import value_of
from jazz_select.threads import run_with_timeout
from jazz_select.values import Message, Usage

ChainStatus = Literal["answered", "limit", "failed", "asked"]
"""How a chain ended: with an answer, at its limit of model calls, with a model error, or with a call that needs the
user's approval."""
Purpose = Literal["chain", "answer", "format"]
"""Why a model was asked: for the next step, for the answer at once, or to put a finished chain into a schema."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantText:
    """Text of the model, beside calls or as its answer."""

    text: str
    kind: Literal["text"] = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRequest:
    """One requested tool call.

    Attributes:
        id: Identifier within its round.
        round: Number of the model call that requested it, from 1.
        tool: The tool that is run; the requested name if none was found.
        requested: The name that the model gave.
        arguments: JSON values; resolvable references to other calls are replaced.
        identity: What an approval of this call refers to (`ToolCall.identity`).
    """

    id: str
    round: int
    tool: str
    requested: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    identity: str = ""
    kind: Literal["call"] = "call"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The result of a tool call.

    Attributes:
        id: Identifier of the call.
        round: Its round.
        tool: The tool's name.
        ok: Whether there is an output.
        output: The tool's output, as JSON values.
        error: Why there is no output.
        details: More for the model, such as the available tools.
        fault: What was at fault, as of `StepError`; empty if a whole reply was refused.
        unknown: Whether the call began and its outcome is unknown: it may have had its effect.
        called: Whether the tool was called, now or before; False if the call was refused.
        dropped: The arguments that the model gave and that were not used, since only the caller's context may give
            them.
    """

    id: str
    round: int
    tool: str
    ok: bool
    output: Any = None
    error: str = ""
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    fault: Fault | Literal[""] = ""
    unknown: bool = False
    called: bool = False
    dropped: tuple[str, ...] = ()
    kind: Literal["result"] = "result"


Entry = AssistantText | ToolRequest | ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """One model call.

    Attributes:
        purpose: Why the model was asked.
        conversation_id: The caller's conversation id.
        reply: The reply, visibly cut if it is long.
        model: The model's name, as it reports it.
        usage: Tokens, if reported.
        truncated: Whether a length limit cut the reply off.
    """

    purpose: Purpose
    conversation_id: str = ""
    reply: str = ""
    model: str = ""
    usage: Usage | None = None
    truncated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """What a model and its tools did for a request.

    Attributes:
        conversation_id: The caller's conversation id.
        messages: The initial messages.
        entries: What followed, in order.
        answer: The closing text; empty if there is none.
        status: How it ended.
        final: The answer's JSON text, if the loop itself filled the schema (`native`, `tool`).
        records: The model calls, in order.
        notes: Degradations, one sentence each; what was `dropped` of the model's arguments is among them.
    """

    conversation_id: str = ""
    messages: tuple[Message, ...] = ()
    entries: tuple[Entry, ...] = ()
    answer: str = ""
    status: ChainStatus = "answered"
    final: str | None = None
    records: tuple[CallRecord, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def asked(self) -> tuple[ToolRequest, ...]:
        """The calls that wait for approval, if the chain ended for that."""
        if self.status != "asked":
            return ()
        waiting: set[tuple[int, str]] = set()
        for entry in self.entries:
            if isinstance(entry, ToolResult) and entry.fault == "asked":
                waiting.add((entry.round, entry.id))
        requests = [entry for entry in self.entries if isinstance(entry, ToolRequest)]
        return tuple(request for request in requests if (request.round, request.id) in waiting)

    @property
    def dropped(self) -> tuple[str, ...]:
        """What the model gave and was not used, since only the caller's context may give it: a sentence each."""
        notes: dict[str, None] = {}
        for entry in self.entries:
            if isinstance(entry, ToolResult) and entry.dropped:
                notes[describe_dropped(entry.tool, entry.dropped)] = None
        return tuple(notes)

    @property
    def incomplete(self) -> bool:
        """Whether it was cut short."""
        return self.status in {"limit", "failed"}

    @property
    def text(self) -> str:
        """The closing answer, else the model's last text."""
        if self.answer:
            return self.answer
        for entry in reversed(self.entries):
            if isinstance(entry, AssistantText):
                return entry.text
        return ""

    @property
    def model_calls(self) -> int:
        """Number of model calls."""
        return len(self.records)

    @property
    def usage(self) -> Usage | None:
        """The total token usage; None if no call reported it."""
        return usage_of_records(self.records)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return cast("dict[str, Any]", adapter_of(Chain).dump_python(self, mode="json"))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Chain":
        """Read what `to_dict` returned.

        Raises:
            ConfigError: The data is no chain.
        """
        return value_of(cls, data)


def usage_of_records(records: tuple[CallRecord, ...]) -> Usage | None:
    """Return the total token usage; None if no call reported it."""
    return reduce(total_usage, (record.usage for record in records), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCalled:
    """The model is asked; `number` counts from 1 per purpose."""

    purpose: Purpose
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainText:
    """Text of the model in the loop; `closing` if it is the chain's answer."""

    text: str
    closing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCalled:
    """A tool is about to run; `text` is for an agent's user meanwhile."""

    call: ToolRequest
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReturned:
    """The result of a call, also of one that was not run."""

    result: ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatStarted:
    """A finished chain is put into the schema."""

    incomplete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputText:
    """A piece of the answer's text; the pieces joined are the whole text."""

    delta: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatRestarted:
    """The output text so far is withdrawn, because it was invalid or a call followed."""

    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowChosen:
    """A flow of a turn is about to run or continue."""

    flow: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The end, with the `Answer` of `respond` or the `TurnResult` of an agent's turn."""

    answer: Any = field(repr=False)


Event = (
    ModelCalled
    | ChainText
    | ToolCalled
    | ToolReturned
    | FormatStarted
    | OutputText
    | FormatRestarted
    | FlowChosen
    | Finished
)
OnEvent = Callable[[Event], object]
"""Receives events one at a time, sync (in a thread) or async. Its errors are logged and ignored."""
BeforeCall = Callable[[ToolRequest], bool | str | Awaitable[bool | str | None] | None]
"""Called before a call is made; False, or a text with the reason, refuses the call."""
AfterCall = Callable[[ToolRequest, ToolResult], Any]
"""Called with a call's result; a return value that is not None replaces the result."""


async def tell(listener: OnEvent | None, event: Event) -> None:
    """Pass an event to the listener, if there is one."""
    if listener is None:
        return
    try:
        await run_with_timeout(listener, event, limit_s=None, name="jazz-select-on_event")
    except Exception:  # noqa: BLE001 - any error of a listener
        _log.exception("event=<%s> | the listener failed, and is passed over", type(event).__name__)
