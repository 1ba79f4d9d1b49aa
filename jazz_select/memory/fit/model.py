"""What recall has learned of a catalogue: scales of its arms, features of a candidate, and P(it is right)."""

import logging
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import islice
from math import exp, fsum, isfinite, sqrt
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from jazz_select.memory.encoder import TermCounts
from jazz_select.memory.fusion import ArmScale
from jazz_select.ports import Key, Legs, Vectors

REFERENCE_K = 10
"""Evidence is weighed with this constant whatever `rrf_k` a caller orders by, so that its meaning never changes."""

_log = logging.getLogger(__name__)
_SCALE = 100.0
Matrix = npt.NDArray[np.float64]
_TINY = 1e-9
DEFAULT_SCALES: Mapping[str, ArmScale] = {
    "dense": ArmScale(width=0.035, weight=1.0),
    "bm25": ArmScale(width=0.135, weight=0.6),
}
"""For catalogues without examples to learn from: the medians of several tool catalogues, rounded."""
_VERSION = 4
_CANDIDATE, _SCOPE = 5, 3
"""How many numbers `Evidence.candidate` and `Evidence.scope` give."""
UNREAD = "what the last sync noted cannot be read, so confidence is not known: run sync_registry (jazz-select sync)"


class Evidence:
    """Reads one request's legs; each number it gives is larger the more speaks for the candidate."""

    def __init__(self, legs: Legs, fused: Mapping[Key, float], terms: int) -> None:
        """Take the legs of a request of so many lexical terms, and their fusion at `REFERENCE_K`."""
        self._legs = legs
        self._terms = max(terms, 1)
        self._fused = fused
        self._floor = min(legs.dense.values(), default=0.0)
        self._best = {
            "fused": _two_best(self._fused),
            "dense": _first_two(legs.dense),
            "bm25": _first_two(legs.bm25),
        }
        self._top_bm25 = max(self._best["bm25"][0], 1e-9)

    def candidate(self, key: Key) -> tuple[float, ...]:
        """For this flow being right: its lead over all others, fused and per arm, its cosine, and words matched."""
        dense = self._legs.dense.get(key, self._floor)
        words = self._legs.bm25.get(key, 0.0)
        return (
            _SCALE * _lead(self._fused.get(key, 0.0), self._best["fused"]),
            dense,
            _lead(dense, self._best["dense"]),
            _lead(words, self._best["bm25"]) / self._top_bm25,
            words / self._terms,
        )

    def scope(self) -> tuple[float, ...]:
        """For any flow being right: the best cosine, the best share of words matched, and whether the arms agree."""
        dense, words = self._best["dense"], self._best["bm25"]
        leader = next(iter(self._legs.dense), None)
        agreed = self._legs.bm25.get(leader, 0.0) / self._top_bm25 if leader is not None else 0.0
        return (dense[0], words[0] / self._terms, agreed)


def _two_best(scores: Mapping[Key, float]) -> tuple[float, float]:
    best, second = (*nlargest(2, scores.values()), 0.0, 0.0)[:2]
    return best, second


def _first_two(leg: Mapping[Key, float]) -> tuple[float, float]:
    """As `_two_best`, of what is in order already."""
    best, second = (*islice(leg.values(), 2), 0.0, 0.0)[:2]
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
        total = self.bias + fsum(weight * value for weight, value in zip(self.weights, features, strict=True))
        return 1.0 / (1.0 + exp(-max(-700.0, min(700.0, total))))


def fit_logistic(features: Matrix, labels: Matrix, *, ridge: float = 1.0) -> Logistic:
    """The maximum a posteriori fit by Newton's method (iteratively reweighted least squares).

    Args:
        features: Shape (n, features); each is evidence *for* the label.
        labels: Shape (n,), 0 or 1.
        ridge: Precision of a normal prior on the weights of standardised features; the bias has none.

    A feature whose weight comes out negative is left out, and the rest fitted again, until none is.
    """
    mean = features.mean(axis=0)
    spread = features.std(axis=0)
    kept = [int(column) for column in np.flatnonzero(spread > _TINY)]
    while True:
        scaled = (features[:, kept] - mean[kept]) / spread[kept]
        solution = _newton(scaled, labels, ridge)
        negative = [column for column, weight in zip(kept, solution, strict=False) if weight < 0]
        if not negative:
            break
        kept = [column for column in kept if column not in negative]
    weights = np.zeros(features.shape[1])
    weights[kept] = solution[:-1] / spread[kept]
    return Logistic(weights=tuple(weights.tolist()), bias=float(solution[-1] - weights @ mean))


def _newton(features: Matrix, labels: Matrix, ridge: float, *, steps: int = 30) -> Matrix:
    design = np.column_stack([features, np.ones(len(features))])
    penalty = np.full(design.shape[1], ridge)
    penalty[-1] = 1e-6  # keeps the bias finite where all labels are alike
    solution = np.zeros(design.shape[1])
    for _ in range(steps):
        chance = 1.0 / (1.0 + np.exp(-np.clip(design @ solution, -30, 30)))
        gradient = design.T @ (chance - labels) + penalty * solution
        curvature = (design * (chance * (1 - chance) + 1e-9)[:, None]).T @ design + np.diag(penalty)
        step = np.linalg.solve(curvature, gradient)
        solution = solution - step
        if float(np.abs(step).max()) < _TINY:
            break
    return solution


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallModel:
    """Fitted to a catalogue by `jazz_select.memory.fit.learning`, stored beside it, used by every recall.

    Attributes:
        digest: Of the catalogue it was fitted to.
        scales: How each arm's scores count in the fusion.
        transform: Request vectors are multiplied by it, symmetric, shape (dim, dim); None leaves them as they are.
        confidence: P(a candidate is right) from `features.candidate_features`; None where that is not known.
        scope: P(some flow is right) from `features.scope_features`; None where that is not known.
        names: Folded names and aliases that stand for one flow alone, to its id.
        flows: The ids of all flows that were written for the agent; None where that is not known.
        terms: How many flows have each term; None where a flow has been written or deleted since they were counted.
        caveat: Why confidence is not known, for people; empty where it is.
    """

    digest: str = ""
    scales: Mapping[str, ArmScale] = field(default_factory=lambda: DEFAULT_SCALES)
    transform: Vectors | None = None
    confidence: Logistic | None = None
    scope: Logistic | None = None
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    flows: frozenset[str] | None = None
    terms: TermCounts | None = None
    caveat: str = "the catalogue has not been synced, so confidence is not known"

    def aim(self, vector: Vectors) -> list[float]:
        """The request's vector as this catalogue wants it asked; unit length."""
        if self.transform is None:
            return vector.tolist()
        aimed: Vectors = vector @ self.transform
        length = sqrt(aimed.dot(aimed))
        return np.divide(aimed, np.float32(length), out=aimed).tolist() if length > 0 else vector.tolist()

    def as_note(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "version": _VERSION,
            "digest": self.digest,
            "scales": {arm: [scale.width, scale.weight] for arm, scale in self.scales.items()},
            "transform": None if self.transform is None else _packed(self.transform),
            "confidence": _logistic_as_list(self.confidence),
            "scope": _logistic_as_list(self.scope),
            "names": dict(self.names),
            "flows": None if self.flows is None else sorted(self.flows),
            "terms": None if self.terms is None else self.terms.as_note(),
            "caveat": self.caveat,
        }

    @classmethod
    def from_note(cls, note: Mapping[str, Any] | None, *, dim: int | None = None) -> "RecallModel":
        """Read it back; what another version wrote, or anything that is no such note, is as good as none.

        `dim` is the length of the vectors that it is to aim, where that is known.
        """
        if note is None:
            return cls()
        try:
            return cls._read(note, dim)
        except Exception as error:  # noqa: BLE001 - an index that others write to may hold anything
            _log.warning("error=<%r> | the note of a sync cannot be read", error)
            return cls(caveat=UNREAD)

    @classmethod
    def _read(cls, note: Mapping[str, Any], dim: int | None) -> "RecallModel":
        _must(note["version"] == _VERSION, "version")
        for field_, kind in (("digest", str), ("caveat", str), ("names", dict), ("scales", dict)):
            _must(isinstance(note[field_], kind), field_)
        names = cast("dict[object, object]", note["names"])
        _must(all(isinstance(each, str) for pair in names.items() for each in pair), "names")
        scales = {
            arm: ArmScale(width=_positive(width), weight=_finite(weight))
            for arm, (width, weight) in note["scales"].items()
        }
        _must(scales.keys() == DEFAULT_SCALES.keys(), "scales")
        flows = cast("list[str] | None", note["flows"])
        _must(flows is None or (type(flows) is list and all(type(each) is str for each in flows)), "flows")
        return cls(
            digest=note["digest"],
            scales=scales,
            transform=None if note["transform"] is None else _unpacked(note["transform"], dim),
            confidence=_logistic(note["confidence"], _CANDIDATE),
            scope=_logistic(note["scope"], _SCOPE),
            names=note["names"],
            flows=None if flows is None else frozenset(flows),
            terms=None if note["terms"] is None else TermCounts.from_note(note["terms"]),
            caveat=note["caveat"],
        )


def _packed(matrix: Vectors) -> dict[str, Any]:
    return {"shape": list(matrix.shape), "data": b64encode(matrix.astype("<f4").tobytes()).decode("ascii")}


def _unpacked(packed: Mapping[str, Any], dim: int | None) -> Vectors:
    side = packed["shape"][0]
    _must(packed["shape"] == [side, side] and dim in {None, side}, "transform")
    flat = np.frombuffer(b64decode(packed["data"]), dtype="<f4")
    _must(bool(np.isfinite(flat).all()), "transform")
    return flat.reshape(side, side).astype(np.float32)


def _must(right: bool, what: str) -> None:  # noqa: FBT001 - a condition
    if not right:
        raise ValueError(what)


def _finite(number: Any) -> float:
    _must(isinstance(number, int | float) and isfinite(number), "a number")
    return float(number)


def _positive(number: Any) -> float:
    _must(_finite(number) > 0, "a number above 0")
    return float(number)


def _logistic_as_list(model: Logistic | None) -> list[float] | None:
    return None if model is None else [model.bias, *model.weights]


def _logistic(numbers: list[float] | None, features: int) -> Logistic | None:
    if numbers is None:
        return None
    _must(len(numbers) == 1 + features, "weights")
    bias, *weights = map(_finite, numbers)
    return Logistic(bias=bias, weights=tuple(weights))
