"""Lists of tools: hundreds stay behind four, and what a session has been shown stays as it was, and where it was."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest
from mcp import types

from jazz_select.routing import Tool
from jazz_select.service.mcp import meta_tools
from jazz_select.service.mcp.agent_server import AgentServer
from jazz_select.service.mcp.meta_tools import Listings
from tests.clock import until
from tests.unit.service.mcp.desk import catalogue, data, entry, gateway, own_tools, served, server_file

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


def listed(listings: Listings, session: str, *tools: Tool) -> list[tuple[str, str | None]]:
    found = listings.of(session, {each.name: each for each in tools}, ())
    return [(each.name, each.description) for each in found]


def test_a_list_of_all_only_grows_at_its_end_and_never_changes() -> None:
    listings = Listings("all")
    first = listed(listings, "s", tool("b"), tool("a"))
    assert first == [("b", "d"), ("a", "d")]
    grown = listed(listings, "s", tool("new"), tool("a", "changed"))
    assert grown == [*first, ("new", "d")]
    assert listed(listings, "t", tool("a", "changed")) == [("a", "changed")]


def test_sessions_find_for_themselves_and_no_more_than_they_may() -> None:
    listings = Listings("found")
    assert listings.found("s", [tool("a")], ())
    assert not listings.found("s", [tool("a", "changed")], ())
    assert listed(listings, "s") == [("a", "d")]
    assert listed(listings, "t") == []
    assert not listings.found("", [tool("a")], ())
    for number in range(500):
        listings.found("s", [tool(f"x{number}")], ())
    assert len(listed(listings, "s")) == 128
    assert not Listings("none").found("s", [tool("a")], ())


async def test_a_search_goes_on_by_words_where_the_index_fails() -> None:
    tools = [Tool(name=f"{verb}_order", description=f"To {verb} an order.") for verb in ("find", "cancel", "send")]
    async with catalogue(tools) as running, served(AgentServer(running)) as client:
        await running.memory.close()
        found: dict[str, Any] = data(await client.call_tool("search_tools", {"request": "send an order", "limit": 2}))
        assert "send_order" in [each["name"] for each in found["tools"]]
        assert len(found["tools"]) == 2
        assert "the index failed" in found["notes"][0]
