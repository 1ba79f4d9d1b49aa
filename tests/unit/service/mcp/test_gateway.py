"""Real MCP servers behind the gateway: progress, cancellations and errors pass, and one that dies is started again."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, types

from jazz_select.service.mcp.agent_server import AgentServer
from tests.clock import until
from tests.unit.service.mcp.desk import (
    YES,
    Calls,
    Person,
    catalogue,
    data,
    entry,
    gateway,
    own_tools,
    said,
    served,
    server_file,
)

pytestmark = pytest.mark.programs

SHOP = '''
@server.tool(annotations=READS)
def lookup(email: str) -> dict[str, str]:
    """Find a customer's latest order."""
    return {"order": f"A-{email}"}


@server.tool()
def drop(order: str) -> str:
    """Drop an order."""
    return f"dropped {order}"


@server.tool(annotations=READS)
async def count(to: int, context: Context) -> str:
    """Count slowly."""
    for number in range(to):
        await context.report_progress(number + 1, to, f"at \\u202e {number + 1}")
    return "counted"


@server.tool(annotations=READS)
async def slow(path: str) -> str:
    """Take long."""
    open(f"{path}.begun", "w").close()
    try:
        await anyio.sleep(50)
    except BaseException:
        open(f"{path}.left", "w").close()
        raise
    return "done"


@server.tool(annotations=READS)
def refuses() -> CallToolResult:
    """Say no."""
    return CallToolResult(content=[TextContent(text="the shop is closed, key " + os.environ.get("SHOP_KEY", ""))],
                          is_error=True)


@server.tool(annotations=READS, structured_output=False)
def picture() -> list:
    """Draw."""
    return [TextContent(text="a logo"), ImageContent(data="YWJj", mime_type="image/png")]


@server.tool(annotations=READS, structured_output=False)
def book() -> list:
    """Too much."""
    return [TextContent(text="word " * 100_000), ImageContent(data="YWJj" * 3_000_000, mime_type="image/png")]


@server.tool(annotations=READS)
def pid() -> int:
    """Which process."""
    return os.getpid()


@server.tool(annotations=READS)
async def learn(context: Context) -> str:
    """Have one more tool."""
    server.add_tool(lambda: "new", name="brand_new", description="It is new.", annotations=READS)
    await context.notify_tools_changed()
    return "learned"
'''


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@asynccontextmanager
async def on_http(program: Path, port: int) -> AsyncGenerator[asyncio.subprocess.Process]:
    """The same server on streamable HTTP, in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(program), "--port", str(port)),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@asynccontextmanager
async def behind(
    servers: dict[str, Any], *, mode: str = "legacy", calls: Calls | None = None, **options: Any
) -> AsyncGenerator[tuple[Client, Any]]:
    """A client of an agent with these servers behind it, and the gateway."""
    own = own_tools(calls if calls is not None else [])
    server_options = {name: options.pop(name) for name in ("listed", "approval") if name in options}
    async with (
        catalogue(own) as running,
        gateway(servers) as made,
        served(AgentServer(running, made, **server_options), mode=mode, **options) as client,
    ):
        yield client, made


async def call(client: Client, name: str, **arguments: Any) -> types.CallToolResult:
    return await client.call_tool("call_tool", {"name": name, "arguments": arguments})


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.spec("008.3")
async def test_answers_pass_as_they_are_and_failures_with_their_words(tmp_path: Path, mode: str) -> None:
    shop = entry(server_file(tmp_path, SHOP), env={"SHOP_KEY": "sk-very-secret-1"})
    person = Person("accept", YES)
    async with behind({"shop": shop}, mode=mode, elicitation_callback=person) as (client, _):
        found = data(await client.call_tool("search_tools", {"request": "find a customer's order", "limit": 3}))
        assert "shop.lookup" in [tool["name"] for tool in found["tools"]]
        assert {tool.get("server") for tool in found["tools"]} <= {"shop", None}
        assert data(await call(client, "shop.lookup", email="a@b")) == {"order": "A-a@b"}

        dropped = await call(client, "shop.drop", order="7")
        assert "dropped 7" in said(dropped)
        asked = 'This would be done next: Shop.drop (order: 7). It is a tool of the MCP server "shop".'
        assert person.questions == [f"{asked} It may destroy something. Shall I go on, yes or no?"]

        failed = await call(client, "shop.refuses")
        assert failed.is_error
        assert "the shop is closed" in said(failed)
        assert "sk-very-secret-1" not in said(failed)

        drawn = await call(client, "shop.picture")
        assert [block.type for block in drawn.content] == ["text", "image"]
        read = await call(client, "shop.book")
        assert [block.type for block in read.content] == ["text", "text"]
        assert len(said(read)) < 110_000

        wrong = await call(client, "shop.lookup", mail="a@b")
        assert "'email' is a required property" in said(wrong)

        told: list[tuple[float, float | None, str | None]] = []

        async def report(progress: float, total: float | None, message: str | None) -> None:
            told.append((progress, total, message))

        counted = await client.call_tool(
            "call_tool", {"name": "shop.count", "arguments": {"to": 3}}, progress_callback=report
        )
        assert "counted" in said(counted)
        await until(lambda: len(told) == 3)
        assert told == [(1, 3, "at 1"), (2, 3, "at 2"), (3, 3, "at 3")]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.spec("008.3")
async def test_a_call_that_is_cancelled_is_cancelled_at_its_server(tmp_path: Path, mode: str) -> None:
    shop = entry(server_file(tmp_path, SHOP))
    mark = tmp_path / "slow"
    async with behind({"shop": shop}, mode=mode) as (client, _):
        waiting = asyncio.create_task(call(client, "shop.slow", path=str(mark)))
        await until((tmp_path / "slow.begun").exists)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await until((tmp_path / "slow.left").exists)
        assert data(await call(client, "shop.lookup", email="a")) == {"order": "A-a"}


@pytest.mark.spec("008.3")
async def test_a_server_that_died_is_started_again_and_others_never_wait_for_it(tmp_path: Path) -> None:
    program = server_file(tmp_path, SHOP)
    servers = {"first": entry(program), "second": entry(program), "gone": {"command": str(tmp_path / "no_such_thing")}}
    async with behind(servers) as (client, made):
        before = int(data(await call(client, "first.pid"))["result"])
        states = {each.spec.name: each for each in made.upstreams}
        assert {name: each.state for name, each in states.items()} == {"first": "up", "second": "up", "gone": "down"}
        assert "not found" in states["gone"].problem

        waiting = asyncio.create_task(call(client, "first.slow", path=str(tmp_path / "slow")))
        await until((tmp_path / "slow.begun").exists)
        os.kill(before, signal.SIGKILL)
        unheard = await waiting
        assert unheard.is_error
        assert '"status":"unknown"' in said(unheard)
        assert "It changes nothing, so it can be called again." in said(unheard)
        assert "may have been done" not in said(unheard), "it only reads"

        meanwhile = await call(client, "first.lookup", email="a")  # unless it is back already
        assert not meanwhile.is_error or "MCP server first is not connected" in said(meanwhile)
        assert data(await call(client, "second.lookup", email="a")) == {"order": "A-a"}
        found = data(await client.call_tool("search_tools", {"request": "find a customer's order", "limit": 50}))
        assert "first.lookup" in [tool["name"] for tool in found["tools"]]
        assert any("gone is not connected" in note for note in found["notes"])

        await until(lambda: made.upstreams[0].state == "up")
        after = int(data(await call(client, "first.pid"))["result"])
        assert after != before


@pytest.mark.spec("008.3")
async def test_a_server_on_http_is_found_again_after_it_was_started_anew(tmp_path: Path) -> None:
    program, port = server_file(tmp_path, SHOP), free_port()
    servers = {
        "web": {
            "url": f"http://127.0.0.1:{port}/mcp",
            "headers": {"Authorization": "Bearer secret-of-web"},
            "trusted": True,
        }
    }
    async with behind(servers) as (client, made):
        assert made.upstreams[0].state == "down"
        assert "secret-of-web" not in made.upstreams[0].problem
        async with on_http(program, port):
            await until(lambda: made.upstreams[0].state == "up")
            assert data(await call(client, "web.lookup", email="a")) == {"order": "A-a"}
        down = await call(client, "web.lookup", email="a")
        assert down.is_error
        await until(lambda: made.upstreams[0].state == "down")
        refused = await call(client, "web.lookup", email="a")
        assert "MCP server web is not connected" in said(refused)
        assert "secret-of-web" not in said(refused)
        async with on_http(program, port):
            await until(lambda: made.upstreams[0].state == "up")
            assert data(await call(client, "web.lookup", email="b")) == {"order": "A-b"}


OF_ANOTHER_MAKE = """
import json, sys

tools = ["learn"]


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


for line in sys.stdin:
    asked = json.loads(line)
    method, number = asked.get("method"), asked.get("id")
    if method == "initialize":
        about = {"name": "old", "version": "1"}
        capabilities = {"tools": {"listChanged": True}}
        send(id=number, result={"protocolVersion": "2025-03-26", "capabilities": capabilities, "serverInfo": about})
    elif method == "tools/list":
        schema = {"type": "object"}
        hints = {"readOnlyHint": True}
        listed = [{"name": name, "description": name, "inputSchema": schema, "annotations": hints} for name in tools]
        send(id=number, result={"tools": listed})
    elif method == "tools/call":
        if "brand_new" not in tools:
            tools.append("brand_new")
            send(method="notifications/tools/list_changed")
        send(id=number, result={"content": [{"type": "text", "text": "new"}]})
    elif number is not None:
        send(id=number, error={"code": -32601, "message": "no such method"})
"""


@pytest.mark.parametrize("make", ["ours", "another"])
@pytest.mark.spec("008.3")
async def test_a_tool_that_a_server_has_learned_is_found(tmp_path: Path, make: str) -> None:
    program = tmp_path / "old_server.py"
    program.write_text(OF_ANOTHER_MAKE, "utf-8")
    program = server_file(tmp_path, SHOP) if make == "ours" else program
    async with behind({"shop": entry(program)}) as (client, made):
        assert "shop.brand_new" not in made.tools
        await call(client, "shop.learn")
        await until(lambda: "shop.brand_new" in made.tools)
        found = data(await client.call_tool("search_tools", {"request": "brand new", "limit": 3}))
        assert "shop.brand_new" in [tool["name"] for tool in found["tools"]]
        assert "new" in said(await call(client, "shop.brand_new"))


async def test_a_server_that_is_slow_to_start_holds_up_no_other(tmp_path: Path) -> None:
    slow = server_file(tmp_path, "import time\ntime.sleep(40)", "slow_server.py")
    quick = server_file(tmp_path, SHOP)
    async with (
        catalogue() as running,
        gateway({"slow": entry(slow), "quick": entry(quick)}, tried_s=0) as made,
        served(AgentServer(running, made)) as client,
    ):
        await until(lambda: made.upstreams[1].state == "up")
        # Calls wait a while for servers that were just started, and go on without them.
        made_without = await call(client, "quick.lookup", email="a")
        assert data(made_without) == {"order": "A-a"}
        assert made.upstreams[0].state == "starting"
