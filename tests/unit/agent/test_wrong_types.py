"""What is of the wrong kind is refused where it is given, in words; what may not be meant is told."""

from typing import Any

import pytest
from pydantic import BaseModel

from jazz_select import FlowRegistry, FlowSelector
from jazz_select.errors import ConfigError
from jazz_select.routing import (
    CHOOSE,
    FlowExecutor,
    GuidedDecisionPoint,
    Plan,
    PlanStep,
    SqliteClaims,
    run_plan,
    tool_from_function,
)
from jazz_select.testing import ScriptedModel
from tests.agents import make_agent
from tests.unit.agent.turns import shop_of
from tests.unit.routing.shop import find_order, tools

CALLS = [{"tool": "find_order", "arguments": {"order_id": "A1"}}]
ORDER = {"order_id": "A1"}


class Paid(BaseModel):
    """What was paid."""

    order: str
    cents: int


def pay(order: str) -> Paid:
    """Pay an order back."""
    return Paid(order=order, cents=5)


class PicksNone:
    def decide(self, context: dict[str, Any], candidates: list[Any], prompt: str) -> None: ...


AGENTS: list[Any] = [
    pytest.param({"selector": FlowRegistry()}, "selector must be a FlowSelector", id="a registry"),
    pytest.param({"selector": ScriptedModel()}, "selector must be a FlowSelector", id="a model"),
    pytest.param({"approve": 3}, "approve must be a function of a call", id="a number that approves"),
    pytest.param({"guards": 3}, "guards must be a list of Guards", id="no guards"),
    pytest.param({"guards": [find_order]}, "@guard", id="a function for a guard"),
    pytest.param({"decision_callback": find_order}, "must be an object with `decide", id="a function that decides"),
    pytest.param({"decision_callback": "send_mail"}, "must be an object with `decide", id="a name that decides"),
    pytest.param({"open_router": "x"}, "open_router must be a function", id="a name that routes"),
    pytest.param({"approval": "sometimes"}, 'approval must be "destructive", "always" or "never"', id="no policy"),
    pytest.param({"claims": "claims.db"}, "claims must be a store of claims, such as", id="a path for claims"),
    pytest.param({"claims": SqliteClaims}, "claims must be a store of claims, such as", id="a class for claims"),
]


@pytest.mark.parametrize(("options", "problem"), AGENTS)
def test_an_agent_says_what_it_expects(options: dict[str, Any], problem: str) -> None:
    given: dict[str, Any] = {"selector": FlowSelector(None, shop_of(("pay_back", ("pay",)))), "tools": [pay], **options}
    with pytest.raises(ConfigError, match=problem):
        make_agent(**given)


STEPS: list[Any] = [
    pytest.param("find_order", "steps must be a list of names of tools", id="a name"),
    pytest.param(["find_order", 3], "steps must be a list of names of tools.*got 3", id="a number among them"),
    pytest.param(None, "steps must be a list of names of tools", id="nothing"),
]


@pytest.mark.parametrize(("steps", "problem"), STEPS)
async def test_an_executor_says_what_steps_are(steps: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        await FlowExecutor(tools()).run(steps, ORDER)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"approve": 3}, "approve must be a function"),
        ({"decision_callback": 3}, "decide"),
        ({"open_router": 3}, "open_"),
        ({"claims": "claims.db"}, "claims must be a store"),
    ],
)
async def test_whoever_is_asked_is_somebody(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        FlowExecutor(tools(), **options)
    with pytest.raises(ConfigError, match="inputs must be a mapping"):
        await FlowExecutor(tools()).run(["find_order"], "A1")  # pyright: ignore[reportArgumentType]


OPEN: list[Any] = [
    pytest.param(None, "nobody chooses between check_refund, send_mail: there is no decision_callback", id="nobody"),
    pytest.param(PicksNone(), "none of check_refund, send_mail was chosen", id="none of them"),
]


@pytest.mark.parametrize(("decides", "why"), OPEN)
async def test_a_point_that_is_left_open_says_why(decides: Any, why: str) -> None:
    point = GuidedDecisionPoint(after_step="find_order", candidate_tools=["check_refund", "send_mail"])
    last = (await FlowExecutor(tools(), decides).run(["find_order", point], ORDER)).records[-1]
    assert (last.status, last.error) == ("open", why)


async def test_one_that_destroys_and_nobody_decides_on_is_no_choice_between_several() -> None:
    point = GuidedDecisionPoint(after_step="find_order", candidate_tools=["wipe"])
    wipe = tool_from_function(find_order, name="wipe", destructive=True)
    last = (await FlowExecutor([*tools(), wipe]).run(["find_order", point], ORDER)).records[-1]
    assert (last.status, last.error) == ("open", "nobody decides on wipe: there is no decision_callback")


async def test_a_step_that_is_no_tool_is_told_with_the_one_that_it_may_be_misspelt_from() -> None:
    (record,) = (await FlowExecutor(tools()).run(["find_oder"], ORDER)).records
    assert record.error == "there is no tool 'find_oder' (did you mean 'find_order'?)"


async def test_a_choice_that_nothing_fits_says_so() -> None:
    last = (await FlowExecutor(tools()).run([CHOOSE], {"colour": "red"})).records[-1]
    assert (last.status, last.error) == ("open", "none of the tools that may come next fits what is there")


PLANS: list[Any] = [
    pytest.param({"tool_calls": CALLS}, id="a mapping"),
    pytest.param({"tool_call": CALLS[0]}, id="one call"),
    pytest.param(CALLS, id="a list of calls"),
    pytest.param([PlanStep(tool="find_order", arguments=ORDER)], id="a list of steps"),
    pytest.param(Plan.from_steps([PlanStep(tool="find_order", arguments=ORDER)]), id="a plan"),
]


@pytest.mark.parametrize("plan", PLANS)
async def test_a_plan_may_be_what_a_model_writes(plan: Any) -> None:
    result = await run_plan(plan, tools())
    assert (result.ok, len(result.steps), result.steps[0].output["amount"]) == (True, 1, 20)


@pytest.mark.parametrize("plan", ["find_order", {}, [], {"steps": []}, None, 3, [3]], ids=str)
async def test_what_is_no_plan_is_refused(plan: Any) -> None:
    with pytest.raises(ConfigError, match="plan must be a Plan, or calls such as"):
        await run_plan(plan, tools())
