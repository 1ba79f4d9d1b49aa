"""`jazz-select serve`: opens what is to be served, says where it answers, and closes it when it is told to stop."""

import asyncio
import gc
import ipaddress
import logging
import socket
import sys
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from jazz_select.cli.session import look_for_flows, look_here
from jazz_select.cli.terminal import hint, log_to, printable
from jazz_select.errors import ConfigError, MissingExtraError
from jazz_select.threads import beside

if TYPE_CHECKING:
    from jazz_select.cli.config import ServeConfig
    from jazz_select.cli.main import ServeCommand
    from jazz_select.service.agents import AgentSource, ServedAgents
    from jazz_select.service.app import AppPart
    from jazz_select.service.mcp.gateway import Gateway
    from jazz_select.service.running import RunningCatalogue
    from jazz_select.settings import Settings

_NEEDS: Final = ("mcp", "starlette", "uvicorn", "prometheus_client")
_LOGGERS: Final = ("jazz_select", "uvicorn.error")
_KEY_VARIABLE: Final = "JAZZ_SERVE_KEY"
_MADE_BETWEEN: Final = 10_000
"""Objects that may be made before somebody looks for garbage: what a request makes is nearly all gone afterwards."""
_SETTLED_S: Final = 5.0
"""How long after a start, or a reload, that which is loaded later than the rest is there, too."""


def serve_agents(settings: "Settings", command: "ServeCommand") -> None:
    """Serve until a signal says stop."""
    for module in _NEEDS:
        if find_spec(module) is None:
            raise MissingExtraError(module, extra="serve", purpose="jazz-select serve")
    from jazz_select.service.server import bind_address, bind_file
    from jazz_select.service.server import run as run_loop

    given = command.merge_config()
    look_here()
    sources = _sources(settings, given)
    if given.mcp == "stdio":
        with _logging(access=False):
            run_loop(lambda: _serve_stdio(settings, sources, given))
        return
    if not any(each.keys for each in sources):
        _check_reach(given)
    listening = bind_address(given.host, given.port) if given.uds is None else bind_file(given.uds)
    try:
        with _logging(access=given.access_log):
            run_loop(lambda: _serve(settings, sources, listening, given))
    finally:
        listening.close()
        if given.uds is not None:
            with suppress(OSError):
                given.uds.unlink()


async def _serve(
    settings: "Settings", sources: "list[AgentSource]", listening: socket.socket, given: "ServeConfig"
) -> None:
    from jazz_select.service.app import make_app
    from jazz_select.service.http.limits import Lifecycle
    from jazz_select.service.opened import open_service
    from jazz_select.service.server import serve

    async with (
        open_service(settings, sources, notify=hint, allow_delete=given.yes, options=given.options) as served,
        _mcp(served, sources, given) as parts,
        _watch_files(served, given),
        _freeze_garbage(served),
    ):
        life = Lifecycle()
        app = make_app(served, given.options, life=life, parts=[*parts, *_panel(served, sources, given)])
        await serve(app, listening, options=given.options, life=life, ready=lambda: _say(listening, given))


@asynccontextmanager
async def _freeze_garbage(served: "ServedAgents") -> "AsyncGenerator[None]":
    """Look for no garbage among what is loaded, but after a reload.

    To look through all of it takes a tenth of a second, in which nobody is answered, and would be done every few
    hundred requests.
    """

    async def settle() -> None:
        settled: list[int] | None = None
        while True:
            await asyncio.sleep(_SETTLED_S)
            numbers = [each.number for each in served.values()]
            if numbers != settled:
                settled = numbers
                gc.unfreeze()
                gc.collect()
                gc.freeze()

    before = gc.get_threshold()
    gc.set_threshold(_MADE_BETWEEN, *before[1:])
    try:
        async with beside(settle()):
            yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


@asynccontextmanager
async def _watch_files(served: "ServedAgents", given: "ServeConfig") -> "AsyncGenerator[None]":
    if not given.reload:
        yield
        return
    from jazz_select.service.reload import reload_on_change

    async with reload_on_change(served.values(), every_s=given.reload_every):
        yield


def _panel(served: "ServedAgents", sources: "list[AgentSource]", given: "ServeConfig") -> "list[AppPart]":
    from jazz_select.service.app import AppPart, defer_part
    from jazz_select.service.opened import state_folder

    if not given.options.panel:
        return []
    home = state_folder(sources[0].settings)

    def panel() -> AppPart:
        from jazz_select.service.panel.routes import panel_part
        from jazz_select.service.panel.runs import files_of

        cases = {each.settings.agent_id: each.cases for each in sources}
        return panel_part({agent_id: files_of(agent_id, home, cases.get(agent_id, ())) for agent_id in served})

    return [defer_part(("/panel", "/v1/panel"), ["jazz_select.service.panel.routes"], panel)]


@asynccontextmanager
async def _mcp(
    served: "ServedAgents", sources: "list[AgentSource]", given: "ServeConfig"
) -> "AsyncGenerator[list[AppPart]]":
    if not given.options.mcp:
        yield []
        return
    servers = _servers(sources)
    if servers:
        from jazz_select.service.mcp.gateway import open_gateways

        async with open_gateways(servers) as gateways:
            yield [_mcp_part(served, gateways, given)]
        return
    from jazz_select.service.app import defer_part

    # Loaded once requests are answered: it takes half as long as all else together.
    yield [defer_part(("/mcp",), ["jazz_select.service.mcp.agent_server"], lambda: _mcp_part(served, {}, given))]


def _mcp_part(served: "ServedAgents", gateways: "Mapping[str, Gateway]", given: "ServeConfig") -> "AppPart":
    from jazz_select.service.mcp.agent_server import AgentServer, McpApp

    def server_of(running: "RunningCatalogue") -> AgentServer:
        return AgentServer(running, gateways.get(running.agent_id), listed=given.mcp_listed)

    return McpApp(served, server_of, options=given.options).part()


async def _serve_stdio(settings: "Settings", sources: "list[AgentSource]", given: "ServeConfig") -> None:
    """Serve one MCP client over stdio until it leaves."""
    from jazz_select.service.mcp.agent_server import AgentServer, serve_stdio
    from jazz_select.service.mcp.gateway import open_gateways
    from jazz_select.service.opened import open_service

    if len(sources) != 1:
        msg = "--mcp stdio serves one agent to one client: leave --agents out, and name its flows with --flows"
        raise ConfigError(msg)
    async with (
        open_service(settings, sources, notify=hint, allow_delete=given.yes, options=given.options) as served,
        open_gateways(_servers(sources)) as gateways,
    ):
        (running,) = served.values()
        async with _watch_files(served, given):
            await serve_stdio(AgentServer(running, gateways.get(running.agent_id), listed=given.mcp_listed))


def _servers(sources: "list[AgentSource]") -> "Mapping[str, Path]":
    return {each.settings.agent_id: each.mcp_servers for each in sources if each.mcp_servers is not None}


def _sources(settings: "Settings", given: "ServeConfig") -> "list[AgentSource]":
    from jazz_select.service.agents import AgentSource, key_digest, keys_of_files, load_agents

    keys, names = keys_of_files(given.key_file)
    teachers, teacher_names = keys_of_files(given.teach_key_file)
    names |= teacher_names
    keys = (*keys, *teachers)
    if settings.serve_key is not None:
        own_key = key_digest(settings.serve_key.get_secret_value(), _KEY_VARIABLE)
        keys, names = (*keys, own_key), {**names, own_key: _KEY_VARIABLE}
    if given.agents is None:
        is_tools_alone = given.mcp_servers is not None or given.tools is not None
        has_flows = not is_tools_alone or "flows" in settings.model_fields_set or Path(settings.flows).is_dir()
        if has_flows:
            look_for_flows(settings)
        else:
            look_here()
        only = AgentSource(
            settings=settings,
            has_flows=has_flows,
            tools=given.tools,
            factory=given.factory,
            log=given.log,
            keys=tuple(dict.fromkeys(keys)),
            key_names=names,
            teachers=frozenset(teachers),
            mcp_servers=given.mcp_servers,
            tool_examples=given.tool_examples,
            cases=given.cases,
        )
        return _with_cases([only])
    servers = (given.mcp_servers, given.tool_examples)
    learning = (given.log, given.cases or None, settings.learned, settings.evidence)
    own = (given.tools, given.factory, *servers, *learning, keys or None)
    if any(each is not None for each in own) or "flows" in settings.model_fields_set:
        what = "its flows, tools, log, cases, learned, evidence, mcp_servers, tool_examples and keys"
        msg = f"with --agents each agent has {what} in that file: leave the options, and their variables, out"
        raise ConfigError(msg)
    return _with_cases(load_agents(given.agents, settings))


def _with_cases(sources: "list[AgentSource]") -> "list[AgentSource]":
    for source in sources:
        for file in source.cases:
            if not file.is_file():
                raise ConfigError(f"there is no file of cases {file}: leave it out, or name one that is there")
    return sources


def _check_reach(given: "ServeConfig") -> None:
    """Refuse an address that other machines can reach if there is no key."""
    if given.uds is None:
        check_reach(given.host)


def check_reach(host: str) -> None:
    """Refuse a host that other machines can reach; for where there is no key."""
    if host == "localhost":
        return
    with suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return
    raise ConfigError(
        f"--host {host} can be reached from other machines, so a key is needed: "
        "openssl rand -hex 32 > serve.key, then --key-file serve.key (or JAZZ_SERVE_KEY)"
    )


def _say(listening: socket.socket, given: "ServeConfig") -> None:
    """Print the address to stdout, alone on the first line for programs."""
    if given.uds is not None:
        typer.echo(f"unix:{printable(str(given.uds))}")
    else:
        host, port = listening.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        root = f"http://{shown}:{port}"
        typer.echo(root)
        parts = [
            ("panel", "/panel/", given.options.panel),
            ("MCP", "/mcp", given.options.mcp),
            ("API", "/docs", True),
        ]
        typer.echo("  ".join(f"{name} {root}{path}" for name, path, there in parts if there))
    sys.stdout.flush()


@contextmanager
def _logging(*, access: bool) -> Generator[None]:
    """Configure logging to stderr: problems, and a line per request with `access`."""
    form = logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s")
    trouble, news, lines = logging.StreamHandler(), logging.StreamHandler(), logging.StreamHandler()
    trouble.setLevel(logging.WARNING)
    trouble.setFormatter(form)
    news.addFilter(lambda record: record.levelno == logging.INFO)  # what is live again, beside what went wrong
    news.setFormatter(form)
    with ExitStack() as stack:
        for name in _LOGGERS:
            stack.enter_context(log_to(name, trouble))
        stack.enter_context(log_to("jazz_select.service.running", news, level=logging.INFO))
        if access:
            stack.enter_context(log_to("jazz_select.access", lines, level=logging.INFO, alone=True))
        else:
            stack.enter_context(log_to("jazz_select.access", logging.NullHandler(), alone=True))
        yield
