"""`jazz-select guard`: connects the servers, says what waits for a yes, and answers one client or many."""

import logging
import sys
from contextlib import AsyncExitStack
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import typer

from jazz_select.cli.terminal import hint, log_to
from jazz_select.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from socket import socket

    from jazz_select.cli.main import GuardCommand
    from jazz_select.service.mcp.guard import Guard
    from jazz_select.service.mcp.servers_file import ServerSpec
    from jazz_select.settings import Settings

_NEEDS: Final = ("mcp", "starlette", "uvicorn")
_WAIT_S: Final = 20.0
"""How long the servers are waited for before the first client is answered; a list then waits for the rest."""


def guard_servers(settings: "Settings", given: "GuardCommand") -> None:
    """Guard until the client leaves, or a signal says stop."""
    for module in _NEEDS:
        if find_spec(module) is None:
            raise MissingExtraError(module, extra="serve", purpose="jazz-select guard")
    servers = _servers(given)
    trouble = logging.StreamHandler()
    trouble.setLevel(logging.WARNING)
    trouble.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    with log_to("jazz_select", trouble):
        if given.http:
            _at_port(settings, given, servers)
        else:
            _at_pipe(given, servers)


def _servers(given: "GuardCommand") -> "Sequence[ServerSpec]":
    from jazz_select.service.mcp.servers_file import load_servers

    if given.mcp_servers is None:
        raise ConfigError("name the MCP servers to guard: jazz-select guard --mcp-servers servers.json")
    servers = load_servers(given.mcp_servers)
    if given.trust_hints:
        return [each.model_copy(update={"trusted": True}) for each in servers]
    return servers


async def _open_guard(stack: AsyncExitStack, given: "GuardCommand", servers: "Sequence[ServerSpec]") -> "Guard":
    from jazz_select.routing.claims import SqliteClaims
    from jazz_select.service.mcp.gateway import Gateway
    from jazz_select.service.mcp.guard import Guard, GuardLimits
    from jazz_select.service.mcp.guard_log import GuardLog

    claims = None if given.claims is None else SqliteClaims(given.claims)
    log = GuardLog(given.log, with_arguments=given.log_arguments)
    gateway = await stack.enter_async_context(Gateway(servers, with_skills=False).running())
    limits = GuardLimits(changes_per_hour=given.changes_per_hour or None, at_once=given.at_once)
    if given.http:
        from jazz_select.service.mcp.guard_app import client_of

        guard = Guard(gateway, approval=given.approval, claims=claims, limits=limits, log=log, client_of=client_of)
    else:
        guard = Guard(gateway, approval=given.approval, claims=claims, limits=limits, log=log)
    await guard.wait_until_connected(_WAIT_S)
    for note in guard.notes():
        hint(f"guard: {note}")
    return guard


def _at_pipe(given: "GuardCommand", servers: "Sequence[ServerSpec]") -> None:
    import asyncio

    from jazz_select.service.mcp.stdio_pipe import answer_at_pipe

    async def answer_requests() -> None:
        async with AsyncExitStack() as stack:
            guard = await _open_guard(stack, given, servers)
            async with guard.running():
                await answer_at_pipe(guard.server)

    asyncio.run(answer_requests())


def _at_port(settings: "Settings", given: "GuardCommand", servers: "Sequence[ServerSpec]") -> None:
    from jazz_select.cli.service import check_reach
    from jazz_select.service.agents import key_digest, keys_of_files
    from jazz_select.service.server import bind_address
    from jazz_select.service.server import run as run_loop

    _, names = keys_of_files(given.key_file or ())
    if settings.serve_key is not None:
        names |= {key_digest(settings.serve_key.get_secret_value(), "JAZZ_SERVE_KEY"): "JAZZ_SERVE_KEY"}
    if not names:
        check_reach(given.host)
    listening = bind_address(given.host, given.port)
    try:
        run_loop(lambda: _serve_guard(given, servers, listening, names))
    finally:
        listening.close()


async def _serve_guard(
    given: "GuardCommand", servers: "Sequence[ServerSpec]", listening: "socket", names: dict[str, str]
) -> None:
    from jazz_select.service.http.limits import Lifecycle
    from jazz_select.service.mcp.guard_app import guard_app, guard_keys
    from jazz_select.service.server import serve
    from jazz_select.service.service_options import ServeOptions

    def say() -> None:
        host, port = listening.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        typer.echo(f"http://{shown}:{port}/mcp")
        sys.stdout.flush()

    async with AsyncExitStack() as stack:
        guard = await _open_guard(stack, given, servers)
        options, life = ServeOptions(rate=given.rate), Lifecycle()
        app = guard_app(guard, guard_keys(names), options=options, life=life)
        await serve(app, listening, options=options, life=life, ready=say)
