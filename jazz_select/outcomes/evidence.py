"""What a log of outcomes is evidence for: which flow is right for which request, by whom, and how far that is trusted.

Trust belongs to the source, never to a guess about a text:

- a `person`'s word is the truth from the moment it is given;
- a `model`'s choice counts unless somebody contradicted it;
- the word of a `user` or an `agent` is a hint. Hints need independent witnesses, and one key is one witness, however
  many entries it has. Hints alone never lead to a flow that may change something;
- what `recall` chose is no evidence, as nobody was asked. It only shows what is asked.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from re import compile as compiled
from typing import Final
from unicodedata import category

from jazz_select.outcomes.entries import Logged
from jazz_select.serialization import JsonData
from jazz_select.text import is_of_word, nfkc
from jazz_select.values import Reason, Source, SourceKind

LEAST: Final = 50
"""Fewest requests that a sync learns from: fewer say nothing about an error of one in a hundred."""
WITNESSES: Final = 2
"""Fewest independent witnesses of a hint that counts."""
TRUST: Final[Mapping[SourceKind, float]] = {"person": 1.0, "model": 0.95, "user": 0.9, "agent": 0.8}
"""P(a label is right), by its source. A model's is the usual share of requests in which a good chat model is right."""
TOSS: Final = 0.5
"""Trust up to which a label says nothing, however many say the same."""
NONE: Final = ""
"""The label of a request that no flow fits."""
ASK_AGAIN: Final = 0.7
"""Confidence from which on a model that differs is to be asked once more, with the candidates in another order, before
its choice is logged. The calibration counts what is at least as sure: there the answers must be clean, since a model's
own mistakes count as recall's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence(JsonData):
    """A request, and the flow that is right for it.

    Attributes:
        request: Its text, as the log has it.
        right: The name of the right flow; empty if no flow fits.
        trust: P(`right` is right).
        source: Who said so; of several, the first.
        recall_first: The name of the flow that recall had first at the time; empty if unknown.
        at: When it was asked, in seconds since 1970.
        ids: The entries of the log that say so.
        witnesses: The number of independent witnesses.
    """

    request: str
    right: str
    trust: float
    source: Source
    recall_first: str = ""
    at: float = 0.0
    ids: tuple[str, ...] = ()
    witnesses: int = 1

    @property
    def by_person(self) -> bool:
        """Whether it is a person's word, which is the truth."""
        return self.source.kind == "person"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """What one witness said about one request, and when; see `Evidence` for the other fields."""

    request: str
    right: str
    witness: str
    source: Source
    recall_first: str = ""
    at: float = 0.0
    said_at: float = 0.0
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvidence:
    """The evidence in a log, oldest first.

    Attributes:
        certain: What counts by itself: the words of persons, and choices of models that nobody contradicted.
        hints: What needs witnesses; `witnessed` says which of it counts.
        alone: Requests that recall decided alone, with a trust of 0: they only show what is asked.
        may_change: Names of flows that may change something. No number of hints leads to them.
        left_out: How many entries are no evidence, by the reason in words.
    """

    certain: tuple[Evidence, ...] = ()
    hints: tuple[Hint, ...] = ()
    alone: tuple[Evidence, ...] = ()
    may_change: frozenset[str] = frozenset()
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])


def witness_of(source: Source) -> str:
    """Return who speaks, as far as it can be told from others: a key, or without keys a conversation.

    All that come with one key are one witness, since whoever holds it can begin as many conversations as they like. So
    are all of the same process that belong to no conversation.
    """
    if source.key:
        return f"key {source.key}"
    return f"conversation {source.name}"


def is_contradicted(entry: Logged) -> bool:
    """Whether somebody said that something else is right than what was chosen."""
    return entry.right is not None and set(entry.right) != set(entry.chosen)


def same_request(text: str) -> str:
    """Return a request without what does not tell it from another one: Unicode form, case, punctuation and blanks.

    Letters, numbers, combining marks and symbols stay. So do the signs of `C#`, of a negative number, and within a
    number: "transfer -5" is not "transfer 5", nor is "10.5" "10 5".
    """
    folded = nfkc(text).casefold()
    distinctive = {found.start() for found in _DISTINCTIVE.finditer(folded)}
    kept: list[str] = []
    for place, char in enumerate(folded):
        is_symbol = category(char)[0] == "S"
        if is_of_word(char) or place in distinctive or is_symbol:
            kept.append(char)
        else:
            kept.append(" ")
    return " ".join("".join(kept).split())


_DISTINCTIVE: Final = compiled(r"(?<=[^\W\d_])#|-(?=\d)|(?<=\d)[.,](?=\d)")
"""Punctuation that tells requests apart where it stands."""


def request_digest(text: str) -> str:
    """Return a digest of a request, the same for all its spellings: what an index keeps in the place of the text."""
    return sha256(same_request(text).encode(errors="replace")).hexdigest()[:_DIGITS]


_DIGITS: Final = 24


def read_evidence(
    entries: Iterable[Logged],
    *,
    flows: Collection[str],
    may_change: Collection[str] | None = None,
    why_unfit: Callable[[str], str] = lambda _: "",
) -> LogEvidence:
    """Return what the entries of one agent are evidence for.

    A request counts once, however often it was asked. Where persons disagree about it, the word that was said last
    counts; where models do, the choice that most entries have, of each key the last.

    Nobody else is heard about what a person spoke of, even if that leads to several flows or to one that is gone. If
    the last word takes back what persons said, they say nothing, and hints stay unheard until a person speaks.

    Args:
        entries: The entries, oldest first.
        flows: The names of the flows that there are now.
        may_change: The names of those that may change something; None: all may.
        why_unfit: Why nothing may be learned from a text, whoever says what is right for it; empty if nothing is
            against it.
    """
    known = frozenset(flows)
    words: dict[str, list[_Word]] = {}
    models: dict[str, list[Evidence]] = {}
    hints: list[Hint] = []
    alone: dict[str, Evidence] = {}
    left_out = Counter[str]()
    for entry in entries:
        text = same_request(entry.request)
        why = _why_unusable(entry, text) or why_unfit(entry.request)
        if why:
            left_out[why] += 1
            continue
        found = _evidence_of(entry)
        if not isinstance(found, str) and found.right != NONE and found.right not in known:
            found = "its flow is not in the catalogue"
        if entry.corrected_by is not None and entry.corrected_by.kind == "person":
            own = found if isinstance(found, Evidence) and found.by_person else None
            words.setdefault(text, []).append(_Word(entry.last_word_at, own, is_taken_back=entry.is_taken_back))
        if isinstance(found, str):
            left_out[found] += 1
        elif isinstance(found, Hint):
            hints.append(found)
        elif found.trust == 0:
            alone.setdefault(text, found)
        elif not found.by_person:
            models.setdefault(text, []).append(found)
    decided = {text for text, of_persons in words.items() if _is_decided(of_persons)}
    only_recalled = [each for text, each in alone.items() if text not in decided and text not in models]
    return LogEvidence(
        certain=tuple(_certain_evidence(words, models, decided)),
        # Even words that were taken back keep hints unheard, until a person speaks.
        hints=tuple(each for each in hints if same_request(each.request) not in words),
        alone=tuple(only_recalled),
        may_change=known if may_change is None else frozenset(may_change),
        left_out=dict(left_out),
    )


@dataclass(frozen=True, slots=True)
class _Word:
    """What a person said of a request, and when; without evidence if nothing can be learned from it."""

    at: float
    found: Evidence | None
    is_taken_back: bool


def _is_decided(words: Iterable[_Word]) -> bool:
    """Whether a word of a person stands."""
    return not all(word.is_taken_back for word in words)


def _certain_evidence(
    words: Mapping[str, Sequence[_Word]], models: Mapping[str, Sequence[Evidence]], decided: Collection[str]
) -> list[Evidence]:
    """Return the last words of persons, and what models chose where no person decided, the oldest first."""
    found: list[Evidence] = []
    for of_persons in words.values():
        last = _last_word(of_persons)
        if last is not None:
            found.append(last)
    for text, choices in models.items():
        if text not in decided:
            found.append(_merge_models(choices))
    return sorted(found, key=lambda each: each.at)


def _last_word(entries: Iterable[_Word]) -> Evidence | None:
    """Return what persons said last about a request; None if that is nothing that can be learned."""
    last: Evidence | None = None
    for word in sorted(entries, key=lambda each: each.at):
        if word.found is None:
            last = None  # what was said before no longer counts
        else:
            last = _merge_evidence(last, word.found)
    return last


def _why_unusable(entry: Logged, text: str) -> str:
    if not text:
        return "its text was not kept"
    if not entry.alone:
        return "it needs what was said before"
    return ""


def _evidence_of(entry: Logged) -> Evidence | Hint | str:
    """Return what an entry says; a text says why it says nothing."""
    source = entry.corrected_by
    if source is None or entry.right is None or source.kind == "recall":
        return _evidence_of_choice(entry)
    if len(entry.right) > 1:
        return "several flows are right for it"
    right = "".join(entry.right)
    if source.kind == "person":
        return _evidence(entry, right, source)
    if not is_contradicted(entry) and entry.chosen_by.kind == "model":
        return _evidence_of_choice(entry)  # which it confirms
    if source.kind == "agent" and not entry.right:
        return "it was called off"  # which says nothing of what would have been right
    return _hint(entry, right, source, said_at=entry.last_word_at)


def _evidence_of_choice(entry: Logged) -> Evidence | Hint | str:
    if len(entry.chosen) > 1:
        return "several flows were chosen for it"
    right, source = "".join(entry.chosen), entry.chosen_by
    if source.kind == "model":
        return _evidence(entry, right, source)
    if source.kind == "user":
        return _hint(entry, right, source, said_at=entry.at)
    if entry.reason == Reason.CONFIDENT.value:
        return _evidence(entry, right, source)  # recall's, with a trust of 0
    return "nobody was asked"


def _evidence(entry: Logged, right: str, source: Source) -> Evidence:
    return Evidence(
        request=entry.request,
        right=right,
        trust=TRUST.get(source.kind, 0.0),
        source=source,
        recall_first=entry.first,
        at=entry.at,
        ids=(entry.id,),
    )


def _hint(entry: Logged, right: str, source: Source, *, said_at: float) -> Hint:
    return Hint(
        request=entry.request,
        right=right,
        witness=witness_of(source),
        source=source,
        recall_first=entry.first,
        at=entry.at,
        said_at=said_at,
        id=entry.id,
    )


def _merge_evidence(earlier: Evidence | None, found: Evidence) -> Evidence:
    """Return what a person said last about a request, with all entries that say the same."""
    if earlier is None or earlier.right != found.right:
        return found
    return replace(earlier, source=found.source, ids=(*earlier.ids, *found.ids))


def _merge_models(choices: Sequence[Evidence]) -> Evidence:
    """Return the choice that most of a request's entries have, the latest of several; less trusted if they differ.

    Of the entries that came with one key the last counts, since repetition is no evidence.
    """
    last = {witness_of(each.source): place for place, each in enumerate(choices)}
    counted: list[Evidence] = []
    for place, each in enumerate(choices):
        if not each.source.key or last[witness_of(each.source)] == place:
            counted.append(each)
    counts = Counter(each.right for each in counted)
    latest = {each.right: place for place, each in enumerate(counted)}
    right = max(counts, key=lambda name: (counts[name], latest[name]))
    agreeing = [each for each in counted if each.right == right]
    witnesses = {witness_of(each.source) for each in agreeing}
    # The ids are those of all its entries, also of those that were not counted.
    own = [each for each in choices if each.right == right]
    ids: list[str] = []
    for each in own:
        ids.extend(each.ids)
    share = len(agreeing) / len(counted)
    return replace(own[0], trust=own[0].trust * share, ids=tuple(ids), witnesses=len(witnesses))


def witnessed_hints(
    hints: Sequence[Hint],
    *,
    may_change: Collection[str],
    alike: Sequence[Collection[int]] | None = None,
) -> tuple[Evidence, ...]:
    """Return the hints that count: those that `WITNESSES` independent witnesses give.

    Of what one witness says of a request the last word counts. A request about which witnesses disagree has no hint
    that counts: only a person can say which is right.

    Args:
        hints: The hints.
        may_change: Names of flows that may change something. No number of hints leads to them.
        alike: For each hint the places of those whose requests mean the same; by default those of the same words.
    """
    texts = [same_request(each.request) for each in hints]
    if alike is None:
        places: dict[str, list[int]] = {}
        for place, text in enumerate(texts):
            places.setdefault(text, []).append(place)
        alike = [places[text] for text in texts]
    undisputed = _undisputed_hints(hints, texts)
    kept: dict[tuple[str, str], Evidence] = {}
    for place, (hint, text, near) in enumerate(zip(hints, texts, alike, strict=True)):
        if place not in undisputed or hint.right in may_change:
            continue
        agreeing = {hint.witness}
        for other in near:
            if other in undisputed and hints[other].right == hint.right:
                agreeing.add(hints[other].witness)
        if len(agreeing) < WITNESSES:
            continue
        key = text, hint.right
        evidence = Evidence(
            request=hint.request,
            right=hint.right,
            trust=TRUST[hint.source.kind],
            source=hint.source,
            recall_first=hint.recall_first,
            at=hint.at,
            ids=(hint.id,),
            witnesses=len(agreeing),
        )
        before = kept.get(key)
        if before is not None:  # one request is one evidence, as it was first said
            evidence = replace(evidence, request=before.request, at=before.at, ids=(*before.ids, hint.id))
        kept[key] = evidence
    return tuple(kept.values())


def _undisputed_hints(hints: Sequence[Hint], texts: Sequence[str]) -> frozenset[int]:
    """Return the places of each witness's last hint about a request, of requests about which all witnesses agree."""
    last: dict[tuple[str, str], int] = {}
    for place in sorted(range(len(hints)), key=lambda each: hints[each].said_at):
        last[texts[place], hints[place].witness] = place
    rights: dict[str, set[str]] = {}
    for (text, _), place in last.items():
        rights.setdefault(text, set()).add(hints[place].right)
    return frozenset(place for (text, _), place in last.items() if len(rights[text]) == 1)
