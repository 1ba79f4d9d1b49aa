"""The words of values by language: from CLDR by Babel, number words by text2num, and the rest by `lexicon.toml`.

Babel and text2num are imported with the first value that is read, since an import of the package must stay quick.
"""

import re
import tomllib
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Final, cast

from jazz_select.text import nfkc

LANGUAGES: Final = ("en", "de", "es", "fr", "it", "ru", "ja")
Senses = Mapping[str, Any]
"""What a word may mean: the name of the sense, and its value."""
_CURRENCIES: Final = (
    *("EUR", "USD", "GBP", "JPY", "CHF", "RUB", "INR", "CNY", "KRW", "PLN"),
    *("SEK", "NOK", "DKK", "CZK", "HUF", "TRY", "BRL", "MXN", "CAD", "AUD"),
)
_SIGNS: Final = {"$": "USD", "us$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY", "₽": "RUB", "₹": "INR", "¢": "cent"}
_MEASURES: Final = (
    *("duration-second", "duration-minute", "duration-hour", "duration-day", "duration-week", "duration-month"),
    *("duration-year", "mass-kilogram", "mass-gram", "mass-pound", "length-kilometer", "length-meter"),
    *("length-centimeter", "length-millimeter", "length-mile", "length-foot", "length-inch", "volume-liter"),
    *("volume-milliliter", "digital-gigabyte", "digital-megabyte", "digital-terabyte", "temperature-celsius"),
    *("area-square-meter", "power-kilowatt", "concentr-percent"),
)
_SPELLED: Final = ("en", "de", "es", "fr", "it")
"""The languages whose number words text2num reads."""
_WITH_SPACES: Final = (*_SPELLED, "ru")
_LONGEST_NUMBER: Final = 8
"""The most words of a number."""
_NAMED_BY_LISTS: Final = (
    *("beside", "beside_day", "beside_time", "article", "and", "denies", "minus", "point", "half", "quarter"),
    *("and_half", "and_quarter", "less_quarter", "this", "next", "last", "after_next", "week_later"),
    *("in", "ago", "later", "clock", "past", "to", "half_past", "half_to", "day_of_month"),
)
_NAMED_BY_TABLES: Final = {
    "days": "day",
    "weeks": "week",
    "months": "month",
    "weekdays": "weekday",
    "halves": "minutes",
}
_PARTS_OF_DAY: Final = ("am", "pm", "morning", "afternoon", "evening", "night")
_NOON: Final = 12
_RUSSIAN_NEUTER: Final = re.compile("(ь(?=его))?[ео]го$")
"""The end of a Russian ordinal in the genitive, which has another one where a day is named: "первое мая"."""
_GERMAN_ENDINGS: Final = ("", "n", "r", "s", "m")
_ACCENTED: Final = frozenset({"es", "fr", "it"})
"""The languages in which people leave out accents."""
WORD: Final = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*'?")
_SIGNED: Final = re.compile(r"[^\w\s'.-]")
_ZEROS: Final = re.compile(r"0+")
_SHORTEST_SUFFIX: Final = 2
"""The least letters of a magnitude that CLDR has: "m" may also be metres or minutes."""
_MOST_SPELLED: Final = 4_096
"""Words whose numbers are remembered, most of which are none."""
SHORTEST_ALONE: Final = 4
"""The least letters of a magnitude that stands for itself: "dozen", not "k"."""
_LONGEST_TIME: Final = 5
"""The most words of a time of the day."""
_MINUTES: Final = 60
_HOURS: Final = 24
_HALF_A_DAY: Final = 720
"""The minutes of half a day."""
_HUNDRED: Final = 100
_THOUSAND: Final = 1_000
_TEN: Final = 10
_TWENTY: Final = 20


@dataclass(frozen=True, slots=True)
class Lexicon:
    """The words of a language.

    Attributes:
        language: Its code.
        senses: What each phrase may mean, by its words.
        longest: The most words of a phrase.
        words: All words of its phrases.
        starts: The first words of phrases of several words.
        decimal: The mark before decimals.
        group: The mark between groups of thousands.
        groups_by_space: Whether blanks part thousands, too.
        order: The order of the numbers of a day with slashes: "dmy", "ymd", or "" if it is not known.
        half_days: Whether people write hours from 1 to 12.
        spell: Returns the number that words spell, or None.
    """

    language: str
    senses: Mapping[tuple[str, ...], Senses]
    longest: int
    words: frozenset[str]
    starts: frozenset[str]
    decimal: str
    group: str
    groups_by_space: bool
    order: str
    half_days: bool
    spell: Callable[[tuple[str, ...]], Decimal | None]


def fold_words(text: str) -> str:
    """Return a text in the form in which words are compared."""
    return nfkc(text).replace("’", "'").replace("−", "-").casefold()


@cache
def lexicon_of(language: str) -> Lexicon:
    """Return the words of a language. If it is unknown, those of English, and a mark in a number may be either."""
    if language not in LANGUAGES:
        return replace(lexicon_of("en"), group="")
    own = _words()[language]
    data = _cldr(language)
    senses: dict[tuple[str, ...], dict[str, Any]] = {}

    def add(phrase: str, sense: str, value: object) -> None:
        for form in _forms(fold_words(phrase).strip(), language):
            key = phrase_words(form)
            if key:
                senses.setdefault(key, {}).setdefault(sense, value)

    for phrase, sense, value in (*_own_entries(own, language), *_cldr_entries(data), *_currency_entries(data)):
        add(phrase, sense, value)
    for sign, code in _SIGNS.items():
        senses.setdefault((sign,), {}).setdefault("unit", code)
    symbols = data["number_symbols"]["latn"]
    pattern = str(data["time_formats"]["short"].pattern)
    return Lexicon(
        language=language,
        senses=senses,
        longest=max(map(len, senses)),
        words=frozenset(word for key in senses for word in key),
        starts=frozenset(key[0] for key in senses if len(key) > 1),
        decimal=symbols["decimal"],
        group=symbols["group"],
        groups_by_space=not symbols["group"].strip() or language == "es",
        order={"en": "", "ja": "ymd"}.get(language, "dmy"),
        half_days="a" in pattern,
        spell=_speller(language),
    )


@cache
def _cldr(language: str) -> Mapping[str, Any]:
    from babel.localedata import LocaleDataDict, load

    return cast("Mapping[str, Any]", LocaleDataDict(cast("Any", load(language))))  # it follows the aliases of CLDR


@cache
def _words() -> Mapping[str, Mapping[str, Any]]:
    return tomllib.loads(Path(__file__).with_name("lexicon.toml").read_text("utf-8"))


# --- the words of all languages, for texts whose language is not known ---


@lru_cache(maxsize=4_096)
def spelled_number(words: tuple[str, ...]) -> Decimal | None:
    """Return the number that folded words spell in one of the languages, the first that has it; None if none does.

    An article is no number here, and neither is a short magnitude alone, such as "k".
    """
    if len(words) == 1 and (words[0] in _articles() or words[0] in _short_magnitudes()):
        return None
    for language in _WITH_SPACES:
        number = _speller(language)(words)
        if number is not None:
            return number
    return None


def spelled_numbers(words: Sequence[str]) -> Iterator[tuple[int, int, Decimal]]:
    """Yield where each number in folded words begins and ends, and its value; of several readings, the longest."""
    start = 0
    while start < len(words):
        end, number = _longest_number(words, start)
        if number is not None:
            yield start, end, number
        start = end


def spoken_time(words: Sequence[str], start: int) -> tuple[int, int] | None:
    """Return where a time of the day in folded words ends, and its minutes after noon or midnight; None if none begins.

    Read are "quarter past two", "twenty to seven", "half past 2", "a las cuatro y media", "at three" and the like.
    """
    last = min(len(words), start + _LONGEST_TIME)
    for end in range(last, start + 1, -1):
        minutes = _minutes_of(tuple(words[start:end]))
        if minutes is not None:
            return end, minutes % _HALF_A_DAY
    return None


@lru_cache(maxsize=_MOST_SPELLED)
def _minutes_of(words: tuple[str, ...]) -> int | None:
    text = f"{' '.join(words)} "
    for opening in _spoken("beside_time") - {"the"}:
        if text.startswith(f"{opening} "):
            hour, _, rest = text.removeprefix(f"{opening} ").partition(" ")
            minutes = _minutes_from_hour(hour, rest.strip())
            if minutes is not None:
                return minutes
    hour, _, rest = text.partition(" ")
    # A number alone is no time of the day: "at five", but not "five".
    minutes = _minutes_from_hour(hour, rest.strip()) if rest.strip() else None
    return _minutes_to_hour(words) if minutes is None else minutes


def _minutes_from_hour(hour: str, rest: str) -> int | None:
    """Return the minutes of an hour and what stands behind it: "o'clock", "y media", "moins le quart"."""
    number, minutes = _whole(hour), _minutes_behind_hour().get(rest)
    if number is None or minutes is None or not 0 < number <= _HOURS:
        return None
    return number * _MINUTES + minutes


@cache
def _minutes_behind_hour() -> Mapping[str, int]:
    """Return the minutes that words behind an hour add to it, in all languages."""
    minutes = {"": 0}
    for kind, added in (("clock", 0), ("and_half", 30), ("and_quarter", 15), ("less_quarter", -15)):
        minutes |= dict.fromkeys(_spoken(kind), added)
    return minutes


def _minutes_to_hour(words: tuple[str, ...]) -> int | None:
    """Return the minutes of an hour and what stands before it: "quarter past two", "halb drei"."""
    hour = _whole(words[-1])
    if hour is None or not 0 < hour <= _HOURS:
        return None
    before = " ".join(words[:-1])
    if before in _spoken("half_past"):
        return hour * _MINUTES + 30
    if before in _spoken("half_to"):
        return hour * _MINUTES - 30
    minutes, sign = before.rpartition(" ")[0], before.rpartition(" ")[2]
    count = 15 if minutes.removeprefix("a ") in _spoken("quarter") else _whole(minutes)
    if count is None or not 0 < count < _MINUTES:
        return None
    if sign in _spoken("past"):
        return hour * _MINUTES + count
    return hour * _MINUTES - count if sign in _spoken("to") else None


def _whole(word: str) -> int | None:
    if word.isdecimal():
        return int(word)
    number = spelled_number((word,)) if word else None
    return int(number) if number is not None and number == int(number) else None


@cache
def _spoken(kind: str) -> frozenset[str]:
    """Return the words of a kind in all languages."""
    found: set[str] = set()
    for own in _words().values():
        found.update(map(fold_words, own[kind]))
    return frozenset(found)


def _longest_number(words: Sequence[str], start: int) -> tuple[int, Decimal | None]:
    """Return where the number that begins here ends, and its value; the next place and None if none does."""
    if spelled_number((words[start],)) is None:
        return start + 1, None
    for end in range(min(start + _LONGEST_NUMBER, len(words)), start, -1):
        number = spelled_number(tuple(words[start:end]))
        if number is not None:
            return end, number
    return start + 1, None


@cache
def month_words() -> Mapping[str, int]:
    """Return the months by their names in all languages, written out, and as English shortens them."""
    return _names_of("months", "months")


@cache
def weekday_words() -> Mapping[str, int]:
    """Return the days of the week, from Monday as 0, by their names in all languages, likewise."""
    return _names_of("days", "weekdays")


def _names_of(table: str, own: str) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for language in _WITH_SPACES:
        named = _cldr(language)[table]
        tables = [named[context]["wide"] for context in ("format", "stand-alone")]
        if language == "en":
            tables.append(named["format"]["abbreviated"])
        for each in tables:
            for number, name in _items(each):
                found.setdefault(fold_words(name), number)
        for name, number in _items(_words()[language][own]):
            found.setdefault(fold_words(name), number)
    return found


@cache
def ordinal_words() -> Mapping[str, int]:
    """Return the ordinals by their words in all languages."""
    found: dict[str, int] = {}
    for language in _WITH_SPACES:
        own = _words()[language]
        for word, _, place in _ordinal_entries(own, language):
            found.setdefault(fold_words(word), place)
        for row in own["ranks"]:
            for place, word in enumerate(row.split(), start=1):
                found.setdefault(fold_words(word), place)
    return found


@cache
def homonyms() -> frozenset[str]:
    """Return the number words that mean something else in running text, in their language or another."""
    return _spoken("homonyms")


@cache
def _articles() -> frozenset[str]:
    return _spoken("one") - {"uno"}


@cache
def _short_magnitudes() -> frozenset[str]:
    return frozenset(word for word in magnitude_words() if len(word) < SHORTEST_ALONE)


@cache
def share_words() -> frozenset[str]:
    """Return the words beside which a number is only a part of one, in any language: halves, points and magnitudes."""
    found = set(magnitude_words())
    for kind in ("half", "quarter", "point", "and_half", "and_quarter"):
        found.update(phrase.split()[-1] for phrase in _spoken(kind))
    return frozenset(found)


@cache
def unit_words() -> frozenset[str]:
    """Return the units of one word in all languages with spaces, such as "kg" and "days"."""
    found: set[str] = set()
    for language in _WITH_SPACES:
        senses = lexicon_of(language).senses.items()
        found.update(key[0] for key, each in senses if len(key) == 1 and "unit" in each)
    return frozenset(found)


@cache
def plain_noes() -> frozenset[str]:
    """Return the whole answers, folded, that say no to a question of yes or no, in any language."""
    return frozenset(" ".join(WORD.findall(answer)) for answer in _spoken("plain_no"))


@cache
def magnitude_words() -> frozenset[str]:
    """Return the words of `lexicon.toml` that multiply the number before them, in any language."""
    return _spoken("magnitudes")


def phrase_words(phrase: str) -> tuple[str, ...]:
    """Return the words of a folded phrase; a sign stands for itself."""
    if _SIGNED.search(phrase):
        return (phrase,)
    return tuple(WORD.findall(phrase)) or ((phrase,) if phrase.strip() else ())


def _own_entries(own: Mapping[str, Any], language: str) -> Iterator[tuple[str, str, object]]:
    """Yield the phrases of `lexicon.toml`, each with a sense and its value."""
    for sense in _NAMED_BY_LISTS:
        yield from _phrase_entries(own[sense], sense, value=True)
    yield from _phrase_entries(own["one"], "one", Decimal(1))
    yield from _phrase_entries(own["noon"], "hour_named", _NOON)
    yield from _phrase_entries(own["midnight"], "hour_named", 0)
    for part in _PARTS_OF_DAY:
        yield from _phrase_entries(own[part], "part", part)
    for unit, phrases in own["units"].items():
        yield from _phrase_entries(phrases, "unit", unit)
    for kind, sense in _NAMED_BY_TABLES.items():
        for phrase, value in own[kind].items():
            yield phrase, sense, value
    for phrase, value in own["values"].items():
        yield phrase, "number", (Decimal(value),)
    for phrase, value in own["magnitudes"].items():
        yield phrase, "magnitude", Decimal(value)
    yield from _ordinal_entries(own, language)


def _ordinal_entries(own: Mapping[str, Any], language: str) -> Iterator[tuple[str, str, int]]:
    endings = _GERMAN_ENDINGS if language == "de" else ("",)
    for place, phrase in enumerate(own["ordinals"], start=1):
        for ending in endings:
            yield f"{phrase}{ending}", "ordinal", place
        if language == "ru":
            yield _RUSSIAN_NEUTER.sub(lambda found: "ье" if found[1] else "ое", phrase), "ordinal", place


def _phrase_entries(phrases: Sequence[str], sense: str, value: object) -> Iterator[tuple[str, str, object]]:
    for phrase in phrases:
        yield phrase, sense, value


def _cldr_entries(data: Mapping[str, Any]) -> Iterator[tuple[str, str, object]]:
    """Yield the months, weekdays, relative days and weeks, magnitudes and units of CLDR."""
    for context in ("format", "stand-alone"):
        for width in ("wide", "abbreviated"):
            for number, name in _items(data["months"][context].get(width)):
                yield name, "month", number
            for number, name in _items(data["days"][context].get(width)):
                yield name, "weekday", number
    fields = data["date_fields"]
    for days, phrase in _items(fields["day"].get("relative")):
        yield phrase, "day", days
    for weeks, phrase in _items(fields["week"].get("relative")):
        yield phrase, "week", weeks
    yield from _magnitude_entries(data)
    yield from _unit_entries(data)


def _magnitude_entries(data: Mapping[str, Any]) -> Iterator[tuple[str, str, object]]:
    forms = chain.from_iterable(each.values() for each in data["compact_decimal_formats"].values())
    for power, pattern in chain.from_iterable(map(_items, forms)):
        text = str(pattern.pattern)
        zeros = len("".join(_ZEROS.findall(text)))
        suffix = text.replace("0", "").replace("'", "").replace("\xa0", " ").strip()
        if zeros and (len(suffix) >= _SHORTEST_SUFFIX or not suffix.isascii()):
            yield suffix, "magnitude", Decimal(power) / 10 ** (zeros - 1)


def _unit_entries(data: Mapping[str, Any]) -> Iterator[tuple[str, str, object]]:
    for unit in _MEASURES:
        for width in ("long", "short"):
            for count, pattern in _items(data["unit_patterns"].get(unit, {}).get(width)):
                if count != "per" and isinstance(pattern, str):
                    yield pattern.replace("{0}", "").strip(), "unit", unit.partition("-")[2]
    yield "%", "unit", "percent"


def _currency_entries(data: Mapping[str, Any]) -> Iterator[tuple[str, str, object]]:
    for code in _CURRENCIES:
        names = data["currency_names"].get(code)
        plural = data["currency_names_plural"].get(code, {})
        for phrase in (code, names, data["currency_symbols"].get(code), *dict(plural).values()):
            if isinstance(phrase, str):
                yield phrase, "unit", code


def _items(found: object) -> Iterator[tuple[Any, Any]]:
    """Yield the entries of a table of CLDR; an alias to another table has none of its own."""
    if isinstance(found, Mapping):
        yield from cast("Mapping[Any, Any]", found).items()


def _forms(phrase: str, language: str) -> Iterator[str]:
    """Yield a phrase as it is, and without its accents where people leave them out."""
    yield phrase
    if language in _ACCENTED:
        decomposed = unicodedata.normalize("NFD", phrase)
        bare = "".join(each for each in decomposed if not unicodedata.combining(each))
        if bare != phrase:
            yield bare


@cache
def _speller(language: str) -> Callable[[tuple[str, ...]], Decimal | None]:
    """Return the function that reads number words of a language, and remembers the last of them."""
    return lru_cache(maxsize=_MOST_SPELLED)(_new_speller(language, _words()[language]))


def _new_speller(language: str, own: Mapping[str, Any]) -> Callable[[tuple[str, ...]], Decimal | None]:
    listed = {fold_words(word): Decimal(str(value)) for word, value in own["numbers"].items()}
    if language == "ru":
        times: dict[str, Decimal] = {}
        for word, value in own["magnitudes"].items():
            if value >= _THOUSAND:  # a hundred is a word of its own there, and listed
                times[fold_words(word)] = Decimal(value)
        return lambda words: _sum_of(words, listed, times)
    if language not in _SPELLED:
        return lambda _: None
    import text_to_num

    text2num = cast("Callable[[str, str], int]", cast("Any", text_to_num).text2num)  # it has no types

    unread = frozenset(map(fold_words, own["no_numbers"]))

    def spell(words: Sequence[str]) -> Decimal | None:
        text = " ".join(words)
        if text in unread:
            return None
        if text in listed:
            return listed[text]
        half = Decimal(0)
        if language == "de" and text.endswith("einhalb"):
            text, half = text.removesuffix("einhalb"), Decimal("0.5")
        try:
            return Decimal(text2num(text, language)) + half
        except ValueError:
            return None

    return spell


def _sum_of(words: Sequence[str], listed: Mapping[str, Decimal], times: Mapping[str, Decimal]) -> Decimal | None:
    """Return the number of words that stand for hundreds, tens, ones and thousands, in this order."""
    whole = part = Decimal(0)
    last = Decimal(1_000)
    largest = Decimal("Infinity")
    for word in words:
        if word in times:
            if times[word] >= largest:
                return None
            whole, part, last, largest = whole + (part or 1) * times[word], Decimal(0), Decimal(1_000), times[word]
            continue
        value = listed.get(word)
        if value is None or not _may_follow(last, value):
            return None
        part += value
        last = value
    return whole + part if words else None


def _may_follow(last: Decimal, value: Decimal) -> bool:
    """Whether a number word may stand behind another one in the same number: 20 behind 100, 3 behind 20."""
    if last >= _HUNDRED:
        return value < last
    return last >= _TWENTY and 0 < value < _TEN
