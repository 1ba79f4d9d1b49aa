"""Lists of tools: hundreds stay behind four, and what a session has been shown stays as it was, and where it was."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client

from jazz_select.routing import Tool
from jazz_select.service.agents import ServedAgents
from jazz_select.service.mcp import meta_tools
from jazz_select.service.mcp.agent_server import AgentServer
from jazz_select.service.mcp.meta_tools import OwnList
from tests.clock import until
from tests.unit.service.mcp.desk import catalogue, data, entry, gateway, over_http, own_tools, served, server_file

FOUR = [tool.name for tool in meta_tools.META_TOOLS]
HUNDREDS = """
def make(number):
    def tool(text: str = "") -> str:
        return f"tool {number}: {text}"

    return tool


VERBS = ("create", "delete", "list", "rename", "share", "archive")
THINGS = ("folder", "playlist", "invoice", "meeting", "contact", "ticket", "photo", "branch", "budget", "survey")
TIMES = ("daily", "weekly", "monthly", "yearly", "old")
for number in range(300):
    verb, thing, time = VERBS[number % 6], THINGS[number // 6 % 10], TIMES[number // 60]
    server.add_tool(make(number), name=f"{verb}_{time}_{thing}", description=f"{verb} the {time} {thing}.",
                    annotations=READS)
"""


@pytest.mark.programs
@pytest.mark.spec("008.3")
async def test_three_hundred_tools_stand_behind_four(tmp_path: Path) -> None:
    shop = entry(server_file(tmp_path, HUNDREDS))
    async with (
        catalogue(own_tools([])) as running,
        gateway({"office": shop}) as made,
        served(AgentServer(running, made)) as client,
    ):
        assert len(made.tools) == 300
        listing = await client.list_tools()
        assert [tool.name for tool in listing.tools] == FOUR
        for request, name in (
            ("share the weekly playlist", "office.share_weekly_playlist"),
            ("delete the old invoice", "office.delete_old_invoice"),
        ):
            found = data(await client.call_tool("search_tools", {"request": request, "limit": 5}))
            assert len(found["tools"]) == 5
            assert name in [tool["name"] for tool in found["tools"]]
            assert not found["notes"]
            result = await client.call_tool("call_tool", {"name": name, "arguments": {"text": "x"}})
            assert not result.is_error
        unknown = await client.call_tool("call_tool", {"name": "zzz"})
        assert len(orjson.dumps(unknown.model_dump(mode="json"))) < 3_000
        after = await client.list_tools()
        assert after.tools == listing.tools


@pytest.mark.programs
@pytest.mark.spec("008.3")
async def test_what_a_search_found_is_listed_at_the_end_and_stays(tmp_path: Path) -> None:
    heard: list[str] = []

    async def hear(message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            heard.append("tools")

    async with (
        catalogue(own_tools([])) as running,
        gateway({"office": entry(server_file(tmp_path, HUNDREDS))}) as made,
        served(AgentServer(running, made, listed="found"), message_handler=hear) as client,
    ):
        lists = [[tool.name for tool in (await client.list_tools()).tools]]
        for request in ("share the weekly playlist", "delete the old invoice", "share the weekly playlist"):
            await client.call_tool("search_tools", {"request": request, "limit": 3})
            lists.append([tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools])
        assert lists[0] == FOUR
        assert [len(each) for each in lists] == [4, 7, 10, 10]
        for earlier, later in pairwise(lists):
            assert later[: len(earlier)] == earlier
        await until(lambda: len(heard) == 2)
        direct = await client.call_tool(lists[-1][4], {"text": "x"})
        assert not direct.is_error


def tool(name: str, about: str = "d") -> Tool:
    return Tool(name=name, description=about)


def listed(own: OwnList) -> list[tuple[str, str | None]]:
    return [(each.name, each.description) for each in own.values()]


def test_a_list_only_grows_at_its_end_and_never_changes() -> None:
    own = OwnList("s")
    assert own.add([tool("b"), tool("a")], ())
    assert own.add([tool("new"), tool("a", "changed")], ())
    assert not own.add([tool("a", "changed")], ())
    assert listed(own) == [("b", "d"), ("a", "d"), ("new", "d")]
    for number in range(500):
        own.add([tool(f"x{number}")], (), 128)
    assert len(own) == 128


@pytest.mark.parametrize(("mode", "more"), [("legacy", ["cancel_order"]), ("auto", [])])
async def test_what_a_session_found_is_its_own_and_without_one_nothing_is_kept(mode: str, more: list[str]) -> None:
    async def names(client: Client) -> list[str]:
        return [each.name for each in (await client.list_tools(cache_mode="refresh")).tools]

    async with catalogue(own_tools([])) as running:
        agents = ServedAgents({running.agent_id: running}, is_open=True)
        async with (
            over_http(agents, make=lambda each: AgentServer(each, listed="found")) as url,
            Client(streamable_http_client(url), mode=mode) as client,
            Client(streamable_http_client(url), mode=mode) as other,
        ):
            await client.call_tool("search_tools", {"request": "cancel an order", "limit": 1})
            assert (await names(client), await names(other)) == ([*FOUR, *more], FOUR)


async def test_a_search_goes_on_by_words_where_the_index_fails() -> None:
    tools = [Tool(name=f"{verb}_order", description=f"To {verb} an order.") for verb in ("find", "cancel", "send")]
    async with catalogue(tools) as running, served(AgentServer(running)) as client:
        await running.memory.close()
        found: dict[str, Any] = data(await client.call_tool("search_tools", {"request": "send an order", "limit": 2}))
        assert "send_order" in [each["name"] for each in found["tools"]]
        assert len(found["tools"]) == 2
        assert "the index failed" in found["notes"][0]
