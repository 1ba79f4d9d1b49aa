"""A connection to one MCP server: over the pipes of a process of its own, or over HTTP; it says when it has ended."""

import logging
import os
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from secrets import token_hex
from types import TracebackType
from typing import Any, Final, Self, TextIO

import httpx2
from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from jazz_select.service.mcp.foreign import plain_text
from jazz_select.service.mcp.gateway.servers_file import ServerSpec
from jazz_select.text import beginning

_CONNECT_S: Final = 30.0
_KEPT_LINES, _LONGEST_LINE, _CHUNK = 20, 300, 4_096
_log = logging.getLogger(__name__)


@asynccontextmanager
async def connection(spec: ServerSpec, ended: Callable[[], None]) -> AsyncGenerator[tuple[Any, Any]]:
    """The two streams of a server that is started, or that requests are sent to; at the end it is stopped.

    Args:
        spec: Which server.
        ended: Called when nothing more can come from it, such as when its process has died.

    Raises:
        OSError: It cannot be started.
    """
    opened = _over_http(spec) if spec.url else _in_a_process(spec)
    async with opened as (incoming, outgoing):
        yield _Watched(incoming, ended), outgoing


@asynccontextmanager
async def _in_a_process(spec: ServerSpec) -> AsyncGenerator[tuple[Any, Any]]:
    parameters = StdioServerParameters(
        command=spec.command, args=list(spec.args), env=dict(spec.env) or None, cwd=spec.cwd
    )
    with _heard(spec) as errors:
        streams: AbstractAsyncContextManager[tuple[Any, Any]] = stdio_client(parameters, errlog=errors)
        async with streams as both:
            yield both


@asynccontextmanager
async def _over_http(spec: ServerSpec) -> AsyncGenerator[tuple[Any, Any]]:
    timeout = httpx2.Timeout(_CONNECT_S, read=spec.timeout_s)
    async with httpx2.AsyncClient(headers=dict(spec.headers), timeout=timeout) as client:
        streams: AbstractAsyncContextManager[tuple[Any, Any]] = streamable_http_client(spec.url, http_client=client)
        async with streams as both:
            yield both


class _Watched:
    """A stream of messages that tells when it has come to its end."""

    def __init__(self, stream: Any, ended: Callable[[], None]) -> None:
        self._stream, self._ended = stream, ended

    @property
    def last_context(self) -> Any:
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        try:
            return await self._stream.receive()
        except Exception:
            self._ended()
            raise

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.__anext__()
        except Exception:
            self._ended()
            raise

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stream.__aexit__(kind, error, trace)


@contextmanager
def _heard(spec: ServerSpec) -> Generator[TextIO]:
    """Where a process writes its errors: the last lines of them are logged when it has ended, without its secrets.

    They are read by a thread, since a process that nobody reads stops in the middle of what it writes. What it has
    started may hold its end of the pipe for ever: so a mark that we write ourselves ends the reading.
    """
    reading, writing = os.pipe()
    last: deque[str] = deque(maxlen=_KEPT_LINES)
    mark = token_hex().encode()

    def read() -> None:
        rest = b""
        try:
            while chunk := os.read(reading, _CHUNK):
                *lines, rest = (rest[-_CHUNK:] + chunk).split(b"\n")
                last.extend(line.decode(errors="replace") for line in lines if line.strip() and line != mark)
                if mark in lines:
                    rest = b""
                    break
        except OSError as error:
            _log.debug("server=<%s>, error=<%s> | its standard error cannot be read", spec.name, error)
        finally:
            os.close(reading)
        if rest.strip():
            last.append(rest.decode(errors="replace"))
        for line in last:
            told = beginning(spec.without_secrets(plain_text(line)), _LONGEST_LINE)
            _log.info("server=<%s>, line=<%s> | an MCP server wrote to its standard error", spec.name, told)

    threading.Thread(target=read, name=f"jazz-select-mcp-{spec.name}", daemon=True).start()
    with os.fdopen(writing, "w", encoding="utf-8") as errors:
        try:
            yield errors
        finally:
            with suppress(OSError):  # nobody reads any more
                os.write(writing, b"\n" + mark + b"\n")
