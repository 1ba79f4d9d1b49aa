"""An agent as an MCP server, asked by the official client in both ages of the protocol."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import fields
from typing import Any

import pytest
from mcp import MCPError, types

from jazz_select.errors import ConfigError
from jazz_select.routing import Tool
from jazz_select.service.api.models import UserQuestionBody
from jazz_select.service.mcp.agent_server import AgentServer
from jazz_select.service.mcp.meta_tools import SCHEMAS
from jazz_select.stages import UserQuestion
from tests.clock import until
from tests.unit.service.mcp.desk import (
    Calls,
    catalogue,
    data,
    flows,
    own_tools,
    said,
    served,
)

FOUR = ["select_flow", "list_flows", "search_tools", "call_tool"]
AGES = pytest.mark.parametrize("mode", ["legacy", "auto"])


@AGES
@pytest.mark.spec("008.3")
async def test_every_client_sees_the_same_four_tools(mode: str) -> None:
    async with catalogue(own_tools([])) as running, served(AgentServer(running), mode=mode) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == FOUR
        reads = [tool.name for tool in tools if tool.annotations is not None and tool.annotations.read_only_hint]
        assert reads == FOUR[:3]


@AGES
@pytest.mark.spec("008.3")
async def test_a_flow_is_chosen_with_its_prompt_and_why(mode: str) -> None:
    async with catalogue() as running, served(AgentServer(running), mode=mode) as client:
        found = data(await client.call_tool("select_flow", {"request": "I want a refund for my order of today"}))
        assert [flow["name"] for flow in found["flows"]] == ["refund_order"]
        assert '<flow name="refund_order"' in found["flows"][0]["prompt"]
        assert found["reason"] == "semantic"
        assert "the likeliest by recall" in found["why"]
        alone = await running.live.selector.select("I want a refund for my order of today")
        assert [each["name"] for each in found["candidates"]] == [each["flow_name"] for each in alone.candidates]


@pytest.mark.spec("008.3")
@pytest.mark.spec("009.2")
async def test_which_flow_is_meant_is_asked_and_the_answer_taken() -> None:
    async with catalogue(ask_user=True) as running, served(AgentServer(running)) as client:
        asked = data(await client.call_tool("select_flow", {"request": "something about my order"}))
        assert (asked["flows"], asked["reason"]) == ([], "ask")
        question = asked["question"]
        assert question["text"].startswith("Which of these do you mean?\n1. ")
        second = question["options"][1]["flow_name"]
        answered = data(await client.call_tool("select_flow", {"request": "the second one", "asked": question}))
        assert ([each["name"] for each in answered["flows"]], answered["reason"]) == ([second], "user")
        assert answered["question"] is None
        beyond = data(await client.call_tool("select_flow", {"request": "number 9", "asked": question}))
        assert beyond["question"]["again"]
        other = {**question, "options": [{**each, "flow_id": "no_such_flow"} for each in question["options"]]}
        gone = data(await client.call_tool("select_flow", {"request": "the second one", "asked": other}))
        assert gone["flows"] == [], "what there is not is not made up"


def test_all_that_a_question_says_can_be_given_back() -> None:
    said = {each.name for each in fields(UserQuestion)}
    by_mcp = SCHEMAS["select_flow"]["properties"]["asked"]["properties"]
    assert set(by_mcp) == set(UserQuestionBody.model_fields) == said


@pytest.mark.spec("008.3")
async def test_flows_are_listed_page_by_page_and_each_is_a_prompt() -> None:
    names = sorted(f"flow_{number:03}" for number in range(230))
    async with catalogue(registry=flows(names)) as running, served(AgentServer(running)) as client:
        listed: list[str] = []
        after: dict[str, Any] = {}
        while True:
            page = data(await client.call_tool("list_flows", after))
            listed += [flow["name"] for flow in page["flows"]]
            if page["next"] is None:
                break
            after = {"after": page["next"]}
        assert listed == names

        prompts: list[str] = []
        cursor: str | None = None
        while True:
            found = await client.list_prompts(cursor=cursor)
            prompts += [prompt.name for prompt in found.prompts]
            cursor = found.next_cursor
            if cursor is None:
                break
        assert prompts == names


@AGES
@pytest.mark.spec("008.3")
async def test_a_prompt_is_the_text_of_a_flow_and_the_request_after_it(mode: str) -> None:
    async with catalogue() as running, served(AgentServer(running), mode=mode) as client:
        plain = await client.get_prompt("track_order")
        asked = await client.get_prompt("track_order", {"request": "<b>where</b> is it?"})
        own = running.live.registry.by_name("track_order")
        assert own is not None
        texts = [[getattr(message.content, "text", "") for message in each.messages] for each in (plain, asked)]
        assert texts == [
            [own.build_prompt(verbose=False)],
            [own.build_prompt(verbose=False), "<b>where</b> is it?"],
        ]
        with pytest.raises(MCPError, match="list_flows names"):
            await client.get_prompt("no_such_flow")
        with pytest.raises(MCPError, match="Invalid cursor"):
            await client.list_prompts(cursor="\u00e9 is no cursor")


@pytest.mark.spec("008.3")
async def test_a_call_that_looks_is_made_and_its_output_is_data() -> None:
    calls: Calls = []
    async with catalogue(own_tools(calls)) as running, served(AgentServer(running)) as client:
        found = data(await client.call_tool("search_tools", {"request": "find an order"}))
        shown = {tool["name"]: tool for tool in found["tools"]}
        assert shown["look_up_order"]["input_schema"]["required"] == ["email"]
        assert shown["cancel_order"]["effect"] == "cannot be undone"
        result = await client.call_tool("call_tool", {"name": "look_up_order", "arguments": {"email": "a@b"}})
        assert data(result) == {"order": "A-a@b"}
        assert calls == [("look_up_order", {"email": "a@b"})]


WRONG: Mapping[str, tuple[str, dict[str, Any], str]] = {
    "no request": ("select_flow", {}, "'request' is a required property"),
    "a request of another kind": ("search_tools", {"request": 7}, "is not of type 'string'"),
    "an argument that there is not": ("list_flows", {"page": 2}, "'page' was unexpected"),
    "too many at once": ("search_tools", {"request": "x", "limit": 5_000}, "greater than the maximum"),
    "a question that is none": (
        "select_flow",
        {"request": "2", "asked": {"text": "which?"}},
        "'options' is a required",
    ),
    "a question with more in it": (
        "select_flow",
        {"request": "2", "asked": {"text": "which?", "options": [], "flow": "cancel_order"}},
        "Additional properties are not allowed",
    ),
    "a request without end": ("select_flow", {"request": "x" * 30_000}, "maxLength"),
    "a tool's arguments": ("call_tool", {"name": "look_up_order", "arguments": {"mail": "a"}}, "'email' is a required"),
    "arguments that are no object": ("call_tool", {"name": "look_up_order", "arguments": [1]}, "'object'"),
    "a tool that there is not": ("call_tool", {"name": "zzz"}, "no connected tool is like it"),
    "a name of another kind": ("call_tool", {"name": {}}, "is not of type 'string'"),
}


@pytest.mark.parametrize("case", WRONG)
async def test_what_is_wrong_is_said_so_that_a_model_can_mend_it(case: str) -> None:
    name, arguments, problem = WRONG[case]
    calls: Calls = []
    async with catalogue(own_tools(calls)) as running, served(AgentServer(running)) as client:
        result = await client.call_tool(name, arguments)
        assert result.is_error
        assert problem in said(result)
        assert calls == []


@pytest.mark.parametrize(
    ("name", "runs"),
    [("look_up_order", True), ("lookUpOrder", True), ("look-up_order", True), ("l\u043eok_up_order", False)],
)
async def test_a_near_miss_of_what_only_looks_is_taken_for_it(name: str, runs: bool) -> None:
    calls: Calls = []
    async with catalogue(own_tools(calls)) as running, served(AgentServer(running)) as client:
        result = await client.call_tool("call_tool", {"name": name, "arguments": {"email": "a@b"}})
        assert (result.is_error, len(calls)) == (not runs, int(runs))
        assert runs or "look_up_order" in said(result)


@pytest.mark.parametrize("name", ["cancelOrder", "cancel-order", "cancel", "c\u0430ncel_order", "CANCEL_ORDER"])
async def test_a_near_miss_of_what_destroys_is_only_suggested(name: str) -> None:
    calls: Calls = []
    async with (
        catalogue(own_tools(calls)) as running,
        served(AgentServer(running, approval="never")) as client,
    ):
        result = await client.call_tool("call_tool", {"name": name, "arguments": {"order": "7"}})
        assert result.is_error
        assert "cancel_order" in said(result)
        assert calls == []


async def test_a_tool_that_is_not_listed_is_called_by_its_exact_name_alone() -> None:
    async with catalogue(own_tools([])) as running, served(AgentServer(running)) as client:
        assert data(await client.call_tool("look_up_order", {"email": "a"})) == {"order": "A-a"}
        with pytest.raises(MCPError, match="search_tools finds"):
            await client.call_tool("lookUpOrder", {"email": "a"})


async def test_a_long_answer_is_cut_where_everybody_sees_it() -> None:
    def talk() -> str:
        return "word " * 200_000

    def rows() -> dict[str, list[str]]:
        return {"rows": ["row " * 20] * 5_000}

    tools = [Tool(name="talk", function=talk), Tool(name="rows", function=rows)]
    async with catalogue(tools) as running, served(AgentServer(running)) as client:
        for name in ("talk", "rows"):
            result = await client.call_tool("call_tool", {"name": name})
            assert not result.is_error
            assert 50 < len(said(result)) < 110_000
            assert result.structured_content is None
        assert "characters cut" in said(await client.call_tool("call_tool", {"name": "talk"}))


async def test_a_tool_that_fails_or_takes_too_long_says_what_is_known_of_it() -> None:
    async def hang() -> str:
        await asyncio.sleep(600)
        return ""

    def fail() -> str:
        msg = "the till is \u202e open"
        raise ValueError(msg)

    tools = [Tool(name="hang", function=hang), Tool(name="fail", function=fail)]
    async with catalogue(tools) as running, served(AgentServer(running, timeout_s=0.05)) as client:
        late = await client.call_tool("call_tool", {"name": "hang"})
        failed = await client.call_tool("call_tool", {"name": "fail"})
        assert late.is_error
        assert failed.is_error
        assert "may have been done" in said(late)
        assert '"status":"unknown"' in said(late)
        assert "the till is open" in said(failed)
        assert "\u202e" not in said(failed)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.spec("008.5")
async def test_a_reload_is_what_answers_from_then_on_and_clients_are_told(mode: str) -> None:
    heard: list[object] = []

    async def hear(message: object) -> None:
        if isinstance(message, types.PromptListChangedNotification):
            heard.append(message)

    async with (
        catalogue(own_tools([])) as running,
        served(AgentServer(running), mode=mode, message_handler=hear) as client,
        AsyncExitStack() as stack,
    ):
        if mode == "auto":
            await stack.enter_async_context(client.listen(prompts_list_changed=True))
        before = await client.list_prompts()
        gone = running.live.registry.by_name("track_order")
        assert gone is not None
        running.live.registry.unregister(gone)
        await running.reload()
        await until(lambda: heard)
        after = await client.list_prompts(cache_mode="refresh")
        assert len(after.prompts) == len(before.prompts) - 1


@pytest.mark.parametrize("option", [{"listed": "some"}, {"approval": "maybe"}, {"approve": 7}])
async def test_an_option_that_cannot_work_is_refused_when_the_server_is_made(option: dict[str, Any]) -> None:
    async with catalogue() as running:
        with pytest.raises(ConfigError):
            AgentServer(running, **option)
