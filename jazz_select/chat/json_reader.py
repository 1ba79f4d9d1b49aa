"""Find JSON in a model's reply: the whole text, values within prose, or a repaired text. Pure and bounded.

It handles what all readers share: quotes, prose and code fences around JSON, and repair.
"""

import json
import re
from typing import Any, Final, NamedTuple

from jazz_select.json_values import too_much

LONGEST: Final = 262_144
"""Longer replies are not read: about as many tokens as the longest that models write."""
MOST_MARKS: Final = 32_768
"""Nor are replies with more brackets, commas and tags: each is a value to make, which takes time."""
MOST_FAILURES: Final = 64
"""The most brackets that may turn out not to open JSON before the search ends."""
MOST_WASTED: Final = 131_072
"""The most characters that may be parsed in vain."""
MOST_VALUES: Final = 1_000
"""The most values of one text."""
REPAIRABLE: Final = 2_048
"""The most characters to repair, since repair is slow."""
OPENERS: Final = 100
"""The most opening brackets to repair, since repair takes quadratic time in them."""

BROKEN: Final = object()
"""Stands for "no JSON", since None is a JSON value."""

_OPENER = re.compile(r"(?<!\w)[\[{]")
_DECODER = json.JSONDecoder()
# Bad text and overlong numbers are ValueErrors; too deep nesting is not.
_UNDECODABLE = (ValueError, RecursionError)


def too_large(text: str) -> str:
    """Return why a reply is not read, to follow "the reply", or ""."""
    if len(text) > LONGEST:
        return f"is longer than {LONGEST} characters"
    if len(text) > MOST_MARKS and sum(map(text.count, "[{,<")) > MOST_MARKS:
        return f"has more than {MOST_MARKS} brackets, commas and tags"
    return ""


def too_large_calls(calls: object) -> str:
    """Return why native calls are not read, to follow "the reply", or "".

    They may hold as much as a reply in text, all together: some providers give arguments as objects, of any size.
    """
    excess = too_much(calls, LONGEST)
    if not excess:
        return ""
    return f"has calls that hold {excess}"


def parse_whole(text: str) -> Any:
    """Parse the whole text, or return BROKEN, also if it is too large."""
    if too_large(text):
        return BROKEN
    try:
        return json.loads(text)
    except _UNDECODABLE:
        return BROKEN


def unquote_reply(text: str) -> tuple[str, Any]:
    """Return a text and its value or BROKEN; of a quoted answer, those of its content."""
    value = parse_whole(text)
    if not isinstance(value, str):
        return text, value
    inner = value.strip()
    return inner, parse_whole(inner)


class Located(NamedTuple):
    """A value and its place in the text."""

    value: Any
    start: int
    end: int


def locate_values(text: str) -> list[Located]:
    """Return the outermost arrays and objects in `text` with their places, in order.

    A text that is too large has none. The search ends early at too many values, or too much parsed in vain.
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
            # Skip only this bracket: a complete value may follow inside it.
            failures, position = failures + 1, opener.end()
            wasted += _read_until(error, len(text)) - opener.start()
        else:
            found.append(Located(value, opener.start(), position))
    return found


def _read_until(error: ValueError | RecursionError, end: int) -> int:
    """Return how far invalid JSON was read; to its end if unknown."""
    # An unterminated string is reported where it begins, although the reader is already past it.
    if isinstance(error, json.JSONDecodeError) and not error.msg.startswith("Unterminated"):
        return error.pos
    return end


def find_embedded(text: str) -> list[Any]:
    """Return the outermost arrays and objects in `text`, in order."""
    return [each.value for each in locate_values(text)]


def values_in(text: str) -> list[Any]:
    """Return the value that `text` is, else the arrays and objects in it; none if it is too large."""
    whole = parse_whole(text.strip())
    return find_embedded(text) if whole is BROKEN else [whole]


def ends_as_json(text: str) -> bool:
    """Whether the text, without fences, ends with a closing bracket: a truncated reply is not repaired."""
    return text.rstrip().rstrip("`").rstrip().endswith(("}", "]"))


def repair_value(text: str) -> Any:
    """Repair `text` from its first bracket on (single quotes, missing ends, stray commas), or return BROKEN."""
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
