"""What `assignable` is sure of is so: a search for counterexamples, short here, long by `make fuzz`."""

from typing import Any

import pytest

from jazz_select.routing.schemas.assignability import NEVER, SURELY, assignable
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
