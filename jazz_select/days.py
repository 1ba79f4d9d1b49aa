"""Show a day or a time to users in words of their language: "Friday, May 15, 2026"."""

import re
from datetime import date, datetime
from typing import Final

_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?")
_CLOCK: Final = re.compile(r"(\d\d:\d\d):00")


def in_full(value: object, language: str) -> str:
    """Return a value as text, a day in ISO 8601 with its weekday and month in words."""
    text = str(value)
    clock = _CLOCK.fullmatch(text)
    if clock:
        return clock[1]
    if not _DAY.fullmatch(text) and not _MOMENT.fullmatch(text):
        return text
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    day = _day_in_words(moment.date(), language)
    return day if _DAY.fullmatch(text) else f"{day}, {moment:%H:%M}"


def month_in_words(month: int, language: str) -> str:
    """Return the name of a month, from 1, as it stands in a date of that language; in English where CLDR has none."""
    from babel import Locale, UnknownLocaleError
    from babel.dates import get_month_names

    try:
        locale = Locale.parse(language)
    except (UnknownLocaleError, ValueError):
        locale = Locale("en")
    return get_month_names("wide", locale=locale)[month]


def _day_in_words(day: date, language: str) -> str:
    from babel import Locale, UnknownLocaleError
    from babel.dates import format_date

    try:
        return format_date(day, "full", locale=Locale.parse(language))
    except (UnknownLocaleError, ValueError):
        return day.isoformat()
