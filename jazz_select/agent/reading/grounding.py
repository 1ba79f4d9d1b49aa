"""Ground the values that a model reads in a message: accept those that fit an input and that the user said. Pure.

A value was said if it occurs whole in one message: as text, as a number in digits or words, or as a date.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from functools import cache, cached_property
from itertools import islice
from typing import Any, Final, NamedTuple, cast
from unicodedata import category

from jazz_select.agent.conversation import InputOptions
from jazz_select.agent.reading.expressions.reader import (
    Kind,
    ReadingContext,
    find_values,
    json_form,
    kind_of,
    read_expression,
)
from jazz_select.flow.base import BaseFlow
from jazz_select.flow.inputs import Input
from jazz_select.json_values import is_array, is_object
from jazz_select.lexicon import (
    homonyms,
    magnitude_words,
    month_words,
    ordinal_words,
    share_words,
    spelled_number,
    spelled_numbers,
    unit_words,
)
from jazz_select.phrases import LONGEST_READ, QUESTION_MARKS
from jazz_select.routing.flow_inputs import listed_choices
from jazz_select.routing.schemas.fields import Schema, alternatives, fields
from jazz_select.routing.schemas.validity import invalid
from jazz_select.routing.tools.tool import Tool
from jazz_select.text import at_word, in_one_line, in_words, nfkc

_MOST_MEANT: Final = 5
_MOST_OBJECTS: Final = 20
"""The most objects that are read for one flow; how many can wait at a time is the conversation's to say."""
_MOST_SHOWN: Final = 12
_MOST_MEMBERS: Final = 10
_LONGEST_SHOWN: Final = 80
EDGES: Final = ".,;:!?()[]\"'…¡¿«»“”„。、"
"""What may stand around a value and is no part of it."""


_MOST_LEAVES: Final = 200
_MOST_PLACES: Final = 300
"""The most places of a value in a message that are looked at: one letter may stand there thousands of times."""
_TELLING: Final = re.compile(r"[\d@]|://")
"""Characters that mark a word as a number, address or code."""
_CENTS: Final = re.compile(r'[_"]cents": ?(\d{1,12})\b')
"""A field with an amount in cents, in JSON."""
_MOST_AMOUNTS: Final = 500
_LONG_NUMBER: Final = 7
"""Number of digits from which people group them, as for phones, accounts and cards."""
_LONGEST_NUMBER: Final = 64
_LETTER: Final = r"[^\W\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
"""A letter, digit or underscore of a script that separates words."""
_BEFORE: Final = re.compile(rf"(?<!{_LETTER})(?<!{_LETTER}[-@.+])(?<!\d[,:/])")
_AFTER: Final = re.compile(rf"(?!{_LETTER})(?![-@.+]+{_LETTER})(?![,:/]\d)(?!'(?!s\b){_LETTER})")
_DIGITS: Final = r"(?:\d{1,3}(?:[.,]\d{3})+(?:[.,]\d{1,2})?|\d+(?:[.,]\d+)?)"
_MARKS: Final = ("st", "nd", "rd", "th", "am", "pm", "h", "d", "s", "x")
"""What is written right behind a number and is no unit of CLDR: of a place, a time, a size or a count."""
_SHORTEST_NUMBER: Final = 4
"""Number of digits from which a number is an identifier, which may be grouped in any way."""
_GROUPED: Final = re.compile(r"(?<![\w.,:/+-])\d{1,3}(?:[ .-]\d{1,3})+(?![\w]|[.,:/-]\d| \d)")
_DOT, _AT = re.compile(r"\s+(?:dot|punkt|punto|point)\s+"), re.compile(r"\s+(?:at|ät|arroba|chiocciola)\s+")
_LED: Final = re.compile(
    r"(?<!\w)(?:no|nr|n[º°]|num|number|nummer|número|numero|numéro|#)[.:]? ?(\d{4,})(?![\w]|[-.,:/]\d)"
)
_DIGIT_WORDS: Final = {"oh": "0", "o": "0"}
"""Names of the digit 0 beside the number word."""
_TOKEN: Final = re.compile(r"[^\W_]+(?:[-'][^\W_]+)*")
_LONGEST_SPELT: Final = 2
_ISO: Final = re.compile(r"\d{4}-\d\d-\d\d")


class Refusal(StrEnum):
    """Why a value that a model read does not count, with the words for that in notes."""

    NOT_TAKEN = "the input does not take it"
    """It is of another kind, or is none of the choices."""
    NOT_SAID = "the user did not say it"


class Wanted(NamedTuple):
    """An input: its schema, the root schema for its references, and the author's declaration."""

    part: object
    root: Schema
    declared: Input | None = None


class Grounded(NamedTuple):
    """The accepted values among those that a model read for the inputs of a flow.

    Attributes:
        values: Accepted values by input.
        unclear: Several candidate values of an input, or a single identifier that was not found in the user's words;
            the user is asked about them.
        taken_back: Inputs that the user withdraws.
        refused: Reasons of refusal by input.
        wrong: Messages to the user by input, from the author's checks.
        refusal: Why the flow cannot be done with these values, as an author's check tells the user (`CannotDo`).
        every: Whether the flow is wanted for all that there are, and none of them was named.
        times: How often it is wanted for just these values.
    """

    values: Mapping[str, Any] = {}
    unclear: Mapping[str, tuple[Any, ...]] = {}
    taken_back: tuple[str, ...] = ()
    refused: Mapping[str, Refusal] = {}
    wrong: Mapping[str, str] = {}
    refusal: str = ""
    every: bool = False
    times: int = 1


NO_VALUES: Final = Grounded()


def wanted_of(tools: Iterable[Tool], names: Sequence[str]) -> dict[str, Wanted]:
    """Return the schemas of these inputs, each from the first tool that has it."""
    found: dict[str, Wanted] = {}
    missing = set(names)
    for tool in tools:
        if missing <= found.keys():
            break
        for name, (part, _) in fields(tool.input_schema).items():
            if name in missing:
                found.setdefault(name, Wanted(part, tool.input_schema))
    return found


def refined(want: Wanted | None, declared: Input | None, options: InputOptions | None = None) -> Wanted:
    """Merge the author's declaration into an input; its choices replace the type in the schema.

    Where a tool listed all of them, as `options`, a value or a label is an answer.
    """
    part, root, _ = want or Wanted({"type": "string"}, {})
    if declared is None:
        return Wanted(part, root)
    known = dict(part) if is_object(part) else {}
    members = listed_choices(declared, cast("object", part), root)
    if declared.by_tool is not None and options is not None and options.is_whole and options.entries:
        values = [value for value, _ in options.entries]
        numbers = [each for each in values if not isinstance(each, str)]
        members = [*dict.fromkeys((*options.labels, *map(str, values))), *numbers]
    if members:
        known = {key: value for key, value in known.items() if key in {"description", "title"}}
        known["enum"] = members
    if declared.question:
        known.setdefault("description", declared.question)
    return Wanted(known, root, declared)


def shown_inputs(wanted: Mapping[str, Wanted]) -> tuple[str, ...]:
    """Render inputs for a model, a line each: name, type or members, and a short description."""
    shown = list(wanted.items())[:_MOST_SHOWN]
    return tuple(in_one_line(_describe_kinds(name, want)) for name, want in shown)


def _describe_kinds(name: str, want: Wanted) -> str:
    kinds: dict[str, None] = {}
    members: list[str] = []
    about = ""
    for found in alternatives(want.part, want.root):
        kind = str(found.schema.get("format") or found.type or "any")
        if kind != "null":
            kinds[kind] = None
        members.extend(map(str, _members(found.schema)))
        about = about or str(found.schema.get("description") or "")
    shown = " or ".join(kinds)
    if members:
        more = ", …" if len(members) > _MOST_MEMBERS else ""
        shown = f"one of {', '.join(members[:_MOST_MEMBERS])}{more}"
    explained = f" ({at_word(about, _LONGEST_SHOWN)})" if about else ""
    return f"{name}: {shown}{explained}"


def _members(schema: Schema) -> list[object]:
    members = schema.get("enum")
    return members if is_array(members) else []


def ground(
    values: Mapping[str, Any],
    unclear: Mapping[str, Any],
    wanted: Mapping[str, Wanted],
    said: Sequence[str],
    offered: Sequence[object] = (),
    context: ReadingContext = ReadingContext(),  # noqa: B008 - it is frozen
) -> Grounded:
    """Return the accepted values among those that a model read.

    A value is accepted if the input takes it and the user said it: a text verbatim, a number or a date by its value.
    For a boolean or an enum, any valid value is accepted: people paraphrase those, and the next question shows the
    value. Values for unknown inputs are ignored.

    A day or a time that a model gives for "Friday" or "2:30pm" is what these words say by the `context`.

    A value that the agent itself `offered` is often repeated in a question about it ("who is mallory@example.org?"), so
    for such a value only messages without a question count.
    """
    statements = [text for text in said if QUESTION_MARKS.isdisjoint(text)] if offered else said
    echoes = {normalized(str(value)) for value in offered}

    def evidence(value: object) -> Sequence[str]:
        return statements if normalized(str(value)) in echoes else said

    accepted: dict[str, Any] = {}
    refused: dict[str, Refusal] = {}
    candidates: dict[str, tuple[Any, ...]] = {}
    for name, want in wanted.items():
        if values.get(name) is None:
            continue
        counted, why = _count_value(name, values[name], want, evidence(values[name]), context)
        if not why:
            accepted[name] = counted
            continue
        refused[name] = why
        # An identifier is never replaced unasked, so the user is asked about the one that was read.
        if counted is not None and _names_one_thing(counted):
            candidates[name] = (counted,)
    for name, want in wanted.items():
        several = unclear.get(name)
        if name in accepted or not is_array(several):
            continue
        checked = [_count_value(name, value, want, evidence(value), context) for value in several[:_MOST_MEANT]]
        fitting = [value for value, why in checked if not why]
        if len(fitting) > 1:
            candidates[name] = tuple(fitting)
    # By a null a model says that the user takes the value back.
    withdrawn = tuple(name for name in wanted if name in values and values[name] is None)
    return Grounded(accepted, candidates, withdrawn, refused)


def each_object(values: Mapping[str, Any], wanted: Mapping[str, Wanted]) -> list[Mapping[str, Any]]:
    """Return the values once for each object, if lists were read for inputs that take a single value.

    Lists of different lengths say nothing of which values belong together, so they are left as they are.
    """
    lists: dict[str, list[Any]] = {}
    for name, value in values.items():
        if name in wanted and is_array(value) and value and not fits(name, cast("object", value), wanted[name]):
            lists[name] = value
    lengths = {len(each) for each in lists.values()}
    if len(lengths) != 1:
        return [values]
    objects: list[Mapping[str, Any]] = []
    for place in range(min(lengths.pop(), _MOST_OBJECTS)):
        own = {name: each[place] for name, each in lists.items()}
        objects.append({**values, **own})
    return objects


def _count_value(
    name: str, value: Any, want: Wanted, said: Sequence[str], context: ReadingContext
) -> tuple[Any, Refusal | None]:
    """Return the value in the form that the input takes, or None, and the reason of a refusal, if it is refused."""
    kind = _kind_of(want)
    if kind is not None:
        form = json_form(read_expression(str(value), kind, context, name).value)
        if form is not None and fits(name, form, want) and _says(said, form, kind, context, name):
            return form, None
    # The value itself, where no rule reads it as the message says it.
    fitting = [form for form in _forms(_without_nulls(value)) if fits(name, form, want)]
    if not fitting:
        return None, Refusal.NOT_TAKEN
    for form in fitting:
        if _is_member(form, want) or was_said(form, want.part, want.root, said):
            return form, None
    return fitting[0], Refusal.NOT_SAID


def _says(said: Sequence[str], form: object, kind: Kind, context: ReadingContext, name: str) -> bool:
    """Whether one of these messages says a value, in its own words."""
    if any(form in find_values(text, kind, context) for text in said):
        return True
    return any(json_form(read_expression(text, kind, context, name).value) == form for text in said)


def _kind_of(want: Wanted) -> Kind | None:
    """Return the kind of an input that takes values of one kind only, but for flags, which people paraphrase."""
    kinds: set[Kind | None] = set()
    for each in alternatives(want.part, want.root):
        if each.type != "null":
            kinds.add(kind_of(each.type, each.schema))
    if len(kinds) != 1 or "boolean" in kinds:
        return None
    return kinds.pop()


def _names_one_thing(value: object) -> bool:
    """Whether a value is an identifier, which is never replaced unasked: a number, or a text with a digit or an @."""
    text = str(value)
    return not isinstance(value, bool) and ("@" in text or any(map(str.isdecimal, text)))


def _is_member(value: object, want: Wanted) -> bool:
    parts = [each for each in alternatives(want.part, want.root) if each.type != "null"]
    if isinstance(value, bool):
        return [part.type for part in parts] == ["boolean"]
    return bool(parts) and all(value in _members(part.schema) for part in parts)


def _forms(value: Any) -> list[Any]:
    """Return the value, and a number also as text and a text as numbers, since a model may write either."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return [value]
    if not isinstance(value, str):
        return [value, str(value)]
    numbers = [*decimals(normalized(value))]
    whole = [int(each) for each in numbers if each == each.to_integral_value()]
    return [value, in_words(value), *whole, *map(float, numbers)]


def _without_nulls(value: object) -> object:
    """Remove null members, by which a model marks what was not said."""
    if not is_object(value):
        return value
    return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}


def fits(name: str, value: object, want: Wanted) -> bool:
    """Whether a value is valid for an input."""
    if value in ("", None):
        return False
    schema = {**want.root, "type": "object", "properties": {name: want.part}, "required": [name]}
    # Without its format: a value may still be written in another way.
    return not invalid(schema, {name: value}, formats=False)


def is_choice(want: Wanted) -> bool:
    """Whether an input takes one of several values."""
    return any("enum" in each.schema for each in alternatives(want.part, want.root))


def normalized(text: str) -> str:
    """Return a text casefolded, in Unicode's NFKC form, with single blanks."""
    return " ".join(nfkc(text).replace("’", "'").replace("−", "-").casefold().split())


def folded_message(message: str) -> str:
    """Return a message normalized and without punctuation around it, for comparison."""
    return normalized(message).strip(EDGES + " ")


def is_named(flow: BaseFlow | None, message: str) -> bool:
    """Whether a message is the name, an alias or an example of a flow."""
    if flow is None:
        return False
    texts = (flow.name, *flow.aliases, *flow.examples)
    if len(message) > LONGEST_READ:
        return message in texts
    folded = folded_message(in_words(message))
    return any(folded == folded_message(in_words(text)) for text in texts)


def was_said(value: object, part: object, root: Schema, messages: Iterable[str]) -> bool:
    """Whether each leaf of a value occurs in one of these messages.

    A text occurs verbatim, but for case, Unicode form and blanks. Words of an `enum` may have blanks for `_`. A number
    may be in words, and a date in any unambiguous form. A boolean occurs as "true" or "false". An empty list or object
    was not said.
    """
    leaves = list(_leaves(value, part, root))
    if not 0 < len(leaves) <= _MOST_LEAVES:
        return False
    texts = [_Text(text) for text in messages]
    return all(_leaf_said(leaf, schema, root, texts) for leaf, schema in leaves)


def names_only_what_was_told(answer: str, texts: Iterable[str]) -> bool:
    """Whether each number, address and code in an answer occurs in the given texts, so that none is made up.

    A day may be written otherwise than it was told: "13 June" where that was 2025-06-13. So may an amount in cents.
    """
    text = " ".join(texts)
    known = normalized(f"{text} {' '.join(_amounts(text))}")
    days = frozenset(day for _, day in dates(known))
    for word in _without_days(normalized(answer), days).split():
        if _TELLING.search(word) and not _stands(word.strip(EDGES), known):
            return False
    return True


def _amounts(text: str) -> set[str]:
    """Return the amounts that fields like `total_cents` hold, as people write them."""
    amounts: set[str] = set()
    for digits in islice(_CENTS.findall(text), _MOST_AMOUNTS):
        cents = int(digits)
        amounts |= {f"{cents // 100}.{cents % 100:02}", f"{cents // 100},{cents % 100:02}"}
    return amounts


def _without_days(answer: str, days: frozenset[str]) -> str:
    """Return an answer without its dates that are among these, in ISO 8601."""
    days_of_years = {day.partition("-")[2] for day in days}

    def blank_known(found: re.Match[str]) -> str:
        parts = found.groupdict()
        if "year" in parts:
            is_known = _day(parts) in days
        else:
            is_known = f"{month_words()[parts['month']]:02}-{int(parts['day']):02}" in days_of_years
        return " " if is_known else found.group()

    patterns = _date_patterns()
    for pattern in (*patterns.with_year, *patterns.without_year):
        answer = pattern.sub(blank_known, answer)
    return answer


class _Text:
    """A message in which many values are looked for; each reading of it is cached."""

    def __init__(self, message: str) -> None:
        self.folded = normalized(message)

    @cached_property
    def in_words(self) -> str:
        return in_words(self.folded)

    @cached_property
    def numbers(self) -> frozenset[Decimal]:
        return frozenset(numbers(self.folded))

    @cached_property
    def floats(self) -> frozenset[float]:
        return frozenset(map(float, self.numbers))

    @cached_property
    def spelt(self) -> frozenset[int]:
        """The numbers written in words."""
        return frozenset(_spelled_numbers(self.folded))

    @cached_property
    def long_numbers(self) -> frozenset[str]:
        """Identifiers in digits, however they are grouped: "no.60143", "60 143", "six oh one four three"."""
        grouped = [re.sub(r"\D", "", found.group()) for found in _GROUPED.finditer(self.folded)]
        led = [found[1] for found in _LED.finditer(self.folded)]
        # A word that names no digit parts the numbers.
        spelled = "".join(map(_digit, _TOKEN.findall(self.folded))).split()
        return frozenset((*grouped, *led, *spelled))

    @cached_property
    def addresses(self) -> str:
        """The text with "at" and "dot" replaced as in an address."""
        return _DOT.sub(".", _AT.sub("@", self.folded))

    @cached_property
    def days(self) -> frozenset[str]:
        """The dates in ISO 8601."""
        return frozenset(day for _, day in dates(self.folded))


@cache
def _unit() -> str:
    """Return the pattern of what may stand right behind a number: a unit of any language, or another mark."""
    return rf"(?:{_any_of((*_MARKS, *filter(str.isalpha, unit_words())))})?"


def _any_of(words: Iterable[str]) -> str:
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


@cache
def _number() -> re.Pattern[str]:
    """Return the pattern of a number in digits, but for one that a word multiplies, which alone was not said: "50k".

    The reader of expressions reads an answer, and a value in at most a thousand characters. These patterns find the
    digits of any text in linear time, whatever stands beside them.
    """
    magnitude = rf"\s?(?:{_any_of(magnitude_words())})(?!{_LETTER})"
    start = rf"(?<![.,:/+-])(?<!{_LETTER})"
    return re.compile(rf"{start}([-+]?{_DIGITS}){_unit()}(?!{_LETTER})(?![-.,:/]\d)(?!{magnitude})")


@cache
def _range() -> re.Pattern[str]:
    """Return the pattern of two numbers with a dash between them."""
    return re.compile(rf"(?<![.,:/+-])(?<!{_LETTER})(\d+)[-–](\d+){_unit()}(?!{_LETTER})(?![-–.,:/]\d)")


class _DatePatterns(NamedTuple):
    """The patterns of dates, by whether their year is written."""

    with_year: tuple[re.Pattern[str], ...]
    without_year: tuple[re.Pattern[str], ...]


@cache
def _date_patterns() -> _DatePatterns:
    """Return the patterns of dates in a text, with the months of all languages.

    The reader of expressions says what a day is, not where it stands in a text, which is needed to take it out of one.
    """
    year, month = r"(?P<year>\d{4})", rf"(?P<month>{_any_of(month_words())})"
    before, after = rf"(?<!{_LETTER})(?<![./-])", rf"(?!{_LETTER}|[./-]?\d)"
    day = r"(?P<day>\d{1,2})(?:st|nd|rd|th|er|\.|o)?\s(?:of |de |di )?"
    of_month = rf"{month}\.?\s(?P<day>\d{{1,2}})(?:st|nd|rd|th)?"
    with_year = (
        rf"{year}(?P<by>[-/.])(?P<number>\d{{1,2}})(?P=by)(?P<day>\d{{1,2}})",
        rf"{year}年(?P<number>\d{{1,2}})月(?P<day>\d{{1,2}})日",
        rf"(?P<day>\d{{1,2}})\.\s?(?P<number>\d{{1,2}})\.\s?{year}",
        rf"(?P<first>\d{{1,2}})(?P<by>[-/])(?P<second>\d{{1,2}})(?P=by){year}",
        rf"{day}{month}\.?,?\s(?:of |de |del )?{year}",
        rf"{of_month},?\s{year}",
    )
    no_year = rf"(?!{_LETTER}|[./-]?\d|\.?,?\s(?:of |de |del )?\d{{4}})"
    return _DatePatterns(
        tuple(re.compile(f"{before}{each}{after}") for each in with_year),
        tuple(re.compile(f"{before}{each}{no_year}") for each in (day + month, of_month)),
    )


def numbers(text: str) -> Iterator[Decimal]:
    """Yield the numbers in a text: in digits, with points or commas for thousands or decimals, and in words."""
    text = normalized(text)
    for written in dict.fromkeys(found[1] for found in _number().finditer(text)):
        if written.isdecimal():
            yield Decimal(written)
        else:
            yield from decimals(written)
    ends: list[str] = []
    for both in _range().finditer(text):
        ends.extend(both.groups())
    yield from map(Decimal, dict.fromkeys(ends))
    yield from map(Decimal, _spelled_numbers(text))


def decimals(number: str) -> Iterator[Decimal]:
    """Yield the readings of a number in digits: two for "1,500", none for what is not a number."""
    if not re.fullmatch(f"[-+]?{_DIGITS}", number):
        return
    for reading in dict.fromkeys((_plain(number, ",", "."), _plain(number, ".", ","))):
        try:
            yield Decimal(reading)
        except InvalidOperation:
            continue


def dates(text: str) -> Iterator[tuple[str, str]]:
    """Yield the unambiguous dates in a text, as written and in ISO 8601."""
    text = normalized(text)
    for pattern in _date_patterns().with_year:
        for found in pattern.finditer(text):
            day = _day(found.groupdict())
            if day:
                yield found.group(), day


def _leaves(value: object, part: object, root: Schema) -> Iterator[tuple[object, object]]:
    """Yield the leaves of a value, each with its schema, and the keys that no schema declares."""
    if is_object(value):
        named: dict[str, object] = {}
        for each in alternatives(part, root):
            properties = each.schema.get("properties")
            if is_object(properties):
                named.update(properties)
        for name, inner in value.items():
            if name not in named:
                # A key that no schema declares is the model's own, so it has to be said as well.
                yield name, {}
            yield from _leaves(inner, named.get(name, {}), root)
    elif is_array(value):
        items: list[object] = [each.schema.get("items") for each in alternatives(part, root)]
        member: object = next((each for each in items if each is not None), None)
        for inner in value:
            yield from _leaves(inner, member, root)
    else:
        yield value, part


def _leaf_said(value: object, part: object, root: Schema, texts: Sequence[_Text]) -> bool:
    if isinstance(value, bool):
        word = "true" if value else "false"
        return any(_stands(word, text.folded) for text in texts)
    if isinstance(value, int):
        return any(value in text.numbers for text in texts)
    if isinstance(value, float):
        return any(value in text.floats for text in texts)
    return isinstance(value, str) and any(_text_said(value, text, part, root) for text in texts)


def _text_said(value: str, text: _Text, part: object, root: Schema) -> bool:
    if value.isdecimal() and len(value) >= _SHORTEST_NUMBER and value in text.long_numbers:
        return True
    if "@" in value and _stands(value, text.addresses):
        return True
    if _stands(value, text.folded):
        return True
    is_listed = any(value in _members(each.schema) for each in alternatives(part, root))
    if is_listed and _stands(in_words(value), text.in_words):
        return True
    if _ISO.fullmatch(value):
        return value in text.days
    return value.isdecimal() and len(value) <= _LONGEST_SPELT and int(value) in text.spelt


def _stands(value: str, text: str) -> bool:
    value = normalized(value).strip(EDGES + " ")
    tight = value.replace(" ", "")
    if not value or len(tight) > len(text):
        return False
    # People group a long number as they like.
    is_long = sum(map(str.isdecimal, tight)) >= _LONG_NUMBER and tight.removeprefix("+").isalnum()
    if is_long and len(tight) <= _LONGEST_NUMBER:
        spans = _spaced_spans(tight, text)
    else:
        spans = _places(value, text)
    for start, end in islice(spans, _MOST_PLACES):
        if not _BEFORE.match(text, start) or not _AFTER.match(text, end):
            continue
        # A mark that combines with the last letter makes another letter of it.
        if not category(text[end : end + 1] or " ").startswith("M"):
            return True
    return False


def _places(value: str, text: str) -> Iterator[tuple[int, int]]:
    start = text.find(value)
    while start >= 0:
        yield start, start + len(value)
        start = text.find(value, start + 1)


def _spaced_spans(tight: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of a number in a text, with or without blanks in it."""
    pattern = re.compile(" ?".join(map(re.escape, tight)))
    found = pattern.search(text)
    while found:
        yield found.span()
        found = pattern.search(text, found.start() + 1)


def _plain(number: str, thousands: str, point: str) -> str:
    """Return a number in plain digits, read with these separators, or "" if it does not match them."""
    whole, _, decimal_part = number.partition(point)
    if point in decimal_part or thousands in decimal_part:
        return ""
    groups = whole.split(thousands)
    if any(len(group) != 3 for group in groups[1:]):  # noqa: PLR2004
        return ""
    digits = "".join(groups)
    return f"{digits}.{decimal_part}" if decimal_part else digits


def _spelled_numbers(text: str) -> list[int]:
    """Return the whole numbers in words in a normalized text, except parts of larger numbers."""
    tokens = _TOKEN.findall(text)
    ordinals = ordinal_words()
    found = [ordinals[token] for token in tokens if token in ordinals]
    spelled = list(spelled_numbers(tokens))
    edges: Counter[int] = Counter()
    for start, end, _ in spelled:
        edges.update((start, end))
    for start, end, value in spelled:
        around = {*tokens[max(start - 1, 0) : start], *tokens[end : end + 3]}
        is_part = not share_words().isdisjoint(around) or tokens[start] in homonyms()
        # Two numbers side by side, such as "twenty zero", are parts of one that is not understood.
        is_beside = edges[start] > 1 or edges[end] > 1
        if value == value.to_integral_value() and not is_part and not is_beside:
            found.append(int(value))
    return found


def _digit(word: str) -> str:
    """Return the digit that a word names, or a blank."""
    number = spelled_number((word,))
    if number is not None and 0 <= number < 10 and number == number.to_integral_value():  # noqa: PLR2004
        return str(number)
    return _DIGIT_WORDS.get(word, " ")


def _day(parts: Mapping[str, Any]) -> str:
    """Return a matched date in ISO 8601, or "" if it is invalid or ambiguous."""
    year = parts["year"]
    first, second = parts.get("first"), parts.get("second")
    if first:
        # 3/4/2026 is a day in March or in April; 13/4/2026 is one day only.
        days = {_iso(year, second, first), _iso(year, first, second)} - {""}
        return days.pop() if len(days) == 1 else ""
    month = parts.get("number") or month_words().get(str(parts.get("month")))
    return _iso(year, month, parts.get("day"))


def _iso(year: object, month: object, day: object) -> str:
    try:
        return date(int(str(year)), int(str(month)), int(str(day))).isoformat()
    except ValueError:
        return ""


def same(one: object, other: object) -> bool:
    """Whether two values are equal, or equal as normalized text."""
    return one == other or normalized(str(one)) == normalized(str(other))
