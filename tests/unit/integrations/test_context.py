"""Who the user is, at the doors of other frameworks: it comes by their own means, and no model may write it."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, TypedDict

import pytest
from agents import Agent as SdkAgent
from langchain_core.messages import HumanMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.messages import ToolReturnPart

from jazz_select import Flow, FlowRegistry, FlowSelector, FromContext, Tool, tool_from_function
from jazz_select.integrations.langgraph import FlowNodes, FlowState
from jazz_select.integrations.openai_agents import FlowAgentParts
from jazz_select.integrations.pydantic_ai import FlowToolset
from jazz_select.integrations.pydantic_ai_capability import FlowCapability
from jazz_select.integrations.toolkit import FlowToolkit, context_in
from jazz_select.testing import ListMemory
from tests.unit.integrations import test_langgraph, test_openai_agents, test_pydantic_ai

pytestmark = pytest.mark.spec("017.2")
QUESTION = "Does ada have Dune at home?"
ADA = {"title": "Dune", "member": "ada"}
BEN = {"member": "ben"}
KEYS = {"query.member": "user_id"}
Log = list[tuple[str, str]]


def loan_tool(log: Log, *, declared: bool = False) -> Tool:
    def find_loan(title: str, member: str) -> dict[str, str]:
        """Find a loan by the book's title."""
        log.append((title, member))
        return {"due": "2026-06-01"}

    if declared:
        find_loan.__annotations__["member"] = Annotated[str, FromContext]
    return tool_from_function(find_loan, read_only=True)


def loan_door(
    log: Log, guard_saw: list[Any] | None = None, *, declared: bool = False, tool: Tool | None = None
) -> FlowToolkit:
    registry = FlowRegistry(min_examples=0)

    class LookUp(Flow):
        def available(self, context: Any) -> bool:
            if guard_saw is not None:
                guard_saw.append(dict(context or {}))
            return True

    options: dict[str, Any] = {"description": "Say.", "desired_effects": ["it is known"], "examples": [QUESTION]}
    flow = LookUp(name="look_up", tools=["find_loan"], steps=["Find it."], registry=registry, **options)
    memory = ListMemory([{"flow_id": flow.id, "flow_name": flow.name, "score": 1.0}])
    return FlowToolkit(FlowSelector(None, registry, memory, "library"), [tool or loan_tool(log, declared=declared)])


class Seen(NamedTuple):
    """What a run came to: the schemas that the model was shown, and what it was answered."""

    schemas: list[Any]
    answers: list[str]


async def in_toolset(door: FlowToolkit, deps: Any, more: Any = None) -> Seen:
    script = test_pydantic_ai.Script([test_pydantic_ai.call("find_loan", **ADA)])
    agent = Agent(script.model, toolsets=[FlowToolset(door, context=more)], deps_type=object)
    result = await agent.run(QUESTION, deps=deps)
    schemas = [tool.parameters_json_schema for _, info in script.seen for tool in info.function_tools]
    parts = [part for each in result.all_messages() for part in each.parts if isinstance(part, ToolReturnPart)]
    return Seen(schemas, [part.model_response_str() for part in parts])


async def in_capability(door: FlowToolkit, deps: Any, more: Any = None) -> Seen:
    script = test_pydantic_ai.Script([test_pydantic_ai.call("find_loan", **ADA)])
    function: Any = door.tools["find_loan"].function
    agent = Agent(script.model, capabilities=[FlowCapability(door, context=more)], deps_type=object)

    @agent.tool_plain
    def find_loan(title: str, member: str) -> Any:
        return function(title=title, member=member)

    result = await agent.run(QUESTION, deps=deps)
    schemas = [tool.parameters_json_schema for _, info in script.seen for tool in info.function_tools]
    parts = [part for each in result.all_messages() for part in each.parts if isinstance(part, ToolReturnPart)]
    return Seen(schemas, [part.model_response_str() for part in parts])


async def in_langgraph(door: FlowToolkit, context: Any, more: Any = None) -> Seen:
    model = test_langgraph.fake(test_langgraph.calls(("find_loan", ADA)))
    nodes = FlowNodes(door, context=more and (lambda _: more(None)))

    async def reply(state: FlowState) -> dict[str, Any]:
        messages = [SystemMessage(state["prompt"]), *state["messages"]]
        return {"messages": [await model.bind_tools(nodes.schemas(state)).ainvoke(messages)]}

    def following(state: FlowState) -> str:
        return "call" if getattr(state["messages"][-1], "tool_calls", None) else END

    options: dict[str, Any] = {} if context is None else {"context_schema": type(context)}
    made: Any = StateGraph(FlowState, **options)
    made.add_node("select", nodes.select)
    made.add_node("reply", reply)
    made.add_node("call", nodes.call)
    made.add_edge(START, "select")
    made.add_edge("select", "reply")
    made.add_conditional_edges("reply", following)
    made.add_edge("call", "reply")
    graph = made.compile(checkpointer=InMemorySaver())
    state = await graph.ainvoke({"messages": [HumanMessage(QUESTION)]}, test_langgraph.THREAD, context=context)
    return Seen(model.bound, [text for text, _ in test_langgraph.answers(state)])


class SchemaScript(test_openai_agents.Script):
    """The scripted model of the SDK, which writes down the schemas as well."""

    def __init__(self, *replies: list[Any]) -> None:
        super().__init__(*replies)
        self.schemas: list[Any] = []

    async def get_response(self, *given: Any, **named: Any) -> Any:
        self.schemas += [tool.params_json_schema for tool in named["tools"]]
        return await super().get_response(*given, **named)


async def in_agents_sdk(door: FlowToolkit, context: Any, more: Any = None) -> Seen:
    script = SchemaScript([test_openai_agents.call("find_loan", ADA)])
    parts = FlowAgentParts(door, context=more)
    agent: SdkAgent[Any] = SdkAgent(
        name="desk", model=script, instructions=parts.instructions("You work here."), tools=[*parts.tools]
    )
    await test_openai_agents.run(agent, QUESTION, context=context)
    return Seen(script.schemas, script.answers())


Door = Callable[..., Any]
DOORS: list[Any] = [
    pytest.param(in_toolset, id="pydantic-ai toolset"),
    pytest.param(in_capability, id="pydantic-ai capability"),
    pytest.param(in_langgraph, id="LangGraph"),
    pytest.param(in_agents_sdk, id="OpenAI Agents SDK"),
]


@dataclass
class Member:
    member: str
    role: str = "reader"


class Reader(BaseModel):
    member: str


class Session(TypedDict):
    member: str


CONTEXTS: list[Any] = [
    pytest.param({"member": "ben"}, id="mapping"),
    pytest.param(Member("ben"), id="dataclass"),
    pytest.param(Reader(member="ben"), id="model"),
    pytest.param({"Member": "ben", "role": None}, id="other spelling"),
]


@pytest.mark.spec("017.1")
@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("declared", [False, True], ids=["by name", "declared"])
async def test_a_framework_works_for_who_is_signed_in(door: Door, context: Any, declared: bool) -> None:
    log: Log = []
    seen = await door(loan_door(log, declared=declared), context)
    assert log == [("Dune", "ben")]
    assert seen.schemas
    assert "title" in json.dumps(seen.schemas)
    assert "member" not in json.dumps(seen.schemas)
    if door is not in_capability:  # there pydantic-ai makes the call, and its result is as it is
        assert "were not used" in seen.answers[0]


def saying(found: Mapping[str, object]) -> Callable[[object], Mapping[str, object]]:
    return lambda _: found


@pytest.mark.parametrize("door", DOORS)
async def test_a_function_says_more_than_the_framework(door: Door) -> None:
    log: Log = []
    await door(loan_door(log), None, saying(BEN))
    assert log == [("Dune", "ben")]


@pytest.mark.parametrize("door", DOORS)
async def test_a_function_may_take_a_name_out(door: Door) -> None:
    log: Log = []
    seen = await door(loan_door(log), {"member": "ben"}, saying({"member": None}))
    assert log == [("Dune", "ada")]
    assert "member" in json.dumps(seen.schemas)


@pytest.mark.parametrize("door", DOORS)
async def test_guards_look_at_the_same_context(door: Door) -> None:
    saw: list[Mapping[str, Any]] = []
    await door(loan_door([], saw), {"member": "ben"})
    assert {"member": "ben"} in saw


@pytest.mark.spec("017.1")
@pytest.mark.parametrize("door", [*DOORS[:1], *DOORS[2:]])
async def test_a_declared_name_that_is_not_there_is_named(door: Door) -> None:
    log: Log = []
    seen = await door(loan_door(log, declared=True), None)
    assert log == []
    assert "it needs 'member' from the context" in seen.answers[0]


@pytest.mark.spec("017.1")
async def test_runs_side_by_side_are_each_for_their_own_user() -> None:
    log: Log = []
    door = loan_door(log)
    for run in (in_toolset, in_langgraph, in_agents_sdk):
        log.clear()
        await asyncio.gather(*(run(door, {"member": name}) for name in ("ben", "eve", "joe")))
        assert sorted(log) == [("Dune", "ben"), ("Dune", "eve"), ("Dune", "joe")]


@pytest.mark.spec("017.1")
async def test_a_door_by_itself_binds_what_it_shows() -> None:
    log: Log = []
    door = loan_door(log)
    shown = await door.select(QUESTION, BEN)
    tool = shown.tools["find_loan"]
    assert list(tool.input_schema["properties"]) == ["title"]
    made = await door.call(tool, json.dumps(ADA), call_id="c1")
    assert (made.status, log) == ("ok", [("Dune", "ben")])
    assert made.notes == ("find_loan: the value given for 'member' was dropped, since only the context may give it",)


class Slotted:
    __slots__ = ("member",)

    def __init__(self) -> None:
        self.member = "ben"


class WithProperty:
    @property
    def member(self) -> str:
        return "ben"


class Named(NamedTuple):
    member: str = "ben"


READ: list[Any] = [
    pytest.param(Named(), {"member": "ben"}, id="a named tuple"),
    pytest.param(None, {}, id="nothing"),
    pytest.param("ben", {}, id="a text"),
    pytest.param(["ben"], {}, id="a list"),
    pytest.param(Slotted(), {"member": "ben"}, id="slots, as far as declared"),
    pytest.param(WithProperty(), {"member": "ben"}, id="a property, as far as declared"),
    pytest.param({"member": "ben", "flow_run": "r", 7: 8, "call": print}, {"member": "ben"}, id="what is no context"),
]


@pytest.mark.parametrize(("given", "found"), READ)
def test_what_counts_as_the_context_of_a_framework(given: Any, found: dict[str, Any]) -> None:
    assert context_in(given, [loan_tool([], declared=True)]) == found


class Query(BaseModel):
    title: str
    member: str


@pytest.mark.parametrize("kind", ["toolset", "capability"])
@pytest.mark.parametrize(("declared", "deps"), [([], BEN), (KEYS, {"user_id": "ben"})], ids=["by name", "declared"])
async def test_a_field_of_the_single_object_is_filled_in_pydantic_ai(kind: str, declared: Any, deps: Any) -> None:
    log: Log = []

    def find_loan(query: Query) -> dict[str, str]:
        """Find a loan by the book's title."""
        log.append((query.title, query.member))
        return {"due": "2026-06-01"}

    described = tool_from_function(find_loan, read_only=True, from_context=declared)
    door = loan_door(log, tool=described)
    is_toolset = kind == "toolset"
    given: dict[str, Any] = (
        {"query": ADA} if is_toolset else ADA
    )  # the framework shows the fields of a single model as the inputs
    script = test_pydantic_ai.Script([test_pydantic_ai.call("find_loan", **given)])
    options: Any = {"toolsets": [FlowToolset(door)]} if is_toolset else {"capabilities": [FlowCapability(door)]}
    agent = Agent(script.model, deps_type=object, **options)
    if not is_toolset:
        agent.tool_plain(find_loan)
    await agent.run(QUESTION, deps=deps)
    assert log == [("Dune", "ben")]
    schemas = [tool.parameters_json_schema for _, info in script.seen for tool in info.function_tools]
    assert "title" in json.dumps(schemas)
    assert "member" not in json.dumps(schemas)
