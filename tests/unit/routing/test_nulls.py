"""A null for an optional input that takes none means that nothing is given, at every door and at any depth."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from pydantic import BaseModel

from jazz_select.agent.chain.loop import run_chain
from jazz_select.routing import FlowExecutor, Tool, ToolCall, run_plan, tool_from_function, tools_from_mcp
from jazz_select.routing.approval import Allow
from jazz_select.routing.schemas.nulls import without_nulls
from jazz_select.testing import ScriptedModel

TEXT = {"type": "string"}
NULLABLE = {"type": ["string", "null"]}


def of(properties: Mapping[str, Any], *required: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "required": list(required), **more}


INNER = of({"from": TEXT, "to": NULLABLE}, "to")
EITHER = {"oneOf": [of({"kind": {"const": "a"}, "note": TEXT}), of({"kind": {"const": "b"}, "note": NULLABLE})]}
CASES: list[tuple[str, Any, Any, Any]] = [
    ("one that takes none", of({"a": TEXT}), {"a": None}, {}),
    ("beside others", of({"a": TEXT, "b": TEXT}, "b"), {"a": None, "b": "x"}, {"b": "x"}),
    ("one that takes null", of({"a": NULLABLE}), {"a": None}, {"a": None}),
    ("anyOf with null", of({"a": {"anyOf": [TEXT, {"type": "null"}]}}), {"a": None}, {"a": None}),
    ("nullable as in OpenAPI", of({"a": {"type": "string", "nullable": True}}), {"a": None}, {"a": None}),
    ("listed", of({"a": {"enum": ["x", None]}}), {"a": None}, {"a": None}),
    ("a type with null, and a list without", of({"a": {**NULLABLE, "enum": ["x"]}}), {"a": None}, {}),
    ("a list of values", of({"a": {"enum": ["x", "y"]}}), {"a": None}, {}),
    ("not null", of({"a": {"not": {"type": "null"}}}), {"a": None}, {}),
    ("anything", of({"a": {}}), {"a": None}, {"a": None}),
    ("a required one", of({"a": TEXT}, "a"), {"a": None}, {"a": None}),
    ("one that nobody declared", of({"a": TEXT}), {"b": None}, {"b": None}),
    ("in an object", of({"a": INNER}), {"a": {"from": None, "to": None}}, {"a": {"to": None}}),
    ("required in an object", of({"a": of({"b": TEXT}, "b")}), {"a": {"b": None}}, {"a": {"b": None}}),
    ("an object", of({"a": INNER}), {"a": None}, {}),
    ("in a list", of({"a": {"items": INNER}}), {"a": [{"from": None}, {"from": "x"}]}, {"a": [{}, {"from": "x"}]}),
    ("in a place of a list", of({"a": {"prefixItems": [TEXT, INNER]}}), {"a": ["x", {"from": None}]}, {"a": ["x", {}]}),
    ("an item of a list", of({"a": {"items": TEXT}}), {"a": [None]}, {"a": [None]}),
    ("by reference", of({"a": {"$ref": "#/$defs/i"}}, **{"$defs": {"i": INNER}}), {"a": {"from": None}}, {"a": {}}),
    (
        "an optional model",
        of({"a": {"anyOf": [{"$ref": "#/$defs/i"}, {"type": "null"}]}, "b": TEXT}, **{"$defs": {"i": INNER}}),
        {"a": {"from": None}, "b": None},
        {"a": {}},
    ),
    ("joined", {"allOf": [of({"a": TEXT}), of({"b": NULLABLE})]}, {"a": None, "b": None}, {"b": None}),
    ("one kind of two", of({"x": EITHER}), {"x": {"kind": "a", "note": None}}, {"x": {"kind": "a"}}),
    ("the other kind", of({"x": EITHER}), {"x": {"kind": "b", "note": None}}, {"x": {"kind": "b", "note": None}}),
    ("a map", of({}, additionalProperties=TEXT), {"a": None}, {"a": None}),
    ("no schema", {}, {"a": None}, {"a": None}),
    ("no schema at all", {"properties": [1], "type": 5}, {"a": None}, {"a": None}),
    ("a circle", {"$ref": "#"}, {"a": None}, {"a": None}),
    ("zero, nothing and no", of({"a": TEXT}), {"a": "", "b": 0, "c": False}, {"a": "", "b": 0, "c": False}),
]


@pytest.mark.parametrize(("schema", "given", "left"), [pytest.param(*row[1:], id=row[0]) for row in CASES])
def test_a_null_for_an_optional_input_is_left_out_where_it_is_not_allowed(schema: Any, given: Any, left: Any) -> None:
    before = json.dumps(given)
    assert without_nulls(schema, given) == left
    assert json.dumps(given) == before


def test_a_large_schema_with_references_is_read_as_a_small_one() -> None:
    parts = {f"p{number}": {"$ref": "#/$defs/text"} for number in range(1_000)}
    schema = of(parts, **{"$defs": {"text": {**TEXT, "description": "x" * 30_000}}})
    assert without_nulls(schema, {"p1": None, "p2": "x"}) == {"p2": "x"}


def test_a_deep_value_is_left_to_the_check() -> None:
    value: Any = None
    for _ in range(50_000):
        value = {"a": value}
    assert without_nulls({"type": "object", "properties": {"a": {"$ref": "#"}}}, value) == value


# --- at the doors ------------------------------------------------------------------

Door = Callable[[Tool, dict[str, Any]], Awaitable[object]]


async def by_plan(tool: Tool, arguments: dict[str, Any]) -> object:
    plan = {"tool_calls": [{"tool": tool.name, "arguments": arguments}]}
    (step,) = (await run_plan(plan, [tool])).steps
    return step.output if step.error is None else step.error.message


async def by_chain(tool: Tool, arguments: dict[str, Any]) -> object:
    call = json.dumps({"tool_call": {"tool": tool.name, "arguments": arguments}})
    chain = await run_chain(ScriptedModel(call, "Done."), "go", [tool])
    (result,) = (each for each in chain.entries if each.kind == "result")
    return result.output if result.ok else result.error


async def by_executor(tool: Tool, arguments: dict[str, Any]) -> object:
    (record,) = (await FlowExecutor([tool]).run([tool.name], arguments)).records
    return record.output if record.status == "ok" else record.error


DOORS: dict[str, Door] = {"plan": by_plan, "chain": by_chain, "executor": by_executor}


class Period(BaseModel):
    begin: str
    end: str = "today"


def report(city: str, limit: int = 7, period: Period | None = None, note: str | None = "none") -> dict[str, Any]:
    return {"city": city, "limit": limit, "end": period.end if period else "", "note": note}


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
async def test_a_function_gets_its_own_default(door: Door) -> None:
    given = {"city": "Rome", "limit": None, "period": {"begin": "May", "end": None}, "note": None}
    made = {"city": "Rome", "limit": 7, "end": "today", "note": None}
    assert await door(tool_from_function(report, destructive=False), given) == made


@pytest.mark.parametrize("door", [by_plan, by_chain])
async def test_null_for_a_required_input_is_told(door: Door) -> None:
    assert "city: None is not of type 'string'" in str(await door(tool_from_function(report), {"city": None}))


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
async def test_a_server_is_not_sent_it(door: Door) -> None:
    listing = [{"name": "find", "annotations": {"readOnlyHint": True}, "inputSchema": of({"since": TEXT, "n": TEXT})}]
    sent: list[Any] = []
    (tool,) = tools_from_mcp(listing, trusted=True, call=lambda name, arguments: sent.append(arguments))
    await door(tool, {"since": None, "n": "x"})
    assert sent == [{"n": "x"}]


async def test_what_is_approved_is_what_is_made_and_a_repeat_with_null_is_one() -> None:
    shown: list[dict[str, Any]] = []
    made: list[dict[str, Any]] = []

    def approve(call: ToolCall) -> Allow:
        shown.append(dict(call.arguments))
        return Allow()

    def wipe(disk: str, note: str = "") -> None:
        made.append({"disk": disk, "note": note})

    tool = tool_from_function(wipe, destructive=True)
    calls = [{"disk": "a"}, {"disk": "a", "note": None}]
    replies = [json.dumps({"tool_call": {"tool": "wipe", "arguments": each}}) for each in calls]
    chain = await run_chain(ScriptedModel(*replies, "Done."), "go", [tool], approve=approve)
    assert (shown, made) == ([{"disk": "a"}], [{"disk": "a", "note": ""}])
    assert [each.fault for each in chain.entries if each.kind == "result"] == ["", "repeated"]
