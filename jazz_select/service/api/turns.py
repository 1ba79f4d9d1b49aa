"""A turn of an agent as it is asked for, and told event by event: server-sent events with signs of life between."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final, Literal

from starlette.requests import Request

from jazz_select.agent.chain.transcript import Event, Finished
from jazz_select.agent.conversation import Conversation
from jazz_select.agent.turn import event_data, event_name
from jazz_select.json_values import json_bytes
from jazz_select.service.api.bodies import TurnBody
from jazz_select.service.http.limits import catalogue_of
from jazz_select.service.http.observation import metrics_of
from jazz_select.service.problems import problem_response, refused
from jazz_select.service.service_options import ServeOptions
from jazz_select.values import Message

MEDIA_TYPE: Final = "text/event-stream"
HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Content-Type-Options": "nosniff"}
_ALIVE_S: Final = 15.0
"""How often a stream says that it is still there, where nothing happens."""
_LARGEST_SCHEMA: Final = 64 << 10
"""Bytes of a schema: what takes seconds to be checked is no schema of an answer."""


def turn_arguments(request: Request, body: TurnBody) -> dict[str, Any]:
    """What `Agent.turn` is given."""
    options: ServeOptions = request.app.state.options
    limit: float | Literal["agent"] = "agent" if body.timeout_s is None else body.timeout_s
    if body.timeout_s is not None and body.timeout_s > options.max_turn_s:
        detail = f"timeout_s: a turn may take {options.max_turn_s:g} s here, and no longer"
        raise refused(400, detail)
    if body.schema_ is not None and len(json_bytes(body.schema_)) > _LARGEST_SCHEMA:
        detail = f"schema: it is larger than {_LARGEST_SCHEMA} bytes of JSON, and none of an answer needs to be"
        raise refused(400, detail)
    history: Conversation | list[Message] | None = None
    if isinstance(body.history, str):
        history = Conversation.from_json(body.history, secret=catalogue_of(request).secret)
    elif body.history is not None:
        history = [Message(role=each.role, content=each.content) for each in body.history]
    given = {**dict(body), "history": history, "timeout_s": limit}
    given["schema"] = given.pop("schema_")
    return given


async def streamed(
    request: Request, given: Mapping[str, Any], told: Callable[..., Mapping[str, Any]] = event_data
) -> AsyncGenerator[bytes]:
    """The events of a turn, and signs of life; an error as the last one, since the status has long been sent."""
    catalogue = catalogue_of(request)
    try:
        async with aclosing(catalogue.live.agent.stream(**given)) as events, aclosing(_alive(events)) as heard:
            async for event in heard:
                if event is None:
                    yield b": still here\n\n"
                    continue
                if isinstance(event, Finished):
                    metrics_of(request).answered(event.answer)
                # This JSON has no line breaks, so one line of data is all of it.
                data = json_bytes(told(event, secret=catalogue.secret))
                yield b"event: %s\ndata: %s\n\n" % (event_name(event).encode(), data)
    except Exception as error:  # noqa: BLE001 - whatever it is, the client is to hear of it
        yield b"event: problem\ndata: " + bytes(problem_response(error, request.scope).body) + b"\n\n"


async def _alive(events: AsyncGenerator[Event]) -> AsyncGenerator[Event | None]:
    """Yield the events, and None after each pause, as a sign of life."""
    waiting: asyncio.Future[Event | None] | None = None
    try:
        while True:
            waiting = waiting or asyncio.ensure_future(anext(events, None))
            done, _ = await asyncio.wait({waiting}, timeout=_ALIVE_S)
            if not done:
                yield None
                continue
            event, waiting = waiting.result(), None
            if event is None:
                return
            yield event
    finally:
        if waiting is not None:
            waiting.cancel()
            await asyncio.wait({waiting})
