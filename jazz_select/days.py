"""Show a day or a time to users in words of their language: "Friday, May 15, 2026"."""

import re
from datetime import date, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from babel import Locale

_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT: Final = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d(?::\d\d(?:\.\d+)?)?)(Z|[+-]\d\d:\d\d)?")
_CLOCK: Final = re.compile(r"(\d\d:\d\d):00(?:\.0+)?")


def in_full(value: object, language: str) -> str:
    """Return a value as text, a day in ISO 8601 with its weekday and month in words.

    A moment keeps its seconds, unless they are 0, and its offset: whoever reads it may agree to it.
    """
    text = str(value)
    moment = _MOMENT.fullmatch(text)
    if moment is None and not _DAY.fullmatch(text):
        return _without_seconds(text)
    try:
        day = datetime.fromisoformat(text).date()
    except ValueError:
        return text
    in_words = _day_in_words(day, language)
    if moment is None:
        return in_words
    clock = f"{in_words}, {_without_seconds(moment[2])}"
    offset = moment[3]
    if offset is None:
        return clock
    return f"{clock} UTC" if offset == "Z" else f"{clock} UTC{offset}"


def _without_seconds(clock: str) -> str:
    """Return a time of day without its seconds where they are 0; any other text as it is."""
    even = _CLOCK.fullmatch(clock)
    return even[1] if even else clock


def month_in_words(month: int, language: str) -> str:
    """Return the name of a month, from 1, as it stands in a date of that language; in English where CLDR has none."""
    from babel.dates import get_month_names

    return get_month_names("wide", locale=_locale_of(language) or "en")[month]


def _day_in_words(day: date, language: str) -> str:
    from babel.dates import format_date

    locale = _locale_of(language)
    return day.isoformat() if locale is None else format_date(day, "full", locale=locale)


def _locale_of(language: str) -> "Locale | None":
    """Return what CLDR knows of a language, by its code or its tag such as "pt-BR"; None where it has none."""
    from babel import Locale, UnknownLocaleError

    try:
        return Locale.parse(language.replace("-", "_"))
    except (UnknownLocaleError, ValueError):
        return None
