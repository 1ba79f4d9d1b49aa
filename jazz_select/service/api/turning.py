"""A turn of an agent: its result as a whole, or event by event."""

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final, Literal

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from jazz_select.agent.chain.transcript import Event
from jazz_select.agent.conversation import Conversation
from jazz_select.agent.events import event_data
from jazz_select.json_values import json_bytes
from jazz_select.service.access import catalogue_of
from jazz_select.service.api.answered import answer, metrics_of
from jazz_select.service.api.asked import TurnBody, asked
from jazz_select.service.http.events import HEADERS, MEDIA_TYPE, streamed
from jazz_select.service.options import ServeOptions
from jazz_select.service.problems import refused
from jazz_select.service.running import RunningCatalogue
from jazz_select.values import Message

_LARGEST_SCHEMA: Final = 64 << 10
"""Bytes of a schema: what takes seconds to be checked is no schema of an answer."""


def turning_routes(options: ServeOptions) -> list[BaseRoute]:
    """The one there is."""

    async def turn(request: Request) -> Response:
        """Answer one message."""
        catalogue = catalogue_of(request)
        body = await asked(request, TurnBody)
        given = turn_arguments(body, catalogue, options)
        if MEDIA_TYPE in request.headers.get("accept", ""):
            return StreamingResponse(_told(request, catalogue, given), media_type=MEDIA_TYPE, headers=HEADERS)
        result = await catalogue.live.agent.turn(**given)
        metrics_of(request).answered(catalogue.agent_id, result)
        return answer(result.to_dict(secret=catalogue.secret))

    return [Route("/v1/turn", turn, methods=["POST"])]


def turn_arguments(body: TurnBody, catalogue: RunningCatalogue, options: ServeOptions) -> dict[str, Any]:
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


def _told(request: Request, catalogue: RunningCatalogue, given: dict[str, Any]) -> AsyncGenerator[bytes]:
    """The events of a turn."""

    def told(event: Event) -> Mapping[str, Any]:
        return event_data(event, secret=catalogue.secret)

    return streamed(request, catalogue, given, told)
