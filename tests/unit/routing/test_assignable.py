"""May a value of one schema go where another is wanted?"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from jazz_select.routing.schemas.assignability import NEVER, PERHAPS, SURELY, Effort, assignable, is_possible
from tests.depth import examples

S, INT, N, B = ({"type": each} for each in ("string", "integer", "number", "boolean"))
BASE = {"type": "object", "properties": {"a": INT}, "required": ["a"]}
SUB = {"type": "object", "properties": {"a": INT, "b": S}, "required": ["a", "b"]}
MAYBE = {"type": "object", "properties": {"a": INT}}
LIST = {"$defs": {"n": {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}}}}, "$ref": "#/$defs/n"}


def optional(schema: Any) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def array(schema: Any) -> dict[str, Any]:
    return {"type": "array", "items": schema}


def text(**bounds: int) -> dict[str, Any]:
    keywords = {"least": "minLength", "most": "maxLength"}
    return {"type": "string", **{keywords[name]: bound for name, bound in bounds.items()}}


def items(first: Any, rest: Any, least: int) -> dict[str, Any]:
    return {"type": "array", "prefixItems": [first], "items": rest, "minItems": least}


def circle(of: Any) -> dict[str, Any]:
    """Two that hold each other: what was taken for sure within the first is looked at again once that has failed."""
    one, other = ({"$ref": f"#/$defs/{name}"} for name in ("one", "other"))
    return {
        "$defs": {
            "one": {"type": "object", "properties": {"other": other, "x": of}, "required": ["x"]},
            "other": {"type": "object", "properties": {"one": one}, "required": ["one"]},
        },
        "type": "object",
        "properties": {"one": one, "other": other},
        "required": ["other"],
    }


CASES: dict[str, tuple[Any, Any, float]] = {
    "int to float": (INT, N, SURELY),
    "int to optional int": (INT, optional(INT), SURELY),
    "optional int to int": (optional(INT), INT, PERHAPS),
    "a list of types": ({"type": ["integer", "null"]}, INT, PERHAPS),
    "nullable of OpenAPI": ({"type": "integer", "nullable": True}, INT, PERHAPS),
    "str to int": (S, INT, NEVER),
    "bool to int": (B, INT, NEVER),
    "float to int": (N, INT, PERHAPS),
    "list of int to list of float": (array(INT), array(N), SURELY),
    "list of str to list of int": (array(S), array(INT), NEVER),
    "any list to list of int": ({"type": "array"}, array(INT), PERHAPS),
    "literal to str": ({"enum": ["a", "b"]}, S, SURELY),
    "str to literal": (S, {"enum": ["a"]}, PERHAPS),
    "int to literal of str": (INT, {"type": "string", "enum": ["a"]}, NEVER),
    "literal to a wider one": ({"enum": ["a"]}, {"enum": ["a", "b"]}, SURELY),
    "literal to a narrower one": ({"enum": ["a", "b"]}, {"enum": ["a"]}, PERHAPS),
    "literal to another one": ({"const": "a"}, {"const": "b"}, NEVER),
    "True is not 1": ({"const": True}, {"const": 1}, NEVER),
    "subclass to base": (SUB, BASE, SURELY),
    "base to subclass": (BASE, SUB, NEVER),
    "a field that may be missing": (MAYBE, BASE, PERHAPS),
    "any object to base": ({"type": "object"}, BASE, PERHAPS),
    "base to any object": (BASE, {"type": "object"}, SURELY),
    "nothing more allowed": (SUB, {**BASE, "additionalProperties": False}, NEVER),
    "any to int": ({}, INT, PERHAPS),
    "int to any": (INT, {}, SURELY),
    "nothing to any": (False, {}, NEVER),
    "a format": (S, {"type": "string", "format": "email"}, PERHAPS),
    "a bound": (INT, {"type": "integer", "minimum": 1}, PERHAPS),
    "a tighter bound": ({"type": "integer", "minimum": 2}, {"type": "integer", "minimum": 1}, SURELY),
    "all of": ({"allOf": [BASE, {"properties": {"b": S}, "required": ["b"]}]}, SUB, SURELY),
    "a circle": (LIST, LIST, SURELY),
    "anything that says what it is called to any": ({"title": "x", "pattern": "a"}, {}, SURELY),
    "listed values that are none": ({"type": "string", "enum": ["a", "bb"], "minLength": 2}, text(least=2), SURELY),
    "all listed values too short": (text(least=3), {"enum": ["a"]}, NEVER),
    "at most so many characters": (S, text(most=5), PERHAPS),
    "fewer than at most so many": (text(most=3), text(most=5), SURELY),
    "as many as at most": (text(most=5), text(most=5), SURELY),
    "more than at most so many": (text(least=6), text(most=5), NEVER),
    "each item once": (array(INT), {**array(INT), "uniqueItems": True}, PERHAPS),
    "each item as often as one likes": (array(INT), {**array(INT), "uniqueItems": False}, SURELY),
    "a second item that may be there": (items(INT, S, 1), items(INT, INT, 0), PERHAPS),
    "a second item that is there": (items(INT, S, 2), items(INT, INT, 0), NEVER),
    "a second item that is wanted": (items(INT, S, 1), items(INT, INT, 2), NEVER),
    "a property where none may be": (BASE, {"type": "object", "maxProperties": 0}, NEVER),
    "a property where one may be": (BASE, {"type": "object", "maxProperties": 1}, SURELY),
    "a circle that fails further in": (circle(INT), circle(S), NEVER),
    "a circle that holds": (circle(INT), circle(N), SURELY),
    "a reference to nowhere": ({"$ref": "#/nowhere"}, INT, PERHAPS),
    "a reference to itself": ({"$ref": "#"}, INT, PERHAPS),
    "unknown keywords": ({"type": "integer", "x-unit": "g"}, {"type": "integer", "whatever": []}, SURELY),
    "no schema": (5, "x", PERHAPS),
    "a required property that nothing else is said of": (MAYBE | {"required": ["b"]}, SUB, PERHAPS),
    "one that a condition requires": (MAYBE | {"if": {"required": ["a"]}, "then": {"required": ["b"]}}, SUB, PERHAPS),
    "one that a condition forbids besides": (
        MAYBE | {"additionalProperties": False, "required": ["b"]},
        {"type": "object", "properties": {"b": S}, "required": ["b"]},
        NEVER,
    ),
    "others of a type that does not fit": (MAYBE | {"additionalProperties": INT}, SUB, NEVER),
    "others of a type that fits": (MAYBE | {"additionalProperties": S}, SUB, PERHAPS),
    "others that no schema evaluates, of a type that does not fit": (
        MAYBE | {"unevaluatedProperties": INT},
        SUB,
        NEVER,
    ),
    "others that no schema evaluates, of a type that fits": (MAYBE | {"unevaluatedProperties": S}, SUB, PERHAPS),
    "a false one beside one that fails": (
        {"type": "object", "properties": {"a": False, "b": INT}, "required": ["b"]},
        {"type": "object", "properties": {"a": S, "b": S}, "required": ["b"]},
        NEVER,
    ),
    "the same words about references that mean another thing": (
        {"$defs": {"n": INT}, "type": "integer", "not": {"$ref": "#/$defs/n"}},
        {"$defs": {"n": S}, "type": "integer", "not": {"$ref": "#/$defs/n"}},
        PERHAPS,
    ),
    "unevaluated properties": (
        {**BASE, "unevaluatedProperties": False},
        {"type": "object", "properties": {"a": {"type": ["integer", "null"]}}, "unevaluatedProperties": False},
        PERHAPS,
    ),
    "an item that fails behind one that fits": (
        {"type": "array", "prefixItems": [INT, S], "minItems": 2},
        {"type": "array", "prefixItems": [INT, INT], "minItems": 2},
        NEVER,
    ),
}


def nested(leaf: Any, levels: int, *, in_objects: bool) -> Any:
    for _ in range(levels):
        leaf = {"type": "object", "properties": {"a": leaf}, "required": ["a"]} if in_objects else array(leaf)
    return leaf


@pytest.mark.parametrize("in_objects", [True, False], ids=["objects", "arrays"])
def test_what_is_nested_too_deep_is_not_looked_at(in_objects: bool) -> None:
    deep = (nested(INT, 100, in_objects=in_objects), nested(N, 100, in_objects=in_objects))
    assert assignable(*deep) == PERHAPS
    assert assignable(nested(INT, 10, in_objects=in_objects), nested(N, 10, in_objects=in_objects)) == SURELY


@pytest.mark.spec("000.9")
@pytest.mark.parametrize(("there", "wanted", "score"), CASES.values(), ids=CASES)
def test_assignable(there: Any, wanted: Any, score: float) -> None:
    assert assignable(there, wanted) == score


@pytest.mark.parametrize(
    ("schema", "possible"),
    [
        ({"type": "array", "items": False}, True),
        ({"type": "array", "items": False, "minItems": 1}, False),
        ({"type": "array", "items": False, "minItems": 1, "enum": [[1]]}, False),
        ({"type": "object", "properties": {"a": False}}, True),
        ({"type": "object", "properties": {"a": False}, "required": ["a"]}, False),
        ({"type": "object", "properties": {"a": False}, "required": ["a"], "enum": [{"a": 1}]}, False),
        ({"properties": {"a": {"$ref": "#"}}, "required": ["a"], "type": "object"}, False),
        ({"type": "array", "items": {"$ref": "#"}, "minItems": 1}, False),
        ({"type": "array", "items": {"$ref": "#"}}, True),
        ({"type": "array", "prefixItems": [S, False], "minItems": 1}, True),
        ({"type": "array", "prefixItems": [S, False], "minItems": 2}, False),
        ({"type": "array", "prefixItems": [False, S], "minItems": 2}, False),
        ({"type": "array", "prefixItems": [S], "items": False, "minItems": 2}, False),
        ({"type": "array", "prefixItems": [S], "items": False, "minItems": 1}, True),
        ({"type": "array", "items": S, "minItems": 5}, True),
        ({"type": "object", "properties": {"a": False}, "required": ["a"], "enum": [[1]]}, False),
    ],
    ids=str,
)
def test_whether_there_is_any_value(schema: dict[str, Any], possible: bool) -> None:
    assert is_possible(schema) is possible


def test_questions_that_share_an_effort_end_with_it() -> None:
    effort, one = Effort(100), [{"title": f"{number}", **BASE} for number in range(50)]
    scores = [assignable(SUB, each, effort=effort) for each in one]
    assert set(scores[:3]) == {SURELY}
    assert set(scores[-10:]) == {PERHAPS}
    spent = effort.left
    assert spent <= 0
    assert assignable(SUB, BASE, effort=effort) == PERHAPS
    assert effort.left == spent


def test_absurd_schemas_are_bounded() -> None:
    deep: dict[str, Any] = {"type": "integer"}
    for _ in range(10_000):
        deep = {"type": "array", "items": deep}
    assert assignable(deep, deep) == PERHAPS
    wide = {
        "type": "object",
        "properties": {f"p{n}": {"type": "string", "description": "x" * 50} for n in range(60_000)},
    }
    assert assignable(wide, wide) in (SURELY, PERHAPS)
    assert assignable({"anyOf": [S] * 10_000}, INT) == PERHAPS


scalars: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [S, INT, N, B, {"type": "null"}, {"enum": ["a", 1]}, {"enum": ["a", "b"]}, {"const": 2}]
)


def _object(properties: dict[str, Any], needed: bool) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties) if needed else []}


def _nested(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    properties = st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3)
    return st.one_of(inner.map(array), inner.map(optional), st.builds(_object, properties, st.booleans()))


schemas = st.recursive(scalars, _nested, max_leaves=5)


def values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a schema describes, none of them more than it says."""
    if "anyOf" in schema:
        return st.one_of(*map(values, schema["anyOf"]))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "const" in schema:
        return st.just(schema["const"])
    match schema["type"]:
        case "object":
            parts = {name: values(part) for name, part in schema["properties"].items()}
            needed = {name: part for name, part in parts.items() if name in schema["required"]}
            return st.fixed_dictionaries(needed, optional={n: p for n, p in parts.items() if n not in needed})
        case "array":
            return st.lists(values(schema["items"]), min_size=1, max_size=2)
        case kind:
            plain: dict[str, st.SearchStrategy[Any]] = {
                "string": st.sampled_from(["a", "z"]),
                "integer": st.integers(-3, 3),
                "number": st.sampled_from([0.5, 2, 2.5]),
                "boolean": st.booleans(),
                "null": st.none(),
            }
            return plain[kind]


@given(there=schemas, wanted=schemas, data=st.data())
@settings(max_examples=examples(400), deadline=None)
def test_it_agrees_with_validation(there: dict[str, Any], wanted: dict[str, Any], data: st.DataObject) -> None:
    value = data.draw(values(there))
    fits = Draft202012Validator(wanted).is_valid(value)  # pyright: ignore[reportUnknownMemberType] - its stubs are partial
    score = assignable(there, wanted)
    assert score != (NEVER if fits else SURELY), value


@given(schema=schemas)
def test_everything_fits_itself(schema: dict[str, Any]) -> None:
    assert assignable(schema, schema) == SURELY


@given(there=schemas, wanted=schemas)
def test_a_wider_consumer_takes_no_less(there: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert assignable(there, optional(wanted)) >= assignable(there, wanted)


KEYWORDS = ["type", "anyOf", "properties", "items", "enum", "$ref", "allOf", "required", "minimum"]
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.text() | st.integers(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(KEYWORDS), inner),  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType] - any JSON at all
)


@given(there=json_values, wanted=schemas)
def test_no_json_is_too_odd(there: Any, wanted: dict[str, Any]) -> None:
    assert assignable(there, wanted) in (SURELY, PERHAPS, NEVER)
    assert assignable(wanted, there) in (SURELY, PERHAPS, NEVER)
