"""Schemas of answers: which can be used, and how a reply is read."""

from time import process_time
from typing import Any

import pytest

from jazz_select.agent.chain.output_schema import OutputSchema
from jazz_select.chat.json_reader import LONGEST
from jazz_select.errors import ConfigError

NAMED = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


@pytest.mark.parametrize("piece", ["[] ", "[1] ", '{"a": 1} ', '{"a": [{}]} ', "[ ", '{"a": ['])
def test_a_long_reply_is_read_in_a_bounded_time(piece: str) -> None:
    schema = OutputSchema(NAMED)
    began = process_time()
    read = schema.read(piece * (LONGEST // len(piece)))
    assert read.problem
    assert process_time() - began < 3


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": "x"} then {"a": "y"}', "y"),
        ('{"a": "x"} then {"a": 1} and [2]', "x"),
        ('{"a": "x"}' + " []" * 63, "x"),
        ('{"a": "x"}' + " []" * 64 + " ok", None),
        ("well: {'a': 'z'}", "z"),
    ],
    ids=["last", "last valid", "within the bound", "beyond the bound", "repaired"],
)
def test_of_many_values_the_last_valid_one_counts(text: str, value: str | None) -> None:
    read = OutputSchema(NAMED).read(text)
    assert read.value == (None if value is None else {"a": value})
    assert bool(read.problem) is (value is None)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/none"},
        {"properties": {"a": {"$ref": "https://example.org/a.json"}}},
        {"properties": {"a": {"$ref": "a.json"}}},
        {"$id": "https://example.org/root", "items": {"$ref": "other"}},
        {"properties": {"const": {"$ref": "#/$defs/none"}}},
        {"allOf": [{"not": {"$ref": "#none"}}]},
        {"$ref": "#/x", "x": {"items": {"$ref": "#/y"}}},
        {"$ref": "#/title", "title": "no schema"},
        {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {"$ref": "b.json"}}},
        {"type": "object", "$ref": "file:///etc/hostname"},
    ],
    ids=str,
)
def test_a_reference_that_leads_nowhere_is_refused_at_once(schema: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="no JSON Schema that can be used"):
        OutputSchema(schema)


REFERENCE = {"$ref": "#/nowhere"}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"const": REFERENCE}, REFERENCE),
        ({"enum": [REFERENCE]}, REFERENCE),
        ({"default": REFERENCE, "examples": [REFERENCE], "type": "array"}, [1]),
        ({"properties": {"$ref": {"type": "string"}}}, {"$ref": "x"}),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}}, 3),
        ({"$id": "https://example.org/r", "$ref": "a", "$defs": {"a": {"$id": "a", "type": "integer"}}}, 3),
        ({"properties": {"a": {"$ref": "#"}}, "type": "object"}, {"a": {"a": {}}}),
        ({"$ref": "#n", "$defs": {"a": {"$anchor": "n", "type": "integer"}}}, 3),
        ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, {"type": "string"}),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_is_no_reference_or_leads_somewhere_is_fine(schema: dict[str, Any], value: Any) -> None:
    read = OutputSchema(schema).check(value)
    assert (read.problem, read.plain) == ("", value)
