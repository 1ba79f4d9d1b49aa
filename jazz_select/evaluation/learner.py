"""Learning from corrections: what people said becomes examples of the right flows, and what it costs is told.

Hints that enough witnesses give are learned beside them as far as they cost no request that is known.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from jazz_select.arguments import checked
from jazz_select.evaluation.cases import Case
from jazz_select.evaluation.corrections import (
    BEFORE,
    Correction,
    SortedCorrections,
    flows_that_may_change,
    ids_of,
    sort_corrections,
)
from jazz_select.evaluation.overlay import Overlay, Version, examples_of, now, taught
from jazz_select.evaluation.route import Routed, RouteOptions
from jazz_select.evaluation.tables import Frame, Framed
from jazz_select.evaluation.trial import Cost, Scales
from jazz_select.flow.base import BaseFlow
from jazz_select.json_values import plain
from jazz_select.memory.embedders.known_embedders import open_embedder
from jazz_select.outcomes.entries import Logged
from jazz_select.outcomes.evidence import same_request
from jazz_select.ports import Embedder
from jazz_select.routing.tools.sources import ToolsLike, toolbox_of
from jazz_select.routing.tools.tool import Tool
from jazz_select.text import beginning, count_of
from jazz_select.threads import compute

_MOST_CORRECTIONS: Final = 10_000
_MOST_TRIES: Final = 8
"""Most indexes that are made in search of the hints that cost nothing."""
_FEW: Final = "too few requests are known to judge by: label more (--cases FILE, gate_cases=…)"
_SHOWN: Final = 80
"""Most characters of a lost request in a message."""
_Examples = dict[str, dict[str, str]]
"""Learned texts by flow name, each with the ids of its log entries, separated by blanks."""
_LISTS: Final = ("learned", "waiting", "overruled", "taken_back", "unlearnable")


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned(Framed):
    """The result of learning from a log's corrections. Each corrected entry is in exactly one of the five lists.

    Attributes:
        version: Everything learned so far, ready for a trial; None if it is what was learned before.
        learned: Corrections that are examples now; `why` is empty for new ones.
        waiting: Hints that wait for witnesses, or for a person.
        overruled: What a later or weightier word contradicts.
        taken_back: What a person took back.
        unlearnable: What can be no example, with the reason.
        taken_out: How many examples of before are no more.
        cost: What the change costs of the requests that are known; None if nothing changes, or if too few are known.
        nothing: Why there is no new version; empty otherwise.
    """

    version: Version | None = None
    learned: tuple[Correction, ...] = ()
    waiting: tuple[Correction, ...] = ()
    overruled: tuple[Correction, ...] = ()
    taken_back: tuple[Correction, ...] = ()
    unlearnable: tuple[Correction, ...] = ()
    taken_out: int = 0
    cost: Cost | None = None
    nothing: str = ""
    notes: tuple[str, ...] = ()
    took_s: float = field(default=0.0, compare=False)

    @property
    def added(self) -> tuple[Correction, ...]:
        """The corrections that are newly learned."""
        return tuple(each for each in self.learned if not each.why)

    def __str__(self) -> str:
        if self.version is None:
            return f"nothing was learned: {self.nothing}"
        flows = len({each.flow for each in self.added})
        sentence = f"{count_of(len(self.added), 'example')} learned for {count_of(flows, 'flow')}"
        if self.taken_out:
            sentence += f", {self.taken_out} taken out"
        if self.cost:
            sentence += f"; {self.cost}"
        return sentence

    def numbered(self, number: int) -> "Learned":
        """Return a copy with the number that its version has in a file."""
        if self.version is None:
            return self
        return replace(self, version=self.version.model_copy(update={"number": number}))

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        if self.version is not None:
            values["version"] = self.version.number  # its examples are in the file of what was learned
        return plain(values)

    def _frame(self) -> Frame:
        rows: list[dict[str, Any]] = []
        for name in _LISTS:
            for each in getattr(self, name):
                row = {
                    "outcome": name.replace("_", " "),
                    "request": each.request,
                    "flow": ", ".join(each.right),
                    "why": each.why,
                    "ids": " ".join(each.ids),
                }
                rows.append(row)
        return rows, ("outcome", "request", "flow", "why", "ids")


@checked
async def learn(  # noqa: PLR0913 - options with a name
    registry: Mapping[str, BaseFlow],
    entries: Iterable[Logged],
    *,
    gate_cases: Sequence[Case] = (),
    overlay: Overlay | None = None,
    undo: Collection[str] = (),
    tools: ToolsLike | None = None,
    embedder: str | Embedder = "auto",
    language: str = "english",
    routing: RouteOptions | None = None,
) -> Learned:
    """Learn examples from corrections: all that people said, and the hints that cost nothing.

    A person's word is learned as it stands; `cost` tells the requests that would move. The word of anybody else is a
    hint: it is learned if independent witnesses agree, its flow cannot change anything, and no known request is lost by
    it. Nothing is written: pass `Learned.version` to `Overlay.start_trial`. It includes what was learned before, except
    what people corrected since, or took back.

    Args:
        registry: The flows, as their authors wrote them.
        entries: Entries of a log, such as `OutcomeLog.read(corrected=True)`.
        gate_cases: Labelled requests to judge by; none of them is learned. An out-of-scope request must not seem in
            scope afterwards, by P(none) and the policy of `routing`.
        overlay: Earlier versions; learning continues from the live one.
        undo: Ids of entries of which nothing is to be learned any more, for those that the log no longer has.
        tools: The connected tools, which tell the flows that may change something. Without them, all flows
            may.
        embedder: As for `ProceduralMemory.open`; use the deployment's.
        language: As for `ProceduralMemory.open`.
        routing: How the deployment selects.

    Raises:
        ConfigError: An option is invalid.
        EmbeddingError: The embedder failed.
    """
    began = time.perf_counter()
    version = (overlay or Overlay()).version("live")
    box = None if tools is None else toolbox_of(tools)
    given = list(entries)[-_MOST_CORRECTIONS:]
    found = await compute(lambda: sort_corrections(given, registry, version=version, cases=gate_cases, tools=box))
    loaded = await compute(open_embedder, embedder)
    scales = _scales(registry, found, gate_cases, routing, loaded, language)
    lesson = _Lesson(registry, version, found, scales, box)
    return replace(await lesson.learn(undo), took_s=time.perf_counter() - began)


async def estimate_cost(  # noqa: PLR0913 - options with a name
    registry: Mapping[str, BaseFlow],
    request: str,
    flow: str,
    *,
    entries: Iterable[Logged] = (),
    gate_cases: Sequence[Case] = (),
    overlay: Overlay | None = None,
    embedder: str | Embedder = "auto",
    language: str = "english",
    routing: RouteOptions | None = None,
) -> Cost | None:
    """Return what one more example would cost; None with too few known requests. Nothing is written.

    Arguments beside the example's text and the name of its flow are those of `learn`; what people said in `entries`
    judges the example, and is not learned.

    Raises:
        EmbeddingError: The embedder failed.
    """
    version = (overlay or Overlay()).version("live")
    given = list(entries)[-_MOST_CORRECTIONS:]
    found = await compute(lambda: sort_corrections(given, registry, version=version, cases=gate_cases))
    loaded = await compute(open_embedder, embedder)
    scales = _scales(registry, found, gate_cases, routing, loaded, language)
    if not scales.are_enough:
        return None
    before = await scales.routes(version)
    return scales.cost(before, await scales.routes(_version(with_example(examples_of(version), flow, request))))


def with_example(learned: Mapping[str, Mapping[str, str]], flow: str, text: str, ids: str = "") -> _Examples:
    """Return learned examples with one more, which is no example of any other flow then."""
    made = without_requests(learned, {same_request(text)})
    made.setdefault(flow, {})[text] = ids
    return made


def without_requests(learned: Mapping[str, Mapping[str, str]], gone: Collection[str]) -> _Examples:
    """Return learned examples without requests, named as `same_request` does."""
    remaining: _Examples = {}
    for flow, texts in learned.items():
        kept = {text: ids for text, ids in texts.items() if same_request(text) not in gone}
        if kept:
            remaining[flow] = kept
    return remaining


def _scales(
    registry: Mapping[str, BaseFlow],
    found: SortedCorrections,
    cases: Sequence[Case],
    routing: RouteOptions | None,
    embedder: Embedder,
    language: str,
) -> Scales:
    judging = [Case(request=each.request, expect=each.right) for each in found.judging]
    return Scales(registry, [*cases, *judging], routing=routing, embedder=embedder, language=language)


def _version(examples: _Examples, before: Version | None = None, cost: Cost | None = None) -> Version:
    return Version(
        number=1,
        at=now(),
        after=0 if before is None else before.number,
        gain=None if cost is None else cost.gain,
        examples=examples,
    )


@dataclass
class _Lesson:
    """One run of learning: what it starts from."""

    _authored: Mapping[str, BaseFlow]
    _version: Version | None
    _found: SortedCorrections
    _scales: Scales
    _tools: Mapping[str, Tool] | None

    async def learn(self, undo: Collection[str]) -> Learned:
        """Return what is learned; `undo` are ids of entries of which nothing is to be learned any more."""
        earlier = examples_of(self._version)
        kept = self._keep_learned(earlier, undo)
        examples, new = self._with(kept, self._found.people)
        known = self._known_examples(kept)
        hints = [each for each in self._found.hinted if same_request(each.request) not in known[each.flow]]
        before: list[Routed] = []
        # Each side needs an index of its own, so skip this if nothing changes.
        if self._scales.are_enough and (hints or examples != earlier):
            before = await self._scales.routes(self._version)
        fitting, waiting, after = await self._fit_hints(examples, hints, before)
        examples, _ = self._with(examples, fitting)
        outcome = self._sort_corrections([*new, *fitting], waiting)
        if examples == earlier:
            return replace(outcome, nothing=_why_none(outcome))
        cost: Cost | None = None
        notes = outcome.notes
        if before:
            cost = self._scales.cost(before, after)
        else:
            notes = (*notes, f"the cost is not known: {_FEW}")
        return replace(
            outcome,
            version=_version(examples, self._version, cost),
            taken_out=_count(earlier) - _count(kept),
            cost=cost,
            notes=notes,
        )

    def _sort_corrections(self, new: Sequence[Correction], waiting: Iterable[Correction]) -> Learned:
        """Return all corrections in their lists."""
        found = self._found
        waits = [*found.waiting, *waiting]
        # By their entries, since those that wait have another reason than in `found`.
        waiting_ids = {each.ids for each in waits}
        learned = list(new)
        for each in (*found.people, *found.hinted):
            if each not in new and each.ids not in waiting_ids:
                learned.append(replace(each, why=BEFORE))
        return Learned(
            learned=tuple(learned),
            waiting=tuple(waits),
            overruled=tuple(found.overruled),
            taken_back=tuple(found.taken_back),
            unlearnable=tuple(found.unlearnable),
            notes=taught(self._authored, self._version).notes,
        )

    def _keep_learned(self, learned: Mapping[str, Mapping[str, str]], undo: Collection[str]) -> _Examples:
        """Return what was learned before without what people say otherwise about, or took back."""
        gone: set[str] = set()
        for flow, texts in learned.items():
            for text, ids in texts.items():
                request = same_request(text)
                is_settled_otherwise = self._found.settled.get(request, flow) != flow
                is_undone = any(ids_of(each, ids.split()) for each in undo)
                if is_settled_otherwise or is_undone:
                    gone.add(request)
        return without_requests(learned, gone)

    def _with(
        self, learned: Mapping[str, Mapping[str, str]], corrections: Iterable[Correction]
    ) -> tuple[_Examples, list[Correction]]:
        """Return the examples with those of corrections, and the corrections that are new among them."""
        examples = {flow: dict(texts) for flow, texts in learned.items()}
        new: list[Correction] = []
        known = self._known_examples(learned)
        for each in corrections:
            request = same_request(each.request)
            if request not in known[each.flow]:
                known[each.flow].add(request)
                examples.setdefault(each.flow, {})[each.request] = " ".join(each.ids)
                new.append(each)
        return examples, new

    def _known_examples(self, learned: Mapping[str, Mapping[str, str]]) -> defaultdict[str, set[str]]:
        """Return the examples of each flow, its own and learned ones, named as `same_request` does."""
        known = defaultdict[str, set[str]](set)
        for flow in self._authored.values():
            known[flow.name].update(map(same_request, flow.examples))
        for name, texts in learned.items():
            known[name].update(map(same_request, texts))
        return known

    async def _fit_hints(
        self, examples: _Examples, hints: Sequence[Correction], before: Sequence[Routed]
    ) -> tuple[list[Correction], list[Correction], Sequence[Routed]]:
        """Return the hints that cost nothing beside the examples, the others with a reason, and the routes with both.

        All are tried at once. A flow whose hints lose more known requests than they win learns none of them; if no flow
        is to blame for what is lost, none does.
        """
        if not before:
            return [], [replace(each, why=_FEW) for each in hints], before
        # Corrections by people are always learned; hints are weighed on top of them.
        without = await self._scales.routes(_version(examples))
        risky = flows_that_may_change(self._authored.values(), self._tools)
        candidates = list(hints)
        waiting: list[Correction] = []
        for _ in range(_MOST_TRIES):
            after = without
            if candidates:
                extended, _ = self._with(examples, candidates)
                after = await self._scales.routes(_version(extended))
            blamed = _blame_flows(self._scales.cost(without, after), {each.flow for each in candidates}, risky)
            if not blamed:
                return candidates, waiting, after
            rest: list[Correction] = []
            for each in candidates:
                if each.flow in blamed:
                    waiting.append(replace(each, why=blamed[each.flow]))
                else:
                    rest.append(each)
            candidates = rest
        untried = "more hints than could be tried together: a person should look"
        return [], [*waiting, *(replace(each, why=untried) for each in candidates)], without


def _count(learned: Mapping[str, Mapping[str, str]]) -> int:
    return sum(map(len, learned.values()))


def _blame_flows(cost: Cost, flows: Collection[str], risky: Collection[str]) -> dict[str, str]:
    """Return the flows whose hints must not be learned, with why."""
    lost = Counter(each.after for each in cost.lost)
    won = Counter(each.after for each in cost.won)
    into_risk = [each for each in cost.moved if each.after in risky]
    blamed = [flow for flow in flows if lost[flow] > won[flow]]
    if not blamed and (into_risk or len(cost.lost) > len(cost.won)):
        blamed = list(flows)  # no flow takes more than it gives, and yet together they do harm
    shown = {each.after: each for each in (*into_risk, *cost.lost)}
    why: dict[str, str] = {}
    for flow in blamed:
        each = shown.get(flow) or next(iter(shown.values()))
        request = beginning(each.request, _SHOWN)
        move = f"“{request}” would go from {each.before or 'nothing'} to {each.after or 'nothing'}"
        why[flow] = f"{move}: a person should look"
    return why


def _why_none(outcome: Learned) -> str:
    counts = {
        "waiting for witnesses or a person": len(outcome.waiting),
        "overruled": len(outcome.overruled),
        "taken back": len(outcome.taken_back),
        "that can be no example": len(outcome.unlearnable),
    }
    listed = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    if listed:
        return f"of what is not learned already, {listed}"
    if outcome.learned:
        return "all corrections are learned already"
    return "the log has no corrections"
