"""Earlier calls as models are shown them: results whole, each object once, within one budget of tokens.

A call is a line. What has no room is named without its result, and says that it may be looked up again.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple, cast

import orjson

from jazz_select.agent.conversation import MOST_CALLS, PastCall
from jazz_select.json_values import is_array, is_object, storable_text, unquoted_json
from jazz_select.selector.prompt import first_kept_turn
from jazz_select.text import estimate_tokens, json_line

CALLS_TOKENS: Final = 8_000
"""Most tokens of all earlier calls in a prompt; the newest ones come first."""
_LEAST_OBJECT: Final = 120
"""Fewest characters of an object that is only named where it stands above already."""
_NAMING: Final = 2
"""Most fields that name an object."""
_LONGEST_NAME: Final = 80
_IN_PART: Final = "too long to be kept whole; what is missing may be looked up again"
_NO_ROOM: Final = "left out for want of room; it may be looked up again"
_NO_ROOM_ONCE: Final = "left out for want of room; the call is not to be repeated"
_AS_ABOVE: Final = {"…": "the rest as above"}


class CallLine(NamedTuple):
    """A line about calls, and the turn that it belongs to; 0 is the current one."""

    turn: int
    text: str


def fresh_lines(calls: Sequence[PastCall]) -> list[str]:
    """Return the calls for a prompt that is made afresh, a line each, the earliest first.

    Of equal calls with equal results the newest stands; each call of a destructive tool stands for itself.
    """
    newest: dict[object, int] = {}
    for place, call in enumerate(calls):
        newest[_identity(call, place)] = place
    shown = [calls[place] for place in sorted(newest.values())]
    return [line.text for line in _lines(shown, _Above())]


def growing_lines(calls: Sequence[PastCall], turn: int) -> list[CallLine]:
    """Return the calls for prompts that only grow, a line each; the lines of earlier turns stay as they were.

    Old turns are left out several at once. An object that was told stays told where it was, and is named later on.
    """
    sizes = [(call.turn or turn, _size(call)) for call in calls]
    turns = [call.turn for call in calls if call.turn]
    whole_from = 1
    if len(turns) >= MOST_CALLS:
        # Of the oldest turn some calls may be gone.
        whole_from = turns[0] + 1
    start = first_kept_turn(sizes, CALLS_TOKENS, whole_from=whole_from)
    above, lines = _Above(), list[CallLine]()
    for made_in, group in groupby(calls, key=lambda call: call.turn):
        if (made_in or turn) >= start:
            lines += _lines([*group], above)
    if start > 1 and lines:
        lines.insert(0, CallLine(lines[0].turn, _left_out()))
    return lines


def _lines(calls: Sequence[PastCall], above: "_Above") -> list[CallLine]:
    """Return the lines of these calls within the budget, and at their head how many have no line."""
    lines: list[CallLine] = []
    fitted = _calls_with_room(calls)
    for call, has_room in fitted:
        if has_room:
            outcome = _outcome_fields(call, above.show_once(_result_of(call)))
        else:
            outcome = _without_result(call)
        lines.append(CallLine(call.turn, _line(call, outcome)))
    missing = len(calls) - len(fitted)
    if missing:
        lines.insert(0, CallLine(calls[0].turn, _left_out(missing)))
    return lines


def _left_out(number: int = 0) -> str:
    if number == 1:
        calls = "1 earlier call is"
    elif number:
        calls = f"{number} earlier calls are"
    else:
        calls = "earlier calls are"
    return f"[… {calls} left out; what was looked up may be looked up again …]"


def _calls_with_room(calls: Sequence[PastCall]) -> list[tuple[PastCall, bool]]:
    """Return the calls that have room, and whether their results have; room is given to the newest first."""
    room, fitted = CALLS_TOKENS, list[tuple[PastCall, bool]]()
    for call in reversed(calls):
        size, has_room = _size(call), call.left_out != "all"
        if size > room:
            # Without its result it is still named: it may be looked up again, or must not be made again.
            size, has_room = estimate_tokens(_line(call, _without_result(call))), False
            if size > room:
                continue
        room -= size
        fitted.append((call, has_room))
    return fitted[::-1]


def _size(call: PastCall) -> int:
    return estimate_tokens(_line(call, _outcome_fields(call, _result_of(call))))


def _identity(call: PastCall, place: int) -> object:
    if call.final:
        return place
    return call.tool, storable_text(call.arguments), call.output, call.failed


def _line(call: PastCall, outcome: Mapping[str, Any]) -> str:
    fields: dict[str, Any] = {}
    if call.turn:
        fields["turn"] = call.turn
    return json_line({**fields, "tool": call.tool, "arguments": _without_nulls(call.arguments), **outcome})


def _outcome_fields(call: PastCall, result: Any) -> dict[str, Any]:
    if call.failed:
        return {"failed": call.output.removeprefix("failed: ")}
    if call.left_out:
        return {"returned in part": result, "note": _IN_PART}
    return {"returned": result}


def _without_result(call: PastCall) -> dict[str, Any]:
    # Only a call that must not be repeated has a fingerprint.
    why = _NO_ROOM_ONCE if call.call else _NO_ROOM
    return {"failed" if call.failed else "returned": why}


def _result_of(call: PastCall) -> Any:
    """Return a stored result as a value without nulls; what an earlier version has cut in the middle stays text."""
    try:
        found: object = orjson.loads(call.output)
    except orjson.JSONDecodeError:
        return call.output
    return _without_nulls(unquoted_json(found))


def _without_nulls(value: Any) -> Any:
    """Return JSON without the fields that hold nothing."""
    if is_object(value):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    if is_array(value):
        return [_without_nulls(each) for each in value]
    return value


class _Above:
    """The objects that stand above in a prompt."""

    def __init__(self) -> None:
        self._by_name: dict[str, set[str]] = {}

    def show_once(self, value: Any) -> Any:
        """Return JSON in which each object that stands above is only named, and keep the others."""
        if is_array(value):
            return [self.show_once(each) for each in value]
        if not isinstance(value, dict):
            return value
        fields = cast("dict[str, Any]", value)
        text, naming = storable_text(fields), _naming_fields(fields)
        name = storable_text(naming)
        # A name that several objects above share would not say which of them is meant.
        if naming and len(text) >= _LEAST_OBJECT and self._by_name.get(name) == {text}:
            return naming | _AS_ABOVE
        shown = {key: self.show_once(each) for key, each in fields.items()}
        self._by_name.setdefault(name, set()).add(text)
        return shown


def _naming_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first plain fields of an object, such as its number and its title."""
    naming: dict[str, Any] = {}
    for name, value in fields.items():
        is_plain = isinstance(value, int | str) and not isinstance(value, bool)
        if is_plain and len(str(value)) <= _LONGEST_NAME:
            naming[name] = value
        if len(naming) == _NAMING:
            break
    return naming
