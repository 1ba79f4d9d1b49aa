"""When two texts are the same request: but for case, marks, numbers, politeness, or a slip of the pen. Pure.

Precise rather than complete: two requests that differ in one word of meaning ("cancel", "change") are different ones,
so that likeness of letters alone says nothing. Everything goes by keys, so that thousands of texts take no time.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from rapidfuzz.distance import OSA

from jazz_select.text import nfkc

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_FILLING = frozenset(
    word
    for line in (
        "please pls plz hi hello hey thanks thank you thx kindly just ok okay",
        "so well now um uh bitte hallo danke",
    )
    for word in line.split(" ")
)
"""Words that are no part of what is asked for."""
_LEAST_SLIPPED, _LEAST_WORDS = 5, 3
"""Letters of a word that may hide a slip, and words of a text that may have one."""


def words_of(text: str, *, numbers: bool = True) -> tuple[str, ...]:
    """The words in small letters; without `numbers`, these are one and the same."""
    words = _WORD.findall(nfkc(text[:8_000]).casefold().replace("’", "'"))
    return tuple(words) if numbers else tuple("0" if word.isdigit() else word for word in words)


def folded(text: str, *, numbers: bool = True) -> str:
    """What two spellings of one request have in common: its words, without those that are only polite."""
    words = words_of(text, numbers=numbers)
    kept = tuple(word for word in words if word not in _FILLING)
    return " ".join(kept or words) or " ".join(text.split())


class Sames:
    """Texts by what makes them the same."""

    def __init__(self, texts: Iterable[str], *, numbers: bool) -> None:
        """Take the texts, each known by its place; with `numbers`, other numbers make another text."""
        self._numbers = numbers
        self._folded = [folded(text, numbers=numbers) for text in texts]
        self._exact: defaultdict[str, list[int]] = defaultdict(list)
        self._gapped: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
        for place, text in enumerate(self._folded):
            self._exact[text].append(place)
            for key in _gapped(text):
                self._gapped[key].append(place)

    def of(self, text: str) -> Sequence[int]:
        """The places of the texts that are the same as this, in order."""
        mine = folded(text, numbers=self._numbers)
        found = set(self._exact.get(mine, ()))
        for key in _gapped(mine):
            for place in self._gapped.get(key, ()):
                if place not in found and slipped(mine, self._folded[place]):
                    found.add(place)
        return sorted(found)


def slipped(one: str, other: str) -> bool:
    """Whether two folded texts are the same but for one slip of the pen in one longer word."""
    mine, others = one.split(), other.split()
    if len(mine) != len(others) or len(mine) < _LEAST_WORDS:
        return mine == others
    unlike = [(left, right) for left, right in zip(mine, others, strict=True) if left != right]
    if len(unlike) != 1:
        return not unlike
    left, right = unlike[0]
    if any(char.isdigit() for char in left + right):
        return False
    return min(len(left), len(right)) >= _LEAST_SLIPPED and OSA.distance(left, right, score_cutoff=1) <= 1


def _gapped(text: str) -> Iterator[tuple[str, ...]]:
    """The text with each longer word left out in turn: texts that differ in one word share one of these."""
    words = text.split()
    if _LEAST_WORDS <= len(words) <= 60:  # noqa: PLR2004 - a longer text is no copy of another but for one word
        for place, word in enumerate(words):
            if len(word) >= _LEAST_SLIPPED:
                yield (str(place), *words[:place], *words[place + 1 :])
