"""The sessions of MCP clients of one agent, by key: how many each may have open, and that no other key uses them."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.types import Message, Receive, Scope, Send

from jazz_select.service.http.limits import whose_request
from jazz_select.service.http.shares import Places
from jazz_select.service.problems import refusal

SESSION_ID: Final = "mcp-session-id"
_LONGEST_ID: Final = 128
"""Characters of a session's id: ours have 32."""
_OK, _BAD, _GONE = 200, 400, 404
Handle = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass(slots=True)
class _Session:
    whose: str
    used_at: float
    in_flight: int = 0


class KeySessions:
    """Which sessions there are, as far as it can be seen from outside: opened, used, ended, or idle for too long."""

    def __init__(self, places: Places, idle_s: float) -> None:
        self._places, self._idle_s = places, idle_s
        self._open: dict[str, _Session] = {}

    async def answer(self, handle: Handle, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, if its key may open one more session, or has this one.

        Raises:
            HTTPException: It may not; or the id is none.
        """
        headers, whose = Headers(scope=scope), whose_request(HTTPConnection(scope))
        version, session_id = headers.get("mcp-protocol-version"), headers.get(SESSION_ID)
        if session_id is not None and len(session_id) > _LONGEST_ID:
            raise refusal(400, f"{SESSION_ID} must have at most {_LONGEST_ID} characters, got {len(session_id)}")
        if version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            # Without a handshake there are no sessions, so nothing is kept under a name that a client made up.
            kept = [each for each in scope["headers"] if each[0] != SESSION_ID.encode()]
            await handle({**scope, "headers": kept}, receive, send)
            return
        # The SDK answers for a session only to whom it was opened for.
        scope = {**scope, "user": AuthenticatedUser(AccessToken(token=whose, client_id=whose, scopes=[]))}
        if session_id is None:
            await self._open_session(whose, handle, scope, receive, send)
        else:
            await self._use_session(session_id, handle, scope, receive, send)

    async def _open_session(self, whose: str, handle: Handle, scope: Scope, receive: Receive, send: Send) -> None:
        self._end_idle()
        try:
            self._places.take(whose)
        except HTTPException as error:
            error.detail += f"; a session ends with DELETE, or when nobody has used it for {self._idle_s:g} s"
            raise
        opened = ""

        async def watch(message: Message) -> None:
            nonlocal opened
            if message["type"] == "http.response.start" and message["status"] < _BAD:
                opened = Headers(raw=message.get("headers", ())).get(SESSION_ID, "")
                if opened:
                    self._open[opened] = _Session(whose, _loop_time())
            await send(message)

        try:
            await handle(scope, receive, watch)
        finally:
            if not opened:
                self._places.give_back(whose)

    async def _use_session(self, session_id: str, handle: Handle, scope: Scope, receive: Receive, send: Send) -> None:
        session = self._open.get(session_id)
        statuses: list[int] = []

        async def watch(message: Message) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])
            await send(message)

        is_own = session is not None and session.whose == whose_request(HTTPConnection(scope))
        if session is None or not is_own:
            await handle(scope, receive, send)
            return
        session.in_flight += 1
        try:
            await handle(scope, receive, watch)
        finally:
            session.in_flight -= 1
            session.used_at = _loop_time()
            is_deleted = scope["method"] == "DELETE" and any(_OK <= each < _BAD for each in statuses)
            if is_deleted or _GONE in statuses:
                self._end(session_id)

    def _end_idle(self) -> None:
        oldest = _loop_time() - self._idle_s
        for session_id, session in list(self._open.items()):
            if not session.in_flight and session.used_at < oldest:
                self._end(session_id)

    def _end(self, session_id: str) -> None:
        session = self._open.pop(session_id, None)
        if session is not None:
            self._places.give_back(session.whose)


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
