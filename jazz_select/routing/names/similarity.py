"""How like a name is to what the connected tools are called: Dice over words, with room for slips of the pen. Pure.

Whole-string scorers answer lock_account for unlock_account at 92 of 100. Here words are
compared with words: one that is spelt right only equals itself.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from jazz_select.routing.names.vocabulary import (
    ACTING,
    BEFORE,
    BEHIND,
    CONNECTING,
    DIRECTION,
    LOOKING,
    NEGATION,
    WORDS,
    opposites_of,
)
from jazz_select.routing.names.words import NamedTool, input_words, stem, stems, words

SLIP: Final = 85
"""Words match from this `rapidfuzz.fuzz.ratio` on."""
MOST_WORDS: Final = 16
"""A name of more words is a sentence, and is like nothing."""

_DOING = {
    "call",
    "execute",
    "invoke",
    "run",
    "use",
}  # dropped only before the whole name of a tool: they may mean what they say
_KNOWN = LOOKING | ACTING | WORDS | DIRECTION | NEGATION | BEFORE | CONNECTING
_CLEARLY = 5
"""So much nearer to a word than to its opposite a slip must be."""
_SHORTEST_SLIP = 4
_SHORTEST_MEANT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class NameForm:
    """One way to call a tool: its name, or something that it can do."""

    tool: int
    """Which tool, by its place."""
    words: tuple[str, ...]
    is_name: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NameFit:
    """How a name that was asked for fits one form."""

    form: NameForm
    score: float
    """Dice: 1 where every word has its match."""
    matched: Mapping[str, str]
    """Word asked for to word of the form."""
    asked: tuple[str, ...]

    @property
    def unasked(self) -> tuple[str, ...]:
        """The words of the form that nobody asked for."""
        return tuple(word for word in self.form.words if word not in self.matched.values())

    @property
    def unmatched(self) -> tuple[str, ...]:
        """The words asked for that the form lacks."""
        return tuple(word for word in self.asked if word not in self.matched)


class NameSimilarity:
    """The forms of a catalogue, ready to be compared with."""

    def __init__(self, tools: Sequence[NamedTool]) -> None:
        self.forms = tuple(form for place, tool in enumerate(tools) for form in _forms(place, tool))
        self._holding: dict[str, list[int]] = defaultdict(list)
        for number, form in enumerate(self.forms):
            for word in set(form.words):
                self._holding[word].append(number)
        self._names = {frozenset(form.words) for form in self.forms if form.is_name}
        self._by_letter: dict[str, list[str]] = defaultdict(list)
        for word in self._holding:
            self._by_letter[word[0]].append(word)
        self._matches = lru_cache(maxsize=4_096)(self._find_matches)

    def asked_words(self, name: str) -> tuple[str, ...]:
        """The words of a name that somebody asked for, once each, without wrapping and connecting words.

        Unless a tool here has them in its name, or too little would be left.
        """
        said = list(words(name))
        core = said[_count(said, BEFORE, self._holding) :]
        core = core[: len(core) - _count(core[::-1], BEHIND, self._holding)]
        is_name = frozenset(map(stem, core)) in self._names
        is_enough = len(core) > 1 and not _DOING & ({*said} - {*core})
        kept = core if is_name or is_enough else said
        found = dict.fromkeys(map(stem, kept))
        return tuple(word for word in found if word in self._holding or word not in CONNECTING)

    def fits(self, asked: Sequence[str], at_least: float) -> list[NameFit]:
        """The best fit per tool, best first, then in the order of the tools."""
        if not 0 < len(asked) <= MOST_WORDS:
            return []
        matched: dict[int, dict[str, str]] = defaultdict(dict)
        for word in asked:
            for meant in self._matches(word):
                for number in self._holding[meant]:
                    if word not in matched[number] and meant not in matched[number].values():
                        matched[number][word] = meant
        best: dict[int, NameFit] = {}
        for number in sorted(matched):
            form = self.forms[number]
            score = 2 * len(matched[number]) / (len(asked) + len(form.words))
            if score >= at_least and (form.tool not in best or score > best[form.tool].score):
                best[form.tool] = NameFit(form=form, score=score, matched=matched[number], asked=tuple(asked))
        return sorted(best.values(), key=lambda fit: (-fit.score, fit.form.tool))

    def _find_matches(self, word: str) -> tuple[str, ...]:
        """The words of the catalogue that `word` may stand for, itself first."""
        if word in self._holding:
            return (word,)
        if word in _KNOWN or len(word) < _SHORTEST_SLIP or not word.isascii() or not word.isalpha():
            return ()
        from rapidfuzz import fuzz, process

        near = [meant for meant in self._by_letter.get(word[0], ()) if len(meant) >= _SHORTEST_MEANT]
        close = process.extract(word, near, scorer=fuzz.ratio, score_cutoff=SLIP, limit=None)
        found = {meant: score for meant, score, _ in close}
        found |= {meant: float(SLIP) for meant in near if meant not in found and _has_two_swapped(word, meant)}
        return tuple(
            meant
            for meant in sorted(found, key=lambda each: -found[each])
            if meant.isascii()
            and meant.isalpha()
            and not any(fuzz.ratio(word, other) > found[meant] - _CLEARLY for other in opposites_of(meant))
        )


def _count(said: Sequence[str], wrapping: Collection[str], own: Collection[str]) -> int:
    """How many words, from the first on, only wrap a name."""
    return next((place for place, word in enumerate(said) if word not in wrapping or stem(word) in own), len(said))


def known_words(tool: NamedTool) -> frozenset[str]:
    """Every word by which a tool knows itself: names, provider, capabilities, inputs."""
    texts = (tool.name, tool.provider, tool.operation, *tool.capabilities)
    return frozenset(word for text in texts for word in stems(text)) | input_words(tool.input_schema)


def name_words(tool: NamedTool) -> tuple[str, ...]:
    """The words of a tool's name, each in its singular."""
    return stems(tool.name)


def _forms(place: int, tool: NamedTool) -> Iterable[NameForm]:
    """Every way to call a tool, once each, the name first."""
    whole = stems(tool.provider) + stems(tool.operation)
    found = dict.fromkeys(
        tuple(dict.fromkeys(each)) for each in (name_words(tool), whole, *map(stems, tool.capabilities))
    )
    for number, each in enumerate(found):
        if each:
            yield NameForm(tool=place, words=each, is_name=number == 0)


def _has_two_swapped(one: str, other: str) -> bool:
    """True where two neighbouring letters changed places, and nothing else."""
    if len(one) != len(other) or one == other:
        return False
    first = next(place for place, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)
    return one[:first] + one[first : first + 2][::-1] + one[first + 2 :] == other
