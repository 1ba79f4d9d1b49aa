"""Days out of tokens: written in figures or words, and relative to today."""

from calendar import monthrange
from collections.abc import Callable, Collection, Sequence
from datetime import date, timedelta
from decimal import Decimal
from functools import lru_cache, partial
from typing import Final

from jazz_select.agent.reading.expressions.matching import Pattern, Values, first_match
from jazz_select.agent.reading.expressions.tokens import Token, is_day

Days = tuple[date, ...]
_WEEK: Final = 7
_FAR: Final = 274
"""Days ahead from which a day without a year may as well be the last one: nine months."""
_MOST_YEARS: Final = 9
"""The years in which a 29 February is looked for."""
_LEAST_YEAR, _LARGEST_YEAR = 1_000, 9_999
_LARGEST_MONTH: Final = 31
_CENTURY, _CURRENT_CENTURY = 100, 2_000
_FIRST_SHORT_YEAR: Final = 24
"""The least number behind a month that may be a year of two digits."""
_MOST_UNITS: Final = 10_000


def read_days(tokens: Sequence[Token], beside: Collection[str], today: date | None) -> Days:
    """Return the days that tokens may mean, the earliest first; () if they mean none.

    A day without a year is the next one from today, but where that is more than nine months ahead the last one may be
    meant as well. "Next Friday" is the coming Friday or the one of next week.

    Args:
        tokens: The whole text.
        beside: The senses of tokens that say nothing.
        today: The day that relative words count from. Without it they mean nothing.
    """
    found = first_match(_patterns(today), tokens, beside)
    return tuple(sorted(set(found)))


@lru_cache(maxsize=8)
def _patterns(today: date | None) -> Sequence[tuple[Pattern, Callable[[Values], Days]]]:
    return _full_date_patterns() if today is None else (*_full_date_patterns(), *_relative(today))


def _full_date_patterns() -> tuple[tuple[Pattern, Callable[[Values], Days]], ...]:
    """Return the patterns of days with a year."""
    return (
        (("date",), lambda values: _dates_of(values[0])),
        (("weekday", "date"), lambda values: _days_on(values[0], _dates_of(values[1]))),
        (("date", "weekday"), lambda values: _days_on(values[1], _dates_of(values[0]))),
        *_with_month(_with_year, "number"),
    )


def _with_month(read: Callable[[Values], Days], *tail: str) -> list[tuple[Pattern, Callable[[Values], Days]]]:
    """Return the patterns of a month with its day in all orders, with or without a weekday."""
    patterns: list[tuple[Pattern, Callable[[Values], Days]]] = []
    for day in ("ordinal", "number"):
        for pair in ((day, "month"), ("month", day)):
            order = pair == (day, "month")
            patterns += [
                ((*pair, *tail), partial(_read_month, read, order)),
                (("weekday", *pair, *tail), partial(_read_weekday_first, read, order)),
                ((*pair, *tail, "weekday"), partial(_read_weekday_last, read, order)),
            ]
    return patterns


def _read_month(read: Callable[[Values], Days], day_first: bool, values: Values) -> Days:  # noqa: FBT001
    day, month = values[:2] if day_first else (values[1], values[0])
    return read((_whole(day), month, *values[2:]))


def _read_weekday_first(read: Callable[[Values], Days], day_first: bool, values: Values) -> Days:  # noqa: FBT001
    return _days_on(values[0], _read_month(read, day_first, values[1:]))


def _read_weekday_last(read: Callable[[Values], Days], day_first: bool, values: Values) -> Days:  # noqa: FBT001
    return _days_on(values[-1], _read_month(read, day_first, values[:-1]))


def _with_year(values: Values) -> Days:
    day, month, number = values
    year = _whole(number)
    if _FIRST_SHORT_YEAR <= year < _CENTURY and is_day(_CURRENT_CENTURY + year, month, day):
        # It may as well count something.
        return (InDoubt(_CURRENT_CENTURY + year, month, day),)
    if not _LEAST_YEAR <= year <= _LARGEST_YEAR or not is_day(year, month, day):
        return ()
    return (date(year, month, day),)


def _whole(number: object) -> int:
    """Return a day or a year as a whole number; 0 if it is none."""
    if isinstance(number, int):
        return number
    if isinstance(number, tuple) and len(number) == 1:  # pyright: ignore[reportUnknownArgumentType] - readings
        (only,) = number  # pyright: ignore[reportUnknownVariableType]
        if isinstance(only, Decimal) and only == only.to_integral_value() and 0 < only <= _LARGEST_YEAR:
            return int(only)
    return 0


def _dates_of(written: Sequence[tuple[int | None, int, int]]) -> Days:
    return tuple(date(year, month, day) for year, month, day in written if year is not None)


def _days_on(weekday: int, days: Days) -> Days:
    """Return those of these days that fall on a weekday; all of them, marked as in doubt, if none does."""
    matching = tuple(each for each in days if each.weekday() == weekday)
    return matching or tuple(InDoubt(each.year, each.month, each.day) for each in days)


class InDoubt(date):
    """A day whose weekday was said otherwise, which is only proposed."""


def _relative(today: date) -> tuple[tuple[Pattern, Callable[[Values], Days]], ...]:
    """Return the patterns of days that count from today."""

    def shift_today(days: int) -> Days:
        return (today + timedelta(days=days),)

    def in_units(number: tuple[Decimal, ...], unit: str, *, sign: int = 1, start: date = today) -> Days:
        if len(number) != 1 or number[0] != number[0].to_integral_value() or not 0 <= number[0] <= _MOST_UNITS:
            return ()
        return _move_date(start, sign * int(number[0]), unit)

    def nearest(values: Values) -> Days:
        day, month = values
        return _nearest_days(today, month, day)

    one = (Decimal(1),)
    return (
        (("date",), lambda values: _yearless(today, values[0])),
        (("weekday", "date"), lambda values: _days_on(values[0], _yearless(today, values[1]))),
        (("date", "weekday"), lambda values: _days_on(values[1], _yearless(today, values[0]))),
        (("day",), lambda values: shift_today(values[0])),
        (("weekday",), lambda values: _coming_weekday(today, values[0])),
        (("this", "weekday"), lambda values: _this_weekday(today, values[1])),
        (("weekday", "this"), lambda values: _this_weekday(today, values[0])),
        (("next", "weekday"), lambda values: _next(today, values[1])),
        (("weekday", "next"), lambda values: _next(today, values[0])),
        (("after_next", "weekday"), lambda values: _weeks_after(today, values[1], "week")),
        (("weekday", "after_next"), lambda values: _weeks_after(today, values[0], "week")),
        (("weekday", "week_later"), lambda values: _weeks_after(today, values[0], "week")),
        (("day", "week_later"), lambda values: shift_today(values[0] + _WEEK)),
        (("last", "weekday"), lambda values: _last(today, values[1])),
        (("weekday", "last"), lambda values: _last(today, values[0])),
        (("week", "weekday"), lambda values: _in_week(today, values[0], values[1])),
        (("weekday", "week"), lambda values: _in_week(today, values[1], values[0])),
        (("ordinal",), lambda values: _day_of_month(today, values[0])),
        (("weekday", "ordinal"), lambda values: _days_on(values[0], _day_of_month(today, values[1]))),
        (("article", "number"), lambda values: _day_of_month(today, _whole(values[1]))),
        (("number", "day_of_month"), lambda values: _day_of_month(today, _whole(values[0]))),
        *_with_month(nearest),
        (("in", "number", "unit"), lambda values: in_units(values[1], values[2])),
        (("in", "one", "unit"), lambda values: in_units(one, values[2])),
        (("in", "unit"), lambda values: in_units(one, values[1])),
        (("number", "unit", "later"), lambda values: in_units(values[0], values[1])),
        (("one", "unit", "later"), lambda values: in_units(one, values[1])),
        (("number", "unit", "ago"), lambda values: in_units(values[0], values[1], sign=-1)),
        (("one", "unit", "ago"), lambda values: in_units(one, values[1], sign=-1)),
        (("ago", "number", "unit"), lambda values: in_units(values[1], values[2], sign=-1)),
        (("ago", "one", "unit"), lambda values: in_units(one, values[2], sign=-1)),
        (
            ("day", "in", "number", "unit"),
            lambda values: in_units(values[2], values[3], start=shift_today(values[0])[0]),
        ),
        (("day", "in", "one", "unit"), lambda values: in_units(one, values[3], start=shift_today(values[0])[0])),
        (("weekday", "in", "one", "unit"), lambda values: _weeks_after(today, values[0], values[3])),
        (("one", "unit", "weekday"), lambda values: _weeks_after(today, values[2], values[1])),
    )


def _move_date(start: date, count: int, unit: str) -> Days:
    """Return the day that is so many units from another one. The end of a month stays in its month."""
    if unit == "day":
        return (start + timedelta(days=count),)
    if unit == "week":
        return (start + timedelta(days=count * _WEEK),)
    if unit not in {"month", "year"}:
        return ()
    months = count * 12 if unit == "year" else count
    years, month = divmod(start.month - 1 + months, 12)
    year, month = start.year + years, month + 1
    if not _LEAST_YEAR <= year <= _LARGEST_YEAR:
        return ()
    return (date(year, month, min(start.day, monthrange(year, month)[1])),)


def _yearless(today: date, written: Sequence[tuple[int | None, int, int]]) -> Days:
    found: list[date] = []
    for year, month, day in written:
        if year is None:
            found += _nearest_days(today, month, day)
    return tuple(found)


def _nearest_days(today: date, month: int, day: int) -> Days:
    """Return the next such day from today on, and the last one as well if that one is far."""
    # 29 February is not in every year, so several years are tried each way.
    following = None
    for year in range(today.year, today.year + _MOST_YEARS):
        if is_day(year, month, day) and date(year, month, day) >= today:
            following = date(year, month, day)
            break
    if following is None:
        return ()
    if (following - today).days <= _FAR:
        return (following,)
    for year in range(today.year, today.year - _MOST_YEARS, -1):
        if is_day(year, month, day) and date(year, month, day) < today:
            return (date(year, month, day), following)
    return (following,)


def _day_of_month(today: date, day: int) -> Days:
    """Return the next day with this number from today on."""
    if not 0 < day <= _LARGEST_MONTH:
        return ()
    year, month = today.year, today.month
    while not is_day(year, month, day) or date(year, month, day) < today:
        year, month = (year + month // 12, month % 12 + 1)
        if year > _LARGEST_YEAR:
            return ()
    return (date(year, month, day),)


def _next_weekday(today: date, weekday: int) -> date:
    """Return the next such weekday after today."""
    return today + timedelta(days=(weekday - today.weekday() - 1) % _WEEK + 1)


def _coming_weekday(today: date, weekday: int) -> Days:
    following = _next_weekday(today, weekday)
    # "Friday", said on a Friday, may be today.
    if weekday == today.weekday():
        return (today, following)
    return (following,)


def _this_weekday(today: date, weekday: int) -> Days:
    if weekday == today.weekday():
        return (today,)
    return (_next_weekday(today, weekday),)


def _next(today: date, weekday: int) -> Days:
    return (_next_weekday(today, weekday), *_in_week(today, 1, weekday))


def _last(today: date, weekday: int) -> Days:
    return (today - timedelta(days=(today.weekday() - weekday - 1) % _WEEK + 1), *_in_week(today, -1, weekday))


def _in_week(today: date, weeks: int, weekday: int) -> Days:
    return (today + timedelta(days=weeks * _WEEK + weekday - today.weekday()),)


def _weeks_after(today: date, weekday: int, unit: str) -> Days:
    """Return the weekday a week after the coming one."""
    if unit != "week":
        return ()
    return (_next_weekday(today, weekday) + timedelta(days=_WEEK),)
