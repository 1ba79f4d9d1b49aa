"""What a narrowed set keeps, what it leaves out and says so, and which tool a step stands for."""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from jazz_select.errors import ConfigError, ToolError
from jazz_select.routing import CHOOSE, ChainAnalyzer, FlowExecutor, Tool
from jazz_select.routing.decisions.decision_points import GuidedDecisionPoint, ToolCandidate
from jazz_select.routing.records import RunResult, StepRecord, promotions
from jazz_select.routing.tools.functions import tool_from_function
from jazz_select.values import Tier
from tests.unit.routing.shop import INTEGER, STRING, obj

NAMES = [f"act_{chr(97 + number)}" for number in range(15)]


class Naming:
    """Chooses a tool by its name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.shown: list[str] = []

    def decide(self, context: dict[str, Any], candidates: list[ToolCandidate], prompt: str) -> str:
        self.shown = [each.name for each in candidates]
        assert all(name in prompt for name in self.shown)
        return self.name


def acting(**_: object) -> dict[str, bool]:
    return {"done": True}


def pay(amount: int) -> dict[str, int]:
    return {"paid": amount}


def say(amount: str) -> dict[str, str]:
    return {"said": amount}


def many(takes: dict[str, Any]) -> list[Tool]:
    return [Tool(name=name, input_schema=takes, function=acting) for name in NAMES]


@pytest.mark.spec("005.13")
@pytest.mark.parametrize("takes", [obj({"order_id": STRING}), obj({})], ids=["an input", "none"])
async def test_all_that_an_author_names_are_shown(takes: dict[str, Any]) -> None:
    last = Naming(NAMES[-1])
    point = GuidedDecisionPoint(after_step="start", candidate_tools=NAMES)
    result = await FlowExecutor(many(takes), last).run([point], {"order_id": "A1"})
    assert last.shown == NAMES
    assert (result.status, result.records[0].tool, result.records[0].dropped) == ("ok", NAMES[-1], 0)


@pytest.mark.spec("005.13")
@pytest.mark.parametrize(("most", "dropped"), [(10, 5), (15, 0), (1, 14)])
async def test_what_a_limit_leaves_out_is_counted(most: int, dropped: int) -> None:
    first = Naming(NAMES[0])
    executor = FlowExecutor(many(obj({"order_id": STRING})), first, max_candidates=most)
    result = await executor.run([CHOOSE], {"order_id": "A1"})
    assert (result.records[0].tool, result.records[0].dropped) == (NAMES[0], dropped)
    assert len(result.records[0].candidates) == most


@pytest.mark.spec("005.13")
def test_a_bound_of_a_third_includes_a_third() -> None:
    wants = Tool(name="wants", input_schema=obj({"a": STRING, "b": STRING, "c": STRING}))
    analyzer = ChainAnalyzer([Tool(name="gives", output_schema=obj({"a": STRING})), wants])
    assert [each.name for each in analyzer.successors("gives", min_compatibility=1 / 3)] == ["wants"]
    assert [each[1] for each in analyzer.edges(min_compatibility=1 / 3)] == ["wants"]
    assert analyzer.successors("gives", min_compatibility=0.34) == []


async def test_a_tool_as_a_step_is_that_tool() -> None:
    ran: list[str] = []

    def noted(name: str) -> Tool:
        def note(order_id: str) -> None:
            ran.append(name)

        return Tool(name=name, input_schema=obj({"order_id": STRING}), function=note)

    one, other = noted("one"), noted("other")
    executor = FlowExecutor([other, one])
    result = await executor.run(["one"], {"order_id": "A1"})
    assert (result.status, ran, result.records[0].reason) == ("ok", ["one"], "planned")
    for strange in (7, one):
        with pytest.raises(ConfigError, match="steps must be a list of names of tools"):
            await executor.run([strange], {})  # pyright: ignore[reportArgumentType] - callers without types
    assert ran == ["one"]


async def test_fields_that_a_tool_does_not_type_any_more_are_not_taken_for_what_they_were() -> None:
    tools = [
        Tool(name="typed", output_schema=obj({"amount": INTEGER}), function=lambda: {"amount": 3}),
        Tool(name="untyped", function=lambda: {"amount": "three"}),
        Tool(name="pay", input_schema=obj({"amount": INTEGER}), function=pay),
        Tool(name="say", input_schema=obj({"amount": STRING}), function=say),
    ]
    point = GuidedDecisionPoint(after_step="untyped", candidate_tools=["pay", "say"])
    result = await FlowExecutor(tools).run(["typed", "untyped", point])
    assert [each.name for each in result.records[-1].candidates] == ["say"]
    assert result.context["said"] == "three"


class Found(BaseModel):
    order_id: str


def as_dict() -> dict[str, str]:
    return {"order_id": "A1"}


def as_maybe() -> Found | None:
    return Found(order_id="A1")


def as_either() -> Found | list[str]:
    return Found(order_id="A1")


@pytest.mark.parametrize("function", [as_dict, as_maybe, as_either])
async def test_fields_to_show_may_come_from_a_dict_or_from_what_may_be_none(function: Callable[..., object]) -> None:
    shown: list[Any] = []

    class Seeing(Naming):
        def decide(self, context: dict[str, Any], candidates: list[ToolCandidate], prompt: str) -> str:
            shown.append(context)
            return self.name

    takes = obj({"order_id": STRING})
    tools = [tool_from_function(function, name="look"), *many(takes)]
    point = GuidedDecisionPoint(after_step="look", candidate_tools=NAMES[:2], context_fields=["order_id"])
    result = await FlowExecutor(tools, Seeing(NAMES[1])).run(["look", point])
    assert (result.status, shown) == ("ok", [{"order_id": "A1"}])


async def test_fields_that_nothing_can_give_are_still_refused() -> None:
    look = tool_from_function(as_maybe, name="look")
    point = GuidedDecisionPoint(after_step="look", candidate_tools=NAMES[:2], context_fields=["weight"])
    with pytest.raises(ToolError, match="context_fields names weight"):
        await FlowExecutor([look, *many(obj({}))]).run(["look", point])


def test_a_fallback_is_nobodys_choice() -> None:
    def run(reason: str) -> RunResult:
        return RunResult(
            status="ok",
            records=(
                StepRecord(step=1, tool="look", tier=Tier.DETERMINISTIC, reason="planned"),
                StepRecord(step=2, tool="pay", tier=Tier.GUIDED, reason=reason),
            ),
        )

    assert promotions([run("fallback")] * 30) == []
    (hint,) = promotions([run("callback")] * 20 + [run("fallback")] * 30)
    assert (hint.tool, hint.runs, hint.share) == ("pay", 20, 1.0)
