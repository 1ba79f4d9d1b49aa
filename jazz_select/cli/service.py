"""`jazz-select serve`: opens what is to be served, says where it answers, and closes it when it is told to stop."""

import ipaddress
import logging
import socket
import sys
from collections.abc import Generator
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from jazz_select.cli.session import look_here, require_folder
from jazz_select.cli.terminal import hint, printable
from jazz_select.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from jazz_select.service.opened import AgentSource
    from jazz_select.service.options import ServeOptions
    from jazz_select.settings import Settings

_NEEDS: Final = ("starlette", "uvicorn", "prometheus_client", "watchfiles")
_LOGGERS: Final = ("jazz_select", "uvicorn.error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What was asked for, beside the settings; as the options of the command say."""

    tools: str | None = None
    log: Path | None = None
    host: str = "127.0.0.1"
    port: int = 8420
    uds: Path | None = None
    key_files: tuple[Path, ...] = ()
    agents: Path | None = None
    rate: float | None = None
    max_in_flight: int = 256
    max_body: int = 1 << 20
    stop_s: float = 10.0
    drain_s: float = 0.0
    panel: bool = True
    mcp: bool = True
    reload: bool = True
    reload_every: float | None = None
    access_log: bool = True

    def options(self) -> "ServeOptions":
        """The limits among it.

        Raises:
            ConfigError: One cannot work.
        """
        from jazz_select.service.options import ServeOptions

        return ServeOptions(
            max_body=self.max_body,
            max_in_flight=self.max_in_flight,
            rate=self.rate,
            stop_s=self.stop_s,
            drain_s=self.drain_s,
            panel=self.panel,
            mcp=self.mcp,
        )


def require_extra() -> None:
    """See that the packages are there which only this command needs.

    Raises:
        MissingExtraError: One is not.
    """
    for module in _NEEDS:
        if find_spec(module) is None:
            raise MissingExtraError(module, extra="serve", purpose="jazz-select serve")


def run(settings: "Settings", wanted: Wanted) -> None:
    """Serve until a signal says stop.

    Raises:
        ConfigError: An option cannot work, or it may not listen there without a key.
        JazzSelectError: The index is in use, or flows cannot be loaded.
    """
    from jazz_select.service.server import bound, bound_file
    from jazz_select.service.server import run as run_loop

    look_here()
    options = wanted.options()
    sources = _sources(settings, wanted)
    if not any(each.keys for each in sources):
        _check_reach(wanted)
    listening = bound(wanted.host, wanted.port) if wanted.uds is None else bound_file(wanted.uds)
    try:
        with _logging(access=wanted.access_log):
            run_loop(lambda: _serve(settings, sources, listening, wanted, options))
    finally:
        listening.close()
        if wanted.uds is not None:
            with suppress(OSError):
                wanted.uds.unlink()


async def _serve(
    settings: "Settings",
    sources: "list[AgentSource]",
    listening: socket.socket,
    wanted: Wanted,
    options: "ServeOptions",
) -> None:
    from jazz_select.service.app import make_app
    from jazz_select.service.http.life import Life
    from jazz_select.service.opened import opened
    from jazz_select.service.reload.watching import reloading
    from jazz_select.service.server import serve

    async with AsyncExitStack() as stack:
        served = await stack.enter_async_context(opened(settings, sources, said=hint))
        if wanted.reload:
            await stack.enter_async_context(reloading(served.values(), every_s=wanted.reload_every))
        life = Life()
        app = make_app(served, options, life=life)
        await serve(app, listening, options=options, life=life, ready=lambda: _say(listening, wanted))


def _sources(settings: "Settings", wanted: Wanted) -> "list[AgentSource]":
    """Who is served.

    Raises:
        ConfigError: The file of agents, or that of a key, cannot be used.
    """
    from jazz_select.service.opened import AgentSource
    from jazz_select.service.tenants import key_digest, key_of_file, load_agents

    keys = [key_of_file(each) for each in wanted.key_files]
    if settings.serve_key is not None:
        keys.append(key_digest(settings.serve_key.get_secret_value(), "JAZZ_SERVE_KEY"))
    if wanted.agents is None:
        if "flows" not in settings.model_fields_set:
            require_folder(settings.flows, advice="name your flows with --flows or JAZZ_FLOWS")
        return [AgentSource(settings=settings, tools=wanted.tools, log=wanted.log, keys=tuple(keys))]
    if wanted.tools is not None or wanted.log is not None or keys or settings.learned is not None:
        msg = "with --agents each agent has its tools, log, learned and keys in that file: leave the options out"
        raise ConfigError(msg)
    return load_agents(wanted.agents, settings)


def _check_reach(wanted: Wanted) -> None:
    """Without a key nobody but this machine may get in.

    Raises:
        ConfigError: Others could.
    """
    if wanted.uds is not None or wanted.host == "localhost":
        return
    with suppress(ValueError):
        if ipaddress.ip_address(wanted.host).is_loopback:
            return
    msg = (
        f"--host {wanted.host} can be reached from other machines, so a key is needed: "
        "openssl rand -hex 32 > serve.key, then --key-file serve.key (or JAZZ_SERVE_KEY)"
    )
    raise ConfigError(msg)


def _say(listening: socket.socket, wanted: Wanted) -> None:
    """Where it answers, on stdout: the address alone in the first line, for programs."""
    if wanted.uds is not None:
        typer.echo(f"unix:{printable(str(wanted.uds))}")
    else:
        host, port = listening.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        root = f"http://{shown}:{port}"
        typer.echo(root)
        parts = [("panel", "/panel/", wanted.panel), ("MCP", "/mcp", wanted.mcp), ("API", "/docs", True)]
        typer.echo("  ".join(f"{name} {root}{path}" for name, path, there in parts if there))
    sys.stdout.flush()


@contextmanager
def _logging(*, access: bool) -> Generator[None]:
    """Lines on stderr: what goes wrong, and a line for each request."""
    trouble = logging.StreamHandler()
    trouble.setLevel(logging.WARNING)
    trouble.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    lines = logging.StreamHandler()
    lines.setFormatter(logging.Formatter("%(message)s"))
    log = logging.getLogger("jazz_select.access")
    before = log.level, log.propagate
    log.propagate = False
    if access:
        log.addHandler(lines)
        log.setLevel(logging.INFO)
    for name in _LOGGERS:
        logging.getLogger(name).addHandler(trouble)
    try:
        yield
    finally:
        for name in _LOGGERS:
            logging.getLogger(name).removeHandler(trouble)
        log.removeHandler(lines)
        log.setLevel(before[0])
        log.propagate = before[1]
