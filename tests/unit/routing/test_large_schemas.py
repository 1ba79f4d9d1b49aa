"""Schemas that are odd or huge: whatever is done with them ends, soon, and says no more than it knows."""

from typing import Any

import pytest

from jazz_select.routing import ChainAnalyzer, Tool, assignable
from jazz_select.routing.decisions.points import decision_prompt
from jazz_select.routing.plans.tool_asker import tool_messages


def circle(alternatives: int) -> dict[str, Any]:
    """Two definitions that refer to each other, so often that following every way would take for ever."""
    return {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/a"}},
        "required": ["a"],
        "$defs": {
            "a": {"anyOf": [{"$ref": "#/$defs/b"}] * alternatives},
            "b": {"anyOf": [{"$ref": "#/$defs/a"}] * alternatives},
        },
    }


def wide(count: int) -> dict[str, Any]:
    """Very many fields, about 150 bytes each."""
    text = {"type": "string", "description": "x" * 90}
    names = [f"field_{number}" for number in range(count)]
    return {"type": "object", "properties": dict.fromkeys(names, text), "required": names}


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"in": schema}, "required": ["in"]}
    return schema


@pytest.mark.parametrize("alternatives", [1, 2, 3, 50])
def test_circles_of_references_are_given_up_on(alternatives: int) -> None:
    schema, other = circle(alternatives), circle(alternatives) | {"title": "another"}
    assert assignable(schema, other) == 0.5
    tools = [Tool(name=name, input_schema=each, output_schema=each) for name, each in (("one", schema), ("two", other))]
    assert [score for _, _, score in ChainAnalyzer(tools).edges()] == [0.5, 0.5]


@pytest.mark.parametrize(
    ("schema", "score"),
    [
        ({"type": "string", "x-unknown": {"deep": [1]}}, 1.0),
        ({"type": ["string", "null"]}, 1.0),
        ({"type": "any"}, 0.5),
        ({"type": 7}, 0.5),
        ({"definitions": {"s": {"type": "string"}}, "$ref": "#/definitions/s"}, 1.0),
        ({"$ref": "https://example.org/elsewhere.json"}, 0.5),
        ({"$ref": 3}, 0.5),
        ({"$dynamicRef": "#node"}, 0.5),
        ({"type": "string", "nullable": True}, 1.0),
        ({"anyOf": "nonsense"}, 0.5),
    ],
    ids=["keyword", "types", "any", "number", "draft 4", "remote", "no text", "dynamic", "openapi", "nonsense"],
)
def test_drafts_and_keywords_that_differ_are_read_with_care(schema: dict[str, Any], score: float) -> None:
    assert assignable({"type": "string"}, schema) == score


def test_five_megabytes_of_schema_are_compared_and_shown_in_part() -> None:
    schema = wide(40_000)
    tools = [Tool(name=name, input_schema=schema, output_schema=schema) for name in ("one", "two")]
    analyzer = ChainAnalyzer(tools)
    found = analyzer.successors("one")
    assert [(each.name, round(each.compatibility_score, 6)) for each in found] == [("two", 1.0)]
    prompt = decision_prompt("one", list(schema["properties"]), found)
    assert "field_29: string, … 39970 more" in prompt
    assert len(prompt) < 3_000
    content = tool_messages("hello", tools)[1].content
    assert content.count('"left_out":39970') == 4
    assert len(content) < 8_000


def test_what_lies_deep_is_not_looked_for() -> None:
    assert assignable(nested(20), nested(20)) == 1.0
    assert assignable(nested(2_000), nested(2_000)) == 0.5


@pytest.mark.spec("000.8")
@pytest.mark.parametrize("count", range(1, 40))
def test_a_tool_all_of_whose_fields_surely_fit_scores_one_however_many_there_are(count: int) -> None:
    schema = wide(count)
    tools = [Tool(name=name, input_schema=schema, output_schema=schema) for name in ("one", "two")]
    assert [score for _, _, score in ChainAnalyzer(tools).edges(min_compatibility=1.0)] == [1.0, 1.0]
