"""A message that is nothing but the value that was asked for: no model has to read that."""

import re
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from typing import Any, Final, cast

from jazz_select.agent.reading.grounding import (
    EDGES,
    Wanted,
    dates,
    decimals,
    fits,
    in_words,
    normalized,
    number_in_words,
    numbers,
    same,
    word_list,
)
from jazz_select.consent import is_refusal, phrases, read_consent
from jazz_select.routing.schemas.fields import Schema, alternatives
from jazz_select.text import nfkc
from jazz_select.words import words as name_words

_IDENTIFIER: Final = re.compile(r"(?<!\S)(?=\S*\d|\S+@\S)\S+")
_NUMERIC: Final = frozenset({"integer", "number"})
_LEADING: Final = word_list("is its that's here here's hier use so ist lautet es è")
"""Words before a value that only lead to it, beside those of the table."""
_ALSO: Final[Mapping[str, tuple[str, ...]]] = {
    "email": ("mail", "e-mail", "address", "adresse", "mailadresse", "e-mail-adresse", "correo"),
    "number": ("no", "nr", "nummer", "número", "numéro", "numero"),
    "order": ("bestellung", "bestellnummer", "pedido", "commande", "ordine"),
}
"""What people call them besides."""
_LONGEST_ANSWER: Final = 100
_LONGEST_PLAIN: Final = 60
_MOST_PLAIN: Final = 3
_MOST_COUNTED: Final = 6
"""Words around a number that answers."""
_BETWEEN: Final = re.compile(r"[,;、\n]")
_SHORTEST_IDENTIFIER: Final = 3
_MEASURE: Final = re.compile(
    r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}|\d{1,2}[-./]\d{1,2}|\d+:\d\d|[a-z]{3,}\d{1,2}"
    r"|[$€£]\d+([.,]\d+)*|\d{1,3}([.,]\d{3})+([.,]\d{1,2})?|\d+[.,]\d{1,2}[$€£%]?|\d+[$€£%]"
    r"|\d+(st|nd|rd|th|am|pm|h|d|s|x|k|kg|g|cm|mm|m|km|l|ml|gb|mb|tb|eur|usd|min|days?|weeks?|months?|years?)",
    re.IGNORECASE,
)
"""Dates, times, prices, amounts and names of models: they tell no order from another."""
_LONGEST_SAID: Final = 4_000
_DATED: Final = 1_000
"""Characters of what was said in which dates are looked for, so that it takes a moment."""
_SHAPING: Final = frozenset({"enum", "const", "format"})
_SHAPED: Final = word_list(
    """
    amount code count date day email iban id ids identifier key mail no number numbers password phone pin plz postcode
    price ref reference sku tel telephone time token uri url uuid year zip
    """
)
"""Words in the name of what has a form of its own: no plain word is one."""
_SPACED_NUMBER: Final = re.compile(r"\+?\(?\d[\d ()/.-]{3,30}")
"""Such as a phone's."""
_ANY_VALUE: Final = {"value": Wanted({"anyOf": [{"type": "number"}, {"type": "string"}]}, {})}


def bare_answer(wanted: Mapping[str, Wanted], message: str) -> dict[str, Any]:
    """A message that is nothing but a value answers the first of what was asked for, where it looks like that.

    A number, in digits or words, for a number, with the words of its name or without: "7 days" for `days`; one of the
    values that are allowed; a date that can mean one day only; for a text a word with a digit or an @ in it. A yes or
    a no answers for a boolean that was asked for alone. What cannot be the first answers the only one that it can be.
    """
    text = message.strip().strip(EDGES).strip()
    if not wanted or not text or len(text) > _LONGEST_ANSWER:
        return {}
    fitting = {name: value for name, want in wanted.items() for value in _read(name, want, text, len(wanted) == 1)[:1]}
    first = next(iter(wanted))
    return {first: fitting[first]} if first in fitting else fitting if len(fitting) == 1 else {}


def is_value(message: str) -> bool:
    """Whether a message is nothing but a value, of whatever name: a number, a date, an address, a word with a digit."""
    return bool(bare_answer(_ANY_VALUE, message)) or _SPACED_NUMBER.fullmatch(message.strip()) is not None


def _read(name: str, want: Wanted, text: str, alone: bool) -> list[object]:  # noqa: FBT001
    """What a whole message may be, as a value that fits."""
    return [
        value
        for each in alternatives(want.part, want.root)
        for value in _readings(_without_its_name(text, name, each.type), each.type, each.schema, alone=alone)
        if fits(name, value, want)
    ]


def _without_its_name(text: str, name: str, kind: str) -> str:
    """What is left without words that lead to it, or are the input's own name: of "my mail is a@b.org" the address.

    Of "7 days" for `days` it is the 7.
    """
    own = {*name_words(name), *(word for part in name_words(name) for word in _ALSO.get(part, ()))}
    said, table = text.split(), phrases()
    courtesies, leading = table.courtesy, (table.courtesy | table.yes | table.chooses | _LEADING | own) - table.adds
    while len(said) > 1 and said[0].strip(EDGES).casefold() in leading:
        said.pop(0)
    while len(said) > 1 and said[-1].strip(EDGES).casefold() in (courtesies | own if kind in _NUMERIC else courtesies):
        said.pop()
    return " ".join(said).strip(EDGES) if len(said) == 1 or kind in _NUMERIC else text


def plain_answer(wanted: Mapping[str, Wanted], message: str) -> dict[str, Any]:
    """What people answer in words of their own to a question that only they were asked.

    Where the author words the question of an input, the message answers it: its number, where a number is asked for;
    the word with a digit or an @ in it, where the example is such a word; else the whole of it. Several inputs that
    were asked for together are answered in their order, with commas between. Without a question of the author's, one
    to three plain words answer for the one text that was asked for, such as a name. Nothing that asks, agrees, refuses,
    greets or sighs is an answer. Whoever asks here has seen that no other flow is meant.
    """
    parts = [each.strip() for each in _BETWEEN.split(message.strip()) if each.strip()]
    if len(wanted) > 1 and len(parts) == len(wanted):
        found = [
            bare_answer({name: want}, part) or plain_answer({name: want}, part)
            for (name, want), part in zip(wanted.items(), parts, strict=True)
        ]
        return {name: value for each in found for name, value in each.items()} if all(found) else {}
    text = " ".join(nfkc(message).split()).strip(EDGES + " ")
    if len(wanted) != 1 or not text or len(text) > _LONGEST_ANSWER or set("?¿؟") & set(message):
        return {}
    ((name, want),) = wanted.items()
    words = normalized(text).split()
    if read_consent(text).answer != "neither" or all(word.strip(EDGES) in _no_names() for word in words):
        return {}
    declared = want.declared
    own = _worded(want, text) if declared is not None and declared.question else _plain(name, want, text)
    return {name: own[0]} if len(own) == 1 and fits(name, own[0], want) else {}


def _worded(want: Wanted, text: str) -> list[object]:
    """What answers the author's question: a number, a word with a digit or an @ in it, or the whole text."""
    kinds = [each for each in alternatives(want.part, want.root) if each.type != "null"]
    example = want.declared.example if want.declared is not None else ""
    if any("enum" in each.schema for each in kinds):
        return []
    if kinds and all(each.type in _NUMERIC for each in kinds):
        counted = set(numbers(text)) if len(text.split()) <= _MOST_COUNTED else set[Decimal]()
        is_whole = all(each.type == "integer" for each in kinds)
        return [int(each) if is_whole and each == each.to_integral_value() else float(each) for each in counted]
    if not kinds or any(each.type != "string" or _SHAPING & each.schema.keys() for each in kinds):
        return []
    return [*dict.fromkeys(identifiers(text))] if identifiers(example) else [text]


def _plain(name: str, want: Wanted, text: str) -> list[object]:
    """One to three words for a text that has no digits in it, such as a number, a code or a date."""
    words = normalized(text).split()
    kinds = alternatives(want.part, want.root)
    is_text = [each.type for each in kinds if each.type != "null"] == ["string"]
    if not is_text or any(_SHAPING & each.schema.keys() for each in kinds) or set(name_words(name)) & _SHAPED:
        return []
    if len(words) > _MOST_PLAIN or len(text) > _LONGEST_PLAIN:
        return []
    return [] if any(not word[0].isalpha() or word.strip(EDGES) in _no_names() for word in words) else [text]


def corrections(wanted: Mapping[str, Wanted], answers: Mapping[str, Any], message: str) -> dict[str, Any]:
    """What a message plainly says anew of what was answered, where nobody reads it.

    "5 days" for `days`, since it has the name of the input; the one word with a digit or an @ in it, where one answer
    alone is such a word; "no, 50" where one answer alone can be that.
    """
    known = {name: want for name, want in wanted.items() if name in answers}
    first, _, rest = message.strip().partition(" ")
    if first.strip(EDGES).casefold() in phrases().no:
        instead = [found for name, want in known.items() if (found := bare_answer({name: want}, rest))]
        if len(instead) == 1:
            return {name: value for name, value in instead[0].items() if not same(value, answers[name])}
    said = set(normalized(message).split())
    named = {name: want for name, want in known.items() if said & {*name_words(name)}}
    found = {name: value for each in named.items() for name, value in bare_answer(dict([each]), message).items()}
    found = found or thing_named(known, {name: str(value) for name, value in answers.items()}, message)
    return {name: value for name, value in found.items() if not same(value, answers[name])}


def thing_named(wanted: Mapping[str, Wanted], like: Mapping[str, str], message: str) -> dict[str, Any]:
    """The one word with a digit or an @ in a message, for the one input of which a value is `like` that."""
    named = [*dict.fromkeys(identifiers(message))]
    said = [each for each in named if each not in like.values()] or named
    names = [name for name in wanted if name in like and identifiers(like[name]) == [like[name]]]
    if len(said) != 1 or len(names) != 1 or not fits(names[0], said[0], wanted[names[0]]):
        return {}
    return {names[0]: said[0]}


def identifiers(message: str) -> list[str]:
    """Words that name one particular thing: with a digit or an @ in them, and no date, part of one, price or amount."""
    text = message[:_LONGEST_SAID]
    words = (word.strip(EDGES) for word in _IDENTIFIER.findall(text))
    found = [word for word in words if len(word) >= _SHORTEST_IDENTIFIER and not _MEASURE.fullmatch(word)]
    if not found:
        return found
    # "March 5th, 2026" has a year in it that names nothing.
    in_dates = Counter(word.strip(EDGES) for written, _ in dates(text[:_DATED]) for word in written.split())
    return list((Counter(found) - in_dates).elements())


@cache
def _no_names() -> frozenset[str]:
    """Words that a name is not made of: of another wish, a question, a sigh, a yes or a no."""
    table = phrases()
    kinds = (
        table.yes,
        table.no,
        table.courtesy,
        table.stops,
        table.scope,
        table.denies,
        table.adds,
        table.points,
        table.between,
    )
    listed = frozenset[str]().union(*kinds, table.chooses, table.unsure, table.common, table.sighs)
    return frozenset(word for each in listed for word in each.split())


def _answer(message: str) -> str:
    """A yes or a no, and nothing besides; else empty."""
    said = read_consent(message)
    return "" if said.rest else said.answer


def _readings(text: str, kind: str, schema: Schema, *, alone: bool) -> list[object]:
    """What a whole message may be, as a value of a type."""
    allowed = schema.get("enum")
    said = normalized(text)
    if isinstance(allowed, list):
        return [each for each in cast("list[object]", allowed) if in_words(normalized(str(each))) == in_words(said)]
    if kind == "boolean":
        agreed = {"yes": "true", "no": "false" if is_refusal(said) else ""}.get(_answer(said), "") if alone else ""
        return [found == "true"] if (found := agreed or said) in {"true", "false"} else []
    if kind in {"integer", "number"}:
        return _numbers(said, kind)
    return _texts(text, said, schema.get("format")) if kind in {"string", ""} else []


def _numbers(said: str, kind: str) -> list[object]:
    spelt = number_in_words(said)
    found = {Decimal(spelt)} if spelt is not None else set(decimals(said))
    if kind == "integer":
        return [int(each) for each in found if each == each.to_integral_value()]
    return [float(each) for each in found] if len(found) == 1 else []


def _texts(text: str, said: str, form: object) -> list[object]:
    if form == "date":
        return [day for written, day in dates(said) if written == said]
    is_one = len(said.split()) == 1 and bool(identifiers(text))
    return [text] if is_one and ("@" in text or form not in {"email", "idn-email"}) else []
