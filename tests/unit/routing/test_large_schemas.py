"""Schemas that are odd or huge: whatever is done with them ends, soon, and says no more than it knows."""

import subprocess
import sys
from typing import Any

import pytest

from jazz_select.routing import ChainAnalyzer, Tool, assignable
from jazz_select.routing.decisions.decision_points import decision_prompt
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
    assert "field_29: string and 39970 more" in prompt
    assert len(prompt) < 3_000
    content = tool_messages("hello", tools)[1].content
    assert content.count('"left_out":39970') == 4
    assert len(content) < 8_000


def test_what_lies_deep_is_not_looked_for() -> None:
    assert assignable(nested(20), nested(20)) == 1.0
    assert assignable(nested(2_000), nested(2_000)) == 0.5


@pytest.mark.spec("000.8")
def test_a_tool_all_of_whose_fields_surely_fit_scores_one_however_many_there_are() -> None:
    for schema in map(wide, range(1, 40)):
        tools = [Tool(name=name, input_schema=schema, output_schema=schema) for name in ("one", "two")]
        assert [score for _, _, score in ChainAnalyzer(tools).edges(min_compatibility=1.0)] == [1.0, 1.0], schema


HOSTILE = """
import sys, threading
from time import thread_time
from jazz_select.errors import ConfigError
from jazz_select.routing.schemas.fields import Cursor
from jazz_select.routing.schemas.validity import Checker, invalid, verdicts

def deep(levels, wrap, inner):
    for _ in range(levels):
        inner = wrap(inner)
    return inner

def doubling(keyword, levels, to="#/$defs/a{}"):
    parts = {"a0": {"$anchor": "a0", "type": "string"}}
    for level in range(1, levels):
        again = {"$ref": to.format(level - 1)}
        parts[f"a{level}"] = {"$anchor": f"a{level}", keyword: [again, again]}
    return {"properties": {"x": {"$ref": to.format(levels - 1)}}, "$defs": parts}

LIST = {"properties": {"x": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"items": {"$ref": "#/$defs/n"}}}}
TWICE = {"$defs": {"n": {"allOf": [{"properties": {"x": {"$ref": "#/$defs/n"}}}] * 2}}, "$ref": "#/$defs/n"}
IDS = {**doubling("allOf", 40, "https://a.example/r#/$defs/a{}"), "$id": "https://a.example/r"}
INNER = {"$id": "b", **doubling("allOf", 40)}
INNER = {"$id": "https://a.example/r", "properties": {"x": {"$ref": "b"}}, "$defs": {"b": {**INNER, "$ref": "#a39"}}}
WRAPS = {
    "not": lambda each: {"not": each},
    "items": lambda each: {"items": each},
    "allOf": lambda each: {"allOf": [each]},
    "anyOf": lambda each: {"anyOf": [each, {"type": "null"}]},
}
CHAIN = {f"a{n}": {"$ref": f"#/$defs/a{n - 1}"} for n in range(1, 900)}
CHAIN["a0"] = {"type": "string"}
PATTERNS = [{"pattern": f"(a{{1,50}}){{1,5}}{n}"} for n in range(200)]
CASES = {
    **{f"{keyword} doubles": (doubling(keyword, 40), "a") for keyword in ("allOf", "anyOf", "oneOf")},
    "anchors double": (doubling("allOf", 40, "#a{}"), "a"),
    "absolute references double": (IDS, "a"),
    "a document in the document": (INNER, "a"),
    "twice at each level": (TWICE, deep(60, lambda each: {"x": each}, 1)),
    "a circle": ({"properties": {"x": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}}, 1),
    "a chain": ({"properties": {"x": {"$ref": "#/$defs/a899"}}, "$defs": CHAIN}, 1),
    **{f"a value {n} deep": (LIST, deep(n, lambda each: [each], 1)) for n in (200, 900, 200_000)},
    **{
        f"{keyword}, {n} deep {where}": ({where: {"x": deep(n, wrap, {"type": "string"})}}, 1)
        for where in ("properties", "$defs", "x-more")
        for n in (90, 240, 5_000, 200_000)
        for keyword, wrap in WRAPS.items()
    },
    "unique": ({"properties": {"x": {"uniqueItems": True}}}, [{"n": [n]} for n in range(8_000)]),
    "many listed": ({"properties": {"x": {"items": {"enum": [{"n": n} for n in range(3_000)]}}}}, [{"n": 1}] * 3_000),
    "patterns": ({"properties": {"x": {"allOf": PATTERNS}}}, "a" * 9_000),
}

def look():
    for name, (schema, value) in CASES.items():
        began = thread_time()
        try:
            invalid(schema, {"x": value})
            took = [thread_time() - began]
            verdicts([{"x": value}], schema, Cursor(schema, 20_000))
            took.append(thread_time() - began - took[0])
            Checker(schema).problems({"x": value})
        except (ConfigError, RecursionError):
            pass
        took.append(thread_time() - began - sum(took))
        print(f"{max(took):.3f} {name}", flush=True)

look()
threading.stack_size(512 * 1024)  # as musl and macOS have it
thread = threading.Thread(target=look)
thread.start()
thread.join()
"""


@pytest.mark.spec("005.6")
@pytest.mark.programs
def test_no_schema_and_no_value_ends_the_process_or_holds_it_up() -> None:
    done = subprocess.run([sys.executable, "-c", HOSTILE], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split(" ", 1) for line in done.stdout.splitlines()]
    assert len(lines) == 2 * 63
    assert {name: took for took, name in lines if float(took) > 0.1} == {}
