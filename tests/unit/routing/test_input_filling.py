"""A planned call whose inputs are missing gets them from earlier outputs, where there is no doubt."""

from typing import Any

import pytest

from jazz_select.routing import Plan, fill_from_outputs, run_plan
from jazz_select.routing.plans.plan import PlanStep
from jazz_select.routing.tools.tool import Tool
from tests.unit.routing.shop import INTEGER, STRING, obj, tools


@pytest.mark.spec("004.8")
async def test_the_output_of_one_step_is_there_for_the_next() -> None:
    plan = Plan.from_steps(
        [
            PlanStep(id="s1", tool="find_order", arguments={"order_id": "A1"}),
            PlanStep(id="s2", tool="check_refund", arguments={}),
        ]
    )
    result = await run_plan(plan, tools(), fill=fill_from_outputs)
    assert result.ok
    assert result.outputs["s2"] == {"eligible": True, "amount": 20, "order_id": "A1"}


CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "by name": (obj({"a": STRING}), {"s1": {"a": "x"}}, {"a": "x"}),
    "by a name in another case": (obj({"orderId": STRING}), {"s1": {"order_id": "x"}}, {"orderId": "x"}),
    "the latest": (obj({"a": STRING}), {"s1": {"a": "x"}, "s2": {"a": "y"}}, {"a": "y"}),
    "another type": (obj({"a": INTEGER}), {"s1": {"a": "x"}}, {}),
    "two that it could be": (obj({"OrderId": STRING}), {"s1": {"order_id": "x", "orderid": "y"}}, {}),
    "a value that is no object": (obj({"result": STRING}), {"s1": "x"}, {"result": "x"}),
    "nothing": (obj({"a": STRING}), {}, {}),
}


@pytest.mark.parametrize(("takes", "outputs", "filled"), CASES.values(), ids=CASES)
def test_only_what_surely_fits_is_filled(
    takes: dict[str, Any], outputs: dict[str, Any], filled: dict[str, Any]
) -> None:
    tool = Tool(name="t", input_schema=takes)
    assert fill_from_outputs(tool, tuple(takes["required"]), outputs) == filled
