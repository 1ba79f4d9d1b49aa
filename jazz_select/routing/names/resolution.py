"""From a name as a model wrote it to the tool that is meant, or to an error that lists what there is."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import product
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

_DOING = {"call", "execute", "invoke", "run", "use"}
"""Words that are dropped only before the whole name of a tool: elsewhere they may mean what they say."""
_KNOWN = LOOKING | ACTING | NOUNS | DIRECTION | NEGATION | BEFORE | CONNECTING
_CLEARLY = 5
"""So much nearer to a word than to its opposite a slip must be."""
_SHORTEST_SLIP = 4
_SHORTEST_TARGET = 5


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
        every = list(words(name))
        core = every[_count_leading(every, BEFORE, self._holding) :]
        core = core[: len(core) - _count_leading(core[::-1], BEHIND, self._holding)]
        is_name = frozenset(map(stem, core)) in self._names
        is_enough = len(core) > 1 and not _DOING & ({*every} - {*core})
        asked = dict.fromkeys(map(stem, core if is_name or is_enough else every))
        return tuple(word for word in asked if word in self._holding or word not in CONNECTING)

    def fits(self, asked: Sequence[str], at_least: float) -> list[NameFit]:
        """Find the best fit of each tool, best first, then in the order of the tools."""
        if not 0 < len(asked) <= MOST_WORDS:
            return []
        matched: dict[int, dict[str, str]] = defaultdict(dict)
        for word in asked:
            for target in self._matches(word):
                for number in self._holding[target]:
                    # Match one to one: two requested words may not match the same word of a name.
                    if word not in matched[number] and target not in matched[number].values():
                        matched[number][word] = target
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

        targets = [each for each in self._by_letter.get(word[0], ()) if len(each) >= _SHORTEST_TARGET]
        scores: dict[str, float] = {}
        for target, score, _ in process.extract(word, targets, scorer=fuzz.ratio, score_cutoff=SLIP, limit=None):
            scores[target] = score
        for target in targets:
            if target not in scores and _has_two_swapped(word, target):
                scores[target] = float(SLIP)
        found: list[str] = []
        for target in sorted(scores, key=lambda each: -scores[each]):
            # A misspelling about as close to the word's opposite could mean either, so it counts as neither.
            nearest_opposite = max((fuzz.ratio(word, other) for other in opposites_of(target)), default=0.0)
            if target.isascii() and target.isalpha() and nearest_opposite <= scores[target] - _CLEARLY:
                found.append(target)
        return tuple(found)


def _count_leading(every: Sequence[str], wrapping: Collection[str], own: Collection[str]) -> int:
    """Return how many leading words only wrap a name."""
    for place, word in enumerate(every):
        if word not in wrapping or stem(word) in own:
            return place
    return len(every)


def known_words(tool: Tool) -> frozenset[str]:
    """Collect the words that identify a tool: of its names, provider, capabilities and inputs."""
    found = set(input_words(tool.input_schema))
    for text in (tool.name, tool.provider, tool.operation, *tool.capabilities):
        found.update(stems(text[:LONGEST]))
    return frozenset(found)


def _forms(place: int, tool: Tool) -> Iterable[NameForm]:
    # A server may give its tools names and abilities of any length: beyond `LONGEST` they are no names.
    operation = stems(tool.provider[:LONGEST]) + stems(tool.operation[:LONGEST])
    capabilities = [stems(each[:LONGEST]) for each in tool.capabilities]
    forms: dict[tuple[str, ...], None] = {}
    for form in (stems(tool.name[:LONGEST]), operation, *capabilities):
        forms[tuple(dict.fromkeys(form))] = None
    for number, form in enumerate(forms):
        if form:
            yield NameForm(tool=place, words=form, is_name=number == 0)


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
    if tool.destructive:
        return f"{tool.name} destroys something, so it is never run on a guess"
    for check in (_negation_mismatch, _unknown_words, _missing_action, _reversed_order, _excess_action):
        problem = check(fit, tool)
        if problem:
            return problem
    return ""


def _negation_mismatch(fit: NameFit, tool: Tool) -> str:
    denied = [word for word in fit.unmatched if word in NEGATION]
    if denied:
        return f"{denied[0]!r} is no part of {tool.name}"
    matched = fit.matched.values()
    # The words of its name count even where a capability fits better.
    own = [*fit.unasked, *(word for word in stems(tool.name) if word not in matched)]
    for asked, word in product(fit.unmatched, own):
        if are_opposites(asked, word):
            return f"{tool.name} says {word!r} where {asked!r} was asked for"
    return ""


def _unknown_words(fit: NameFit, tool: Tool) -> str:
    known = known_words(tool) | CONNECTING
    unknown = [word for word in fit.unmatched if word not in known]
    if not unknown:
        return ""
    return f"{tool.name} knows nothing of {_quote_words(unknown)}"


def _missing_action(fit: NameFit, tool: Tool) -> str:
    """Object to a tool that only reads where the name asks for an action: `refund` for check_refund_eligibility."""
    is_action = set(fit.asked) <= ACTING - LOOKING
    if not is_action or _verb(tool) in fit.matched.values():
        return ""
    return f"{tool.name} does not {' and '.join(fit.asked)}"


def _reversed_order(fit: NameFit, tool: Tool) -> str:
    """Object to a reversed order of words where it carries meaning: `word_to_pdf` for `pdf_to_word`."""
    order = [fit.form.words.index(fit.matched[word]) for word in fit.asked if word in fit.matched]
    has_direction = bool(DIRECTION & {*fit.asked, *fit.form.words})
    if not has_direction or order == sorted(order):
        return ""
    return f"{tool.name} goes the other way"


def _excess_action(fit: NameFit, tool: Tool) -> str:
    """Object to what a tool does beyond the requested words.

    A name of a tool that only looks may say more closely what it looks at; a capability is asked for as a whole.
    """
    harmless = {*stems(tool.provider), *CONNECTING, *BEHIND}
    excess = [word for word in fit.unasked if word not in harmless]
    if fit.form.is_name and _verb(tool) in LOOKING:
        excess = [word for word in excess if word in ACTING - LOOKING]
    if not excess:
        return ""
    return f"{tool.name} would do more than was asked: {_quote_words(excess)}"


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
        self._exact: dict[str, Tool] = {}
        # A name goes before an id; what stands for two tools stands for neither.
        for keys in (self.names, [tool.id for tool in self.tools]):
            counts = Counter(keys)
            for key, tool in zip(keys, self.tools, strict=True):
                if counts[key] == 1:
                    self._exact.setdefault(key, tool)

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
        # From the strictest on: a later stage could only guess worse, so the first that says anything ends the search.
        for stage in (self._by_confusables, self._by_folded_name, self._by_likeness, self._by_part):
            resolution = stage(shown)
            if resolution is not None:
                return resolution
        if not self.tools:
            return self._not_found(shown, "no tool is connected")
        return self._not_found(shown, "no connected tool is like it")

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
        if not words(name):
            return None
        found = [tool.name for tool in self._skeletons.get(skeleton(name), [])]
        if all(folded_name(each) == folded_name(name) for each in found):
            return None
        if len(found) > 1:
            return self._ambiguous(name, found)
        problem = f"it only looks like {found[0]}: some of its letters are others"
        return self._not_found(name, problem, first=tuple(found))

    def _by_folded_name(self, name: str) -> Resolution | None:
        if not words(name):
            return None
        found = self._tools_by_folded_name.get(folded_name(name), [])
        if not found:
            return None
        if len(found) > 1:
            return self._ambiguous(name, [tool.name for tool in found])
        tool = found[0]
        if tool.destructive:
            problem = f"{tool.name} destroys something, so nothing but its exact name runs it"
            return self._not_found(name, problem, first=(tool.name,))
        reason = "the same name but for case and separators"
        return Resolution(requested=name, tool=tool, stage="normalised", score=1.0, reason=reason)

    def _by_likeness(self, name: str) -> Resolution | None:
        fits = self._likeness.fits(self._likeness.asked_words(name), DICE)
        if not fits:
            return None
        near = [fit for fit in fits if fits[0].score - fit.score < LEAD - 1e-9]  # less what floats add
        if len(near) > 1:
            return self._ambiguous(name, [self.names[fit.form.tool] for fit in near])
        return self._guess(name, fits[0], "capability")

    def _by_part(self, name: str) -> Resolution | None:
        """Resolve a name that is a whole-word part of one name only, or that contains one name only."""
        asked = self._likeness.asked_words(name)
        if len("".join(asked)) < _SHORTEST_PART:
            return None
        named = [form for form in self._likeness.forms if form.is_name]
        found = [form for form in named if _contains_sequence(form.words, asked)]
        if not found:
            found = [form for form in named if _contains_sequence(asked, form.words)]
        if not found:
            return None
        if len(found) > 1:
            return self._ambiguous(name, [self.names[form.tool] for form in found])
        form = found[0]
        matched = {word: word for word in asked if word in form.words}
        score = 2 * len(matched) / (len(asked) + len(form.words))
        return self._guess(name, NameFit(form=form, score=score, matched=matched, asked=asked), "substring")

    def _guess(self, name: str, fit: NameFit, stage: Stage) -> Resolution:
        tool = self.tools[fit.form.tool]
        problem = objection(fit, tool)
        if problem:
            return self._not_found(name, problem, first=(tool.name,))
        relation = "like" if stage == "capability" else "a part of"
        reason = f"{' '.join(fit.asked)} is {relation} {' '.join(fit.form.words)}"
        return Resolution(requested=name, tool=tool, stage=stage, score=fit.score, reason=reason)

    def _ambiguous(self, name: str, candidates: Sequence[str]) -> Resolution:
        return Resolution(
            requested=name,
            suggestions=tuple(candidates[:_LISTED]),
            reason=f"it may mean any of {len(candidates)} tools",
            connected_tools=self.names,
        )

    def _not_found(self, name: str, reason: str, *, first: tuple[str, ...] = ()) -> Resolution:
        names = dict.fromkeys(first)
        if len(name) <= LONGEST:
            for fit in self._likeness.fits(self._likeness.asked_words(name), _WORTH_SUGGESTING):
                names[self.names[fit.form.tool]] = None
        suggestions = tuple(names)[:_SUGGESTED]
        return Resolution(requested=name, suggestions=suggestions, reason=reason, connected_tools=self.names)


def resolve(name: object, tools: ToolsLike | NameIndex) -> Resolution:
    """Resolve `name` to one of `tools`; for many look-ups, pass a `NameIndex`."""
    index = tools if isinstance(tools, NameIndex) else NameIndex(tools)
    return index.resolve(name)


def _contains_sequence(whole: Sequence[str], part: Sequence[str]) -> bool:
    width = len(part)
    if width == 0:
        return False
    starts = range(len(whole) - width + 1)
    return any(tuple(whole[start : start + width]) == tuple(part) for start in starts)
