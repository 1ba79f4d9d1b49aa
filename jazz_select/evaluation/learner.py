"""Learning from corrections: corrections become examples of the right flows if a gate shows no loss.

A share of the corrections is held out, chosen by the words of the request. The gate routes these and the given cases
over the catalogue that a sync would index, and one example of each flow over a catalogue without these examples.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Annotated, Any, Final

from jazz_select.arguments import Constraint, Positive, checked
from jazz_select.evaluation.cases import Case
from jazz_select.evaluation.checks.wording import Sames
from jazz_select.evaluation.corrections import (
    DOUBT,
    KEPT_APART,
    Correction,
    Examined,
    chosen,
    examined,
    gathered,
    is_kept_apart,
    nearest_of,
    why_unfit,
    with_examples,
)
from jazz_select.evaluation.overlay import Gain, HeldCase, Overlay, Version, now, spelled, takes_examples, taught
from jazz_select.evaluation.route import Routed, RouteOptions, led
from jazz_select.evaluation.tables import Frame, Framed
from jazz_select.evaluation.trial import Gated, Verdict, gate_cases, spared, verdict
from jazz_select.flow.base import BaseFlow, FlowRegistry
from jazz_select.json_values import plain
from jazz_select.memory.embedders.known_embedders import open_embedder
from jazz_select.outcomes.log import Logged
from jazz_select.ports import Embedder
from jazz_select.text import beginning, counted
from jazz_select.threads import compute
from jazz_select.values import Source

MOST_LEARNED, MOST_CONFIRMED = 20, 10
_MOST_CORRECTIONS, _MOST_CASES = 10_000, 2_000
_LEAST_JUDGED: Final = 3
_HURTS: Final = "as an example it would take requests from other flows"
_SHOWN, _MOST_NAMED = 80, 3
"""Most characters of a lost request in a message, and most requests in one."""
_MOST_LOST: Final = 20
_NO_GAIN: Final = "beside the others it wins less than they do alone"
_NO_ROOM: Final = "the gate was asked as often as it may be (refits)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """A learned example: the flow that was first before, the ids of the log entries, and who said so."""

    flow: str
    text: str
    before: str = ""
    ids: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned(Framed):
    """The result of learning from a log's corrections.

    Attributes:
        version: Everything learned so far, ready for a trial; None if nothing is new.
        refused: Corrections that were left out, with the reason.
        suggested: Signals of agents without a person's correction, for review.
        gain: The gate's measurement of the change; None if there was nothing to measure.
        refits: Number of indexes that the gate made.
        nothing: Why nothing was learned; empty otherwise.
    """

    version: Version | None = None
    added: tuple[Added, ...] = ()
    refused: tuple[Correction, ...] = ()
    suggested: tuple[Correction, ...] = ()
    gain: Gain | None = None
    corrections: int = 0
    held: int = 0
    refits: int = 0
    nothing: str = ""
    notes: tuple[str, ...] = ()
    took_s: float = field(default=0.0, compare=False)

    def __str__(self) -> str:
        flows = len({each.flow for each in self.added})
        what = f"{counted(len(self.added), 'example')} learned for {counted(flows, 'flow')}"
        what += f", from {counted(self.corrections, 'correction')}"
        what = f"nothing was learned: {self.nothing}" if self.version is None else what
        return f"{what}; {gain_text(self.gain)}" if self.gain else what

    def numbered(self, number: int) -> "Learned":
        """Return a copy with the number that its version has in a file."""
        if self.version is None:
            return self
        return replace(self, version=self.version.model_copy(update={"number": number}))

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return plain({**values, "version": None if self.version is None else self.version.number})

    def _frame(self) -> Frame:
        rows = [
            ("learned", each.text, each.flow, f"leads to {each.before} now" if each.before else "leads nowhere now")
            for each in self.added
        ]
        rows += [("refused", each.request, ", ".join(each.right), each.why) for each in self.refused]
        columns = ("outcome", "request", "flow", "why")
        return [dict(zip(columns, row, strict=True)) for row in rows], columns


def gain_text(gain: Gain) -> str:
    """Return a gain as text."""
    change = gain.after - gain.before
    return (
        f"right first {gain.before:.1%} → {gain.after:.1%} of {gain.requests} requests that nothing was learned from "
        f"({100 * change:+.1f} points, {100 * gain.low:+.1f} to {100 * gain.high:+.1f})"
    )


@checked
async def learn(  # noqa: PLR0913 - options with a name
    registry: Mapping[str, BaseFlow],
    entries: Iterable[Logged],
    *,
    gate_cases: Sequence[Case] = (),
    overlay: Overlay | None = None,
    embedder: str | Embedder = "auto",
    language: str = "english",
    routing: RouteOptions | None = None,
    most: Positive = MOST_LEARNED,
    refits: Annotated[int, Constraint("a whole number from 2, one before and one after", ge=2)] = 24,
) -> Learned:
    """Learn examples from corrections, as long as no gate case loses.

    With the new examples, no fewer gate cases have their flow first. This is measured on the catalogue that
    `sync_registry(…, learned=…)` indexes once the version is live. Nothing is written: pass `Learned.version` to
    `Overlay.tried`. It includes everything of the live version.

    Args:
        registry: The flows, as their authors wrote them.
        entries: Entries of a log, the oldest first, such as `OutcomeLog.read(corrected=True)`.
        gate_cases: Labelled requests that must not get worse; none of them is learned. An out-of-scope request must not
            seem in scope afterwards, by P(none) and the policy of `routing`.
        overlay: Earlier versions; learning continues from the live one.
        embedder: As for `ProceduralMemory.open`; use the deployment's.
        language: As for `ProceduralMemory.open`.
        routing: How the deployment selects.
        most: Most learned texts of a flow, earlier ones included.
        refits: Most rounds of the gate, of two indexes each; the question of doubt takes one more.

    Raises:
        ConfigError: An option is invalid.
        EmbeddingError: The embedder failed.
    """
    began = time.perf_counter()
    overlay = overlay or Overlay()
    loaded = await compute(open_embedder, embedder)
    lesson = _Lesson(registry, overlay.version("live"), loaded, language, routing, most, refits)
    learned = await lesson.learned(list(entries)[-_MOST_CORRECTIONS:], gate_cases)
    return replace(learned, took_s=time.perf_counter() - began)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """The gate's measurement of one example, before it is added.

    Attributes:
        doubt: Why a person should review it; empty without doubt.
        why: Why it must not be added; empty if it may be.
        gain: Shares of the gate's requests before and after; None with too few requests.
        lost: Requests that it takes from their flows: the request, the right flow, and the flow that would be first.
    """

    doubt: str = ""
    why: str = ""
    gain: Gain | None = None
    lost: tuple[tuple[str, str, str], ...] = ()

    @property
    def passes(self) -> bool:
        """Whether it may be added."""
        return not self.doubt and not self.why


async def rehearsed(  # noqa: PLR0913 - options with a name
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
) -> Rehearsal:
    """Measure the effect of one example by the filter and the gate of `learn`. Nothing is written.

    Arguments beside the example's text and the name of its flow are those of `learn`; the corrections in `entries`
    judge the example, and are not learned.

    Raises:
        EmbeddingError: The embedder failed.
    """
    loaded = await compute(open_embedder, embedder)
    version = (overlay or Overlay()).version("live")
    lesson = _Lesson(registry, version, loaded, language, routing, MOST_LEARNED, 2)
    return await lesson.rehearsed(
        Correction(request=request, right=(flow,)), list(entries)[-_MOST_CORRECTIONS:], gate_cases
    )


@dataclass
class _Lesson:
    """One run of learning: its arguments and its counts of rounds and indexes."""

    _authored: Mapping[str, BaseFlow]
    _version: Version | None
    _embedder: Embedder
    _language: str
    _routing: RouteOptions | None
    _most: int
    _most_rounds: int
    _rounds: int = 0
    _refits: int = 0

    async def learned(self, entries: Sequence[Logged], cases: Sequence[Case]) -> Learned:
        names = {flow.name for flow in self._authored.values()}
        found = await compute(gathered, entries, names)
        base = taught(self._authored, self._version)
        fresh, held, usable = await compute(self._sorted, found.corrections, base.registry, cases)
        outcome = Learned(
            refused=found.refused,
            suggested=found.suggested,
            corrections=len(found.corrections),
            held=len(held),
            notes=base.notes,
        )
        if not usable:
            return replace(outcome, nothing=_why_none(found.corrections, fresh, found.refused))
        return await self._tried(outcome, base.registry, usable, self._cases(held), cases)

    async def rehearsed(self, one: Correction, entries: Sequence[Logged], cases: Sequence[Case]) -> Rehearsal:
        if why := why_unfit(one.request):
            return Rehearsal(why=why)
        if one.flow not in {flow.name for flow in self._authored.values() if takes_examples(flow)}:
            return Rehearsal(why=f"there is no flow {one.flow!r} that takes examples")
        base = taught(self._authored, self._version).registry
        names = {flow.name for flow in self._authored.values()}
        said = {spelled(each.request): each for each in (await compute(gathered, entries, names)).corrections}
        same = said.pop(spelled(one.request), one)
        one = same if same.right == one.right else one
        _, held, others = await compute(self._sorted, [*said.values()], base, cases)
        found = await self._examined(base, [one, *others])
        gate = self._gate(base, self._cases(held), cases)
        doubt = DOUBT if 0 in found.doubted else ""
        if sum(bool(each.right) for each in gate.judged) < _LEAST_JUDGED:
            return Rehearsal(doubt=doubt)
        before = await self._routes(gate)
        trial = await self._tried_with(gate, before, [one])
        lost = [
            (gate.judged[place].asked.request, ", ".join(sorted(gate.judged[place].right)), first)
            for place, first in trial.lost.items()
        ]
        return Rehearsal(doubt=doubt, why=trial.verdict.why, gain=trial.verdict.gain, lost=tuple(lost[:_MOST_LOST]))

    async def _tried(
        self,
        outcome: Learned,
        registry: FlowRegistry,
        usable: Sequence[Correction],
        kept: Sequence[HeldCase],
        cases: Sequence[Case],
    ) -> Learned:
        gate = self._gate(registry, kept, cases)
        fits = sum(bool(each.right) for each in gate.judged)
        if fits < _LEAST_JUDGED:
            few = f"requests to judge by: {fits}, which is too few: label more (--cases FILE, gate_cases=…)"
            return replace(outcome, nothing=few)
        found = await self._examined(registry, usable)
        choose = partial(chosen, taken=self._learned_counts, most=self._most, most_confirmed=MOST_CONFIRMED)
        examples, refused = await compute(choose, registry, usable, found, self._embedder)
        outcome = replace(outcome, refused=(*outcome.refused, *refused))
        if not examples:
            return replace(outcome, refits=self._refits, nothing="no correction says anything that can be learned")
        trial, hurt = await self._landed(gate, await self._routes(gate), examples)
        gain = trial.verdict.gain
        outcome = replace(outcome, refits=self._refits, gain=gain, refused=(*outcome.refused, *hurt))
        if trial.verdict.why:
            return replace(outcome, nothing=trial.verdict.why)
        was = {each.request: route.first for each, route in zip(usable, found.led, strict=True)}
        added = [
            Added(flow=each.flow, text=each.request, before=was[each.request], ids=each.ids, sources=each.sources)
            for each in trial.kept
        ]
        return replace(outcome, version=self._next(trial, hurt, kept), added=tuple(added))

    async def _examined(self, registry: FlowRegistry, corrections: Sequence[Correction]) -> Examined:
        return await examined(
            registry, corrections, routing=self._routing, embedder=self._embedder, language=self._language
        )

    def _sorted(
        self, corrections: Sequence[Correction], registry: FlowRegistry, cases: Sequence[Case]
    ) -> tuple[list[Correction], list[Correction], list[Correction]]:
        """Return the new corrections, those held out for the gate, and those that may be learned."""
        known = {spelled(text) for flow in registry.values() for text in flow.examples}
        fixed = {flow.name for flow in registry.values() if not takes_examples(flow)}
        labelled = Sames((case.request for case in cases), numbers=False)
        earlier = () if self._version is None else self._version.cases
        judging = {spelled(case.request) for case in earlier}
        judged_by = Sames((case.request for case in earlier), numbers=False)
        fresh, held, usable = list[Correction](), list[Correction](), list[Correction]()
        for each in corrections:
            text = spelled(each.request)
            if text in known or labelled.of(each.request):  # gate cases are not learned in any spelling
                continue
            apart = (
                each.is_held
                or each.flow in fixed
                or judged_by.of(each.request)
                or is_kept_apart(each.request, KEPT_APART)
            )
            (held if apart else usable).append(each)
            if text not in judging:
                fresh.append(each)
        return fresh, held, usable

    @property
    def _learned_counts(self) -> Mapping[str, int]:
        return {} if self._version is None else {name: len(texts) for name, texts in self._version.examples.items()}

    def _cases(self, held: Sequence[Correction]) -> list[HeldCase]:
        earlier = () if self._version is None else self._version.cases
        new = [HeldCase(request=each.request, expect=each.right, ids=" ".join(each.ids)) for each in held]
        merged = {spelled(each.request): each for each in (*earlier, *new)}
        return list(merged.values())[-_MOST_CASES:]

    def _gate(self, registry: FlowRegistry, kept: Sequence[HeldCase], cases: Sequence[Case]) -> "_Gate":
        """Return the gate: held-out corrections, given cases, and the flows' own examples."""
        names = {flow.name for flow in self._authored.values()}
        held = [each.as_case() for each in kept if names.issuperset(each.expect)]
        index, own = spared(registry, self._authored)
        labelled = (*gate_cases(held, "held"), *gate_cases(cases, "case"))
        return _Gate(shipped=registry, spared=index, labelled=labelled, own=tuple(own))

    async def _routes(self, gate: "_Gate", examples: Sequence[Correction] = ()) -> list[Routed]:
        self._rounds += 1
        labelled = await self._led(with_examples(gate.shipped, examples), gate.labelled)
        return [*labelled, *await self._led(with_examples(gate.spared, examples), gate.own)]

    async def _led(self, registry: FlowRegistry, asked: Sequence[Gated]) -> list[Routed]:
        if not asked:
            return []
        self._refits += 1
        queries = [each.asked for each in asked]
        return await led(registry, queries, self._routing, embedder=self._embedder, language=self._language)

    async def _landed(
        self, gate: "_Gate", before: Sequence[Routed], examples: Sequence[Correction]
    ) -> tuple["_Trial", list[Correction]]:
        """Search for the examples that pass the gate together; return them, and the others with a reason for each.

        All are tried at once. A group that fails is parted into those that cost more of the gate's requests than they
        won, and the rest; the rest is tried first. Where nobody is to blame it is parted by halves, between flows. Each
        part is tried beside those that passed, which it may not lower, until the rounds are used up.
        """
        landed = _Trial(kept=(), verdict=verdict(gate.judged, before, before))
        failed, whys = landed, dict[str, str]()
        ahead = [tuple(sorted(examples, key=lambda each: each.flow))]
        while ahead and self._rounds < self._most_rounds:
            group = ahead.pop(0)
            trial = await self._tried_with(gate, before, (*landed.kept, *group))
            if not trial.verdict.why and trial.verdict.gain.after >= landed.verdict.gain.after:
                landed = trial
                continue
            failed = trial
            new = [(gate.judged[place], first) for place, first in trial.lost.items() if place not in landed.lost]
            why = f"{_HURTS}: {_lost_text(new)}" if new else trial.verdict.why or _NO_GAIN
            guilty = await compute(self._guilty, gate, trial, group)
            if len(group) == 1 or guilty:
                whys |= {each.request: why for each in guilty or group}
            if guilty and len(guilty) < len(group):
                ahead = [tuple(each for each in group if each not in guilty), *ahead, *_halves(guilty)]
            elif len(group) > 1:
                ahead += _halves(group)
        if not landed.kept:
            landed = replace(landed, verdict=replace(failed.verdict, why=failed.verdict.why or _NO_ROOM))
        hurt = [each.refused(whys.get(each.request, _NO_ROOM)) for each in examples if each not in landed.kept]
        return landed, hurt

    def _guilty(self, gate: "_Gate", trial: "_Trial", group: Sequence[Correction]) -> tuple[Correction, ...]:
        """Return the examples of a group that cost more requests than they won; if there are none, all that cost any.

        A request was won or taken by the nearest example of the flow that is first now. If that has learned nothing, an
        example of the right flow led it away from the request: the farthest one.
        """
        took, won = ([(gate.judged[place], first) for place, first in some.items()] for some in (trial.lost, trial.won))
        nearest = partial(nearest_of, learned=trial.kept, embedder=self._embedder)
        by_first = nearest([(each.asked.request, first) for each, first in took])
        by_right = nearest([(each.asked.request, min(each.right, default="")) for each, _ in took], farthest=True)
        cost = Counter(one if one is not None else other for one, other in zip(by_first, by_right, strict=True))
        gained = Counter(nearest([(each.asked.request, first) for each, first in won]))
        cost.pop(None, None)
        worst = [place for place in cost if cost[place] > gained[place]] or list(cost)
        blamed = [trial.kept[place] for place in worst if place is not None]
        return tuple(each for each in group if each in blamed)

    async def _tried_with(self, gate: "_Gate", before: Sequence[Routed], examples: Sequence[Correction]) -> "_Trial":
        """Return the gate's verdict on these examples, and where the requests that it lost and won go now."""
        after = await self._routes(gate, examples)
        found = verdict(gate.judged, before, after)
        lost, won = ({place: after[place].first for place in places} for places in (found.lost, found.won))
        return _Trial(kept=tuple(examples), verdict=found, lost=lost, won=won)

    def _next(self, trial: "_Trial", refused: Sequence[Correction], cases: Sequence[HeldCase]) -> Version:
        examples = defaultdict[str, dict[str, str]](dict)
        if self._version is not None:
            examples.update({name: dict(texts) for name, texts in self._version.examples.items()})
        for each in trial.kept:
            examples[each.flow][each.request] = " ".join(each.ids)
        hurt = (
            HeldCase(request=each.request, expect=each.right, why=_HURTS, ids=" ".join(each.ids))
            for each in refused
            if each.why.startswith(_HURTS)
        )
        return Version(
            number=1,
            at=now(),
            after=0 if self._version is None else self._version.number,
            gain=trial.verdict.gain,
            examples=dict(examples),
            cases=(*cases, *hurt)[-_MOST_CASES:],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gate:
    """The requests that a change is judged by, and the catalogues over which they are routed.

    An added example refits all of recall, so results on one catalogue need not hold on another. Labelled requests are
    therefore routed over the shipped catalogue.
    """

    shipped: FlowRegistry
    spared: FlowRegistry
    labelled: tuple[Gated, ...]
    own: tuple[Gated, ...]

    @property
    def judged(self) -> tuple[Gated, ...]:
        return (*self.labelled, *self.own)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """Examples that were tried, the gate's verdict, and the places of lost and won requests with their flow now."""

    kept: tuple[Correction, ...]
    verdict: Verdict
    lost: Mapping[int, str] = field(default_factory=dict[int, str])
    won: Mapping[int, str] = field(default_factory=dict[int, str])


def _lost_text(lost: Sequence[tuple[Gated, str]]) -> str:
    """Return the lost requests, with the right flow and the flow that is now first, as text."""
    named = [
        f"“{beginning(each.asked.request, _SHOWN)}” ({', '.join(sorted(each.right)) or 'no flow'}) goes to "
        f"{first or 'nothing'}"
        for each, first in lost[:_MOST_NAMED]
    ]
    more = len(lost) - len(named)
    return "; ".join((*named, *([f"and {more} more"] if more else [])))


def _halves(group: Sequence[Correction]) -> list[tuple[Correction, ...]]:
    """Split a group in two, between two flows if it has several."""
    if len(group) == 1:
        return [tuple(group)]
    middle = len(group) // 2
    if len({each.flow for each in group}) > 1:
        starts = [place for place in range(1, len(group)) if group[place].flow != group[place - 1].flow]
        middle = min(starts, key=lambda place: abs(place - middle))
    return [tuple(group[:middle]), tuple(group[middle:])]


def _why_none(found: Sequence[Correction], fresh: Sequence[Correction], refused: Sequence[Correction]) -> str:
    if not found:
        return f"of {len(refused)} corrections none can be used" if refused else "the log has no corrections"
    if not fresh:
        return "all corrections are learned, or are among the labelled requests, already"
    return f"all {len(fresh)} new corrections are kept to judge by; learning begins with more of them"
