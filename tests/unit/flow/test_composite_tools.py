"""The tools of flows made of flows."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from jazz_select import ConditionalFlow, Flow, FlowRegistry, FlowSelector, ParallelFlow, SequentialFlow, Tool
from jazz_select.agent import Agent
from jazz_select.errors import ConfigError, FlowValidationError, UnconnectedToolsError
from jazz_select.flow.composite import flow_data, flow_of

pytestmark = pytest.mark.spec("009.4")
FIVE = ("one", "two", "three", "four", "five")


@pytest.fixture
def registry() -> FlowRegistry:
    return FlowRegistry()


def leaf(registry: FlowRegistry, name: str, *tools: str, **given: Any) -> Flow:
    return Flow(
        name=name,
        description="d",
        condition=f"when {name}",
        desired_effects=["e"],
        examples=FIVE,
        tools=tools,
        registry=registry,
        **given,
    )


def sequence(registry: FlowRegistry, *flows: Any, tools: Sequence[str] | None = None) -> SequentialFlow:
    return SequentialFlow(name="s", description="d", examples=FIVE, flows=flows, tools=tools, registry=registry)


def test_a_composite_has_the_tools_of_its_parts_each_once_and_in_order(registry: FlowRegistry) -> None:
    inner = ParallelFlow(
        name="inner", description="d", examples=FIVE, flows=[leaf(registry, "b", "y", "x")], registry=registry
    )
    whole = sequence(registry, leaf(registry, "a", "x", "z"), inner, tools=["own", "z"])
    assert whole.tools == ("own", "z", "x", "y")
    assert inner.tools == ("y", "x")
    assert tuple(whole.own_tools) == ("own", "z")


def test_of_a_conditional_flow_those_of_every_branch(registry: FlowRegistry) -> None:
    parts = [leaf(registry, name, name.upper()) for name in "abc"]
    whole = ConditionalFlow(
        name="one_of",
        description="d",
        examples=FIVE,
        branches=[("when a", parts[0]), ("when b", parts[1])],
        otherwise=parts[2],
        registry=registry,
    )
    assert whole.tools == ("A", "B", "C")


def test_a_class_says_its_own_and_may_name_parts_that_come_later(registry: FlowRegistry) -> None:
    class Both(SequentialFlow, registry=registry):
        """Both."""

        name = "both"
        tools = ["own"]  # noqa: RUF012 - as authors write it
        flows = ("first", "second")
        examples = FIVE

    flow = registry.by_name("both")
    assert isinstance(flow, Both)
    assert tuple(Both.tools) == tuple(flow.own_tools) == ("own",)
    with pytest.raises(FlowValidationError, match="'first' is not in the same registry"):
        assert flow.tools
    leaf(registry, "first", "a")
    leaf(registry, "second", "b", "a")
    assert flow.tools == ("own", "a", "b")
    leaf(registry, "second", "c", replace=True)
    assert flow.tools == ("own", "a", "c"), "looked up anew"


def test_what_a_composite_says_of_itself_is_as_it_was(registry: FlowRegistry) -> None:
    """Its parts say what they need: prompt, checksum and data hold each name where it was written."""
    whole = sequence(registry, leaf(registry, "a", "x"), tools=["own"])
    prompt = whole.build_prompt(verbose=False)
    assert prompt.count("<tool>own</tool>") == prompt.count("<tool>x</tool>") == 1
    assert whole.definition().tools == whole.card().tools == ("own",)
    travelled = flow_of(flow_data(whole))
    assert travelled.compute_checksum() == whole.compute_checksum()
    assert travelled.tools == whole.tools == ("own", "x")


def test_an_optional_tool_of_a_composite_is_one_of_its_own(registry: FlowRegistry) -> None:
    part = leaf(registry, "a", "x")
    with pytest.raises(FlowValidationError, match="'x', is not among the flow's tools"):
        SequentialFlow(name="s", description="d", examples=FIVE, flows=[part], optional_tools=["x"], registry=registry)


PARTS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "one that is there": ({}, ("x",)),
    "one that can do without": ({"optional_tools": ["x"]}, ()),
    "a person's to do": ({"manual": True}, ()),
}


@pytest.mark.parametrize(("given", "lacking"), PARTS.values(), ids=PARTS)
@pytest.mark.spec("010.6")
def test_a_composite_lacks_what_its_parts_lack(
    registry: FlowRegistry, given: dict[str, Any], lacking: tuple[str, ...]
) -> None:
    whole = sequence(registry, leaf(registry, "a", "x", **given), tools=["own"])
    assert whole.lacks(["own"]) == lacking
    assert whole.lacks(["x"]) == ("own",)


@pytest.mark.spec("010.6")
def test_a_part_in_no_registry_of_the_agent_is_asked_for_its_tools(registry: FlowRegistry) -> None:
    sequence(registry, leaf(FlowRegistry(), "elsewhere", "nowhere"))
    with pytest.raises(UnconnectedToolsError) as raised:
        Agent(FlowSelector(None, registry), [Tool(name="other", function=dict)])
    assert raised.value.missing == {"s": ("nowhere",)}


def test_parts_that_cannot_be_found_lack_nothing_here(registry: FlowRegistry) -> None:
    assert sequence(registry, "later", tools=["own"]).lacks(()) == ("own",)


def test_of_what_travels_only_one_part_is_for_all_other_cases(registry: FlowRegistry) -> None:
    """Of several without a condition, none may vanish unsaid."""
    one, other = leaf(registry, "one"), leaf(registry, "other")
    whole = ConditionalFlow(
        name="w", description="d", examples=FIVE, branches=[("it is small", one)], otherwise=other, registry=registry
    )
    data = flow_data(whole)
    data |= {"parts": tuple(replace(part, when="") for part in data["parts"])}
    with pytest.raises(ConfigError, match="must say when it is taken"):
        flow_of(data)
