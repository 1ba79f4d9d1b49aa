"""A turn as server-sent events: a frame for each, signs of life between them, and what went wrong as the last."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final

from starlette.requests import Request

from jazz_select.agent.chain.transcript import Event, Finished
from jazz_select.agent.events import event_name
from jazz_select.json_values import json_bytes
from jazz_select.service.api.answered import metrics_of
from jazz_select.service.problems import problem_of
from jazz_select.service.running import RunningCatalogue

MEDIA_TYPE: Final = "text/event-stream"
HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Content-Type-Options": "nosniff"}
_ALIVE_S: Final = 15.0
"""How often a stream says that it is still there, where nothing happens."""


async def streamed(
    request: Request,
    catalogue: RunningCatalogue,
    given: Mapping[str, Any],
    told: Callable[[Event], Mapping[str, Any]],
) -> AsyncGenerator[bytes]:
    """The events of a turn, and signs of life; an error as the last one, since the status has long been sent.

    Args:
        request: Who asks.
        catalogue: Whose turn it is.
        given: What `Agent.stream` is given.
        told: What is sent of an event.
    """
    try:
        async with aclosing(catalogue.live.agent.stream(**given)) as events, aclosing(_alive(events)) as heard:
            async for event in heard:
                if event is None:
                    yield b": still here\n\n"
                    continue
                if isinstance(event, Finished):
                    metrics_of(request).answered(catalogue.agent_id, event.answer)
                yield _frame(event_name(event), told(event))
    except Exception as error:  # noqa: BLE001 - whatever it is, the client is to hear of it
        yield b"event: problem\ndata: " + bytes(problem_of(error, request.scope).body) + b"\n\n"


async def _alive(events: AsyncGenerator[Event]) -> AsyncGenerator[Event | None]:
    """The events, and None where there was none for a while."""
    waiting: asyncio.Future[Event] | None = None
    try:
        while True:
            waiting = waiting or asyncio.ensure_future(anext(events))
            done, _ = await asyncio.wait({waiting}, timeout=_ALIVE_S)
            if not done:
                yield None
                continue
            try:
                event = waiting.result()
            except StopAsyncIteration:
                return
            waiting = None
            yield event
    finally:
        if waiting is not None:
            waiting.cancel()
            await asyncio.wait({waiting})


def _frame(name: str, data: Mapping[str, Any]) -> bytes:
    # This JSON has no line breaks, so one line of data is all of it.
    return b"event: " + name.encode() + b"\ndata: " + json_bytes(data) + b"\n\n"
