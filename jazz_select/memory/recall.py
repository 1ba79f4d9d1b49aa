"""Recall: encode a request, search both arms, and fuse the hits into candidates with confidence."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, chain, islice, zip_longest
from math import isfinite
from typing import Any

import numpy as np

from jazz_select.errors import EmbeddingError
from jazz_select.memory.encoder import Encoder, folded_alias
from jazz_select.memory.engines.stored_points import fault_at
from jazz_select.memory.fit.model import MOST_SIZED, RecallModel, Signals, best_first
from jazz_select.memory.languages import is_in_another
from jazz_select.memory.requests import (
    HOLLOW,
    LONG,
    MEANT_WEIGHT,
    EncodedRequest,
    RecallQuery,
    RecallScope,
    clarity,
    names_in,
    nearness,
    read_texts,
    shorten_query,
    written_now,
)
from jazz_select.outcomes.evidence import NONE, request_digest
from jazz_select.ports import ArmHits, FlowStore, HybridQuery, Key, Vectors
from jazz_select.stages import Thresholds, confidence_if_some, listed_confidences
from jazz_select.text import in_log
from jazz_select.threads import give_way
from jazz_select.values import AUTO, UNSIZED, Candidate, RecallResult

ARM_DEPTH = 30
CLAUSE_WEIGHT = 0.25
"""Weight of a clause's score beside the whole request's; more of it harms requests for one thing."""
EVEN = 0.5
"""Clarity from which on a request's features are its own, and below which those of its context."""
_log = logging.getLogger(__name__)
_UNCLEAR_CLAUSE = 3
"""Most candidates that one clause adds: a short clause often says too little, and would fill the list by itself."""
_MOST_FAULTS = 3
_BATCH = 64
"""Requests in one round trip."""


async def _fuse_recalls(
    store: FlowStore,
    model: RecallModel,
    found: Sequence[Signals],
    *,
    asked: EncodedRequest,
    scope: RecallScope,
) -> RecallResult:
    scores, place = _score_request(found, asked, scope.rrf_k)
    evidence = found[place]
    whole_name, mentioned = _flows_named(store, model, scope, asked.request)
    order = best_first(scores)
    learned = _learned_chances(store, model, scope, evidence, asked, place)
    if learned is not None:
        order = learned.ordered(order)
        scores = {**dict.fromkeys(order, 0.0), **scores}
    if whole_name is not None:  # before all others, though recall may not have found it
        scores = {**scores, whole_name: max(scores.values(), default=0.0)}
        order = [whole_name, *(key for key in order if key != whole_name)]
    unfound = [key for key in mentioned if key not in scores]
    if unfound:
        scores = {**scores, **dict.fromkeys(unfound, 0.0)}
        order = [*order, *unfound]
    parts = [evidence, *found[1 : 1 + len(asked.clauses)]]
    offer = _offer(order, mentioned, parts, model=model, scope=scope, whole_name=whole_name)
    in_turn = chain(offer.keys, (key for key in order if key not in offer.keys))
    payloads, faults = await _read_payloads(store, in_turn, evidence.legs.payloads, scope)
    result = _result(payloads, offer, scores, evidence, model=model, learned=learned)
    if faults:
        result.notes = (_passed_over([*faults.values()]),)
    elif not result and not scope.exclude:
        result.notes = (nothing_indexed(scope.agent_id),)
    if len(mentioned) > scope.most:
        result.notes = (*result.notes, f"{len(mentioned)} flows are named in the request, and {scope.most} are offered")
    return result


def _score_request(found: Sequence[Signals], asked: EncodedRequest, rrf_k: int) -> tuple[Mapping[Key, float], int]:
    """Return the scores of a request, and the place of the text whose features are the request's own.

    That is the request alone, or with its context if it says little by itself.
    """
    each_scored = [each.scores(rrf_k) for each in found]
    scores = _own_scores(each_scored, asked)
    if not asked.widened:
        return scores, 0
    nearest = max(found[0].legs.dense.values(), default=0.0)
    clear = clarity(nearest=nearest, hollow=asked.hollow, content_words=asked.content_words)
    return _mix_scores(scores, each_scored[-1], clear), -1 if clear < EVEN else 0


def _result(
    payloads: Mapping[Key, Mapping[str, Any]],
    offer: "_Offer",
    scores: Mapping[Key, float],
    evidence: Signals,
    *,
    model: RecallModel,
    learned: "_LearnedChances | None",
) -> RecallResult:
    """Return the readable flows of an offer; where some cannot be read, the next best ones take their places."""
    offered = [*payloads][: len(offer.keys)]
    p_none = model.p_none(evidence) if learned is None else learned.p_none
    if offer.whole_name in offered:
        p_none = 0.0

    def listed(keys: Sequence[Key]) -> Sequence[float | None]:
        if learned is not None:
            return learned.listed(keys, whole_name=offer.whole_name)
        if model.confidence is None:
            return [1.0 if key == offer.whole_name else None for key in keys]
        chances: list[float] = []
        for key in keys:
            is_named = key == offer.whole_name
            chances.append(1.0 if is_named else evidence.chance(model.confidence, key))
        return listed_confidences(chances, p_none=p_none)

    candidates = _candidates(
        {key: payloads[key] for key in offered},
        scores,
        evidence.legs,
        whole_name=offer.whole_name,
        listed=listed,
        is_ordered=learned is not None,
    )
    result = RecallResult(each.as_metadata() for each in candidates)
    result.read = candidates
    if offer.why:
        result.sized = f"{len(candidates)} of at most {MOST_SIZED}: {offer.why}"
        result.beyond = tuple(payloads[key].get("flow_name", "") for key in payloads if key not in offered)
    result.p_none = p_none
    result.caveat, result.answers = model.caveat, model.answers
    if learned is not None:
        result.caveat, result.thresholds = "", learned.thresholds
        if learned.is_told:  # and no answer to an example says how sure that is
            result.answers = None
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class _LearnedChances:
    """P(right) of flows by what was learned from a log together with recall: by store key, and of none.

    `is_told` says that a person spoke of this very request.
    """

    chances: Mapping[Key, float]
    p_none: float
    thresholds: Thresholds | None
    is_told: bool

    def ordered(self, keys: Sequence[Key]) -> list[Key]:
        """Return the likely flows, the likeliest first, and then all other keys in their order."""
        likely = [key for key, chance in self.chances.items() if chance >= _UNLIKELY]
        known = frozenset(likely)
        likely.sort(key=self.chances.__getitem__, reverse=True)
        return [*likely, *(key for key in keys if key not in known)]

    def listed(self, keys: Sequence[Key], *, whole_name: Key | None) -> list[float]:
        """Return the confidences of candidates in this order, descending."""
        if whole_name in keys:
            return [float(key == whole_name) for key in keys]
        return [*accumulate((self.chances.get(key, 0.0) for key in keys), min)]


_UNLIKELY = 0.001
"""Below this P(right), what was learned says nothing of the order."""


def _learned_chances(
    store: FlowStore, model: RecallModel, scope: RecallScope, signals: Signals, asked: EncodedRequest, place: int
) -> _LearnedChances | None:
    """Return what a log says of a request; None without a log, or without a vector.

    What a person said of this very request is true, unless context may give it another meaning.
    """
    vector = asked.vectors[place] if asked.vectors else None
    excluded = frozenset(scope.exclude)
    flows = model.flows or frozenset()
    right: str | None = None
    if model.persons and not asked.widened:
        right = model.persons.get(request_digest(asked.request))
    is_told = right is not None and (right == NONE or (right in flows and right not in excluded))
    if right is not None and is_told:
        chances, p_none = {right: 1.0}, float(right == NONE)
    elif model.evidence is None or vector is None:
        return None
    else:
        recalled = {model.ids[key]: chance for key, chance in model.chances(signals).items() if key in model.ids}
        chances, p_none = model.evidence.chances(vector, recalled)
    by_key: dict[Key, float] = {}
    for flow, chance in chances.items():
        if chance >= _UNLIKELY and flow in flows and flow not in excluded:
            by_key[store.key(scope.agent_id, flow)] = chance
    return _LearnedChances(
        chances=by_key,
        p_none=p_none,
        thresholds=model.thresholds,
        is_told=is_told,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Offer:
    """The flows to offer.

    Attributes:
        keys: The flows, best first.
        why: Why there are as many, where recall chose their number.
        whole_name: The flow whose name the request is, word for word.
    """

    keys: tuple[Key, ...]
    why: str = ""
    whole_name: Key | None = None


def _offer(
    order: Sequence[Key],
    mentioned: Sequence[Key],
    parts: Sequence[Signals],
    *,
    model: RecallModel,
    scope: RecallScope,
    whole_name: Key | None,
) -> _Offer:
    """Return what to offer: what is named and what each clause needs, and the best of the rest."""
    why = ""
    if scope.top_k == AUTO and whole_name is not None:
        wanted, count, why = [whole_name], 1, "the request is the name of a flow, word for word"
    elif scope.top_k == AUTO:
        needed, count, why = _choose_size(model, parts, scope.coverage)
        wanted = [*dict.fromkeys((*order[:1], *mentioned, *needed))]
        count = min(max(count, len(wanted)), MOST_SIZED)
    else:
        firsts: list[Key] = []
        for evidence in parts[1:]:
            firsts += evidence.best(1)
        # The best one stays, whatever is named: a name of one word may be an ordinary word of the request.
        wanted, count = [*dict.fromkeys((*order[:1], *mentioned, *firsts))], scope.top_k
    certain = frozenset(wanted[:count])
    others = count - len(certain)
    keys: list[Key] = []
    for key in order:
        if len(keys) == count:
            break
        if key in certain:
            keys.append(key)
        elif others > 0:
            keys.append(key)
            others -= 1
    return _Offer(keys=tuple(keys), why=why, whole_name=whole_name)


def _own_scores(each_scored: Sequence[Mapping[Key, float]], asked: EncodedRequest) -> Mapping[Key, float]:
    """Return the scores of a request without its context: of the whole, its clauses and its wanted part."""
    ends = 1 + len(asked.clauses)
    scores = each_scored[0]
    if asked.clauses:
        scores = _add_clause_scores(scores, each_scored[1:ends], CLAUSE_WEIGHT)
    if not asked.meant:
        return scores
    return _mix_scores(each_scored[ends], scores, MEANT_WEIGHT)


def _choose_size(model: RecallModel, parts: Sequence[Signals], coverage: float) -> tuple[Sequence[Key], int, str]:
    """Return the flows that are needed, the number to offer, and its reason; `parts` are the request and its clauses.

    What the clauses need comes first, the likeliest of each before the next ones. A clause that says little by itself
    adds its first few.
    """
    if model.sets is None or model.confidence is None:
        return (), UNSIZED, f"how many are needed is not known: {model.caveat}"
    if not all(evidence.legs.dense for evidence in parts):
        return (), MOST_SIZED, "how many are needed is not known where BM25 alone reads the request"
    needs: list[Sequence[Key]] = []
    for evidence in parts:
        best = evidence.best(MOST_SIZED)
        size = model.sets.size([evidence.chance(model.confidence, key) for key in best], coverage)
        needs.append(best[: min(size, _UNCLEAR_CLAUSE)] if needs else best[:size])
    whole, *clauses = needs
    needed_in_turn: dict[Key, None] = {}
    for places in zip_longest(*clauses):
        needed_in_turn |= dict.fromkeys(key for key in places if key is not None)
    needed = [*(needed_in_turn | dict.fromkeys(whole))]
    share = f"{100 * coverage:g} of 100 requests like the examples"
    if len(needed) >= MOST_SIZED:
        return needed[:MOST_SIZED], MOST_SIZED, f"more may be needed to hold the right flow in {share}"
    return needed, len(needed), f"together they hold the right flow in {share}"


async def _read_payloads(
    store: FlowStore, in_turn: Iterator[Key], known: Mapping[Key, Mapping[str, Any]], scope: RecallScope
) -> tuple[dict[Key, Mapping[str, Any]], dict[Key, str]]:
    """Return the payloads of the first readable flows, as many as may be offered, and the faults of those before them.

    `in_turn` yields the flows, best first: the next ones take the places of those that cannot be read.
    """
    payloads: dict[Key, Mapping[str, Any]] = {}
    faults: dict[Key, str] = {}
    while True:
        new = list(islice(in_turn, scope.most - len(payloads)))
        if not new:  # enough are readable, or there are no more
            return payloads, faults
        missing = [key for key in new if key not in known]
        retrieved = await store.retrieve(missing) if missing else {}
        for key in new:
            payload = known[key] if key in known else retrieved.get(key)
            if payload is None:  # it is not in the index any more
                continue
            fault = fault_at(store, scope.agent_id, key, payload)
            if fault:
                faults[key] = fault
            else:
                payloads[key] = payload


def _flows_named(
    store: FlowStore, model: RecallModel, scope: RecallScope, request: str
) -> tuple[Key | None, tuple[Key, ...]]:
    """Return the flow whose name, title or alias the request is, and all flows with one that stands in it."""
    words = folded_alias(request)
    keys: dict[str, Key] = {}
    for flow_id in names_in(words, model.names, model.name_lengths):
        if flow_id not in scope.exclude:
            keys[flow_id] = store.key(scope.agent_id, flow_id)
    return keys.get(model.names.get(words, "")), tuple(keys.values())


def _passed_over(faults: Sequence[str]) -> str:
    flows = "a flow" if len(faults) == 1 else f"{len(faults)} flows"
    kinds = "; ".join(sorted(set(faults))[:_MOST_FAULTS])
    return (
        f"{flows} in the index cannot be read ({kinds}), so passed over: run sync_registry (jazz-select sync), which "
        "mends the index"
    )


def _candidates(
    payloads: Mapping[Key, Mapping[str, Any]],
    scores: Mapping[Key, float],
    legs: ArmHits,
    *,
    whole_name: Key | None,
    listed: Callable[[Sequence[Key]], Sequence[float | None]],
    is_ordered: bool,
) -> tuple[Candidate, ...]:
    """Return the candidates, best first; unless `is_ordered`, ties go by the author's priority."""
    arms = {"dense": legs.dense, "bm25": legs.bm25}
    ranked = {arm: [*found] for arm, found in arms.items()}

    def place(key: Key) -> tuple[bool, float, tuple[int, ...]]:
        return key != whole_name, -round(scores[key], 9), tuple(-part for part in payloads[key].get("priority", ()))

    def make_candidate(key: Key, payload: Mapping[str, Any], sure: float | None) -> Candidate:
        own = {arm: found[key] for arm, found in arms.items() if key in found}
        return Candidate(
            flow_id=payload["flow_id"],
            flow_name=payload.get("flow_name", ""),
            flow_type=payload.get("flow_type", ""),
            description=payload.get("description", ""),
            condition=payload.get("condition", ""),
            desired_effects=tuple(payload.get("desired_effects", ())),
            score=scores[key],
            ranks={arm: 1 + ranked[arm].index(key) for arm in own},
            scores=own,
            confidence=sure,
        )

    keys = list(payloads)
    priorities = [payload.get("priority", ()) for payload in payloads.values()]
    if not is_ordered and any(each != priorities[0] for each in priorities):
        keys.sort(key=place)
    return tuple(make_candidate(key, payloads[key], sure) for key, sure in zip(keys, listed(keys), strict=True))


def nothing_indexed(agent_id: str) -> str:
    """Return the note about an agent without flows in the index."""
    return f"agent {agent_id!r} has no flows in this index: run sync_registry (jazz-select sync) first"


def _without_infinite_scores(legs: ArmHits) -> ArmHits:
    """Return the legs without scores that are not finite: foreign weights may overflow an engine's sums."""
    if isfinite(sum(legs.dense.values()) + sum(legs.bm25.values())):
        return legs
    _log.warning("flows of the index have scores that are no numbers, so passed over")
    return ArmHits(dense=_finite(legs.dense), bm25=_finite(legs.bm25), payloads=legs.payloads)


def _finite(scores: Mapping[Key, float]) -> dict[Key, float]:
    return {key: score for key, score in scores.items() if isfinite(score)}


def _add_clause_scores(
    whole: Mapping[Key, float], clauses: Sequence[Mapping[Key, float]], weight: float
) -> dict[Key, float]:
    """Return the request's scores plus `weight` times each flow's best clause score."""
    total = dict(whole)
    keys: set[Key] = set()
    for clause in clauses:
        keys.update(clause)
    for key in keys:
        best = max(clause.get(key, 0.0) for clause in clauses)
        total[key] = total.get(key, 0.0) + weight * best
    return total


def _mix_scores(alone: Mapping[Key, float], widened: Mapping[Key, float], clarity: float) -> dict[Key, float]:
    """Return the mean of both scores, weighted by the clarity of the request alone."""
    return {
        key: clarity * alone.get(key, 0.0) + (1.0 - clarity) * widened.get(key, 0.0)
        for key in dict.fromkeys((*alone, *widened))
    }


class Retriever:
    """Answers requests from a store and an encoder of the same layout."""

    def __init__(self, store: FlowStore, encoder: Encoder) -> None:
        self._store = store
        self._encoder = encoder
        self._language: str = getattr(encoder.embedder, "language", "")
        self._hollow: dict[int, Vectors] = {}
        """The vectors of `HOLLOW` by stage, made at first use."""

    async def recall(
        self, queries: Sequence[str], focuses: Sequence[str], scope: RecallScope, model: RecallModel
    ) -> list[RecallResult]:
        """Return one result per query; a focus is the part of its query that was said last, or empty."""
        requests: list[RecallQuery] = []
        for query, focus in zip(queries, focuses, strict=True):
            requests.append(RecallQuery(query=written_now(query), focus=written_now(focus)))
        for number, each in enumerate(requests):
            if len(each.own_text) >= LONG:
                requests[number] = await shorten_query(
                    each, scope, self._store, lexical=self._encoder.lexical, terms=model.terms
                )
                if len(requests) > 1:
                    await give_way()
        read = self._by_cascade if len(self._encoder.stages) > 1 else self._by_embedder
        found: list[RecallResult] = []
        for start in range(0, len(requests), _BATCH):
            found += await read(requests[start : start + _BATCH], scope, model)
            await give_way()  # an engine in this process answers at once, and others wait too
        return found

    async def _by_cascade(
        self, requests: Sequence[RecallQuery], scope: RecallScope, model: RecallModel
    ) -> list[RecallResult]:
        """Answer by the first embedder what is in its language, or what it is sure of; the rest by the second alone.

        If the second fails, the first one's answer stands, with a note.
        """
        first, second = _names([stage.identity for stage in self._encoder.stages])
        results = [RecallResult() for _ in requests]
        degraded: tuple[str, ...] = ()
        skipped = f"{first} is not calibrated"  # why the first embedder answers nothing; empty if it may
        own = {place for place, request in enumerate(requests) if not self._is_foreign(request)}
        if self._language or model.sure is not None:
            own_requests = [requests[place] for place in sorted(own)]
            try:
                found = await self._by_embedder(own_requests, scope, model, strict=True)
                for place, result in zip(sorted(own), found, strict=True):
                    results[place] = result
                skipped = ""
            except EmbeddingError as error:
                _log.warning(
                    "embedder=<%s>, error=<%s> | the second answers all", error.embedder, in_log(error.problem)
                )
                skipped = f"{first} failed"
                degraded = (f"recall without {first}: {error}",)
        unanswered: list[int] = []
        for place, result in enumerate(results):
            result.stage = first
            result.why = skipped or self._why_first(result, first, model, is_own=place in own)
            is_answered = place in own if self._language else _passes(result, model.sure)
            if skipped or not is_answered:
                unanswered.append(place)
        try:
            unfitted = RecallModel(names=model.names, name_lengths=model.name_lengths, caveat=model.caveat)
            fitted = model.second or unfitted
            read = await self._by_embedder(
                [requests[place] for place in unanswered], scope, fitted, stage=1, strict=True
            )
        except EmbeddingError as error:
            _log.warning("embedder=<%s>, error=<%s> | the first answers all", error.embedder, in_log(error.problem))
            if skipped:
                results = await self._by_embedder(requests, scope, model)
            for place in unanswered:
                result = results[place]
                result.stage = first
                result.why = f"{second} failed"
                result.notes = (*result.notes, f"recall without {second}: {error}")
            return results
        for place, result in zip(unanswered, read, strict=True):
            result.stage = second
            result.why = results[place].why
            result.reread = True
            result.notes = (*result.notes, *degraded)
            results[place] = result
        return results

    def _why_first(self, result: RecallResult, first: str, model: RecallModel, *, is_own: bool) -> str:
        """Return why the first embedder answers a request, or hands it on: its language, or how sure it is."""
        if not self._language:
            return _why_read(first, result, model.sure or 0.0)
        return f"it is in {self._language}" if is_own else f"it is not in {self._language}"

    def _is_foreign(self, requests: RecallQuery) -> bool:
        return bool(self._language) and is_in_another(requests.own_text, self._language)

    async def _by_embedder(
        self,
        requests: Sequence[RecallQuery],
        scope: RecallScope,
        model: RecallModel,
        *,
        stage: int = 0,
        strict: bool = False,
    ) -> list[RecallResult]:
        """Answer requests by one embedder: encode all texts together, in a thread if slow, and search once.

        Raises:
            EmbeddingError: The embedder failed, and `strict` forbids recall by BM25 alone.
        """
        if not requests:
            return []
        texts = [request.query + request.focus for request in requests]
        slow = self._encoder.stages[stage].offload
        read = partial(self._encode, requests, scope, model, stage, strict=strict)
        asked, queries, degraded = await read_texts(texts, read, slow=slow)
        # A request without a known word is not searched, so that it takes no place in the batch.
        searched: list[HybridQuery] = []
        for group in queries:
            if _asks_anything(group):
                searched.extend(group)
        hits = await self._store.search(searched) if searched else ()
        pending = iter(zip(searched, hits, strict=True))
        results: list[RecallResult] = []
        for each, group in zip(asked, queries, strict=True):
            notes = (*each.notes, *degraded)
            if not _asks_anything(group):
                results.append(RecallResult(notes=notes, caveat=model.caveat))
                continue
            found: list[Signals] = []
            for query, legs in islice(pending, len(group)):
                terms = len(query.sparse.indices) if query.sparse else 0
                found.append(
                    Signals(model.usual.even_out(_without_infinite_scores(legs)), model.scales, terms, model.usual)
                )
            result = await _fuse_recalls(self._store, model, found, asked=each, scope=scope)
            result.notes = (*notes, *result.notes)
            results.append(result)
        return results

    def _encode(
        self, requests: Sequence[RecallQuery], scope: RecallScope, model: RecallModel, stage: int, *, strict: bool
    ) -> tuple[list[EncodedRequest], list[list[HybridQuery]], tuple[str, ...]]:
        """Return the encoded requests, their queries, and a note if the embedder failed."""
        encoded = [EncodedRequest.from_query(each, lexical=self._encoder.lexical) for each in requests]
        texts: list[str] = []
        for each in encoded:
            texts.extend(each.texts)
        vectors, degraded = self._dense(texts, stage, strict=strict)
        asked: list[EncodedRequest] = []
        queries: list[list[HybridQuery]] = []
        start = 0
        for each in encoded:
            end = start + len(each.texts)
            rows = vectors[start:end]
            start = end
            group = [self._query(text, row, scope, model, stage) for text, row in zip(each.texts, rows, strict=True)]
            queries.append(group)
            request = each
            if model.evidence is not None:
                request = replace(request, vectors=tuple(rows))
            if request.widened:
                request = replace(request, hollow=self._hollowness(group[0], stage))
            asked.append(request)
        return asked, queries, degraded

    def _hollowness(self, query: HybridQuery, stage: int) -> float:
        """Return the similarity of a request to hollow texts; 0 if unknown."""
        try:
            if query.dense is None:
                return 0.0
            if stage not in self._hollow:
                rows = self._encoder.requests(HOLLOW, stage)
                self._hollow[stage] = np.stack([row for row in rows if row is not None])
            return nearness(query.dense, self._hollow[stage])
        except EmbeddingError as error:
            _log.warning("error=<%s> | how much a request says by itself is not known", in_log(error))
            return 0.0

    def _query(
        self, text: str, vector: Vectors | None, scope: RecallScope, model: RecallModel, stage: int
    ) -> HybridQuery:
        words = self._encoder.lexical.query(text)
        return HybridQuery(
            agent_id=scope.agent_id,
            dense=None if vector is None else model.aim(vector),
            sparse=words if model.terms is None else model.terms.weigh_query(words),
            depth=max(ARM_DEPTH, 2 * scope.most),
            exclude=scope.exclude,
            of_second=stage > 0,
        )

    def _dense(self, texts: Sequence[str], stage: int, *, strict: bool) -> tuple[list[Vectors | None], tuple[str, ...]]:
        try:
            return self._encoder.requests(texts, stage), ()
        except EmbeddingError as error:
            if strict:
                raise
            _log.warning(
                "embedder=<%s>, error=<%s> | recall goes on by BM25 alone", error.embedder, in_log(error.problem)
            )
            return [None for _ in texts], (f"recall by BM25 alone: {error}",)


def _asks_anything(group: Sequence[HybridQuery]) -> bool:
    return any(query.arms for query in group)


def _names(identities: Sequence[str]) -> list[str]:
    """Return the kinds of the embedders, such as "static"; their identities if the kinds are equal."""
    kinds = [identity.partition(":")[0] for identity in identities]
    return kinds if len({*kinds}) == len(kinds) else [*identities]


def _chance_of_first(result: RecallResult) -> float | None:
    """Return P(the first candidate is right, if some flow is): the second embedder finds none where none is."""
    confidence = result[0]["confidence"] if result else None
    if confidence is None:
        return None
    return confidence_if_some(confidence, result.p_none)


def _passes(result: RecallResult, sure: float | None) -> bool:
    chance = _chance_of_first(result)
    return sure is not None and chance is not None and chance >= sure


def _why_read(first: str, result: RecallResult, sure: float) -> str:
    chance = _chance_of_first(result)
    if chance is None:
        return f"{first} found nothing"
    relation = "at least" if chance >= sure else "below"
    return f"{first} is right with probability {chance:.2f} if some flow fits, {relation} the threshold {sure:.2f}"
