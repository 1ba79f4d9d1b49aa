"""Which language a text shows itself to be in: by its script, and by the little words that the lexical arm knows."""

from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Final
from unicodedata import name as character_name

from jazz_select.memory.encoder import Lexical

_LANGUAGES: Final = (
    *("english", "german", "french", "spanish", "italian", "portuguese", "dutch", "swedish", "danish", "finnish"),
    *("norwegian", "hungarian", "romanian", "turkish"),
)
"""Those of the lexical arm that are written in Latin letters."""
_READ: Final = 2_000


def little_words(text: str, words: Iterable[str]) -> Counter[str]:
    """How many of a text's little words are of each language; of another script, how many of its letters are.

    Args:
        text: The text.
        words: The words in it.
    """
    letters = Counter(character_name(char, "?").split()[0] for char in text[:_READ] if char.isalpha())
    script = letters.most_common(1)[0][0] if letters else "LATIN"
    if script != "LATIN":
        return Counter({script.lower(): letters[script]})
    return Counter(language for word in set(words) for language in _little_in(word))


def is_in_another(text: str, language: str) -> bool:
    """Whether a text shows itself to be in another language than this one; False where its words do not tell."""
    counts = little_words(text, text[:_READ].casefold().split())
    return bool(counts) and counts[language] < max(counts.values())


@cache
def _readers() -> dict[str, Lexical]:
    return {language: Lexical(language) for language in _LANGUAGES}


@cache
def _little_in(word: str) -> tuple[str, ...]:
    """The languages of which this is one of the little words that say nothing by themselves."""
    return tuple(language for language, reader in _readers().items() if not reader.content_words(word))
