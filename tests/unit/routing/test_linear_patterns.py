"""Patterns that others wrote are matched by a linear engine, or not at all: never by `re`, which backtracks."""

import ast
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from jazz_select.agent.chain.output_schema import OutputSchema
from jazz_select.routing.schemas.fields import Cursor
from jazz_select.routing.schemas.validity import invalid, verdicts
from tests.source import tree

PACKAGE = Path(__file__).parents[3] / "jazz_select"
MATCHING = ("compile", "match", "fullmatch", "search", "findall", "finditer", "split", "sub", "subn")
PUT_TOGETHER = {
    "agent/reading/bare_answer.py": 'the words for "and" of the table of phrases, escaped',
    "evaluation/checks/safety.py": "of the lines of a file of ours, injections.txt",
    "agent/reading/grounding.py": "of words that are escaped, and of constants beside it",
    "selector/reply.py": "of names that are escaped",
    "phrases.py": "of words of the table, escaped, and of constants beside them",
}


def unknown(node: ast.AST) -> list[str]:
    """What a pattern is put together from, but for constants and what is escaped."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "re.escape":
        return []
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        name = ast.unparse(node)
        return [] if name.isupper() else [name]
    return [name for each in ast.iter_child_nodes(node) for name in unknown(each)]


def put_together(path: Path) -> list[str]:
    names = {f"re.{each}" for each in MATCHING}
    calls = [each for each in ast.walk(tree(path)) if isinstance(each, ast.Call)]
    return [ast.unparse(each) for each in calls if ast.unparse(each.func) in names and unknown(each.args[0])]


def test_re_is_applied_to_patterns_of_our_own_alone() -> None:
    found = {path.relative_to(PACKAGE).as_posix(): put_together(path) for path in sorted(PACKAGE.rglob("*.py"))}
    assert {name for name, calls in found.items() if calls} == PUT_TOGETHER.keys(), found


@pytest.mark.parametrize(
    "statement",
    [
        "import regex",
        "from re import compile",
        "import re as r",
        "import jsonschema",
        "from jsonschema import validate",
    ],
)
def test_no_other_engine_is_imported(statement: str) -> None:
    (wanted,) = ast.parse(statement).body
    sources = [path.read_text("utf-8") for path in PACKAGE.rglob("*.py")]
    imported = {
        ast.unparse(each)
        for source in sources
        if ast.unparse(wanted) in source
        for each in ast.walk(ast.parse(source))
        if isinstance(each, ast.Import | ast.ImportFrom)
    }
    assert ast.unparse(wanted) not in imported


SLOW = ["^(a+)+$", "^(a|aa)+$", "(a{1,50}){1,20}b", "^(?:.*a){12}$", "([a-z]*a){30}[^z]b"]


@pytest.mark.spec("005.6")
@pytest.mark.parametrize("pattern", SLOW)
@pytest.mark.parametrize("where", [{"pattern": ...}, {"propertyNames": {"pattern": ...}}, {"patternProperties": ...}])
def test_a_pattern_that_backtracks_for_ever_takes_no_time(pattern: str, where: dict[str, Any]) -> None:
    text = "a" * 5_000 + "!"
    said = {"pattern": pattern} if "pattern" in where else {"propertyNames": {"pattern": pattern}}
    said = {"patternProperties": {pattern: False}} if "patternProperties" in where else said
    value = text if "pattern" in where else {text: 1}
    began = process_time()
    assert isinstance(OutputSchema({"properties": {"x": said}}).check({"x": value}).problem, str)
    assert isinstance(invalid({"properties": {"x": said}}, {"x": value}), str)
    assert verdicts([value], said, Cursor({})) == [None]
    assert process_time() - began < 0.2


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [("^a+$", True), (r"^\d{4}-\d\d$", True), ("^(?=a)", True), ("b(?=a)", False), (r"^(a)\1$", False), ("(", False)],
    ids=["plain", "a date", "looking ahead at the beginning", "looking ahead", "looking back", "none"],
)
def test_an_answer_is_held_against_a_pattern_that_can_be_matched_and_no_other(pattern: str, *, problem: bool) -> None:
    said = {"properties": {"x": {"pattern": pattern, "type": "string"}}}
    assert bool(OutputSchema(said).check({"x": "b"}).problem) is problem
    assert OutputSchema({"not": said["properties"]["x"]}).check(5).problem == ""
