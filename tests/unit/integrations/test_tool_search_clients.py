"""Client-executed tool search with the vendors' own clients, against a provider on loopback."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from jazz_select import Tool
from jazz_select.errors import ConfigError
from jazz_select.integrations.anthropic_messages import MessagesToolSearch
from jazz_select.integrations.openai_responses import ResponsesToolSearch
from jazz_select.integrations.tool_search import NO_TOOL, SEARCH_TOOLS, ToolSearcher
from tests.unit.chat.loopback import Provider
from tests.unit.chat.protocols import MESSAGES, RESPONSES
from tests.unit.integrations.tool_list import ABOUT, NOTHING, REFUND, tools

pytestmark = pytest.mark.spec("020.2")
DOTTED = Tool(name="shop.drill", description="Drill a hole into the moon.", function=lambda: "drilled")


@pytest.fixture
async def searcher() -> AsyncIterator[ToolSearcher]:
    async with ToolSearcher([*tools(), DOTTED], embedder="static", top_k=2) as searcher:
        yield searcher


def searching(arguments: Any, *, execution: str = "client", call_id: str = "s1") -> dict[str, Any]:
    """An item of a response in which the model searches."""
    return {
        "type": "tool_search_call",
        "id": f"tsc_{call_id}",
        "call_id": call_id,
        "execution": execution,
        "status": "completed",
        "arguments": arguments,
    }


async def test_a_search_of_responses_is_answered_with_the_tools_that_fit(
    provider: Provider, searcher: ToolSearcher
) -> None:
    search = ResponsesToolSearch(searcher)
    provider.script = [
        {**RESPONSES.empty, "output": [searching({"query": NOTHING})]},
        RESPONSES.calling("", [("c1", "shop_drill", "{}")]),
    ]
    items: list[Any] = [{"role": "user", "content": "Please help."}]
    async with AsyncOpenAI(max_retries=0) as client:
        response = await client.responses.create(model="gpt-5.4", input=items, tools=[search.tool])  # pyright: ignore[reportArgumentType] - plain data
        answers = await search.answer(response.output)
        items += [*response.output, *answers]
        response = await client.responses.create(model="gpt-5.4", input=items, tools=[search.tool])  # pyright: ignore[reportArgumentType]
        assert await search.answer(response.output) == []
    first, second = provider.requests
    assert [(each["type"], each["execution"]) for each in first["tools"]] == [("tool_search", "client")]
    asked, answered = second["input"][1:]
    assert (asked["type"], answered["type"]) == ("tool_search_call", "tool_search_output")
    assert (answered["call_id"], answered["execution"], answered["status"]) == ("s1", "client", "completed")
    found = answered["tools"][0]
    assert (found["name"], found["type"], found["defer_loading"]) == ("shop_drill", "function", True)
    assert found["parameters"]["type"] == "object"
    called = next(each for each in response.output if each.type == "function_call")
    assert search.tools[called.name] is DOTTED


@pytest.mark.parametrize(
    ("item", "names"),
    [
        pytest.param(searching({"query": REFUND}), ["refund_order"], id="found"),
        pytest.param(searching({"query": "knead a sourdough overnight"}), [], id="none fits"),
        pytest.param(searching({}), [], id="no query"),
        pytest.param(searching(f'{{"query": "{REFUND}"}}'), ["refund_order"], id="a query as text"),
        pytest.param(searching("refund"), [], id="no object"),
        pytest.param(searching({"query": REFUND}, execution="server"), None, id="the provider's own search"),
    ],
)
async def test_what_a_model_searches_with_responses(
    item: dict[str, Any], names: list[str] | None, provider: Provider, searcher: ToolSearcher
) -> None:
    search = ResponsesToolSearch(searcher)
    provider.script = [{**RESPONSES.empty, "output": [item]}]
    async with AsyncOpenAI(max_retries=0) as client:
        response = await client.responses.create(model="gpt-5.4", input="Please help.")
    answers = await search.answer(response.output)
    assert [[tool["name"] for tool in each["tools"]][:1] for each in answers] == ([] if names is None else [names])


async def test_a_search_of_messages_is_answered_with_references(provider: Provider, searcher: ToolSearcher) -> None:
    search = MessagesToolSearch(searcher)
    provider.script = [
        MESSAGES.calling("", [("s1", SEARCH_TOOLS, f'{{"query": "{REFUND}"}}'), ("c0", "translate", "{}")]),
        MESSAGES.calling("", [("s2", SEARCH_TOOLS, '{"query": "knead a sourdough overnight"}')]),
    ]
    messages: list[Any] = [{"role": "user", "content": "Please help."}]
    answers: list[dict[str, Any]] = []
    async with AsyncAnthropic(max_retries=0) as client:
        for _ in range(2):
            message = await client.messages.create(
                model="claude-sonnet-4-6",
                max_tokens=100,
                tools=search.schemas,  # pyright: ignore[reportArgumentType] - plain data
                messages=messages,
            )
            answers = await search.answer(message.content)
            messages += [
                {"role": "assistant", "content": message.content},
                {"role": "user", "content": answers},
            ]
    first, second = provider.requests
    assert first["tools"] == second["tools"]
    assert [each["name"] for each in first["tools"] if not each.get("defer_loading")] == [SEARCH_TOOLS]
    assert {each["name"] for each in first["tools"] if each.get("defer_loading")} == {*ABOUT, "shop_drill"}
    (found,) = second["messages"][-1]["content"]
    assert (found["type"], found["tool_use_id"]) == ("tool_result", "s1")
    assert found["content"][0] == {"type": "tool_reference", "tool_name": "refund_order"}
    (missed,) = answers
    assert (missed["tool_use_id"], missed["content"]) == ("s2", [{"type": "text", "text": NO_TOOL}])
    assert search.tools["shop_drill"] is DOTTED


def test_a_tool_that_is_called_as_the_search_is_refused() -> None:
    tools = [Tool(name=SEARCH_TOOLS, description="Search a shed."), DOTTED]
    with pytest.raises(ConfigError, match="a tool is called 'search_tools', as the tool that searches"):
        MessagesToolSearch(tools)
    search = MessagesToolSearch(tools, name="find_tools")
    assert [each["name"] for each in search.schemas] == ["find_tools", SEARCH_TOOLS, "shop_drill"]


@pytest.mark.parametrize("slot", [ResponsesToolSearch, MessagesToolSearch])
def test_a_search_among_no_tools_is_refused(slot: Any) -> None:
    with pytest.raises(ConfigError, match="tools is empty"):
        slot([])
