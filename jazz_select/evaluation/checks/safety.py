"""Checks for unsafe texts: personal data, instructions to a model, and invisible characters.

Every text of a flow may be embedded, indexed, logged and shown to models, and an example is often a request of a real
user. Numbers count as personal data only if their check digits are right or the text says what they are.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from unicodedata import category

from jazz_select.evaluation.checks.findings import Finding, Places, Spot
from jazz_select.flow.base import BaseFlow
from jazz_select.text import beginning, nfkc
from jazz_select.words import as_latin

_SHOWN = 80
_MOST_READ = 60_000
UNSAFE = frozenset({"hidden-characters", "personal-data", "prompt-injection"})
"""The kinds of findings about unsafe texts."""
_TEXTS = ("description", "condition", "title", "reply")
_LISTS = ("desired_effects", "examples", "steps", "aliases")


def texts_of(flow: BaseFlow) -> Iterator[Spot]:
    """Yield every text that an author wrote for a flow."""
    for field in _TEXTS:
        yield Spot(flow, field)
    for field in _LISTS:
        for number in range(len(getattr(flow, field))):
            yield Spot(flow, field, number)


def safety(flows: Sequence[BaseFlow], places: Places) -> Iterator[Finding]:
    """Yield the findings about unsafe texts, at most one of each kind for a text."""
    for flow in flows:
        for spot in texts_of(flow):
            for code, what, remedy in _unsafe(spot.text):
                sentence = f"{spot.field} of {flow.name} {what}."
                yield places.finding(code, spot, sentence, remedy, spot.evidence())


def _unsafe(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the code, the problem and the remedy of each finding about a text."""
    hidden = [f"U+{ord(char):04X}" for char in dict.fromkeys(text[:_MOST_READ]) if _is_hidden(char)]
    if hidden:
        what = f"contains invisible characters ({', '.join(hidden[:3])})"
        yield "hidden-characters", what, "Take them out: with them, two texts that look the same differ."
    plain = nfkc(seen(text[:_MOST_READ]))
    data = personal_data(plain)
    if data:
        remedy = "Write made-up data that looks like it, or leave it out: texts of flows are embedded, kept and shown."
        yield "personal-data", f"holds {data}", remedy
    found = injection(plain)
    if found:
        remedy = "Take it out, or have an example say it in other words: models are shown this text."
        yield "prompt-injection", f"tells a model what to do: “{beginning(found, _SHOWN)}”", remedy


_JOINERS = "\u200c\u200d"
"""Zero-width joiners, which are part of Persian, Indic scripts and emoji."""
_TAGS = range(0xE0000, 0xE0080)


def _is_hidden(char: str) -> bool:
    if char.isascii() or char in _JOINERS:
        return False
    return category(char) == "Cf" or ord(char) in _TAGS or char in "\u115f\u1160\u3164\uffa0"


def seen(text: str) -> str:
    """Return the text without invisible characters."""
    if text.isascii():
        return text
    return "".join(char for char in text if not _is_hidden(char) and char not in _JOINERS)


# --- personal data ---------------------------------------------------------------

_MAIL = re.compile(r"[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[a-z]{2,24}", re.IGNORECASE)
_NOBODYS = re.compile(
    r"(?:^(?:info|support|service|help|contact|hello|office|team|sales|billing|press|privacy|security|no-?reply)@)"
    r"|(?:[@.]example\.\w+$)|(?:\.(?:example|test|invalid|localhost)$)",
    re.IGNORECASE,
)
"""Addresses of no person: a desk's, or in a reserved domain (RFC 2606)."""
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]{1,11}){3,9}\b", re.IGNORECASE)
_SHORTEST_IBAN, _LONGEST_IBAN, _FEWEST_DIGITS = 15, 34, 10
_CARD = re.compile(r"(?<![\w+])\d(?:[ -]?\d){12,18}(?!\w)")
_ISSUED = re.compile(r"(?:4(?:\d{12}|\d{15}|\d{18})|(?:5[1-5]|2[2-7]|6[05]|35)\d{14}|3[47]\d{13}|3[068]\d{12})")
"""Leading digits and lengths of card numbers."""
_PASSPORT = re.compile(
    r"\b(?:passports?|reisepass\w*|personalausweis\w*|passeports?|pasaportes?|passaport[oi]|passaportes?|paspoort\w*"
    r"|identity cards?|id cards?|national ids?)\b[^.!?\n]{0,40}?\b(?=\w*\d\w*\d)[A-Z0-9]{6,12}\b",
    re.IGNORECASE,
)
_SOCIAL = re.compile(r"(?<![\w-])(?!000|666|9)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])")
_PHONE = re.compile(
    r"(?<![\w+])\+[1-9](?:[ ()./-]{0,2}\d){8,14}(?!\w)"
    r"|\b(?:phone|mobile|cell|tel|telefon|handy|portable|móvil|call me (?:at|on|under))\b\W{0,3}(?:\w+\W){0,2}?"
    r"(?:\(?0\d(?:[ ()./-]{0,2}\d){6,12})(?!\w)",
    re.IGNORECASE,
)
_BORN = re.compile(
    r"\b(?:born(?: on)?|birthday|date of birth|dob|geboren(?: am)?|née? le|naissance|nacimiento)\b[^.!?\n]{0,20}?"
    r"\b\d{1,4}[./-]\d{1,2}[./-]\d{2,4}\b",
    re.IGNORECASE,
)


def personal_data(text: str) -> str:
    """Return the kinds of personal data in a text, without repeating any of it; empty if there is none."""
    found = {
        "a mail address": any(not _NOBODYS.search(each[0]) for each in _MAIL.finditer(text)),
        "an IBAN": any(_is_iban(each[0]) for each in _IBAN.finditer(text)),
        "the number of a payment card": any(_is_card(each[0]) for each in _CARD.finditer(text)),
        "the number of a passport or an identity card": _PASSPORT.search(text) is not None,
        "a social security number": _SOCIAL.search(text) is not None,
        "a phone number": _PHONE.search(text) is not None,
        "a date of birth": _BORN.search(text) is not None,
    }
    return " and ".join(name for name, holds in found.items() if holds)


def _is_iban(text: str) -> bool:
    """Whether the text begins with an IBAN: the remainder modulo 97 is 1 (ISO 13616)."""
    whole = ""
    # The pattern may have matched beyond the number, so any group may be its last.
    for part in re.split(r"[ -]", text.upper()):
        whole += part
        if _SHORTEST_IBAN <= len(whole) <= _LONGEST_IBAN and sum(map(str.isdigit, whole)) >= _FEWEST_DIGITS:
            moved = whole[4:] + whole[:4]  # country and check digits go to the end
            number = "".join(str(int(char, 36)) for char in moved)  # letters count from 10
            if int(number) % 97 == 1:
                return True
    return False


def _is_card(text: str) -> bool:
    """Whether it is a number of a known issuer with a valid check digit (Luhn)."""
    digits = [int(char) for char in text if char.isdigit()]
    if len(set(digits)) == 1 or not _ISSUED.fullmatch("".join(map(str, digits))):
        return False
    # Every second digit from the right counts double, as the sum of its two digits.
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return (sum(doubled) + sum(digits[-1::-2])) % 10 == 0


# --- instructions to a model ---------------------------------------------------------


@cache
def _injections() -> re.Pattern[str]:
    lines = Path(__file__).with_name("injections.txt").read_text("utf-8").splitlines()
    return re.compile("|".join(line for line in lines if line and not line.startswith("# ")), re.IGNORECASE)


def injection(text: str) -> str:
    """Return the words of a text that instruct a model or imitate a prompt's frame; empty if there are none.

    The patterns find common forms only and are no defence. The defences are approvals and the check of offered flows.
    """
    plain = text[:_MOST_READ]
    found = _injections().search(plain)
    if found is None:
        latin = as_latin(plain)
        if latin != plain:  # letters of another script that look Latin
            found = _injections().search(latin)
    return "" if found is None else found[0].strip()
