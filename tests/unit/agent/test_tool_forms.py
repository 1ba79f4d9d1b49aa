"""Every door takes tools in every form that callers have them in, and a text as what the user says."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from jazz_select import Agent, Flow, FlowRegistry, FlowSelector, respond, tool_from_function
from jazz_select.agent import finalize, run_chain
from jazz_select.errors import ConfigError
from jazz_select.memory.procedural import ProceduralMemory
from jazz_select.routing import ChainAnalyzer, FlowExecutor, Plan, PlanStep, ToolAsker, ToolRecall, run_plan, sync_tools
from jazz_select.routing.names.resolution import NameIndex, resolve
from jazz_select.routing.tools.tool_loading import load_tools
from jazz_select.testing import HashEmbedder, ListMemory, ScriptedModel
from jazz_select.values import Message
from tests.unit.agent.support import call
from tests.unit.selector.shop import metadata

FILE = """
from jazz_select import tool_from_function

def add(one: int, two: int) -> int:
    \"\"\"Add numbers.\"\"\"
    return one + two

def halve(number: int) -> float:
    \"\"\"Halve a number.\"\"\"
    return number / 2

TOOLS = [add, halve]
"""
ASK = "What is 1 + 2?"
CALL = call("add", one=1, two=2)


def add(one: int, two: int) -> int:
    """Add numbers."""
    return one + two


def add_loosely(one: int, two: int) -> int:
    """Add numbers, by another name."""
    return one + two


def halve(number: int) -> float:
    """Halve a number."""
    return number / 2


def loaded(folder: Path) -> object:
    file = folder / "sums.py"
    file.write_text(FILE, "utf-8")
    return load_tools(file)


FORMS: dict[str, Callable[[Path], object]] = {
    "load_tools": loaded,
    "mapping": lambda _: {"add": tool_from_function(add), "halve": halve},
    "functions by name": lambda _: {"add": add_loosely, "halve": halve},
    "list": lambda _: [tool_from_function(add), tool_from_function(halve)],
    "functions": lambda _: [add, halve],
    "mixed": lambda _: (add, tool_from_function(halve)),
    "generator": lambda _: (each for each in (add, tool_from_function(halve))),
    "values": lambda folder: load_tools(folder / "sums.py").values() if loaded(folder) else (),
}


async def executor(tools: Any) -> object:
    return (await FlowExecutor(tools).run(["add"], {"one": 1, "two": 2})).records[0].output


async def plan(tools: Any) -> object:
    steps = (PlanStep(id="s", tool="add", arguments={"one": 1, "two": 2}),)
    return (await run_plan(Plan.from_steps(steps), tools)).outputs["s"]


async def chained(tools: Any) -> object:
    chain = await run_chain(ScriptedModel(CALL, "3"), ASK, tools)
    return next(each.output for each in chain.entries if each.kind == "result")


async def responded(tools: Any) -> object:
    answer = await respond(ScriptedModel(CALL, "3", "3"), ASK, tools, {"type": "integer"})
    assert answer.chain.messages == (Message(role="user", content=ASK),)
    return answer.value


async def asker(tools: Any) -> object:
    choice = await ToolAsker(ScriptedModel(CALL), tools).ask(ASK)
    assert choice.tools_shown == ("add", "halve")
    return 3


async def index(tools: Any) -> object:
    found = NameIndex(tools)
    assert found.names == ("add", "halve")
    return 3


async def resolved(tools: Any) -> object:
    assert getattr(resolve("Add", tools).tool, "name", "") == "add"
    return 3


async def analyzer(tools: Any) -> object:
    assert list(ChainAnalyzer(tools).toolbox) == ["add", "halve"]
    return 3


async def recalled(tools: Any) -> object:
    found = await ToolRecall(ListMemory(), "a").recall("add", tools)
    assert [each.name for each in found] == ["add", "halve"]
    return 3


async def synced(tools: Any) -> object:
    async with await ProceduralMemory.open(":memory:", embedder=HashEmbedder()) as memory:
        assert len((await sync_tools(memory, "a", tools)).created) == 2
    return 3


async def agent(tools: Any) -> object:
    registry = FlowRegistry(min_examples=0)
    flow = Flow(name="sum", tools=["add"], registry=registry)
    vars(flow)["chain"] = ("add",)
    given = Agent(FlowSelector(None, registry, ListMemory(metadata("sum")), "a"), tools)
    result = await given.turn("sum", context={"one": 1, "two": 2})
    return result.runs[0].steps[0].output


DOORS: tuple[Callable[[Any], Awaitable[object]], ...] = (
    *(executor, plan, chained, responded, asker, index, resolved, analyzer, recalled, synced, agent),
)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
async def test_every_door_takes_tools_in_every_form(
    door: Callable[[Any], Awaitable[object]], form: Callable[[Path], object], tmp_path: Path
) -> None:
    assert await door(form(tmp_path)) == 3


WRONG: dict[str, tuple[object, str]] = {
    "a name": ("flows", "load_tools reads what stands in a package"),
    "one tool": (tool_from_function(add), "put a single one in a list"),
    "one function": (add, "put a single one in a list"),
    "nothing": (None, "a list of Tools and functions, or what load_tools returns, got None"),
    "a number": (3, "a list of Tools and functions"),
    "names in a list": (["refund"], r"got the name 'refund'; of what load_tools returns, \.values\(\) are the tools"),
    "a number in a list": ([3], "tools must be Tools or functions"),
    "a class in a list": ([ProceduralMemory], "tools must be Tools or functions"),
    "another name": ({"sum": tool_from_function(add)}, "calls one 'sum' that calls itself 'add'"),
    "no name": ({1: add}, "keys of a mapping of tools must be their names"),
}


@pytest.mark.parametrize(("given", "problem"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
async def test_every_door_says_what_it_expects(
    door: Callable[[Any], Awaitable[object]], given: object, problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        await door(given)


async def test_a_text_is_put_into_a_schema_as_what_a_user_says() -> None:
    model = ScriptedModel("12900")
    formatted = await finalize(model, "It cost 129.00 EUR; in cents?", {"type": "integer"})
    assert formatted.value == 12900
    assert '[user] "It cost 129.00 EUR; in cents?"' in model.calls[0][0].content


SAID: dict[str, tuple[object, str]] = {
    "nothing": ("  ", "messages is empty"),
    "no messages": ((), "messages is empty"),
    "a number": (3, "a text, which is what the user says, or a list of Messages, got 3"),
    "texts": (["hello"], "a list of Messages, got"),
}


@pytest.mark.parametrize(("given", "problem"), SAID.values(), ids=SAID)
async def test_what_is_no_message_is_refused(given: Any, problem: str) -> None:
    for asked in (run_chain(ScriptedModel("x"), given), respond(ScriptedModel("x"), given, (), {"type": "string"})):
        with pytest.raises(ConfigError, match=problem):
            await asked
    with pytest.raises(ConfigError, match="chain must be a Chain"):
        await finalize(ScriptedModel("x"), 3, {"type": "string"})  # pyright: ignore[reportArgumentType]
