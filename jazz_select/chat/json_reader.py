"""The JSON in what a model wrote: all of it, what stands in its prose, or what a repair makes of it. Pure, bounded.

What the JSON has to say is its reader's; here is what readers have in common: decoding, answers in quotes, prose and
fences around JSON, thoughts before it, and its repair.
"""

import json
import re
from bisect import bisect_right
from typing import Any, Final, NamedTuple

LONGEST: Final = 262_144
"""A longer reply is not read: about as many tokens as the longest that models write."""
MOST_MARKS: Final = 32_768
"""Nor is one with more brackets, commas and tags together: each is a value to make, which takes time by the hundred."""
MOST_FAILURES: Final = 64
"""How many brackets may turn out not to open JSON before the search ends."""
MOST_WASTED: Final = 131_072
"""How many characters may be read in vain on the way."""
MOST_VALUES: Final = 1_000
"""How many values are found in one text."""
REPAIRABLE: Final = 2_048
"""How many characters are handed to the repair, which is slow."""
OPENERS: Final = 100
"""How many brackets an answer that is worth repairing may open; the repair takes time by their square."""

BROKEN: Final = object()
"""Stands for "no JSON", since None is a JSON value."""

_OPENER = re.compile(r"(?<!\w)[\[{]")
_THOUGHT = re.compile(r"\s*<think(?:ing)?>.*?</think(?:ing)?>", re.IGNORECASE | re.DOTALL)
_THOUGHT_TAG = re.compile(r"</?think(?:ing)?>", re.IGNORECASE)
_THOUGHT_END = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_THOUGHT_BEGIN = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
_DECODER = json.JSONDecoder()
# Bad text and overlong numbers are ValueErrors, too deep nesting is not.
_UNDECODABLE = (ValueError, RecursionError)


def too_large(text: str) -> str:
    """Why a reply is not read, as a sentence goes on after "the reply"; empty where it is."""
    if len(text) > LONGEST:
        return f"is longer than {LONGEST} characters"
    if len(text) > MOST_MARKS and sum(map(text.count, "[{,<")) > MOST_MARKS:
        return f"has more than {MOST_MARKS} brackets, commas and tags"
    return ""


def decoded(text: str) -> Any:
    """The value that `text` is, or BROKEN; also of what is too large to be read."""
    if too_large(text):
        return BROKEN
    try:
        return json.loads(text)
    except _UNDECODABLE:
        return BROKEN


def unquoted(text: str) -> tuple[str, Any]:
    """A text and the value that it is, or BROKEN; of an answer in quotes, what stands in the quotes."""
    value = decoded(text)
    if not isinstance(value, str):
        return text, value
    inner = value.strip()
    return inner, decoded(inner)


class Located(NamedTuple):
    """A value, and where in the text it stands."""

    value: Any
    start: int
    end: int


def standing(text: str) -> list[Located]:
    """The arrays and objects that stand in `text`, outermost only, in order, with their places.

    There are none in a text that is too large to be read. The search ends early where there are too many values, or
    where too much was read in vain.
    """
    found: list[Located] = []
    if too_large(text):
        return found
    failures = wasted = position = 0
    while len(found) < MOST_VALUES and failures < MOST_FAILURES and wasted < MOST_WASTED:
        opener = _OPENER.search(text, position)
        if opener is None:
            break
        try:
            value, position = _DECODER.raw_decode(text, opener.start())
        except _UNDECODABLE as error:
            failures, position = failures + 1, opener.end()
            wasted += _read_until(error, len(text)) - opener.start()
        else:
            found.append(Located(value, opener.start(), position))
    return found


def _read_until(error: ValueError | RecursionError, end: int) -> int:
    """How far a text was read that turned out to be no JSON; where that is not told, to its end."""
    if isinstance(error, json.JSONDecodeError) and not error.msg.startswith("Unterminated"):
        return error.pos
    return end


def embedded(text: str) -> list[Any]:
    """The arrays and objects that stand in `text`, outermost only, in order."""
    return [each.value for each in standing(text)]


def values_in(text: str) -> list[Any]:
    """The value that `text` is; else the arrays and objects that stand in it, in order; none of what is too large."""
    whole = decoded(text.strip())
    return embedded(text) if whole is BROKEN else [whole]


def after_thoughts(text: str) -> str:
    """What stands behind the last thought that ends in `text`; all of it where none does."""
    return _THOUGHT_END.split(text)[-1]


def before_thoughts(text: str) -> str:
    """What stands before the first thought that begins in `text`; all of it where none does."""
    return _THOUGHT_BEGIN.split(text, maxsplit=1)[0]


def without_first_thought(text: str) -> str:
    """`text` without the thought that it begins with, where that one ends."""
    thought = _THOUGHT.match(text)
    return text[thought.end() :] if thought else text


def outside_thoughts(text: str) -> tuple[str, list[Located]]:
    """The text without a thought that lacks its beginning or its end, and the values that stand in the rest.

    What stands inside of a value is part of it.
    """
    values = standing(text)
    starts = [each.start for each in values]

    def is_outside(tag: re.Match[str]) -> bool:
        place = bisect_right(starts, tag.start())
        return place == 0 or values[place - 1].end <= tag.start()

    tags = [tag for tag in _THOUGHT_TAG.finditer(text) if is_outside(tag)]
    begin = next((tag.end() for tag in reversed(tags) if tag.group().startswith("</")), 0)
    end = next((tag.start() for tag in tags if tag.start() >= begin), len(text))
    kept = [Located(each.value, each.start - begin, each.end - begin) for each in values if begin <= each.start < end]
    return text[begin:end], kept


def ends_as_json(text: str) -> bool:
    """Whether the last of it, fences aside, closes an array or an object: what was cut off is not to be repaired."""
    return text.rstrip().rstrip("`").rstrip().endswith(("}", "]"))


def repaired(text: str) -> Any:
    """What a repair makes of `text` from its first bracket on: single quotes, missing ends, stray commas; or BROKEN."""
    opener = _OPENER.search(text)
    if opener is None:
        return BROKEN
    fragment = text[opener.start() : opener.start() + REPAIRABLE]
    if fragment.count("[") + fragment.count("{") > OPENERS:
        return BROKEN
    from json_repair import repair_json

    try:
        return repair_json(fragment, return_objects=True, skip_json_loads=True)
    except Exception:  # noqa: BLE001  # whatever a repair trips over, the text stays unreadable and nothing more
        return BROKEN
