"""A request's body is whole, in time and not too large before anything is done with it."""

import asyncio
from contextlib import suppress
from typing import Final

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jazz_select.service.problems import Rest, problem_of, refused, rest_of

_PASSED_OVER: Final = 16 << 20
"""Bytes of a refused body that are still read: whoever sends it hears why, and not that the connection broke."""
_PATIENCE_S: Final = 2.0


class Bodies:
    """Reads each body before the app is asked."""

    def __init__(self, app: ASGIApp, *, most: int, timeout_s: float) -> None:
        """Stand before an app.

        Args:
            app: What is behind.
            most: Bytes of a body.
            timeout_s: In which it has to be there, in seconds.
        """
        self._app = app
        self._most, self._timeout_s = most, timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its body, or refuse it."""
        if scope["type"] != "http" or not _has_body(scope):
            await self._app(scope, receive, send)
            return
        try:
            body = await self._read(scope, receive)
        except HTTPException as error:
            await refuse(error, scope, receive, send)
            return
        if body is None:
            return  # whoever asked is gone
        left: Message | None = {"type": "http.request", "body": body, "more_body": False}

        async def once() -> Message:
            nonlocal left
            if left is None:
                return await receive()
            message, left = left, None
            return message

        await self._app(scope, once, send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes | None:
        """All of it; None where the client has left.

        Raises:
            HTTPException: It is too large, or was not there in time.
        """
        declared = dict(scope["headers"]).get(b"content-length", b"")
        if declared.isdigit() and int(declared[:20]) > self._most:
            raise self._too_large()
        parts: list[bytes] = []
        size = 0
        more = True
        try:
            async with asyncio.timeout(self._timeout_s):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    part: bytes = message.get("body", b"")
                    more = message.get("more_body", False)
                    size += len(part)
                    if size > self._most:
                        raise self._too_large("skip" if more else "none")
                    parts.append(part)
        except TimeoutError as error:
            detail = f"the body was not there within {self._timeout_s:g} s: send it at once"
            raise refused(408, detail, rest="close") from error
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _too_large(self, rest: Rest = "skip") -> HTTPException:
        return refused(413, f"the body is larger than {self._most} bytes: send less, or in several requests", rest=rest)


async def refuse(error: HTTPException, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer what is refused before its body was read."""
    response = problem_of(error, scope)
    rest = rest_of(error) if _has_body(scope) else "none"
    if rest == "skip" and any(name == b"expect" for name, _ in scope["headers"]):
        rest = "close"  # it waits to be told to go on
    if rest == "close" or (rest == "skip" and not await _passed_over(receive)):
        response.headers["Connection"] = "close"
    await response(scope, receive, send)


async def _passed_over(receive: Receive) -> bool:
    """Whether the rest of the body could be read and thrown away, quickly."""
    size = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE_S):
            while size <= _PASSED_OVER:
                message = await receive()
                size += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return message["type"] != "http.disconnect"
    return False


def _has_body(scope: Scope) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in scope["headers"]
    )
