"""Many MCP servers as one set of tools: each is kept alive by itself, so that none holds up another."""

import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import MappingProxyType

import anyio

from jazz_select.routing.tools.tool import Tool
from jazz_select.service.mcp.foreign import has_unseen_names
from jazz_select.service.mcp.gateway.names import GivenNames, named
from jazz_select.service.mcp.gateway.servers_file import ServerSpec, load_servers
from jazz_select.service.mcp.gateway.upstream import Backoff, ServerState, Upstream

_log = logging.getLogger(__name__)


class Gateway:
    """The tools of several servers, by names that tell them apart and stay as they are.

    Attributes:
        version: Counts the changes of what is listed.
        notes: What there is to say of tools that are left out.
    """

    def __init__(self, servers: Sequence[ServerSpec], *, backoff: Backoff | None = None) -> None:
        """Take which servers; nothing is started before `running`.

        Args:
            servers: As `load_servers` reads them.
            backoff: How long is waited before one that has died is connected again.
        """
        self.version = 0
        self.notes: tuple[str, ...] = ()
        self._names = GivenNames()
        self._upstreams = tuple(Upstream(spec, changed=self._has_changed, backoff=backoff) for spec in servers)
        self._tools: Mapping[str, Tool] = {}
        self._usable: dict[str, Mapping[str, Tool]] = {}
        self._listeners: list[Callable[[], None]] = []

    def reserve(self, names: Iterable[str]) -> None:
        """Keep names from being given to a server's tool; those that were given already stay."""
        self._names.reserve(names)

    @property
    def tools(self) -> Mapping[str, Tool]:
        """All tools, in the order of the servers and of their lists; of a server that is down, those it had."""
        return MappingProxyType(self._tools)

    @property
    def states(self) -> tuple[ServerState, ...]:
        """How each server is, in their order."""
        return tuple(each.state for each in self._upstreams)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["Gateway"]:
        """Keep all servers connected for as long as this lasts; at its end their processes are stopped."""
        async with beside(*((upstream.run, f"mcp-{upstream.spec.name}") for upstream in self._upstreams)):
            yield self

    async def tried(self, within_s: float) -> bool:
        """Wait until each server was tried once, but no longer than that; whether all were."""
        with anyio.move_on_after(within_s):
            for upstream in self._upstreams:
                await upstream.tried.wait()
        return all(upstream.tried.is_set() for upstream in self._upstreams)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have a function called, in this loop, whenever the tools may be others."""
        self._listeners.append(listener)

    def _has_changed(self) -> None:
        found: dict[str, Tool] = {}
        notes: list[str] = []
        for upstream in self._upstreams:
            server = upstream.spec.name
            try:
                usable = [tool for tool in upstream.tools if not has_unseen_names(tool.input_schema)]
                self._usable[server] = named(upstream.spec, usable, self._names)
                if left_out := len(upstream.tools) - len(usable):
                    notes.append(
                        f"{left_out} tools of the MCP server {server} are left out: "
                        "names of what they take hold characters that cannot be seen"
                    )
            except Exception as error:  # noqa: BLE001 - what one server lists must not take the tools of all others away
                _log.warning(
                    "server=<%s>, error=<%s> | its list cannot be used, the one before is", server, type(error).__name__
                )
                notes.append(f"the new list of the MCP server {server} cannot be used; its tools are those of before")
            found |= self._usable.get(server, {})
        self._tools, self.notes = found, tuple(notes)
        self.version += 1
        _log.info("tools=<%d>, version=<%d> | the tools behind the gateway were listed anew", len(found), self.version)
        for listener in self._listeners:
            listener()


@asynccontextmanager
async def open_gateways(files: Mapping[str, Path]) -> AsyncGenerator[Mapping[str, Gateway]]:
    """A gateway for each agent that has a file of servers, by its id; nobody waits for the servers here.

    Raises:
        ConfigError: A file cannot be read, or names what cannot be connected.
    """
    async with AsyncExitStack() as stack:
        made: dict[str, Gateway] = {}
        for agent_id, file in files.items():
            made[agent_id] = await stack.enter_async_context(Gateway(load_servers(file)).running())
        yield made


@asynccontextmanager
async def beside(*tasks: tuple[Callable[[], Coroutine[object, object, None]], str]) -> AsyncGenerator[None]:
    """Have these run beside a block, by their names, until it ends. What the block raises passes as it is."""
    failed: Exception | None = None
    async with anyio.create_task_group() as running:
        for task, name in tasks:
            running.start_soon(task, name=name)
        try:
            yield
        except Exception as error:  # noqa: BLE001 - raised below: a group of tasks would make a group of it
            failed = error
        finally:
            running.cancel_scope.cancel()
    if failed is not None:
        raise failed
