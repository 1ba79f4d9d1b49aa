"""Times of the day out of tokens: on a clock of 24 hours, or of 12 hours with the part of the day."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import time
from decimal import Decimal
from typing import Any, Final

from jazz_select.agent.reading.expressions.matching import Pattern, assign, is_beside, senses_of
from jazz_select.agent.reading.expressions.tokens import Token

Times = tuple[time, ...]
_HALF_A_DAY: Final = 12
_HOURS: Final = 24
_QUARTER, _HALF = 15, 30
_LAST_OF_NIGHT: Final = 6
"""The last hour of the night, which people call by its number in the afternoon, too: "2 Uhr"."""


@dataclass(frozen=True, slots=True)
class _Dial:
    """An hour and a minute as they are said.

    Attributes:
        hour: From 0 to 24.
        minute: The minutes added to it; negative for "to three".
        second: The seconds.
        is_exact: Whether the hours are counted from 0 to 24.
    """

    hour: int
    minute: int = 0
    second: int = 0
    is_exact: bool = False


def read_times(tokens: Sequence[Token], beside: Collection[str], *, half_days: bool) -> Times:
    """Return the times of the day that tokens may mean; () if they mean none.

    An hour from 1 to 12 means both halves of the day, unless a part of the day is said, or it is written as on a clock
    of 24 hours.

    Args:
        tokens: The whole text.
        beside: The senses of tokens that say nothing.
        half_days: Whether people write the hours of a clock from 1 to 12.
    """
    for part, rest in _with_part(tokens, beside):
        dial = _dial(rest, beside, half_days=half_days)
        times = _times(dial, part) if dial is not None else ()
        if times:
            return times
    return ()


def _with_part(tokens: Sequence[Token], beside: Collection[str]) -> list[tuple[str, Sequence[Token]]]:
    """Return the tokens without the part of the day at one of their edges, and as they are."""
    splits: list[tuple[str, Sequence[Token]]] = []
    telling: list[int] = []
    for place, token in enumerate(tokens):
        if "part" in token.senses or not is_beside(token, beside):
            telling.append(place)
    # A part of the day behind the time counts before one in front of it.
    for place in (telling[-1], telling[0]) if telling else ():
        if "part" in tokens[place].senses:
            splits.append((tokens[place].senses["part"], [*tokens[:place], *tokens[place + 1 :]]))
    return [*splits, ("", tokens)]


_PATTERNS: Final[tuple[Pattern, ...]] = (
    ("time",),
    ("time", "clock"),
    ("dotted_time", "clock"),
    ("dotted_time",),
    ("hour_named",),
    ("hour_named", "and_half"),
    ("hour_named", "and_quarter"),
    ("hour_named", "less_quarter"),
    ("number", "clock"),
    ("number", "clock", "number"),
    ("number", "clock", "number", "unit"),
    ("number",),
    ("one",),
    ("number", "number"),
    ("half_past", "number"),
    ("half_past", "number", "clock"),
    ("half_to", "number"),
    ("half_to", "ordinal"),
    ("number", "and_half"),
    ("number", "clock", "and_half"),
    ("number", "and_quarter"),
    ("number", "clock", "and_quarter"),
    ("number", "less_quarter"),
    ("number", "clock", "less_quarter"),
    ("less_quarter", "number"),
    ("quarter", "past", "number"),
    ("one", "quarter", "past", "number"),
    ("quarter", "to", "number"),
    ("one", "quarter", "to", "number"),
    ("quarter", "ordinal"),
    ("number", "past", "number"),
    ("number", "to", "number"),
    ("number", "minus", "number"),
    ("number", "clock", "minus", "number"),
)
_SHARES: Final = (("and_half", _HALF), ("and_quarter", _QUARTER), ("less_quarter", -_QUARTER))
_FIGURES: Final = frozenset({"number", "time"})
_SPOKEN: Final = frozenset({"half_past", "half_to", "past", "to", "and_half", "and_quarter", "less_quarter", "quarter"})
"""Senses of words that tell a time by the parts of an hour, on a clock of 12 hours."""


def _dial(tokens: Sequence[Token], beside: Collection[str], *, half_days: bool) -> _Dial | None:
    known = senses_of(tokens)
    for pattern in _PATTERNS:
        if len(pattern) > len(tokens) or not known.issuperset(pattern):
            continue
        values = assign(pattern, tokens, beside)
        if values is None:
            continue
        dial = _read_dial(pattern, values)
        if dial is not None:
            figures = [token for token in tokens if not _FIGURES.isdisjoint(token.senses)]
            # "08:00" is of a clock of 24 hours in any language; "2 Uhr" may be in the afternoon.
            leads = any(token.text.startswith("0") for token in figures)
            is_written = bool(figures) and figures[0].in_figures and not half_days and _SPOKEN.isdisjoint(pattern)
            is_spoken = "clock" in pattern and 0 < dial.hour <= _LAST_OF_NIGHT and not leads
            return replace(dial, is_exact=dial.is_exact or (is_written and not is_spoken) or leads)
    return None


def _read_dial(pattern: Pattern, values: Sequence[Any]) -> _Dial | None:  # noqa: C901, PLR0911 - a table of forms
    hours = _small_numbers(pattern, values)
    if hours is None:
        return None
    signs = set(pattern)
    if "time" in signs or "dotted_time" in signs:
        clock: time = values[0]
        return _Dial(clock.hour, clock.minute, clock.second)
    if "hour_named" in signs:
        minute = next((minute for sense, minute in _SHARES if sense in signs), 0)
        return _Dial(values[0] or (_HOURS if minute < 0 else 0), minute, is_exact=True)
    if "ordinal" in signs:
        return _Dial(values[-1] - 1, _HALF if "half_to" in signs else _QUARTER)
    if "quarter" in signs:
        return _Dial(hours[-1], _QUARTER if "past" in signs else -_QUARTER)
    if "half_past" in signs or "half_to" in signs:
        return _Dial(hours[0], _HALF if "half_past" in signs else -_HALF)
    for sense, minute in _SHARES:
        if sense in signs:
            return _Dial(hours[0], minute)
    if "to" in signs:
        return _Dial(hours[1], -hours[0])
    if "minus" in signs:
        return _Dial(hours[0], -hours[1])
    if "past" in signs:
        return _Dial(hours[1], hours[0])
    return _Dial(hours[0], hours[1] if len(hours) > 1 else 0)


def _small_numbers(pattern: Pattern, values: Sequence[Any]) -> list[int] | None:
    """Return the numbers among the values, in order; None if one is no whole number below 60."""
    numbers: list[int] = []
    for sense, value in zip(pattern, values, strict=True):
        if sense in {"number", "one"}:
            number = _small(value)
            if number is None:
                return None
            numbers.append(number)
    return numbers


def _small(value: object) -> int | None:
    """Return a whole number below 60, or None."""
    number = value[0] if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownVariableType] - readings
    if not isinstance(number, Decimal) or number != number.to_integral_value() or not 0 <= number < 60:  # noqa: PLR2004
        return None
    return int(number)


def _times(dial: _Dial, part: str) -> Times:
    total = dial.hour * 60 + dial.minute
    if not 0 <= dial.hour <= _HOURS or total < 0 or (dial.hour == _HOURS and dial.minute > 0):
        return ()
    hour, minute = divmod(total, 60)
    if part:
        own = _hour_in(part, hour, dial.hour)
        if own is None:
            return ()
        return (time(own % _HOURS, minute, dial.second),)
    is_sure = dial.is_exact or hour == 0 or hour > _HALF_A_DAY
    if is_sure:
        return (time(hour % _HOURS, minute, dial.second),)
    # An hour from 1 to 12 may be of both halves of the day.
    hour %= _HALF_A_DAY
    return (time(hour, minute, dial.second), time(hour + _HALF_A_DAY, minute, dial.second))


def _hour_in(part: str, hour: int, said: int) -> int | None:  # noqa: PLR0911 - the parts of a day
    """Return the hour from 0 to 23 that is meant by an hour in a part of the day, or None if there is none."""
    is_half = hour <= _HALF_A_DAY
    if part in {"am", "pm"}:
        if said > _HALF_A_DAY or (said == 0 and part == "pm"):
            return None
        return hour % _HALF_A_DAY + (_HALF_A_DAY if part == "pm" else 0)
    if part == "morning":
        return hour if hour < _HALF_A_DAY else None
    if part == "afternoon":
        return hour % _HALF_A_DAY + _HALF_A_DAY if is_half else hour
    if part == "evening":
        if hour == _HALF_A_DAY:
            return None
        return hour + _HALF_A_DAY if is_half else hour
    if hour == _HALF_A_DAY:
        return 0
    return hour + _HALF_A_DAY if 6 <= hour < _HALF_A_DAY else hour  # noqa: PLR2004 - from six on it is the evening
