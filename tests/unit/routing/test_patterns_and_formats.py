"""Patterns and formats of a tool's schema hold for arguments and answers, as ECMA-262 and the drafts mean them."""

from datetime import datetime
from time import thread_time
from typing import Any

import pytest

from jazz_select.agent.chain.output_schema import OutputSchema
from jazz_select.routing import Tool
from jazz_select.routing.schemas.rewriting import unread_patterns
from jazz_select.routing.schemas.validity import Checker, invalid
from jazz_select.routing.tool_call import CallOutcome, call_tool
from jazz_select.routing.tools.functions import tool_from_function

pytestmark = pytest.mark.spec("013.1")

AWS = r"^[\u0020-\uD7FF\uE000-\uFFFD\uD800\uDC00-\uDBFF\uDFFF\r\n\t]{1,256}$"
PATTERNS: dict[str, tuple[str, list[str], list[str]]] = {
    "of times": (r"^\d+(:\d+){1,3}$", ["1:2", "10:20:30:40"], ["1", "1:", "1:2:3:4:5"]),
    "of a code": (r"^[A-Z]{2}\d{4}$", ["AB1234"], ["ab1234", "AB123", "AB1234\n", "AB١٢٣٤"]),
    "not anchored": ("b+", ["abba"], ["", "a"]),
    "digits are ASCII": (r"^\d\D$", ["1a", "1٣"], ["٣a", "11"]),
    "words are ASCII": (r"^\w\W$", ["aé", "a-"], ["éa", "aa"]),
    "blanks are of Unicode": (r"^\s\S$", ["\ufeffa", "\u2003a", " \x85"], ["\x85a", "  "]),
    "classes in a class": (r"^[\d\s]+[^\w-]$", ["1 !", "1 é"], ["1 -", "1 a", "٣!"]),
    "words have ASCII ends": (r"\bx\b", ["a x b", "éx"], ["ax", "x_"]),
    "the end is the end": ("^a$", ["a"], ["a\n", "a\nb"]),
    "a dot is no end of a line": ("^.$", ["a", "😀"], ["\n", "\r", "\u2028", ""]),
    "needless escapes": (r"^\/\-\_\@\%\:\<\>\&\#\'\"\ \,$", ["/-_@%:<>&#'\" ,"], ["", "/"]),
    "braces that repeat nothing": ("^{a}{,2}b{$", ["{a}{,2}b{"], ["ab"]),
    "an opened one": (r"^\$\{[a-z]+}$", ["${ab}"], ["{ab}"]),
    "any in an empty negated class": ("^[^]$", ["a", "\n"], [""]),
    "none in an empty class": ("^[]$", [], ["", "a"]),
    "brackets in a class": ("^[a[]+$", ["a["], ["b"]),
    "no sets in a class": ("^[a-z&&b~~]+$", ["a&b~"], ["A"]),
    "hyphens beside classes": (r"^[\w-.]+[a-\d]$", ["a-.-", "b1", "xa"], ["b!", "xb"]),
    "codes": (r"^\x41\u0042\u{43}\cA\0\t$", ["ABC\x01\0\t"], ["ABC"]),
    "two halves of a character": (r"^\ud83d\ude00[\ud83d\ude00]$", ["😀😀"], ["😀"]),
    "properties": (r"^\p{Lu}\p{L}+\P{L}$", ["Éa1"], ["éa1", "Éaa"]),
    "groups with names": (r"^(?<year>\d{4})(?:-(?<month>\d\d))?$", ["2026", "2026-03"], ["26"]),
    "lazy": ("^a+?b*?$", ["aab"], ["b"]),
    "ends as other languages write them": (r"\Aab\Z", ["ab"], ["abc"]),
    "case does not count": ("(?i)^abc$", ["ABC"], ["ABD"]),
    "many of a class": (r"^\S{1,1000}$", ["a" * 1_000, "é" * 1_000], ["", "a" * 1_001, "a b"]),
    "many of any": ("^.{0,255}$", ["", "😀" * 255], ["😀" * 256, "a\n"]),
    "many of what a cloud takes": (AWS, ["a😀", "é" * 256], ["", "a" * 257, "\x00"]),
    "more than a thousand thousands": ("^[a-z]{1,100000}$", ["a"], ["", "A"]),
    "looking ahead at the beginning": (r"^(?=.*\d)(?!admin)[a-z\d]{4,}$", ["abc1"], ["abcd", "admin1", "a1"]),
    "looking behind at the end": ("^[a-z-]+(?<!-)$", ["a-b"], ["a-", ""]),
}
each_pattern = pytest.mark.parametrize(("pattern", "valid", "wrong"), PATTERNS.values(), ids=PATTERNS)


async def call(tool: Tool, arguments: dict[str, Any]) -> CallOutcome:
    return await call_tool(tool, arguments, door="chain", timeout_s=None)


def of_x(part: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": part}, **more}


@each_pattern
def test_a_pattern_holds_for_arguments_and_answers(pattern: str, valid: list[str], wrong: list[str]) -> None:
    schema = of_x({"type": "string", "pattern": pattern})
    answer = OutputSchema(schema)
    assert unread_patterns(schema) == {}
    for text in valid:
        assert invalid(schema, {"x": text}) == "", text
        assert answer.check({"x": text}).problem == "", text
    for text in wrong:
        assert invalid(schema, {"x": text}).startswith("the arguments are not valid: x: "), text
        assert answer.check({"x": text}).problem.startswith("x: "), text


@each_pattern
def test_a_pattern_turns_with_what_it_stands_in(pattern: str, valid: list[str], wrong: list[str]) -> None:
    part = {"type": "string", "pattern": pattern}
    for text in (*valid, *wrong):
        is_valid = text in valid
        cases = {
            "not": (of_x({"not": part}), {"x": text}, not is_valid),
            "one of": (of_x({"oneOf": [part, {"const": text}]}), {"x": text}, not is_valid),
            "if": (of_x({"if": part, "then": False}), {"x": text}, not is_valid),
            "contains": (of_x({"contains": part, "maxContains": 1}), {"x": [text, 1]}, is_valid),
            "dependent": ({"dependentSchemas": {"x": of_x(part)}}, {"x": text}, is_valid),
            "names": ({"propertyNames": {"pattern": pattern}}, {text: 1}, is_valid),
            "a reference": (of_x({"$ref": "#/$defs/it"}, **{"$defs": {"it": part}}), {"x": text}, is_valid),
            "under a word of its own": (of_x({"$ref": "#/types/it"}, types={"it": part}), {"x": text}, is_valid),
            "no text": (of_x({"not": part}), {"x": 5}, True),
        }
        for name, (schema, arguments, holds) in cases.items():
            assert (invalid(schema, arguments) == "") is holds, (name, text)


NAMES: dict[str, tuple[Any, Any, Any]] = {
    "a pattern and nothing else": ({"^S_": {"type": "string"}}, {"S_a": "a"}, {"S_a": 1}),
    "a closed object": ({r"^\d+$": {}}, {"12": 1}, {"١٢": 1}),
    "two that mean one": ({"^a": {"minimum": 2}, "^(?:a)": {"maximum": 3}}, {"a": 2}, {"a": 4}),
}


@pytest.mark.parametrize(("named", "valid", "wrong"), NAMES.values(), ids=NAMES)
def test_a_pattern_of_names_is_read(named: Any, valid: Any, wrong: Any) -> None:
    schema = {"type": "object", "patternProperties": named, "additionalProperties": False}
    assert invalid(schema, valid) == ""
    assert invalid(schema, wrong) != ""
    assert invalid(schema, {**valid, "zzz!": 1}) != ""


REFUSED = {
    "looking ahead": ("a(?=b)", "looks ahead or behind"),
    "looking ahead in a branch": ("^(?=a)|b", "looks ahead or behind in one of several branches"),
    "looking behind": ("(?<!a)b", "looks ahead or behind"),
    "referring back": (r"^(a)\1$", "refers back to what a group matched"),
    "by a name": (r"^(?<q>['\"]).*\k<q>$", "refers back to what a group matched"),
    "too large": ("((a{1,100}){1,100}){1,100}", "is too large when its repetitions are written out"),
    "no pattern": ("(", "has an opening parenthesis without a closing one"),
    "no range": ("[z-a]", "has a range that ends before it begins"),
    "no escape of this language": (r"\h", r"has \h, which ECMA-262 does not know"),
    "no property": (r"^\p{Nonsense}$", "is none that can be matched in time that grows with the text alone"),
}


@pytest.mark.parametrize(("pattern", "reason"), REFUSED.values(), ids=REFUSED)
def test_only_a_pattern_that_is_refused_is_left_out(pattern: str, reason: str) -> None:
    part = {"type": "string", "pattern": pattern, "maxLength": 3}
    schema = of_x(part, patternProperties={pattern: {"type": "integer"}, "^n": {"type": "integer"}})
    assert unread_patterns(of_x(part)) == {pattern: reason}
    for given in (schema, of_x(part), of_x({"$ref": "#/types/it"}, types={"it": part})):
        assert invalid(given, {"x": "zzz"}) == ""
        assert "x" in invalid(given, {"x": "zzzz"})
        assert "x" in invalid(given, {"x": 5})
    assert "n" in invalid(schema, {"n": "a"})
    assert invalid(of_x({"not": part}), {"x": "zzz"}) == ""
    assert invalid(of_x({"oneOf": [part, {"maxLength": 2}]}), {"x": "a"}) == ""


FORMATS: dict[str, tuple[str, str]] = {
    "date": ("2026-02-28", "2026-02-30"),
    "date-time": ("2026-02-28T10:00:00+02:00", "2026-02-28 10:00"),
    "time": ("14:30:00Z", "25:00:00Z"),
    "duration": ("P1DT12H", "1 day"),
    "email": ("ada@example.org", "ada at example.org"),
    "idn-email": ("ada@exämple.org", "ada"),
    "uuid": ("123e4567-e89b-12d3-a456-426614174000", "123e4567"),
    "uri": ("https://example.org/a?b=c", "example"),
    "uri-reference": ("/a/b#c", "\\a"),
    "uri-template": ("https://example.org/{id}", "https://example.org/{id"),
    "iri": ("https://exämple.org/ä", "exämple"),
    "iri-reference": ("/ä", "\\ä"),
    "ipv4": ("127.0.0.1", "127.0.0.256"),
    "ipv6": ("::1", "::g"),
    "hostname": ("www.example.org", "-a.example.org"),
    "idn-hostname": ("exämple.org", "〮a"),
    "json-pointer": ("/a/0", "a"),
    "relative-json-pointer": ("1/a", "/a"),
    "regex": ("^(?=a)b+$", "(a"),
}
DIALECTS = {
    "no draft": "",
    "draft 4": "http://json-schema.org/draft-04/schema#",
    "draft 7": "http://json-schema.org/draft-07/schema#",
    "2019-09": "https://json-schema.org/draft/2019-09/schema",
    "2020-12": "https://json-schema.org/draft/2020-12/schema",
}


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize(("kind", "texts"), FORMATS.items(), ids=FORMATS)
def test_a_format_is_an_assertion(kind: str, texts: tuple[str, str], dialect: str) -> None:
    schema = of_x({"type": "string", "format": kind}, **({"$schema": dialect} if dialect else {}))
    good, bad = texts
    assert invalid(schema, {"x": good}) == ""
    assert f"x: {bad!r} is no {kind}" in invalid(schema, {"x": bad})
    assert OutputSchema(schema).check({"x": good}).problem == ""
    assert f"is no {kind}" in OutputSchema(schema).check({"x": bad}).problem
    turned = {**schema, "properties": {"x": {"not": {"format": kind}}}}
    assert (invalid(turned, {"x": good}) == "", invalid(turned, {"x": bad})) == (False, "")


@pytest.mark.parametrize("kind", ["int32", "phone", "color", "password", "x-ours", "binary"])
def test_an_unknown_format_says_nothing(kind: str) -> None:
    assert invalid(of_x({"format": kind}), {"x": "?"}) == ""
    assert invalid(of_x({"not": {"type": "integer", "format": kind}}), {"x": 5}) != ""


async def test_a_function_reads_texts_by_its_annotations() -> None:
    def meet(at: datetime) -> str:
        return at.isoformat()

    tool = tool_from_function(meet)
    assert (await call(tool, {"at": "2026-03-01T14:30"})).output == "2026-03-01T14:30:00"
    refused = await call(tool, {"at": "soon"})
    assert "at: Input should be a valid datetime" in str(refused.error)
    schema = dict(tool.input_schema)
    assert "is no date-time, such as 2026-03-01T14:30:00Z" in invalid(schema, {"at": "2026-03-01T14:30"})


async def test_a_model_gets_its_malformed_text_back_with_the_reason() -> None:
    made: list[dict[str, Any]] = []
    schema = of_x({"type": "string", "format": "date"}, required=["x"])
    schema["properties"]["code"] = {"type": "string", "pattern": r"^[A-Z]{2}\d{4}$"}

    def book(**given: Any) -> None:
        made.append(given)

    tool = Tool(name="book", input_schema=schema, function=book)
    outcome = await call(tool, {"x": "March 1st", "code": "ab1"})
    assert not made
    assert outcome.error is not None
    assert "x: 'March 1st' is no date, such as 2026-03-01" in outcome.error.message
    assert r"code: 'ab1' does not match the pattern ^[A-Z]{2}\d{4}$" in outcome.error.message


DRAFT_4 = DIALECTS["draft 4"]
INTEGERS = [
    pytest.param({"type": "integer"}, False, id="a type"),
    pytest.param({"type": "integer", "title": "n", "minimum": 1}, False, id="with more"),
    pytest.param({"type": ["integer", "null"]}, False, id="one of two types"),
    pytest.param({"type": ["integer", "number"]}, True, id="a number too"),
    pytest.param({"type": "number"}, True, id="a number"),
    pytest.param({"not": {"type": "integer"}}, True, id="not"),
    pytest.param({"$ref": "#/definitions/n"}, False, id="a reference"),
]


@pytest.mark.parametrize(("part", "fraction"), INTEGERS)
def test_until_draft_4_a_number_with_a_fraction_is_no_integer(part: dict[str, Any], *, fraction: bool) -> None:
    schema = of_x(part, definitions={"n": {"type": "integer"}})
    old = {**schema, "$schema": DRAFT_4}
    assert (invalid(old, {"x": 12345.0}) == "") is fraction
    assert (invalid(old, {"x": 12345}) == "") is ("not" not in part)
    for dialect in ("draft 7", "2020-12"):
        assert (invalid({**schema, "$schema": DIALECTS[dialect]}, {"x": 12345.0}) == "") is ("not" not in part)
    if not fraction:
        assert "x: 12345.0 is not of type 'integer'" in invalid(old, {"x": 12345.0})


TEXT = {"type": "string"}
NAMED: dict[str, dict[str, Any]] = {
    "a relative root": {"id": "foo.json", "properties": {"x": {"$ref": "#/definitions/s"}}},
    "by its own name": {"id": "foo.json", "properties": {"x": {"$ref": "foo.json#/definitions/s"}}},
    "a relative part": {"id": "http://a.example/", "properties": {"x": {"id": "x", **TEXT}}},
    "one that others mean": {"properties": {"x": {"$ref": "s.json"}}, "definitions": {"s": {"id": "s.json", **TEXT}}},
    "in a document of its own": {
        "id": "http://a.example/root.json",
        "properties": {"x": {"$ref": "s.json"}},
        "definitions": {"s": {"id": "s.json", **TEXT}},
    },
    "places as names": {
        "id": "http://a.example",
        "properties": {"x": {"id": "http://a.example#/properties/x", **TEXT}},
    },
    "a name with dots": {"properties": {"x": {"$ref": "#s.t-u"}}, "definitions": {"s": {"id": "#s.t-u", **TEXT}}},
    "no address at all": {"id": "my schema", "properties": {"x": {"$ref": "#/definitions/s"}}},
    "a part that looks to the root": {
        "properties": {"x": {"id": "x", "allOf": [{"$ref": "#/definitions/s"}]}},
    },
    "a tuple's place": {"properties": {"t": {"items": [TEXT]}, "x": {"$ref": "#/properties/t/items/0"}}},
    "behind a tuple": {
        "properties": {"t": {"items": [{}], "additionalItems": TEXT}, "x": {"$ref": "#/properties/t/additionalItems"}}
    },
    "a dependency's place": {"properties": {"x": {"$ref": "#/dependencies/y"}}, "dependencies": {"y": TEXT}},
    "a word of its own": {
        "properties": {"x": {"$ref": "#/types/s"}},
        "types": {"s": {"type": "string", "minimum": 3, "exclusiveMinimum": True}},
    },
}


@pytest.mark.parametrize("schema", NAMED.values(), ids=NAMED)
def test_a_draft_4_schema_finds_what_it_names(schema: dict[str, Any]) -> None:
    given = {"definitions": {"s": TEXT}, **schema, "$schema": DRAFT_4}
    assert invalid(given, {"x": "a"}) == ""
    assert "5 is not of type 'string'" in invalid(given, {"x": 5})


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_a_schema_as_a_value_is_an_object(dialect: str) -> None:
    schema = of_x({"$ref": dialect or "http://json-schema.org/schema#"})
    assert invalid(schema, {"x": {"type": "string"}}) == ""
    assert invalid(schema, {"x": "string"}) != ""


def test_a_recursive_reference_extends() -> None:
    tree = {"$id": "tree", "$recursiveAnchor": True, "properties": {"next": {"$recursiveRef": "#"}}}
    schema = {
        "$schema": DIALECTS["2019-09"],
        "$id": "http://a.example/strict",
        "$recursiveAnchor": True,
        "$ref": "tree",
        "required": ["n"],
        "$defs": {"tree": tree},
    }
    assert invalid(schema, {"n": 1, "next": {"n": 1}}) == ""
    assert "'n' is a required property" in invalid(schema, {"n": 1, "next": {}})


def test_of_a_schema_that_is_too_large_the_rest_is_left_to_the_tool() -> None:
    parts = {f"p{number}": {"type": "object", "properties": {"a": TEXT}} for number in range(20_000)}
    schema = of_x({"$ref": "#/definitions/last"}, definitions={**parts, "last": {"enum": ["a"]}})
    assert Checker(schema).is_cut
    assert "type does not hold" in invalid({"properties": {"p": TEXT, **parts}}, {"p0": 5})
    assert invalid(schema, {"x": "b"}) == ""
    assert invalid({**schema, "not": {"properties": {"x": {"$ref": "#/definitions/last"}}}}, {"x": "b"}) == ""


SLOW = {
    "of letters": ("(a{1,50}){1,20}b", "a" * 10_000),
    "of pairs": ("([a-z]*a){30}[^z]b", "ab" * 5_000),
    "of many": ("(?:a?){200}a{200}", "a" * 5_000),
    "of all scripts": (r"^(\p{L}+ ?)+$", "aé " * 20_000),
    "of words": ("|".join(f"word{number}" for number in range(1_500)), "word" * 5_001),
    "of any": ("^.{0,255}x$", "é" * 20_000),
}


@pytest.mark.parametrize(("pattern", "text"), SLOW.values(), ids=SLOW)
def test_no_pattern_takes_long(pattern: str, text: str) -> None:
    schema = of_x({"pattern": pattern, "maxLength": 100_000})
    began = thread_time()
    found = invalid(schema, {"x": text})
    assert thread_time() - began < 0.1
    assert "maxLength" not in found
    assert "x: maxLength does not hold" in invalid(schema, {"x": text * 21})
    assert thread_time() - began < 0.2


def test_of_hundreds_of_patterns_those_that_are_read_take_their_time_alone() -> None:
    names = {f"p{number}": {"pattern": f"^.{{0,99}}x{number}$", "maxLength": 5} for number in range(400)}
    schema = {"type": "object", "properties": names}
    began = thread_time()
    assert "p0: 'a' does not match the pattern ^.{0,99}x0$" in invalid(schema, {"p0": "a"})
    assert invalid(schema, {"p399": "a"}) == ""
    assert "p399" in invalid(schema, {"p399": "a" * 6})
    assert thread_time() - began < 0.3
    assert len(unread_patterns(schema)) > 100
