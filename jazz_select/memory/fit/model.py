"""What recall has learned of a catalogue: how its arms are fused, features of a candidate, and P(it is right)."""

import logging
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, islice, pairwise
from math import ceil, exp, log, log1p, sqrt
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from jazz_select.arguments import Constraint
from jazz_select.memory.encoder import TermCounts
from jazz_select.ports import Key, Legs, Vectors
from jazz_select.stages import OwnAnswers
from jazz_select.travel import value_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmScale:
    """How one arm's scores count."""

    width: float
    """The drop in score that is worth one rank; a typical distance between neighbours at the top of a list."""
    weight: float
    """How much the arm counts in the fusion."""


REFERENCE_K = 10
"""Evidence is weighed with this constant whatever `rrf_k` a caller orders by, so that its meaning never changes."""

_log = logging.getLogger(__name__)
_SCALE = 100.0
"""What fused scores are multiplied by, which are small."""
Matrix = npt.NDArray[np.float64]
_TINY = 1e-9
_LONGEST_COSINE = 1.1
"""With what rounding may add."""
_LARGEST, _LARGEST_ENTRY, _MOST_SIZES = 1e15, 1e6, 1 << 20
"""Of the numbers of a note, those of its matrix, and how many answers it has of sets: a fit gives no such, and what is
made of larger ones overflows."""
DEFAULT_SCALES: Mapping[str, ArmScale] = {
    "dense": ArmScale(width=0.035, weight=1.0),
    "bm25": ArmScale(width=0.135, weight=0.6),
}
"""Before a catalogue has spoken: the medians of several tool catalogues, rounded."""
_VERSION = 4
UNREAD = "what the last sync noted cannot be read, so confidence is not known: run sync_registry (jazz-select sync)"


def soft_scores(legs: Legs, scales: Mapping[str, ArmScale], rrf_k: int) -> dict[Key, float]:
    """The fused score of each flow that an arm found.

    Reciprocal rank fusion sums w / (k + rank) over the arms (Cormack, Clarke and Büttcher 2009). Ranks throw away
    what scores know: whether the second is a close second. So the rank here is a soft one,
    1 + (best score - score) / width: it is the rank where neighbours lie a typical distance apart,
    near-ties share one, and a runaway leader leaves the others far behind. The lower `k`, the more the very top
    weighs, as ever. BM25 scores are taken relative to the best, since they grow with the length of the request.

    A flow that an arm did not find is no better there than the last one that it found: it is taken to lie where the
    last hit of the dense arm lies, and to score 0 in BM25. Were it to get nothing at all, the mere length of a list
    would decide who is lifted over the edge.
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
            said = bm25_weight / (k + (1.0 - score / best) / bm25_width)
            fused[key] = fused[key] - unsaid + said if key in fused else unseen + said
    return fused


def best_first(scores: Mapping[Key, float]) -> list[Key]:
    """Best first; of equal ones those that the dense arm found before others, so that order never wavers.

    Stable, and the dense arm's flows come first in `scores`. Of so few, to sort all is faster than to pick.
    """
    return sorted(scores, key=scores.__getitem__, reverse=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usual:
    """How near requests usually lie to the flow that is right; what is much for one flow is little for another.

    Attributes:
        flows: Flow id to the mean cosine of its requests, drawn towards that of all.
        mean: For flows of which nothing is known.
        low: Nine in ten requests that a flow answers lie nearer than this to their nearest flow.
        keyed: `flows` by the key in a store; see `at`.
    """

    flows: Mapping[str, float] = field(default_factory=dict[str, float])
    mean: float = 0.0
    low: float = 1.0
    keyed: Mapping[Key, float] = field(default_factory=dict[Key, float], compare=False, repr=False)

    def by_key(self, key: Callable[[str], Key]) -> "Usual":
        """The same, to be asked by what `key` makes of a flow id."""
        return replace(self, keyed={key(flow): cosine for flow, cosine in self.flows.items()})

    def at(self, key: Key) -> float:
        """The usual cosine of this flow's requests."""
        return self.keyed.get(key, self.mean)


class Signals:
    """Reads one request's legs; each number it gives is larger the more speaks for the candidate."""

    def __init__(self, legs: Legs, scales: Mapping[str, ArmScale], terms: int, usual: Usual) -> None:
        """Take the legs of a request of so many lexical terms, and how they are fused."""
        self.legs = legs
        self._scales = scales
        self._terms = max(terms, 1)
        self._fused = soft_scores(legs, scales, REFERENCE_K)
        self._order = best_first(self._fused)
        self._usual = usual
        self._chances: dict[Key, float] = {}

    def scores(self, rrf_k: int) -> Mapping[Key, float]:
        """The fused scores with this constant."""
        return self._fused if rrf_k == REFERENCE_K else soft_scores(self.legs, self._scales, rrf_k)

    @property
    def _floor(self) -> float:
        return min(self.legs.dense.values(), default=0.0)

    @property
    def _top_bm25(self) -> float:
        return max(next(iter(self.legs.bm25.values()), 0.0), _TINY)

    @cached_property
    def _rivals(self) -> "_Rivals":
        """What each candidate is set against."""
        at, mean = self._usual.keyed.get, self._usual.mean
        nearness = [cosine - at(key, mean) for key, cosine in self.legs.dense.items()]
        return _Rivals(
            fused=_first_two([self._fused[key] for key in self.best(2)]),
            dense=_first_two(self.legs.dense.values()),
            near=_first_two(sorted(nearness, reverse=True)),
            bm25=_first_two(self.legs.bm25.values()),
            floor=self._floor,
            top_bm25=self._top_bm25,
        )

    def best(self, count: int | None = None) -> Sequence[Key]:
        """The `count` best of the fusion, or all; of equal ones those that the dense arm found before others."""
        return self._order[:count]

    def chance(self, confidence: "Logistic", key: Key) -> float:
        """P(this flow is right), by one and the same model at each call."""
        known = self._chances.get(key)
        if known is None:
            known = self._chances[key] = confidence(self.candidate(key))
        return known

    def candidate(self, key: Key) -> tuple[float, ...]:
        """For this flow being right.

        Its lead over all others, fused; its cosine, and the lead of it; the lead in words matched, and the share of
        them; and how much nearer than usual it is, and the lead of that.
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
        """For any flow being right.

        The best cosine; how much nearer than usual the leader of the fusion is, and the share of words that it
        matches; whether the arms agree; how many words are matched at best; and the best cosine as far as it is low,
        which tells requests of this domain from all others and does not tell the former apart.
        """
        best, words = next(iter(self.legs.dense.values()), 0.0), next(iter(self.legs.bm25.values()), 0.0)
        top = next(iter(self.best(1)), None)
        nearest = next(iter(self.legs.dense), None)
        return (
            best,
            0.0 if top is None else self.legs.dense.get(top, self._floor) - self._usual.at(top),
            0.0 if top is None else self.legs.bm25.get(top, 0.0) / self._terms,
            0.0 if nearest is None else self.legs.bm25.get(nearest, 0.0) / self._top_bm25,
            log1p(max(words, 0.0)),
            min(best, self._usual.low),
        )


class _Rivals(NamedTuple):
    """The best of all candidates and the second, by each number; and what stands for those that an arm did not find."""

    fused: tuple[float, float]
    dense: tuple[float, float]
    near: tuple[float, float]
    bm25: tuple[float, float]
    floor: float
    top_bm25: float


def _first_two(scores: Iterable[float]) -> tuple[float, float]:
    """Of scores in order, best first."""
    best, second = (*islice(scores, 2), 0.0, 0.0)[:2]
    return best, second


def _lead(score: float, best: tuple[float, float]) -> float:
    """Ahead of the best other one; below 0 for one that is behind."""
    return score - (best[1] if score >= best[0] else best[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Logistic:
    """P = 1 / (1 + exp(-(bias + weights · features))), with weights of at least 0: more evidence, never less belief."""

    weights: tuple[float, ...]
    bias: float

    def __call__(self, features: Sequence[float]) -> float:
        """The probability, in [0, 1]."""
        total = self.bias
        for weight, value in zip(self.weights, features, strict=True):
            total += weight * value
        return 1.0 / (1.0 + exp(-max(-700.0, min(700.0, total))))


MOST_SIZED = 10
"""Candidates that a set of a wished coverage has at most."""
NOT_FOUND = 1e9
"""Above every nonconformity score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sets:
    """How many candidates hold the right flow with a wished probability (split conformal prediction).

    The nonconformity score of a candidate is -ln P(it is right), and at least that of each one before it. A set takes
    the candidates, best first, whose score is at most that of the right flow in the wished share of the requests that
    were asked at the fit: (n + 1) · coverage of n, rounded up, which holds for the next request like them.

    Attributes:
        nonconformity: The score of the right flow in each request that was asked, ascending; `NOT_FOUND` where it was
            not found.
    """

    nonconformity: tuple[float, ...]

    @staticmethod
    def scores(chances: Sequence[float]) -> list[float]:
        """Of candidates, best first, from P(each is right)."""
        return list(accumulate((-log(max(chance, _TINY)) for chance in chances), max))

    def size(self, chances: Sequence[float], coverage: float) -> int:
        """How many of these candidates, best first, are needed; at least 1."""
        place = ceil((len(self.nonconformity) + 1) * coverage)
        limit = self.nonconformity[place - 1] if place <= len(self.nonconformity) else NOT_FOUND
        return max(1, sum(score <= limit for score in self.scores(chances[:MOST_SIZED])))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallModel:
    """Fitted to a catalogue by `jazz_select.memory.fit.fitting`, stored beside it, used by every recall.

    Attributes:
        digest: Of the catalogue it was fitted to.
        scales: How each arm's scores count in the fusion.
        transform: Request vectors are multiplied by it, shape (dim, dim); None leaves them as they are.
        confidence: P(a candidate is right) from `Signals.candidate`; None where that is not known.
        scope: P(some flow is right) from `Signals.scope`; None where that is not known.
        sets: How many candidates hold the right one; None where that is not known.
        answers: How sure it was of its answers to the catalogue's own examples; None where that is not known, as in
            what an earlier version noted.
        usual: How near requests usually lie to their flows.
        names: Folded names and aliases that stand for one flow alone, to its id.
        flows: The ids of all flows that were written for the agent; None where that is not known.
        terms: How many flows have each term; None where a flow has been written or deleted since they were counted.
        caveat: Why confidence is not known, for people; empty where it is.
        labelled: How many labelled requests it was fitted to beside the examples.
        second: The model of the second embedder of a cascade; None where there is one embedder alone.
        sure: The confidence from which on the second embedder is not asked; None where it always is.
    """

    digest: str = ""
    scales: Mapping[str, ArmScale] = field(default_factory=lambda: DEFAULT_SCALES)
    transform: Vectors | None = None
    confidence: Logistic | None = None
    scope: Logistic | None = None
    sets: Sets | None = None
    answers: OwnAnswers | None = None
    usual: Usual = field(default_factory=Usual)
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    flows: frozenset[str] | None = None
    terms: TermCounts | None = None
    caveat: str = "the catalogue has not been synced, so confidence is not known"
    labelled: int = 0
    second: "RecallModel | None" = None
    sure: float | None = None

    def aim(self, vector: Vectors) -> list[float]:
        """The request's vector as this catalogue wants it asked; unit length."""
        if self.transform is None:
            return vector.tolist()
        aimed: Vectors = vector @ self.transform
        length = sqrt(aimed.dot(aimed))
        return np.divide(aimed, np.float32(length), out=aimed).tolist() if length > 0 else vector.tolist()

    def by_key(self, key: Callable[[str], Key]) -> "RecallModel":
        """With what is usual for each flow under the key that a store has for it."""
        second = None if self.second is None else self.second.by_key(key)
        return replace(self, usual=self.usual.by_key(key), second=second)

    def as_note(self) -> dict[str, Any]:
        """As JSON."""
        own = {} if self.second is None else {"second": self._second_alone().as_note(), "sure": self.sure}
        return own | {
            "version": _VERSION,
            "digest": self.digest,
            "scales": {arm: [scale.width, scale.weight] for arm, scale in self.scales.items()},
            "transform": None if self.transform is None else _packed(self.transform),
            "confidence": _logistic_as_list(self.confidence),
            "scope": _logistic_as_list(self.scope),
            "sets": None if self.sets is None else [round(each, 6) for each in self.sets.nonconformity],
            "answers": None if self.answers is None else [self.answers.first, self.answers.scoped],
            "errors": None if self.answers is None else self.answers.errors,
            "usual": [self.usual.mean, self.usual.low, {flow: round(at, 5) for flow, at in self.usual.flows.items()}],
            "names": dict(self.names),
            "flows": None if self.flows is None else sorted(self.flows),
            "terms": None if self.terms is None else self.terms.as_note(),
            "caveat": self.caveat,
            "labelled": self.labelled,
        }

    def _second_alone(self) -> "RecallModel":
        """Without what stands in the first one already."""
        return replace(self.second or RecallModel(), digest="", names={}, flows=None, terms=None)

    @classmethod
    def from_note(cls, note: Mapping[str, Any] | None, *, dims: Sequence[int] = ()) -> "RecallModel":
        """Read it back; what another version wrote, or anything that is no such note, is as good as none.

        `dims` are the lengths of the vectors that it and its `second` are to aim, where they are known.
        """
        if note is None:
            return cls()
        try:
            return cls._read(note, *dims)
        except Exception as error:  # noqa: BLE001 - an index that others write to may hold anything
            _log.warning("error=<%r> | the note of a sync cannot be read", error)
            return cls(caveat=UNREAD)

    @classmethod
    def _read(cls, note: Mapping[str, Any], dim: int | None = None, second_dim: int | None = None) -> "RecallModel":
        said = value_of(_Note, note)
        mean, low, usual = said.usual
        scales = {arm: ArmScale(width=width, weight=weight) for arm, (width, weight) in said.scales.items()}
        _must(scales.keys() == DEFAULT_SCALES.keys(), "scales")
        second = None if said.second is None else cls._read(said.second, second_dim)
        _must(second is None or second.second is None, "second")
        flows = None if said.flows is None else frozenset(said.flows)
        terms = None if said.terms is None else TermCounts.from_note(said.terms)
        return cls(
            digest=said.digest,
            scales=scales,
            transform=None if said.transform is None else _unpacked(said.transform, dim),
            confidence=_logistic(said.confidence),
            scope=_logistic(said.scope),
            sets=None if said.sets is None else Sets(nonconformity=_in_order(said.sets)),
            answers=_answers(said.answers, said.errors),
            usual=Usual(flows=usual, mean=mean, low=low),
            names=said.names,
            flows=flows,
            terms=terms,
            caveat=said.caveat,
            labelled=said.labelled,
            second=None if second is None else replace(second, names=said.names, flows=flows, terms=terms),
            sure=said.sure,
        )


_FINITE: Mapping[str, Any] = {"allow_inf_nan": False, "strict": True}
_Number = Annotated[float, Constraint("a number", ge=-_LARGEST, le=_LARGEST, **_FINITE)]
_Width = Annotated[float, Constraint("a number above 0", gt=0, le=_LARGEST, **_FINITE)]
_Cosine = Annotated[float, Constraint("a cosine", ge=-_LONGEST_COSINE, le=_LONGEST_COSINE, **_FINITE)]
_Chance = Annotated[float, Constraint("a probability", ge=0, le=1, **_FINITE)]
_Chances = Annotated[list[_Chance], Constraint("answers", max_length=_MOST_SIZES)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Note:
    """What `as_note` writes; what has a default is not in the notes of earlier versions."""

    version: Literal[4]
    digest: str
    scales: dict[str, tuple[_Width, _Number]]
    transform: dict[str, Any] | None
    confidence: Annotated[list[_Number], Constraint("weights", min_length=8, max_length=8)] | None
    scope: Annotated[list[_Number], Constraint("weights", min_length=7, max_length=7)] | None
    sets: Annotated[list[_Number], Constraint("sets", min_length=1, max_length=_MOST_SIZES)] | None
    answers: tuple[_Chances, _Chances] | None = None
    errors: tuple[_Chances, _Chances] | None = None
    usual: tuple[_Cosine, _Cosine, dict[str, _Cosine]]
    names: dict[str, str]
    flows: list[str] | None
    terms: dict[str, Any] | None
    caveat: str
    labelled: Annotated[int, Constraint("a count", ge=0, strict=True)] = 0
    second: dict[str, Any] | None = None
    sure: _Chance | None = None


def _packed(matrix: Vectors) -> dict[str, Any]:
    return {"shape": list(matrix.shape), "data": b64encode(matrix.astype("<f4").tobytes()).decode("ascii")}


def _unpacked(packed: Mapping[str, Any], dim: int | None) -> Vectors:
    side = packed["shape"][0]
    _must(packed["shape"] == [side, side] and dim in {None, side}, "transform")
    flat = np.frombuffer(b64decode(packed["data"]), dtype="<f4")
    _must(bool((np.abs(flat) <= _LARGEST_ENTRY).all()), "transform")
    return flat.reshape(side, side).astype(np.float32)


def _must(right: bool, what: str) -> None:  # noqa: FBT001 - a condition
    if not right:
        raise ValueError(what)


def _in_order(numbers: Sequence[float]) -> tuple[float, ...]:
    _must(all(before <= after for before, after in pairwise(numbers)), "an order")
    return tuple(numbers)


def _logistic_as_list(model: Logistic | None) -> list[float] | None:
    return None if model is None else [model.bias, *model.weights]


def _logistic(numbers: list[float] | None) -> Logistic | None:
    return None if numbers is None else Logistic(bias=numbers[0], weights=tuple(numbers[1:]))


def _answers(
    noted: tuple[list[float], list[float]] | None, errors: tuple[list[float], list[float]] | None
) -> OwnAnswers | None:
    if noted is None:
        return None
    first, scoped = (_in_order(each[::-1])[::-1] for each in noted)
    if errors is None:
        return OwnAnswers(first, scoped)
    own, own_scoped = map(tuple, errors)
    _must((len(own), len(own_scoped)) == (len(first), len(scoped)), "errors")
    return OwnAnswers(first, scoped, (own, own_scoped))
