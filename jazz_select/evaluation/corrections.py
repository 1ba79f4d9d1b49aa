"""Corrections in a log, sorted by who said them: what is learned, what waits for witnesses, and what is not and why.

Trust belongs to the source (`outcomes.evidence`), never to a guess about a text. A person's word is the truth. What
anybody else says is a hint: it needs independent witnesses, and never leads to a flow that may change something.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Final, TypeAlias

from jazz_select.errors import ConfigError, FlowError
from jazz_select.evaluation.cases import Case
from jazz_select.evaluation.checks.safety import injection, seen
from jazz_select.evaluation.checks.wording import DuplicateIndex
from jazz_select.evaluation.overlay import Version, examples_of, takes_examples, yaml_text
from jazz_select.flow.base import CHOOSE, BaseFlow, chain_of
from jazz_select.outcomes.entries import Feedback, Logged
from jazz_select.outcomes.evidence import WITNESSES, same_request, witness_of
from jazz_select.outcomes.log import OutcomeLog
from jazz_select.routing.tools.tool import Tool
from jazz_select.text import nfkc
from jazz_select.values import Source

LONGEST: Final = 500
"""Most characters of a request that can become an example."""
BEFORE: Final = "an example already"
SHORT_ID: Final = 8
"""Fewest characters of an entry's id by which it can be named, and how many of them are shown."""
_LearnedTexts: TypeAlias = Mapping[str, Mapping[str, str]]
"""Learned texts by flow name, each with the ids of its entries in the log; see `Version.examples`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """The right flows of a request, as somebody said (none if nothing fits).

    Attributes:
        request: Its text, on one line.
        right: Names of the flows; empty as well where the word was taken back.
        first: The flow that recall had first at the time.
        ids: The entries of the log that say so.
        sources: Who says so.
        why: Why it is in the list that it is in; empty if it is newly learned.
    """

    request: str
    right: tuple[str, ...]
    first: str = ""
    ids: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    why: str = ""

    @property
    def flow(self) -> str:
        """The right flow, if there is exactly one."""
        return self.right[0] if len(self.right) == 1 else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedCorrections:
    """The corrections of a log. Each corrected entry is in exactly one list, but for `judging`.

    Attributes:
        people: What persons said, to learn as it stands.
        hinted: Hints with enough witnesses, to learn if they cost nothing.
        waiting: Hints without, and those that only a person may give.
        overruled: What a later or weightier word contradicts.
        taken_back: What a person took back.
        unlearnable: What can be no example.
        judging: Those of them that say what persons expect all the same.
        settled: By request (`same_request`), the flow that persons say is right; empty if it is no example of any flow.
    """

    people: list[Correction] = field(default_factory=list[Correction])
    hinted: list[Correction] = field(default_factory=list[Correction])
    waiting: list[Correction] = field(default_factory=list[Correction])
    overruled: list[Correction] = field(default_factory=list[Correction])
    taken_back: list[Correction] = field(default_factory=list[Correction])
    unlearnable: list[Correction] = field(default_factory=list[Correction])
    judging: list[Correction] = field(default_factory=list[Correction])
    settled: dict[str, str] = field(default_factory=dict[str, str])


def sort_corrections(
    entries: Iterable[Logged],
    registry: Mapping[str, BaseFlow],
    *,
    version: Version | None = None,
    cases: Sequence[Case] = (),
    tools: Mapping[str, Tool] | None = None,
) -> SortedCorrections:
    """Sort the corrections of a log.

    Args:
        entries: Entries of one agent.
        registry: The flows, as their authors wrote them.
        version: What was learned so far.
        cases: Labelled requests, none of which is learned.
        tools: The connected tools, by name, which tell the flows that may change something (`flows_that_may_change`).
    """
    return _Sorter(registry, version, cases, tools).sort(entries)


def flows_that_may_change(flows: Iterable[BaseFlow], tools: Mapping[str, Tool] | None) -> frozenset[str]:
    """Return the names of the flows that may change something: all but those whose tools are all known to read.

    The tools are those of a flow, of its parts and of the flows that it calls. A flow that leaves a step to whatever
    tool fits, or that cannot be read, may change something; so may all flows if `tools` is None, since nobody knows
    then what they do.
    """
    if tools is None:
        return frozenset(flow.name for flow in flows)
    found: set[str] = set()
    for flow in flows:
        if any(_may_change(each, tools) for each in _reachable_flows(flow)):
            found.add(flow.name)
    return frozenset(found)


def _reachable_flows(flow: BaseFlow) -> Iterator[BaseFlow | None]:
    """Yield a flow, its parts and the flows that they call, each once; None in the place of what is not there."""
    visited: set[str] = set()
    queue = [flow]
    while queue:
        each = queue.pop()
        if each.id in visited:  # flows may call each other in a circle
            continue
        visited.add(each.id)
        yield each
        try:
            queue += [*each.subflows, *map(each.resolve, each.calls)]
        except FlowError:
            yield None


def _may_change(flow: BaseFlow | None, tools: Mapping[str, Tool]) -> bool:
    if flow is None:
        return True
    try:
        takes_any_tool = CHOOSE in chain_of(flow)
    except FlowError:
        return True
    if takes_any_tool:
        return True
    return any(name not in tools or not tools[name].reads for name in flow.own_tools)


def why_unfit(text: str) -> str:
    """Return why no flow may learn a text, whoever says that it is right; empty if nothing is against it."""
    if not any(letter.isalpha() for letter in text):
        return "it has no words"
    if len(text) > LONGEST:
        return f"it has more than {LONGEST} characters"
    found = injection(nfkc(seen(text)))
    if found:
        return f"it tells a model what to do: “{found}”"
    return ""


def review(
    log: OutcomeLog,
    *,
    agent_id: str,
    source: Source,
    accept: Collection[str] = (),
    undo: Collection[str] = (),
    learned: Collection[str] = (),
) -> None:
    """Write a person's word on corrections of a log: to accept what was said, or to take it back.

    What is taken back is no correction any more, until a person makes one.

    Args:
        log: The log.
        agent_id: The agent whose entries they are.
        source: The person.
        accept: Ids of entries, or their beginnings of at least eight characters.
        undo: Likewise.
        learned: Ids of entries that were learned and may be taken back as well, though the log no longer has them:
            that is for `learn` to do.

    Raises:
        ConfigError: An id is of no corrected entry, or of several. Nothing was written then.
        OutcomeLogError: The log cannot be read or written.
    """
    corrected = [entry.id for entry in log.read(agent_id=agent_id, corrected=True)]
    words: dict[str, tuple[str, ...] | None] = {}
    for given in accept:
        found = ids_of(given, corrected)
        labels: list[Feedback] = []
        for entry in found:
            labels += [each for each in log.feedback(entry) if each.right is not None]
        if not labels:
            raise ConfigError(f"--accept: nobody said what is right for an entry {given!r:.80} of agent {agent_id}")
        # `max` returns the first of equals: from the end, the last word of the weightiest source.
        words[found[0]] = max(reversed(labels), key=lambda each: each.source.weight).right
    for given in undo:
        found = ids_of(given, corrected)
        if not found and not ids_of(given, learned):
            raise ConfigError(f"--undo: there is no corrected entry {given!r:.80} of agent {agent_id} in the log")
        words |= dict.fromkeys(found)
    for entry, right in words.items():
        log.correct(entry, right, source=source)


def tell_unlearned(log: OutcomeLog, before: _LearnedTexts, after: _LearnedTexts, *, source: Source) -> int:
    """Write a person's word into a log where other examples are learned than before, so that `learn` keeps to it.

    An entry that is learned no more is for the flow that has its request instead; if there is none, its correction is
    taken back. One that was taken back and is learned again is for its flow once more.

    Args:
        log: The log.
        before: What was learned before.
        after: What is learned now.
        source: The person.

    Returns:
        The number of entries that something was said of.

    Raises:
        OutcomeLogError: The log cannot be read or written.
    """
    owners = _owners(after)
    words: dict[str, tuple[str, ...] | None] = {}
    for _, text, entry in _only_in(before, after):
        flow = owners.get(same_request(text))
        words[entry] = None if flow is None else (flow,)
    for flow, _, entry in _only_in(after, before):
        if entry in words:
            continue
        found = log.get(entry)
        if found is not None and found.is_taken_back:
            words[entry] = (flow,)
    for entry, right in words.items():
        log.correct(entry, right, source=source)
    return len(words)


def _owners(learned: _LearnedTexts) -> dict[str, str]:
    """Return the flow that each request is learned for, by `same_request`."""
    owners: dict[str, str] = {}
    for flow, texts in learned.items():
        owners.update(dict.fromkeys(map(same_request, texts), flow))
    return owners


def _only_in(one: _LearnedTexts, other: _LearnedTexts) -> Iterator[tuple[str, str, str]]:
    """Yield (flow, text, entry of the log) of what is learned in the one and not in the other."""
    for flow, texts in one.items():
        for text, ids in texts.items():
            if text in other.get(flow, ()):
                continue
            for entry in ids.split():
                yield flow, text, entry


def ids_of(given: str, known: Iterable[str]) -> list[str]:
    """Return the id that a text is, or begins with at least eight characters; none if there is no such id.

    Raises:
        ConfigError: Several begin so.
    """
    found: list[str] = []
    for entry in known:
        if entry == given:
            return [entry]  # a whole id, even if others begin with it
        if len(given) >= SHORT_ID and entry.startswith(given):
            found.append(entry)
    if len(found) > 1:
        raise ConfigError(f"{len(found)} entries have ids that begin with {given!r:.80}: write more of it")
    return found


class _Sorter:
    """One run of `sort_corrections`: its arguments as lookups, and the lists."""

    def __init__(
        self,
        registry: Mapping[str, BaseFlow],
        version: Version | None,
        cases: Sequence[Case],
        tools: Mapping[str, Tool] | None,
    ) -> None:
        self._flows = {flow.name: flow for flow in registry.values()}
        self._risky_flows = flows_that_may_change(registry.values(), tools)
        self._labelled = DuplicateIndex((case.request for case in cases), numbers=False)
        self._authored: dict[str, str] = {}
        for flow in registry.values():
            self._authored.update(dict.fromkeys(map(same_request, flow.examples), flow.name))
        self._learned = _owners(examples_of(version))
        self._found = SortedCorrections()

    def sort(self, entries: Iterable[Logged]) -> SortedCorrections:
        groups: dict[str, list[Logged]] = {}
        corrected = [entry for entry in entries if entry.corrected_by is not None]
        # In time, since the last word of a source counts.
        for entry in sorted(corrected, key=attrgetter("last_word_at")):
            why = self._why_unusable(entry)
            if why:
                self._found.unlearnable.append(_merge_entries([entry], why))
            else:
                groups.setdefault(same_request(entry.request), []).append(entry)
        for request, group in groups.items():
            self._settle(request, group)
        return self._found

    def _why_unusable(self, entry: Logged) -> str:
        """Return why an entry says nothing that can be used."""
        for name in entry.right or ():
            if name not in self._flows:
                return f"there is no flow {name!r}"
        if not same_request(entry.request):
            return "it has no words" if entry.request.strip() else "its text was not kept"
        if not entry.alone:
            return "it needs what was said before"
        if not entry.right and entry.right is not None and _source(entry).kind == "agent":
            return "it was called off, which does not say what would have been right"
        return ""

    def _settle(self, request: str, entries: Sequence[Logged]) -> None:
        """Put all that was said of one request into lists, in the order in which it was said."""
        persons = [entry for entry in entries if _source(entry).kind == "person"]
        last = persons[-1] if persons else None
        gone: Sequence[Logged] = [entry for entry in entries if entry.right is None]
        if last is not None and last.right is None:
            gone = entries  # a person who takes back the last word takes back all that was said
        for entry in gone:
            self._found.taken_back.append(_merge_entries([entry], f"by {_source(last or entry)}"))
        remaining = [entry for entry in entries if entry not in gone]
        if last is None:
            self._weigh(request, remaining)
        elif last.right is None:
            self._found.settled[request] = ""
        else:
            self._decide(request, last, remaining)

    def _decide(self, request: str, person: Logged, entries: Sequence[Logged]) -> None:
        """Learn what a person said last about one request, whatever others say."""
        right = _right(person)
        reason = f"{_source(person)} says {_in_words(person.right or ())}"
        agreeing: list[Logged] = []
        for each in entries:
            if _right(each) == right:
                agreeing.append(each)
            else:
                self._found.overruled.append(_merge_entries([each], reason))
        found = _merge_entries(agreeing)
        why = self._why_unlearnable(request, found)
        if not why:
            self._found.settled[request] = found.flow
            self._found.people.append(found)
            return
        self._found.settled[request] = ""
        self._found.unlearnable.append(replace(found, why=why))
        # A request that cannot be learned may still judge others; a labelled one does so already.
        if not self._labelled.find(found.request):
            self._found.judging.append(found)

    def _weigh(self, request: str, entries: Sequence[Logged]) -> None:
        """Weigh hints about one request by their witnesses; of one witness the last word counts."""
        # Entries are in order, so that a later word of a witness replaces an earlier one.
        last = {witness_of(_source(each)): each for each in entries}
        votes = Counter(map(_right, last.values()))
        owner = self._authored.get(request, self._learned.get(request))
        for right in dict.fromkeys(map(_right, entries)):
            found = _merge_entries([each for each in entries if _right(each) == right])
            if not votes[right]:
                self._found.overruled.append(replace(found, why="the same witness says something else later"))
                continue
            why = self._why_unlearnable(request, found)
            if why:
                self._found.unlearnable.append(replace(found, why=why))
                continue
            why = self._why_waiting(found, votes, owner)
            if why:
                self._found.waiting.append(replace(found, why=why))
            else:
                self._found.hinted.append(found)

    def _why_waiting(self, found: Correction, votes: Counter[frozenset[str]], owner: str | None) -> str:
        """Return why a hint is not learned yet; `owner` is the flow that has the request as an example."""
        witnesses = votes[frozenset(found.right)]
        if owner == found.flow:
            return ""  # an example already, which needs no witnesses
        if owner is not None:
            return f"it is learned for {owner}: a person can say otherwise"
        if len(votes) > 1:
            return f"{witnesses} of {votes.total()} witnesses say so: a person should look"
        if witnesses < WITNESSES:
            return f"{witnesses} of {WITNESSES} independent witnesses (keys, or conversations without one)"
        if found.flow in self._risky_flows:
            return f"{found.flow} may change something: only a person may lead requests there"
        return ""

    def _why_unlearnable(self, request: str, found: Correction) -> str:
        if self._labelled.find(found.request):
            return "it is among the labelled requests"
        if not found.right:
            return "it is for no flow"
        if len(found.right) > 1:
            return "it is for several flows"
        if not takes_examples(self._flows[found.flow]):
            return f"{found.flow} makes its own examples"
        owner = self._authored.get(request, found.flow)
        if owner != found.flow:
            return f"it is an example of {owner}: take it out there first"
        return why_unfit(found.request)


def _source(entry: Logged) -> Source:
    return entry.corrected_by or entry.chosen_by


def _right(entry: Logged) -> frozenset[str]:
    return frozenset(entry.right or ())


def _merge_entries(entries: Sequence[Logged], why: str = "") -> Correction:
    """Return what several entries say of one request as one correction."""
    return Correction(
        request=yaml_text(entries[0].request),
        right=entries[0].right or (),
        first=entries[-1].first,
        ids=tuple(each.id for each in entries),
        sources=tuple(dict.fromkeys(map(_source, entries))),
        why=why,
    )


def _in_words(right: Sequence[str]) -> str:
    return " and ".join(right) or "that nothing fits"
