"""References that lead nowhere are found before anything runs, where the schemas of outputs tell."""

from typing import Any

import pytest

from jazz_select.routing import Plan, Tool, run_plan
from jazz_select.routing.plans.plan import PlanStep

ITEM = {"type": "object", "properties": {"id": {"type": "integer"}}, "additionalProperties": False}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "$defs": {"item": ITEM},
    "properties": {
        "items": {"type": "array", "items": {"$ref": "#/$defs/item"}},
        "name": {"type": "string"},
        "either": {"anyOf": [{"type": "null"}, ITEM]},
        "free": {},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        "open": {"type": "object", "properties": {"a": {}}, "additionalProperties": True},
        "a/b": {"type": "string"},
        "unsaid": {"type": "object", "properties": {"a": {}}},
    },
    "additionalProperties": False,
}


async def run(pointer: str, schema: dict[str, Any] | None) -> tuple[tuple[str, ...], list[str]]:
    ran: list[str] = []

    def find() -> dict[str, Any]:
        ran.append("find")
        return {}

    def use(value: object) -> None:
        ran.append(f"use {value}")

    tools = [Tool(name="find", function=find, output_schema=schema), Tool(name="use", function=use)]
    steps = [PlanStep(id="a", tool="find"), PlanStep(id="b", tool="use", arguments={"value": {"$ref": f"a#{pointer}"}})]
    result = await run_plan(Plan.from_steps(steps), tools)
    return result.problems, ran


@pytest.mark.parametrize(
    ("pointer", "problem"),
    [
        (
            "/total",
            "b: a#/total: the output of find has no 'total'; it has items, name, either, free, map, open, a/b, unsaid",
        ),
        ("/items/0/name", "b: a#/items/0/name: the output of find has no 'name'; it has id"),
        ("/items/first", "b: a#/items/first: the output of find has no 'first'; it has no fields"),
        ("/name/first", "b: a#/name/first: the output of find has no 'first'; it has no fields"),
        ("/either/name", "b: a#/either/name: the output of find has no 'name'; it has id"),
    ],
)
async def test_what_no_output_has_is_a_problem_of_the_plan(pointer: str, problem: str) -> None:
    assert await run(pointer, SCHEMA) == ((problem,), [])


@pytest.mark.parametrize(
    "pointer",
    [
        "",
        "/items",
        "/items/7/id",
        "/name",
        "/either/id",
        "/free/x/y",
        "/map/anything",
        "/open/b",
        "/unsaid/b",
        "/a~1b",
        "/a%2Fb",
    ],
)
async def test_what_an_output_may_have_is_for_the_run_to_find(pointer: str) -> None:
    problems, ran = await run(pointer, SCHEMA)
    assert problems == ()
    assert ran[0] == "find"


@pytest.mark.parametrize(
    "schema",
    [None, {}, {"$ref": "#"}, {"$ref": "#/nowhere"}, {"type": "object"}, {"type": "object", "patternProperties": {}}],
    ids=["unknown", "anything", "circle", "lost", "object", "patterns"],
)
async def test_a_schema_that_does_not_tell_forbids_nothing(schema: dict[str, Any] | None) -> None:
    problems, ran = await run("/total", schema)
    assert (problems, ran) == ((), ["find"])
