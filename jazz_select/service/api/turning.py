"""A turn of an agent: its result as a whole, or event by event."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, Final, Literal

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from jazz_select.agent.chain.transcript import Event, Finished
from jazz_select.agent.conversation import Conversation
from jazz_select.agent.events import event_data, event_name
from jazz_select.json_values import json_bytes
from jazz_select.service.access import catalogue_of
from jazz_select.service.api.answered import answer, metrics_of
from jazz_select.service.api.asked import TurnBody, asked
from jazz_select.service.options import ServeOptions
from jazz_select.service.problems import problem_of, refused
from jazz_select.service.running import RunningCatalogue
from jazz_select.values import Message

_EVENTS: Final = "text/event-stream"
_LARGEST_SCHEMA: Final = 64 << 10
"""Bytes of a schema: what takes seconds to be checked is no schema of an answer."""
_ALIVE_S: Final = 15.0
"""How often a stream says that it is still there, where nothing happens."""
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def turning_routes(options: ServeOptions) -> list[BaseRoute]:
    """The one there is."""

    async def turn(request: Request) -> Response:
        """Answer one message."""
        catalogue = catalogue_of(request)
        body = await asked(request, TurnBody)
        given = _arguments(body, catalogue, options)
        if _EVENTS in request.headers.get("accept", ""):
            return StreamingResponse(_told(request, catalogue, given), media_type=_EVENTS, headers=_HEADERS)
        result = await catalogue.live.agent.turn(**given)
        metrics_of(request).answered(catalogue.agent_id, result)
        return answer(result.to_dict(secret=catalogue.secret))

    return [Route("/v1/turn", turn, methods=["POST"])]


def _arguments(body: TurnBody, catalogue: RunningCatalogue, options: ServeOptions) -> dict[str, Any]:
    """What `Agent.turn` is given.

    Raises:
        HTTPException: It may not take so long, or its schema is too large.
        SnapshotError: The conversation is none that this service gave for this agent.
    """
    limit: float | Literal["agent"] = "agent" if body.timeout_s is None else body.timeout_s
    if body.timeout_s is not None and body.timeout_s > options.max_turn_s:
        detail = f"timeout_s: a turn may take {options.max_turn_s:g} s here, and no longer"
        raise refused(400, detail, rest="none")
    if body.schema_ is not None and len(json_bytes(body.schema_)) > _LARGEST_SCHEMA:
        detail = f"schema: it is larger than {_LARGEST_SCHEMA} bytes of JSON, and none of an answer needs to be"
        raise refused(400, detail, rest="none")
    history: Conversation | list[Message] | None = None
    if isinstance(body.history, str):
        history = Conversation.from_json(body.history, secret=catalogue.secret)
    elif body.history is not None:
        history = [Message(role=each.role, content=each.content) for each in body.history]
    return {
        "message": body.message,
        "history": history,
        "context": body.context,
        "facts": body.facts,
        "schema": body.schema_,
        "conversation_id": body.conversation_id,
        "timeout_s": limit,
    }


async def _told(request: Request, catalogue: RunningCatalogue, given: dict[str, Any]) -> AsyncIterator[bytes]:
    """The events of a turn, and signs of life; an error as the last one, since the status has long been sent."""
    try:
        async with aclosing(catalogue.live.agent.stream(**given)) as events, aclosing(_alive(events)) as told:
            async for event in told:
                if event is None:
                    yield b": still here\n\n"
                    continue
                if isinstance(event, Finished):
                    metrics_of(request).answered(catalogue.agent_id, event.answer)
                yield _frame(event_name(event), event_data(event, secret=catalogue.secret))
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


def _frame(name: str, data: Any) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + json_bytes(data) + b"\n\n"
