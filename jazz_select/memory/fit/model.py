"""The recall model of a catalogue: fusion of the arms, features of candidates, and P(a candidate is right)."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, islice, pairwise
from math import ceil, exp, isqrt, log, log1p, sqrt
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jazz_select.arguments import Constraint, adapter_of
from jazz_select.errors import ConfigError
from jazz_select.memory.encoder import PackedArray, TermCounts, prototype_weight
from jazz_select.memory.fit.evidence import EvidenceModel
from jazz_select.ports import ArmHits, Key, Vectors
from jazz_select.serialization import value_of
from jazz_select.stages import LeaveOneOutConfidence, Thresholds, listed_confidences

_LARGEST, _LARGEST_ENTRY, _MOST_SIZES = 1e15, 1e6, 1 << 20
"""Largest number in a note, largest entry of its matrix, and most set sizes: no fit exceeds them, and larger numbers
overflow."""
_FINITE: Mapping[str, Any] = {"allow_inf_nan": False, "strict": True}
_Number = Annotated[float, Constraint("a number", ge=-_LARGEST, le=_LARGEST, **_FINITE)]
_Width = Annotated[float, Constraint("a number above 0", ge=1 / _LARGEST, le=_LARGEST, **_FINITE)]
_Count = Annotated[int, Constraint("a count", ge=0, le=_LARGEST, strict=True)]
_Chance = Annotated[float, Constraint("a probability", ge=0, le=1, **_FINITE)]
_Scores = Annotated[tuple[_Number, ...], Constraint("scores", min_length=1, max_length=_MOST_SIZES)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmScale:
    """Width and weight of one arm in the fusion."""

    width: _Width
    """The drop in score that counts as one rank: a typical distance between neighbours at the top of a list."""
    weight: _Number


REFERENCE_K = 10
"""The constant of the features, whatever `rrf_k` a caller ranks by, so that confidence keeps its meaning."""

_log = logging.getLogger(__name__)
_SCALE = 100.0
"""Factor of fused scores, which are small."""
Matrix = npt.NDArray[np.float64]
_TINY = 1e-9
DEFAULT_SCALES: Mapping[str, ArmScale] = {
    "dense": ArmScale(width=0.035, weight=1.0),
    "bm25": ArmScale(width=0.135, weight=0.6),
}
"""Scales of a catalogue that is not fitted: rounded medians of several tool catalogues."""
_VERSION = 6
_OF_CANDIDATE, _OF_SCOPE = 7, 6
"""Number of features of a candidate, and of the scope."""
_MADE = frozenset({"name_lengths", "ids", "thresholds"})
"""The fields of a `RecallModel` that are made when it is read, and not stored."""
_OF_A_LOG = frozenset({"evidence", "learned_from", "persons"})
"""The fields that are learned from a log; they are stored beside the others."""
_OF_A_NOTE = ("learned_from", "persons", "evidence", "second_evidence")
"""What a note has beside the model's fields if something was learned from a log. A note without it is as before."""
UNREAD = "what the last sync noted cannot be read, so confidence is not known: run sync_registry (jazz-select sync)"


def soft_scores(legs: ArmHits, scales: Mapping[str, ArmScale], rrf_k: int) -> dict[Key, float]:
    """Return the fused score of each flow that an arm found.

    Reciprocal rank fusion sums w / (k + rank) over the arms (Cormack, Clarke and Büttcher 2009). Ranks lose how close
    two scores are, so the rank here is soft: 1 + (best score - score) / width. It equals the rank where neighbours lie
    one width apart; near-ties share a rank, and a clear leader is far ahead. The lower `k`, the more the top ranks
    weigh. BM25 scores are relative to the best one, since they grow with the length of the request.

    A flow that an arm did not find gets the score of the last dense hit, or 0 in BM25: with no score at all, the
    length of a list would decide.
    """
    k = rrf_k + 1.0
    dense_weight, dense_width = scales["dense"].weight, scales["dense"].width
    bm25_weight, bm25_width = scales["bm25"].weight, scales["bm25"].width
    unsaid = bm25_weight / (k + 1.0 / bm25_width) if legs.bm25 else 0.0
    unseen = 0.0
    fused: dict[Key, float] = {}
    if legs.dense:
        best = max(legs.dense.values())
        fused = {key: dense_weight / (k + (best - score) / dense_width) + unsaid for key, score in legs.dense.items()}
        unseen = dense_weight / (k + (best - min(legs.dense.values())) / dense_width)
    if legs.bm25:
        best = max(*legs.bm25.values(), _TINY)
        for key, score in legs.bm25.items():
            lexical = bm25_weight / (k + (1.0 - score / best) / bm25_width)
            fused[key] = fused[key] - unsaid + lexical if key in fused else unseen + lexical
    return fused


def best_first(scores: Mapping[Key, float]) -> list[Key]:
    """Return the keys, best first; ties keep the order of `scores`, where flows of the dense arm come first."""
    return sorted(scores, key=scores.__getitem__, reverse=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CosineScaling:
    """Factors of cosines, by a flow's number of examples: 1 for the median flow, higher for those with fewer.

    A flow's vector is the mean of its texts, brought to length 1. The mean of n unit vectors with a mean cosine of ρ
    (`alike`) has an expected length of sqrt(ρ + (1 - ρ) / n): the fewer, the longer, as what they have by chance does
    not cancel out. So the cosines of flows with few examples are too low beside those of others. Times this length they
    would compare if all flows were asked for as often; its square root allows for flows that have more examples because
    they are asked for more. A flow's own texts count as one, however long: they say the same in other words.
    """

    alike: _Chance = 1.0
    median: _Width = 1.0

    def factor_for(self, examples: int) -> float:
        """Return the factor of a flow with so many examples."""
        return sqrt(sqrt(self.alike + (1 - self.alike) / (1 + prototype_weight(examples)))) / self.median


@dataclass(frozen=True, slots=True, kw_only=True)
class TypicalCosines:
    """The usual cosine, times its length, of requests with their own flow, which differs among flows.

    `flows` are means by flow id, shrunk towards the mean of all, and `keyed` the same by store key; `mean` is for other
    flows; `low` is the tenth percentile of the best cosines of requests in scope. `examples` are numbers of examples by
    flow id, and `keyed_lengths` the lengths that are not 1 by store key.
    """

    flows: Mapping[str, _Number] = field(default_factory=dict[str, float])
    lengths: CosineScaling = field(default_factory=CosineScaling)
    examples: Mapping[str, _Count] = field(default_factory=dict[str, int])
    mean: _Number = 0.0
    low: _Number = 1.0
    keyed: Mapping[Key, float] = field(default_factory=dict[Key, float], compare=False, repr=False)
    keyed_lengths: Mapping[Key, float] = field(default_factory=dict[Key, float], compare=False, repr=False)

    def by_key(self, key: Callable[[str], Key]) -> "TypicalCosines":
        """Return the same numbers by store key."""
        keyed = {key(flow): cosine for flow, cosine in self.flows.items()}
        lengths = {flow: self.lengths.factor_for(count) for flow, count in self.examples.items()}
        uneven = {key(flow): length for flow, length in lengths.items() if length != 1}
        return replace(self, keyed=keyed, keyed_lengths=uneven)

    def even_out(self, legs: ArmHits) -> ArmHits:
        """Return the hits of an engine with cosines that compare flows of few and of many texts."""
        if not self.keyed_lengths:
            return legs
        dense = {key: cosine * self.keyed_lengths.get(key, 1.0) for key, cosine in legs.dense.items()}
        return replace(legs, dense={key: dense[key] for key in best_first(dense)})

    def at(self, key: Key) -> float:
        """Return the usual cosine of a flow's requests."""
        return self.keyed.get(key, self.mean)


class Signals:
    """Features of one request's candidates; each is larger the more it speaks for the candidate."""

    def __init__(self, legs: ArmHits, scales: Mapping[str, ArmScale], terms: int, usual: TypicalCosines) -> None:
        """Take the legs of a request with so many lexical terms, and the scales of the fusion."""
        self.legs = legs
        self._scales = scales
        self._terms = max(terms, 1)
        self._fused = soft_scores(legs, scales, REFERENCE_K)
        self._order = best_first(self._fused)
        self._usual = usual
        self._chances: dict[Key, float] = {}

    def scores(self, rrf_k: int) -> Mapping[Key, float]:
        """Return the fused scores with this constant."""
        return self._fused if rrf_k == REFERENCE_K else soft_scores(self.legs, self._scales, rrf_k)

    @cached_property
    def _rivals(self) -> "_Rivals":
        at, mean = self._usual.keyed.get, self._usual.mean
        nearness = [cosine - at(key, mean) for key, cosine in self.legs.dense.items()]
        return _Rivals(
            fused=_first_two([self._fused[key] for key in self.best(2)]),
            dense=_first_two(self.legs.dense.values()),
            near=_first_two(sorted(nearness, reverse=True)),
            bm25=_first_two(self.legs.bm25.values()),
            floor=min(self.legs.dense.values(), default=0.0),
            top_bm25=max(next(iter(self.legs.bm25.values()), 0.0), _TINY),
        )

    def best(self, count: int | None = None) -> Sequence[Key]:
        """Return the `count` best candidates of the fusion, or all; see `best_first`."""
        return self._order[:count]

    def chance(self, confidence: "Logistic", key: Key) -> float:
        """Return P(this flow is right, if some flow is); every call of one object passes the same `confidence`."""
        known = self._chances.get(key)
        if known is None:
            known = self._chances[key] = confidence(self.candidate(key))
        return known

    def candidate(self, key: Key) -> tuple[float, ...]:
        """Return the features of P(this flow is right, if some flow is).

        Its margin in the fusion; its cosine and the margin of it; its margin and its share of matched words; its
        cosine above the usual one, and the margin of that.
        """
        rivals = self._rivals
        dense = self.legs.dense.get(key, rivals.floor)
        words = self.legs.bm25.get(key, 0.0)
        near = dense - self._usual.keyed.get(key, self._usual.mean)
        return (
            _SCALE * _lead(self._fused.get(key, 0.0), rivals.fused),
            dense,
            _lead(dense, rivals.dense),
            _lead(words, rivals.bm25) / rivals.top_bm25,
            words / self._terms,
            near,
            _lead(near, rivals.near),
        )

    def scope(self) -> tuple[float, ...]:
        """Return the features of P(some flow is right).

        The best cosine; the first candidate's cosine above the usual one, and its share of matched words; whether the
        arms agree; the most matched words; and the best cosine capped at `low`, which separates other domains only.
        """
        # Both arms list their hits best first.
        best = next(iter(self.legs.dense.values()), 0.0)
        words = next(iter(self.legs.bm25.values()), 0.0)
        top = next(iter(self.best(1)), None)
        nearest = next(iter(self.legs.dense), None)
        above_usual = matched_words = agreement = 0.0
        if top is not None:
            above_usual = self.legs.dense.get(top, self._rivals.floor) - self._usual.at(top)
            matched_words = self.legs.bm25.get(top, 0.0) / self._terms
        if nearest is not None:
            agreement = self.legs.bm25.get(nearest, 0.0) / self._rivals.top_bm25
        return (best, above_usual, matched_words, agreement, log1p(max(words, 0.0)), min(best, self._usual.low))


class _Rivals(NamedTuple):
    """The first and second of all candidates by each feature, and the values of flows that an arm did not find."""

    fused: tuple[float, float]
    dense: tuple[float, float]
    near: tuple[float, float]
    bm25: tuple[float, float]
    floor: float
    top_bm25: float


def _first_two(scores: Iterable[float]) -> tuple[float, float]:
    best, second = (*islice(scores, 2), 0.0, 0.0)[:2]
    return best, second


def _lead(score: float, best: tuple[float, float]) -> float:
    """Return the margin over the best other score; negative for one that is behind."""
    return score - (best[1] if score >= best[0] else best[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Logistic:
    """P = 1 / (1 + exp(-(bias + weights · features))) with weights of at least 0, so that P is monotone."""

    weights: tuple[_Number, ...]
    bias: _Number

    def __call__(self, features: Sequence[float]) -> float:
        """Return the probability, in [0, 1]."""
        total = self.bias
        for weight, value in zip(self.weights, features, strict=True):
            total += weight * value
        return 1.0 / (1.0 + exp(-max(-700.0, min(700.0, total))))


MOST_SIZED = 10
"""Most candidates of a prediction set."""
NOT_FOUND = 1e9
"""The nonconformity score of a flow that was not found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sets:
    """Prediction sets: how many candidates hold the right flow with a given probability (split conformal prediction).

    The nonconformity score of a candidate is -ln P(it is right), or that of the one before it if that is higher. The
    threshold is the score of rank ceil((n + 1) · coverage) among the right flows of the n requests of the fit, which
    `nonconformity` lists in ascending order, with `NOT_FOUND` for flows not found.
    """

    nonconformity: _Scores

    @staticmethod
    def scores(chances: Sequence[float]) -> list[float]:
        """Return the nonconformity scores of candidates, best first, from P(each is right)."""
        return list(accumulate((-log(max(chance, _TINY)) for chance in chances), max))

    def size(self, chances: Sequence[float], coverage: float) -> int:
        """Return the size of the set among these candidates, best first; at least 1."""
        rank = ceil((len(self.nonconformity) + 1) * coverage)
        limit = NOT_FOUND  # for a coverage that so few requests cannot promise
        if rank <= len(self.nonconformity):
            limit = self.nonconformity[rank - 1]
        within = [score for score in self.scores(chances[:MOST_SIZED]) if score <= limit]
        return max(1, len(within))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallModel:
    """The model of a catalogue: fitted by `jazz_select.memory.fit.fitting`, stored in the index, used by every recall.

    Attributes:
        transform: Matrix that request vectors are multiplied by, shape (dim, dim); None for the identity.
        confidence: P(a candidate is right, if some flow is) from `Signals.candidate`; None if unknown.
        scope: P(some flow is right) from `Signals.scope`; None if unknown.
        answers: Confidence of the answers to the catalogue's own examples; None if unknown.
        names: Flow ids by folded name, title and alias, without ambiguous ones.
        name_lengths: The lengths in words of the names that begin with a word, longest first; made by `by_key`, not
            stored.
        flows: Ids of all flows of the agent; None if unknown.
        terms: Term counts; None after a flow was written or deleted.
        caveat: Why confidence is unknown, for people; empty if it is known.
        labelled: Number of labelled requests beside the examples.
        second: Model of a cascade's second embedder.
        sure: P(the first candidate is right, if some flow is) from which on the second embedder is not asked; None if
            it always is.
        evidence: What was learned from logged requests; None without a log, or with too few.
        learned_from: A digest of those requests and of the catalogue.
        persons: Flow ids by `request_digest` of the requests that persons spoke of; empty for no flow. They hold
            without `evidence`, too.
        ids: Flow ids by store key, and `thresholds` of the evidence; made by `by_key` if there is evidence, not stored.
    """

    digest: str = ""
    scales: Mapping[str, ArmScale] = field(default_factory=lambda: DEFAULT_SCALES)
    transform: Annotated[Vectors, PackedArray("<f4")] | None = None
    confidence: Logistic | None = None
    scope: Logistic | None = None
    sets: Sets | None = None
    answers: LeaveOneOutConfidence | None = None
    usual: TypicalCosines = field(default_factory=TypicalCosines)
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    flows: frozenset[str] | None = None
    terms: TermCounts | None = None
    caveat: str = "the catalogue has not been synced, so confidence is not known"
    labelled: _Count = 0
    second: "RecallModel | None" = None
    sure: _Chance | None = None
    evidence: EvidenceModel | None = None
    learned_from: str = ""
    persons: Mapping[str, str] = field(default_factory=dict[str, str])
    ids: Mapping[Key, str] = field(default_factory=dict[Key, str], compare=False, repr=False)
    thresholds: Thresholds | None = field(default=None, compare=False, repr=False)
    name_lengths: Mapping[str, tuple[int, ...]] = field(
        default_factory=dict[str, tuple[int, ...]], compare=False, repr=False
    )

    def aim(self, vector: Vectors) -> list[float]:
        """Return a request's vector after the transform, at unit length."""
        if self.transform is None:
            return vector.tolist()
        aimed: Vectors = vector @ self.transform
        length = sqrt(aimed.dot(aimed))
        if length > 0:
            return np.divide(aimed, np.float32(length), out=aimed).tolist()
        return vector.tolist()

    def by_key(self, key: Callable[[str], Key]) -> "RecallModel":
        """Return the model with the usual cosines by store key, and the lengths of its names."""
        second = None if self.second is None else self.second.by_key(key)
        lengths = name_lengths(self.names)
        made = replace(self, usual=self.usual.by_key(key), second=second, name_lengths=lengths)
        if self.evidence is None:
            return made
        ids = {key(flow): flow for flow in self.flows or ()}
        return replace(made, ids=ids, thresholds=self.evidence.thresholds)

    def p_none(self, signals: Signals) -> float | None:
        """Return P(no flow is right), by recall alone; None if unknown."""
        if self.scope is None:
            return None
        if not signals.legs.dense and not signals.legs.bm25:  # nothing was found at all
            return 1.0
        return 1 - self.scope(signals.scope())

    def chances(self, signals: Signals) -> dict[Key, float]:
        """Return P(right) of the best candidates by recall alone, "none" included; empty if unknown."""
        if self.confidence is None:
            return {}
        best = signals.best(MOST_SIZED)
        chances = [signals.chance(self.confidence, key) for key in best]
        return dict(zip(best, listed_confidences(chances, p_none=self.p_none(signals)), strict=True))

    def as_note(self) -> dict[str, Any]:
        """Return the model for JSON; its second one without what the first one holds."""
        second = None if self.second is None else replace(self.second, digest="", names={}, flows=None, terms=None)
        made = {"keyed", "keyed_lengths"}
        unnoted: Any = {"usual": made, "answers": {"_found"}, **dict.fromkeys(_MADE, True)}
        unnoted |= dict.fromkeys(_OF_A_LOG, True)
        shared: Any = {"second": {**unnoted, "usual": made | {"examples"}}}
        own = adapter_of(RecallModel).dump_python(replace(self, second=second), mode="json", exclude=unnoted | shared)
        note = {**own, "version": _VERSION, "flows": None if self.flows is None else sorted(self.flows)}
        if self.evidence is None and not self.persons:
            return note
        learned: dict[str, Any] = {"learned_from": self.learned_from, "persons": dict(self.persons)}
        if self.evidence is not None:
            learned["evidence"] = self.evidence.as_note()
        if self.second is not None and self.second.evidence is not None:
            learned["second_evidence"] = self.second.evidence.as_note()
        return {**note, **learned}

    @classmethod
    def from_note(cls, note: Mapping[str, Any] | None, *, dims: Sequence[int] = ()) -> "RecallModel":
        """Read a model; a note of another version, or one that cannot be read, gives an unfitted model.

        `dims` are the lengths of the request vectors of the model and of its `second`, if they are known.
        """
        if note is None:
            return cls()
        learned = {name: note[name] for name in _OF_A_NOTE if name in note}
        note = {name: value for name, value in note.items() if name not in learned}
        try:
            noted = {*cls.__slots__} - _MADE - _OF_A_LOG
            _require(note["version"] == _VERSION and {*note} == {"version", *noted}, "version")
            model = value_of(cls, note)._check_parts(*dims)._with_learned(learned, *dims)  # noqa: SLF001 - one of this class
            if model.second is None:
                return model
            _require({*note["second"]} == noted and model.second.second is None, "second")
            second = model.second._check_parts(*dims[1:])  # noqa: SLF001
            usual = replace(second.usual, examples=model.usual.examples)
            evidence = _evidence_in(learned.get("second_evidence"), dims[1:])
            second = replace(
                second,
                names=model.names,
                flows=model.flows,
                terms=model.terms,
                usual=usual,
                evidence=evidence,
                persons=model.persons,
            )
            return replace(model, second=second)
        except Exception as error:  # noqa: BLE001 - an index that others write to may hold anything
            _log.warning("error=<%r> | the note of a sync cannot be read", error)
            return cls(caveat=UNREAD)

    def _with_learned(self, learned: Mapping[str, object], *dims: int) -> "RecallModel":
        """Return the model with what a note says of a log; without it, if that cannot be read."""
        mark = learned.get("learned_from")
        noted = learned.get("evidence")
        evidence = _evidence_in(noted, dims)
        if (evidence is None and noted is not None) or not isinstance(mark, str):
            return self
        try:
            persons = value_of(dict[str, str], learned.get("persons"), "persons")
        except ConfigError as error:
            _log.warning("error=<%r> | what persons said cannot be read from the note of a sync", error)
            return self
        return replace(self, evidence=evidence, learned_from=mark, persons=persons)

    def _check_parts(self, dim: int | None = None, *_: int) -> "RecallModel":
        """Return the model with its transform as a matrix; raise ValueError if its parts do not fit together."""
        _require(self.scales.keys() == DEFAULT_SCALES.keys(), "scales")
        _require(self.confidence is None or len(self.confidence.weights) == _OF_CANDIDATE, "confidence")
        _require(self.scope is None or len(self.scope.weights) == _OF_SCOPE, "scope")
        _require(self.sets is None or _rises(self.sets.nonconformity), "sets")
        if self.answers:
            _require(_rises(self.answers.confidences[::-1]), "answers")
            _require(len(self.answers.confidences) == len(self.answers.errors), "errors")
        if self.transform is None:
            return self
        side = isqrt(self.transform.size)
        _require(dim in {None, side} and bool((np.abs(self.transform) <= _LARGEST_ENTRY).all()), "transform")
        return replace(self, transform=self.transform.reshape(side, side))


def name_lengths(names: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Return the lengths in words of the names that begin with a word, longest first, by that word."""
    found = defaultdict[str, set[int]](set)
    for name in names:
        found[name.partition(" ")[0]].add(len(name.split()))
    return {first: tuple(sorted(lengths, reverse=True)) for first, lengths in found.items()}


def _evidence_in(note: object, dims: Sequence[int]) -> EvidenceModel | None:
    return EvidenceModel.from_note(note, dim=next(iter(dims), None))


def _require(right: bool, what: str) -> None:  # noqa: FBT001 - a condition
    if not right:
        raise ValueError(what)


def _rises(numbers: Sequence[float]) -> bool:
    return all(before <= after for before, after in pairwise(numbers))
