"""Syncs: a plan of what is created, updated and deleted, and the writer that applies it and fits recall."""

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from jazz_select.errors import ConfigError, SyncDeletesError, SyncIncompleteError
from jazz_select.json_values import is_object
from jazz_select.memory.encoder import Encoder, TermCounts, folded_names, indexable, payload
from jazz_select.memory.engines.stored_points import FINGERPRINT, LAYOUT, fault_at, fault_in
from jazz_select.memory.fit.fitting import (
    catalogue_digest,
    evidence_digest,
    fit_stages,
    labels_of_persons,
    learn_from_log,
    shuffle_flows,
)
from jazz_select.memory.fit.model import RecallModel
from jazz_select.outcomes.evidence import LEAST, NONE, TOSS, Evidence, Hint, LogEvidence, same_request, witnessed_hints
from jazz_select.ports import FlowStore, Key, Vectors
from jazz_select.text import count_of, one_line, some_of
from jazz_select.threads import in_thread
from jazz_select.values import FlowCard

BATCH, SLOW_BATCH = 256, 32
"""Flows in one batch; fewer with a transformer, so that a sync shows its progress."""
SAMPLE, SLOW_SAMPLE = 2_000, 600
"""Most flows that recall is fitted to; fewer with a transformer."""
ProgressCallback = Callable[[int, int], None]
Cases = Sequence[tuple[str, str]]
_MANY_DELETED = 5
"""Most flows that a sync deletes without `allow_delete`, unless they are half of the agent's."""
_MOST_KINDS = 3
_MOST_ROUNDS = 4
"""Times that a sync looks whether what it wrote is there; after all but the last it writes what is missing."""
_MOST_NAMED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncPlan:
    """Flow ids by what a sync does to them."""

    create: tuple[str, ...] = ()
    update: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()

    @property
    def write(self) -> tuple[str, ...]:
        """All flows that are written."""
        return self.create + self.update

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be written or deleted."""
        return not (self.create or self.update or self.delete)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReport:
    """What a sync did, or would do (`dry_run`): names of flows in the order of the catalogue."""

    created: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    dry_run: bool = False
    notes: tuple[str, ...] = ()
    """What was ignored, and what was repaired."""

    def __str__(self) -> str:
        counts = (
            f"{len(self.created)} created, {len(self.updated)} updated, {len(self.deleted)} deleted, "
            f"{len(self.skipped)} unchanged"
        )
        if self.dry_run:
            counts += " (dry run: nothing was written)"
        return counts


def plan_sync(wanted: Mapping[str, str], stored: Mapping[str, str]) -> SyncPlan:
    """Return the plan from fingerprints by flow id: those of the catalogue, and those in the index.

    It is idempotent: once it is applied, the next plan skips everything.
    """
    create: list[str] = []
    update: list[str] = []
    skip: list[str] = []
    for flow_id, fingerprint in wanted.items():
        if flow_id not in stored:
            create.append(flow_id)
        elif stored[flow_id] != fingerprint:
            update.append(flow_id)
        else:
            skip.append(flow_id)
    delete = [flow_id for flow_id in stored if flow_id not in wanted]
    return SyncPlan(create=tuple(create), update=tuple(update), delete=tuple(delete), skip=tuple(skip))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Indexed:
    """An agent's entries in the index: fingerprints and names by flow id, and unreadable entries."""

    marks: Mapping[str, str]
    names: Mapping[str, str]
    moved: Mapping[str, str]
    """Names by id of flows that are in other layouts alone."""
    elsewhere: Mapping[str, int]
    """Numbers of the agent's entries in other layouts, by the layout."""
    broken: Mapping[Key, "_Broken"]
    """Unreadable entries by key."""
    broken_elsewhere: Sequence["_Broken"]
    """Unreadable entries of other layouts."""

    def lost_entries(self, cards: Mapping[str, FlowCard], written: Collection[Key]) -> list[str]:
        """Return the unreadable entries that a sync to these flows removes; `written` are the keys that it replaces."""
        kept = {*cards, *(card.name for card in cards.values())}
        lost = [each for key, each in self.broken.items() if key not in written]
        lost += self.broken_elsewhere
        return [str(each) for each in lost if each.called not in kept]

    def notes(self, overwritten: Collection[Key]) -> Iterator[str]:
        """Say what a sync mends and removes beside what it reports as deleted; it writes these keys anew."""
        if self.broken:
            kinds = "; ".join(sorted({each.fault for each in self.broken.values()})[:_MOST_KINDS])
            what = f"{len(self.broken)} entries of the index that cannot be read ({kinds}) are written anew or removed"
            removed = [each.called or str(key) for key, each in self.broken.items() if key not in overwritten]
            if removed:
                what += f"; removed: {some_of(removed, _MOST_NAMED, one_line)}"
            yield what
        for layout, count in self.elsewhere.items():
            entries = "1 entry is" if count == 1 else f"{count} entries are"
            yield f"the agent moves here from another layout, where its {entries} removed: {one_line(layout)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Broken:
    fault: str
    called: str
    """Its name, if that can be read."""

    @classmethod
    def from_entry(cls, stored: object, fault: str) -> "_Broken":
        fields = stored if is_object(stored) else dict[str, object]()
        for name in (fields.get("flow_name"), fields.get("flow_id")):
            if isinstance(name, str) and name.strip():
                return cls(fault=fault, called=name)
        return cls(fault=fault, called="")

    def __str__(self) -> str:
        return f"{one_line(self.called) or 'an entry'} (cannot be read: {self.fault})"


def sample_of(cards: Sequence[FlowCard], encoder: Encoder) -> Sequence[FlowCard]:
    """Return the flows that recall is fitted to, of shuffled ones."""
    return cards[: SLOW_SAMPLE if encoder.embedder.offload else SAMPLE]


class IndexWriter:
    """Writes the flows of agents; the caller locks each agent."""

    def __init__(self, store: FlowStore, encoder: Encoder) -> None:
        self._store = store
        self._encoder = encoder

    async def write_one(self, agent_id: str, card: FlowCard) -> None:
        """Write a flow and its names."""
        _check([card], agent_id)
        rows = await in_thread(self._encoder.rows, [card])
        is_noted = await self._store.read_note(agent_id) is not None
        await self._store.upsert(self._encoder.points(agent_id, [card], rows, synced=is_noted))
        await self.outdate(agent_id, card)

    async def outdate(self, agent_id: str, card: FlowCard | None = None, *, without: str = "") -> None:
        """Mark the model as outdated: recall counts its terms again, the next sync fits it.

        Names and numbers of examples are those of now.
        """
        model = RecallModel.from_note(await self._store.read_note(agent_id))
        if model.flows is None:
            return  # nothing is noted, or nothing that can be read
        stale = {without, card.id if card else ""}
        flows = model.flows - {without}
        names = {name: flow for name, flow in model.names.items() if flow not in stale}
        examples = {flow: count for flow, count in model.usual.examples.items() if flow not in stale}
        if card is not None:
            flows |= {card.id}
            examples[card.id] = len(card.examples)
            mine = folded_names(card)
            shared = mine & names.keys()  # a name of two flows finds neither
            names = {name: flow for name, flow in names.items() if name not in shared}
            names |= dict.fromkeys(mine - shared, card.id)
        usual = replace(model.usual, examples=examples)
        outdated = replace(model, digest="", names=names, flows=flows, terms=None, usual=usual)
        await self._store.write_note(agent_id, outdated.as_note())

    async def sync(  # noqa: PLR0913 - options with a name
        self,
        agent_id: str,
        cards: Mapping[str, FlowCard],
        *,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
        cases: Cases = (),
        evidence: LogEvidence | None = None,
        allow_delete: bool = False,
    ) -> SyncReport:
        """Plan, apply and fit, in this order: an interrupted sync is finished by the next one."""
        await in_thread(_check, cards.values(), agent_id)
        indexed = await self._read_index(agent_id)
        wanted = await in_thread(lambda: {each: self._encoder.fingerprint(card) for each, card in cards.items()})
        plan = plan_sync(wanted, indexed.marks)
        names = {**indexed.moved, **indexed.names}
        gone = [*plan.delete, *(each for each in indexed.moved if each not in wanted)]
        gone.sort(key=names.__getitem__)
        overwritten: set[Key] = set()
        if indexed.broken:
            overwritten = {self._store.key(agent_id, each) for each in plan.write}
        lost = [*(names[each] for each in gone), *indexed.lost_entries(cards, overwritten)]
        total = len(names) + len(indexed.broken) + len(indexed.broken_elsewhere)
        if not (dry_run or allow_delete) and len(lost) > max(_MANY_DELETED, total / 2):
            raise SyncDeletesError(agent_id, deleted=lost, total=total)
        notes = tuple(indexed.notes(overwritten))
        notes += await self._missing_source_notes(agent_id, labels=not cases, log=evidence is None)
        if not dry_run:
            order = shuffle_flows(cards.values())
            chosen = sample_of(order, self._encoder)
            if not plan.is_empty:
                await self.outdate(agent_id)  # where this is cut short, the words are of neither catalogue
            made = await self._apply(agent_id, plan, cards, progress, kept={card.id for card in chosen})
            await self._store.delete(agent_id, [key for key in indexed.broken if key not in overwritten])
            lesson = _Lesson(
                cards=order,
                sample=chosen,
                cases=cases,
                digest=catalogue_digest(wanted, cases),
                seen=await self._read_evidence(evidence, order),
            )
            fit = partial(self._fit, agent_id, lesson)
            await fit(made)
            if evidence is not None:
                notes += (lesson.seen.note,)
            if self._store.shared and not plan.is_empty:
                again = await self._complete(agent_id, cards, wanted, fit)
                plan = replace(
                    plan,
                    create=(*plan.create, *(each for each in plan.skip if each in again)),
                    skip=tuple(each for each in plan.skip if each not in again),
                )
                if again:
                    notes += (f"the index lost {len(again)} flows while the sync wrote: they were written again",)
            await self._store.forget_other_layouts(agent_id)
        names |= {each: card.name for each, card in cards.items()}
        return _report(replace(plan, delete=tuple(gone)), names, dry_run=dry_run, notes=notes)

    async def _complete(
        self,
        agent_id: str,
        cards: Mapping[str, FlowCard],
        wanted: Mapping[str, str],
        fit: Callable[[Mapping[str, Vectors]], Awaitable[None]],
    ) -> Collection[str]:
        """Write again what is missing, since others may delete what a sync has written; return these flow ids.

        Flows that others wrote meanwhile are left to the next sync.

        Raises:
            SyncIncompleteError: Flows are missing again and again.
        """
        again = set[str]()
        missing: tuple[str, ...] = ()
        for _ in range(_MOST_ROUNDS):
            payloads = await self._store.payloads(agent_id)
            stored = {str(each.get("flow_id")): str(each.get(FINGERPRINT)) for each in payloads.values()}
            missing = plan_sync(wanted, stored).write
            if not missing and await self._store.read_note(agent_id) is not None:
                return again
            again.update(missing)
            made = await self._apply(agent_id, SyncPlan(update=missing), cards, None, kept=set())
            await fit(made)
        raise SyncIncompleteError(agent_id, missing=[cards[each].name for each in missing], total=len(cards))

    async def _read_index(self, agent_id: str) -> _Indexed:
        marks: dict[str, str] = {}
        names: dict[str, str] = {}
        broken: dict[Key, _Broken] = {}
        for key, each in (await self._store.payloads(agent_id)).items():
            if fault := fault_at(self._store, agent_id, key, each):
                broken[key] = _Broken.from_entry(each, fault)
            else:
                marks[each["flow_id"]] = str(each.get(FINGERPRINT))
                names[each["flow_id"]] = _name_in(each)
        moved: dict[str, str] = {}
        broken_elsewhere: list[_Broken] = []
        elsewhere = Counter[str]()
        for each in await self._store.elsewhere(agent_id):
            elsewhere[str(each.get(LAYOUT, "an unknown one"))] += 1
            if fault := fault_in(each, agent_id):
                broken_elsewhere.append(_Broken.from_entry(each, fault))
            elif each["flow_id"] not in names:
                moved[each["flow_id"]] = _name_in(each)
        return _Indexed(
            marks=marks,
            names=names,
            moved=moved,
            elsewhere=elsewhere,
            broken=broken,
            broken_elsewhere=broken_elsewhere,
        )

    async def _missing_source_notes(self, agent_id: str, *, labels: bool, log: bool) -> tuple[str, ...]:
        """Return notes on what an earlier sync learned from, where this one has no `labels` or no `log`."""
        if not (labels or log):
            return ()
        earlier = RecallModel.from_note(await self._store.read_note(agent_id))
        notes: list[str] = []
        if labels and earlier.labelled:
            were = count_of(earlier.labelled, "labelled request")
            what = "confidence is learned from the examples alone again"
            notes.append(
                f"an earlier sync learned from {were}, and this one was given none: {what}; cases=… gives them anew"
            )
        if log and (earlier.evidence is not None or earlier.persons):
            count = len(earlier.persons)
            if earlier.evidence is not None:
                count = earlier.evidence.agreement.requests
            were = count_of(count, "logged request")
            notes.append(
                f"an earlier sync learned from {were}, and this one was given no log: evidence=… gives it anew"
            )
        return tuple(notes)

    async def _read_evidence(self, evidence: LogEvidence | None, cards: Sequence[FlowCard]) -> "_LogSample":
        """Return what is learned from a log: what counts by itself, and hints with enough witnesses."""
        if evidence is None or not any(card.examples for card in cards):
            return _LogSample(has_examples=evidence is None)
        names = {NONE, *(card.name for card in cards)}
        last: dict[tuple[str, str], Hint] = {}  # repetition by one witness says nothing more
        for hint in evidence.hints:
            if hint.right in names:
                last[same_request(hint.request), hint.witness] = hint
        hints = list(last.values())[-_MOST_HINTS:]
        embed = partial(self._encoder.embed, keeps=True)
        alike = await in_thread(lambda: _near_hints(hints, embed([indexable(hint.request) for hint in hints])))
        kept = [*evidence.certain, *witnessed_hints(hints, may_change=evidence.may_change, alike=alike)]
        labelled = [each for each in kept if each.right in names]
        trusted = sum(each.trust > TOSS for each in labelled)
        if trusted < LEAST:
            by_person = [each for each in labelled if each.by_person]
            return _LogSample(too_few=trusted, persons=tuple(by_person))
        # Where there are too many, those of persons are kept first, then the latest.
        found = sorted((*labelled, *evidence.alone), key=lambda each: (not each.by_person, -each.at))
        found = sorted(found[:_MOST_SEEN], key=lambda each: each.at)
        vectors = await in_thread(embed, [indexable(each.request) for each in found])
        return _LogSample(evidence=tuple(found), vectors=vectors)

    async def _apply(
        self,
        agent_id: str,
        plan: SyncPlan,
        cards: Mapping[str, FlowCard],
        progress: ProgressCallback | None,
        *,
        kept: set[str],
    ) -> dict[str, Vectors]:
        made: dict[str, Vectors] = {}
        total, size = len(plan.write), SLOW_BATCH if self._encoder.embedder.offload else BATCH
        for start in range(0, total, size):
            batch = [cards[each] for each in plan.write[start : start + size]]
            rows = await in_thread(self._encoder.rows, batch)
            points = partial(self._encoder.points, agent_id, batch, rows, synced=True)
            await self._store.upsert(await in_thread(points))
            made |= {each: vectors for each, vectors in rows.items() if each in kept}
            if progress:
                progress(start + len(batch), total)
        await self._store.delete(agent_id, [self._store.key(agent_id, each) for each in plan.delete])
        return made

    async def _fit(self, agent_id: str, lesson: "_Lesson", made: Mapping[str, Vectors]) -> None:
        note = await self._store.read_note(agent_id)
        noted = RecallModel.from_note(note, dims=self._encoder.dims)
        learned = lesson.seen.evidence or lesson.seen.persons
        mark = evidence_digest(lesson.digest, learned) if learned else ""
        flows = frozenset(card.id for card in lesson.cards)
        is_fitted = noted.terms is not None and (noted.digest, noted.flows) == (lesson.digest, flows)
        if is_fitted and noted.learned_from == mark:
            return
        if not lesson.sample and note is None:
            return
        fitted = noted if is_fitted else await self._fit_anew(lesson, made)
        fitted = await self._learn_evidence(fitted, lesson.cards, lesson.seen)
        await self._store.write_note(agent_id, replace(fitted, learned_from=mark).as_note())

    async def _fit_anew(self, lesson: "_Lesson", made: Mapping[str, Vectors]) -> RecallModel:
        cards, cases = lesson.cards, lesson.cases
        terms = await in_thread(lambda: TermCounts.from_documents(map(self._encoder.lexical.terms, cards)))
        key = (str(self._encoder.layout), lesson.digest)
        model = _RECENT_FITS.get(key)
        if model is None:
            rest = [card for card in lesson.sample if card.id not in made]
            rows = {**made, **await in_thread(self._encoder.rows, rest)}
            model = _RECENT_FITS[key] = await in_thread(self._fit_model, cards, rows, lesson.digest, cases, terms)
            for oldest in [*_RECENT_FITS][:-_MOST_FITS]:
                _RECENT_FITS.pop(oldest, None)
        return replace(model, flows=frozenset(card.id for card in cards), terms=terms, labelled=len(cases))

    async def _learn_evidence(self, model: RecallModel, cards: Sequence[FlowCard], seen: "_LogSample") -> RecallModel:
        """Return the model of a catalogue with what a log teaches each of its stages; without, if that is nothing.

        Of too few requests, the words of persons hold for these requests all the same.
        """
        second = model.second
        if not seen.evidence:
            persons = labels_of_persons(seen.persons)
            second = None if second is None else replace(second, evidence=None, persons=persons)
            return replace(model, evidence=None, persons=persons, second=second)
        encoder = self._encoder

        whole = await in_thread(encoder.rows, cards)

        def learn(stage: int, fitted: RecallModel) -> RecallModel:
            rows = {flow: encoder.of_stage(stage, each) for flow, each in whole.items()}
            vectors = encoder.of_stage(stage, seen.vectors)
            with threadpool_limits(1, user_api="blas"):
                return learn_from_log(fitted, cards, rows, encoder.lexical, seen.evidence, vectors)

        if second is not None:
            second = await in_thread(learn, 1, replace(second, terms=model.terms))
        return replace(await in_thread(learn, 0, model), second=second)

    def _fit_model(
        self,
        cards: Sequence[FlowCard],
        rows: Mapping[str, Vectors],
        digest: str,
        cases: Cases,
        terms: TermCounts,
    ) -> RecallModel:
        encoder = self._encoder
        vectors = encoder.embed([indexable(text) for text, _ in cases])
        stages: list[tuple[dict[str, Vectors], list[tuple[str, str, Vectors]]]] = []
        for stage in range(len(encoder.stages)):
            own_rows = {flow: encoder.of_stage(stage, row) for flow, row in rows.items()}
            own_vectors = encoder.of_stage(stage, vectors)
            labelled = [(text, flow, vector) for (text, flow), vector in zip(cases, own_vectors, strict=True)]
            stages.append((own_rows, labelled))
        # On a busy machine BLAS threads that wait for each other make small matrices take a hundred times longer.
        with threadpool_limits(1, user_api="blas"):
            return fit_stages(cards, stages, encoder.lexical, digest=digest, terms=terms)


@dataclass(frozen=True, slots=True, kw_only=True)
class _LogSample:
    """What a sync learns from a log, oldest first, with vectors.

    If it is too few to learn from, `too_few` is their number, and `persons` are those that persons spoke of.
    """

    evidence: tuple[Evidence, ...] = ()
    persons: tuple[Evidence, ...] = ()
    vectors: Vectors = field(default_factory=lambda: np.zeros((0, 0), dtype=np.float32))
    too_few: int = 0
    has_examples: bool = True

    @property
    def note(self) -> str:
        """What was learned, in words."""
        if not self.has_examples:
            return "no flow has examples, so nothing is learned from the log"
        if not self.evidence:
            note = f"{count_of(self.too_few, 'logged request')} can be learned from, and {LEAST} are needed"
            if self.persons:
                note += f"; what persons said of {len(self.persons)} of them holds for these alone"
            return note
        kinds = Counter(each.source.kind for each in self.evidence if each.trust > TOSS)
        by_persons, by_models, labelled = kinds["person"], kinds["model"], kinds.total()
        hinted = labelled - by_persons - by_models
        return (
            f"learned from {count_of(labelled, 'logged request')}: models chose for {by_models}, "
            f"persons corrected {by_persons}, several witnesses agreed on {hinted}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lesson:
    """What recall is fitted to.

    Attributes:
        cards: All flows of the catalogue, shuffled.
        sample: Those that recall is fitted to.
        cases: Labelled requests.
        digest: A digest of flows and labelled requests.
        seen: What is learned from a log.
    """

    cards: Sequence[FlowCard]
    sample: Sequence[FlowCard]
    cases: Cases
    digest: str
    seen: _LogSample


def _near_hints(hints: Sequence[Hint], vectors: Vectors) -> list[list[int]]:
    """Return for each hint the places of those for the same flow whose requests are near it, itself among them."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, each in enumerate(hints):
        places[each.right].append(place)
    found: list[list[int]] = [[] for _ in hints]
    for own in places.values():
        rows = vectors[own]
        for start in range(0, len(own), _BLOCK):
            cosines = rows[start : start + _BLOCK] @ rows.T
            for place, near in zip(own[start : start + _BLOCK], cosines >= _NEAR, strict=True):
                others = [own[each] for each in np.flatnonzero(near) if own[each] != place]
                found[place] = [place, *others]  # itself, even with a zero vector
    return found


_NEAR, _BLOCK = 0.8, 1_000
"""Cosine from which two requests mean the same, for witnesses; and how many are compared at once."""
_MOST_HINTS = 2_000
"""Most hints that are compared with each other: the newest."""
_MOST_SEEN = 10_000
"""Most logged requests that are learned from: those that persons spoke of, and the newest others."""
_MOST_FITS = 8
_RECENT_FITS: dict[tuple[str, str], RecallModel] = {}
"""The last models of this process, by layout and digest of the catalogue: other agents and indexes with the same flows
need no fit of their own."""


def _check(cards: Iterable[FlowCard], agent_id: str) -> None:
    for card in cards:
        if fault := fault_in(payload(card), agent_id):
            raise ConfigError(f"flow {card.name[:80]!r} cannot be indexed: {fault}")


def _name_in(stored: Mapping[str, Any]) -> str:
    return stored.get("flow_name") or stored["flow_id"]


def _report(plan: SyncPlan, names: Mapping[str, str], *, dry_run: bool, notes: tuple[str, ...]) -> SyncReport:
    def named(ids: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(names[each] for each in ids)

    return SyncReport(
        created=named(plan.create),
        updated=named(plan.update),
        deleted=named(plan.delete),
        skipped=named(plan.skip),
        dry_run=dry_run,
        notes=notes,
    )
