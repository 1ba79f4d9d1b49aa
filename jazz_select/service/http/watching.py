"""Each request has an id, is counted, has its line in the log, and ends with an answer."""

import asyncio
import logging
import re
from itertools import count
from secrets import token_hex
from time import perf_counter
from typing import Final

import orjson
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jazz_select.service.http.metrics import ServiceMetrics
from jazz_select.service.http.protocol import TRANSPORT
from jazz_select.service.problems import problem_of

access_log: Final = logging.getLogger("jazz_select.access")
_log: Final = logging.getLogger(__name__)
_ID: Final = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")
_HEADER: Final = b"x-request-id"
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_UNKNOWN: Final = "(unknown)"
_LEFT: Final = 499
"""What is logged where the client left before it was answered; it is sent to nobody."""


class Watched:
    """Outermost: whatever happens behind it, the request is answered, logged and counted."""

    def __init__(self, app: ASGIApp, metrics: ServiceMetrics, send_timeout_s: float) -> None:
        """Stand before an app; a client that reads no piece of a stream for so many seconds is cut off."""
        self._app, self._metrics, self._send_timeout_s = app, metrics, send_timeout_s
        # To ask the system for each anew takes longer than all else here.
        self._own, self._numbers = token_hex(8), count()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and watch what becomes of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = perf_counter()
        given = next((value for name, value in scope["headers"] if name == _HEADER), b"")
        request_id = given if _ID.fullmatch(given) else self._new_id()
        state = scope.setdefault("state", {})
        state["request_id"], state["metrics"] = request_id.decode(), self._metrics
        status = size = 0

        async def told(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (_HEADER, request_id)]
            elif message["type"] == "http.response.body":
                size += len(message.get("body", b""))
                if message.get("more_body"):
                    await self._sent(scope, send, message)
                    return
            await send(message)

        try:
            await self._app(scope, receive, told)
        except ClientDisconnect:
            pass  # nobody is there to be answered
        except Exception as error:  # noqa: BLE001 - whatever it is, somebody waits for an answer
            if isinstance(error, RuntimeError) and _is_gone(scope):
                request_id = state["request_id"]
                _log.debug("request_id=<%s> | failed, with nobody there to be answered", request_id, exc_info=True)
                await asyncio.sleep(0)  # lets the server see it, too
                return
            response = problem_of(error, scope)
            if not status:
                await response(scope, receive, told)
        finally:
            self._note(scope, status or _LEFT, size, perf_counter() - began)

    def _new_id(self) -> bytes:
        """One that no other request has, here or elsewhere."""
        return f"{self._own}{next(self._numbers):016x}".encode()

    async def _sent(self, scope: Scope, send: Send, message: Message) -> None:
        try:
            async with asyncio.timeout(self._send_timeout_s):
                await send(message)
        except TimeoutError:
            if (connection := scope["state"].get(TRANSPORT)) is not None:
                connection.abort()
                await asyncio.sleep(0)  # lets the server see it
            raise ClientDisconnect from None

    def _note(self, scope: Scope, status: int, size: int, seconds: float) -> None:
        state = scope["state"]
        caller = state.get("catalogue")
        agent_id = "" if caller is None else caller.agent_id
        method = scope["method"] if scope["method"] in _METHODS else "OTHER"
        route: str = getattr(scope.get("route"), "path", "") or _UNKNOWN
        self._metrics.requested(agent_id, method, route, status, seconds)
        if access_log.isEnabledFor(logging.INFO):
            access_log.info("%s", _line(state["request_id"], agent_id, method, route, status, seconds, size))


def _is_gone(scope: Scope) -> bool:
    """Whether there is nobody any more who could be answered: writing fails then, in some event loops."""
    connection = scope["state"].get(TRANSPORT)
    return connection is not None and connection.is_closing()


def _line(  # noqa: PLR0913, PLR0917 - what a line holds
    request_id: str, agent_id: str, method: str, route: str, status: int, seconds: float, size: int
) -> str:
    """What is kept of a request: never its body, its key, or a path that somebody made up."""
    from datetime import UTC, datetime

    told = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "id": request_id,
        "agent": agent_id,
        "method": method,
        "route": route,
        "status": status,
        "ms": round(1000 * seconds, 3),
        "bytes": size,
    }
    return orjson.dumps(told).decode()
