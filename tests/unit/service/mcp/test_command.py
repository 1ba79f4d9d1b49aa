"""`jazz-select serve` as clients start it: MCP at `/mcp` or on standard in- and output, other servers behind it."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from typer.testing import CliRunner

from jazz_select.cli import app
from tests.unit.cli.shop import REFUND, TRACK
from tests.unit.service.mcp.desk import data, entry, said, server_file

pytestmark = pytest.mark.programs

ROOT = Path(__file__).parents[4]
SHOP = '''
@server.tool(annotations=READS)
def lookup(email: str) -> dict[str, str]:
    """Find a customer's latest order."""
    return {"order": f"A-{email}"}
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Flows, and a file of servers."""
    (tmp_path / "flows.yaml").write_text(f"flows:{REFUND}{TRACK}", "utf-8")
    servers = {"shop": entry(server_file(tmp_path, SHOP)), "gone": {"command": "/no/such/program"}}
    (tmp_path / "servers.json").write_bytes(orjson.dumps({"mcpServers": servers}))
    return tmp_path


def command(folder: Path, *more: str) -> list[str]:
    program = ["-c", "from jazz_select.cli import app; app()", "serve"]
    where = ["--flows", str(folder / "flows.yaml"), "--index", str(folder / "index"), "--config", "embedder=static"]
    return [*program, *where, "--config", f"mcp_servers={folder / 'servers.json'}", *more]


def environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}  # noqa: TID251 - of a test
    return {**kept, "PYTHONPATH": str(ROOT)}


async def used(client: Client) -> None:
    """Everything once, as a client would."""
    chosen = data(await client.call_tool("select_flow", {"request": "where is my parcel?"}))
    assert [flow["name"] for flow in chosen["flows"]] == ["track_order"]
    found = data(await client.call_tool("search_tools", {"request": "a customer's order"}))
    assert [tool["name"] for tool in found["tools"]] == ["shop.lookup"]
    assert any("gone is not connected" in note for note in found["notes"])
    made = await client.call_tool("call_tool", {"name": "shop.lookup", "arguments": {"email": "a"}})
    assert data(made) == {"order": "A-a"}
    assert "track_order" in [prompt.name for prompt in (await client.list_prompts()).prompts]


@pytest.mark.spec("008.1")
@pytest.mark.spec("008.3")
async def test_on_standard_in_and_output(folder: Path) -> None:
    parameters = StdioServerParameters(
        command=sys.executable, args=command(folder, "--mcp", "stdio"), env=environment(), cwd=str(folder)
    )
    with (folder / "errors.txt").open("w", encoding="utf-8") as errors:
        async with Client(stdio_client(parameters, errlog=errors)) as client:
            await used(client)


async def test_half_an_emoji_on_standard_input_is_read(folder: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *command(folder, "--mcp", "stdio")),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=environment(),
        cwd=folder,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    begun = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    given = {"name": "select_flow", "arguments": {"request": "where is my parcel? \ud83d"}}
    ask = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": given}
    for message in (begin, begun, ask):
        process.stdin.write(f"{json.dumps(message)}\n".encode())
    await process.stdin.drain()
    async with asyncio.timeout(60):
        while (answer := orjson.loads(await process.stdout.readline())).get("id") != 2:
            pass
    assert [flow["name"] for flow in answer["result"]["structuredContent"]["flows"]] == ["track_order"]
    process.stdin.close()
    await process.wait()


@asynccontextmanager
async def serving(folder: Path, *more: str) -> AsyncGenerator[str]:
    """The address of a service in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            *command(folder, "--port", "0", "--config", "panel=false", "--config", "access_log=false", *more),
        ),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=environment(),
        cwd=folder,
    )
    try:
        assert process.stdout is not None
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.terminate()
        assert await process.wait() == 0


@pytest.mark.spec("008.1")
@pytest.mark.spec("008.3")
async def test_over_http_beside_the_rest(folder: Path) -> None:
    async with serving(folder, "--config", "mcp_listed=all") as root:
        for path, mode in (("/mcp", "auto"), ("/mcp/", "legacy")):
            async with Client(f"{root}{path}", mode=mode) as client:
                listed: list[str] = []
                async with asyncio.timeout(60):
                    while not listed:  # the server behind it is still starting
                        listed = [tool.name for tool in (await client.list_tools()).tools][4:]
                assert listed == ["shop.lookup"]
                await used(client)
                refused = await client.call_tool("call_tool", {"name": "shop.look", "arguments": {}})
                assert refused.is_error
                assert "shop.lookup" in said(refused)


@pytest.mark.spec("008.3")
async def test_without_flows_it_serves_tools_alone(folder: Path) -> None:
    servers = f"mcp_servers={folder / 'servers.json'}"
    where = ["--index", str(folder / "index"), "--config", "embedder=static", "--config", servers]
    program = ["-c", "from jazz_select.cli import app; app()", "serve", *where, "--mcp", "stdio"]
    parameters = StdioServerParameters(command=sys.executable, args=program, env=environment(), cwd=str(folder))
    with (folder / "errors.txt").open("w", encoding="utf-8") as errors:
        async with Client(stdio_client(parameters, errlog=errors)) as client:
            names: list[str] = []
            async with asyncio.timeout(60):
                while not names:  # the server behind it is still starting
                    found = data(await client.call_tool("search_tools", {"request": "a customer's order"}))
                    names = [tool["name"] for tool in found["tools"]]
            assert names == ["shop.lookup"]
            made = await client.call_tool("call_tool", {"name": "shop.lookup", "arguments": {"email": "a"}})
            assert data(made) == {"order": "A-a"}
            assert data(await client.call_tool("list_flows", {}))["flows"] == []
            assert data(await client.call_tool("select_flow", {"request": "where is my parcel?"}))["flows"] == []
    assert "there are no flows, so it serves tools alone" in (folder / "errors.txt").read_text("utf-8")


WRONG: dict[str, tuple[list[str], str]] = {
    "no such file": (["--config", "mcp_servers=none.json"], "cannot be read"),
    "with agents": (
        ["--agents", "agents.yaml", "--config", "mcp_servers=servers.json"],
        "leave the options, and their variables, out",
    ),
    "agents on stdio": (["--agents", "agents.yaml", "--mcp", "stdio"], "one agent to one client"),
    "another way": (["--mcp", "pigeon"], "pigeon"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_served_is_said_at_once(folder: Path, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given, problem = WRONG[case]
    monkeypatch.chdir(folder)
    keys = {name: f"a-key-of-{name}-that-is-long" for name in ("shop", "clinic")}
    agents: list[str] = []
    for name, key in keys.items():
        (folder / f"{name}.key").write_text(key, "utf-8")
        agents.append(f"  {name}: {{flows: flows.yaml, key_file: {name}.key}}")
    (folder / "agents.yaml").write_text("\n".join(["agents:", *agents]), "utf-8")
    options = ["--index", "index", "--config", "embedder=static", "--port", "0"]
    options += [] if "--agents" in given else ["--flows", "flows.yaml"]
    result: Any = CliRunner().invoke(app, ["serve", *options, *given], env={"TERM": "dumb", "COLUMNS": "200"})
    assert result.exit_code != 0
    assert problem in " ".join(f"{result.output} {result.exception}".split())
