"""Checks of the texts of flows: placeholders, vague texts, copies, contradictions and mixed languages.

Two texts are the same request if they differ only in case, punctuation, numbers, polite words or one typo. This
favours precision: one different word ("cancel", "change") makes a different request, so similar letters alone prove
nothing. Lookups go by keys, so that thousands of texts are fast.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import combinations
from math import ceil
from statistics import fmean, median
from typing import Literal

from rapidfuzz.distance import OSA

from jazz_select.consent import is_courtesy
from jazz_select.evaluation.checks.findings import Evidence, Finding, Places, Spot
from jazz_select.evaluation.checks.safety import seen, texts_of
from jazz_select.flow.base import BaseFlow
from jazz_select.flow.skill_files import EXAMPLES_KEY
from jazz_select.memory.encoder import spoken_name
from jazz_select.memory.languages import languages_with, little_words
from jazz_select.text import nfkc, word_list
from jazz_select.words import as_latin, stem

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_FILLING = word_list("""
    please pls plz hi hello hey thanks thank you thx kindly just ok okay
    so well now um uh bitte hallo danke
""")
"""Words without meaning for a request."""
_LEAST_SLIPPED, _LEAST_WORDS = 5, 3
"""Least letters of a word, and least words of a text, in which a typo is looked for."""


def words_of(text: str, *, numbers: bool = True) -> tuple[str, ...]:
    """Return the words in lower case; without `numbers`, every number becomes 0."""
    folded = nfkc(seen(text[:8_000])).casefold().replace("’", "'")
    words = _WORD.findall(folded)
    if numbers:
        return tuple(words)
    return tuple("0" if word.isdigit() else word for word in words)


def request_key(text: str, *, numbers: bool = True) -> str:
    """Return a key that spellings of one request share: its words without the polite ones, in Latin letters."""
    words = tuple(map(as_latin, words_of(text, numbers=numbers)))
    kept = tuple(word for word in words if word not in _FILLING)
    return " ".join(kept or words) or " ".join(text.split())


class DuplicateIndex:
    """An index of texts that finds the same request in other spellings."""

    def __init__(self, texts: Iterable[str], *, numbers: bool) -> None:
        """Index the texts by position; with `numbers`, texts with different numbers differ."""
        self._numbers = numbers
        self._folded = [request_key(text, numbers=numbers) for text in texts]
        self._exact: defaultdict[str, list[int]] = defaultdict(list)
        self._gapped: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
        for place, text in enumerate(self._folded):
            self._exact[text].append(place)
            for key in _gapped(text):
                self._gapped[key].append(place)

    def find(self, text: str) -> Sequence[int]:
        """Return the positions of the texts that are the same request, in order."""
        mine = request_key(text, numbers=self._numbers)
        similar: set[int] = set()
        for key in _gapped(mine):
            similar.update(self._gapped.get(key, ()))
        found = set(self._exact.get(mine, ()))
        found.update(place for place in similar if equal_but_for_typo(mine, self._folded[place]))
        return sorted(found)


def equal_but_for_typo(one: str, other: str) -> bool:
    """Whether two normalized texts are equal but for one typo in one longer word."""
    mine, others = one.split(), other.split()
    if len(mine) != len(others) or len(mine) < _LEAST_WORDS:
        return mine == others
    unlike = [(left, right) for left, right in zip(mine, others, strict=True) if left != right]
    if len(unlike) != 1:
        return not unlike
    left, right = unlike[0]
    if any(char.isdigit() for char in left + right):  # another number is no typo
        return False
    return min(len(left), len(right)) >= _LEAST_SLIPPED and OSA.distance(left, right, score_cutoff=1) <= 1


def _gapped(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the text without each longer word in turn. Texts that differ in one word share one of these."""
    words = text.split()
    if _LEAST_WORDS <= len(words) <= 60:  # noqa: PLR2004 - longer texts are not compared for typos
        for place, word in enumerate(words):
            if len(word) >= _LEAST_SLIPPED:
                yield (str(place), *words[:place], *words[place + 1 :])


_SHOWN = 80
_MARKED = re.compile(
    r"\b(?:TODO|TBD|FIXME|XXX+)\b|(?i:lorem ipsum)|(?i:[<\[{]\s*(?:insert|your|add|describe|fill in|text|placeholder)\b"
    r"[^>\]}]{0,60}[>\]}])"
)
"""A placeholder within a text. A "todo" in lower case is a word: people keep todo lists."""
_UNWRITTEN = re.compile(
    r"(?i:\W*|(?:todo|tbd|fixme|x{2,}|n/?a|asdf\w*|qwerty|foo|bar|baz|test(?:ing)?|dummy|placeholder|tba|wip"
    r"|(?:an? )?(?:example|sample|test)(?: (?:request|utterance|text|sentence|query))?(?: ?#?\d+| [a-z])?"
    r"|(?:the |a )?(?:description|condition|effect)(?: (?:goes )?here)?)\W*)"
)
"""A text that is a placeholder as a whole."""
_EMPTY = word_list("""
    action adequate agent alway anybody anyone anything applicable apply appropriate asap ask assist assistance
    assistant best better bot caller care case choice choose concern correct could customer data deal description done
    due etc ever every everything find fit fitting fix fixed flow function general generally generic get give good got
    handle handling help info information input intent issue job kind know let like make manage matter may misc
    miscellaneous much necessary need needed nothing one operation option other otherwise output perform person
    possible problem procedure process processing proper provide question quick quickly really regarding related
    relating relevant request required result right run say sensible service show somebody someone something sometime
    sort step stuck stuff suitable support system take task tell thing tool topic trouble urgent urgently us use used
    useful user various wanna want wanted way whenever wish work working would wrong yes concerning managing match
""")
"""Words beside the stop words of English, in the singular, that could stand in a text about anything."""
_FEW_WORDS = 10
"""A longer condition is vague only where it holds the whole description."""
_FEWEST, _SAME_SHARE, _MOST_ALIKE, _COMPARED = 3, 0.6, 0.6, 12
"""Thresholds of one wording: least examples, share of words common to all, mean Jaccard of pairs, examples compared."""


def wording(flows: Sequence[BaseFlow], *, min_examples: int, places: Places) -> Iterator[Finding]:
    """Yield the findings of the texts alone. With `min_examples` 0, flows need half the catalogue's median."""
    yield from _placeholders(flows, places)
    yield from _too_long(flows, places)
    yield from _descriptions(flows, places)
    yield from _conditions(flows, places)
    yield from _find_same(flows, "condition", places)
    yield from _find_same(flows, "description", places)
    yield from _find_denied(flows, places)
    yield from _languages(flows, places)
    yield from _effects(flows, places)
    yield from _examples(flows, min_examples, places)


def _placeholders(flows: Sequence[BaseFlow], places: Places) -> Iterator[Finding]:
    for flow in flows:
        for spot in texts_of(flow):
            if spot.field != "aliases" and spot.text.strip() and is_unwritten(spot.text):
                what = f"{spot.field} of {flow.name} holds {spot.quoted}, which was never written."
                remedy = "Write it, or take it out: it is embedded and shown to models like any other text."
                yield places.finding("placeholder", spot, what, remedy, spot.evidence())


def is_unwritten(text: str) -> bool:
    """Whether a text is empty, a placeholder, or punctuation alone."""
    if not text.strip():
        return True
    return _UNWRITTEN.fullmatch(text[:_SHOWN]) is not None or _MARKED.search(text) is not None


_LONGEST = {"examples": 500, "aliases": 200, "title": 200, "condition": 2_000, "desired_effects": 2_000, "steps": 4_000}
_LONGEST_OF_OTHERS = 6_000
"""Most characters of each field. A longer example is no request; a longer description crowds out the other fields."""


def _too_long(flows: Sequence[BaseFlow], places: Places) -> Iterator[Finding]:
    for flow in flows:
        for spot in texts_of(flow):
            most = _LONGEST.get(spot.field, _LONGEST_OF_OTHERS)
            if len(spot.text) > most:
                what = f"{spot.field} of {flow.name} holds {len(spot.text):,} characters: {spot.quoted}."
                remedy = f"Say it in {most:,}: what is longer says many things, and models read all of it each time."
                yield places.finding("long-text", spot, what, remedy, spot.evidence())


_OPEN = word_list("""
    help assist assistance support question problem issue trouble something anything fix urgent matter
""")
_THANKING = frozenset({"thanks", "thank", "thx"})


def content(text: str) -> set[str]:
    """Return the words of a text that name a subject."""
    found: set[str] = set()
    for word in words_of(text):
        is_empty = stem(word) in _EMPTY or word in _FILLING
        if not is_empty and "english" not in languages_with(word):  # a stop word of English names nothing
            found.add(word)
    return found


def is_broad(text: str) -> bool:
    """Whether a request is a greeting or thanks alone, or asks for help without naming its subject."""
    if is_courtesy(text):
        return True
    words = set(words_of(text))
    is_open = not _OPEN.isdisjoint(map(stem, words)) and _THANKING.isdisjoint(words)
    return is_open and not content(text)


def _descriptions(flows: Sequence[BaseFlow], places: Places) -> Iterator[Finding]:
    for flow in flows:
        is_named = words_of(flow.description) == words_of(spoken_name(flow.name))
        if is_unwritten(flow.description) or is_named or content(flow.description):
            continue
        spot = Spot(flow, "description")
        what = f"The description of {flow.name}, {spot.quoted}, would do for any flow."
        remedy = "Say in a sentence what this flow does, and to what."
        yield places.finding("vague-description", spot, what, remedy, spot.evidence())


_CLAUSE = re.compile(r"[.;:!?\n]|,|\b(?:but|only|unless|except|instead|rather|although|and)\b")
_DENYING = word_list("""
    not never no nobody none cannot dont doesnt isnt wont without nicht nie kein keine keinen niemand ne pas jamais
    nunca non nooit niet
""")


def _find_denied(flows: Sequence[BaseFlow], places: Places) -> Iterator[Finding]:
    """Yield descriptions and conditions that negate the flow's name in every clause that mentions it."""
    for flow in flows:
        name = [stem(word) for word in words_of(spoken_name(flow.name))]
        named = set(map(stem, content(spoken_name(flow.name))))
        if len(named) < _FEWEST_SAID or _DENYING.intersection(name):
            continue
        for spot in (Spot(flow, "description"), Spot(flow, "condition")):
            mentions: list[list[str]] = []
            for clause in _CLAUSE.split(spot.text):
                words = [stem(word.replace("'", "")) for word in words_of(clause)]
                if named.issubset(words):
                    mentions.append(words)
            if mentions and all(_denies_before(words, named) for words in mentions):
                what = f"The {spot.field} of {flow.name} denies what it is called: {spot.quoted}."
                remedy = "Say when it is the right flow; models and recall read the words, and hardly the “not”."
                yield places.finding("contradicting-text", spot, what, remedy, spot.evidence())


def _denies_before(words: Sequence[str], named: Collection[str]) -> bool:
    """Whether a clause negates before the first word of a name, as in "never for a refund"."""
    first = min(words.index(word) for word in named)
    return not _DENYING.isdisjoint(words[:first])


# --- languages -----------------------------------------------------------------------

_LEAST_FUNCTION_WORDS, _FOREIGN = 3, 0.1
"""Least function words that identify a text's language, and the share of texts from which a language is intended."""


def _languages(flows: Sequence[BaseFlow], places: Places) -> Iterator[Finding]:
    """Yield texts in a language that the catalogue hardly uses otherwise."""
    fields = {"description", "condition", "examples"}
    texts: list[tuple[Spot, Counter[str]]] = []
    for flow in flows:
        for spot in texts_of(flow):
            if spot.field not in fields:
                continue
            counts = little_words(spot.text, words_of(spot.text))
            if max(counts.values(), default=0) >= _LEAST_FUNCTION_WORDS:
                texts.append((spot, counts))
    first = Counter(counts.most_common(1)[0][0] for _, counts in texts)
    if not first:
        return
    main, _ = first.most_common(1)[0]
    for spot, counts in texts:
        language, most = counts.most_common(1)[0]
        # A language of many texts is no slip: such a catalogue has several.
        is_slip = first[language] < max(_FOREIGN * len(texts), _LEAST_FUNCTION_WORDS)
        if language != main and is_slip and most >= 2 * counts[main]:
            what = f"{spot.field} of {spot.flow.name} holds a text in {language}, {spot.quoted}"
            what += f", where the catalogue is in {main}."
            remedy = f"Write it in {main}; where users write {language} too, give every flow examples in it."
            yield places.finding("mixed-languages", spot, what, remedy, spot.evidence())


def _conditions(flows: Sequence[BaseFlow], places: Places) -> Iterator[Finding]:
    for flow in flows:
        if not flow.condition.strip() or _UNWRITTEN.fullmatch(flow.condition[:_SHOWN]) or _has_own_condition(flow):
            continue
        spot = Spot(flow, "condition")
        what = f"The condition of {flow.name}, {spot.quoted}, says no more than its name and description do."
        remedy = "Say what has to be true for this flow and not for its neighbours."
        yield places.finding("vague-condition", spot, what, remedy, spot.evidence(flow.description))


def _find_same(
    flows: Sequence[BaseFlow], field: Literal["description", "condition"], places: Places
) -> Iterator[Finding]:
    """Yield groups of flows with the same words in a field."""
    having: defaultdict[tuple[str, ...], list[Spot]] = defaultdict(list)
    for flow in flows:
        spot = Spot(flow, field)
        if not is_unwritten(spot.text):
            having[words_of(spot.text)].append(spot)
    for same in having.values():
        if len(same) == 1:
            continue
        names = tuple(spot.flow.name for spot in same)
        what = f"{_join_names(names)} have one {field}."
        remedy = "Say in each what is true there and not in the other."
        evidence = same[-1].evidence(other=names[0])
        yield places.finding(f"same-{field}", same[-1], what, remedy, evidence, flows=names)


def _has_own_condition(flow: BaseFlow) -> bool:
    """Whether the condition says anything that the name and the description do not."""
    condition = " ".join(words_of(flow.condition))
    description = " ".join(words_of(flow.description))
    known = _prefixes(words_of(f"{spoken_name(flow.name)} {description}"))
    if _prefixes(content(condition)) - known:
        return True
    # Words such as "not" are stop words, yet they reverse the meaning of a sentence.
    added = _without_apostrophes(flow.condition) - _without_apostrophes(flow.description)
    if not _DENYING.isdisjoint(added):
        return True
    repeats_description = bool(description) and description in condition
    return len(condition.split()) > _FEW_WORDS and not repeats_description


def _prefixes(words: Collection[str]) -> set[str]:
    """Return prefixes, so that "refunds" and "refunded" equal "refund"."""
    return {word[:5] for word in words}


def _without_apostrophes(text: str) -> set[str]:
    return {word.replace("'", "") for word in words_of(text)}


def _effects(flows: Sequence[BaseFlow], places: Places) -> Iterator[Finding]:
    for flow in flows:
        described = " ".join(words_of(flow.description))
        for number, effect in enumerate(flow.desired_effects):
            if described and " ".join(words_of(effect)) == described:
                spot = Spot(flow, "desired_effects", number)
                what = f"A desired effect of {flow.name} repeats its description."
                remedy = "Say what is true once the flow has run."
                yield places.finding("repeated-effects", spot, what, remedy, spot.evidence(flow.description))


def _examples(flows: Sequence[BaseFlow], min_examples: int, places: Places) -> Iterator[Finding]:
    least = min_examples
    counts = [len(flow.examples) for flow in flows if flow.examples]
    if not least and counts:
        least = ceil(median(counts) / 2)
    for flow in flows:
        if flow.examples:
            yield from _thin(flow, least, places)
            yield from _find_copied(flow, places)
        elif not flow.examples_wanted:
            what = f"{flow.name} has no examples: nothing tells how its users ask."
            remedy = (
                f"Write requests under {EXAMPLES_KEY} of its metadata, one a line; jazz-select suggest proposes some."
            )
            yield places.finding("bare-skill", Spot(flow, "metadata"), what, remedy)
    yield from _find_shared(flows, places)


def _thin(flow: BaseFlow, least: int, places: Places) -> Iterator[Finding]:
    distinct = {request_key(text): words_of(text) for text in flow.examples}
    wordings = [set(words) for words in distinct.values()]
    short = [text for text, words in distinct.items() if len(words) == 1 and text.isascii()]
    if len(distinct) < least:
        why = f"has {len(distinct)} different examples, and {least} are needed"
    elif len(short) * 2 > len(distinct):
        why = f"has {len(short)} examples of one word, which say nothing of how people ask"
    elif _one_wording(wordings):
        why = "has examples of one wording only"
    else:
        return
    remedy = "Add requests as different people write them: a question, an order, a story, a few words."
    evidence = (Evidence(text=text, flow=flow.name) for text in flow.examples[:3])
    yield places.finding("thin-examples", Spot(flow, "examples"), f"{flow.name} {why}.", remedy, *evidence)


def _one_wording(wordings: Sequence[set[str]]) -> bool:
    """Whether the examples share most of their words, all together and in pairs."""
    if len(wordings) < _FEWEST:
        return False
    everywhere = set[str].intersection(*wordings)
    if not everywhere:
        return False
    shared = fmean(len(everywhere) / len(words) for words in wordings)
    pairs = combinations(wordings[:_COMPARED], 2)
    similarity = fmean(len(one & other) / len(one | other) for one, other in pairs)  # Jaccard
    return shared >= _SAME_SHARE and similarity >= _MOST_ALIKE


def _find_copied(flow: BaseFlow, places: Places) -> Iterator[Finding]:
    sames = DuplicateIndex(flow.examples, numbers=True)
    for number, text in enumerate(flow.examples):
        first = sames.find(text)[0]  # it finds the text itself, too
        if first < number:
            spot = Spot(flow, "examples", number)
            what = f"Example {number + 1} of {flow.name} repeats example {first + 1}: {spot.quoted}."
            remedy = "Take one out, or write it as somebody else would ask."
            evidence = spot.evidence(flow.examples[first], flow.name)
            yield places.finding("copied-examples", spot, what, remedy, evidence)


def _find_shared(flows: Sequence[BaseFlow], places: Places) -> Iterator[Finding]:
    """Yield examples of two flows; a composite may share with its parts, since both answer the same requests."""
    examples = Examples(flows)
    for place, spot in enumerate(examples.spots):
        for code, copies in (("shared-example", examples.same), ("near-copies", examples.near)):
            # Only the later one of two is reported, beside the earlier one.
            earlier = [examples.spots[at] for at in copies.find(spot.text) if at < place]
            other = _first_unrelated(earlier, spot.flow)
            if other is None:
                continue
            names, at = (other.flow.name, spot.flow.name), places.locate(*other)
            where = f" ({at})" if at.line else ""
            copy = f"{other.quoted} of {other.flow.name}{where}"
            if code == "shared-example":
                what = f"{spot.quoted} of {spot.flow.name} is {copy}."
            else:
                what = f"{spot.quoted} of {spot.flow.name} asks what {copy} does."
            remedy = "Leave it to the flow that is right, or have each say what tells them apart."
            evidence = spot.evidence(other.text, other.flow.name)
            yield places.finding(code, spot, what, remedy, evidence, flows=names)


def _first_unrelated(spots: Iterable[Spot], flow: BaseFlow) -> Spot | None:
    for spot in spots:
        if spot.flow is not flow and not related(spot.flow, flow):
            return spot
    return None


_LIGHT = _FILLING | word_list("""
    a an the i i'd i'm i'll we we'd you would like want wanna need could can will may should to me kindly some get
    let for of that
""")
"""Words that do not change a request."""
_PERSONS = dict.fromkeys(("i", "me", "i'm", "i'd", "i'll"), "I") | {"you": "you"}
_FEWEST_SAID, _MOST_SAID = 2, 40
_LONG_ENOUGH = 5


class NearCopies:
    """An index of texts that finds those with the same words in another order, or one word more or less of many."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = list(texts)
        self._whole: defaultdict[frozenset[str], list[int]] = defaultdict(list)
        self._less: defaultdict[frozenset[str], list[int]] = defaultdict(list)
        for place, text in enumerate(self._texts):
            bag, less = _bags(text)
            self._whole[bag].append(place)
            for each in less:
                self._less[each].append(place)

    def find(self, text: str) -> list[int]:
        """Return the positions of the near copies, in order, without those that `DuplicateIndex` finds."""
        bag, less = _bags(text)
        if not _FEWEST_SAID <= len(bag) <= _MOST_SAID:
            return []
        near = {*self._whole[bag], *self._less[bag]}  # the same words, or one more than here
        for each in less:  # one less
            near.update(self._whole[each])
        mine, persons = request_key(text, numbers=False), _persons(text)
        found: list[int] = []
        for place in sorted(near):
            other = self._texts[place]
            is_same = equal_but_for_typo(mine, request_key(other, numbers=False))
            swaps_persons = persons == _persons(other)[::-1]
            if not is_same and not swaps_persons:
                found.append(place)
        return found


def _persons(text: str) -> tuple[str, ...]:
    """Return the order of "I" and "you", so that "I ask you" is no copy of "you ask me"."""
    found = tuple(dict.fromkeys(_PERSONS[word] for word in words_of(text) if word in _PERSONS))
    return found if len(found) > 1 else ("", text)


def _bags(text: str) -> tuple[frozenset[str], list[frozenset[str]]]:
    """Return the set of content words and, for a longer text, that set without each word in turn."""
    bag = frozenset(map(stem, words_of(text))) - _LIGHT
    less: list[frozenset[str]] = []
    if _LONG_ENOUGH < len(bag) <= _MOST_SAID:
        less = [bag - {word} for word in bag]
    return bag, less


class Examples:
    """The examples of a catalogue, to find those that ask the same as a text, or nearly the same."""

    def __init__(self, flows: Iterable[BaseFlow]) -> None:
        self.spots: list[Spot] = []
        for flow in flows:
            self.spots += [Spot(flow, "examples", number) for number in range(len(flow.examples))]
        texts = [spot.text for spot in self.spots]
        self.same, self.near = DuplicateIndex(texts, numbers=False), NearCopies(texts)


def related(one: BaseFlow, other: BaseFlow) -> bool:
    """Whether one is a direct part of the other."""
    for part, whole in ((one, other), (other, one)):
        for _, linked in whole.links():  # a part is linked by its name, as an object, or by its class
            if linked == part.name or linked is part or linked is type(part):
                return True
    return False


def _join_names(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}"
