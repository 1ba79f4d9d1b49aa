"""The gate alone: an MCP server before other MCP servers, whose tools keep their names and wait for a yes."""

import asyncio
import logging
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from time import monotonic, perf_counter
from typing import Any, Final

from mcp import MCPError, types
from mcp.server import NotificationOptions, Server
from mcp.server.context import ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.types import INVALID_PARAMS
from starlette.requests import Request

from jazz_select import __version__
from jazz_select.arguments import checked
from jazz_select.errors import ConfigError
from jazz_select.ports import ClaimStore
from jazz_select.routing.approval import Allow, ApprovalPolicy, Ask, Deny, Verdict
from jazz_select.routing.claims import RecentClaims
from jazz_select.routing.records import ToolCall
from jazz_select.routing.tool_call import CallOutcome, call_tool
from jazz_select.routing.tools.context_inputs import bind_context
from jazz_select.routing.tools.tool import Tool
from jazz_select.service.mcp.elicitation import Asking, asked_call, input_required
from jazz_select.service.mcp.gateway import Gateway, GivenNames, gateway_names
from jazz_select.service.mcp.guard_log import GuardLog
from jazz_select.service.mcp.request_meta import request_call_id, request_context
from jazz_select.service.mcp.results import Relay, failure, outcome_of, relayed, with_notes
from jazz_select.service.mcp.servers_file import ServerSpec
from jazz_select.service.mcp.untrusted_text import has_unseen_names, plain_schema, plain_text
from jazz_select.text import at_word, describe_error
from jazz_select.threads import beside, set_in

_STARTING_S: Final = 60.0
"""How long a list or a call waits for servers that have only just been started, all of them together."""
_HOUR_S: Final = 3_600.0
_SETTLED_S: Final = 0.05
_MOST_SESSIONS: Final = 1_000
_LONGEST_DESCRIPTION: Final = 4_000
_STDIO: Final = "stdio"
SESSION_ID: Final = "mcp-session-id"
_TO_BE_APPROVED: Final = "it has to be approved first"
Context = ServerRequestContext[Any, Any]
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardLimits:
    """How much one client may do.

    Attributes:
        changes_per_hour: Calls of each client within an hour that wait for a yes; None for no limit.
        at_once: Calls of each client at one time.
    """

    changes_per_hour: int | None = 100
    at_once: int = 16


class _Names(GivenNames):
    """Names as the servers give them; one that several servers give is prefixed by each server's own.

    No server's tool has a name that begins as another server's prefixed ones do.
    """

    def __init__(self, servers: Iterable[str]) -> None:
        super().__init__()
        self.shared: set[str] = set()
        self._prefixes = {name: f"{name}.".casefold() for name in servers}

    def _free(self, spec: ServerSpec, tool: str) -> str:
        others = (prefix for name, prefix in self._prefixes.items() if name != spec.name)
        if any(tool.casefold().startswith(prefix) for prefix in others):
            spec = spec.model_copy(update={"prefix": f"{spec.name}."})
        if tool.casefold() in self.shared or tool.casefold() in self._holders:
            spec = spec.model_copy(update={"prefix": f"{spec.name}."})
        return super()._free(spec, tool)


class Guard:
    """What clients are answered: the tools of all servers, and each call of one after it was decided about.

    Attributes:
        server: The protocol's server, to be run on a transport.
        gateway: The servers behind it.
    """

    @checked
    def __init__(
        self,
        gateway: Gateway,
        *,
        approval: ApprovalPolicy = "destructive",
        claims: ClaimStore | None = None,
        limits: GuardLimits | None = None,
        log: GuardLog | None = None,
        client_of: Callable[[Any], str] = lambda _: "",
    ) -> None:
        """Take what it guards.

        Args:
            gateway: The servers; they are started by whoever runs it.
            approval: Which calls need a yes of the person at the client.
            claims: Where calls that may change something are claimed before they are made; by default in memory.
            limits: How much one client may do.
            log: Where calls are written down.
            client_of: Whose request it is, by its HTTP request; all requests at a pipe are one client's.
        """
        self.gateway = gateway
        self._asking = Asking(policy=approval, are_claimed=True)
        self._claims = RecentClaims() if claims is None else claims
        self._limits, self._log = limits or GuardLimits(), log or GuardLog()
        self._client_of = client_of
        self._names = _Names(each.spec.name for each in gateway.upstreams)
        self._tools: Mapping[str, Tool] = {}
        self._known = -1
        self._changes: defaultdict[str, deque[float]] = defaultdict(deque)
        self._at_once: Counter[str] = Counter()
        self._stirred = asyncio.Event()
        self._patience_ends: float | None = None
        self._bus = InMemorySubscriptionBus()
        self._listening = ListenHandler(self._bus)
        self._sessions: OrderedDict[str, ServerSession] = OrderedDict()
        self.server: Server[Any] = Server(
            "jazz-select/guard",
            version=__version__,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_subscriptions_listen=self._listening,
        )
        announcing = partial(self.server.create_initialization_options, NotificationOptions(tools_changed=True))
        vars(self.server)["create_initialization_options"] = announcing
        sealed = RequestStateSecurity.ephemeral(ttl=900.0)
        self.server.middleware.append(RequestStateBoundary(sealed, default_audience=self.server.name))
        gateway.changed = self._stirred.set

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["Guard"]:
        """Tell clients of changed lists, for as long as this lasts."""
        async with beside(self._keep_told()):
            try:
                yield self
            finally:
                self._listening.close()

    async def wait_until_connected(self, within_s: float) -> None:
        """Wait until each server was tried, for a while at most.

        Raises:
            ConfigError: Each was, and none is connected.
        """
        if not await self.gateway.wait_until_tried(within_s):
            return
        down = [each for each in self.gateway.upstreams if each.state != "up"]
        if len(down) == len(self.gateway.upstreams):
            why = "; ".join(f"{each.spec.name}: {each.problem}" for each in down)
            raise ConfigError(f"none of the MCP servers is connected: {why}")

    def notes(self) -> list[str]:
        """List notes for the start: how many tools there are, and what differs from their servers."""
        tools = self._refresh_tools().values()
        waiting = sum(tool.destructive for tool in tools)
        up = sum(each.state == "up" for each in self.gateway.upstreams)
        policy = "each call waits for a yes" if self._asking.policy == "always" else f"{waiting} wait for a yes"
        servers = "server" if len(self.gateway.upstreams) == 1 else "servers"
        said = [f"{up} of {len(self.gateway.upstreams)} {servers} connected, {len(tools)} tools: {policy}"]
        for shared in sorted(self._names.shared):
            called = sorted(tool.name for tool in tools if tool.operation.casefold() == shared)
            said.append(f"several servers have a tool {shared}: they are called {', '.join(called)}")
        said += [
            f"the MCP server {each.spec.name} is not connected: {each.problem}; it is tried again"
            for each in self.gateway.upstreams
            if each.state == "down"
        ]
        return [*said, *self.gateway.notes]

    # --- tools -------------------------------------------------------------------------

    async def _ready(self) -> None:
        """Wait until each server was tried once: afterwards none is waited for."""
        if self._patience_ends is None:
            self._patience_ends = monotonic() + _STARTING_S
        await self.gateway.wait_until_tried(max(self._patience_ends - monotonic(), 0.0))

    def _refresh_tools(self) -> Mapping[str, Tool]:
        if self._known == self.gateway.version:
            return self._tools
        self._known = self.gateway.version
        usable: dict[str, list[Tool]] = {}
        counts = Counter[str]()
        for upstream in self.gateway.upstreams:
            tools = [tool for tool in upstream.tools if not has_unseen_names(tool.input_schema)]
            usable[upstream.spec.name] = tools
            counts.update({tool.name.casefold() for tool in tools})  # a server counts once for each name
        self._names.shared |= {name for name, count in counts.items() if count > 1}
        found: dict[str, Tool] = {}
        for upstream in self.gateway.upstreams:
            spec = upstream.spec.model_copy(update={"prefix": ""})
            found |= gateway_names(spec, usable[spec.name], self._names)
        self._tools = found
        return found

    async def _list_tools(self, context: Context, _: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        self._remember_session(context)
        await self._ready()
        known = request_context(context)
        return types.ListToolsResult(
            tools=[_describe_tool(bind_context(tool, known)) for tool in self._refresh_tools().values()]
        )

    async def _call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        self._remember_session(context)
        await self._ready()
        tool = self._refresh_tools().get(params.name)
        if tool is None:
            raise MCPError(
                INVALID_PARAMS, f"Unknown tool: {plain_text(params.name[:200])}{self._explain_withheld(params.name)}"
            )
        client = self._client_of(context.request)
        if self._at_once[client] >= self._limits.at_once:
            return failure(f"{self._limits.at_once} calls are being made already: wait for one of them to end")
        self._at_once[client] += 1
        try:
            return await self._make_call(context, params, tool, client)
        finally:
            self._at_once[client] -= 1

    async def _make_call(
        self, context: Context, params: types.CallToolRequestParams, tool: Tool, client: str
    ) -> types.CallToolResult | types.InputRequiredResult:
        tool = bind_context(tool, request_context(context))
        relay = Relay(context.session.report_progress)
        own_id = request_call_id(context)
        let_pass: list[ToolCall] = []
        with set_in(relayed, relay):
            began = perf_counter()
            try:
                outcome = await call_tool(
                    tool,
                    params.arguments or {},
                    door="mcp",
                    timeout_s=None,  # its server has a limit of its own
                    approve=self._approver(context, params, tool, client, let_pass),
                    # An answer belongs to the call that was asked about; else the application may name it.
                    call_id=_asked_id(params) or (f"{client}:{own_id}" if own_id else ""),
                    claims=self._claims,
                )
            except asyncio.CancelledError:
                for call in let_pass:
                    self._log.note_at_once("cancelled", _call_fields(call, tool, client))
                raise
        told = self._outcome_fields(outcome, tool, client, perf_counter() - began)
        await self._log.note("answered", told, params.arguments)
        if outcome.status == "asked":
            reason = "" if outcome.reason == _TO_BE_APPROVED else outcome.reason
            return input_required(outcome.call, tool.provider, reason)
        only_reads = tool.read_only is True and not tool.destructive
        return with_notes(outcome_of(outcome, relay, only_reads=only_reads), outcome)

    def _approver(
        self,
        context: Context,
        params: types.CallToolRequestParams,
        tool: Tool,
        client: str,
        let_pass: list[ToolCall],
    ) -> Callable[[ToolCall], Awaitable[Verdict]]:
        asked = self._asking.approver(context, params, tool.provider)
        changes = self._changes[client]

        async def decide(call: ToolCall) -> Verdict:
            waits = call.destructive or self._asking.policy == "always"
            if waits and (problem := self._too_many(client)):
                verdict: Verdict = Deny(problem)
            else:
                verdict = await asked(call)
            counted: list[float] = []
            if waits and isinstance(verdict, Allow):
                # While the person thought, its server may have changed it, and other calls may have been let pass.
                if problem := self._changed_since(tool) or self._too_many(client):
                    verdict = Deny(problem)
                else:
                    counted.append(monotonic())
                    changes.extend(counted)
            event = "denied"
            if isinstance(verdict, Allow):
                event = "allowed"
            elif isinstance(verdict, Ask):
                event = "asked"
            fields = {
                **_call_fields(call, tool, client),
                **({} if isinstance(verdict, Allow) else {"reason": verdict.reason}),
            }
            try:
                await self._log.write(event, fields, call.arguments)
            except OSError as error:
                for each in counted:
                    changes.remove(each)
                return Deny(f"the guard's log cannot be written ({describe_error(error)}), so nothing was called")
            if isinstance(verdict, Allow):
                let_pass.append(call)
            return verdict

        return decide

    def _explain_withheld(self, name: str) -> str:
        """Return why a tool that was listed before is unknown by now, if its server has changed it."""
        for upstream in self.gateway.upstreams:
            spec = upstream.spec.model_copy(update={"prefix": ""})
            for own_name, changed in upstream.withheld.items():
                if self._names.name_for(spec, own_name) == name:
                    return f": its MCP server {spec.name} has changed its {changed}; start the guard anew to allow it"
        return ""

    def _changed_since(self, tool: Tool) -> str:
        """Return why a call that was asked about is not made, if its tool is no longer what it was."""
        if tool.name in self._refresh_tools():
            return ""
        return f"its MCP server {tool.provider} describes {tool.name} otherwise since it was asked about"

    def _too_many(self, client: str) -> str:
        most = self._limits.changes_per_hour
        if most is None:
            return ""
        made, now = self._changes[client], monotonic()
        while made and made[0] < now - _HOUR_S:
            made.popleft()
        if len(made) < most:
            return ""
        wait_s = made[0] + _HOUR_S - now if made else _HOUR_S
        return f"{most} calls that may change something were let pass within an hour: wait {wait_s:.0f} s for the next"

    @staticmethod
    def _outcome_fields(outcome: CallOutcome, tool: Tool, client: str, took_s: float) -> dict[str, Any]:
        told = {**_call_fields(outcome.call, tool, client), "status": outcome.status, "took_ms": round(took_s * 1_000)}
        if outcome.replayed:
            told["replayed"] = True
        return told if outcome.error is None else {**told, "error": outcome.error.message}

    # --- sessions ----------------------------------------------------------------------

    def _remember_session(self, context: Context) -> None:
        request = context.request
        key = request.headers.get(SESSION_ID, "") if isinstance(request, Request) else _STDIO
        if not key:  # a client without a session is told by what it listens to
            return
        self._sessions[key] = context.session
        self._sessions.move_to_end(key)
        while len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)

    async def _keep_told(self) -> None:
        """Notify the clients of each list that is another one."""
        while True:
            await self._stirred.wait()
            await asyncio.sleep(_SETTLED_S)
            self._stirred.clear()
            await self._bus.publish(ToolsListChanged())
            for session in list(self._sessions.values()):
                try:
                    await session.send_tool_list_changed()
                except Exception as error:  # noqa: BLE001 - a client that has left must not end it for the others
                    _log.info("error=<%s> | a client was not told of a changed list", describe_error(error))


def _describe_tool(tool: Tool) -> types.Tool:
    """Describe a tool in the words of its server, without invisible characters."""
    return types.Tool(
        name=tool.name,
        description=at_word(plain_text(tool.description), _LONGEST_DESCRIPTION),
        input_schema=plain_schema(tool.input_schema),
        annotations=types.ToolAnnotations(
            read_only_hint=tool.reads if tool.read_only is not None else None,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent or None,
        ),
    )


def _asked_id(params: types.CallToolRequestParams) -> str:
    """Return the id of the call that a client answers about; its state was opened by the SDK, and is our own."""
    asked = None if params.request_state is None else asked_call(params.request_state)
    return "" if asked is None else asked.call_id


def _call_fields(call: ToolCall, tool: Tool, client: str) -> dict[str, Any]:
    fields = {"call": call.id, "server": tool.provider, "tool": call.tool, "effect": tool.effect}
    return {**fields, **({"client": client} if client else {}), "identity": call.identity[:16]}
