"""A name as words, and what two spellings have in common. Pure, bounded."""

import re
from collections.abc import Mapping
from typing import Any, Final, cast
from unicodedata import category, normalize

from jazz_select.text import nfkc

LONGEST: Final = 200
"""A longer text is no name: only a tool that is called exactly so is found by it."""

_LONGEST_FOLDED: Final = 1_000
_MOST_READ: Final = 40_000
"""Characters of any text that are taken for words: a character may stand for eighteen."""
_APART = re.compile(r"[^A-Za-z0-9]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_LETTERS = ("L", "M", "N")
"""Letters, the marks that stand on them, and digits: a name without its marks is another name."""
_DIGITS = re.compile(r"(?<=\d) (?=\d)")
_LOOKING_LIKE: Final = {
    **dict(zip("АВЕЗКМНОРСТУХІЈЅԚԜӀҮаеорсухіјѕԁԛԝһӏүкмт", "ABE3KMHOPCTYXIJSQWIYaeopcyxijsdqwhlykmt", strict=True)),
    **dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹαοινκρυχγϲϳ", "ABEZHIKMNOPTYXCaoivkpuxycj", strict=True)),
    **dict(zip("ՕօոսհցԼՏ", "OonuhgLS", strict=True)),
    **dict(zip("ıɩɡɑʏᴏᴄᴠᴡᴢꓲꓳ", "iigayocvwzIO", strict=True)),
}
"""Cyrillic, Greek, Armenian and rare Latin letters, and the Latin ones that nobody can tell them from."""
_IRREGULAR: Final = {
    **dict.fromkeys(("aws", "canvas", "css", "dns", "gps", "https", "ios", "news", "os", "series", "sms", "tls"), ""),
    "children": "child",
    "cookies": "cookie",
    "indices": "index",
    "movies": "movie",
    "people": "person",
}
_SHORTEST_PLURAL = 4


def words(text: str) -> tuple[str, ...]:
    """The words of a name, without case: at humps, separators and whatever else is no letter or digit.

    Characters that nobody sees (zero-width, direction marks) are no part of a name.
    """
    if text.isascii():  # as below, and some ten times as fast: a catalogue has thousands of names
        return tuple(_APART.sub(" ", _HUMP.sub(" ", text[:_MOST_READ])).casefold().split())
    plain = "".join(char for char in nfkc(text[:_MOST_READ])[:_MOST_READ] if category(char) != "Cf")
    apart = _HUMP.sub(" ", plain).casefold()
    return tuple("".join(char if category(char).startswith(_LETTERS) else " " for char in apart).split())


def folded_name(name: str) -> str:
    """What spellings of a name have in common: `orderId`, `order_id` and `Order-ID` are one, `v_1_1` and `v_11` two."""
    if len(name) > _LONGEST_FOLDED:
        return name
    return _DIGITS.sub("_", " ".join(words(name))).replace(" ", "") or name.casefold()


def skeleton(name: str) -> str:
    """What names that look alike have in common: the `folded_name` without marks, in the Latin letters it looks like.

    Two names of one skeleton are not the same name: one may have been written to be taken for the other.
    """
    plain = "".join(_LOOKING_LIKE.get(char, char) for char in nfkc(name))
    return folded_name("".join(char for char in normalize("NFD", plain) if not category(char).startswith("M")))


def stem(word: str) -> str:
    """The singular of an English word, as far as its spelling tells."""
    if word in _IRREGULAR:
        return _IRREGULAR[word] or word
    if len(word) < _SHORTEST_PLURAL or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies") and len(word) > _SHORTEST_PLURAL:
        return f"{word[:-3]}y"
    return word[:-2] if word.endswith(("sses", "xes", "zes", "ches", "shes")) else word[:-1]


def stems(text: str) -> tuple[str, ...]:
    """The words of a name, each in its singular."""
    return tuple(map(stem, words(text)))


def input_words(schema: object) -> frozenset[str]:
    """The words of the names of a tool's inputs."""
    fields = cast("Mapping[str, Any]", schema).get("properties") if isinstance(schema, Mapping) else None
    names = cast("Mapping[object, Any]", fields) if isinstance(fields, Mapping) else ()
    return frozenset(word for name in names for word in stems(str(name)[:LONGEST]))
