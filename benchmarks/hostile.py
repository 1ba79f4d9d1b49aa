"""Texts that are meant to take long: a few characters repeated, nested and doubled, to any length. No data, no chance.

What a reader does by the square, or worse, shows where its input is all of one kind: blanks before a word, brackets
that never close, marks on one letter, aliases of aliases.
"""

from collections.abc import Iterator, Mapping
from typing import Final

REPEATED: Final[Mapping[str, str]] = {
    "letters": "a",
    "digits": "1",
    "blanks": " ",
    "tabs": "\t",
    "line ends": "\n",
    "blanks of no width": "\u200b",
    "hard blanks": "\u00a0",
    "zeros": "\x00",
    "dots": ".",
    "dots and letters": "a.",
    "ends of sentences": "a. ",
    "commas": ",",
    "commas and blanks": ", ",
    "colons": "1:",
    "questions": "? ",
    "dashes": "- ",
    "underscores": "_",
    "capitals in words": "aB",
    "quotes": '"',
    "single quotes": "'",
    "backslashes": "\\",
    "escapes": "\\u0061",
    "half escapes": "\\u",
    "surrogates": "\ud800",
    "marks in order": "\u0301",
    "marks out of order": "\u0315\u0300",
    "a ligature of eighteen": "\ufdfa",
    "emoji": "😀",
    "joined emoji": "👩\u200d",
    "Chinese": "退款",
    "Japanese": "返品したい",
    "Thai": "คืนเงิน",
    "Arabic": "استرداد",
    "right to left": "\u202e",
    "words": "refund my order ",
    "and then": " and then",
    "then in Chinese": "然后",
    "not": "not ",
    "don't": "don't ",
    "none of": "none of ",
    "if": "if i ",
    "yes no": "yes no ",
    "numbers": "12.5 ",
    "identifiers": "a1@b ",
    "fences": "```",
    "fences of JSON": "```json\n",
    "thoughts": "<think>",
    "ends of thoughts": "</think>",
    "empty thoughts": "<think></think>",
    "tags": "<a>",
    "entities": "&amp;",
    "brackets": "[",
    "closing brackets": "]",
    "braces": "{",
    "closing braces": "}",
    "empty lists": "[]",
    "empty objects": "{}",
    "lists": "[1] ",
    "broken lists": "[a ",
    "letters and brackets": "x[",
    "objects": '{"a":1} ',
    "objects that open": '{"a":',
    "single quoted objects": "{'a':",
    "calls": '{"tool":"find","arguments":{}} ',
    "calls that open": '{"tool_call":',
    "references": '{"$ref":"s1#/a"},',
    "list items": "- a\n",
    "items in items": "- - - ",
    "complex keys": "? ",
    "documents": "---\na: 1\n",
    "aliases": "*a ",
    "merge keys": "<<: ",
    "headings": "TOOL RESULTS: ",
}
"""Name to what is repeated."""
WRAPPED: Final[Mapping[str, tuple[str, str, str]]] = {
    "a list of numbers": ("[", "1,", "1]"),
    "a list without an end": ("[", "1,", ""),
    "lists around a list without an end": ("[" * 63, "1,", ""),
    "a list of lists": ("[", "[],", "1]"),
    "a list of objects": ("[", '{"a":1},', "1]"),
    "a list of texts": ("[", '"a",', "1]"),
    "a list of marks": ('["', "\\u0315\\u0300", '"]'),
    "a long text": ('["', "a", '"]'),
    "a text without an end": ('["', "a", ""),
    "a long number": ("[", "1", "]"),
    "blanks in a list": ("[", " ", "]"),
    "a list of nulls": ("[", "null,", "null]"),
    "calls in a list": ('{"tool_calls":[', '{"tool":"find","arguments":{}},', "1]}"),
    "an answer": ('{"answer":"', "a", '"}'),
    "a refund, blanks": ("refund", " ", "x"),
    "a question at the end": ("", "cancel ", "?"),
    "a quoted message": ('{"messages":[', "1,", "1]}"),
}
"""Name to a beginning, what is repeated, and an end."""


def repeated(unit: str, length: int) -> str:
    """As much of it as fits."""
    return (unit * (length // len(unit) + 1))[:length]


def nested(opener: str, closer: str, length: int) -> str:
    """As deep as fits, and closed again."""
    depth = length // (len(opener) + len(closer))
    return opener * depth + closer * depth


def texts(length: int) -> Iterator[tuple[str, str]]:
    """Every one of about this length, with its name."""
    for name, unit in REPEATED.items():
        yield name, repeated(unit, length)
        yield f"{name} after a word", "refund " + repeated(unit, length - 7)
    for name, (begin, unit, end) in WRAPPED.items():
        yield name, begin + unit * ((length - len(begin) - len(end)) // len(unit)) + end
    for opener, closer in ("[]", "{}", "()", "<>", '""', ("[{", "}]"), ('{"a":', "}"), ("<think>", "</think>")):
        yield f"nested {opener}", nested(opener, closer, length)
    for name in ("blanks", "commas", "brackets", "marks out of order", "dots", "not", "thoughts"):
        yield f"{name}, by halves", "x".join(repeated(REPEATED[name], length >> part) for part in range(1, 8))


def documents() -> Iterator[tuple[str, str]]:
    """YAML that means more than it says, or nests deeper."""
    for factor in (2, 3, 9):
        rows = [f"- &a{row} [{', '.join([f'*a{row - 1}'] * factor)}]\n" for row in range(1, 23)]
        yield f"aliases of {factor} aliases", "- &a0 [x]\n" + "".join(rows)
        rows = [f"- &a{row} {{<<: [{', '.join([f'*a{row - 1}'] * factor)}]}}\n" for row in range(1, 23)]
        yield f"merges of {factor} merges", "- &a0 {k: v}\n" + "".join(rows)
    yield "an alias of itself", "&a [*a]"
    yield "keys", "".join(f"k{number}: 1\n" for number in range(30_000))
    yield "anchors", "".join(f"- &a{number} x\n" for number in range(30_000))
    yield "examples", "name: n\nexamples:\n" + "".join(f"- e{number}\n" for number in range(90_000))
    yield "a number in base 60", "name: " + "1:" * 100_000 + "1"
    yield "a number in base 16", "name: 0x" + "f" * 1_000_000
    for opener in ("- ", "? ", "[", "{a: ", "{? "):
        yield f"nested {opener!r}", opener * 24_000


_LARGE: Final = 5_000_000


def schemas() -> Iterator[tuple[str, dict[str, object]]]:
    """Schemas of objects of some five million characters, by what there is so much of; and one of a tenth of that."""
    told: dict[str, object] = {"type": "string", "description": "d" * 50}

    def of(properties: Mapping[str, object], **more: object) -> dict[str, object]:
        return {"type": "object", "properties": properties, "required": list(properties), **more}

    def named(count: int) -> dict[str, object]:
        return {f"f{number}": told for number in range(count)}

    yield "fields, a tenth", of(named(_LARGE // 1_000))
    yield "fields", of(named(_LARGE // 100))
    yield "fields of a field", of({"a": of(named(_LARGE // 100))})
    yield "values", of({"a": {"enum": [f"value {number:40}" for number in range(_LARGE // 50)]}})
    yield "alternatives", of({"a": {"anyOf": [of({f"f{number}": told}) for number in range(_LARGE // 150)]}})
    yield "definitions", of({"a": {"$ref": "#/$defs/f0"}}, **{"$defs": named(_LARGE // 100)})
    yield "a description", of({"a": {"type": "string", "description": "d" * _LARGE}})
