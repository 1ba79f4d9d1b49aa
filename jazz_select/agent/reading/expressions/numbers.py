"""Numbers and durations out of tokens: signs, magnitudes, halves, currencies and units."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from itertools import product
from typing import Final, NamedTuple

from jazz_select.agent.reading.expressions.matching import Pattern, Values, assign, is_beside, senses_of
from jazz_select.agent.reading.expressions.tokens import Token
from jazz_select.lexicon import SHORTEST_ALONE

_HALF: Final = Decimal("0.5")
_MOST_DECIMALS: Final = 4
_LEAST_MULTIPLE: Final = 100


class Amount(NamedTuple):
    """A number with its unit.

    Attributes:
        readings: The numbers that it may be, most likely first.
        unit: The unit beside it; empty if none was said.
        written: The unit as it is written.
    """

    readings: tuple[Decimal, ...]
    unit: str = ""
    written: str = ""


def _times(number: tuple[Decimal, ...], magnitudes: Sequence[Decimal]) -> tuple[Decimal, ...]:
    readings = number
    for magnitude in magnitudes:
        readings = tuple(each * magnitude for each in readings)
    return readings


def _with_decimals(whole: tuple[Decimal, ...], digits: Sequence[tuple[Decimal, ...]]) -> tuple[Decimal, ...]:
    """Return the number that is read digit by digit behind its point: three point one four."""
    tail = [each[0] for each in digits]
    if len(whole) != 1:
        return ()
    for number in (whole[0], *tail):
        if number < 0 or number != number.to_integral_value():
            return ()
    # Alone it may be any number: "three point fourteen".
    if len(tail) > 1 and max(tail) >= 10:  # noqa: PLR2004
        return ()
    decimals = "".join(f"{number:f}" for number in tail)
    return (Decimal(f"{whole[0]:f}.{decimals}"),)


def _a_multiple(number: tuple[Decimal, ...]) -> tuple[Decimal, ...]:
    """Return "a hundred", but nothing for "a five"."""
    return number if number[0] >= _LEAST_MULTIPLE else ()


def _plus_half(number: tuple[Decimal, ...], magnitudes: Sequence[Decimal]) -> tuple[Decimal, ...]:
    """Return two and a half, but nothing for "a million and a half": that is half a million more."""
    if not magnitudes and number[0] >= _LEAST_MULTIPLE * 10:
        return ()
    return _times(tuple(each + _HALF for each in number), magnitudes)


_CORES: Final[tuple[tuple[Pattern, Callable[[Values], tuple[Decimal, ...]]], ...]] = (
    (("number",), lambda values: values[0]),
    (("number", "magnitude"), lambda values: _times(values[0], values[1:])),
    (("number", "magnitude", "magnitude"), lambda values: _times(values[0], values[1:])),
    *(
        (("number", "point", *["number"] * count), lambda values: _with_decimals(values[0], values[2:]))
        for count in range(1, _MOST_DECIMALS + 1)
    ),
    (("number", "and_half"), lambda values: _plus_half(values[0], values[2:])),
    (("number", "and_half", "magnitude"), lambda values: _plus_half(values[0], values[2:])),
    (("half", "magnitude"), lambda values: (values[1] * _HALF,)),
    (("half", "one", "magnitude"), lambda values: (values[2] * _HALF,)),
    (("one", "half", "magnitude"), lambda values: (values[2] * _HALF,)),
    (("one", "magnitude"), lambda values: (values[1],)),
    (("one", "number"), lambda values: _a_multiple(values[1])),
)


def read_amount(tokens: Sequence[Token], beside: Collection[str]) -> Amount:
    """Return the number that tokens write, with its unit. It has no readings if they write anything else."""
    left = list(tokens)
    sign = 1
    units: list[Token] = []
    for place in (0, -1):
        # A unit stands before or behind its number, and the sign before both.
        while left and (place == -1 or len(left) > 1) and _is_skipped(left[place], beside):
            left.pop(place)
        if left and place == 0 and "minus" in left[0].senses:
            sign = -1
            left.pop(0)
        if len(left) > 1 and "unit" in left[place].senses and "number" not in left[place].senses:
            units.append(left.pop(place))
        if left and place == 0 and sign == 1 and "minus" in left[0].senses:
            sign = -1
            left.pop(0)
    if len({each.senses["unit"] for each in units}) > 1:
        return Amount(())
    unit, written = (units[0].senses["unit"], units[0].text) if units else ("", "")
    readings = _core(left, beside, has_unit=bool(units))
    return Amount(tuple(dict.fromkeys(each * sign for each in readings)), unit, written)


def _is_skipped(token: Token, beside: Collection[str]) -> bool:
    """Whether a token at an edge says nothing; one that may be a number, a sign or a unit stays."""
    counts = {"number", "minus", "unit", "magnitude", "one", "half"}
    return counts.isdisjoint(token.senses) and is_beside(token, beside)


def _core(tokens: Sequence[Token], beside: Collection[str], *, has_unit: bool) -> tuple[Decimal, ...]:
    known = senses_of(tokens)
    for pattern, read in _CORES:
        if len(pattern) > len(tokens) or not known.issuperset(pattern):
            continue
        values = assign(pattern, tokens, beside)
        if values is not None and (readings := read(values)):
            return readings
    if len(tokens) != 1:
        return ()
    (only,) = tokens
    if "magnitude" in only.senses and len(only.text) >= SHORTEST_ALONE:
        return (only.senses["magnitude"],)
    if has_unit and "one" in only.senses:
        return (Decimal(1),)
    return ()


# --- durations -----------------------------------------------------------------

_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
"""The units of a fixed length; months and years have none."""
_UNITS: Final = ("week", "day", "hour", "minute", "second")


def _span(number: tuple[Decimal, ...], unit: str) -> tuple[Decimal, ...]:
    seconds = _SECONDS.get(unit)
    if seconds is None:
        return ()
    return tuple(each * seconds for each in number)


def _fraction(unit: str, share: Decimal) -> tuple[Decimal, ...]:
    return _span((share,), unit)


def _number_and_share(number: tuple[Decimal, ...], unit: str, share: Decimal) -> tuple[Decimal, ...]:
    return _span(tuple(each + share for each in number), unit)


_QUARTER: Final = Decimal("0.25")
_PARTS: Final[tuple[tuple[Pattern, Callable[[Values], tuple[Decimal, ...]]], ...]] = (
    (("number", "unit"), lambda values: _span(values[0], values[1])),
    (("one", "unit"), lambda values: _span((values[0],), values[1])),
    (("number", "and_half", "unit"), lambda values: _number_and_share(values[0], values[2], _HALF)),
    (("number", "unit", "and_half"), lambda values: _number_and_share(values[0], values[1], _HALF)),
    (("one", "unit", "and_half"), lambda values: _number_and_share((values[0],), values[1], _HALF)),
    (("number", "unit", "and_quarter"), lambda values: _number_and_share(values[0], values[1], _QUARTER)),
    (("one", "unit", "and_quarter"), lambda values: _number_and_share((values[0],), values[1], _QUARTER)),
    (("half", "unit"), lambda values: _fraction(values[1], _HALF)),
    (("half", "one", "unit"), lambda values: _fraction(values[2], _HALF)),
    (("one", "half", "unit"), lambda values: _fraction(values[2], _HALF)),
    (("number", "quarter", "one", "unit"), lambda values: _span((values[0][0] * _QUARTER,), values[3])),
    (("one", "quarter", "unit"), lambda values: _fraction(values[2], _QUARTER)),
    (("minutes",), lambda values: (Decimal(values[0] * 60),)),
    (("one", "minutes"), lambda values: (Decimal(values[1] * 60),)),
    (("unit",), lambda values: _span((Decimal(1),), values[0])),
)
_SHORTHAND: Final[Pattern] = ("number", "unit", "number")


def read_duration(
    tokens: Sequence[Token], beside: Collection[str], *, bare_units: bool = False
) -> tuple[timedelta, ...]:
    """Return the durations that tokens may write: one or more parts from the largest unit to the smallest.

    Args:
        tokens: The whole text.
        beside: The senses of tokens that say nothing.
        bare_units: Whether a unit alone means one of it, as in a language without articles.
    """
    shorthand = assign(_SHORTHAND, tokens, beside)
    if shorthand is not None:
        return _shorthand(*shorthand)
    # The fewest parts first: "two and a half hours" is one part, and not "two" and "half an hour".
    for count in (1, 2, 3):
        for split in _splits(tokens, count):
            parts = [_part(each, beside, alone=bare_units and count == 1) for each in split]
            if all(parts) and _descends(split):
                totals = [sum(each, Decimal(0)) for each in product(*parts)]
                return _durations(dict.fromkeys(totals))
    return ()


def _durations(seconds: Iterable[Decimal]) -> tuple[timedelta, ...]:
    """Return durations of so many seconds; () if one is longer than there is."""
    try:
        return tuple(timedelta(seconds=float(each)) for each in seconds)
    except OverflowError:
        return ()


def _shorthand(number: tuple[Decimal, ...], unit: str, rest: tuple[Decimal, ...]) -> tuple[timedelta, ...]:
    """Return a duration such as "1h30": the number behind an hour counts minutes."""
    is_minute = rest[0] == rest[0].to_integral_value() and 0 <= rest[0] < 60  # noqa: PLR2004
    if unit != "hour" or len(number) != 1 or not is_minute:
        return ()
    return _durations([number[0] * 3_600 + rest[0] * 60])


def _part(tokens: Sequence[Token], beside: Collection[str], *, alone: bool) -> tuple[Decimal, ...]:
    known = senses_of(tokens)
    for pattern, read in _PARTS:
        if pattern == ("unit",) and not alone:
            continue
        if not known.issuperset(pattern):
            continue
        values: Values | None = assign(pattern, tokens, beside)
        if values is not None and (readings := read(values)):
            return readings
    return ()


def _splits(tokens: Sequence[Token], count: int) -> Iterator[list[Sequence[Token]]]:
    if count == 1:
        yield [tokens]
        return
    for end in range(2, len(tokens) - 1):
        for rest in _splits(tokens[end:], count - 1):
            yield [tokens[:end], *rest]


def _descends(split: Sequence[Sequence[Token]]) -> bool:
    """Whether each part has a smaller unit than the one before."""
    if len(split) == 1:
        return True
    places: list[int] = []
    for part in split:
        units = [token.senses["unit"] for token in part if "unit" in token.senses]
        if not units or units[0] not in _UNITS:
            return False
        places.append(_UNITS.index(units[0]))
    return places == sorted(set(places))
