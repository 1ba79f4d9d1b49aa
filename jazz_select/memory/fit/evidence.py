"""Evidence: what a log of decisions adds to recall, and from which confidence on recall may decide alone. Pure.

A linear head learns which flow requests like these are for. Its probabilities are mixed with recall's own. How sure the
mixture is, is calibrated on predictions that were made before the answer was learned from (Dawid's prequential
principle, 1984): a log is read in blocks, and each block is predicted by a head that was fitted to the blocks before
it.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from math import exp, log
from operator import itemgetter
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from jazz_select.arguments import Constraint, adapter_of
from jazz_select.json_values import is_object
from jazz_select.memory.encoder import PackedArray
from jazz_select.memory.fit.linear_head import Lesson, fit_head
from jazz_select.outcomes.evidence import ASK_AGAIN, LEAST, NONE, TOSS
from jazz_select.ports import Vectors
from jazz_select.serialization import value_of
from jazz_select.stages import Thresholds

Matrix = npt.NDArray[np.float64]
_log = logging.getLogger(__name__)
MOST = 3_000
"""Most labelled observations, the last ones: more teach little, and what is learned is to be of today."""
_GROWTH, _SOON, _LATER_GROWTH = 1.4, 1_000, 2.0
"""The end of a block by that of the one before, and by that of one that ends later than `_SOON`. Shorter blocks cost
more fits, and longer ones are predicted by heads that know much less than the one that is kept."""
_MOST_MIXED = 2_000
"""Most observations that the three weights of the mixture are fitted to, the last ones."""
_FLOOR = 1e-4
_LOG_FLOOR = log(_FLOOR)
"""Least probability in the mixture."""
_MIX, _MIX_HELD = (1.0, 0.6, 0.0), (20.0, 10.0, 0.5)
"""Prior of the weights of recall, of the head, and of "none": means and precisions."""
_FIXED = 1e12
_LINE, _LINE_HELD, _OFFSET_HELD = (1.0, 0.0), (4.0, 1.0), 6.25
"""Prior of slope and offset: means and precisions; and the precision of a flow's own offset."""
_LEAST_SLOPE = 1e-3
_CAUTION = 0.7
"""How many standard deviations below its estimate log odds are taken where recall is to decide alone: with fifty
labels the line is hardly known, and with a thousand the two are nearly the same."""
_RECENT, _FEWEST_RECENT = 0.5, 200
"""The share of the log whose confidences stand for those of requests to come, and its least number."""
_POINTS = 400
_STEPS, _TINY = 50, 1e-9
_SHOWN = 1e-3
_LARGEST = 1e6
_MOST_FLOWS = 1 << 20
_VERSION = 1

_FINITE: Mapping[str, Any] = {"allow_inf_nan": False, "strict": True}
_Number = Annotated[float, Constraint("a number", ge=-_LARGEST, le=_LARGEST, **_FINITE)]
_Chance = Annotated[float, Constraint("a probability", ge=0, le=1, **_FINITE)]
_Count = Annotated[int, Constraint("a count", ge=0, le=1 << 53, strict=True)]
_Chances = Annotated[tuple[_Chance, ...], Constraint("probabilities", max_length=1 << 16)]
_Flows = Annotated[tuple[str, ...], Constraint("flow ids", min_length=1, max_length=_MOST_FLOWS)]
_Flags = npt.NDArray[np.bool_]
_Places = npt.NDArray[np.int_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """Logged requests as evidence, oldest first.

    Attributes:
        vectors: Request embeddings as the encoder gives them, shape (n, dim), unit length.
        labels: The flow id that was chosen or corrected to; `NONE` where nothing fitted.
        trust: P(the label is right), shape (n,); 1 for a person's word. Up to one half the label says nothing, however
            many say the same, and the request only shows what is asked: so at 0 are those that recall decided alone.
        by_person: Whether a person said so.
        recall_first: The flow id that recall itself had first at the time; empty if it is not known.
    """

    vectors: Matrix | Vectors
    labels: Sequence[str]
    trust: Matrix
    by_person: Sequence[bool]
    recall_first: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearHead:
    """P(flow) of a request vector, by multinomial logistic regression.

    `flows` are flow ids, or `NONE`, in the order of the rows of `weights`; a row is the weights of a flow and, last,
    its bias.
    """

    flows: _Flows
    weights: Annotated[Vectors, PackedArray("<f2")]

    def log_chances(self, vector: Matrix | Vectors) -> Vectors:
        """Return log P of each flow, shape (flows,)."""
        logits: Vectors = self.weights[:, :-1] @ np.asarray(vector, dtype=np.float32)
        logits += self.weights[:, -1]
        logits -= logits.max()
        logits -= np.log(np.exp(logits).sum())
        return logits


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """Weights of a log-linear mixture of recall's probabilities and the head's; `none` is added for no flow at all."""

    recall: _Number
    head: _Number
    none: _Number


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Platt's line: log odds of being right, from the mixture's log odds. Flows may have an offset of their own."""

    slope: Annotated[float, Constraint("a number above 0", ge=_LEAST_SLOPE, le=_LARGEST, **_FINITE)]
    offset: _Number
    flows: Mapping[str, _Number] = field(default_factory=dict[str, float])

    def __call__(self, chance: float, flow: str) -> float:
        """Return P(right) of a flow that the mixture gives this chance."""
        bound = min(max(chance, 1e-6), 1 - 1e-6)
        odds = self.slope * log(bound / (1 - bound)) + self.offset + self.flows.get(flow, 0.0)
        return 1.0 / (1.0 + exp(-max(-700.0, min(700.0, odds))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """What was measured prospectively: labelled requests, and how many of them were predicted."""

    requests: _Count
    agreed: _Count
    sure: _Count
    """Of these requests, those predicted with at least `ASK_AGAIN`."""
    sure_agreed: _Count


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceModel:
    """What a log taught: fitted by a sync, stored beside the index, used by every recall.

    Attributes:
        sure: Confidences of recent requests, descending.
        errors: The expected share of wrong answers among those at least as sure, of the widest such group, by the
            cautious estimate of the calibration; ascending.
        agreement: What was measured, for people to read.
    """

    head: LinearHead
    mix: Mix
    line: Line
    sure: _Chances
    errors: _Chances
    agreement: Agreement

    def chances(
        self, vector: Matrix | Vectors, recall_chances: Mapping[str, float]
    ) -> tuple[Mapping[str, float], float]:
        """Return joint P(right) by flow id, best first, and P(none); together at most 1.

        `recall_chances` are recall's own joint probabilities of its likeliest flows, none included.
        """
        flows, mix, logits = self.head.flows, self.mix, self.head.log_chances(vector)
        np.maximum(logits, _LOG_FLOOR, out=logits)
        logits *= mix.head
        places = _places(flows)
        others: dict[str, float] = {}
        for flow, more in _added_logits(recall_chances, mix).items():
            if flow in places:
                logits[places[flow]] += more
            else:
                others[flow] = mix.head * _LOG_FLOOR + more
        best = max(float(logits.max()), *others.values()) if others else float(logits.max())
        logits -= best
        np.exp(logits, out=logits)
        unknown = {flow: exp(logit - best) for flow, logit in others.items()}
        total = float(logits.sum(dtype=np.float64)) + sum(unknown.values())
        least = min(_SHOWN * total, 1.0)
        found = [(chance, flow) for flow, chance in unknown.items() if chance >= least]
        found += [(float(logits[place]), flows[place]) for place in np.flatnonzero(logits >= least).tolist()]
        found.sort(key=itemgetter(0), reverse=True)
        return _calibrate_first({flow: chance / total for chance, flow in found}, self.line)

    @property
    def thresholds(self) -> Thresholds:
        """How sure recall must be to decide alone."""
        return Thresholds(
            confidences=self.sure, errors=self.errors, requests=self.agreement.requests, ask_again=ASK_AGAIN
        )

    def as_note(self) -> dict[str, Any]:
        """Return the model for JSON."""
        return {**adapter_of(EvidenceModel).dump_python(self, mode="json"), "version": _VERSION}

    @classmethod
    def from_note(cls, note: object, *, dim: int | None = None) -> "EvidenceModel | None":
        """Read a model; None for a note of another version or dimension, or one that cannot be read."""
        if note is None:
            return None
        try:
            noted = note if is_object(note) else dict[str, object]()
            _require(noted.get("version") == _VERSION, "version")
            return value_of(cls, noted)._check_parts(dim)  # noqa: SLF001 - one of this class
        except Exception as error:  # noqa: BLE001 - an index that others write to may hold anything
            _log.warning("error=<%r> | the evidence of a sync cannot be read", error)
            return None

    def _check_parts(self, dim: int | None) -> "EvidenceModel":
        """Return the model with its weights as a matrix; raise ValueError if its parts do not fit together."""
        flows, weights = self.head.flows, self.head.weights.astype(np.float32)
        wide = weights.size // len(flows)
        _require(wide * len(flows) == weights.size and wide > 1 and dim in {None, wide - 1}, "weights")
        _require(bool((np.abs(weights) <= _LARGEST).all()), "weights")
        _require(len({*flows}) == len(flows), "flows")
        _require(len(self.sure) == len(self.errors), "errors")
        _require(all(before >= after for before, after in pairwise(self.sure)), "sure")
        _require(all(before <= after for before, after in pairwise(self.errors)), "errors")
        return replace(self, head=replace(self.head, weights=weights.reshape(len(flows), wide)))


def _require(right: bool, what: str) -> None:  # noqa: FBT001 - a condition
    if not right:
        raise ValueError(what)


def _added_logits(recalled: Mapping[str, float], mix: Mix) -> Mapping[str, float]:
    """Return what recall's probabilities, and "none", add to the logits of flows that recall does not list."""
    known = {flow: _bound_chance(chance) for flow, chance in recalled.items() if flow != NONE}
    total = sum(known.values())
    scale = max(total, 1.0)
    added = {flow: mix.recall * (log(max(chance / scale, _FLOOR)) - _LOG_FLOOR) for flow, chance in known.items()}
    added[NONE] = mix.recall * (log(max(1.0 - total, _FLOOR)) - _LOG_FLOOR) + mix.none
    return added


def _bound_chance(chance: float) -> float:
    """Return a probability, whatever number it is made of; what is no number is none."""
    return min(max(chance, 0.0), 1.0) if chance == chance else 0.0  # noqa: PLR0124 - NaN differs from itself


@lru_cache(64)
def _places(flows: tuple[str, ...]) -> Mapping[str, int]:
    return {flow: place for place, flow in enumerate(flows)}


def _calibrate_first(mixed: Mapping[str, float], line: Line) -> tuple[Mapping[str, float], float]:
    """Return the mixture with P(the first is right) by the line; the others share what is left, in their order."""
    (first, chance), *rest = mixed.items()
    sure = line(chance, first)
    share = min((1.0 - sure) / max(1.0 - chance, _TINY), sure / chance)
    found = {first: sure, **{flow: other * share for flow, other in rest}}
    none = found.pop(NONE, 0.0)
    return found, none


def fit_evidence(
    examples: Matrix | Vectors,
    example_labels: Sequence[str],
    seen: Observations,
    *,
    recalled: Sequence[Mapping[str, float]],
) -> EvidenceModel | None:
    """Fit what a log taught; None for fewer than `LEAST` labelled observations.

    An observation is a target of P = trust for its label, and the rest for what recall had first; its weight is how far
    its trust exceeds that of a toss, 2 · trust - 1.

    Args:
        examples: Vectors of the catalogue's texts (examples, names), shape (texts, dim).
        example_labels: The flow id of each; every flow of the catalogue is among them.
        seen: The log. Labels that no example has are left out: such flows have left the catalogue.
        recalled: What recall alone gives each observation, joint P(right) by flow id, with a sum of at most 1.

    Raises:
        ValueError: The parts are not as long as they must be.
    """
    count = len(seen.vectors)
    if len(examples) != len(example_labels):
        msg = f"{len(examples)} vectors of examples have {len(example_labels)} labels"
        raise ValueError(msg)
    if {len(seen.labels), len(seen.trust), len(seen.by_person), len(seen.recall_first), len(recalled)} != {count}:
        msg = f"{count} observations need as many labels, trusts, sources, first flows and recalled flows"
        raise ValueError(msg)
    flows = (*sorted({*example_labels} - {NONE}), NONE)
    log_of = _Log.from_observations(flows, *_last(seen, recalled))
    if int(np.count_nonzero(log_of.labelled)) < LEAST:
        return None
    # A head that was never shown "none" has no class for it.
    has_none = bool((log_of.labels[log_of.labelled] == len(flows) - 1).any())
    classes = len(flows) if has_none else len(flows) - 1
    places = _places(flows)
    own = np.zeros((len(examples), classes), dtype=np.float32)
    own[np.arange(len(examples)), [places[label] for label in example_labels]] = 1
    predictions, weights = _predict_by_blocks(np.asarray(examples, dtype=np.float32), own, log_of)
    mix = _fit_mix(log_of, predictions)
    mixed = _mix(mix, log_of.recalled, predictions)
    line, sureness = _fit_line(flows, mixed, log_of)
    return EvidenceModel(
        head=LinearHead(flows=flows[:classes], weights=_round_weights(weights)),
        mix=mix,
        line=line,
        agreement=_agreement(mixed.argmax(axis=1), sureness.sure, log_of),
        **_curve(sureness),
    )


def _last(
    seen: Observations, recalled: Sequence[Mapping[str, float]]
) -> tuple[Observations, Sequence[Mapping[str, float]]]:
    """Return the end of a log with `MOST` labels; what persons said stays, however old."""
    labelled = np.flatnonzero(np.asarray(seen.trust) > TOSS)
    if len(labelled) <= MOST:
        return seen, recalled
    by_person = np.asarray(seen.by_person, dtype=bool)
    persons = labelled[by_person[labelled]][-MOST:]
    others = labelled[~by_person[labelled]]
    room = MOST - len(persons)
    start = 0
    if room == 0:
        start = len(by_person)
    elif room <= len(others):
        start = int(others[-room])
    kept = [*(each for each in persons.tolist() if each < start), *range(start, len(by_person))]
    cut = Observations(
        vectors=seen.vectors[kept],
        labels=[seen.labels[each] for each in kept],
        trust=seen.trust[kept],
        by_person=[seen.by_person[each] for each in kept],
        recall_first=[seen.recall_first[each] for each in kept],
    )
    return cut, [recalled[each] for each in kept]


@dataclass(frozen=True, slots=True)
class _Log:
    """A log as arrays; classes are the flows and, last, "none"."""

    vectors: Vectors
    labels: _Places
    labelled: _Flags
    weights: Matrix
    targets: Matrix
    """P(class) of each request times its weight, shape (requests, classes)."""
    recalled: Matrix
    """Log probabilities by recall, shape (requests, classes)."""

    @classmethod
    def from_observations(
        cls, flows: tuple[str, ...], seen: Observations, recalled: Sequence[Mapping[str, float]]
    ) -> "_Log":
        """Read a log."""
        places, count = _places(flows), len(seen.labels)
        labels = np.array([places.get(label, -1) for label in seen.labels], dtype=np.int_)
        recall_first = np.array([places.get(flow, -1) if flow else -1 for flow in seen.recall_first], dtype=np.int_)
        trust: Matrix = np.clip(np.nan_to_num(np.asarray(seen.trust, dtype=np.float64)), 0.0, 1.0)
        # An observation as likely wrong as right teaches nothing.
        weights = np.where(labels >= 0, np.maximum(2 * trust - 1, 0.0), 0.0)
        labelled = weights > 0
        logs = np.full((count, len(flows)), _LOG_FLOOR)
        plain = Mix(recall=1.0, head=0.0, none=0.0)
        for row, chances in enumerate(recalled):
            known = {flow: chance for flow, chance in chances.items() if flow in places}
            for flow, more in _added_logits(known, plain).items():
                logs[row, places[flow]] += more
        # What the label may be wrong about goes to the flow that was chosen, or that recall found first.
        targets = np.zeros((count, len(flows)))
        rows = np.flatnonzero(labelled)
        first = np.where(recall_first >= 0, recall_first, logs.argmax(axis=1))
        targets[rows, labels[rows]] += trust[rows]
        targets[rows, first[rows]] += 1.0 - trust[rows]
        targets *= weights[:, None]
        vectors: Vectors = np.asarray(seen.vectors, dtype=np.float32)
        return cls(vectors, labels, labelled, weights, targets, logs)


def _predict_by_blocks(examples: Vectors, own: Vectors, log_of: _Log) -> tuple[Matrix, Vectors]:
    """Return log P of each request by the head fitted to the blocks before its own, and the weights fitted to all.

    Shapes: (requests, classes with "none"), (dim + 1, classes of the head).
    """
    count, classes = len(log_of.labels), own.shape[1]
    predictions = np.full(log_of.recalled.shape, _LOG_FLOOR)
    weights = np.zeros((examples.shape[1] + 1, classes), dtype=np.float32)
    for start, end in (*_blocks(count), (count, count)):
        rows = np.flatnonzero(log_of.labelled[:start])
        lesson = Lesson(
            np.vstack([examples, log_of.vectors[rows]]),
            np.vstack([own, log_of.targets[rows, :classes].astype(np.float32)]),
        )
        weights = fit_head(lesson, start=weights)
        logits = (log_of.vectors[start:end] @ weights[:-1] + weights[-1]).astype(np.float64)
        predictions[start:end, :classes] = np.maximum(_log_softmax(logits), _LOG_FLOOR)
    return predictions, weights


def _blocks(count: int) -> Iterable[tuple[int, int]]:
    """Yield the bounds of the blocks: at least `LEAST` requests each, and more the more there are before them."""
    start, end = 0, LEAST
    while start < count:
        yield start, min(end, count)
        start, end = end, max(end + LEAST, int((_GROWTH if end < _SOON else _LATER_GROWTH) * end))


def _log_softmax(logits: Matrix) -> Matrix:
    if not len(logits):
        return logits
    logits = logits - logits.max(axis=1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def _mix(mix: Mix, recalled: Matrix, predictions: Matrix) -> Matrix:
    """Return the mixture's probabilities, shape (requests, classes)."""
    logits = mix.recall * recalled + mix.head * predictions
    logits[:, -1] += mix.none
    return np.exp(_log_softmax(logits))


def _fit_mix(log_of: _Log, predictions: Matrix) -> Mix:
    """Fit the weights of the mixture to the targets: maximum a posteriori by Newton's method.

    A negative weight of recall or of the head would turn around what they say: it is held at 0, and the rest is fitted
    again.
    """
    rows = np.flatnonzero(log_of.labelled)[-_MOST_MIXED:]
    targets, recalled, head = log_of.targets[rows], log_of.recalled[rows], predictions[rows]
    weights = targets.sum(axis=1)
    none = np.zeros(recalled.shape[1])
    none[-1] = 1.0
    arms = (recalled, head, np.broadcast_to(none, recalled.shape))
    agreements = np.array([float((targets * arm).sum()) for arm in arms])
    prior, held = np.array(_MIX), np.array(_MIX_HELD)

    def judged(solution: Matrix) -> tuple[float, Matrix]:
        logits = solution[0] * recalled + solution[1] * head + solution[2] * none
        logs = _log_softmax(logits)
        chances = np.exp(logs)
        loss = -float((targets * logs).sum()) + 0.5 * float((held * (solution - prior) ** 2).sum())
        means = np.stack([(chances * arm).sum(axis=1) for arm in arms])
        gradient = means @ weights - agreements + held * (solution - prior)
        curvature = np.diag(held)
        for one, arm in enumerate(arms):
            weighed = chances * arm
            for other in range(one + 1):
                both = (weighed * arms[other]).sum(axis=1) - means[one] * means[other]
                curvature[one, other] += float(weights @ both)
                curvature[other, one] = curvature[one, other]
        return loss, np.asarray(np.linalg.solve(curvature, gradient), dtype=np.float64)

    found: list[float] = _newton(prior, judged).tolist()
    while negative := [arm for arm in (0, 1) if found[arm] < 0]:
        prior[negative], held[negative] = 0.0, _FIXED
        found = np.where(held == _FIXED, 0.0, _newton(prior, judged)).tolist()
    recall, own, nothing = found
    return Mix(recall=recall, head=own, none=nothing)


def _newton(start: Matrix, judged: Callable[[Matrix], tuple[float, Matrix]]) -> Matrix:
    """Return where a convex loss is least. `judged` gives the loss and Newton's step; one that raises it is halved."""
    solution = start.copy()
    loss, step = judged(solution)
    for _ in range(_STEPS):
        new_loss, new_step = judged(solution - step)
        while new_loss > loss and float(np.abs(step).max()) > _TINY:
            step = step / 2
            new_loss, new_step = judged(solution - step)
        if not new_loss < loss - _TINY * abs(loss):
            break
        solution, loss, step = solution - step, new_loss, new_step
    return solution


@dataclass(frozen=True, slots=True)
class _Sureness:
    """The confidence of every request's first flow, and a cautious estimate of it."""

    sure: Matrix
    cautious: Matrix


def _fit_line(flows: Sequence[str], mixed: Matrix, log_of: _Log) -> tuple[Line, _Sureness]:
    """Fit Platt's line with an offset for each flow: maximum a posteriori.

    What is less sure than `ASK_AGAIN` does not count: no threshold lies there, and there a model's own mistakes are.
    The cautious estimate takes log odds `_CAUTION` standard deviations lower, by the curvature at the maximum
    (Laplace's approximation).
    """
    top = mixed.argmax(axis=1)
    chance = np.clip(mixed[np.arange(len(mixed)), top], 1e-6, 1 - 1e-6)
    design = np.column_stack([np.log(chance / (1 - chance)), np.ones(len(chance))])
    counted = np.flatnonzero(log_of.labelled & (chance >= ASK_AGAIN))
    right = (log_of.labels == top)[counted].astype(np.float64)
    answers = _Answers(design[counted], top[counted], right, log_of.weights[counted], len(flows))
    solution = _newton(np.array([*_LINE, *(0.0 for _ in flows)]), answers.judged)
    solution[0] = max(solution[0], _LEAST_SLOPE)
    odds = design @ solution[:2] + solution[2:][top]
    covariance = np.linalg.inv(answers.curvature(solution))
    spread = np.sqrt(np.maximum(((design @ covariance) * design).sum(axis=1), 0.0))
    slope, offset, *own = solution.tolist()
    line = Line(slope=slope, offset=offset, flows={flow: each for flow, each in zip(flows, own, strict=True) if each})
    return line, _Sureness(_logistic(odds), _logistic(odds - _CAUTION * spread))


@dataclass(frozen=True, slots=True)
class _Answers:
    """Answers that were sure, for a logistic regression on two features and an offset for each flow."""

    design: Matrix
    flow: _Places
    right: Matrix
    weights: Matrix
    flows: int

    def judged(self, solution: Matrix) -> tuple[float, Matrix]:
        """Return the loss and Newton's step; the flows' offsets are eliminated, so that many of them cost little."""
        line, own = solution[:2], solution[2:]
        logits = self.design @ line + own[self.flow]
        held, off = np.array(_LINE_HELD), line - np.array(_LINE)
        misses = self.weights * (np.logaddexp(0.0, logits) - self.right * logits)
        loss = float(misses.sum() + 0.5 * (held * off**2).sum() + 0.5 * _OFFSET_HELD * (own**2).sum())
        gaps = self.weights * (_logistic(logits) - self.right)
        slopes = self.design.T @ gaps + held * off
        own_slopes = self._by_flow(gaps) + _OFFSET_HELD * own
        across, along = self._of_flows(logits)
        step = np.linalg.solve(self.curvature(solution), slopes - across @ (own_slopes / along))
        return loss, np.concatenate([step, (own_slopes - step @ across) / along]).astype(np.float64)

    def curvature(self, solution: Matrix) -> Matrix:
        """Return the curvature of slope and offset with the flows' offsets at their best (Schur complement)."""
        logits = self.design @ solution[:2] + solution[2:][self.flow]
        across, along = self._of_flows(logits)
        whole = (self.design * self._spread(logits)[:, None]).T @ self.design + np.diag(_LINE_HELD)
        return np.asarray(whole - (across / along) @ across.T, dtype=np.float64)

    def _of_flows(self, logits: Matrix) -> tuple[Matrix, Matrix]:
        """Return the curvature between line and offsets, shape (2, flows), and that of the offsets, shape (flows,)."""
        spread = self._spread(logits)
        across = np.stack([self._by_flow(spread * column) for column in self.design.T])
        return across, self._by_flow(spread) + _OFFSET_HELD

    def _by_flow(self, numbers: Matrix) -> Matrix:
        return np.bincount(self.flow, numbers, self.flows).astype(np.float64)

    def _spread(self, logits: Matrix) -> Matrix:
        chances = _logistic(logits)
        return np.asarray(self.weights * chances * (1.0 - chances), dtype=np.float64)


def _logistic(logits: Matrix) -> Matrix:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(logits, -500.0, 500.0))), dtype=np.float64)


def _curve(sureness: _Sureness) -> Mapping[str, tuple[float, ...]]:
    """Return confidences of recent requests, descending, and the expected error of those at least as sure."""
    recent = max(_FEWEST_RECENT, round(len(sureness.sure) * _RECENT))
    sure, errors = sureness.sure[-recent:], 1.0 - sureness.cautious[-recent:]
    order = np.lexsort((errors, -sure))
    shares = np.cumsum(errors[order]) / np.arange(1, len(order) + 1)
    least = np.minimum.accumulate(np.minimum(shares, 1.0)[::-1])[::-1]
    kept = np.unique(np.linspace(0, len(order) - 1, _POINTS).round().astype(np.int_))
    return {"sure": tuple(sure[order][kept].tolist()), "errors": tuple(least[kept].tolist())}


def _agreement(top: _Places, sure: Matrix, log_of: _Log) -> Agreement:
    agreed = log_of.labelled & (log_of.labels == top)
    certain = log_of.labelled & (sure >= ASK_AGAIN)
    counts = (log_of.labelled, agreed, certain, agreed & certain)
    requests, right, surely, surely_right = (int(np.count_nonzero(each)) for each in counts)
    return Agreement(requests=requests, agreed=right, sure=surely, sure_agreed=surely_right)


def _round_weights(weights: Vectors) -> Vectors:
    """Return the weights as they are after they were stored: by flow, in the precision of the note."""
    return np.ascontiguousarray(weights.T.astype(np.float16).astype(np.float32))
