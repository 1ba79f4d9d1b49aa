"""Read values from short answers by rules; and yes or no by a decision model, where no rule decides."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Any, Final

from jazz_select.agent.conversation import PendingCall
from jazz_select.agent.reading.expressions.reader import (
    Expression,
    Kind,
    ReadingContext,
    has_denial,
    is_measure,
    json_form,
    kind_of,
    read_expression,
    says_nothing,
)
from jazz_select.agent.reading.grounding import EDGES, Wanted, dates, fits, is_choice, normalized, same
from jazz_select.chat.decisions import Decided, Decider
from jazz_select.consent import NEITHER, Consent, asks_to_wait, is_courtesy, is_every, read_consent
from jazz_select.json_values import is_array
from jazz_select.phrases import QUESTION_MARKS, SENTENCES, UNPARTED, phrases
from jazz_select.questions import ChoiceQuestion
from jazz_select.routing.schemas.fields import Alternative, Schema, alternatives
from jazz_select.telemetry import span
from jazz_select.text import beginning, cut, in_one_line, in_words, nfkc, word_list
from jazz_select.words import words as name_words

_IDENTIFIER: Final = re.compile(r"(?<!\S)(?=\S*\d|\S+@\S)\S+")
_LEADING: Final = word_list("is its that's here here's hier use so ist lautet es è")
"""Words that introduce a value, beside those of the table of phrases."""
_ALSO: Final[Mapping[str, tuple[str, ...]]] = {
    "email": ("mail", "e-mail", "address", "adresse", "mailadresse", "e-mail-adresse", "correo"),
    "number": ("no", "nr", "nummer", "número", "numéro", "numero"),
    "order": ("bestellung", "bestellnummer", "pedido", "commande", "ordine"),
}
"""Synonyms of words in input names."""
_LONGEST_ANSWER: Final = 100
_LONGEST_PLAIN: Final = 60
_MOST_PLAIN: Final = 3
_BETWEEN: Final = re.compile(r"[,;、\n]")
_PARTED: Final = re.compile(r"[,;](?=\s)|、|\n")
"""What parts answers; a comma inside a number does not."""
_MOST_LISTED: Final = 6
_MOST_SIDE_BY_SIDE: Final = 8
"""The most words of an answer that may hold two values without a comma."""
_MOST_CORRECTING: Final = 3
"""The most words of a phrase that corrects a value."""
_MOST_COMPARED: Final = 60
"""The most choices whose values are compared with that of an answer."""
_SHORTEST_IDENTIFIER: Final = 3
_LIKE_FIGURES: Final = re.compile(
    r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}|\d{1,2}[-./]\d{1,2}|\d+:\d\d|\d+[dsx]|[a-z]{3,}\d{1,2}", re.IGNORECASE
)
"""Dates and scores that may not exist, counts, and names of models such as "Nine5": no identifiers, and no values."""
_LONGEST_SAID: Final = 4_000
_DATED: Final = 1_000
"""Characters of a message in which dates are looked for, to bound the time."""
_SHAPING: Final = frozenset({"enum", "const", "format"})
_SHAPED: Final = word_list(
    """
    amount code count date day email iban id ids identifier key mail no number numbers password phone pin plz postcode
    price ref reference sku tel telephone time token uri url uuid year zip
    """
)
"""Words in the names of inputs whose values have a format, so that a plain word is not one."""
_HANDLE: Final = re.compile(r"@[\w.-]{2,40}")
"""A name by which a service knows somebody: @max."""
_SPACED_NUMBER: Final = re.compile(r"\+?\(?\d[\d ()/.-]{3,30}")
"""A number with blanks or punctuation, such as a phone's."""
_ANY_VALUE: Final = {"value": Wanted({"anyOf": [{"type": "number"}, {"type": "string"}]}, {})}
_DAY_OR_TIME: Final = ("date", "time", "datetime", "duration")
_OF_24_HOURS: Final = ReadingContext(language="de")
"""A context in which 9:00 has one reading."""
_HALF_A_DAY: Final = timedelta(hours=12)
_ISO_DAY: Final = 10
"""The characters of a day in ISO 8601."""
_UNKNOWN: Final = ReadingContext()
"""The context of an answer of which nothing is known."""


def bare_answer(wanted: Mapping[str, Wanted], message: str, context: ReadingContext = _UNKNOWN) -> dict[str, Any]:
    """Return the input that a message consisting of a single value answers.

    A number, a day, a time and a duration are read as people write them, if every word is accounted for
    (`read_expression`). An enum takes an allowed value, a text a word with a digit or an @. A yes or a no answers a
    boolean that was asked for alone. The message answers the first input if it fits that one, else the only one that it
    fits.
    """
    fitting = fitting_inputs(wanted, message, context)
    if not fitting:
        return {}
    first = next(iter(wanted))
    return {first: fitting[first]} if first in fitting else fitting if len(fitting) == 1 else {}


def fitting_inputs(wanted: Mapping[str, Wanted], message: str, context: ReadingContext = _UNKNOWN) -> dict[str, Any]:
    """Return the value of each input that a message consisting of a single value may answer."""
    text = message.strip().strip(EDGES).strip()
    if not wanted or not text or len(text) > _LONGEST_ANSWER:
        return {}
    alone = len(wanted) == 1
    read = {name: _values_read(name, want, message.strip(), context, alone=alone) for name, want in wanted.items()}
    return {name: values[0] for name, values in read.items() if values}


def unfit_answer(wanted: Mapping[str, Wanted], message: str, context: ReadingContext = _UNKNOWN) -> dict[str, Any]:
    """Return the value that a message consists of, if it is outside of what the only input with its type takes.

    These are 0 for a number above 0, and A-1 for a code of four characters, so that the reason can be said.
    """
    text, alone = message.strip(), len(wanted) == 1
    if not text.strip(EDGES) or len(text) > _LONGEST_ANSWER:
        return {}
    read = {name: _values_read(name, want, text, context, alone=alone, fitting=False) for name, want in wanted.items()}
    found = {name: values[0] for name, values in read.items() if values}
    return found if len(found) == 1 else {}


def understood_answer(
    wanted: Mapping[str, Wanted], message: str, context: ReadingContext = _UNKNOWN, *, whole: bool
) -> dict[str, tuple[Any, ...]]:
    """Return what was understood of an answer that gives no value, for the input that was asked for first.

    These are the readings of an ambiguous answer ("next Friday"), or the value beside words that are not accounted for
    ("about 50").

    Args:
        wanted: The inputs, in the order of asking.
        message: The answer.
        context: What it is read by.
        whole: Whether all of its words must be accounted for.
    """
    name = next(iter(wanted), "")
    if not name:
        return {}
    want = wanted[name]
    example = want.declared.example if want.declared is not None else ""
    if not whole and identifiers(example) and not has_denial(message, context):
        named = tuple(dict.fromkeys(identifiers(message)))
        return {name: named} if len(named) == 1 and fits(name, named[0], want) else {}
    for each in alternatives(want.part, want.root):
        read = _expression(name, message, each.type, each.schema, context)
        if read is None or not read.understood or (whole and read.rest):
            continue
        forms = [json_form(value) for value in read.understood]
        readings = tuple(form for form in forms if fits(name, form, want))
        asks = not QUESTION_MARKS.isdisjoint(message) and not _asking_words().isdisjoint(normalized(read.rest).split())
        if readings and not asks:
            return {name: readings}
    return {}


def readings_of_time(
    wanted: Mapping[str, Wanted], message: str, context: ReadingContext, *, beside: Mapping[str, Wanted]
) -> list[dict[str, str]]:
    """Return what an answer with a time may mean, each with its values by input.

    These are 02:30 and 14:30 for "half past two", where a time was asked for first. "Tomorrow at noon" gives a day and
    a time, where a day was asked for, and a single input takes a time.

    Args:
        wanted: The inputs that were asked for, in order.
        message: The answer.
        context: What it is read by.
        beside: All inputs that have no value yet.
    """
    name = next(iter(wanted), "")
    if not name:
        return []
    kinds = {each: _kinds(want) for each, want in {**beside, **wanted}.items()}
    hours = [each for each, own in kinds.items() if own == ["time"]]
    if kinds[name] == ["date"] and len(hours) == 1:
        moments = _both_halves(message, "datetime", replace(context, zone=None), name)
        return [{name: each[:_ISO_DAY], hours[0]: each[_ISO_DAY + 1 :]} for each in moments]
    (kind, *others) = kinds[name] or [None]
    if kind is None or others:
        return []
    halves = _both_halves(message, kind, context, name)
    return [{name: each} for each in halves] if len(halves) > 1 else []


def _kinds(want: Wanted) -> list[Kind | None]:
    """Return the kinds of values that an input takes, but for the text of a number (`Decimal`)."""
    parts = [each for each in alternatives(want.part, want.root) if each.type != "null"]
    return [kind_of(each.type, each.schema) for each in parts if not _is_text_of_number(each, parts)]


def _is_text_of_number(part: Alternative, beside: Sequence[Alternative]) -> bool:
    """Whether an alternative of a number's schema is its text, as that of `Decimal` is."""
    is_text = part.type == "string" and _SHAPING.isdisjoint(part.schema)
    return is_text and any(each.type in {"number", "integer"} for each in beside)


def _both_halves(message: str, kind: Kind, context: ReadingContext, name: str) -> list[str]:
    """Return the time that an answer says, or both that it may mean as it says no part of the day."""
    read = read_expression(message, kind, context, name)
    if isinstance(read.value, datetime | time):
        return [json_form(read.value)]
    if read.rest or read.in_doubt or len(read.understood) != 2:  # noqa: PLR2004 - two halves
        return []
    first, second = map(_with_day, read.understood)
    is_half = first is not None and second is not None and abs(second - first) == _HALF_A_DAY
    return [json_form(each) for each in read.understood] if is_half else []


def _with_day(value: object) -> datetime | None:
    """Return a time of the day, or one with a day, as a moment without a zone; None if a value is neither."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return datetime.combine(date.min, value) if isinstance(value, time) else None


def answers_in_order(wanted: Mapping[str, Wanted], message: str, context: ReadingContext = _UNKNOWN) -> dict[str, Any]:
    """Return the values of a message that answers several inputs in their order, with commas: "Sam, 50, tomorrow".

    All but the first have to be numbers, days, times or durations: "Berlin, Germany" may be one text.
    """
    parts = [each.strip() for each in _PARTED.split(message.strip())]
    if len(parts) == 1:
        return _two_side_by_side(wanted, message, context)
    if len(parts) > len(wanted) or not all(parts):
        return {}
    found: dict[str, Any] = {}
    for place, ((name, want), part) in enumerate(zip(wanted.items(), parts, strict=False)):
        kinds = _kinds(want)
        is_typed = None not in kinds and "boolean" not in kinds
        answer = bare_answer({name: want}, part, context) if is_typed else {}
        if not answer and place == 0 and not is_typed:
            answer = plain_answer({name: want}, part, context)
        if not answer:
            return {}
        found |= answer
    return found


def _two_side_by_side(wanted: Mapping[str, Wanted], message: str, context: ReadingContext) -> dict[str, Any]:
    """Return the values of a message that answers the first two inputs, of different kinds: "50 on Friday"."""
    names, words = [*wanted][:2], message.split()
    kinds = [_kinds(wanted[name]) for name in names]
    is_telling = len(kinds) > 1 and kinds[0] != kinds[1] and all(len(each) == 1 for each in kinds)
    if not is_telling or len(words) > _MOST_SIDE_BY_SIDE or not {"date", "time", "duration"} & {*kinds[0], *kinds[1]}:
        return {}
    first = {names[0]: wanted[names[0]]}
    if bare_answer(first, message, context) or understood_answer(first, message, context, whole=True):
        return {}
    found: list[dict[str, Any]] = []
    for place in range(1, len(words)):
        one = bare_answer(first, " ".join(words[:place]), context)
        other = bare_answer({names[1]: wanted[names[1]]}, " ".join(words[place:]), context) if one else {}
        if one and other:
            found.append({**one, **other})
    return found[0] if len(found) == 1 else {}


def several_answers(
    wanted: Mapping[str, Wanted], choices: Mapping[str, Sequence[Any]], message: str
) -> list[dict[str, Any]]:
    """Return the first input with each of several objects that a message names, and nothing else beside them.

    These are identifiers or allowed values in a list ("60142 and 60143"), or all of the `choices` that the user was
    asked about ("both of them").
    """
    name = next(iter(wanted), "")
    if not name:
        return []
    meant = choices.get(name, ())
    if len(meant) > 1 and is_every(message, len(meant)):
        return [{name: value} for value in meant]
    listed = (part.strip() for part in _between_listed().split(message.strip().strip(EDGES)))
    parts = [part for part in listed if part and normalized(part) not in phrases()["courtesy"]]
    if not 1 < len(parts) <= _MOST_LISTED:
        return []
    found: list[dict[str, Any]] = []
    for part in parts:
        answer = bare_answer({name: wanted[name]}, part)
        is_object = bool(identifiers(part)) or is_choice(wanted[name])
        if not answer or not is_object:
            return []
        if answer not in found:
            found.append(answer)
    return found


def is_value(message: str, context: ReadingContext = _UNKNOWN) -> bool:
    """Whether a message is a single value: a number, a day, a time, an address, or a word with a digit."""
    if bare_answer(_ANY_VALUE, message, context) or _SPACED_NUMBER.fullmatch(message.strip()) is not None:
        return True
    return any(read_expression(message, kind, context).value is not None for kind in _DAY_OR_TIME)


def _values_read(
    name: str, want: Wanted, text: str, context: ReadingContext, *, alone: bool, fitting: bool = True
) -> list[object]:
    found: list[object] = []
    parts = alternatives(want.part, want.root)
    numbers = [
        _expression(name, text, each.type, each.schema, context) for each in parts if each.type in {"number", "integer"}
    ]
    is_number = any(each is not None and (each.value is not None or each.understood) for each in numbers)
    for each in parts:
        if _is_text_of_number(each, parts) and (is_number or _is_machine_number(text)):
            continue  # the text would hide that "1.234" has two readings, and that nobody writes "1e5"
        expression = _expression(name, text, each.type, each.schema, context)
        if expression is None:
            own = _readings(_without_its_name(text.strip(EDGES).strip(), name), each.type, each.schema, alone=alone)
            found += own or _members_by_value(name, text, each.schema, context)
        elif expression.value is not None and (alone or each.type != "boolean" or _is_spelt_flag(text)):
            found.append(json_form(expression.value))
    return [value for value in found if not fitting or fits(name, value, want)]


def _is_machine_number(text: str) -> bool:
    """Whether a text is a number as programs write them, such as "1e5"."""
    try:
        Decimal(text.strip())
    except InvalidOperation:
        return False
    return True


def _is_spelt_flag(text: str) -> bool:
    return normalized(text) in {"true", "false"}


def _expression(name: str, text: str, type_: str, schema: Schema, context: ReadingContext) -> Expression | None:
    """Return what an answer says as a value of a type that is read by its words; None if the type is none of them."""
    kind = kind_of(type_, schema)
    return None if kind is None else read_expression(text, kind, context, name)


def _without_its_name(text: str, name: str) -> str:
    """Remove words that introduce the value or name the input: "my mail is a@b.org" becomes "a@b.org"."""
    own = {*name_words(name), *(word for part in name_words(name) for word in _ALSO.get(part, ()))}
    said, table = text.split(), phrases()
    courtesies = table["courtesy"]
    leading = (courtesies | table["yes"] | table["chooses"] | _LEADING | own) - table["adds"]
    while len(said) > 1 and said[0].strip(EDGES).casefold() in leading:
        said.pop(0)
    while len(said) > 1 and said[-1].strip(EDGES).casefold() in courtesies:
        said.pop()
    return " ".join(said).strip(EDGES) if len(said) == 1 else text


def plain_answer(wanted: Mapping[str, Wanted], message: str, context: ReadingContext = _UNKNOWN) -> dict[str, Any]:
    """Return the values in a free-text answer. The caller has ruled out that another flow is meant.

    If the author wrote a question for a text, the message answers it: by its identifier if the example is one, else as
    a whole. Every word may be its value (May, Will, Nice); only a whole phrase that asks, agrees, refuses, greets or
    sighs is none. Several inputs are answered in their order, separated by commas. Without such a question, one to
    three plain words answer a single text input, such as a name, if none of them belongs to such a phrase.
    """
    parts = [part.strip() for part in _BETWEEN.split(message.strip()) if part.strip()]
    if len(wanted) > 1 and len(parts) == len(wanted):
        return _answers_in_order(wanted, parts, context)
    text = " ".join(nfkc(message).split()).strip(EDGES + " ")
    if len(wanted) != 1 or not text or len(text) > _LONGEST_ANSWER or QUESTION_MARKS & set(message):
        return {}
    ((name, want),) = wanted.items()
    declared = want.declared
    if declared is not None and declared.question:
        values = _word_answers(name, want, text, context)
        if is_no_value(text):
            values = []
    else:
        values = _plain_unless_phrase(name, want, text)
    if len(values) != 1 or not fits(name, values[0], want):
        return {}
    return {name: values[0]}


def _answers_in_order(wanted: Mapping[str, Wanted], parts: Sequence[str], context: ReadingContext) -> dict[str, Any]:
    """Return the values of several inputs, one part of the message for each; none if a part says none."""
    values: dict[str, Any] = {}
    for (name, want), part in zip(wanted.items(), parts, strict=True):
        alone = {name: want}
        answer = bare_answer(alone, part, context) or plain_answer(alone, part, context)
        if not answer:
            return {}
        values.update(answer)
    return values


def _plain_unless_phrase(name: str, want: Wanted, text: str) -> list[object]:
    """Return plain words as a value, unless they agree or refuse, or each of them belongs to such a phrase."""
    words = normalized(text).split()
    if read_consent(text).answer != "neither":
        return []
    if all(word.strip(EDGES) in _no_names() for word in words):
        return []
    return _plain(name, want, text)


def _word_answers(name: str, want: Wanted, text: str, context: ReadingContext) -> list[object]:
    """Return the answers to the author's question for a text: identifiers, or the whole text."""
    kinds = [each for each in alternatives(want.part, want.root) if each.type != "null"]
    example = want.declared.example if want.declared is not None else ""
    if any("enum" in each.schema for each in kinds):
        return []
    if not kinds or any(each.type != "string" or _SHAPING & each.schema.keys() for each in kinds):
        return []
    if not identifiers(example):
        return [text]
    found: list[object] = [*dict.fromkeys(identifiers(text))]
    return found if len(found) == 1 and not _unaccounted_words(name, want, text, str(found[0]), context) else []


def _unaccounted_words(name: str, want: Wanted, text: str, found: str, context: ReadingContext) -> list[str]:
    """Return the words beside an identifier that neither introduce it nor are of its input or question."""
    table = phrases()
    question = want.declared.question if want.declared is not None else ""
    own = {*name_words(name), *(word for part in name_words(name) for word in _ALSO.get(part, ()))}
    own |= {*normalized(question).replace("?", " ").split()}
    known = (own | table["courtesy"] | table["yes"] | table["chooses"] | _LEADING) - table["adds"]
    said = (word.strip(EDGES) for word in normalized(text).split())
    left = [word for word in said if word and word != normalized(found) and word not in known]
    return [word for word in left if not says_nothing(word, context)]


def _plain(name: str, want: Wanted, text: str) -> list[object]:
    """Return one to three plain words as the value of a text input without a format."""
    words = normalized(text).split()
    kinds = alternatives(want.part, want.root)
    is_text = [kind.type for kind in kinds if kind.type != "null"] == ["string"]
    if not is_text or any(_SHAPING & kind.schema.keys() for kind in kinds) or set(name_words(name)) & _SHAPED:
        return []
    if len(words) > _MOST_PLAIN or len(text) > _LONGEST_PLAIN:
        return []
    for word in words:
        if not word[0].isalpha() or word.strip(EDGES) in _no_names():
            return []
    return [text]


def is_correction(message: str, context: ReadingContext = _UNKNOWN) -> bool:
    """Whether a message is a "no" and one more value, and nothing else: "no, 60"."""
    rest = behind_correction(message)
    return bool(rest) and is_value(rest, context)


def behind_correction(message: str) -> str:
    """Return what stands behind words that correct a value: 60 in "no, 60" and "no wait, make it 60"; "" if none do."""
    words = message.split()
    table = phrases()
    correcting = table["no"] | table["corrects"]
    corrects = False
    while len(words) > 1:
        for length in range(min(_MOST_CORRECTING, len(words) - 1), 0, -1):
            said = " ".join(normalized(word).strip(EDGES) for word in words[:length])
            if said in correcting or (corrects and said in table["courtesy"]):
                corrects = True
                del words[:length]
                break
        else:
            break
    return " ".join(words) if corrects else ""


def agreed_offer(asked: str, message: str) -> tuple[str, ...]:
    """Return the agent's own question if a plain yes takes it over: "Shall I look at 60143?" - "yes please".

    The question must name exactly one thing, so that the yes can mean no other.
    """
    questions = [each.strip() for each in SENTENCES.findall(asked) if not QUESTION_MARKS.isdisjoint(each)]
    if not questions or read_consent(message) != ("yes", ""):
        return ()
    offer = questions[-1]
    return (offer,) if len(set(identifiers(offer))) == 1 else ()


def corrections(
    wanted: Mapping[str, Wanted], answers: Mapping[str, Any], message: str, context: ReadingContext = _UNKNOWN
) -> dict[str, Any]:
    """Return the corrections of earlier answers that rules find in a message.

    These are "5 days" for `days`, by the name of the input; a single identifier, if exactly one answer is an
    identifier; and "no, 50", if exactly one answer can be that value.
    """
    known = {name: want for name, want in wanted.items() if name in answers}
    if rest := behind_correction(message):
        instead: list[dict[str, Any]] = []
        for name, want in known.items():
            answer = bare_answer({name: want}, rest, context)
            if answer:
                instead.append(answer)
        if len(instead) == 1:
            return _changed(instead[0], answers)
    said = set(normalized(message).split())
    found: dict[str, Any] = {}
    for name, want in known.items():
        if not said.isdisjoint(name_words(name)):
            found.update(bare_answer({name: want}, message, context))
    if not found:
        found = thing_named(known, {name: str(value) for name, value in answers.items()}, message)
    return _changed(found, answers)


def _changed(values: Mapping[str, Any], answers: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if not same(value, answers[name])}


def thing_named(wanted: Mapping[str, Wanted], like: Mapping[str, str], message: str) -> dict[str, Any]:
    """Return the single identifier in a message as the value of the single input whose value in `like` is one."""
    named = [*dict.fromkeys(identifiers(message))]
    said = [each for each in named if each not in like.values()] or named
    names = [name for name in wanted if name in like and identifiers(like[name]) == [like[name]]]
    if len(said) != 1 or len(names) != 1 or not fits(names[0], said[0], wanted[names[0]]):
        return {}
    return {names[0]: said[0]}


def identifiers(message: str) -> list[str]:
    """Return the words with a digit or an @ that are not a date, part of a date, a price or an amount."""
    text = message[:_LONGEST_SAID]
    words = (word.strip(EDGES) for word in _IDENTIFIER.findall(text))
    found = [word for word in words if len(word) >= _SHORTEST_IDENTIFIER and not _is_measure(word)]
    if not found:
        return found
    # The year in "March 5th, 2026" is not an identifier.
    in_dates = Counter(word.strip(EDGES) for written, _ in dates(text[:_DATED]) for word in written.split())
    return list((Counter(found) - in_dates).elements())


def is_no_value(text: str) -> bool:
    """Whether a text as a whole agrees, refuses, asks, greets, waits or sighs, so that it answers no question."""
    words = normalized(text).split()
    if len(words) == 1 and words[0].strip(EDGES) in phrases()["doubles"]:
        return False
    if read_consent(text).answer != "neither" or asks_to_wait(text) or is_courtesy(text):
        return True
    said = " ".join(word.strip(EDGES) for word in words)
    return said in _whole_phrases() or words[0].strip(EDGES) in phrases()["denies"]


def _is_measure(word: str) -> bool:
    """Whether a word is a date, a time, a price, an amount or the like, which is no identifier."""
    return _LIKE_FIGURES.fullmatch(word) is not None or is_measure(word)


@cache
def _asking_words() -> frozenset[str]:
    return frozenset(word for phrase in phrases()["inquires"] for word in phrase.split())


@cache
def _whole_phrases() -> frozenset[str]:
    kinds = ("stops", "denies", "waits", "courtesy", "unsure", "sighs", "asides", "questions")
    return frozenset(phrase for kind in kinds for phrase in phrases()[kind])


@cache
def _between_listed() -> re.Pattern[str]:
    """Return the pattern of what stands between the objects of a list: marks, and words such as "and"."""
    joins = sorted(phrases()["joins"], key=len, reverse=True)
    spaced = "|".join(re.escape(each) for each in joins if not UNPARTED.match(each))
    unspaced = "|".join(re.escape(each) for each in joins if UNPARTED.match(each))
    return re.compile(rf"[,;&+、\n]+(?:\s*(?:{spaced}|&)\s)?|\s(?:{spaced})\s|{unspaced}", re.IGNORECASE)


@cache
def _no_names() -> frozenset[str]:
    """Return the words that are not part of a name: of requests, questions, sighs, a yes or a no."""
    answers = ("yes", "no", "waits", "courtesy", "stops", "denies", "chooses", "unsure")
    others = ("scope", "times", "adds", "points", "between", "common", "sighs")
    words: set[str] = set()
    for kind in (*answers, *others):
        for phrase in phrases()[kind]:
            words.update(phrase.split())
    return frozenset(words)


def _readings(text: str, kind: str, schema: Schema, *, alone: bool) -> list[object]:
    allowed = schema.get("enum")
    said = normalized(text)
    if is_array(allowed):
        return [each for each in allowed if in_words(normalized(str(each))) == in_words(said)]
    return _texts(text, schema.get("format"), alone=alone) if kind in {"string", ""} else []


def _members_by_value(name: str, text: str, schema: Schema, context: ReadingContext) -> list[object]:
    """Return the only one of the choices that says the same time, day or number as an answer: "14:00" for "2 pm"."""
    members = schema.get("enum")
    if not is_array(members):
        return []
    listed = members[:_MOST_COMPARED]
    for kind in ("time", "date", "number"):
        read = read_expression(text, kind, context, name)
        meant = read.understood if read.value is None else (read.value,)
        if not meant or read.rest or read.in_doubt:
            continue
        same_value = [each for each in listed if _value_of_member(str(each), kind, context) in meant]
        if len({*map(str, same_value)}) == 1:
            return same_value[:1]
    return []


def _value_of_member(member: str, kind: Kind, context: ReadingContext) -> object:
    """Return what a choice says; "9:00" is in the morning, since lists are written by a clock of 24 hours."""
    own = read_expression(member, kind, context).value
    return own if own is not None or kind != "time" else read_expression(member, kind, _OF_24_HOURS).value


def _texts(text: str, form: object, *, alone: bool) -> list[object]:
    """Return a text that is one word with a digit or an @; an amount or a time only if asked for alone."""
    is_one = len(text.split()) == 1
    is_named = bool(identifiers(text)) or _HANDLE.fullmatch(text) is not None
    if not is_one or not (is_named or (alone and _is_measure(text))):
        return []
    return [text] if "@" in text or form not in {"email", "idn-email"} else []


_YES, _NO, _NEITHER = "yes", "no", "neither"
_LONGEST: Final = 4_000
_LONGEST_MEANING: Final = 300
_APPROVAL: Final = ChoiceQuestion(
    {
        _YES: "agrees to exactly this, without a condition, a change or a question",
        _NO: "refuses it, or calls it off",
        _NEITHER: "anything else: a question, another wish, a condition, a change, or nothing of the kind",
    },
    asked="The user was asked to approve a call. What does the user's message say to that?",
)


async def approval_heard(
    decider: Decider | None, pending: PendingCall, message: str
) -> tuple[Consent, str, tuple[str, ...]]:
    """Read whether a message approves or refuses the pending call.

    The table of phrases decides if it can. A decision model's yes counts only if a sentence of the message is a yes by
    the table, because such models are overconfident and miss irony.

    Returns:
        The consent, why a yes in the message does not count, and notes.
    """
    said, why = pending.answer_in(message)
    if said.answer != "neither":
        return said, "", ()
    if decider is None:
        return said, why, ()
    (found,) = await _ask_decider(decider, pending.question_for_models(), message, [_APPROVAL], name="consent")
    if found.label == _NO:
        return Consent("no"), "", (_as_read(decider, "the message", found),)
    if found.label == _YES:
        said, why = pending.answer_in(message, quote="")
        if said.answer != "yes":
            why = why or "no sentence of it is a plain yes"
        return said, why, (_as_read(decider, "the message", found),)
    return NEITHER, "" if found.label else why, (found.note,) if found.note else ()


def yes_not_taken(why: str) -> str:
    """Return the sentence for logs and models that a yes does not count, for this reason."""
    return f"the yes does not count: {why}"


async def flags_heard(
    decider: Decider | None, wanted: Mapping[str, Wanted], asked_for: Iterable[str], *, asked: str, message: str
) -> tuple[dict[str, bool], tuple[str, ...]]:
    """Read the boolean inputs that the user was asked for. Return the values found in the message, and notes."""
    flags = {name: _flag(name, wanted[name]) for name in asked_for if name in wanted and _is_flag(wanted[name])}
    if decider is None or not asked or not flags:
        return {}, ()
    values: dict[str, bool] = {}
    notes: list[str] = []
    answers = await _ask_decider(decider, asked, message, list(flags.values()), name="fill")
    for name, found in zip(flags, answers, strict=True):
        if found.label in {_YES, _NO}:
            values[name] = found.label == _YES
            notes.append(_as_read(decider, name, found))
        elif found.note:
            notes.append(found.note)
    return values, tuple(dict.fromkeys(notes))


def _as_read(decider: Decider, what: str, found: Decided) -> str:
    return f"the decider {decider.name} read {what} as {found.label}, at {found.probability or 0.0:.2f}"


async def _ask_decider(
    decider: Decider, asked: str, message: str, questions: Sequence[ChoiceQuestion], *, name: str
) -> list[Decided]:
    state = f"The user was asked:\n{in_one_line(cut(asked, _LONGEST))}\n\nThe user says:\n{cut(message, _LONGEST)}"
    with span(name, "decision") as traced:
        found = await decider.decide_each(state, questions)
        if traced is not None:
            sure = [each.probability for each in found if each.probability is not None]
            chosen = ", ".join(each.label for each in found)
            traced.note({"chosen": chosen, "probability": min(sure, default=None), "tier": "guided"})
            if notes := list(dict.fromkeys(each.note for each in found if each.note)):
                traced.hold({"notes": notes})
    return found


def _is_flag(wanted: Wanted) -> bool:
    return [each.type for each in alternatives(wanted.part, wanted.root) if each.type != "null"] == ["boolean"]


def _flag(name: str, wanted: Wanted) -> ChoiceQuestion:
    descriptions = [str(each.schema.get("description") or "") for each in alternatives(wanted.part, wanted.root)]
    meant = beginning(" ".join(" ".join(descriptions).split()), _LONGEST_MEANING)
    return ChoiceQuestion(
        {
            _YES: "the user says that it is so, or wants it",
            _NO: "the user says that it is not so, or does not want it",
            _NEITHER: "the user says neither, puts a condition on it, or speaks of something else",
        },
        asked=f"What does the user's message say of {in_words(name)!r}{f' ({meant})' if meant else ''}?",
    )
