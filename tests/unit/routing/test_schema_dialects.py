"""Schemas as their standards mean them, drafts 3 to 2020-12 and OpenAPI 3.0: a table in the public suite's form."""

import json
from collections.abc import Callable
from pathlib import Path
from time import thread_time
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for

from jazz_select.routing.schemas.assignability import NEVER, PERHAPS, SURELY, assignable, is_possible
from jazz_select.routing.schemas.fields import Cursor, fields
from jazz_select.routing.schemas.validity import Checker, invalid, verdicts

GROUPS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("schema_cases.json").read_text())
pytestmark = pytest.mark.spec("005.11")
each_group = pytest.mark.parametrize("group", GROUPS, ids=[each["description"] for each in GROUPS])


# The reference does not read OpenAPI, and takes .07 of .01 for no multiple.
SAID = [each for each in GROUPS if each.keys().isdisjoint(("dialect", "oracle"))]


@pytest.mark.parametrize("group", SAID, ids=[each["description"] for each in SAID])
def test_the_table_says_what_the_standard_does(group: dict[str, Any]) -> None:
    kind: Any = validator_for(group["schema"], default=Draft202012Validator)
    kind.check_schema(group["schema"])
    for test in group["tests"]:
        assert kind(group["schema"]).is_valid(test["data"]) is test["valid"], test


@each_group
def test_values_are_held_against_a_schema_of_any_draft(group: dict[str, Any]) -> None:
    for test in group["tests"]:
        assert (Checker(group["schema"]).problems(test["data"]) == "") is test["valid"], test
        found = verdicts([test["data"]], group["schema"], Cursor(group["schema"]))
        assert found in ([test["valid"]], [None]), test


@each_group
def test_arguments_are_held_against_a_schema_of_any_draft(group: dict[str, Any]) -> None:
    schema = group["schema"]
    inner = {key: value for key, value in schema.items() if key not in ("$schema", "$defs", "definitions")}
    outer = {key: value for key, value in schema.items() if key in ("$schema", "$defs", "definitions")}
    tool = {**outer, "type": "object", "properties": {"x": inner}}
    for test in group["tests"]:
        problem = invalid(tool, {"x": test["data"]})
        assert (problem == "") is test["valid"], test


@each_group
def test_nothing_is_sure_that_is_not_so(group: dict[str, Any]) -> None:
    for test in group["tests"]:
        there = {"const": test["data"]}
        assert assignable(there, group["schema"]) != (NEVER if test["valid"] else SURELY), test
        if test["valid"]:
            assert assignable(group["schema"], {"enum": [test["data"]]}) != NEVER, test
            assert assignable(group["schema"], {"not": {"enum": [test["data"]]}}) != SURELY, test


@each_group
def test_every_schema_fits_itself_if_there_is_anything_that_does(group: dict[str, Any]) -> None:
    schema = group["schema"]
    some = any(each["valid"] for each in group["tests"])
    assert assignable(schema, schema) == (SURELY if some else NEVER)
    assert assignable(schema, {**schema, "title": "the same"}) in ((SURELY, PERHAPS) if some else (NEVER,))
    assert is_possible(schema) is some


CLOSED = {"type": "array", "prefixItems": [{"type": "integer"}], "items": False}
OLD_CLOSED = {"type": "array", "items": [{"type": "integer"}], "additionalItems": False}
SHARP: dict[str, tuple[Any, Any, float]] = {
    "a closed tuple": (CLOSED, CLOSED, SURELY),
    "a closed tuple of draft 4": (OLD_CLOSED, OLD_CLOSED, SURELY),
    "a closed tuple of two drafts": (CLOSED, OLD_CLOSED, SURELY),
    "a tuple into a longer one": (
        {"type": "array", "items": [{"type": "integer"}], "additionalItems": False},
        {"type": "array", "prefixItems": [{"type": "number"}, {"type": "string"}], "items": False},
        SURELY,
    ),
    "a nullable into what is not": ({"type": "string", "nullable": True}, {"type": "string"}, PERHAPS),
    "into a nullable": ({"type": ["string", "null"]}, {"type": "string", "nullable": True}, SURELY),
    "above an excluded bound": (
        {"type": "integer", "minimum": 3},
        {"type": "integer", "minimum": 2, "exclusiveMinimum": True},
        SURELY,
    ),
    "at an excluded bound": ({"const": 3}, {"type": "integer", "minimum": 3, "exclusiveMinimum": True}, NEVER),
    "below a bound": ({"type": "number", "maximum": 3}, {"type": "number", "exclusiveMinimum": 3}, NEVER),
    "one of two required sets": (
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        SURELY,
    ),
    "neither of two required sets": (
        {"type": "object", "properties": {"c": {"type": "string"}}, "required": ["c"]},
        {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        NEVER,
    ),
    "both branches hold": (
        {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
        {"allOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"a": {"type": "string"}}}]},
        NEVER,
    ),
    "closed in one branch, named in the other": (
        {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]},
        {
            "allOf": [
                {"type": "object", "properties": {"a": {}}, "additionalProperties": False},
                {"properties": {"b": {}}},
            ]
        },
        NEVER,
    ),
    "a number into a whole one of two branches": (
        {"type": "number"},
        {"allOf": [{"type": "number"}, {"type": "integer"}]},
        PERHAPS,
    ),
    "a condition that holds, and what it asks for": (
        {"type": "object", "properties": {"kind": {"const": "post"}, "to": {}}, "required": ["kind"]},
        {"type": "object", "if": {"properties": {"kind": {"const": "post"}}}, "then": {"required": ["to"]}},
        PERHAPS,
    ),
    "names by a pattern may be any": (
        {"type": "object", "properties": {"a": {}}, "patternProperties": {"^b": {}}},
        {"type": "object", "required": ["b"]},
        PERHAPS,
    ),
    "from a bound on into what excludes it": (
        {"type": "integer", "minimum": 2},
        {"type": "integer", "minimum": 2, "exclusiveMinimum": True},
        PERHAPS,
    ),
    "a tag of one of several": (
        {"type": "object", "properties": {"t": {"const": "a"}}, "required": ["t"]},
        {"oneOf": [{"type": "object", "properties": {"t": {"const": each}}, "required": ["t"]} for each in "ab"]},
        SURELY,
    ),
    "what would overlap": ({"const": 3}, {"oneOf": [{"type": "integer"}, {"minimum": 2}]}, NEVER),
    "a third": ({"const": 1 / 3}, {"enum": [1 / 3]}, SURELY),
    "1.0 is 1": ({"const": 1.0}, {"enum": [1]}, SURELY),
    "an undeclared property of an open object": (
        {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "string"}},
        {"type": "object", "required": ["b"]},
        PERHAPS,
    ),
}


@pytest.mark.parametrize(("there", "wanted", "score"), SHARP.values(), ids=SHARP)
def test_what_can_be_known_is_known(there: Any, wanted: Any, score: float) -> None:
    assert assignable(there, wanted) == score


def test_what_is_not_read_is_left_open() -> None:
    assert verdicts(["x", 1], {"pattern": "("}, Cursor({})) == [None, True]
    assert invalid({"properties": {"x": {"pattern": "("}}}, {"x": "x"}) == ""
    assert verdicts([object()], {"type": "string"}, Cursor({})) == [None]
    assert verdicts([1], {"$ref": "https://example.org/elsewhere"}, Cursor({})) == [None]


NEVER_ANY: dict[str, Any] = {
    "none of a list": {"enum": []},
    "not anything": {"not": {}},
    "two types": {"allOf": [{"type": "string"}, {"type": "integer"}]},
    "bounds": {"type": "integer", "minimum": 3, "maximum": 2},
    "an object that cannot be": {"type": "object", "properties": {"a": False}, "required": ["a"]},
}
EMPTY_ALONE: dict[str, Callable[[Any], dict[str, Any]]] = {
    "items": lambda never: {"type": "array", "items": never},
    "a place": lambda never: {"type": "array", "prefixItems": [never]},
    "a field": lambda never: {"type": "object", "properties": {"x": {"type": "array", "items": never}}},
    "an optional property": lambda never: {"type": "object", "properties": {"a": never, "b": {"type": "string"}}},
    "undeclared properties": lambda never: {"type": "object", "additionalProperties": never},
    "names by a pattern": lambda never: {"type": "object", "patternProperties": {"^a": never}},
}


@pytest.mark.parametrize("never", NEVER_ANY.values(), ids=NEVER_ANY)
@pytest.mark.parametrize("wrap", EMPTY_ALONE.values(), ids=EMPTY_ALONE)
def test_where_a_part_can_never_be_the_empty_whole_still_fits(wrap: Any, never: Any) -> None:
    schema = wrap(never)
    assert is_possible(schema)
    assert assignable(schema, schema) == SURELY
    assert assignable(schema, wrap(never) | {"title": "another"}) != NEVER


def test_an_empty_array_does_not_go_where_an_item_is_needed() -> None:
    there: dict[str, Any] = {"type": "array", "items": {"enum": []}}
    assert assignable(there, {"type": "array", "items": {"type": "string"}}) == SURELY
    assert assignable(there, {"type": "array", "items": {"type": "string"}, "minItems": 1}) == NEVER
    assert assignable({**there, "minItems": 1}, there) == NEVER


def test_long_lists_and_large_parts_are_compared_soon() -> None:
    values = [f"value {number}" for number in range(3_000)]
    listed = {"allOf": [{"enum": values}, {"enum": values[::-1]}]}
    part = {"enum": [{"a": [{"b": number}] * 5} for number in range(100)]}
    large: dict[str, Any] = {
        "anyOf": [{"properties": {f"p{number}": dict(part)}, "required": [str(number)]} for number in range(40)]
    }
    large["properties"] = {f"p{number}": dict(part) for number in range(40)}
    began = thread_time()
    assert assignable(listed, listed) == SURELY
    assert assignable(large, large) == SURELY
    assert len(fields(large)) == 40
    assert thread_time() - began < 2.0


IMPOSSIBLE: dict[str, Any] = {
    "false": False,
    "no value": {"enum": []},
    "bounds": {"type": "integer", "minimum": 3, "maximum": 2},
    "branches": {"allOf": [{"type": "object"}, {"type": "string"}]},
    "a required property that may not be": {"type": "object", "properties": {"a": False}, "required": ["a"]},
    "a required property that is not allowed": {"type": "object", "additionalProperties": False, "required": ["a"]},
    "a part": {"type": "object", "properties": {"a": {"enum": []}}, "required": ["a"]},
    "it would hold itself": {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
    "not anything": {"not": {}},
    "a tuple too short": {"type": "array", "prefixItems": [{}], "items": False, "minItems": 2},
}


@pytest.mark.parametrize("schema", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_where_nothing_is_valid_nothing_can_be_called(schema: Any) -> None:
    assert not is_possible(schema)


def test_a_circle_that_may_end_is_possible() -> None:
    assert is_possible({"type": "object", "properties": {"next": {"$ref": "#"}}})
    assert is_possible({"properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["next"]})


@pytest.mark.parametrize(
    "branches",
    [
        pytest.param({"oneOf": [True, {"type": ["array", "boolean"]}]}, id="one of them"),
        pytest.param({"not": {"type": "string"}}, id="what it is not"),
        pytest.param({"if": {"type": "string"}, "then": {"type": "array"}}, id="what it may be"),
    ],
)
def test_a_branch_that_may_fail_is_no_fault_where_the_rest_is_left_to_the_tool(branches: dict[str, Any]) -> None:
    left = {"type": "object", "patternProperties": {"^b": {"type": "integer"}}, **branches}
    assert Draft202012Validator(left).is_valid({"a": "1"})  # pyright: ignore[reportUnknownMemberType] - theirs
    assert invalid(left, {"a": "1"}) == ""
