"""What `assignable` is sure of is so: a search for counterexamples, short here, long by `make fuzz`."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jazz_select.routing import ChainAnalyzer, Tool
from jazz_select.routing.schemas.assignability import NEVER, SURELY, assignable, is_possible
from jazz_select.routing.schemas.fields import fields, type_text
from jazz_select.routing.schemas.validity import invalid
from tests.depth import examples
from tests.schema_pairs import at_its_word, searched, valid

CATALOGUE: list[Any] = [
    {
        "type": "object",
        "required": ["city"],
        "properties": {
            "city": {"type": "string"},
            "unit": {"type": "string", "enum": ["metric", "imperial"]},
            "days": {"type": "integer", "minimum": 1, "maximum": 14},
        },
    },
    {
        "type": "object",
        "required": ["from_account", "amount"],
        "properties": {
            "from_account": {"type": "string"},
            "amount": {"type": "number", "exclusiveMinimum": 0},
            "note": {"anyOf": [{"type": "string", "maxLength": 2}, {"type": "null"}]},
        },
        "additionalProperties": False,
    },
    {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}},
    {"type": "array", "prefixItems": [{"type": "number"}, {"type": "number"}], "items": False, "minItems": 2},
    {"type": ["string", "null"]},
    {"type": "string", "enum": ["small", "medium", "large"]},
]
"""Inputs as catalogues of functions have them."""


@pytest.mark.spec("005.11")
@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_sure_and_wrong(seed: int) -> None:
    scores, wrong = searched(seed, 120, CATALOGUE)
    assert wrong == []
    assert min(scores[NEVER], scores[SURELY]) > 10, "the search decided next to nothing"


A, B = ({"properties": {name: True}} for name in "ab")
WORDS: list[tuple[Any, Any, bool]] = [
    (A, {"a": 1}, True),
    (A, {"b": 1}, False),
    ({**A, "additionalProperties": True}, {"b": 1}, True),
    ({"type": "object"}, {"b": 1}, True),
    ({"anyOf": [A, B]}, {"a": 1, "b": 1}, False),
    ({"allOf": [A, B]}, {"a": 1, "b": 1}, True),
]


@pytest.mark.parametrize(("out", "value", "taken"), WORDS, ids=str)
def test_objects_are_taken_at_their_word(out: Any, value: Any, *, taken: bool) -> None:
    assert valid(value, at_its_word(out)) is taken
    refusing = {"not": {"enum": [value]}}
    assert not taken or assignable(out, refusing) != SURELY


KEYWORDS = (
    *("type", "properties", "required", "items", "prefixItems", "enum", "const", "allOf", "anyOf", "oneOf", "not"),
    *("if", "then", "dependencies", "dependentRequired", "dependentSchemas", "extends", "disallow", "nullable"),
    *("minimum", "exclusiveMinimum", "additionalProperties", "$ref", "$id", "$schema", "minItems", "uniqueItems"),
    *("multipleOf", "a"),
)
LEAVES: list[Any] = [None, True, False, 0, 1, -1.5, 10**400, "", "#", "object", "array", "any", ["a"], [], {}]


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=4) | st.lists(inner, max_size=2)


odd = st.recursive(st.sampled_from(LEAVES), _nested, max_leaves=12)
odd_schemas = st.dictionaries(st.sampled_from(KEYWORDS), odd, max_size=4)


@given(one=odd_schemas, other=odd_schemas, value=odd)
@settings(max_examples=examples(150), deadline=None)
def test_no_schema_is_too_odd_for_any_question(one: Any, other: Any, value: Any) -> None:
    assert isinstance(fields(one), dict)
    assert isinstance(type_text(one, one), str)
    assert is_possible(one) in (True, False)
    assert isinstance(invalid(one, {"a": value}), str)
    tools = [Tool(name="one", input_schema=one, output_schema=other), Tool(name="other", input_schema=other)]
    assert all(0 <= score <= 1 for _, _, score in ChainAnalyzer(tools).edges(min_compatibility=0))
