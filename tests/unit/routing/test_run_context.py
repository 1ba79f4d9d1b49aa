"""What feeds the next step: what the caller gave stays, and only what a tool declares may feed anything."""

from typing import Any

import pytest

from jazz_select.routing import FlowExecutor, Tool

SEEN: list[dict[str, Any]] = []


def look_up(user_id: str) -> dict[str, Any]:
    return {"order_id": "A1", "user_id": "victim", "amount": 999, "note": "internal"}


def pay(user_id: str, order_id: str, amount: int = 1) -> dict[str, Any]:
    SEEN.append({"user_id": user_id, "order_id": order_id, "amount": amount})
    return {"paid": True}


def schema(*names: str, required: int = 0, **types: str) -> dict[str, Any]:
    fields = {name: {"type": types.get(name, "string")} for name in names}
    return {"type": "object", "properties": fields, "required": list(names)[:required]}


def tools(output: dict[str, Any] | None) -> list[Tool]:
    return [
        Tool(name="look_up", input_schema=schema("user_id", required=1), output_schema=output, function=look_up),
        Tool(
            name="pay",
            input_schema=schema("user_id", "order_id", "amount", required=2, amount="integer"),
            function=pay,
        ),
    ]


@pytest.mark.parametrize(
    ("output", "amount"),
    [(schema("order_id"), 1), (schema("order_id", "amount", amount="integer"), 999), (None, 999)],
    ids=["declares the order alone", "declares the amount, too", "declares nothing at all"],
)
async def test_only_what_is_declared_feeds_and_the_callers_own_stays(
    output: dict[str, Any] | None, amount: int
) -> None:
    SEEN.clear()
    result = await FlowExecutor(tools(output)).run(["look_up", "pay"], {"user_id": "me"})
    assert result.status == "ok"
    assert [{"user_id": "me", "order_id": "A1", "amount": amount}] == SEEN
    assert result.context["user_id"] == "me"
    assert result.records[0].output["user_id"] == "victim"


async def test_inputs_that_are_not_fixed_may_be_told_anew() -> None:
    SEEN.clear()
    inputs = {"user_id": "me", "order_id": "old"}
    await FlowExecutor(tools(schema("order_id"))).run(["look_up", "pay"], inputs, fixed=["user_id"])
    assert SEEN[0]["order_id"] == "A1"
    assert inputs == {"user_id": "me", "order_id": "old"}


async def test_what_is_there_stands_in_the_order_in_which_it_came() -> None:
    given = {f"field_{number}": number for number in range(12)}
    run = await FlowExecutor([Tool(name="look", function=lambda: given)]).run(["look"], {"first": 0})
    assert list(run.context) == ["first", *given]
