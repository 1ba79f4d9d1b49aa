"""The JSON in a text: all of it, what stands in its prose, or what a repair makes of it. Pure, bounded."""

import json
import re
from typing import Any, Final, NamedTuple

MOST_FAILURES: Final = 64
"""How many brackets may turn out not to open JSON before the search ends."""
REPAIRABLE: Final = 2_048
"""How many characters are handed to the repair, which is slow."""
OPENERS: Final = 100
"""How many brackets an answer that is worth repairing may open; the repair takes time by their square."""

BROKEN: Final = object()
"""Stands for "no JSON", since None is a JSON value."""

_OPENER = re.compile(r"(?<!\w)[\[{]")
_DECODER = json.JSONDecoder()
# Bad text and overlong numbers are ValueErrors, too deep nesting is not.
_UNDECODABLE = (ValueError, RecursionError)


def decoded(text: str) -> Any:
    """The value that `text` is, or BROKEN."""
    try:
        return json.loads(text)
    except _UNDECODABLE:
        return BROKEN


class Standing(NamedTuple):
    """A value, and where in the text it stands."""

    value: Any
    start: int
    end: int


def standing(text: str) -> list[Standing]:
    """The arrays and objects that stand in `text`, outermost only, in order, with their places."""
    found: list[Standing] = []
    failures = position = 0
    while failures < MOST_FAILURES and (opener := _OPENER.search(text, position)):
        try:
            value, position = _DECODER.raw_decode(text, opener.start())
        except _UNDECODABLE:
            failures, position = failures + 1, opener.end()
        else:
            found.append(Standing(value, opener.start(), position))
    return found


def embedded(text: str) -> list[Any]:
    """The arrays and objects that stand in `text`, outermost only, in order."""
    return [each.value for each in standing(text)]


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
