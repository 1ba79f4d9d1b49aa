"""Calibration: confidence learned from the answers to a catalogue's own examples. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log

import numpy as np

from jazz_select.memory.fit.leave_one_out import HeldOut, LeaveOneOut
from jazz_select.memory.fit.model import (
    NOT_FOUND,
    ArmScale,
    Logistic,
    Matrix,
    RecallModel,
    Sets,
    Signals,
    TypicalCosines,
)
from jazz_select.ports import ArmHits
from jazz_select.stages import OUTSIDE, LeaveOneOutConfidence, leave_one_out_confidence

FIT_DEPTH = 30
"""Hits of each arm in the fusion; deeper ones hardly ever reach the top ten."""
CASE = 8
"""Weight of a labelled request, in examples: it is what users really ask."""
CANDIDATE_PRIOR = (1.9, 0.05, 0.6, 0.65, 0.1, 0.05, 1.35)
SCOPE_PRIOR = (0.05, 1.45, 0.7, 0.15, 0.25)
"""Prior means of the weights of standardized scope features.

They are the means of fits without a prior on the examples (never a test request) of CLINC150 and BANKING77, five and
ten a flow, static and MiniLM vectors. A few flows hardly move them; a hundred flows outweigh them.
"""
WHOLE = (1.1, 0.1)
"""Factor and offset from leave-one-out log odds to those of new requests: a flow that has all its examples is found
with more confidence than one that lacks the example in question.

Measured on requests of the train splits of CLINC150 and BANKING77 that no catalogue was shown, five and ten examples a
flow, static and MiniLM vectors; it differs little among these.
"""
_PRECISION = 10.0
_DRAWN = 5
"""Weight of the mean of all flows in a flow's usual cosine, in examples."""
_JUDGED = 3
"""Candidates of each example in the training data of confidence."""
_LOW, _STEEP = 0.1, 2.0
_STEPS, _TINY, _SMALL_STEP = 50, 1e-9, 1e-7


def calibrate_model(
    model: RecallModel, catalogue: LeaveOneOut, asked: Sequence[HeldOut], legs: Sequence[ArmHits], *, cases: int = 0
) -> tuple[RecallModel, Logistic]:
    """Return the model with its calibration, and the calibration of the leave-one-out answers themselves.

    The last `cases` of `asked` are labelled requests; the others are examples. `legs` are theirs, `FIT_DEPTH` deep.
    """
    scales = model.scales
    examples = len(asked) - cases
    usual, without_itself = _usual(model.usual, catalogue, asked[:examples])
    requests: list[_Request] = []
    for one, own in zip(asked[:examples], without_itself, strict=True):
        # An example is judged by what is usual for its flow without it.
        requests.append(_Request(one, replace(usual, keyed={**usual.keyed, one.flow: own})))
    requests += [_Request(one, usual, CASE) for one in asked[examples:]]
    weights = np.array([float(request.times) for request in requests])
    inside = [request.signals_of(found, scales) for request, found in zip(requests, legs, strict=True)]
    asked_alone = _fit_confidence(requests, inside, weights)
    confidence = _of_whole_flows(asked_alone, examples / float(weights.sum()))
    scope = _fit_scope(catalogue, requests, inside, scales, weights, usual)
    sets = _fit_sets(requests, inside, confidence)
    answers = _own_answers(requests, inside, confidence, asked_alone, scope)
    fitted = replace(model, confidence=confidence, scope=scope, sets=sets, answers=answers, usual=usual, caveat="")
    return fitted, asked_alone


@dataclass(frozen=True, slots=True)
class _Request:
    held_out: HeldOut
    usual: TypicalCosines
    times: int = 1
    """Weight in examples."""

    def signals_without(self, flows: Sequence[int], scales: Mapping[str, ArmScale]) -> Signals:
        return self.signals_of(self.held_out.legs(FIT_DEPTH, without=flows), scales)

    def signals_of(self, legs: ArmHits, scales: Mapping[str, ArmScale]) -> Signals:
        return Signals(legs, scales, self.held_out.terms, self.usual)


def _usual(
    known: TypicalCosines, catalogue: LeaveOneOut, asked: Sequence[HeldOut]
) -> tuple[TypicalCosines, list[float]]:
    """Return the usual cosines of the flows, and that of each example's flow without the example."""
    own = np.array([one.dense[one.flow] for one in asked], dtype=np.float64)
    flow = np.array([one.flow for one in asked])
    mean = float(own.mean())
    total = np.bincount(flow, own, minlength=len(catalogue.cards)) + _DRAWN * mean
    count = np.bincount(flow, minlength=len(catalogue.cards)) + _DRAWN
    drawn = total / count
    without_itself = (total[flow] - own) / (count[flow] - 1)
    keyed: dict[int, float] = {number: float(drawn[number]) for number in range(len(catalogue.cards))}
    return replace(
        known,
        flows={card.id: round(keyed[number], 5) for number, card in enumerate(catalogue.cards)},
        mean=mean,
        low=float(np.quantile([one.dense.max() for one in asked], _LOW)),
        keyed=keyed,
    ), without_itself.tolist()


def _fit_confidence(requests: Sequence[_Request], inside: Sequence[Signals], weights: Matrix) -> Logistic:
    features: list[tuple[float, ...]] = []
    right: list[float] = []
    counts: list[float] = []
    for request, answer, weight in zip(requests, inside, weights.tolist(), strict=True):
        for key in answer.best(_JUDGED):
            features.append(answer.candidate(key))
            right.append(float(key == request.held_out.flow))
            counts.append(weight)
    return fit_logistic(np.array(features), np.array(right), counts=np.array(counts), prior=CANDIDATE_PRIOR)


def _of_whole_flows(asked: Logistic, share: float) -> Logistic:
    """Return the calibration for new requests: moved by `WHOLE`, times the share of examples in the data."""
    slope, shift = 1 + share * (WHOLE[0] - 1), share * WHOLE[1]
    return Logistic(weights=tuple(slope * each for each in asked.weights), bias=slope * asked.bias + shift)


def _fit_scope(
    catalogue: LeaveOneOut,
    requests: Sequence[_Request],
    inside: Sequence[Signals],
    scales: Mapping[str, ArmScale],
    weights: Matrix,
    usual: TypicalCosines,
) -> Logistic:
    """Fit P(some flow is right): answers with the right flow, without it (near misses) and without its kin (far).

    The data have as many requests for a flow as for none; by Bayes' rule the odds are then moved to those of `OUTSIDE`.

    A catalogue has no requests of other domains, so the weight of a very low cosine is set, not learned: the odds fall
    e² times with each standard deviation of the best cosines.
    """
    flows = {request.held_out.flow for request in requests}
    neighbourhoods = {flow: catalogue.neighbourhood(flow) for flow in flows}
    near = [request.signals_without([request.held_out.flow], scales) for request in requests]
    far = [request.signals_without(neighbourhoods[request.held_out.flow], scales) for request in requests]
    features: Matrix = np.array([each.scope() for each in (*inside, *near, *far)])
    labels = np.repeat([1.0, 0.0, 0.0], len(requests))
    counts = np.concatenate([weights, weights / 2, weights / 2])
    learned = fit_logistic(features[:, :-1], labels, counts=counts, prior=SCOPE_PRIOR)
    slope = _STEEP / max(float(features[: len(requests), 0].std()), 1e-3)
    prior = log((1 - OUTSIDE) / OUTSIDE)
    return Logistic(weights=(*learned.weights, slope), bias=learned.bias - slope * usual.low + prior)


def _fit_sets(requests: Sequence[_Request], inside: Sequence[Signals], confidence: Logistic) -> Sets:
    """Return the nonconformity scores of the right flows (see `Sets`)."""
    nonconformity: list[float] = []
    for request, answer in zip(requests, inside, strict=True):
        best, flow, score = answer.best(), request.held_out.flow, NOT_FOUND
        if flow in best:
            before = best[: best.index(flow) + 1]
            score = round(Sets.scores([confidence(answer.candidate(key)) for key in before])[-1], 6)
        nonconformity += [score] * request.times
    return Sets(nonconformity=tuple(sorted(nonconformity)))


def _own_answers(
    requests: Sequence[_Request], inside: Sequence[Signals], confidence: Logistic, asked: Logistic, scope: Logistic
) -> LeaveOneOutConfidence:
    """Return the confidence of each answer, as of a new request and by leave-one-out."""
    answers: list[tuple[float, float]] = []
    for request, answer in zip(requests, inside, strict=True):
        chances = (0.0, 0.0)
        some = scope(answer.scope())
        for key in answer.best(1):
            features = answer.candidate(key)
            chances = (some * confidence(features), some * asked(features))
        answers += [chances] * request.times
    return leave_one_out_confidence(answers)


def fit_logistic(
    features: Matrix,
    labels: Matrix,
    *,
    counts: Matrix,
    prior: Sequence[float],
) -> Logistic:
    """Fit a logistic regression: maximum a posteriori by Newton's method (iteratively reweighted least squares).

    Features, shape (n, features), are each evidence *for* the label: those with a negative weight are removed, and the
    rest is fitted again. `counts` weigh the rows; `prior` are means of the weights of standardized features.
    """
    mean, spread = features.mean(axis=0), features.std(axis=0)
    expected = np.array(prior)
    kept = [int(column) for column in np.flatnonzero(spread > _TINY)]
    while True:
        scaled = (features[:, kept] - mean[kept]) / spread[kept]
        held = [_PRECISION] * len(kept) + [1e-6]  # which keeps the bias finite where all labels are alike
        solution = newton(scaled, labels, counts=counts, expected=(*expected[kept], 0.0), held=held)
        negative = [column for column, weight in zip(kept, solution, strict=False) if weight < 0]
        if not negative:
            break
        kept = [column for column in kept if column not in negative]
    weights = np.zeros(features.shape[1])
    weights[kept] = solution[:-1] / spread[kept]
    return Logistic(weights=tuple(weights.tolist()), bias=float(solution[-1] - weights @ mean))


def newton(
    features: Matrix, labels: Matrix, *, counts: Matrix, expected: Sequence[float], held: Sequence[float]
) -> Matrix:
    """Return weights and bias by Newton's method with a Gaussian prior; a step that raises the loss is halved."""
    design = np.column_stack([features, np.ones(len(features))])
    prior, penalty = np.array(expected), np.array(held)

    def loss(solution: Matrix) -> float:
        logits = design @ solution
        surprise = counts * (np.logaddexp(0.0, logits) - labels * logits)
        return float(surprise.sum() + 0.5 * (penalty * (solution - prior) ** 2).sum())

    share = float(np.clip((counts * labels).sum() / counts.sum(), 1e-3, 1 - 1e-3))
    solution: Matrix = np.append(prior[:-1], np.log(share / (1.0 - share)))
    before = loss(solution)
    for _ in range(_STEPS):
        chance = 1.0 / (1.0 + np.exp(-np.clip(design @ solution, -500, 500)))
        gradient = design.T @ (counts * (chance - labels)) + penalty * (solution - prior)
        curvature = (design * (counts * chance * (1 - chance) + 1e-9)[:, None]).T @ design + np.diag(penalty)
        step = np.linalg.solve(curvature, gradient)
        while (after := loss(np.asarray(solution - step, dtype=np.float64))) > before + _TINY:
            step = step / 2
        solution, before = np.asarray(solution - step, dtype=np.float64), after
        if float(np.abs(step).max()) < _SMALL_STEP:
            break
    return solution
