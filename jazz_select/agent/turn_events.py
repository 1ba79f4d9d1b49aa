"""The events of a turn: who listens to them, and their names and data where they travel."""

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, Final, cast, get_args

from jazz_select.agent.chain.transcript import (
    Event,
    Finished,
    OnEvent,
    ToolCalled,
    ToolRequest,
    ToolResult,
    ToolReturned,
    tell,
)
from jazz_select.agent.turn import TurnResult
from jazz_select.errors import ConfigError
from jazz_select.flow.base import BaseFlow
from jazz_select.json_values import Secret, plain
from jazz_select.routing.records import Fault, StepRecord
from jazz_select.serialization import unreadable, value_of
from jazz_select.threads import set_in

_of_the_turn: ContextVar[OnEvent | None] = ContextVar("jazz_select_on_event", default=None)
_first_reader: ContextVar[str] = ContextVar("jazz_select_first_reader", default="")


def listening(listener: OnEvent | None) -> AbstractContextManager[None]:
    """Send the events of a turn to this listener; a turn around it, of which it is a tool, gets none of them."""
    return set_in(_of_the_turn, listener)


def listener() -> OnEvent | None:
    """Return the listener of the running turn."""
    return _of_the_turn.get()


def reading_first(flow: str) -> AbstractContextManager[None]:
    """Say that the model at work on this flow is the first to read the message; "" if another has read it."""
    return set_in(_first_reader, flow)


def first_reader() -> str:
    """Return the flow of the model that reads the message first, and may hand it back; "" for any other model."""
    return _first_reader.get()


async def tell_turn(event: Event) -> None:
    """Send an event to the listener of the running turn."""
    if (current := listener()) is not None:
        await tell(current, event)


async def tell_of_step(call: StepRecord, ended: StepRecord | None) -> None:
    """Send the event of a step's call: `ToolCalled` before it, `ToolReturned` once it has `ended`."""
    # The record of a call is the same object in both events, so its id distinguishes concurrent calls.
    own = f"{call.tool}-{call.step}-{id(call):x}"
    if ended is None:
        request = ToolRequest(id=own, round=0, tool=call.tool, requested=call.tool, arguments=call.arguments)
        await tell_turn(ToolCalled(call=request))
        return
    await tell_turn(ToolReturned(result=result_of(ended, own)))


def result_of(step: StepRecord, own_id: str) -> ToolResult:
    """Return the record of a step as the result of a tool call."""
    return ToolResult(
        id=own_id,
        round=0,
        tool=step.tool,
        ok=step.status == "ok",
        output=step.output,
        error=step.error,
        fault=cast("Fault", step.fault),
        unknown=step.unknown,
        called=step.attempts > 0,
    )


_WORD: Final = re.compile(r"(?<!^)(?=[A-Z])")
_KINDS: Final[Mapping[str, type[Event]]] = {_WORD.sub("_", kind.__name__).lower(): kind for kind in get_args(Event)}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}
FINISHED: Final = _NAMES[Finished]
"""Name of a turn's last event."""


def event_name(event: Event) -> str:
    """Return an event's name."""
    return _NAMES[type(event)]


def event_data(event: Event, *, secret: Secret | None = None) -> dict[str, Any]:
    """Return an event as plain JSON values; a result's conversation is signed with the secret."""
    if not isinstance(event, Finished):
        return cast("dict[str, Any]", plain(event))
    if not isinstance(event.answer, TurnResult):
        msg = f"the events of an agent's turn travel, and this is the end of something else: {event.answer!r:.80}"
        raise ConfigError(msg)
    return event.answer.to_dict(secret=secret)


def event_of(
    name: str, data: object, *, registry: Mapping[str, BaseFlow] | None = None, secret: Secret | None = None
) -> Event | None:
    """Return the event of this name and data; None for an event that only a newer version knows."""
    kind = _KINDS.get(name)
    if kind is None:
        return None
    known = value_of(dict[str, Any], data, kind.__name__)
    if kind is Finished:
        return Finished(answer=TurnResult.from_dict(known, registry=registry, secret=secret))
    found: Event = value_of(kind, known)
    if type(found) is not kind:
        raise unreadable(kind.__name__, "it is of another kind")
    return found
