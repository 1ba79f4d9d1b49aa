"""A chain of tool calls as a frozen value that survives a restart, and what is told of it as it happens."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, cast

from jazz_select.chat.client import total_usage
from jazz_select.errors import ConfigError
from jazz_select.routing.records import Fault
from jazz_select.threads import run_with_timeout
from jazz_select.values import Message, Usage

if TYPE_CHECKING:
    from pydantic import TypeAdapter

ChainStatus = Literal["answered", "limit", "failed", "asked"]
"""How a chain ended: with an answer, at its limit of model calls, with an error of the model's, or with a call that
waits to be approved, where an agent asks for that."""
Purpose = Literal["chain", "answer", "format"]
"""What a model was asked for: the next step, the answer at once, or a finished chain put into a schema."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantText:
    """What the model said, beside calls or as its answer."""

    text: str
    kind: Literal["text"] = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRequest:
    """One call as the model asked for it.

    Attributes:
        id: What the call is known by within its round.
        round: Which call of the model asked for it, from 1.
        tool: The tool that is run; where none was found, the name that the model gave.
        requested: The name that the model gave.
        arguments: JSON values; references to other calls are replaced where they lead somewhere.
        identity: What a yes to it is for, where it has to be approved first (`ToolCall.identity`).
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
    """What became of a call.

    Attributes:
        id: Which call.
        round: Of which round.
        tool: The tool's name.
        ok: Whether there is an output.
        output: What the tool returned, as JSON values.
        error: Why there is none.
        details: What else may help the model, such as the tools that there are.
        fault: What was at fault where there is no output, as of `StepError`; empty where a whole reply was refused.
        unknown: True where the call began and nobody heard of its end: it may have had its effect.
        called: Whether the tool was called, now or before; whatever is not was refused before that.
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
    kind: Literal["result"] = "result"


Entry = AssistantText | ToolRequest | ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """One call of the model.

    Attributes:
        purpose: What it was for.
        conversation_id: To which conversation it belongs.
        reply: What the model said, cut visibly where it was long.
        model: Which model, as it says.
        usage: The tokens it took, where they were counted.
        truncated: Whether the reply was cut off by a limit on its length.
    """

    purpose: Purpose
    conversation_id: str = ""
    reply: str = ""
    model: str = ""
    usage: Usage | None = None
    truncated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """What a model and its tools did with a request.

    Attributes:
        conversation_id: The caller's name for the conversation.
        messages: What the chain began with: system, user, and what was said before.
        entries: What followed, in order.
        answer: The chain's own closing text; empty where it has none.
        status: How it ended.
        final: The JSON text of the answer, where the loop itself gave one of the schema (`native`, `tool`).
        records: The calls of the model, in order.
        notes: What was degraded on the way, one sentence each.
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
        """The calls that have to be approved first, where that is why it ended."""
        if self.status != "asked":
            return ()
        results = (each for each in self.entries if isinstance(each, ToolResult) and each.fault == "asked")
        waiting = {(each.round, each.id) for each in results}
        return tuple(
            each for each in self.entries if isinstance(each, ToolRequest) and (each.round, each.id) in waiting
        )

    @property
    def incomplete(self) -> bool:
        """Whether it was cut short."""
        return self.status in {"limit", "failed"}

    @property
    def text(self) -> str:
        """The closing answer; where there is none, what the model said last."""
        said = (entry.text for entry in reversed(self.entries) if isinstance(entry, AssistantText))
        return self.answer or next(said, "")

    @property
    def model_calls(self) -> int:
        """How often the model was asked."""
        return len(self.records)

    @property
    def usage(self) -> Usage | None:
        """All tokens together; None where nobody counted."""
        return summed(self.records)

    def as_json(self) -> dict[str, Any]:
        """As plain JSON values, which `from_json` reads."""
        return cast("dict[str, Any]", _adapter().dump_python(self, mode="json"))

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Chain":
        """The chain that `as_json` wrote.

        Raises:
            ConfigError: It is none.
        """
        from pydantic import ValidationError

        try:
            return _adapter().validate_python({**value})
        except (ValidationError, TypeError, ValueError, RecursionError) as error:
            raise ConfigError(f"this is no chain that as_json wrote: {str(error)[:500]}") from error


def summed(records: tuple[CallRecord, ...]) -> Usage | None:
    """The tokens of all calls together; None where nobody counted."""
    whole: Usage | None = None
    for record in records:
        whole = total_usage(whole, record.usage)
    return whole


@lru_cache(1)
def _adapter() -> "TypeAdapter[Chain]":
    from pydantic import TypeAdapter

    return TypeAdapter(Chain)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCalled:
    """The model is asked; `number` counts from 1, for each purpose anew."""

    purpose: Purpose
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainText:
    """What the model said in the loop; `closing` where it is the chain's own answer."""

    text: str
    closing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCalled:
    """A tool is about to be run; `text` is what the user of an agent may be told meanwhile."""

    call: ToolRequest
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReturned:
    """What became of a call, also of one that was not run."""

    result: ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatStarted:
    """A finished chain is put into the schema."""

    incomplete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputText:
    """A piece of what was asked for: all of them joined are the answer's text. Nothing else is."""

    delta: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatRestarted:
    """The output text so far is void, since it was not valid, or a call followed; what follows replaces it."""

    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowChosen:
    """A flow of a turn is about to be run, or goes on."""

    flow: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The end: an `Answer`, as `respond` returns it, or the `TurnResult` of an agent's turn."""

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
"""Hears of events, sync or async, one after the other; a plain one in a thread. One that fails is logged, no more."""


async def tell(listener: OnEvent | None, event: Event) -> None:
    """Tell of an event, if anyone listens."""
    if listener is None:
        return
    try:
        await run_with_timeout(listener, event, limit_s=None, name="jazz-select-on_event")
    except Exception:  # noqa: BLE001 - whatever a listener fails with
        _log.exception("event=<%s> | the listener failed, and is passed over", type(event).__name__)
