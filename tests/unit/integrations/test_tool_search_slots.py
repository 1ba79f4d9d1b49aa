"""Tool search in the slots of pydantic-ai, FastMCP, LangChain and the Agents SDK, with their own loops."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from agents import Agent as SdkAgent
from agents import FunctionTool, RunConfig, Runner, function_tool
from fastmcp import Client, FastMCP
from fastmcp.server.transforms.search import serialize_tools_for_output_markdown
from langchain.agents import create_agent  # pyright: ignore[reportUnknownVariableType] - theirs
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import StructuredTool
from mcp.types import TextContent
from pydantic_ai import Agent, Tool
from pydantic_ai.capabilities import ToolSearch

from jazz_select.errors import ConfigError
from jazz_select.integrations.fastmcp import JazzSearchTransform
from jazz_select.integrations.langchain import JazzToolSelector
from jazz_select.integrations.openai_agents_tool_search import searched_tools
from jazz_select.integrations.pydantic_ai_tool_search import jazz_tool_search
from jazz_select.integrations.tool_search import NO_TOOL, SEARCH_TOOLS, ToolSearcher
from tests.unit.chat.loopback import Provider
from tests.unit.chat.protocols import CHAT, MESSAGES, RESPONSES, Protocol
from tests.unit.integrations.test_openai_agents import Script, call
from tests.unit.integrations.tool_list import ABOUT, NOTHING, REFUND

pytestmark = pytest.mark.spec("020.2")
FOUND, MISSED = "refund_order", "play_music"


@pytest.fixture
async def searcher() -> AsyncIterator[ToolSearcher]:
    async with ToolSearcher(embedder="static", top_k=2) as searcher:
        yield searcher


def functions() -> list[Any]:
    """The tools as functions of a text."""

    def function(name: str, about: str) -> Any:
        def answer(about: str) -> str:
            return f"{name}: {about}"

        answer.__name__, answer.__doc__ = name, about
        return answer

    return [function(name, about) for name, about in ABOUT.items()]


def names_of(request: dict[str, Any]) -> list[str]:
    """The names of the tools in a request to a provider, those that are held back left out."""
    found = [each.get("function", each) for each in request["tools"] if not each.get("defer_loading")]
    return [each.get("name", each.get("type")) for each in found]


def a_search(query: str) -> dict[str, Any]:
    return {"queries": [query]}


@pytest.mark.parametrize("query", [REFUND, NOTHING], ids=["found", "none"])
async def test_pydantic_ai_searches_by_a_function_where_the_provider_has_no_search(
    query: str, provider: Provider, searcher: ToolSearcher
) -> None:
    provider.script = [
        CHAT.calling("", [("s1", SEARCH_TOOLS, json.dumps(a_search(query)))]),
        CHAT.answer("Done.", "stop", 0),
    ]
    agent = Agent(
        CHAT.model,
        tools=[Tool(each, defer_loading=True) for each in functions()],
        capabilities=[ToolSearch(strategy=jazz_tool_search(searcher))],
        model_settings={"max_tokens": 100},
    )
    async with agent:
        assert (await agent.run("Please help.")).output == "Done."
    before, after = map(names_of, provider.requests)
    assert before == [SEARCH_TOOLS]
    assert (FOUND in after, MISSED in after) == (query == REFUND, False)
    ((_, told),) = CHAT.heard(provider.requests[1])
    assert ("No matching tools" in told) == (query == NOTHING)


def _searching(protocol: Protocol, query: str) -> dict[str, Any]:
    """An answer in which a provider's model searches, for the client to execute."""
    if protocol is MESSAGES:
        return MESSAGES.calling("", [("s1", SEARCH_TOOLS, json.dumps(a_search(query)))])
    item = {
        "type": "tool_search_call",
        "id": "tsc_1",
        "call_id": "s1",
        "execution": "client",
        "status": "completed",
        "arguments": a_search(query),
    }
    return {**RESPONSES.empty, "output": [item]}


@pytest.mark.parametrize(
    ("protocol", "model"),
    [
        pytest.param(RESPONSES, "openai:gpt-5.4", id="OpenAI: tool_search_output"),
        pytest.param(MESSAGES, "anthropic:claude-sonnet-4-6", id="Anthropic: tool_reference"),
    ],
)
async def test_pydantic_ai_answers_a_provider_s_own_search(
    protocol: Protocol, model: str, provider: Provider, searcher: ToolSearcher
) -> None:
    provider.script = [
        _searching(protocol, REFUND),
        protocol.calling("", [("c1", FOUND, '{"about": "A1"}')]),
        protocol.answer("Done.", "stop", 0),
    ]
    agent = Agent(
        model,
        tools=[Tool(each, defer_loading=True) for each in functions()],
        capabilities=[ToolSearch(strategy=jazz_tool_search(searcher))],
        model_settings={"max_tokens": 100},
    )
    async with agent:
        assert (await agent.run("Please help.")).output == "Done."
    answered = json.dumps(provider.requests[1].get("input") or provider.requests[1]["messages"])
    assert ("tool_search_output" if protocol is RESPONSES else "tool_reference") in answered
    assert FOUND in answered
    assert MISSED not in answered
    assert f'"{FOUND}: A1"' in json.dumps(provider.requests[2])


async def searched_by(client: Client[Any], query: str) -> str:
    """The text that a client is answered."""
    (content, *_) = (await client.call_tool(SEARCH_TOOLS, {"query": query})).content
    assert isinstance(content, TextContent)
    return content.text


async def test_fastmcp_lists_a_search_and_finds_tools_by_it(searcher: ToolSearcher) -> None:
    server = FastMCP("desk", transforms=[JazzSearchTransform(searcher, always_visible=["translate"])])
    for each in functions():
        server.tool(each)
    async with Client(server) as client:
        assert {tool.name for tool in await client.list_tools()} == {"translate", SEARCH_TOOLS, "call_tool"}
        found = json.loads(await searched_by(client, REFUND))
        assert found[0]["name"] == FOUND
        assert len(found) == 2
        assert await searched_by(client, NOTHING) == NO_TOOL
        made = await client.call_tool("call_tool", {"name": FOUND, "arguments": {"about": "A1"}})
        assert made.data == f"{FOUND}: A1"


async def test_fastmcp_finds_no_tool_that_a_client_may_not_see(searcher: ToolSearcher) -> None:
    server = FastMCP(
        "desk",
        transforms=[
            JazzSearchTransform(searcher, search_result_serializer=serialize_tools_for_output_markdown),
        ],
    )
    for each in functions():
        server.tool(each, tags={"secret"} if each.__name__ == FOUND else set())
    async with Client(server) as client:
        assert f"### {FOUND}" in (await searched_by(client, REFUND))
        server.disable(tags={"secret"})
        assert FOUND not in (await searched_by(client, REFUND))


class Seeing(GenericFakeChatModel):
    """Replies as it is told, and keeps the names of the tools that it was shown."""

    seen: list[list[str]] = []  # noqa: RUF012 - pydantic copies it

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        self.seen.append([each["name"] if isinstance(each, dict) else each.name for each in tools])
        return self


def selecting(searcher: ToolSearcher, *replies: AIMessage, **options: Any) -> tuple[Any, Seeing]:
    model = Seeing(messages=iter(replies))
    tools = [StructuredTool.from_function(each) for each in functions()]
    return create_agent(model, tools, middleware=[JazzToolSelector(searcher, **options)]), model


async def test_langchain_shows_the_tools_nearest_to_what_the_user_says(searcher: ToolSearcher) -> None:
    agent, model = selecting(searcher, AIMessage("Done."), max_tools=2, always_include=["play_music"])
    await agent.ainvoke({"messages": [HumanMessage(REFUND)]})
    (shown,) = model.seen
    assert {FOUND, "play_music"} <= {*shown}
    assert len(shown) == 3


async def test_langchain_keeps_the_tools_that_a_conversation_has_called(searcher: ToolSearcher) -> None:
    calls = AIMessage("", tool_calls=[{"name": FOUND, "args": {"about": "A1"}, "id": "c1"}])
    agent, model = selecting(searcher, calls, AIMessage("Done."), AIMessage("Sunny."), max_tools=1)
    state = await agent.ainvoke({"messages": [HumanMessage(REFUND)]})
    await agent.ainvoke({"messages": [*state["messages"], HumanMessage("will it rain in Oslo, Bergen or Narvik?")]})
    assert FOUND in model.seen[0]
    assert {FOUND, "get_weather"} == {*model.seen[-1]}


def function_tools(**options: Any) -> list[FunctionTool]:
    return [function_tool(each, **options) for each in functions()]


async def run(script: Script, tools: list[FunctionTool], context: Any) -> Any:
    agent = SdkAgent(name="desk", model=script, tools=[*tools])
    return await Runner.run(agent, "Please help.", context=context, run_config=RunConfig(tracing_disabled=True))


async def test_the_agents_sdk_enables_a_tool_once_it_was_found(searcher: ToolSearcher) -> None:
    script = Script([call(SEARCH_TOOLS, {"query": REFUND})], [call(FOUND, {"about": "A1"}, "c2")])
    context: dict[str, Any] = {}
    await run(script, searched_tools(function_tools(), searcher), context)
    first, second, third = (tools for _, tools, _ in script.seen)
    assert first == [SEARCH_TOOLS]
    assert second == third
    assert FOUND in second
    assert MISSED not in second
    assert script.answers()[-1] == f"{FOUND}: A1"
    later = Script()
    await run(later, searched_tools(function_tools(), searcher), json.loads(json.dumps(context)))
    assert {*later.seen[0][1]} == {*second}


async def test_the_agents_sdk_is_told_that_none_fits(searcher: ToolSearcher) -> None:
    script = Script([call(SEARCH_TOOLS, {"query": NOTHING})])
    await run(script, searched_tools(function_tools(), searcher), {})
    assert script.answers() == [NO_TOOL]
    assert script.seen[-1][1] == [SEARCH_TOOLS]


@pytest.mark.parametrize("arguments", ["{", "[]", '{"query": 7}', "{}"])
async def test_the_agents_sdk_reads_whatever_a_model_gives(arguments: str, searcher: ToolSearcher) -> None:
    script = Script([call(SEARCH_TOOLS, arguments)])
    await run(script, searched_tools(function_tools(), searcher), {})
    assert script.answers() == [NO_TOOL]


async def test_the_agents_sdk_keeps_what_disables_a_tool(searcher: ToolSearcher) -> None:
    script = Script([call(SEARCH_TOOLS, {"query": REFUND})])
    await run(script, searched_tools(function_tools(is_enabled=False), searcher), {})
    assert script.seen[-1][1] == [SEARCH_TOOLS]


def test_the_agents_sdk_takes_no_tool_that_is_called_as_the_search() -> None:
    with pytest.raises(ConfigError, match="a tool is called 'search_tools'"):
        searched_tools([*function_tools(), function_tools(name_override=SEARCH_TOOLS)[0]])


async def test_a_run_that_can_keep_nothing_is_refused(searcher: ToolSearcher) -> None:
    script = Script([call(SEARCH_TOOLS, {"query": REFUND})])
    with pytest.raises(ConfigError, match="context"):
        await run(script, searched_tools(function_tools(), searcher), None)
