"""From a name as a model wrote it to the tool that is meant, or to an error that lists what there is."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Final, Literal

from jazz_select.routing.tools.sources import ToolsLike, tools_of
from jazz_select.routing.tools.tool import Tool
from jazz_select.text import beginning, nfc
from jazz_select.words import (
    ACTING,
    BEFORE,
    BEHIND,
    CONNECTING,
    DIRECTION,
    LONGEST,
    LOOKING,
    NEGATION,
    NOUNS,
    are_opposites,
    folded_name,
    input_words,
    opposites_of,
    skeleton,
    stem,
    stems,
    words,
)

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
_KNOWN = LOOKING | ACTING | NOUNS | DIRECTION | NEGATION | BEFORE | CONNECTING
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

    def __init__(self, tools: Sequence[Tool]) -> None:
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
        """Return the words of a requested name, once each, without wrapping and connecting words.

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
        """Find the best fit of each tool, best first, then in the order of the tools."""
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
        """Return the words of the catalogue that `word` may stand for, itself first."""
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
    """Return how many leading words only wrap a name."""
    return next((place for place, word in enumerate(said) if word not in wrapping or stem(word) in own), len(said))


def known_words(tool: Tool) -> frozenset[str]:
    """Collect the words that identify a tool: of its names, provider, capabilities and inputs."""
    texts = (tool.name, tool.provider, tool.operation, *tool.capabilities)
    return frozenset(word for text in texts for word in stems(text[:LONGEST])) | input_words(tool.input_schema)


def _forms(place: int, tool: Tool) -> Iterable[NameForm]:
    # A server may give its tools names and abilities of any length: beyond `LONGEST` they are no names.
    whole = stems(tool.provider[:LONGEST]) + stems(tool.operation[:LONGEST])
    able = (stems(each[:LONGEST]) for each in tool.capabilities)
    found = dict.fromkeys(tuple(dict.fromkeys(each)) for each in (stems(tool.name[:LONGEST]), whole, *able))
    for number, each in enumerate(found):
        if each:
            yield NameForm(tool=place, words=each, is_name=number == 0)


def _has_two_swapped(one: str, other: str) -> bool:
    if len(one) != len(other) or one == other:
        return False
    first = next(place for place, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)
    return one[:first] + one[first : first + 2][::-1] + one[first + 2 :] == other


Stage = Literal["exact", "normalised", "capability", "substring"]
NO_TOOL: Final = "Agent could not determine a matching tool."
DICE: Final = 0.80
"""The least likeness of a guess."""
LEAD: Final = 0.05
"""How far a guess must be ahead of the next one."""
_SUGGESTED = 5
_LISTED = 20
_WORTH_SUGGESTING = 0.4
_SHORTEST_PART = 3


def objection(fit: NameFit, tool: Tool) -> str:
    """Say why `tool` must not run for the requested name; empty if it may."""
    checks = (_destroys, _negation_mismatch, _strange, _missing_action, _reversed_order, _excess_action)
    return next((told for check in checks if (told := check(fit, tool))), "")


def _destroys(_: NameFit, tool: Tool) -> str:
    return f"{tool.name} destroys something, so it is never run on a guess" if tool.destructive else ""


def _negation_mismatch(fit: NameFit, tool: Tool) -> str:
    denied = [word for word in fit.unmatched if word in NEGATION]
    if denied:
        return f"{denied[0]!r} is no part of {tool.name}"
    own = (*fit.unasked, *(word for word in stems(tool.name) if word not in fit.matched.values()))
    for asked in fit.unmatched:
        for word in own:
            if are_opposites(asked, word):
                return f"{tool.name} says {word!r} where {asked!r} was asked for"
    return ""


def _strange(fit: NameFit, tool: Tool) -> str:
    strange = [word for word in fit.unmatched if word not in CONNECTING and word not in known_words(tool)]
    return f"{tool.name} knows nothing of {_quote_words(strange)}" if strange else ""


def _missing_action(fit: NameFit, tool: Tool) -> str:
    """Object to a tool that only reads where the name asks for an action: `refund` for check_refund_eligibility."""
    acts = set(fit.asked) <= ACTING - LOOKING
    return f"{tool.name} does not {' and '.join(fit.asked)}" if acts and _verb(tool) not in fit.matched.values() else ""


def _reversed_order(fit: NameFit, tool: Tool) -> str:
    """Object to a reversed order of words where it carries meaning: `word_to_pdf` for `pdf_to_word`."""
    order = [fit.form.words.index(fit.matched[word]) for word in fit.asked if word in fit.matched]
    has_direction = bool(DIRECTION & {*fit.asked, *fit.form.words})
    return f"{tool.name} goes the other way" if has_direction and order != sorted(order) else ""


def _excess_action(fit: NameFit, tool: Tool) -> str:
    """Object to what a tool does beyond the requested words.

    A name of a tool that only looks may say more closely what it looks at; a capability is asked for as a whole.
    """
    provider = stems(tool.provider)
    own = [word for word in fit.unasked if word not in {*provider, *CONNECTING, *BEHIND}]
    if fit.form.is_name and _verb(tool) in LOOKING:
        own = [word for word in own if word in ACTING - LOOKING]
    return f"{tool.name} would do more than was asked: {_quote_words(own)}" if own else ""


def _quote_words(words: Sequence[str]) -> str:
    return " and ".join(map(repr, words))


def _verb(tool: Tool) -> str:
    """Return the first verb in a name: `check` in check_refund_eligibility, where `refund` is none."""
    return next((word for word in stems(tool.name) if word in LOOKING | ACTING), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """What a name stands for.

    Attributes:
        requested: The name as it was asked for, cut to a sane length.
        tool: The tool that was meant, or None.
        stage: How it was found; None where it was not.
        score: Likeness, 1 for the same name.
        suggestions: Names of tools that may have been meant, the likeliest first; where it is ambiguous, those it may
            mean.
        reason: Why this tool, or why none.
        connected_tools: The names of all tools there are.
    """

    requested: str
    tool: Tool | None = None
    stage: Stage | None = None
    score: float = 0.0
    suggestions: tuple[str, ...] = ()
    reason: str = ""
    connected_tools: tuple[str, ...] = field(default=(), repr=False)

    def error(self) -> dict[str, Any]:
        """Return the structured error to hand back to the model; empty if a tool was found."""
        if self.tool is not None:
            return {}
        return {
            "error": NO_TOOL,
            "connected_tools": list(self.connected_tools),
            "requested": self.requested,
            "reason": self.reason,
            "suggestions": list(self.suggestions),
        }


class NameIndex:
    """Connected tools, ready to be found by name. Build it once for many look-ups; it is never changed."""

    def __init__(self, tools: ToolsLike) -> None:
        """Take the tools; a function is one, too, and so is what a mapping has by name."""
        self.tools = tools_of(tools)
        self.names = tuple(tool.name for tool in self.tools)
        self._exact: dict[str, Tool | None] = {}
        for keys in (self.names, [tool.id for tool in self.tools]):
            counts = Counter(keys)
            once = {key: tool for key, tool in zip(keys, self.tools, strict=True) if counts[key] == 1}
            self._exact = {**once, **self._exact}

    def resolve(self, name: object) -> Resolution:
        """Resolve `name` to a tool; accepts any value, never raises, and does a bounded amount of work."""
        if not isinstance(name, str):
            return self._not_found(type(name).__name__, "the name is no text")
        tool = self._exact.get(nfc(name) if len(name) <= LONGEST else name)
        if tool is not None:
            return Resolution(requested=name, tool=tool, stage="exact", score=1.0, reason="the same name")
        shown = beginning(name, LONGEST)
        if len(name) > LONGEST:
            return self._not_found(shown, f"the name is longer than {LONGEST} characters")
        stages = (self._by_confusables, self._by_folded_name, self._by_likeness, self._by_part)
        unlike = "no connected tool is like it" if self.tools else "no tool is connected"
        return next(filter(None, (stage(shown) for stage in stages)), None) or self._not_found(shown, unlike)

    @cached_property
    def _tools_by_folded_name(self) -> dict[str, list[Tool]]:
        return self._group_tools(folded_name)

    @cached_property
    def _likeness(self) -> NameSimilarity:
        return NameSimilarity(self.tools)

    @cached_property
    def _skeletons(self) -> dict[str, list[Tool]]:
        return self._group_tools(skeleton)

    def _group_tools(self, form: Callable[[str], str]) -> dict[str, list[Tool]]:
        found: dict[str, list[Tool]] = {}
        for tool in self.tools:
            found.setdefault(form(tool.name), []).append(tool)
        return found

    def _by_confusables(self, name: str) -> Resolution | None:
        """Refuse a name that differs from a tool only by similar letters or marks: another tool may be meant."""
        found = [tool.name for tool in self._skeletons.get(skeleton(name), [])] if words(name) else []
        if all(folded_name(each) == folded_name(name) for each in found):
            return None
        if len(found) > 1:
            return self._ambiguous(name, found)
        return self._not_found(name, f"it only looks like {found[0]}: some of its letters are others", first=(*found,))

    def _by_folded_name(self, name: str) -> Resolution | None:
        found = self._tools_by_folded_name.get(folded_name(name), []) if words(name) else []
        if len(found) > 1:
            return self._ambiguous(name, [tool.name for tool in found])
        if not found:
            return None
        if found[0].destructive:
            against = f"{found[0].name} destroys something, so nothing but its exact name runs it"
            return self._not_found(name, against, first=(found[0].name,))
        reason = "the same name but for case and separators"
        return Resolution(requested=name, tool=found[0], stage="normalised", score=1.0, reason=reason)

    def _by_likeness(self, name: str) -> Resolution | None:
        fits = self._likeness.fits(self._likeness.asked_words(name), DICE)
        if not fits:
            return None
        near = [fit for fit in fits if fits[0].score - fit.score < LEAD - 1e-9]
        if len(near) > 1:
            return self._ambiguous(name, [self.names[fit.form.tool] for fit in near])
        return self._guess(name, fits[0], "capability")

    def _by_part(self, name: str) -> Resolution | None:
        """Resolve a name that is a whole-word part of one name only, or that contains one name only."""
        asked = self._likeness.asked_words(name)
        if len("".join(asked)) < _SHORTEST_PART:
            return None
        named = [form for form in self._likeness.forms if form.is_name]
        found = [form for form in named if _contains_sequence(form.words, asked)] or [
            form for form in named if _contains_sequence(asked, form.words)
        ]
        if len(found) != 1:
            return self._ambiguous(name, [self.names[form.tool] for form in found]) if found else None
        form = found[0]
        matched = {word: word for word in asked if word in form.words}
        score = 2 * len(matched) / (len(asked) + len(form.words))
        return self._guess(name, NameFit(form=form, score=score, matched=matched, asked=asked), "substring")

    def _guess(self, name: str, fit: NameFit, stage: Stage) -> Resolution:
        tool = self.tools[fit.form.tool]
        against = objection(fit, tool)
        if against:
            return self._not_found(name, against, first=(tool.name,))
        reason = (
            f"{' '.join(fit.asked)} is {'like' if stage == 'capability' else 'a part of'} {' '.join(fit.form.words)}"
        )
        return Resolution(requested=name, tool=tool, stage=stage, score=fit.score, reason=reason)

    def _ambiguous(self, name: str, candidates: Sequence[str]) -> Resolution:
        return Resolution(
            requested=name,
            suggestions=tuple(candidates[:_LISTED]),
            reason=f"it may mean any of {len(candidates)} tools",
            connected_tools=self.names,
        )

    def _not_found(self, name: str, reason: str, *, first: tuple[str, ...] = ()) -> Resolution:
        fits = self._likeness.fits(self._likeness.asked_words(name), _WORTH_SUGGESTING) if len(name) <= LONGEST else []
        names = dict.fromkeys((*first, *(self.names[fit.form.tool] for fit in fits)))
        return Resolution(
            requested=name, suggestions=tuple(names)[:_SUGGESTED], reason=reason, connected_tools=self.names
        )


def resolve(name: object, tools: ToolsLike | NameIndex) -> Resolution:
    """Resolve `name` to one of `tools`; for many look-ups, pass a `NameIndex`."""
    return (tools if isinstance(tools, NameIndex) else NameIndex(tools)).resolve(name)


def _contains_sequence(whole: Sequence[str], part: Sequence[str]) -> bool:
    width = len(part)
    return width > 0 and any(
        tuple(whole[start : start + width]) == tuple(part) for start in range(len(whole) - width + 1)
    )
