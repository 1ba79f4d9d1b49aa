"""Many MCP servers as one set of tools: each is kept alive by itself, and none can pass for another by its names."""

import logging
import re
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, cast

import anyio

from jazz_select.routing.tools.tool import Tool
from jazz_select.service.mcp.servers_file import ServerSpec, load_servers
from jazz_select.service.mcp.untrusted_text import BY_NAME, has_unseen_names, with_texts
from jazz_select.service.mcp.upstream import Backoff, Upstream
from jazz_select.threads import beside

LONGEST: Final = 128
"""Characters of a tool's name by the protocol."""
MOST_NAMES: Final = 20_000
"""Names that one server may be given as long as this runs: one that invents new ones without end gets no more."""
_MARK: Final = 8
"""Characters of a hash that tell two names apart which would look the same."""
_SAID: Final = frozenset(("title", "description", "default", "enum", "const", "examples", "$comment"))
"""Parts of a schema whose texts a server may write a secret into."""
_DEEPEST: Final = 200
_APART = re.compile(r"[^A-Za-z0-9_.-]+")
_log = logging.getLogger(__name__)


class GivenNames:
    """Names that are given once: whatever a server lists later, a name that was given stands for what it stood for.

    A name that had to be changed has a hash of its own in it, so that no server can choose to be called as another's
    tool, or as one of ours.
    """

    def __init__(self) -> None:
        self._holders: dict[str, tuple[str, str]] = {}
        self._given: dict[tuple[str, str], str] = {}
        self._count: Counter[str] = Counter()

    def reserve(self, names: Iterable[str]) -> None:
        """Names of tools of one's own, which no server's tool is given from now on."""
        for name in names:
            self._holders.setdefault(name.casefold(), ("", name))

    def of(self, spec: ServerSpec, tool: str) -> str:
        """What a server's tool is called here; empty where the server has been given more names than any needs."""
        key = (spec.name, tool)
        if key not in self._given:
            self._count[spec.name] += 1
            if self._count[spec.name] > MOST_NAMES:
                return ""
            name = self._free(spec, tool)
            self._holders[name.casefold()] = key
            self._given[key] = name
        return self._given[key]

    def _free(self, spec: ServerSpec, tool: str) -> str:
        plain = _APART.sub("_", spec.without_secrets(tool))
        name = f"{spec.prefix}{plain}"
        if plain == tool and len(name) <= LONGEST and name.casefold() not in self._holders:
            return name
        mark = sha256(f"{spec.name}\n{tool}".encode(errors="replace")).hexdigest()
        width = _MARK
        while True:
            found = f"{name[: LONGEST - width - 1]}-{mark[:width]}"
            if found.casefold() not in self._holders:
                return found
            width += 1


def gateway_names(spec: ServerSpec, tools: Iterable[Tool], names: GivenNames) -> Mapping[str, Tool]:
    """A server's tools by what they are called here; of two that it lists by one name, the first."""
    found: dict[str, Tool] = {}
    for tool in tools:
        name = names.of(spec, tool.name)
        if name and name not in found:
            about, schema = spec.without_secrets(tool.description), tool.input_schema
            if spec.secrets:  # none of them stands in a schema, whoever wrote it there
                schema = cast("dict[str, Any]", _hidden(spec, schema, 0))
            found[name] = replace(tool, name=name, id="", description=about, title="", input_schema=schema)
    return found


def _hidden(spec: ServerSpec, part: object, depth: int) -> object:
    """Return a part of a schema without secrets in its texts; its meaning does not depend on the secrets."""
    if depth > _DEEPEST:
        return True
    if isinstance(part, list):
        return [_hidden(spec, each, depth + 1) for each in cast("list[object]", part)]
    if not isinstance(part, Mapping):
        return part
    shown: dict[str, object] = {}
    for key, value in cast("Mapping[str, object]", part).items():
        if key in BY_NAME and isinstance(value, Mapping):
            named_parts = cast("Mapping[str, object]", value)
            shown[key] = {name: _hidden(spec, each, depth + 2) for name, each in named_parts.items()}
        elif key in _SAID:
            shown[key] = with_texts(value, spec.without_secrets)
        else:
            shown[key] = _hidden(spec, value, depth + 1)
    return shown


class Gateway:
    """The tools of several servers, by names that tell them apart and stay as they are.

    Attributes:
        version: Counts the changes of what is listed.
        notes: What there is to say of tools that are left out.
        upstreams: The servers, in their order.
        tools: All tools, in the order of the servers and of their lists; of a server that is down, those it had.
        names: What they are called.
        changed: Called, in this loop, whenever the tools may be others.
    """

    def __init__(self, servers: Sequence[ServerSpec], *, backoff: Backoff | None = None) -> None:
        """Take which servers; nothing is started before `running`.

        Args:
            servers: As `load_servers` reads them.
            backoff: How long is waited before one that has died is connected again.
        """
        self.version = 0
        self.notes: tuple[str, ...] = ()
        self.names = GivenNames()
        self.changed: Callable[[], None] = lambda: None
        self.upstreams = tuple(Upstream(spec, changed=self._has_changed, backoff=backoff) for spec in servers)
        self.tools: Mapping[str, Tool] = {}
        self._usable: dict[str, Mapping[str, Tool]] = {}

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["Gateway"]:
        """Keep all servers connected for as long as this lasts; at its end their processes are stopped."""
        async with beside(*(upstream.run() for upstream in self.upstreams)):
            yield self

    async def tried(self, within_s: float) -> bool:
        """Wait until each server was tried once, but no longer than that; whether all were."""
        with anyio.move_on_after(within_s):
            for upstream in self.upstreams:
                await upstream.tried.wait()
        return all(upstream.tried.is_set() for upstream in self.upstreams)

    def _has_changed(self) -> None:
        found: dict[str, Tool] = {}
        notes: list[str] = []
        for upstream in self.upstreams:
            server = upstream.spec.name
            try:
                usable = [tool for tool in upstream.tools if not has_unseen_names(tool.input_schema)]
                self._usable[server] = gateway_names(upstream.spec, usable, self.names)
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
        self.tools, self.notes = found, tuple(notes)
        self.version += 1
        _log.info("tools=<%d>, version=<%d> | the tools behind the gateway were listed anew", len(found), self.version)
        self.changed()


@asynccontextmanager
async def open_gateways(files: Mapping[str, Path]) -> AsyncGenerator[Mapping[str, Gateway]]:
    """A gateway for each agent that has a file of servers, by its id; nobody waits for the servers here."""
    async with AsyncExitStack() as stack:
        made: dict[str, Gateway] = {}
        for agent_id, file in files.items():
            made[agent_id] = await stack.enter_async_context(Gateway(load_servers(file)).running())
        yield made
