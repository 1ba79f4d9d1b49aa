"""Messages that no model need read: thanks, and the wish to hear the last question again, by the table of phrases."""

from collections.abc import Sequence
from functools import cache

from jazz_select.phrases import FIGURE, LONGEST_READ, QUESTION_MARKS, WORD, folded, phrases

_LONGEST_PHRASE = 8
"""The most words of a phrase."""


def is_only_thanks(message: str) -> bool:
    """Whether a message thanks, and says nothing that wants an answer. A question, a number or a name is more."""
    words = _words(message)
    if not words or not QUESTION_MARKS.isdisjoint(message):
        return False
    found = _kinds_of(words, ("thanks", "pleased", "courtesy"))
    return "thanks" in found and "" not in found


def asks_to_repeat(message: str) -> bool:
    """Whether a message asks for the last question once more, and says nothing else."""
    words = _words(message)
    if not words:
        return False
    found = _kinds_of(words, ("repeats", "pleased", "courtesy"))
    return "repeats" in found and "" not in found


def _words(message: str) -> list[str]:
    """Return the words of a message; none if it is long, or holds a number or an address."""
    if len(message) > LONGEST_READ or FIGURE.search(message):
        return []
    return WORD.findall(folded(message))


def _kinds_of(words: Sequence[str], kinds: Sequence[str]) -> set[str]:
    """Return the kinds of the phrases that the words are made of, the longest first; "" for a word of none."""
    found: set[str] = set()
    place = 0
    while place < len(words):
        for length in range(min(_LONGEST_PHRASE, len(words) - place), 0, -1):
            phrase = " ".join(words[place : place + length])
            kind = next((each for each in kinds if phrase in _phrases_of(each)), "")
            if kind:
                break
        else:
            return {*found, ""}
        found.add(kind)
        place += length
    return found


@cache
def _phrases_of(kind: str) -> frozenset[str]:
    """Return the phrases of a kind, in words as a message is read."""
    return frozenset(" ".join(WORD.findall(each)) for each in phrases()[kind])
