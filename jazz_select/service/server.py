"""The app behind a port or a socket's file, until it is told to stop; then what is in flight is finished."""

import asyncio
import os
import signal
import socket
import stat
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette

from jazz_select.errors import ConfigError
from jazz_select.service.http.life import Life
from jazz_select.service.http.protocol import protocol
from jazz_select.service.options import ServeOptions
from jazz_select.text import describe_error

_BACKLOG: Final = 2048
_KEEP_ALIVE_S: Final = 75
"""Longer than clients and proxies keep a connection that nobody uses: so it is they who close it."""
_AFTERWARDS_S: Final = 2.0
_OWN_AND_GROUP: Final = 0o660


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens at an address; port 0 takes a free one.

    Raises:
        ConfigError: It cannot: there is no such address, or somebody listens there.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, number, _, address = found[0]
        listening = socket.socket(family, kind, number)
        try:
            if os.name == "posix":
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
        except OSError:
            listening.close()
            raise
    except (OSError, OverflowError, UnicodeError) as error:
        msg = f"cannot listen at {host}:{port}: {describe_error(error)}; --port 0 takes a port that is free"
        raise ConfigError(msg) from error
    listening.settimeout(0)
    return listening


def bound_file(path: Path) -> socket.socket:
    """A socket that listens at a file, which its owner and group may use; what a dead process left there goes.

    Raises:
        ConfigError: Somebody listens there, or the file cannot be made.
    """
    if not hasattr(socket, "AF_UNIX"):
        msg = "--uds: this system has no such sockets; use --host and --port"
        raise ConfigError(msg)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o117)
    try:
        _make_way(path)
        listening.bind(str(path))
        path.chmod(_OWN_AND_GROUP)
    except OSError as error:
        listening.close()
        msg = f"cannot listen at {path}: {describe_error(error)}"
        raise ConfigError(msg) from error
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
    life: Life,
    ready: Callable[[], object] = lambda: None,
) -> None:
    """Answer what comes until a signal, or its life, says stop; then finish what is in flight.

    Args:
        app: What answers.
        listening: Where.
        options: How long what is in flight has.
        life: Told first, so that nobody is sent here any more.
        ready: Called once, when requests are answered.
    """
    config = uvicorn.Config(
        app,
        http=protocol(options.head_timeout_s),
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
    await server.serve(sockets=[listening])
    if server.server_state.tasks:  # cancelled: they end before what they use is closed
        await asyncio.wait(server.server_state.tasks, timeout=_AFTERWARDS_S)


def run(main: Callable[[], Any]) -> None:
    """Run it in an event loop, the quick one where it is there."""
    factory = None
    if sys.platform != "win32":
        with suppress(ImportError):
            import uvloop

            factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())


class _Server(uvicorn.Server):
    """Says when it is ready, and that it will stop before it does."""

    def __init__(self, config: uvicorn.Config, life: Life, drain_s: float, ready: Callable[[], object]) -> None:
        super().__init__(config)
        self._life, self._drain_s, self._ready = life, drain_s, ready
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        self._ready()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """As uvicorn's, but the signal is not raised again: whoever called still has things to close."""
        signals = (signal.SIGINT, signal.SIGTERM)
        try:
            before = {each: signal.signal(each, self.handle_exit) for each in signals}
        except ValueError:  # not in the main thread, where nobody sends any
            before = {}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop; at once where it is said twice."""
        if self._life.is_stopping:
            self.should_exit = self.force_exit = True
            return
        loop = self._loop
        if loop is None:
            super().handle_exit(sig, frame)
            return
        if self._drain_s and sig != signal.SIGINT:
            loop.call_soon_threadsafe(self._life.stop)
            loop.call_soon_threadsafe(loop.call_later, self._drain_s, self._life.end)
        else:
            loop.call_soon_threadsafe(self._life.end)

    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or self._life.is_over
