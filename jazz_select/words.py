"""Split names into words, compare spellings, and classify words for safety. Pure and bounded.

The word lists need not be complete. A missing verb makes a name less likely to be guessed, never more: see
`jazz_select.routing.names.resolution`.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, cast
from unicodedata import category, normalize

from jazz_select.text import nfkc

LONGEST: Final = 200
"""Longer texts are not read as names: they only match a tool of exactly that name."""

MOST_COMPARED: Final = 50_000
"""The most characters of names that are compared by spelling at once: a thousand names of fifty."""
_MOST_READ: Final = 40_000
"""The most characters read as words, before and after Unicode folding."""
_APART = re.compile(r"[^A-Za-z0-9]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_LETTERS = ("L", "M", "N")
"""Unicode categories of letters, their marks and digits: a name without its marks is another name."""
_DIGITS = re.compile(r"(?<=\d) (?=\d)")
_LOOKING_LIKE: Final = {
    **dict(zip("АВЕЗКМНОРСТУХІЈЅԚԜӀҮаеорсухіјѕԁԛԝһӏүкмт", "ABE3KMHOPCTYXIJSQWIYaeopcyxijsdqwhlykmt", strict=True)),
    **dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹαοινκρυχγϲϳ", "ABEZHIKMNOPTYXCaoivkpuxycj", strict=True)),
    **dict(zip("ՕօոսհցԼՏ", "OonuhgLS", strict=True)),
    **dict(zip("ıɩɡɑʏᴏᴄᴠᴡᴢꓲꓳ", "iigayocvwzIO", strict=True)),
}
"""Cyrillic, Greek, Armenian and rare Latin letters, and the Latin letters that look the same."""
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
    """Split a name, casefolded, at humps, separators and anything else that is not a letter or digit.

    Invisible characters (zero-width, direction marks) are ignored.
    """
    if text.isascii():  # equal to the path below and ten times as fast
        return tuple(_APART.sub(" ", _HUMP.sub(" ", text[:_MOST_READ])).casefold().split())
    plain = nfkc(text[:_MOST_READ])[:_MOST_READ].translate(_WITHOUT_INVISIBLE)
    return tuple(_HUMP.sub(" ", plain).casefold().translate(_LETTERS_ALONE).split())


class _Table(dict[int, str]):
    """A table for `str.translate` that is filled as characters come: ten times as fast as asking for each."""

    def __init__(self, becomes: Callable[[str], str]) -> None:
        super().__init__()
        self._becomes = becomes

    def __missing__(self, code: int) -> str:
        char = self._becomes(chr(code))
        if len(self) < _MOST_KEPT:
            self[code] = char
        return char


_MOST_KEPT: Final = 20_000
"""More than any language has, so that all of Unicode cannot be stored here."""
_WITHOUT_INVISIBLE: Final = _Table(lambda char: "" if category(char) == "Cf" else char)
_LETTERS_ALONE: Final = _Table(lambda char: char if category(char).startswith(_LETTERS) else " ")
_WITHOUT_MARKS: Final = _Table(lambda char: "" if category(char).startswith("M") else char)


def folded_name(name: str) -> str:
    """Return the common form of spellings: `orderId`, `order_id` and `Order-ID` are one, `v_1_1` and `v_11` two."""
    return name if len(name) > LONGEST else _fold_name(name)


def excess_of_names(names: Iterable[str]) -> str:
    """Return what a context has too much of in its names, to follow "it holds"; empty if it is within the limit.

    Names are compared in all their spellings, so they cost far more than values, which are only handed on.
    """
    if sum(map(len, names)) <= MOST_COMPARED:
        return ""
    return f"names of more than {MOST_COMPARED} characters together"


def by_spelling(names: Iterable[str]) -> dict[str, list[str]]:
    """Group names by their `folded_name`, in order; those after the first `MOST_COMPARED` characters are left out."""
    groups: dict[str, list[str]] = {}
    left = MOST_COMPARED
    for name in names:
        left -= len(name)
        if left < 0:
            break
        groups.setdefault(folded_name(name), []).append(name)
    return groups


@lru_cache(8_192)
def _fold_name(name: str) -> str:
    return _DIGITS.sub("_", " ".join(words(name))).replace(" ", "") or name.casefold()


def skeleton(name: str) -> str:
    """Return the common form of names that look alike: the `folded_name` without marks, in lookalike Latin letters.

    Names of one skeleton are different names: one may imitate the other.
    """
    if name.isascii() or len(name) > LONGEST:
        return folded_name(name)
    return folded_name(normalize("NFD", as_latin(nfkc(name))).translate(_WITHOUT_MARKS))


def as_latin(text: str) -> str:
    """Return a text with each letter that looks like a Latin one as that one."""
    return text if text.isascii() else "".join(_LOOKING_LIKE.get(char, char) for char in text)


def stem(word: str) -> str:
    """Return the singular of an English word, guessed from its spelling."""
    if word in _IRREGULAR:
        return _IRREGULAR[word] or word
    if len(word) < _SHORTEST_PLURAL or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies") and len(word) > _SHORTEST_PLURAL:
        return f"{word[:-3]}y"
    if word.endswith(("sses", "xes", "zes", "ches", "shes")):
        return word[:-2]
    return word[:-1]


def stems(text: str) -> tuple[str, ...]:
    """Return the words of a name, each in the singular."""
    return tuple(map(stem, words(text)))


def input_words(schema: object) -> frozenset[str]:
    """Return the words in the names of a tool's inputs."""
    fields: object = cast("Mapping[str, Any]", schema).get("properties") if isinstance(schema, Mapping) else None
    found: set[str] = set()
    if isinstance(fields, Mapping):
        for name in cast("Mapping[object, Any]", fields):
            found.update(stems(str(name)[:LONGEST]))
    return frozenset(found)


# --- word classes: verbs that act or only look, and opposites --------------------


_TABLE: Final = Path(__file__).with_name("words.toml").read_text("utf-8")
_LISTS: Final[Mapping[str, frozenset[str]]] = {
    kind: frozenset(listed.split()) for kind, listed in tomllib.loads(_TABLE).items()
}

BEFORE: Final = _LISTS["before"]
"""Prefixes that models add to names: `functions.web_search`, `call_web_search`."""

BEHIND: Final = _LISTS["behind"]
"""Suffixes that models add: `web_search_tool`."""

ASKING: Final = _LISTS["asking"]
"""Words that begin a question, in several languages."""

CONNECTING: Final = _LISTS["connecting"]
"""Words without meaning of their own. `on` and `in` are not among them: they have opposites."""

DIRECTION: Final = frozenset({"2", "from", "into", "onto", "to"})
"""If a name has one of these, the order of its words matters: `pdf_to_word`."""

NEGATION: Final = _LISTS["negation"]

LOOKING: Final = _LISTS["looking"]
"""Verbs that change nothing."""

ACTING: Final = _LISTS["acting"]
"""Verbs that change something."""

NOUNS: Final = _LISTS["nouns"]
"""Nouns spelt like other nouns, never corrected to them."""

READING: Final = _LISTS["reading"]
"""Verbs of read-only tools: those of `LOOKING` that make, test or settle nothing."""

OPPOSITE: Final = frozenset(frozenset(pair.split(":")) for pair in _LISTS["opposite"])
"""Pairs of words that undo each other."""

_UNDOING: Final = ("de", "dis", "in", "non", "re", "un")


def are_opposites(one: str, other: str) -> bool:
    """Whether two words undo each other: by the list, or because one is the other with un-, de- or the like."""
    if frozenset((one, other)) in OPPOSITE:
        return True
    short, long = sorted((one, other), key=len)
    return any(long == prefix + short for prefix in _UNDOING)


def opposites_of(word: str) -> frozenset[str]:
    """Return every word that would undo this one, real or not."""
    found: set[str] = set()
    for pair in OPPOSITE:
        if word in pair:
            found |= pair
    for prefix in _UNDOING:
        found |= {prefix + word, word.removeprefix(prefix)}
    return frozenset(found - {word, ""})
