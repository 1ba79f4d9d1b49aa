"""Detects the language of a text by its script and its stop words."""

import re
from collections import Counter
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import islice
from typing import Any, Final
from unicodedata import name as character_name

from jazz_select.memory.encoder import bm25

_LANGUAGES: Final = (
    *("english", "german", "french", "spanish", "italian", "portuguese", "dutch", "swedish", "danish", "finnish"),
    *("norwegian", "hungarian", "romanian", "turkish"),
)
_READ, _MOST_WORDS, _LONGEST_WORD = 2_000, 48, 12
"""Limits, since this runs on the event loop: characters of a text, distinct words, and letters of a stop word."""
_WORD: Final = re.compile(r"[^\W\d_]+")
_REMEMBERED: Final = 1 << 14


def little_words(text: str, words: Iterable[str]) -> Counter[str]:
    """Count the stop words of a text by language; for another script than Latin, count its letters."""
    begins = text[:_READ]
    if not begins.isascii():
        # The name of a letter begins with its script, such as GREEK SMALL LETTER ALPHA.
        letters = Counter(character_name(char, "?").split()[0] for char in begins if char.isalpha())
        script = letters.most_common(1)[0][0] if letters else "LATIN"
        if script != "LATIN":
            return Counter({script.lower(): letters[script]})
    counts = Counter[str]()
    for word in set(words):
        counts.update(languages_with(word))
    return counts


def is_in_another(text: str, language: str) -> bool:
    """Whether a text is in another language; False where its words do not show it."""
    words = dict.fromkeys(word for word in _WORD.findall(text[:_READ].casefold()) if len(word) <= _LONGEST_WORD)
    counts = little_words(text, islice(words, _MOST_WORDS))
    return bool(counts) and counts[language] < max(counts.values())


@cache
def _readers() -> dict[str, Any]:
    return {language: bm25(language, stop_words=True) for language in _LANGUAGES}


@lru_cache(_REMEMBERED)
def languages_with(word: str) -> tuple[str, ...]:
    """Return the languages in which this is a stop word."""
    return tuple(language for language, reader in _readers().items() if not reader.embed_query(word).indices)
