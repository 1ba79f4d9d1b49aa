"""What these tests are made of: an agent's catalogue, servers of others in processes of their own, and clients."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
from mcp import Client, types
from mcp.client.context import ClientRequestContext
from mcp.types import ElicitResult
from starlette.applications import Starlette

from jazz_select import Flow, FlowRegistry, ProceduralMemory
from jazz_select.routing import Tool
from jazz_select.routing.tools.tool import Toolbox
from jazz_select.service.agents import ServedAgents
from jazz_select.service.app import make_app
from jazz_select.service.mcp.agent_server import AgentServer, McpApp
from jazz_select.service.mcp.gateway import Backoff, Gateway
from jazz_select.service.mcp.servers_file import servers_of
from jazz_select.service.running import RunningCatalogue, Sources
from jazz_select.service.service_options import ServeOptions
from jazz_select.settings import Settings
from jazz_select.testing import HashEmbedder
from tests.clock import until
from tests.http_server import LoopbackServer

QUICK = Backoff(first_s=0.05, most_s=0.2)
FLOWS = ("refund_order", "track_order", "change_address")
Calls = list[tuple[str, Mapping[str, Any]]]
"""What the agent's own tools were called with."""


def flows(names: Iterable[str] = FLOWS) -> FlowRegistry:
    """A registry of flows that have a name and a description."""
    registry = FlowRegistry(min_examples=0)
    for name in names:
        Flow(
            name=name,
            description=f"Helps a customer to {name.replace('_', ' ')}.",
            condition=f"The customer wants to {name.replace('_', ' ')}.",
            registry=registry,
        )
    return registry


def own_tools(calls: Calls) -> list[Tool]:
    """Two tools of the agent's own: one that looks, and one that destroys."""

    def look_up(email: str) -> dict[str, str]:
        calls.append(("look_up_order", {"email": email}))
        return {"order": f"A-{email}"}

    def cancel(order: str) -> dict[str, str]:
        calls.append(("cancel_order", {"order": order}))
        return {"cancelled": order}

    def schema(name: str) -> dict[str, Any]:
        return {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}

    return [
        Tool(name="look_up_order", description="Find an order.", input_schema=schema("email"), function=look_up),
        Tool(
            name="cancel_order",
            description="Cancel an order.",
            input_schema=schema("order"),
            function=cancel,
            destructive=True,
        ),
    ]


@asynccontextmanager
async def catalogue(
    tools: Sequence[Tool] = (), *, agent_id: str = "support", registry: FlowRegistry | None = None, **settings: Any
) -> AsyncGenerator[RunningCatalogue]:
    """An agent's running catalogue, in memory."""
    async with await ProceduralMemory.open(":memory:", embedder=HashEmbedder()) as memory:
        found = Sources(registry=registry or flows(), tools=Toolbox(tools))
        running = RunningCatalogue(Settings(agent_id=agent_id, **settings), memory, lambda: found)
        await running.reload()
        yield running


def server_file(folder: Path, source: str, name: str = "shop_server.py") -> Path:
    """A server's program, with what each of them needs."""
    path = folder / name
    path.write_text(f"{_HEAD}\n{source}\n{_FOOT}", "utf-8")
    return path


def entry(program: Path, *args: str, **more: Any) -> dict[str, Any]:
    """A server that is started, as an entry of a file of servers."""
    return {"command": sys.executable, "args": [str(program), *args], "trusted": True, **more}


_HEAD = """
import asyncio, os, sys
import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult, ImageContent, TextContent, ToolAnnotations

server = MCPServer("shop", log_level="ERROR")
READS = ToolAnnotations(read_only_hint=True)
WRITES = ToolAnnotations(read_only_hint=False, destructive_hint=False)
"""
_FOOT = """
if __name__ == "__main__":
    if "--port" in sys.argv:
        server.run(transport="streamable-http", port=int(sys.argv[sys.argv.index("--port") + 1]))
    else:
        server.run()
"""


@asynccontextmanager
async def gateway(servers: Mapping[str, Any], *, tried_s: float = 30.0) -> AsyncGenerator[Gateway]:
    """A gateway in front of these servers, each of which was tried once."""
    made = Gateway(servers_of({"mcpServers": dict(servers)}), backoff=QUICK)
    async with made.running():
        await made.wait_until_tried(tried_s)
        yield made


class Person:
    """Whoever sits at the client: answers questions as told, and remembers them."""

    def __init__(self, action: str = "accept", content: Mapping[str, Any] | None = None) -> None:
        self.questions: list[str] = []
        self.answer(action, content)

    def answer(self, action: str, content: Mapping[str, Any] | None = None) -> None:
        """Give this answer from now on."""
        self._said = ElicitResult.model_validate({"action": action, "content": content})

    async def __call__(self, context: ClientRequestContext, params: types.ElicitRequestParams) -> ElicitResult:
        self.questions.append(params.message)
        return self._said


YES: Mapping[str, Any] = {"run_it": True}


@asynccontextmanager
async def served(servers: AgentServer, *, mode: str = "legacy", **options: Any) -> AsyncGenerator[Client]:
    """The official client, beside the server in one process."""
    async with servers.running(), Client(servers.server, mode=mode, **options) as client:
        yield client


@asynccontextmanager
async def over_http(
    served_agents: ServedAgents,
    options: ServeOptions | None = None,
    make: Callable[[RunningCatalogue], AgentServer] = AgentServer,
) -> AsyncGenerator[str]:
    """The address of MCP in a service on this machine."""
    mcp_app = McpApp(served_agents, make, options=options)
    async with on_loopback(make_app(served_agents, options, parts=[mcp_app.part()])) as root:
        yield f"{root}/mcp/"


@asynccontextmanager
async def on_loopback(app: Starlette) -> AsyncGenerator[str]:
    """A real server, on a port that was free."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", timeout_graceful_shutdown=1)
    server = LoopbackServer(config)
    task = asyncio.create_task(server.serve())
    try:
        await until(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await task


def data(result: types.CallToolResult) -> dict[str, Any]:
    """The structure of an answer."""
    assert not result.is_error, result.content
    structure: dict[str, Any] | None = result.structured_content
    assert structure is not None
    return structure


def said(result: types.CallToolResult) -> str:
    """The text of an answer."""
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))
