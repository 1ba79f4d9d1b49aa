"""Read values from short answers by rules; and yes or no by a decision model, where no rule decides."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Any, Final, NamedTuple

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
from jazz_select.chat.decisions import Decider, DeciderAnswer
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
    if first in fitting:
        return {first: fitting[first]}
    # Of several that it may answer, none was asked for first: nobody knows which is meant.
    return fitting if len(fitting) == 1 else {}


def fitting_inputs(wanted: Mapping[str, Wanted], message: str, context: ReadingContext = _UNKNOWN) -> dict[str, Any]:
    """Return the value of each input that a message consisting of a single value may answer."""
    text = message.strip().strip(EDGES).strip()
    if not wanted or not text or len(text) > _LONGEST_ANSWER:
        return {}
    alone = len(wanted) == 1
    fitting: dict[str, Any] = {}
    for name, want in wanted.items():
        values = _read_values(name, want, message.strip(), context, alone=alone)
        if values:
            fitting[name] = values[0]
    return fitting


def unfit_answer(wanted: Mapping[str, Wanted], message: str, context: ReadingContext = _UNKNOWN) -> dict[str, Any]:
    """Return the value that a message consists of, if it is outside of what the only input with its type takes.

    These are 0 for a number above 0, and A-1 for a code of four characters, so that the reason can be said.
    """
    text, alone = message.strip(), len(wanted) == 1
    if not text.strip(EDGES) or len(text) > _LONGEST_ANSWER:
        return {}
    unfit: dict[str, Any] = {}
    for name, want in wanted.items():
        values = _read_values(name, want, text, context, alone=alone, fitting=False)
        if values:
            unfit[name] = values[0]
    return unfit if len(unfit) == 1 else {}


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
        if len(named) != 1 or not fits(name, named[0], want):
            return {}
        return {name: named}
    is_question = not QUESTION_MARKS.isdisjoint(message)
    for each in alternatives(want.part, want.root):
        read = _expression(name, message, each.type, each.schema, context)
        if read is None or not read.understood or (whole and read.rest):
            continue
        # A question that asks something beside a value gives none.
        if is_question and not _asking_words().isdisjoint(normalized(read.rest).split()):
            continue
        forms = [json_form(value) for value in read.understood]
        readings = tuple(form for form in forms if fits(name, form, want))
        if readings:
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
    time_inputs = [each for each, own in kinds.items() if own == ["time"]]
    if kinds[name] == ["date"] and len(time_inputs) == 1:
        # Without a zone: the day and the time are of the user's clock.
        moments = _both_halves(message, "datetime", replace(context, zone=None), name)
        return [{name: each[:_ISO_DAY], time_inputs[0]: each[_ISO_DAY + 1 :]} for each in moments]
    kind = kinds[name][0] if len(kinds[name]) == 1 else None
    if kind is None:
        return []
    halves = _both_halves(message, kind, context, name)
    if len(halves) < 2:  # noqa: PLR2004 - two halves
        return []
    return [{name: each} for each in halves]


def _kinds(want: Wanted) -> list[Kind | None]:
    """Return the kinds of values that an input takes, but for the text of a number (`Decimal`)."""
    parts = [each for each in alternatives(want.part, want.root) if each.type != "null"]
    kinds: list[Kind | None] = []
    for part in parts:
        if not _is_text_of_number(part, parts):
            kinds.append(kind_of(part.type, part.schema))
    return kinds


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
    if first is None or second is None or abs(second - first) != _HALF_A_DAY:
        return []
    return [json_form(each) for each in read.understood]


def _with_day(value: object) -> datetime | None:
    """Return a time of the day, or one with a day, as a moment without a zone; None if a value is neither."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, time):
        return datetime.combine(date.min, value)
    return None


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
    first, second = ({name: wanted[name]} for name in names)
    if bare_answer(first, message, context) or understood_answer(first, message, context, whole=True):
        return {}
    splits: list[dict[str, Any]] = []
    for place in range(1, len(words)):
        one = bare_answer(first, " ".join(words[:place]), context)
        if not one:
            continue
        other = bare_answer(second, " ".join(words[place:]), context)
        if other:
            splits.append({**one, **other})
    return splits[0] if len(splits) == 1 else {}


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
    offered = choices.get(name, ())
    if len(offered) > 1 and is_every(message, len(offered)):
        return [{name: value} for value in offered]
    courtesies = phrases()["courtesy"]
    parts: list[str] = []
    for part in map(str.strip, _between_listed().split(message.strip().strip(EDGES))):
        if part and normalized(part) not in courtesies:
            parts.append(part)
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


def _read_values(
    name: str, want: Wanted, text: str, context: ReadingContext, *, alone: bool, fitting: bool = True
) -> list[object]:
    found: list[object] = []
    parts = alternatives(want.part, want.root)
    for part in parts:
        # The text would hide that "1.234" has two readings, and that nobody writes "1e5".
        if _is_text_of_number(part, parts) and (_is_number(name, parts, text, context) or _is_machine_number(text)):
            continue
        expression = _expression(name, text, part.type, part.schema, context)
        if expression is None:
            own = _readings(_without_its_name(text.strip(EDGES).strip(), name), part.type, part.schema, alone=alone)
            found += own or _members_by_value(name, text, part.schema, context)
            continue
        # A yes answers a flag that was asked for alone.
        is_answer = alone or part.type != "boolean" or normalized(text) in {"true", "false"}
        if expression.value is not None and is_answer:
            found.append(json_form(expression.value))
    if not fitting:
        return found
    return [value for value in found if fits(name, value, want)]


def _is_number(name: str, parts: Sequence[Alternative], text: str, context: ReadingContext) -> bool:
    """Whether a text says a number for one of the alternatives that take one, or several that it may mean."""
    for part in parts:
        if part.type in {"number", "integer"}:
            read = _expression(name, text, part.type, part.schema, context)
            if read is not None and (read.value is not None or read.understood):
                return True
    return False


def _is_machine_number(text: str) -> bool:
    """Whether a text is a number as programs write them, such as "1e5"."""
    try:
        Decimal(text.strip())
    except InvalidOperation:
        return False
    return True


def _expression(name: str, text: str, type_: str, schema: Schema, context: ReadingContext) -> Expression | None:
    """Return what an answer says as a value of a type that is read by its words; None if the type is none of them."""
    kind = kind_of(type_, schema)
    if kind is None:
        return None
    return read_expression(text, kind, context, name)


def _without_its_name(text: str, name: str) -> str:
    """Remove words that introduce the value or name the input: "my mail is a@b.org" becomes "a@b.org"."""
    words, table = text.split(), phrases()
    courtesies = table["courtesy"]
    leading = _leading_words(_names_of(name))
    while len(words) > 1 and words[0].strip(EDGES).casefold() in leading:
        words.pop(0)
    while len(words) > 1 and words[-1].strip(EDGES).casefold() in courtesies:
        words.pop()
    if len(words) > 1:
        return text
    return " ".join(words).strip(EDGES)


def _names_of(name: str) -> set[str]:
    """Return the words in the name of an input, with their synonyms."""
    words = set(name_words(name))
    for word in name_words(name):
        words.update(_ALSO.get(word, ()))
    return words


def _leading_words(own: AbstractSet[str]) -> frozenset[str]:
    """Return the words that may introduce a value: `own` ones, and those of courtesy, agreement and choice."""
    table = phrases()
    return (table["courtesy"] | table["yes"] | table["chooses"] | _LEADING | own) - table["adds"]


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
    if not kinds:
        return []
    for kind in kinds:
        if kind.type != "string" or not _SHAPING.isdisjoint(kind.schema):
            return []
    if not identifiers(example):
        return [text]
    found: list[object] = [*dict.fromkeys(identifiers(text))]
    if len(found) != 1 or _unaccounted_words(name, want, text, str(found[0]), context):
        return []
    return found


def _unaccounted_words(name: str, want: Wanted, text: str, found: str, context: ReadingContext) -> list[str]:
    """Return the words beside an identifier that neither introduce it nor are of its input or question."""
    question = want.declared.question if want.declared is not None else ""
    own = _names_of(name) | set(normalized(question).replace("?", " ").split())
    known = _leading_words(own) | {"", normalized(found)}
    words = [word.strip(EDGES) for word in normalized(text).split()]
    return [word for word in words if word not in known and not says_nothing(word, context)]


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
    questions = [sentence.strip() for sentence in SENTENCES.findall(asked) if not QUESTION_MARKS.isdisjoint(sentence)]
    if not questions or read_consent(message) != ("yes", ""):
        return ()
    offer = questions[-1]
    if len(set(identifiers(offer))) != 1:
        return ()
    return (offer,)


def corrections(
    wanted: Mapping[str, Wanted], answers: Mapping[str, Any], message: str, context: ReadingContext = _UNKNOWN
) -> dict[str, Any]:
    """Return the corrections of earlier answers that rules find in a message.

    These are "5 days" for `days`, by the name of the input; a single identifier, if exactly one answer is an
    identifier; and "no, 50", if exactly one answer can be that value.
    """
    known = {name: want for name, want in wanted.items() if name in answers}
    rest = behind_correction(message)
    if rest:
        instead: list[dict[str, Any]] = []
        for name, want in known.items():
            answer = bare_answer({name: want}, rest, context)
            if answer:
                instead.append(answer)
        if len(instead) == 1:
            return _changed(instead[0], answers)
    words = set(normalized(message).split())
    found: dict[str, Any] = {}
    for name, want in known.items():
        if not words.isdisjoint(name_words(name)):
            found.update(bare_answer({name: want}, message, context))
    if not found:
        found = thing_named(known, {name: str(value) for name, value in answers.items()}, message)
    return _changed(found, answers)


def _changed(values: Mapping[str, Any], answers: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if not same(value, answers[name])}


def thing_named(wanted: Mapping[str, Wanted], like: Mapping[str, str], message: str) -> dict[str, Any]:
    """Return the single identifier in a message as the value of the single input whose value in `like` is one."""
    named = [*dict.fromkeys(identifiers(message))]
    # What is known already, or is only an example, is passed over beside another value.
    values = [value for value in named if value not in like.values()] or named
    names = [name for name in wanted if name in like and identifiers(like[name]) == [like[name]]]
    if len(values) != 1 or len(names) != 1 or not fits(names[0], values[0], wanted[names[0]]):
        return {}
    return {names[0]: values[0]}


def identifiers(message: str) -> list[str]:
    """Return the words with a digit or an @ that are not a date, part of a date, a price or an amount."""
    text = message[:_LONGEST_SAID]
    words = [word.strip(EDGES) for word in _IDENTIFIER.findall(text)]
    found = [word for word in words if len(word) >= _SHORTEST_IDENTIFIER and not _is_measure(word)]
    if not found:
        return found
    # The year in "March 5th, 2026" is not an identifier.
    in_dates: Counter[str] = Counter()
    for written, _ in dates(text[:_DATED]):
        in_dates.update(word.strip(EDGES) for word in written.split())
    return list((Counter(found) - in_dates).elements())


def is_no_value(text: str) -> bool:
    """Whether a text as a whole agrees, refuses, asks, greets, waits or sighs, so that it answers no question."""
    words = normalized(text).split()
    if len(words) == 1 and words[0].strip(EDGES) in phrases()["doubles"]:
        return False
    if read_consent(text).answer != "neither" or asks_to_wait(text) or is_courtesy(text):
        return True
    words = [word.strip(EDGES) for word in words]
    return " ".join(words) in _whole_phrases() or words[0] in phrases()["denies"]


def _is_measure(word: str) -> bool:
    """Whether a word is a date, a time, a price, an amount or the like, which is no identifier."""
    return _LIKE_FIGURES.fullmatch(word) is not None or is_measure(word)


@cache
def _asking_words() -> frozenset[str]:
    words: set[str] = set()
    for phrase in phrases()["inquires"]:
        words.update(phrase.split())
    return frozenset(words)


@cache
def _whole_phrases() -> frozenset[str]:
    table = phrases()
    kinds = ("stops", "denies", "waits", "courtesy", "unsure", "sighs", "asides", "questions")
    return frozenset[str]().union(*(table[kind] for kind in kinds))


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
    if is_array(allowed):
        answer = in_words(normalized(text))
        return [member for member in allowed if in_words(normalized(str(member))) == answer]
    if kind not in {"string", ""}:
        return []
    return _texts(text, schema.get("format"), alone=alone)


def _members_by_value(name: str, text: str, schema: Schema, context: ReadingContext) -> list[object]:
    """Return the only one of the choices that says the same time, day or number as an answer: "14:00" for "2 pm"."""
    members = schema.get("enum")
    if not is_array(members):
        return []
    listed = members[:_MOST_COMPARED]
    for kind in ("time", "date", "number"):
        read = read_expression(text, kind, context, name)
        readings = read.understood if read.value is None else (read.value,)
        if not readings or read.rest or read.in_doubt:
            continue
        same_value = [member for member in listed if _value_of_member(str(member), kind, context) in readings]
        if len({*map(str, same_value)}) == 1:
            return same_value[:1]
    return []


def _value_of_member(member: str, kind: Kind, context: ReadingContext) -> object:
    """Return what a choice says; "9:00" is in the morning, since lists are written by a clock of 24 hours."""
    value = read_expression(member, kind, context).value
    if value is None and kind == "time":
        return read_expression(member, kind, _OF_24_HOURS).value
    return value


def _texts(text: str, form: object, *, alone: bool) -> list[object]:
    """Return a text that is one word with a digit or an @; an amount or a time only if asked for alone."""
    is_one = len(text.split()) == 1
    is_named = bool(identifiers(text)) or _HANDLE.fullmatch(text) is not None
    if not is_one or not (is_named or (alone and _is_measure(text))):
        return []
    if form in {"email", "idn-email"} and "@" not in text:
        return []
    return [text]


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


class ApprovalAnswer(NamedTuple):
    """The answer to a pending call.

    Attributes:
        consent: Whether it is approved or refused.
        why_no_yes: Why a yes in the message does not count; empty if there is none, or it counts.
        notes: What a decision model read, or why it did not.
    """

    consent: Consent
    why_no_yes: str = ""
    notes: tuple[str, ...] = ()


async def read_approval(decider: Decider | None, pending: PendingCall, message: str) -> ApprovalAnswer:
    """Read whether a message approves or refuses the pending call.

    The table of phrases decides if it can. A decision model's yes counts only if a sentence of the message is a yes by
    the table, because such models are overconfident and miss irony.
    """
    consent, why = pending.answer_in(message)
    if consent.answer != "neither":
        return ApprovalAnswer(consent)
    if decider is None:
        return ApprovalAnswer(consent, why)
    (found,) = await _ask_decider(decider, pending.question_for_models(), message, [_APPROVAL], name="consent")
    if found.label == _NO:
        return ApprovalAnswer(Consent("no"), notes=(_as_read(decider, "the message", found),))
    if found.label == _YES:
        # The model finds the yes; the table has to see it too.
        consent, why = pending.answer_in(message, quote="")
        if consent.answer != "yes":
            why = why or "no sentence of it is a plain yes"
        return ApprovalAnswer(consent, why, (_as_read(decider, "the message", found),))
    notes = (found.note,) if found.note else ()
    return ApprovalAnswer(NEITHER, "" if found.label else why, notes)


def yes_not_taken(why: str) -> str:
    """Return the sentence for logs and models that a yes does not count, for this reason."""
    return f"the yes does not count: {why}"


async def read_flags(
    decider: Decider | None, wanted: Mapping[str, Wanted], asks: Iterable[str], *, asked: str, message: str
) -> tuple[dict[str, bool], tuple[str, ...]]:
    """Read the boolean inputs that the user was asked for. Return the values found in the message, and notes."""
    if decider is None or not asked:
        return {}, ()
    flags: dict[str, ChoiceQuestion] = {}
    for name in asks:
        if name in wanted and _is_flag(wanted[name]):
            flags[name] = _flag(name, wanted[name])
    if not flags:
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


def _as_read(decider: Decider, what: str, found: DeciderAnswer) -> str:
    return f"the decider {decider.name} read {what} as {found.label}, at {found.probability or 0.0:.2f}"


async def _ask_decider(
    decider: Decider, asked: str, message: str, questions: Sequence[ChoiceQuestion], *, name: str
) -> list[DeciderAnswer]:
    state = f"The user was asked:\n{in_one_line(cut(asked, _LONGEST))}\n\nThe user says:\n{cut(message, _LONGEST)}"
    with span(name, "decision") as traced:
        found = await decider.decide_each(state, questions)
        if traced is not None:
            sure = [each.probability for each in found if each.probability is not None]
            chosen = ", ".join(each.label for each in found)
            traced.note({"chosen": chosen, "probability": min(sure, default=None), "tier": "guided"})
            notes = list(dict.fromkeys(each.note for each in found if each.note))
            if notes:
                traced.hold({"notes": notes})
    return found


def _is_flag(wanted: Wanted) -> bool:
    types = [each.type for each in alternatives(wanted.part, wanted.root)]
    return [type_ for type_ in types if type_ != "null"] == ["boolean"]


def _flag(name: str, wanted: Wanted) -> ChoiceQuestion:
    descriptions = [str(each.schema.get("description") or "") for each in alternatives(wanted.part, wanted.root)]
    meaning = beginning(" ".join(" ".join(descriptions).split()), _LONGEST_MEANING)
    subject = f"{in_words(name)!r} ({meaning})" if meaning else f"{in_words(name)!r}"
    return ChoiceQuestion(
        {
            _YES: "the user says that it is so, or wants it",
            _NO: "the user says that it is not so, or does not want it",
            _NEITHER: "the user says neither, puts a condition on it, or speaks of something else",
        },
        asked=f"What does the user's message say of {subject}?",
    )
