"""The app behind a port or a socket's file, until it is told to stop; and what is asked of each connection before."""

import asyncio
import logging
import os
import signal
import socket
import stat
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from types import FrameType
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from uvicorn.loops.auto import auto_loop_factory
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from jazz_select.errors import ConfigError
from jazz_select.serialization import NO_ROOM
from jazz_select.service.http.limits import CONNECTION, Lifecycle, has_body, reads_no_body
from jazz_select.service.http.shares import Connection, Connections
from jazz_select.service.problems import problem
from jazz_select.service.service_options import ServeOptions
from jazz_select.text import describe_error

LARGEST_HEAD: Final = 64 << 10
"""Bytes of all lines and headers before a body; and of all that comes after it, until it is answered."""


class PatientProtocol(HttpToolsProtocol):
    """uvicorn's protocol, but for how long it waits, how much it reads, and who hears that the client has left.

    uvicorn waits for a head for ever, and reads one of any size: no option bounds either, and a middleware comes too
    late. The limits that the documentation promises are kept here. What is sent before the request ahead of it is
    answered is not read: the connection is closed with that answer.
    """

    options = ServeOptions()
    kept = Connections(options)
    own: Connection | None = None
    _late: asyncio.TimerHandle | None = None
    _read = 0
    """Bytes since a request was started, or a piece of its body came."""
    _is_deaf = False
    """Whether what comes is thrown away, until the connection is closed."""

    @classmethod
    def with_options(cls, options: ServeOptions) -> type[asyncio.Protocol]:
        """Bind this protocol to the limits of one service."""
        return type(cls.__name__, (cls,), {"options": options, "kept": Connections(options)})

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Wait for a head, where there is room."""
        super().connection_made(transport)
        made = Connection.from_transport(transport)
        if not self.kept.take(made):
            self._say(503, "there is no room for one more connection: come again in a moment", NO_ROOM)
            return
        made.is_idle = lambda: not self._is_asked() and not self._read
        self.own = made
        self.app_state = {**self.app_state, CONNECTION: made}
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Read on; stop waiting where the head is whole. What is neither head nor body is bounded, too."""
        self._read += len(data)
        if not self._is_deaf:
            super().data_received(data)
        if self.transport.is_closing():
            return
        if self._is_asked():
            self._forget()
            if self.parser is not None and self.parser.should_upgrade():
                # The parser reads nothing after such a head, so the connection cannot serve a second request.
                self.cycle.keep_alive = False
            if not self.cycle.more_body:
                self.flow.resume_reading()
        if self._read > LARGEST_HEAD:
            self.send_400_response(f"the head of a request, or what follows its body, has over {LARGEST_HEAD} bytes")
        elif self._late is None and not self._is_asked():
            self._wait()

    def on_headers_complete(self) -> None:
        """Take a request, where none waits for its answer."""
        if self._is_asked():
            raise ValueError("it was sent before the request ahead of it was answered")
        super().on_headers_complete()
        self._read = 0
        scope: Any = self.scope
        if has_body(scope) and reads_no_body(scope["path"]):
            self.cycle.keep_alive = False  # so that it is never taken for the next request

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body; of one that nobody reads, keep nothing."""
        if reads_no_body(self.cycle.scope["path"]) or (self.own is not None and self.own.is_held):
            self.flow.pause_reading()
            return
        super().on_body(body)
        if self._is_asked():
            self._read = 0

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection: there is nobody to answer."""
        self._forget()
        if self.own is not None:
            self.kept.drop(self.own)
        super().connection_lost(exc)
        if self._is_asked():
            self.cycle.body = bytearray()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection; what its client has not read by then is dropped."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            super().timeout_keep_alive_handler()

    def send_400_response(self, msg: str) -> None:
        """Say that it is no request, as all that goes wrong here is said; but never within an answer, or before one."""
        if self._is_asked() and (self.cycle.response_started or not self.cycle.more_body):
            self.cycle.keep_alive = False
            if self._is_deaf and self._read > LARGEST_HEAD:
                self.transport.close()
            self._is_deaf = True
        else:
            self._say(400, msg, "not_http")

    def _say(self, status: int, detail: str, code: str) -> None:
        """Send an error before there is a request, and close the connection."""
        body = bytes(problem(status, detail, code=code).body)
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/problem+json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def _is_asked(self) -> bool:
        return bool(self.cycle and not self.cycle.response_complete)  # there is none before the first head

    def _wait(self) -> None:
        self._late = self.loop.call_later(self.options.head_timeout_s, self._hang_up)

    def _forget(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _hang_up(self) -> None:
        self._late = None
        if not self._is_asked():
            self.transport.close()


_UVICORN_LOG: Final = logging.getLogger("uvicorn.error")
_NO_WEBSOCKETS: Final = ("Unsupported upgrade request", "No supported WebSocket library")
_BACKLOG: Final = 2048
_KEEP_ALIVE_S: Final = 75
"""Longer than clients and proxies keep a connection that nobody uses: so it is they who close it."""
_AFTERWARDS_S: Final = 2.0
_MOST_THREADS: Final = 64
_SWITCH_S: Final = 0.001
"""How long a thread keeps Python's lock from the event loop, which asks for it several times in each request."""
_OWN_FILES: Final = 256
"""Files that a service may have open beside its connections."""
_OWN_AND_GROUP: Final = 0o660


def bind_address(host: str, port: int) -> socket.socket:
    """Open a socket that listens at an address; port 0 takes a free one."""
    with ExitStack() as failed:
        try:
            family, kind, number, _, address = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            listening = failed.enter_context(socket.socket(family, kind, number))
            if os.name == "posix":
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
        except (OSError, OverflowError, UnicodeError) as error:
            msg = f"cannot listen at {host}:{port}: {describe_error(error)}; --port 0 takes a port that is free"
            raise ConfigError(msg) from error
        failed.pop_all()
    listening.settimeout(0)
    return listening


def bind_file(path: Path) -> socket.socket:
    """Open a socket that listens at a file, for its owner and group; replace the file of a dead process."""
    if not hasattr(socket, "AF_UNIX"):
        raise ConfigError("uds: this system has no such sockets; use --host and --port")
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o117)
    try:
        _make_way(path)
        listening.bind(str(path))
        path.chmod(_OWN_AND_GROUP)
    except OSError as error:
        listening.close()
        raise ConfigError(f"cannot listen at {path}: {describe_error(error)}") from error
    finally:
        os.umask(before)
    listening.settimeout(0)
    return listening


def _make_way(path: Path) -> None:
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise FileExistsError(17, "there is a file of this name, which is no socket")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
            other.settimeout(1.0)
            try:
                other.connect(str(path))
            except ConnectionRefusedError:
                path.unlink()
            else:
                raise FileExistsError(17, "another process listens there")


async def serve(
    app: Starlette,
    listening: socket.socket,
    *,
    options: ServeOptions,
    life: Lifecycle,
    ready: Callable[[], object] = lambda: None,
) -> None:
    """Answer what comes until a signal, or its life, says stop; then finish what is in flight."""
    config = uvicorn.Config(
        app,
        http=PatientProtocol.with_options(replace(options, max_connections=_most_connections(options.max_connections))),
        loop="none",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=max(1, round(options.stop_s)),
    )
    server = _Server(config, life, options.drain_s, ready)
    _UVICORN_LOG.addFilter(_is_no_upgrade)
    try:
        await server.serve(sockets=[listening])
    finally:
        _UVICORN_LOG.removeFilter(_is_no_upgrade)
    if server.server_state.tasks:  # cancelled: they end before what they use is closed
        await asyncio.wait(server.server_state.tasks, timeout=_AFTERWARDS_S)


def _is_no_upgrade(record: logging.LogRecord) -> bool:
    """Whether a record is not about WebSockets: uvicorn advises to install them whenever a client asks for one."""
    return not record.getMessage().startswith(_NO_WEBSOCKETS)


def _most_connections(wanted: int) -> int:
    try:
        import resource
    except ImportError:  # on Windows nothing bounds them
        return wanted
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _OWN_FILES
    if now != resource.RLIM_INFINITY and now < needed:
        with suppress(ValueError, OSError):
            resource.setrlimit(
                resource.RLIMIT_NOFILE, (needed if most == resource.RLIM_INFINITY else min(needed, most), most)
            )
        now = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return wanted if now == resource.RLIM_INFINITY else max(1, min(wanted, now - _OWN_FILES))


def run(main: Callable[[], Any]) -> None:
    """Run it in an event loop, the quick one where it is there.

    Threads are as many as keys may use; which key's is next is decided before (`Threads`), not by the executor.
    """
    before = sys.getswitchinterval()
    with asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
        runner.get_loop().set_default_executor(ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="jazz-select"))
        sys.setswitchinterval(_SWITCH_S)
        try:
            runner.run(main())
        finally:
            sys.setswitchinterval(before)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, life: Lifecycle, drain_s: float, ready: Callable[[], object]) -> None:
        super().__init__(config)
        self._life, self._drain_s, self._ready = life, drain_s, ready
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as it is called
        """Stop; at once where it is said twice. The signal is not raised again: the caller has things to close."""
        if self._life.is_stopping:
            self.should_exit = self.force_exit = True
            return
        loop = self._loop
        if loop is None:
            self.should_exit = True
            return
        if self._drain_s and sig != signal.SIGINT:
            loop.call_soon_threadsafe(self._life.stop)
            loop.call_soon_threadsafe(loop.call_later, self._drain_s, self._life.end)
        else:
            loop.call_soon_threadsafe(self._life.end)

    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or self._life.is_over
