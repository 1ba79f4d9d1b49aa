"""How clients come in: over HTTP to the agent of their key and to no other, and over standard in- and output."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from jazz_select.service.agents import ServedAgents
from jazz_select.service.service_options import ServeOptions
from tests.unit.service.mcp.desk import YES, Calls, Person, catalogue, data, flows, over_http, own_tools, said

ROOT = Path(__file__).parents[4]
KEYS = {"key-of-support": "support", "key-of-sales": "sales"}
MODES = pytest.mark.parametrize("mode", ["legacy", "auto"])


@asynccontextmanager
async def two_agents(calls: Calls) -> AsyncGenerator[str]:
    """The address of two agents, each with flows and tools of its own."""
    async with (
        catalogue(own_tools(calls)) as support,
        catalogue(agent_id="sales", registry=flows(["sell_things"])) as sales,
    ):
        digests = {sha256(key.encode()).hexdigest(): agent for key, agent in KEYS.items()}
        served = ServedAgents({"support": support, "sales": sales}, digests)
        async with over_http(served) as url:
            yield url


@asynccontextmanager
async def client_of(url: str, key: str, **options: Any) -> AsyncGenerator[Client]:
    """The official client over HTTP, with a key."""
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}) as http,
        Client(streamable_http_client(url, http_client=http), **options) as client,
    ):
        yield client


@MODES
@pytest.mark.spec("008.2")
@pytest.mark.spec("008.3")
async def test_a_key_opens_its_agent_and_no_other(mode: str) -> None:
    calls: Calls = []
    person = Person("accept", YES)
    async with two_agents(calls) as url:
        async with client_of(url, "key-of-support", mode=mode, elicitation_callback=person) as client:
            names = [prompt.name for prompt in (await client.list_prompts()).prompts]
            assert "refund_order" in names
            assert "sell_things" not in names
            cancel = {"name": "cancel_order", "arguments": {"order": "7"}}
            assert data(await client.call_tool("call_tool", cancel)) == {"cancelled": "7"}
        async with client_of(url, "key-of-sales", mode=mode) as client:
            assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["sell_things"]
            refused = await client.call_tool("call_tool", {"name": "look_up_order", "arguments": {"email": "a"}})
            assert refused.is_error
            assert "look_up_order" not in said(refused).replace('"requested":"look_up_order"', "")
    assert calls == [("cancel_order", {"order": "7"})]
    assert len(person.questions) == 1


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
ACCEPTS = {"Accept": "application/json, text/event-stream"}


@pytest.mark.spec("008.2")
async def test_the_session_of_another_agent_is_not_there() -> None:
    async with two_agents([]) as url, httpx2.AsyncClient() as http:

        async def post(key: str, body: dict[str, Any], **headers: str) -> httpx2.Response:
            given = {**ACCEPTS, "Authorization": f"Bearer {key}", **headers}
            return await http.post(url, json=body, headers=given)

        opened = await post("key-of-support", INITIALIZE)
        session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        assert (await post("key-of-support", ping, **session)).status_code == 200
        assert (await post("key-of-sales", ping, **session)).status_code == 404
        assert (await post("no-such-key", ping, **session)).status_code == 401
        deleted = await http.delete(url, headers={"Authorization": "Bearer key-of-sales", **session})
        assert deleted.status_code == 404
        assert (await post("key-of-support", ping, **session)).status_code == 200


HOSTILE: dict[str, tuple[bytes, dict[str, str]]] = {
    "nothing": (b"", {}),
    "no JSON": (b"{", {}),
    "bad UTF-8": (b'{"jsonrpc": "2.0", "method": "\xff\xfe"}', {}),
    "a list": (b"[]", {}),
    "deep": (b"[" * 100_000, {}),
    "large": (b'{"a": "' + b"x" * 5_000_000 + b'"}', {}),
    "another kind": (b"{}", {"Content-Type": "text/html"}),
    "no session": (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}', {}),
    "a version of the future": (b'{"jsonrpc": "2.0", "id": 1, "method": "x"}', {"mcp-protocol-version": "2099-01-01"}),
    "a number without end": (b'{"jsonrpc": "2.0", "id": ' + b"9" * 9_000 + b', "method": "tools/list"}', {}),
}


async def test_what_is_no_request_is_refused_and_no_more() -> None:
    async with two_agents([]) as url, httpx2.AsyncClient() as http:
        for case, (body, headers) in HOSTILE.items():
            for version in ("", "2025-11-25", "2026-07-28"):
                given = {"Content-Type": "application/json", "Authorization": "Bearer key-of-support", **ACCEPTS}
                given |= {"mcp-protocol-version": version} if version else {}
                answered = await http.post(url, content=body, headers={**given, **headers})
                assert 400 <= answered.status_code < 500, (case, version)
        async with client_of(url, "key-of-support") as client:
            assert len((await client.list_tools()).tools) == 4


SERVER = """
import asyncio
import logging
import sys

from jazz_select.routing import Tool
from jazz_select.service.mcp.agent_server import serve_stdio
from jazz_select.service.mcp.agent_server import AgentServer
from tests.unit.service.mcp.desk import catalogue, own_tools

logging.basicConfig(level=logging.DEBUG)


def chatty() -> str:
    print("a word that is no protocol", flush=True)
    return "done"


async def main():
    async with catalogue([*own_tools([]), Tool(name="chatty", function=chatty)]) as running:
        await serve_stdio(AgentServer(running))


asyncio.run(main())
"""


@pytest.mark.programs
@MODES
@pytest.mark.spec("008.3")
async def test_standard_output_is_the_protocol_alone(tmp_path: Path, mode: str) -> None:
    program, errors = tmp_path / "server.py", tmp_path / "errors.txt"
    program.write_text(SERVER, "utf-8")
    parameters = StdioServerParameters(
        command=sys.executable, args=[str(program)], env={"PYTHONPATH": str(ROOT)}, cwd=str(ROOT)
    )
    with errors.open("w", encoding="utf-8") as written:
        async with Client(stdio_client(parameters, errlog=written), mode=mode) as client:
            assert len((await client.list_tools()).tools) == 4
            assert said(await client.call_tool("call_tool", {"name": "chatty"})) == "done"
            made = await client.call_tool("call_tool", {"name": "look_up_order", "arguments": {"email": "a"}})
            assert data(made) == {"order": "A-a"}
            chosen = data(await client.call_tool("select_flow", {"request": "track my order"}))
            assert chosen["flows"][0]["name"] == "track_order"
    told = errors.read_text("utf-8")
    assert "a word that is no protocol" in told
    assert "DEBUG" in told


@pytest.mark.spec("008.3")
async def test_there_are_only_so_many_sessions_and_one_that_rests_makes_room() -> None:
    limits = ServeOptions(max_sessions=1, session_idle_s=0.2)
    asked = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": asked}
    headers = {"accept": "application/json, text/event-stream"}
    async with catalogue() as running:
        agents = ServedAgents({running.agent_id: running}, is_open=True)
        async with over_http(agents, limits) as url, httpx.AsyncClient() as client:
            assert (await client.post(url, json=begin, headers=headers)).status_code == 200
            assert (await client.post(url, json=begin, headers=headers)).status_code == 503
            async with asyncio.timeout(20):
                while (await client.post(url, json=begin, headers=headers)).status_code == 503:
                    await asyncio.sleep(0.05)
