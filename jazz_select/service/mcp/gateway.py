"""Many MCP servers as one set of tools: each is kept alive by itself, and none can pass for another by its names."""

import logging
import os
import random
import re
import threading
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from time import monotonic
from typing import Any, Final, Literal, TextIO, cast

import anyio
import httpx2
from anyio.abc import ObjectReceiveStream
from mcp import Client, MCPError, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import Implementation

from jazz_select import __version__
from jazz_select.errors import JazzSelectError, ToolError, ToolOutcomeUnknownError
from jazz_select.json_values import is_array, is_object, with_texts
from jazz_select.routing.tools.mcp_session import tool_answer, tools_page
from jazz_select.routing.tools.sources import session_tools
from jazz_select.routing.tools.tool import Tool
from jazz_select.service.mcp.measured import encoding_within, measure
from jazz_select.service.mcp.results import answer_of, relayed
from jazz_select.service.mcp.servers_file import ServerSpec, load_servers
from jazz_select.service.mcp.untrusted_text import BY_NAME, has_unseen_names, plain_text
from jazz_select.service.mcp.upstream_skills import ListedSkills, UpstreamSkill, declares_skills, list_skills
from jazz_select.text import beginning, describe_error, json_line
from jazz_select.threads import beside

_HTTP_CONNECT_S: Final = 30.0
_KEPT_LINES, _LONGEST_LINE, _CHUNK = 20, 300, 4_096
_TOLD_LINES: Final = 3
_WORDS_S, _ROUNDS = 0.5, 10
"""How long is waited for the last words of a process that has ended, and how often is looked meanwhile."""
_log = logging.getLogger(__name__)


@asynccontextmanager
async def connection(
    spec: ServerSpec, ended: Callable[[], None], words: "LastWords | None" = None
) -> AsyncGenerator[tuple[Any, Any]]:
    """Start a server, or connect to one over HTTP, and yield its two streams; it is stopped at the end.

    Args:
        spec: Which server.
        ended: Called when nothing more can come from it, such as when its process has died.
        words: Keeps what a process writes to its standard error.
    """
    opened: AbstractAsyncContextManager[tuple[Any, Any]]
    async with AsyncExitStack() as stack:
        if spec.url:
            timeout = httpx2.Timeout(_HTTP_CONNECT_S, read=spec.timeout_s)
            hooks = {"response": [partial(measure, spec.limits)]}
            made = httpx2.AsyncClient(headers=spec.headers, timeout=timeout, event_hooks=hooks)
            client = await stack.enter_async_context(made)
            opened = streamable_http_client(spec.url, http_client=client, max_sse_event_size=None)
        else:
            errors = stack.enter_context(_open_error_pipe(spec, words or LastWords()))
            command = StdioServerParameters(
                command=spec.command,
                args=list(spec.args),
                env=spec.env or None,
                cwd=spec.cwd,
                encoding=encoding_within(spec.limits),
            )
            opened = stdio_client(command, errlog=errors)
        incoming, outgoing = await stack.enter_async_context(opened)
        yield _Watched(incoming, ended), outgoing


class _Watched(ObjectReceiveStream[Any]):
    """A stream of messages that reports its end."""

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


class LastWords:
    """The last lines that a process wrote to its standard error: mostly why it has ended."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._whole = threading.Event()

    def add(self, line: str) -> None:
        """Keep a line, and forget the oldest where there are many."""
        if line.strip():
            self._lines.append(line)

    def end(self) -> tuple[str, ...]:
        """Return them all, when nothing more can come."""
        self._whole.set()
        return tuple(self._lines)

    async def quote(self, spec: ServerSpec) -> str:
        """Return them in one quoted text, within bounds and without the server's secrets; empty where it wrote none."""
        for _ in range(_ROUNDS):
            if self._whole.is_set() or not self._lines:
                break
            await anyio.sleep(_WORDS_S / _ROUNDS)
        lines = [plain_text(spec.without_secrets(line)) for line in list(self._lines)[-_TOLD_LINES:]]
        words = " / ".join(filter(None, lines))
        if len(words) > _LONGEST_LINE:
            words = f"…{words[-_LONGEST_LINE:]}"
        return json_line(words) if words else ""


@contextmanager
def _open_error_pipe(spec: ServerSpec, words: LastWords) -> Generator[TextIO]:
    """Yield the pipe for a process's errors; log its last lines, without secrets, when it has ended.

    They are read by a thread, since a process that nobody reads stops in the middle of what it writes. What it has
    started may hold its end of the pipe for ever: so a mark that we write ourselves ends the reading.
    """
    reading, writing = os.pipe()
    mark = token_hex()

    def read() -> None:
        with os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
            while (line := lines.readline(_CHUNK)) and line.strip() != mark:
                words.add(line)
        for line in words.end():
            shown = beginning(spec.without_secrets(plain_text(line)), _LONGEST_LINE)
            _log.info("server=<%s>, line=<%s> | an MCP server wrote to its standard error", spec.name, shown)

    threading.Thread(target=read, name=f"jazz-select-mcp-{spec.name}", daemon=True).start()
    with os.fdopen(writing, "w", encoding="utf-8") as errors:
        try:
            yield errors
        finally:
            with suppress(OSError):  # nobody reads any more
                os.write(writing, f"\n{mark}\n".encode())


State = Literal["starting", "up", "down"]
_CONNECT_S: Final = 60.0
"""How long a server may take from its start to its list of tools: some are downloaded first."""
_PROBE_S: Final = 10.0
_READ_S: Final = 60.0
"""How long one resource may take."""
_STEADY_S: Final = 30.0
"""A connection that held so long did not die of starting."""
_LONGEST_PROBLEM: Final = 300
_MOST_TOLD: Final = 5
"""Tools that cannot be used, and are named one by one."""
_ENDED: Final = "its connection has ended"
_LISTED_ANEW: Final = 0.05
"""Seconds in which several notices of a changed list are taken for one."""
_APART_S: Final = 1.0
"""Seconds between two lists of a server that says without end that its list has changed."""
_PINNED: Final = ("description", "title", "input_schema", "output_schema")
"""What of a tool may not change."""
_ITS_OWN_ERRORS: Final = frozenset((-32700, -32601, -32602, -32603))
"""Codes by which a server says that it does not like a call; anything else may mean that it is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How long is waited before a server is connected again: twice as long each time, and no longer than `most_s`."""

    first_s: float = 0.5
    most_s: float = 60.0

    def delay_s(self, failures: int) -> float:
        """Return the seconds to wait after `failures` failures in a row, with jitter."""
        return min(self.first_s * 2 ** min(max(failures - 1, 0), 20), self.most_s) * random.uniform(0.8, 1.0)  # noqa: S311


class Upstream:
    """A server, as a session that outlives its connections: `list_tools` and `call_tool`, as `tools_from_session` asks.

    Attributes:
        spec: Which one.
        state: `starting` before the first attempt has ended; `up`; or `down`, while it is tried again and again.
        problem: Why it is down: what may be told of it to anybody.
        tools: What it listed last, by its own names; kept while it is down, so that nothing that was shown is gone.
        left_out: The tools that it listed last and that cannot be used, each with what is wrong.
        withheld: The tools that the server describes otherwise than when they were first listed, and what is otherwise.
            They are not there; in the next process, for which nothing was listed before, they are.
        skills: Those that it listed last, each of which is also a tool that reads it.
        tried: Set when the first attempt has ended, well or not.
    """

    def __init__(
        self,
        spec: ServerSpec,
        *,
        changed: Callable[[], None] = lambda: None,
        backoff: Backoff | None = None,
        with_skills: bool = True,
    ) -> None:
        self.spec, self._with_skills = spec, with_skills
        self.tools: tuple[Tool, ...] = ()
        self.left_out: tuple[ToolError, ...] = ()
        self.withheld: dict[str, str] = {}
        self.skills = ListedSkills()
        self._words = LastWords()
        self._pinned: dict[str, Tool] = {}
        self.tried = anyio.Event()
        self._changed, self._backoff = changed, backoff or Backoff()
        self._client: Client | None = None
        self._listing: Client | None = None
        self.state: State = "starting"
        self.problem = ""
        self._retry_at = self._listed_at = 0.0
        self._stir = anyio.Event()
        self._ended = self._doubted = self._outdated = False

    async def run(self) -> None:
        """Keep it connected until this is cancelled. Nothing that goes wrong with it ends this."""
        failures = 0
        while True:
            began = monotonic()
            try:
                await self._connected()
                problem = _ENDED
            except TimeoutError:
                problem = f"it was not ready within {_CONNECT_S:g} s"
            except JazzSelectError as error:
                problem = str(error)
            except FileNotFoundError:
                problem = "its command or folder is not found: install it, or give its whole path"
            except Exception as error:  # noqa: BLE001 - of servers and transports anything may be expected
                problem = describe_error(error)
            was_steady = self.state == "up" and monotonic() - began >= _STEADY_S
            failures = 1 if was_steady else failures + 1
            delay = self._backoff.delay_s(failures)
            self._client, self.state, self._retry_at = None, "down", monotonic() + delay
            self.problem = self._redact_text(problem)
            if words := await self._words.quote(self.spec):
                self.problem += f"; it last wrote {words}"
            self.tried.set()
            _log.log(
                logging.WARNING if failures == 1 else logging.INFO,
                "server=<%s>, problem=<%s>, retry_s=<%.1f> | an MCP server is not connected",
                *(self.spec.name, self.problem, delay),
            )
            await anyio.sleep(delay)

    async def _connected(self) -> None:
        self._stir = anyio.Event()
        self._words = LastWords()
        self._ended = self._doubted = self._outdated = False
        with anyio.fail_after(_CONNECT_S) as within:
            client = Client(
                connection(self.spec, self._has_ended, self._words),
                message_handler=self._handle_message,
                client_info=Implementation(name="jazz-select", version=__version__),
                cache=None,
            )
            async with client:
                await self._list(client)
                within.deadline = float("inf")
                self._client, self.state, self.problem = client, "up", ""
                self.tried.set()
                _log.info("server=<%s>, tools=<%d> | an MCP server is connected", self.spec.name, len(self.tools))
                async with anyio.create_task_group() as watching:
                    watching.start_soon(self._listen, client)
                    await self._until_it_ends(client)
                    self._client = None
                    watching.cancel_scope.cancel()

    async def _until_it_ends(self, client: Client) -> None:
        while not self._ended:
            await self._stir.wait()
            self._stir = anyio.Event()
            if self._ended:
                return
            if self._doubted:
                self._doubted = False
                with anyio.fail_after(_PROBE_S):
                    await self._list(client)
            if self._outdated:
                await anyio.sleep(max(_LISTED_ANEW, self._listed_at + _APART_S - monotonic()))
                self._outdated = False
                try:
                    with anyio.fail_after(_CONNECT_S):
                        await self._list(client)
                except JazzSelectError as error:  # the tools of before are still there
                    problem = self._redact_text(str(error))
                    _log.warning("server=<%s>, problem=<%s> | its new list cannot be used", self.spec.name, problem)

    async def _list(self, client: Client) -> None:
        self._listing = client
        spec = self.spec
        try:
            found = await session_tools(
                self,
                provider=spec.name,
                timeout_s=spec.timeout_s,
                destructive=spec.destructive,
                trusted=spec.trusted,
                from_context=spec.from_context,
            )
        finally:
            self._listing = None
        skills = await self._listed_skills(client)
        self.withheld, self.left_out = {}, found.left_out
        every = (*found, *(each.tool() for each in skills.skills))
        self.tools, self._listed_at = tuple(filter(None, map(self._as_pinned, every))), monotonic()
        self.skills = skills
        for name, why in self.withheld.items():
            _log.warning("server=<%s>, tool=<%s>, changed=<%s> | a tool is withheld", spec.name, name, why)
        self._changed()

    async def _listed_skills(self, client: Client) -> ListedSkills:
        """Return the server's skills; a server that fails to list them keeps its tools."""
        if not self._with_skills or not declares_skills(client):
            return ListedSkills()
        try:
            return await list_skills(client, self.spec.name, self.read_resource)
        except Exception as error:  # noqa: BLE001 - of servers and transports anything may be expected
            problem = self._redact_text(describe_error(error))
            _log.warning("server=<%s>, problem=<%s> | its skills cannot be listed", self.spec.name, problem)
            return ListedSkills(notes=(f"the skills of the MCP server {self.spec.name} cannot be listed: {problem}",))

    async def read_resource(self, uri: str) -> types.ReadResourceResult:
        """Read one of its resources.

        Raises:
            ToolError: It is not connected, or takes too long.
            MCPError: It refused.
        """
        client = self._client
        if client is None or self._ended:
            raise ToolError("read", self._why_down())
        try:
            with anyio.fail_after(min(self.spec.timeout_s, _READ_S)):
                return await client.session.read_resource(uri)
        except TimeoutError:
            raise ToolError("read", f"its MCP server {self.spec.name} did not answer in time") from None
        except MCPError as error:
            redacted = types.ErrorData(code=error.error.code, message=self._redact_text(error.error.message))
            raise MCPError.from_error_data(redacted) from None
        except Exception as error:  # noqa: BLE001 - whatever a transport or a bad answer fails with
            raise ToolError("read", self._redact_text(describe_error(error))) from None

    def _as_pinned(self, tool: Tool) -> Tool | None:
        """Return a tool with the strictest effects it was ever listed with; it never becomes less dangerous.

        A tool whose schema or texts have changed since is withheld, since nobody has reviewed them.
        """
        first = self._pinned.setdefault(tool.operation, tool)
        if changed := [each for each in _PINNED if getattr(first, each) != getattr(tool, each)]:
            self.withheld[tool.name] = ", ".join(changed).replace("_", " ")
            return None
        self._pinned[tool.operation] = replace(
            tool,
            destructive=first.destructive or tool.destructive,
            idempotent=first.idempotent and tool.idempotent,
            read_only=first.read_only if tool.read_only else tool.read_only,
        )
        return self._pinned[tool.operation]

    def left_out_notes(self) -> list[str]:
        """Describe the tools that cannot be used, and why."""
        notes = [
            f"the tool {json_line(self._redact_text(each.tool))} of the MCP server {self.spec.name} is left out: "
            f"{self._redact_text(each.problem)}"
            for each in self.left_out[:_MOST_TOLD]
        ]
        if len(self.left_out) > _MOST_TOLD:
            notes.append(f"{len(self.left_out) - _MOST_TOLD} more tools of it are left out")
        return [*notes, *map(self._redact_text, self.skills.notes[:_MOST_TOLD])]

    async def _listen(self, client: Client) -> None:
        """Receive notifications from servers that send them only on request."""
        said = client.server_capabilities.tools
        if said is None or not said.list_changed or client.protocol_version < _LISTENING_SINCE:
            return
        try:
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._outdate()
        except Exception as error:  # noqa: BLE001 - without it the tools are those of the connection's begin
            kind = type(error).__name__
            _log.info("server=<%s>, error=<%s> | changes of its list are not heard of", self.spec.name, kind)

    async def _handle_message(self, message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._outdate()

    def _outdate(self) -> None:
        self._outdated = True
        self._stir.set()

    def _has_ended(self) -> None:
        self._ended = True
        if self.state == "up":
            self.state, self.problem = "down", _ENDED
        self._stir.set()

    # --- as a session --------------------------------------------------------------

    @property
    def server_info(self) -> Implementation | None:
        """What the server says of itself; None where it says nothing, or is not connected."""
        client = self._listing or self._client
        return None if client is None else client.server_info

    async def list_tools(self, *, cursor: str | None = None) -> object:
        """List a page of the server's tools over the present connection."""
        client = self._listing or self._client
        if client is None:
            raise ToolError("?", self._why_down())
        return await tools_page(client, cursor)

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """Call one of its tools, by its own name for it; progress goes to whoever asked for it.

        Raises:
            ToolError: It is not connected; nothing was called.
            ToolOutcomeUnknownError: The transport failed.
            MCPError: It refused the call, or the connection broke.
        """
        client, relay = self._client, relayed.get()
        if client is None or self._ended:
            raise ToolError(name, self._why_down())
        progress = None if relay is None else relay.progress
        try:
            answer = answer_of(await tool_answer(client, name, arguments, progress))
        except MCPError as error:
            if error.error.code not in _ITS_OWN_ERRORS:
                self._doubt()
            redacted = types.ErrorData(code=error.error.code, message=self._redact_text(error.error.message))
            raise MCPError.from_error_data(redacted) from None
        except Exception as error:  # noqa: BLE001 - whatever a transport fails with, nobody heard of the call's end
            self._doubt()
            raise ToolOutcomeUnknownError(name, self._redact_text(describe_error(error))) from None
        if relay is not None and not answer.is_error:
            relay.answer = answer
        return self._without_secrets(answer) if answer.is_error else answer

    def _without_secrets(self, answer: types.CallToolResult) -> types.CallToolResult:
        """Return an error text without the secrets that the server was started with."""
        blocks: list[types.ContentBlock] = []
        for block in answer.content:
            if isinstance(block, types.TextContent):
                blocks.append(types.TextContent(text=self.spec.without_secrets(block.text)))
            else:
                blocks.append(block)
        return types.CallToolResult(content=blocks, is_error=True)

    def _doubt(self) -> None:
        self._doubted = True
        self._stir.set()

    def _why_down(self) -> str:
        server, left_s = self.spec.name, self._retry_at - monotonic()
        if self.state == "starting":
            return f"its MCP server {server} is still starting; try again in a moment"
        soon = f"in {left_s:.0f} s" if self.state == "down" and left_s >= 1 else "now"
        why = self.problem or _ENDED
        return f"its MCP server {server} is not connected ({why}); it is tried again {soon}, and nothing was called"

    def _redact_text(self, text: str) -> str:
        return beginning(self.spec.without_secrets(plain_text(text)), _LONGEST_PROBLEM)


_LISTENING_SINCE: Final = "2026-07-28"
"""The first version of the protocol in which a client asks to be told of changes."""


# --- many of them ------------------------------------------------------------------


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
        """Reserve names for the agent's own tools; no server's tool is given them from now on."""
        for name in names:
            self._holders.setdefault(name.casefold(), ("", name))

    def name_for(self, spec: ServerSpec, tool: str) -> str:
        """Return the name given to a server's tool; empty if the server has been given its maximum of names."""
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
    """Return a server's tools by the names given to them; of two listed by one name, the first."""
    found: dict[str, Tool] = {}
    for tool in tools:
        name = names.name_for(spec, tool.name)
        if name and name not in found:
            about, schema = spec.without_secrets(tool.description), tool.input_schema
            if spec.secrets:  # none of them stands in a schema, whoever wrote it there
                schema = cast("dict[str, Any]", _hide_secrets(spec, tool.call_schema, 0))
            found[name] = replace(tool, name=name, id="", description=about, title="", input_schema=schema)
    return found


def _hide_secrets(spec: ServerSpec, part: object, depth: int) -> object:
    """Return a part of a schema without secrets in its texts; its meaning does not depend on the secrets."""
    if depth > _DEEPEST:
        return True
    if is_array(part):
        return [_hide_secrets(spec, each, depth + 1) for each in part]
    if not is_object(part):
        return part
    shown: dict[str, object] = {}
    for key, value in part.items():
        if key in BY_NAME and is_object(value):
            named_parts = value
            shown[key] = {name: _hide_secrets(spec, each, depth + 2) for name, each in named_parts.items()}
        elif key in _SAID:
            shown[key] = with_texts(value, spec.without_secrets)
        else:
            shown[key] = _hide_secrets(spec, value, depth + 1)
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

    def __init__(
        self, servers: Sequence[ServerSpec], *, backoff: Backoff | None = None, with_skills: bool = True
    ) -> None:
        """Take which servers; nothing is started before `running`.

        Args:
            servers: As `load_servers` reads them.
            backoff: How long is waited before one that has died is connected again.
            with_skills: Whether their skills are tools too.
        """
        self.version = 0
        self.notes: tuple[str, ...] = ()
        self.names = GivenNames()
        self.changed: Callable[[], None] = lambda: None
        self.upstreams = tuple(
            Upstream(spec, changed=self._has_changed, backoff=backoff, with_skills=with_skills) for spec in servers
        )
        self.tools: Mapping[str, Tool] = {}
        self._usable: dict[str, Mapping[str, Tool]] = {}

    @property
    def skills(self) -> Mapping[str, UpstreamSkill]:
        """The skills of all servers, by the first part of their URIs here."""
        return {each.root: each for upstream in self.upstreams for each in upstream.skills.skills}

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["Gateway"]:
        """Keep all servers connected for as long as this lasts; at its end their processes are stopped."""
        async with beside(*(upstream.run() for upstream in self.upstreams)):
            yield self

    async def wait_until_tried(self, within_s: float) -> bool:
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
                notes += upstream.left_out_notes()
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
    """Open a gateway for each agent with a file of servers, without waiting for the servers; yield them by agent id."""
    async with AsyncExitStack() as stack:
        made: dict[str, Gateway] = {}
        for agent_id, file in files.items():
            made[agent_id] = await stack.enter_async_context(Gateway(load_servers(file)).running())
        yield made
