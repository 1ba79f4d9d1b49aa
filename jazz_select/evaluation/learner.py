"""Learning from corrections: they become examples of the right flows where that lowers nothing, and cases to judge by.

A part of the corrections is kept apart, by the words of the request, and never learned from. With the labelled requests
that are given it is asked of the very catalogue that a sync would index; beside them stands an example of each flow,
asked of a catalogue without these examples. That is the gate that a change has to pass.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Annotated, Any, Final

from jazz_select.arguments import Constraint, Positive, checked
from jazz_select.evaluation.cases import Case
from jazz_select.evaluation.checks.wording import Sames
from jazz_select.evaluation.corrections import Correction, Neighbourhood, gathered, is_kept_apart
from jazz_select.evaluation.overlay import Gain, HeldCase, Overlay, Version, now, spelled, taught
from jazz_select.evaluation.route import Policy, Query, Routed, led
from jazz_select.evaluation.tables import Frame, Framed
from jazz_select.evaluation.trial import Gated, Verdict, gate_cases, spared, verdict
from jazz_select.flow.base import BaseFlow, FlowRegistry
from jazz_select.json_values import plain
from jazz_select.memory.embedders.known_embedders import open_embedder
from jazz_select.outcomes.log import Logged
from jazz_select.ports import Embedder
from jazz_select.text import beginning, counted

KEPT_APART: Final = 0.1
"""The share of corrections that is judged by and not learned from."""
MOST_LEARNED, MOST_CONFIRMED = 20, 10
_MOST_CORRECTIONS, _MOST_CASES = 10_000, 2_000
_LEAST_JUDGED: Final = 3
_HURTS: Final = "as an example it would take requests from other flows"
_SHOWN, _MOST_NAMED = 80, 3
"""Characters of a request that is lost, and how many are named."""
_MOST_LOST: Final = 20
_NO_GAIN: Final = "it wins nothing beside the others"
_NO_ROOM: Final = "the gate was asked as often as it may be (refits)"
_NONE_LEFT: Final = "what is left after what does harm does not pass"


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """An example that was learned."""

    flow: str
    text: str
    before: str = ""
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned(Framed):
    """What came of a log's corrections.

    Attributes:
        version: All that is learned by now, to put on trial; None where nothing new is.
        added: The examples that are new in it.
        refused: What was left out, and why.
        suggested: What an agent gathered that no person corrected, for a person to look at.
        gain: What the gate says of the change; None where there was nothing to judge.
        corrections: How many could be used.
        held: How many of them the gate keeps.
        refits: How many indexes were made.
        nothing: Why nothing was learned; empty where something was.
        notes: What could not be used of what was learned before.
        took_s: How long it took, in seconds.
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
        """One line."""
        flows = len({each.flow for each in self.added})
        what = f"{counted(len(self.added), 'example')} learned for {counted(flows, 'flow')}"
        what += f", from {counted(self.corrections, 'correction')}"
        what = f"nothing was learned: {self.nothing}" if self.version is None else what
        return f"{what}; {gain_text(self.gain)}" if self.gain else what

    def numbered(self, number: int) -> "Learned":
        """With the number that its version got in a file."""
        return (
            self if self.version is None else replace(self, version=self.version.model_copy(update={"number": number}))
        )

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        told = {each.name: getattr(self, each.name) for each in fields(self)}
        told["version"] = None if self.version is None else self.version.number
        return plain(told)

    def _frame(self) -> Frame:
        rows = [
            ("learned", each.text, each.flow, f"leads to {each.before} now" if each.before else "leads nowhere now")
            for each in self.added
        ]
        rows += [("refused", each.request, ", ".join(each.right), each.why) for each in self.refused]
        columns = ("outcome", "request", "flow", "why")
        return [dict(zip(columns, row, strict=True)) for row in rows], columns


def gain_text(gain: Gain) -> str:
    """A gain in words."""
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
    policy: Policy | None = None,
    most: Positive = MOST_LEARNED,
    refits: Annotated[int, Constraint("a whole number from 2, one before and one after", ge=2)] = 24,
) -> Learned:
    """Make examples of corrections, as far as that lowers nothing.

    What comes of it, indexed, has not fewer of the gate cases' flows first than the flows have without it: that is
    measured on the same catalogue that `sync_registry(…, learned=…)` indexes once it is live.

    Nothing is written: `Learned.version` is what `Overlay.tried` takes. It is also what there is to keep where a
    version before it was good: all of that is in it.

    Args:
        registry: The flows, as their authors wrote them.
        entries: Of a log, the oldest first, such as `OutcomeLog.read(corrected=True)`.
        gate_cases: Labelled requests that a change must not lower; none of them is learned. Those that no flow is for
            must not come to seem to be for one, as far as P(some flow is right) and the thresholds of `policy` say.
        overlay: What was learned before; the live version of it is what is gone on from.
        embedder: As for `ProceduralMemory.open`; it should be the deployment's.
        language: Likewise.
        policy: How the deployment selects.
        most: How many texts a flow learns at most, with those of before.
        refits: How often the gate is asked at most, of two indexes each time: the time that it takes goes by that.

    Raises:
        ConfigError: An option makes no sense.
        EmbeddingError: The embedder failed.
    """
    began = time.perf_counter()
    overlay = overlay or Overlay()
    loaded = await asyncio.to_thread(open_embedder, embedder)
    one = _Lesson(registry, overlay.version("live"), loaded, language, policy, most, refits)
    found = await one.learned(list(entries)[-_MOST_CORRECTIONS:], gate_cases)
    return replace(found, took_s=time.perf_counter() - began)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """What the gate says of one example, before it lands.

    Attributes:
        doubt: Why a person should look at it twice; empty where nothing is doubted.
        why: Why it must not land; empty where it may.
        gain: Shares of the gate's requests before and after; None where there were too few to judge by.
        lost: Requests that it takes away, each with the flow that is right and the one that would come first.
    """

    doubt: str = ""
    why: str = ""
    gain: Gain | None = None
    lost: tuple[tuple[str, str, str], ...] = ()

    @property
    def passes(self) -> bool:
        """Whether it may land."""
        return not self.doubt and not self.why


async def rehearsed(  # noqa: PLR0913 - options with a name
    registry: Mapping[str, BaseFlow],
    request: str,
    flow: str,
    *,
    gate_cases: Sequence[Case] = (),
    overlay: Overlay | None = None,
    embedder: str | Embedder = "auto",
    language: str = "english",
    policy: Policy | None = None,
) -> Rehearsal:
    """What would come of one example, by the filter and the gate of `learn`. Nothing is written.

    Args:
        registry: The flows, as their authors wrote them, or with what was learned.
        request: The text.
        flow: The name of the flow that it would be an example of.
        gate_cases: As for `learn`.
        overlay: As for `learn`.
        embedder: As for `learn`.
        language: As for `learn`.
        policy: As for `learn`.

    Raises:
        EmbeddingError: The embedder failed.
    """
    loaded = await asyncio.to_thread(open_embedder, embedder)
    version = (overlay or Overlay()).version("live")
    lesson = _Lesson(registry, version, loaded, language, policy, MOST_LEARNED, 2)
    return await lesson.rehearsed(Correction(request=request, right=(flow,)), gate_cases)


@dataclass
class _Lesson:
    """One time of learning."""

    _authored: Mapping[str, BaseFlow]
    _version: Version | None
    _embedder: Embedder
    _language: str
    _policy: Policy | None
    _most: int
    _left: int
    _rounds: int = 0
    _refits: int = 0

    async def learned(self, entries: Sequence[Logged], cases: Sequence[Case]) -> Learned:
        """What comes of these entries."""
        names = {flow.name for flow in self._authored.values()}
        found = gathered(entries, names)
        base = taught(self._authored, self._version)
        fresh, held, usable = self._sorted(found.corrections, base.registry, cases)
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

    async def rehearsed(self, one: Correction, cases: Sequence[Case]) -> Rehearsal:
        """What would come of this example alone."""
        base = taught(self._authored, self._version)
        gate = self._gate(base.registry, self._cases(()), cases)
        before, led = await self._routes(gate, corrections=[one])
        near = await asyncio.to_thread(Neighbourhood, gate.spared, self._embedder)
        doubt = near.doubted([one], led).get(0, "")
        if sum(bool(each.right) for each in gate.judged) < _LEAST_JUDGED:
            return Rehearsal(doubt=doubt)
        trial, lost = await self._tried_with(gate, before, [one])
        taken = [(each.asked.request, ", ".join(sorted(each.right)), first) for each, first in lost]
        return Rehearsal(doubt=doubt, why=trial.verdict.why, gain=trial.verdict.gain, lost=tuple(taken[:_MOST_LOST]))

    async def _tried(
        self,
        outcome: Learned,
        registry: FlowRegistry,
        usable: Sequence[Correction],
        kept: Sequence[HeldCase],
        cases: Sequence[Case],
    ) -> Learned:
        """What passes the gate of these corrections, and is learned by that."""
        gate = self._gate(registry, kept, cases)
        fits = sum(bool(each.right) for each in gate.judged)
        if fits < _LEAST_JUDGED:
            few = f"requests to judge by: {fits}, which is too few: label more (--cases FILE, gate_cases=…)"
            return replace(outcome, nothing=few)
        before, led = await self._routes(gate, corrections=usable)
        near = await asyncio.to_thread(Neighbourhood, gate.spared, self._embedder)
        choose = partial(near.chosen, taken=self._taken, most=self._most, most_confirmed=MOST_CONFIRMED)
        examples, refused = await asyncio.to_thread(choose, usable, led)
        outcome = replace(outcome, refused=(*outcome.refused, *refused), refits=self._refits)
        if not examples:
            return replace(outcome, nothing="no correction says anything that can be learned")
        trial = await self._landed(gate, before, examples, near)
        gain = trial.verdict.gain
        outcome = replace(outcome, refits=self._refits, gain=gain, refused=(*outcome.refused, *trial.hurt))
        if trial.verdict.why:
            return replace(outcome, nothing=trial.verdict.why)
        was = {each.request: route.first for each, route in zip(usable, led, strict=True)}
        added = [
            Added(flow=each.flow, text=each.request, before=was[each.request], ids=each.ids) for each in trial.kept
        ]
        return replace(outcome, version=self._next(trial, kept), added=tuple(added))

    def _sorted(
        self, corrections: Sequence[Correction], registry: FlowRegistry, cases: Sequence[Case]
    ) -> tuple[list[Correction], list[Correction], list[Correction]]:
        """Those that are new; of these, those that are judged by, and those that may be learned."""
        known = {spelled(text) for flow in registry.values() for text in flow.examples}
        labelled = Sames((case.request for case in cases), numbers=False)
        earlier = () if self._version is None else self._version.cases
        judging = {spelled(case.request) for case in earlier}
        judged_by = Sames((case.request for case in earlier), numbers=False)
        fresh, held, usable = list[Correction](), list[Correction](), list[Correction]()
        for each in corrections:
            text = spelled(each.request)
            if text in known or labelled.of(each.request):  # what is judged by is not learned, however it is written
                continue
            apart = each.is_held or judged_by.of(each.request) or is_kept_apart(each.request, KEPT_APART)
            (held if apart else usable).append(each)
            if text not in judging:
                fresh.append(each)
        return fresh, held, usable

    @property
    def _taken(self) -> Mapping[str, int]:
        """How many texts each flow has learned before."""
        return {} if self._version is None else {name: len(texts) for name, texts in self._version.examples.items()}

    def _cases(self, held: Sequence[Correction]) -> list[HeldCase]:
        """What is kept to judge by: of before, and new."""
        earlier = () if self._version is None else self._version.cases
        new = [HeldCase(request=each.request, expect=each.right, ids=" ".join(each.ids)) for each in held]
        merged = {spelled(each.request): each for each in (*earlier, *new)}
        return list(merged.values())[-_MOST_CASES:]

    def _gate(self, registry: FlowRegistry, kept: Sequence[HeldCase], cases: Sequence[Case]) -> "_Gate":
        """What is judged by: corrections that are kept apart, what was given, and examples of the flows' own."""
        names = {flow.name for flow in self._authored.values()}
        held = [each.as_case() for each in kept if names.issuperset(each.expect)]
        index, own = spared(registry, self._authored)
        labelled = (*gate_cases(held, "held"), *gate_cases(cases, "case"))
        return _Gate(shipped=registry, spared=index, labelled=labelled, own=tuple(own))

    async def _routes(
        self, gate: "_Gate", examples: Sequence[Correction] = (), corrections: Sequence[Correction] = ()
    ) -> tuple[list[Routed], list[Routed]]:
        """Where the gate's requests lead with these examples more, and the corrected ones."""
        self._rounds += 1
        asked = [*(each.asked for each in gate.own), *(Query(request=each.request) for each in corrections)]
        own = await self._led(_with(gate.spared, examples), asked)
        labelled = await self._led(_with(gate.shipped, examples), [each.asked for each in gate.labelled])
        return [*labelled, *own[: len(gate.own)]], own[len(gate.own) :]

    async def _led(self, registry: FlowRegistry, asked: Sequence[Query]) -> list[Routed]:
        """Where requests lead, over an index of these flows."""
        if not asked:
            return []
        self._refits += 1
        return await led(registry, asked, self._policy, embedder=self._embedder, language=self._language)

    async def _landed(
        self,
        gate: "_Gate",
        before: Sequence[Routed],
        examples: Sequence[Correction],
        near: Neighbourhood,
    ) -> "_Trial":
        """The examples that pass the gate together, what it says of them, and those that were left out, with why.

        All are tried at once, then without those that took requests from their flows, for as long as that is better.
        What was left out is tried again beside what has passed: by flows, by halves of them, one by one, as long as
        there is room. Whoever takes requests away is told which.
        """
        nothing = verdict(gate.judged, before, before)
        landed, failed = _Trial(kept=(), verdict=nothing), _Trial(kept=(), verdict=nothing)
        whys: dict[str, str] = {}
        group, ahead = tuple(sorted(examples, key=lambda each: each.flow)), list[tuple[Correction, ...]]()
        while group and self._rounds < self._left:
            trial, lost = await self._tried_with(gate, before, group)
            blame = await asyncio.to_thread(near.blamed, [(each.asked.request, first) for each, first in lost], group)
            if not trial.verdict.why and (not landed.kept or trial.verdict.gain.after > landed.verdict.gain.after):
                landed = trial
            elif landed.kept:
                break
            else:
                failed = trial
            if not blame:
                break
            guilty = [group[place] for place in blame]
            whys |= {each.request: f"{_HURTS}: {_taken(lost)}" for each in guilty}
            group = tuple(each for each in group if each not in guilty)
        left = [each for each in sorted(examples, key=lambda each: each.flow) if each not in landed.kept]
        ahead += _halves(tuple(left)) if left else []
        while ahead and self._rounds < self._left:
            group = ahead.pop(0)
            trial, lost = await self._tried_with(gate, before, (*landed.kept, *group))
            if not trial.verdict.why and trial.verdict.gain.after >= landed.verdict.gain.after:
                landed = trial
            elif len(group) > 1:
                ahead += _halves(group)
            else:
                failed = trial
                why = f"{_HURTS}: {_taken(lost)}" if lost else trial.verdict.why or _NO_GAIN
                whys |= {each.request: why for each in group}
        if not landed.kept:
            landed = replace(landed, verdict=replace(failed.verdict, why=failed.verdict.why or _NONE_LEFT))
        hurt = [each.refused(whys.get(each.request, _NO_ROOM)) for each in examples if each not in landed.kept]
        return replace(landed, hurt=tuple(hurt))

    async def _tried_with(
        self, gate: "_Gate", before: Sequence[Routed], examples: Sequence[Correction]
    ) -> tuple["_Trial", list[tuple[Gated, str]]]:
        """What the gate says of these examples, and the requests that are lost with them, with who takes each."""
        after, _ = await self._routes(gate, examples)
        found = verdict(gate.judged, before, after)
        lost = [(gate.judged[place], after[place].first) for place in found.lost]
        return _Trial(kept=tuple(examples), verdict=found), lost

    def _next(self, trial: "_Trial", cases: Sequence[HeldCase]) -> Version:
        """All that is learned by now."""
        examples = defaultdict[str, dict[str, str]](dict)
        if self._version is not None:
            examples.update({name: dict(texts) for name, texts in self._version.examples.items()})
        for each in trial.kept:
            examples[each.flow][each.request] = " ".join(each.ids)
        hurt = (
            HeldCase(request=each.request, expect=each.right, why=_HURTS, ids=" ".join(each.ids))
            for each in trial.hurt
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
    """What is judged by, and of which catalogues it is asked, before anything new is learned.

    Adding an example fits all of recall anew, so what holds of one catalogue need not hold of another: labelled
    requests are asked of the one that is shipped.
    """

    shipped: FlowRegistry
    spared: FlowRegistry
    labelled: tuple[Gated, ...]
    own: tuple[Gated, ...]

    @property
    def judged(self) -> tuple[Gated, ...]:
        """All of them, in the order of their routes."""
        return (*self.labelled, *self.own)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """Examples that were tried, what the gate says of them, and those that were left out since they do harm."""

    kept: tuple[Correction, ...]
    verdict: Verdict
    hurt: tuple[Correction, ...] = ()


def _taken(lost: Sequence[tuple[Gated, str]]) -> str:
    """The requests that are lost, to whom they belong, and who takes them."""
    told = [
        f"“{beginning(each.asked.request, _SHOWN)}” ({', '.join(sorted(each.right)) or 'no flow'}) goes to "
        f"{first or 'nothing'}"
        for each, first in lost[:_MOST_NAMED]
    ]
    more = len(lost) - len(told)
    return "; ".join((*told, *([f"and {more} more"] if more else [])))


def _halves(group: Sequence[Correction]) -> list[tuple[Correction, ...]]:
    """By flows where they are for several, and else by their number."""
    if len(group) == 1:
        return [tuple(group)]
    middle = len(group) // 2
    if len({each.flow for each in group}) > 1:
        starts = [place for place in range(1, len(group)) if group[place].flow != group[place - 1].flow]
        middle = min(starts, key=lambda place: abs(place - middle))
    return [tuple(group[:middle]), tuple(group[middle:])]


def _with(index: FlowRegistry, examples: Sequence[Correction]) -> FlowRegistry:
    texts: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for each in examples:
        texts[each.flow][each.request] = ""
    return taught(index, Version(number=1, at="", examples=dict(texts))).registry


def _why_none(found: Sequence[Correction], fresh: Sequence[Correction], refused: Sequence[Correction]) -> str:
    if not found:
        return f"of {len(refused)} corrections none can be used" if refused else "the log has no corrections"
    if not fresh:
        return "all corrections are learned, or are among the labelled requests, already"
    return f"all {len(fresh)} new corrections are kept to judge by; learning begins with more of them"
