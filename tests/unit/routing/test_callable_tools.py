"""What may be called with what is there, by schemas that others wrote; and how much is done to find that out."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, cast

import pytest

from jazz_select.routing import CHOOSE, ChainAnalyzer, FlowExecutor, Tool, assignable
from jazz_select.routing.decisions.decision_points import GuidedDecisionPoint
from jazz_select.routing.schemas.compatibility import CompatibilityIndex, Slot
from jazz_select.routing.schemas.fields import fields, type_text
from jazz_select.routing.schemas.validity import Checker, invalid
from tests.unit.routing.shop import INTEGER, STRING, obj

EITHER = {"type": "object", "properties": {"email": STRING, "phone": STRING}}
SETS = [{"required": ["email"]}, {"required": ["phone"]}]


def given(**arguments: object) -> dict[str, object]:
    return arguments


def tool(name: str, takes: Any, gives: Any = None, function: Callable[..., object] = given) -> Tool:
    return Tool(name=name, input_schema=takes, output_schema=gives, function=function)


@pytest.mark.spec("005.11")
@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
@pytest.mark.parametrize(
    ("there", "became"), [({"email": "e"}, "ok"), ({"phone": "p"}, "ok"), ({"name": "n"}, "failed")]
)
async def test_one_of_two_required_sets_is_enough(keyword: str, there: dict[str, Any], became: str) -> None:
    result = await FlowExecutor([tool("reach", {**EITHER, keyword: SETS})]).run(["reach"], there)
    (record,) = result.records
    assert record.status == became
    assert record.arguments == (there if became == "ok" else {})
    assert record.missing == (() if became == "ok" else ("email",))


@pytest.mark.spec("005.11")
def test_the_best_way_to_call_a_tool_counts() -> None:
    takes = {**EITHER, "anyOf": [{"required": ["email", "phone"]}, {"required": ["phone"]}, {"required": ["email"]}]}
    made = [tool("look", obj({}), obj({"phone": STRING})), tool("reach", takes), tool("weigh", obj({"grams": INTEGER}))]
    (found,) = ChainAnalyzer(made).successors("look")
    assert (found.name, found.compatibility_score) == ("reach", 1.0)


@pytest.mark.spec("005.11")
@pytest.mark.parametrize(
    "takes",
    [
        {"allOf": [obj({"phone": STRING}), obj({"phone": INTEGER})]},
        {"type": "object", "properties": {"phone": {"enum": []}}, "required": ["phone"]},
        {"type": "object", "required": ["phone"], "additionalProperties": False},
        {"type": "string"},
        {"type": "object", "properties": {"phone": STRING}, "minProperties": 2, "maxProperties": 1},
        {"anyOf": [{"type": "array"}, {"properties": {"phone": False}, "required": ["phone"]}]},
        {"properties": {"zip": STRING}, "required": ["phone"], "unevaluatedProperties": False},
        {"allOf": [obj({"zip": STRING})], "required": ["phone"], "unevaluatedProperties": False},
    ],
    ids=["branches", "no value", "not allowed", "no object", "counts", "any of none", "unevaluated", "in no branch"],
)
async def test_a_tool_that_no_call_can_satisfy_is_never_listed(takes: Any) -> None:
    made = [tool("look", obj({}), obj({"phone": STRING})), tool("never", takes), tool("call", obj({"phone": STRING}))]
    analyzer = ChainAnalyzer(made)
    assert [each.name for each in analyzer.successors("look", min_compatibility=0)] == ["call"]
    assert analyzer.callable == {"look", "call"}
    point = GuidedDecisionPoint(after_step="look", candidate_tools=["never", "call"])
    result = await FlowExecutor(made).run([point], {"phone": "p"})
    assert [each.name for each in result.records[0].candidates] == ["call"]
    opened = await FlowExecutor(made).run([CHOOSE], {"zip": 1})
    assert [each.name for each in opened.pending] == ["look", "call"]


@pytest.mark.spec("005.11")
@pytest.mark.parametrize(("destructive", "status"), [(False, "ok"), (True, "failed")])
async def test_an_optional_input_that_does_not_fit_is_left_out(status: str, *, destructive: bool) -> None:
    late = Tool(
        name="book",
        input_schema=obj({"room": STRING}, nights=INTEGER, note=STRING),
        function=given,
        destructive=destructive,
    )
    tools = [tool("look", obj({}), None, lambda: {"room": "R", "nights": "a few", "note": "n"}), late]
    result = await FlowExecutor(tools).run(["look", "book"])
    assert result.status == status
    assert destructive or result.records[1].arguments == {"room": "R", "note": "n"}


async def test_what_the_caller_gave_is_not_left_out() -> None:
    book = tool("book", obj({"room": STRING}, nights=INTEGER))
    result = await FlowExecutor([book]).run(["book"], {"room": "R", "nights": "a few"})
    assert (result.status, result.records[0].fault) == ("failed", "arguments")


def test_a_schema_that_is_gone_is_not_taken_for_another() -> None:
    index = CompatibilityIndex([tool("wants", obj({"a": STRING}))])

    def score(kind: str) -> float:
        root = {"$defs": {"a": {"type": kind}}}
        return float(index.scores([Slot("a", {"$ref": "#/$defs/a"}, root)])[0])

    kinds = ["string", "integer"] * 200
    assert [score(kind) for kind in kinds] == [1.0, 0.0] * 200


# --- how much is done ----------------------------------------------------------


def calls_of(function: Callable[[], object]) -> int:
    """How many Python functions one call enters: the same on every machine."""
    count = 0

    def note(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def doubling(keyword: str, levels: int = 24) -> dict[str, Any]:
    """A schema of about a kilobyte that is two to the power of `levels` when it is written out."""
    parts: dict[str, Any] = {"a0": STRING}
    for level in range(1, levels):
        parts[f"a{level}"] = {keyword: [{"$ref": f"#/$defs/a{level - 1}"}] * 2}
    return {**obj({"x": {"$ref": f"#/$defs/a{levels - 1}"}}), "$defs": parts}


MOST_CALLS = 250_000
"""Some hundredths of a second, on the machine that this was written on."""


@pytest.mark.spec("005.11")
@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
def test_a_schema_that_doubles_is_read_in_bounds(keyword: str) -> None:
    schema = doubling(keyword)
    questions: list[Callable[[], object]] = [
        lambda: assignable(schema, {**schema, "title": "another"}),
        lambda: assignable({"const": {"x": 1}}, schema),
        lambda: fields(schema),
        lambda: type_text(schema["properties"]["x"], schema),
        lambda: invalid(schema, {"x": "a"}),
        lambda: invalid(schema, {"x": 1}),
        lambda: ChainAnalyzer([tool("a", schema, schema), tool("b", {**schema, "title": ""})]).successors("a"),
    ]
    invalid(schema, {"x": 1})  # the reference is loaded once
    assert [calls_of(each) < MOST_CALLS for each in questions] == [True] * len(questions)


UNIQUE = obj({"x": {"type": "array", "uniqueItems": True}})


@pytest.mark.spec("005.11")
def test_unique_items_are_found_in_one_pass() -> None:
    values = [{"order": number} for number in range(8_000)]
    assert invalid(UNIQUE, {"x": values}) == ""
    assert "uniqueItems" in invalid(UNIQUE, {"x": [*values, {"order": 7_999.0}]})
    few = calls_of(lambda: invalid(UNIQUE, {"x": values[:2_000]}))
    assert calls_of(lambda: invalid(UNIQUE, {"x": values})) < 5 * few


@pytest.mark.parametrize("size", [5_000, 200_000])
def test_arguments_beyond_all_bounds_are_refused_in_words(size: int) -> None:
    takes = obj({"x": {"type": "array", "items": obj({"n": {"type": "integer", "minimum": 0}})}})
    values = [{"n": number} for number in range(size)]
    assert calls_of(lambda: invalid(takes, {"x": values})) < 2 * MOST_CALLS
    assert ("too much to look at" in invalid(takes, {"x": values})) is (size > 5_000)
    assert "x/4999/n: minimum does not hold" in invalid(takes, {"x": [*values[:4_999], {"n": -1}]})


def test_what_is_compared_for_one_choice_is_bounded_in_all() -> None:
    options = [{"type": "string", "minLength": number} for number in range(60)]
    there = {f"f{n}": {"anyOf": options, "title": str(n)} for n in range(100)}
    wanted = {f"f{n}": {"anyOf": [{**each, "pattern": "x"} for each in options], "title": str(n)} for n in range(100)}
    analyzer = ChainAnalyzer([tool("gives", obj({}), obj(there)), tool("wants", obj(wanted))])
    assert calls_of(lambda: analyzer.successors("gives")) < MOST_CALLS
    (found,) = analyzer.successors("gives")
    assert found.compatibility_score == 0.5


# --- what a schema says of what nothing else in it looks at --------------------------

A, B = ({"properties": {name: True}} for name in "ab")
ONE_ITEM: dict[str, Any] = {"prefixItems": [True]}
NO_NAMES, NO_ITEMS = {"unevaluatedProperties": False}, {"unevaluatedItems": False}
OLD = {"$schema": "http://json-schema.org/draft-07/schema#"}
UNEVALUATED: dict[str, tuple[Any, Any, bool | None]] = {
    "told": ({**A, **NO_NAMES}, {"a": 1}, True),
    "not told": ({**A, **NO_NAMES}, {"b": 1}, False),
    "not as it is said": ({**A, "unevaluatedProperties": STRING}, {"b": 1}, False),
    "as it is said": ({**A, "unevaluatedProperties": STRING}, {"b": "x"}, True),
    "told in a part": ({"allOf": [A, B], **NO_NAMES}, {"a": 1, "b": 1}, True),
    "told elsewhere": ({"$defs": {"a": A}, "$ref": "#/$defs/a", **NO_NAMES}, {"a": 1}, True),
    "in no part": ({"allOf": [A, B], **NO_NAMES}, {"c": 1}, False),
    "by either": ({"anyOf": [A, B], **NO_NAMES}, {"a": 1}, True),
    "by neither": ({"anyOf": [A, B], **NO_NAMES}, {"c": 1}, False),
    "by a pattern": ({"patternProperties": {"^a": True}, **NO_NAMES}, {"c": 1}, None),
    "by whatever comes": ({**A, "$dynamicRef": "#x", **NO_NAMES}, {"c": 1}, None),
    "a draft without it": ({**OLD, **A, **NO_NAMES}, {"c": 1}, True),
    "first": ({**ONE_ITEM, **NO_ITEMS}, [1], True),
    "second": ({**ONE_ITEM, **NO_ITEMS}, [1, 2], False),
    "second of parts": ({"allOf": [ONE_ITEM], **NO_ITEMS}, [1, 2], False),
    "any": ({"allOf": [{"items": True}], **NO_ITEMS}, [1, 2], True),
    "what is contained": ({"contains": INTEGER, **NO_ITEMS}, [1], True),
}


@pytest.mark.spec("005.11")
@pytest.mark.parametrize(("schema", "value", "valid"), UNEVALUATED.values(), ids=UNEVALUATED)
def test_what_nothing_else_looks_at_is_decided_or_in_doubt(schema: Any, value: Any, valid: bool | None) -> None:
    assert assignable({"const": value}, schema) == (0.5 if valid is None else float(valid))
    if valid is not None and isinstance(value, dict):
        assert bool(invalid(schema, cast("Any", value))) is not valid


FAILING_BY_A_TEXT = {"type": "string", "pattern": "^a"}
CALLS: dict[str, tuple[Any, Any, str]] = {
    "one of two patterns": ({"oneOf": [FAILING_BY_A_TEXT, {**FAILING_BY_A_TEXT, "pattern": "^b"}]}, "a", ""),
    "not a pattern": ({"not": FAILING_BY_A_TEXT}, "b", ""),
    "not a pattern of names": ({"not": {"patternProperties": {"^a": False}}}, {"a": 1}, ""),
    "no text": ({"oneOf": [FAILING_BY_A_TEXT, {"type": "null"}]}, 1, "1 is not valid under any"),
    "beyond 64 bits": ({"maximum": 2**64, "type": "integer"}, "many", "'many' is not of type 'integer'"),
    "beyond a float": ({"maximum": 1}, 10**400, "1000000"),
}


@pytest.mark.spec("005.11")
@pytest.mark.parametrize(("schema", "value", "told"), CALLS.values(), ids=CALLS)
def test_no_call_is_refused_for_what_is_not_looked_at(schema: Any, value: Any, told: str) -> None:
    said = invalid({"type": "object", "properties": {"x": schema}}, {"x": value})
    assert told in said
    assert bool(said) is bool(told)


@pytest.mark.spec("005.11")
@pytest.mark.parametrize("frames", range(0, 60, 3))
def test_a_circle_of_references_fails_as_an_error_wherever_it_is_met(frames: int) -> None:
    circle: dict[str, Any] = {"properties": {"a": {"$ref": "#"}}, "if": {"$ref": "#"}, "patternProperties": {"x": {}}}

    def deeper(left: int) -> str:
        return deeper(left - 1) if left else Checker(circle).problems({"a": {"a": 1}})

    assert "could not be checked" in deeper(frames)
