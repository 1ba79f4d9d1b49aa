"""Read an answer as a value of a kind: what it says if all of its words are accounted for, else what was understood."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from functools import cache, lru_cache
from itertools import product
from typing import Any, Final, Literal

from jazz_select.agent.reading.expressions.dates import InDoubt, read_days
from jazz_select.agent.reading.expressions.matching import is_beside
from jazz_select.agent.reading.expressions.numbers import read_amount, read_duration
from jazz_select.agent.reading.expressions.times import read_times
from jazz_select.agent.reading.expressions.tokens import MOST_TOKENS, Token, tokens_of
from jazz_select.consent import is_refusal, read_consent
from jazz_select.lexicon import LANGUAGES, WORD, Lexicon, fold_words, lexicon_of, plain_noes
from jazz_select.phrases import QUESTION_MARKS
from jazz_select.words import words as name_words

Kind = Literal["number", "integer", "date", "time", "datetime", "duration", "boolean"]
_LONGEST: Final = 200
"""The most characters of an answer that are read."""
_LONGEST_SEARCHED: Final = 1_000
_MOST_SEARCHED: Final = 200
"""The most characters and tokens of a text in which values are looked for."""
_LONGEST_VALUE: Final = 8
"""The most tokens of a value in a text."""
_ISO_DURATION: Final = re.compile(r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?", re.IGNORECASE)
_ISO_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)", re.ASCII)
_MONEY: Final = frozenset(
    (
        *("amount", "price", "prices", "sum", "total", "budget", "cost", "costs", "fee", "fees", "payment", "money"),
        *("salary", "rent", "limit", "value", "paid", "pay", "deposit", "donation", "betrag", "preis", "summe"),
        *("kosten", "importe", "precio", "monto", "coste", "montant", "prix", "somme", "importo", "prezzo", "costo"),
        *("сумма", "цена", "стоимость", "бюджет", "金額", "料金", "価格", "予算", "合計"),
    )
)
"""Words in the names of inputs that take an amount of money."""
_BESIDE: Final[dict[str, tuple[str, ...]]] = {
    "date": ("beside_day",),
    "time": ("beside_time",),
    "datetime": ("beside_day", "beside_time"),
    "duration": ("and",),
    "number": (),
    "integer": (),
    "boolean": (),
}
_TELLING: Final[dict[str, frozenset[str]]] = {
    "number": frozenset({"number", "time", "date", "and_half", "month", "weekday"}),
    "date": frozenset({"date", "weekday", "month", "day", "ordinal", "week_later", "after_next"}),
    "time": frozenset(
        {
            "number",
            "time",
            "hour_named",
            "part",
            "half_past",
            "half_to",
            "half",
            "quarter",
            "and_half",
            "and_quarter",
            "less_quarter",
        }
    ),
    "datetime": frozenset({"number", "time", "hour_named", "date", "weekday", "month", "day", "ordinal"}),
    "duration": frozenset({"number", "minutes"}),
}
"""Senses of words that may be a second value beside the one that was understood."""
_DOUBTFUL: Final = frozenset({"meter", "minute", "gram"})
"""Units of one letter that may be another one, or a million."""
_FREE: Final = frozenset({"", "thing"})
_WITH_CENTS: Final = frozenset({"EUR", "USD", "CAD", "AUD"})
"""Currencies of which a hundred cents are one."""
_CENTS: Final = 100
_LAST_HOUR: Final = Decimal(24)
_OF_CALENDAR: Final = frozenset({"day", "week", "fortnight", "month", "year"})
_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
_MEASURES: Final = (
    frozenset({"kilogram", "gram", "pound"}),
    frozenset({"kilometer", "meter", "centimeter", "millimeter", "mile", "foot", "inch"}),
    frozenset({"liter", "milliliter"}),
)
"""Units of one measure, of which one is not proposed for another."""
_TYPES_OF_NUMBERS: Final = frozenset({"number", "integer"})
_DASHES: Final = frozenset("-–—")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingContext:
    """What an answer is read by.

    Attributes:
        language: The language of the conversation, such as "de"; empty if it is not known.
        today: The day that "tomorrow" counts from; None if it is not known.
        zone: The time zone of times with a day.
    """

    language: str = ""
    today: date | None = None
    zone: tzinfo | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """What an answer says.

    Attributes:
        value: The value, if every word is accounted for and it has one reading; else None.
        understood: What was understood, to be asked about: the readings of an ambiguous answer, or the value beside
            words that are not accounted for.
        rest: The words that are not accounted for.
        in_doubt: Whether words contradict what was understood, such as a weekday that is not that of its date.
    """

    value: Any = None
    understood: tuple[Any, ...] = ()
    rest: str = field(default="")
    in_doubt: bool = False


NOTHING: Final = Expression()


@lru_cache(maxsize=256)
def read_expression(text: str, kind: Kind, context: ReadingContext, name: str = "") -> Expression:
    """Read an answer as a value of a kind, in the language of the conversation.

    An answer that says nothing in that language is read in the others; it then counts if they all agree.

    Args:
        text: The answer.
        kind: What the input takes.
        context: The language, today and the time zone.
        name: The input's name, which tells its unit: `days`, `amount_eur`.
    """
    if not text.strip() or len(text) > _LONGEST:
        return NOTHING
    if kind == "boolean":
        return _flag(text)
    exact = _iso_value(text, kind)
    if exact is not None:
        return Expression(value=exact)
    read = _in_any_language(text, kind, context, name)
    is_open = not QUESTION_MARKS.isdisjoint(text) or (kind in _TYPES_OF_NUMBERS and text.strip()[0] in "('’")
    if read.value is None or not is_open:
        return read
    # "Friday?" asks, and ($50) may be less than nothing.
    return Expression(understood=(read.value,))


def _in_any_language(text: str, kind: Kind, context: ReadingContext, name: str) -> Expression:
    language = context.language if context.language in LANGUAGES else ""
    own = _read_in(text, kind, context, name, language)
    tokens = _tokens(text, language, name)
    unknown = frozenset(each.text for each in tokens if not each.senses and each.text[0].isalpha())
    if own.value is not None or not unknown or any("denies" in each.senses for each in tokens):
        return own
    return _read_elsewhere(text, kind, context, name, unknown) or own


def _read_elsewhere(
    text: str, kind: Kind, context: ReadingContext, name: str, unknown: Collection[str]
) -> Expression | None:
    """Return what other languages read in an answer whose unknown words they have, if all that read it agree.

    "Um zehn" in an English conversation is 10:00 or 22:00, as in German.
    """
    found: set[Expression] = set()
    for language in LANGUAGES:
        if language == context.language or not _may_be_of(text, language):
            continue
        lexicon = lexicon_of(language)
        if any("denies" in lexicon.senses.get((word,), {}) for word in unknown):
            return Expression(rest=text)
        is_known = language == "ja" or all(word in lexicon.words or lexicon.spell((word,)) for word in unknown)
        if not is_known:
            continue
        read = _read_in(text, kind, context, name, language, whole=True)
        if read.value is not None or read.understood:
            found.add(read)
    if len(found) != 1:
        return None
    return found.pop()


def _may_be_of(text: str, language: str) -> bool:
    """Whether a text has letters of a language's script."""
    if language == "ja":
        return any("\u3040" <= each <= "\u9fff" for each in text)
    if language == "ru":
        return any("\u0400" <= each <= "\u04ff" for each in text)
    return any(each.isalpha() and each < "\u0250" for each in text)


def _read_in(
    text: str, kind: Kind, context: ReadingContext, name: str, language: str, *, whole: bool = False
) -> Expression:
    lexicon = lexicon_of(language)
    tokens = _tokens(text, language, name)
    if not tokens or len(tokens) > MOST_TOKENS:
        return NOTHING
    reading = _Reading(kind, lexicon, context, name)
    found = reading.readings(tokens)
    if found.readings:
        if len(found.readings) == 1 and found.is_sure:
            return Expression(value=found.readings[0])
        return Expression(understood=_plain(found.readings), in_doubt=not found.is_sure)
    if whole or any("denies" in each.senses for each in tokens):
        return Expression(rest=text)
    return _partly(reading, tokens)


@lru_cache(maxsize=256)
def _tokens(text: str, language: str, name: str) -> tuple[Token, ...]:
    """Return the tokens of an answer, which is read for several inputs."""
    return tuple(tokens_of(text, lexicon_of(language), _words_of(name)))


def _partly(reading: "_Reading", tokens: Sequence[Token]) -> Expression:
    """Return the longest part of an answer that says a value, if the rest says no other one."""
    for start, end in _spans(len(tokens)):
        found = reading.readings(tokens[start:end])
        # "A couple" is not one.
        is_article = end - start == 1 and "one" in tokens[start].senses
        if not found.readings or is_article:
            continue
        rest = [*tokens[:start], *tokens[end:]]
        if _has_other_unit(reading, rest):
            break
        is_changed = reading.kind != "time" and _is_changed(tokens, start, end, is_day=reading.kind == "date")
        if is_changed or _tells_another(reading, rest):
            break
        return Expression(understood=_plain(found.readings), rest=_text_of(rest))
    return Expression(rest=_text_of(tokens))


def _has_other_unit(reading: "_Reading", rest: Sequence[Token]) -> bool:
    """Whether a unit beside a number makes another value of it."""
    own = _units_of(reading.name, reading.lexicon.language)
    for token in rest:
        unit = token.senses.get("unit")
        # "2m" may be two million.
        if unit in _DOUBTFUL and len(token.text) == 1:
            return True
        # 90 is not what "90 minutes" says for `hours`.
        if reading.kind in _TYPES_OF_NUMBERS and _is_other_unit(unit, own):
            return True
    return False


def _tells_another(reading: "_Reading", rest: Sequence[Token]) -> bool:
    """Whether the rest of an answer may say another value of the kind."""
    telling = _telling_of(reading.kind)
    for token in rest:
        if _is_other(token, reading.kind):
            continue
        if telling & token.senses.keys() or _has_digit(token):
            return True
    return False


def _text_of(tokens: Sequence[Token]) -> str:
    return " ".join(token.text for token in tokens)


def _is_changed(tokens: Sequence[Token], start: int, end: int, *, is_day: bool) -> bool:
    """Whether words beside a part change what it says: "- 4", "a week from tomorrow", "29 Feb 2026"."""
    rest = [*tokens[:start], *tokens[end:]]
    before = tokens[start - 1] if start else None
    if before is not None and ("minus" in before.senses or before.text in _DASHES):
        return True
    if not is_day:
        return False
    if any(each.senses.get("unit") in _OF_CALENDAR and len(each.text) > 1 for each in rest):
        return True
    if before is not None and "number" in before.senses:
        return True
    after = [token for token in tokens[end:] if token.text != "+"]
    return bool(after) and "number" in after[0].senses


def _telling_of(kind: Kind) -> frozenset[str]:
    return _TELLING["number" if kind == "integer" else kind]


def _has_digit(token: Token) -> bool:
    return not token.senses and any(map(str.isdigit, token.text))


def _is_other(token: Token, kind: Kind) -> bool:
    """Whether a word beside a day is a time, which is no second day."""
    return kind == "date" and bool({"time", "dotted_time"} & token.senses.keys()) and "date" not in token.senses


def _spans(length: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of a text, the longest first."""
    for size in range(length - 1, 0, -1):
        for start in range(length - size + 1):
            yield start, start + size


def _plain(readings: Sequence[Any]) -> tuple[Any, ...]:
    plain: list[Any] = []
    for reading in readings:
        is_day = isinstance(reading, InDoubt)
        plain.append(date(reading.year, reading.month, reading.day) if is_day else reading)
    return tuple(plain)


@dataclass(frozen=True, slots=True)
class _Found:
    """The readings of tokens, and whether the only one may be taken unasked."""

    readings: tuple[Any, ...]
    is_sure: bool = True


@dataclass(frozen=True, slots=True)
class _Reading:
    """How tokens are read: as which kind, in which language."""

    kind: Kind
    lexicon: Lexicon
    context: ReadingContext
    name: str

    def readings(self, tokens: Sequence[Token]) -> _Found:
        """Return what these tokens as a whole may say."""
        beside = _BESIDE[self.kind]
        if all(is_beside(each, beside) and not _counts(each) for each in tokens):
            return _Found(())
        read: dict[str, Callable[[Sequence[Token]], _Found]] = {
            "number": self._number,
            "integer": self._number,
            "date": self._days,
            "time": self._times,
            "datetime": self._moments,
            "duration": self._durations,
        }
        return read[self.kind](tokens)

    def _number(self, tokens: Sequence[Token]) -> _Found:
        amount = read_amount(tokens, ())
        readings = amount.readings
        unit = amount.unit
        own = _units_of(self.name, self.lexicon.language)
        if unit == "cent" and "cent" not in own and (_takes_money(self.name, own) or own & _WITH_CENTS):
            readings, unit = tuple(each / _CENTS for each in readings), ""
        elif "cent" in own and unit in _WITH_CENTS:
            readings, unit = tuple(each * _CENTS for each in readings), ""
        readings = _in_own_unit(readings, unit, own)
        if self.kind == "integer":
            readings = tuple(each for each in readings if each == each.to_integral_value())
        if not readings:
            return _Found(())
        if len(amount.written) == 1 and amount.written.isalpha() and unit not in own | _FREE and unit in _DOUBTFUL:
            return _Found(())
        is_sure = unit in _FREE or unit in own or (unit.isupper() and _takes_money(self.name, own))
        return _Found(tuple(map(_number_value, readings)), is_sure)

    def _days(self, tokens: Sequence[Token]) -> _Found:
        days = read_days(tokens, ("beside_day",), self.context.today)
        return _Found(days, not any(isinstance(each, InDoubt) for each in days))

    def _times(self, tokens: Sequence[Token]) -> _Found:
        if not _is_clock(tokens):
            return _Found(())
        return _Found(read_times(tokens, ("beside_time",), half_days=self.lexicon.half_days))

    def _durations(self, tokens: Sequence[Token]) -> _Found:
        return _Found(read_duration(tokens, ("and",), bare_units=self.lexicon.language == "ru"))

    def _moments(self, tokens: Sequence[Token]) -> _Found:
        for place in range(1, len(tokens)):
            for first, second in ((tokens[:place], tokens[place:]), (tokens[place:], tokens[:place])):
                days, times = self._days(first), self._times(second)
                if not days.readings or not times.readings:
                    continue
                moments: list[datetime] = []
                # "Midnight" may end the day that is named, or begin it: each shift is a reading of its own.
                for day, at, shift in product(days.readings, times.readings, _days_of_midnight(second)):
                    moment = _moment(day + timedelta(days=shift), at, self.context.zone)
                    if moment is not None:
                        moments.append(moment)
                return _Found(tuple(moments), days.is_sure)
        return _Found(())


def _in_own_unit(readings: tuple[Decimal, ...], unit: str, own: Collection[str]) -> tuple[Decimal, ...]:
    """Return numbers in the unit of the input: two weeks are 14 for `days`, to be asked about.

    Return () if the unit is another one of the same measure.
    """
    spans = [each for each in own if each in _SECONDS]
    if unit in _SECONDS and len(spans) == 1 and unit not in own:
        return tuple(each * _SECONDS[unit] / _SECONDS[spans[0]] for each in readings)
    if _is_other_unit(unit, own):
        return ()
    return readings


def _is_other_unit(unit: object, own: Collection[str]) -> bool:
    """Whether a unit is another one of the same measure than that of the input: minutes for `hours`."""
    if unit in own:
        return False
    return any(unit in measure and not measure.isdisjoint(own) for measure in (*_MEASURES, _SECONDS.keys()))


def _days_of_midnight(tokens: Sequence[Token]) -> tuple[int, ...]:
    """Return how many days after the day that is said a time is: "Friday at midnight" may begin or end that Friday."""
    if any(token.senses.get("number") == (_LAST_HOUR,) for token in tokens):
        return (1,)
    if any(token.senses.get("hour_named") == 0 for token in tokens):
        return (0, 1)
    return (0,)


def _counts(token: Token) -> bool:
    """Whether a word that may say nothing may be part of a value as well."""
    parts = {"number", "one", "unit", "magnitude", "weekday", "month", "day", "hour_named", "minutes", "week", "clock"}
    return not parts.isdisjoint(token.senses)


def _is_clock(tokens: Sequence[Token]) -> bool:
    """Whether tokens write a time: a number alone is none, without an "at" or a part of the day."""
    return not (len(tokens) == 1 and {"number", "one"} & tokens[0].senses.keys() and not _is_time(tokens[0]))


def _is_time(token: Token) -> bool:
    return bool({"time", "dotted_time", "hour_named"} & token.senses.keys())


def _moment(day: date, at: time, zone: tzinfo | None) -> datetime | None:
    """Return a day with a time in a zone, or None if its clocks skip that time."""
    moment = datetime.combine(day, at, tzinfo=zone)
    if zone is None:
        return moment
    back = moment.astimezone(UTC).astimezone(zone)
    if back.replace(tzinfo=None) != moment.replace(tzinfo=None):
        return None
    return moment


def _number_value(number: Decimal) -> int | float:
    if number == number.to_integral_value():
        return int(number)
    return float(number)


@cache
def _words_of(name: str) -> frozenset[str]:
    return frozenset(fold_words(each) for each in name_words(name))


@cache
def _units_of(name: str, language: str) -> frozenset[str]:
    """Return the units that the name of an input tells."""
    found: set[str] = set()
    for each in (lexicon_of("en"), lexicon_of(language)):
        for word in name_words(name):
            unit = each.senses.get((fold_words(word),), {}).get("unit")
            if isinstance(unit, str):
                found.add(unit)
    if language == "ja":
        # A Japanese name has no spaces, so a unit is looked for within it.
        for key, senses in lexicon_of(language).senses.items():
            if "unit" in senses and _is_japanese(key[0]) and key[0] in name:
                found.add(senses["unit"])
    return frozenset(found)


def _is_japanese(word: str) -> bool:
    return all("\u3040" <= each <= "\u9fff" for each in word)


def _takes_money(name: str, own: Collection[str]) -> bool:
    """Whether an input takes an amount in any currency."""
    has_own = any(each.isupper() or each == "cent" for each in own)
    return not has_own and not _MONEY.isdisjoint(_words_of(name))


def _iso_value(text: str, kind: Kind) -> timedelta | datetime | None:
    """Return a duration, or a moment with its offset, as ISO 8601 writes it."""
    if kind == "duration":
        return _iso_duration(text)
    if kind != "datetime" or not _ISO_MOMENT.fullmatch(text.strip()):
        return None
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        return None


def _iso_duration(text: str) -> timedelta | None:
    found = _ISO_DURATION.fullmatch(text.strip())
    if found is None or not any(found.groups()):
        return None
    weeks, days, hours, minutes, seconds = (int(each or 0) for each in found.groups())
    try:
        return timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError:
        return None


def _flag(text: str) -> Expression:
    """Read a yes or a no, whole."""
    folded = fold_words(text).strip(" .!")
    if folded in {"true", "false"}:
        return Expression(value=folded == "true")
    if " ".join(WORD.findall(folded)) in plain_noes():
        return Expression(value=False)
    consent = read_consent(text)
    if consent.rest or consent.answer not in {"yes", "no"}:
        return Expression(rest=text)
    if consent.answer == "no" and not is_refusal(folded):
        return Expression(rest=text)
    return Expression(value=consent.answer == "yes")


@lru_cache(maxsize=256)
def find_values(text: str, kind: Kind, context: ReadingContext) -> frozenset[Any]:
    """Return the values of a kind, as JSON has them, that stand anywhere in a text and have one reading there."""
    lexicon = lexicon_of(context.language)
    tokens = tokens_of(text[:_LONGEST_SEARCHED], lexicon, most=_MOST_SEARCHED)
    # "Two and a half" says no whole number, so all numbers are looked for.
    kind = "number" if kind == "integer" else kind
    reading = _Reading(kind, lexicon, context, "")
    found: set[Any] = set()
    start, is_behind = 0, False
    while start < len(tokens):
        length, values = _longest_at(reading, tokens, start)
        following = {each for token in tokens[start + length : start + length + 1] for each in token.senses}
        # Two numbers side by side are parts of one that is not understood.
        is_part = kind == "number" and length > 0 and (is_behind or "number" in following)
        if len(values) == 1 and not is_part:
            found.add(json_form(values[0]))
        is_behind = length > 0
        start += max(length, 1)
    return frozenset(found)


def _longest_at(reading: "_Reading", tokens: Sequence[Token], start: int) -> tuple[int, tuple[Any, ...]]:
    """Return how many tokens from here are a value, at most `_LONGEST_VALUE`, and its readings."""
    if not tokens[start].senses:
        return 0, ()
    for end in range(min(start + _LONGEST_VALUE, len(tokens)), start, -1):
        found = reading.readings(tokens[start:end])
        if found.readings:
            return end - start, found.readings
    return 0, ()


def has_denial(text: str, context: ReadingContext) -> bool:
    """Whether a word of a text denies or excepts something, in English or the language of the conversation."""
    for language in _read_languages(context):
        if any("denies" in token.senses for token in _tokens(text[:_LONGEST], language, "")):
            return True
    return False


def _read_languages(context: ReadingContext) -> tuple[str, ...]:
    """Return English, and the language of the conversation if it is another one that is read."""
    if context.language not in LANGUAGES or context.language == "en":
        return ("en",)
    return ("en", context.language)


@lru_cache(maxsize=1_024)
def is_measure(word: str) -> bool:
    """Whether one word writes an amount, a day, a time or a duration in one of the languages, and no bare number."""
    if word.isdecimal() or not any(map(str.isdecimal, word)):
        return False
    for language in LANGUAGES:
        tokens = tokens_of(word, lexicon_of(language))
        if tokens and all(each.senses for each in tokens):
            return True
    return False


def says_nothing(word: str, context: ReadingContext) -> bool:
    """Whether a word adds nothing to a value beside it, in English or the language of the conversation."""
    beside = {"beside", "beside_day", "beside_time", "one", "article"}
    for language in _read_languages(context):
        if beside & lexicon_of(language).senses.get((fold_words(word),), {}).keys():
            return True
    return False


def kind_of(type_: str, schema: Mapping[str, Any]) -> Kind | None:
    """Return the kind of values that a JSON Schema takes; None if they are not read by their words."""
    if "enum" in schema or "const" in schema:
        return None
    if type_ == "string":
        return _FORMATS.get(str(schema.get("format")))
    return _TYPES.get(type_)


_TYPES: Final[Mapping[str, Kind]] = {"integer": "integer", "number": "number", "boolean": "boolean"}
_FORMATS: Final[Mapping[str, Kind]] = {"date": "date", "time": "time", "date-time": "datetime", "duration": "duration"}


def json_form(value: object) -> Any:
    """Return a value as JSON has it: days and times as ISO 8601 writes them."""
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if not isinstance(value, timedelta):
        return value
    seconds = value.total_seconds()
    days, rest = divmod(abs(seconds), 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, rest = divmod(rest, 60)
    text = f"{days:g}D" if days else ""
    clock = [f"{amount:g}{unit}" for amount, unit in ((hours, "H"), (minutes, "M"), (rest, "S")) if amount]
    if clock:
        text += f"T{''.join(clock)}"
    sign = "-" if seconds < 0 else ""
    return f"{sign}P{text or 'T0S'}"
