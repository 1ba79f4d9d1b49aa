"""Fits recall to a catalogue, from the flows' own examples alone. Pure: the same catalogue gives the same model."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import exp, log
from statistics import fmean
from typing import Any, cast

import numpy as np

from jazz_select.memory.encoder import Lexical, TermCounts, folded_names
from jazz_select.memory.fit.evidence import Observations, fit_evidence
from jazz_select.memory.fit.floor import with_floor
from jazz_select.memory.fit.leave_one_out import FOLDS, HeldOut, LeaveOneOut, Lessons
from jazz_select.memory.fit.model import (
    DEFAULT_SCALES,
    REFERENCE_K,
    ArmScale,
    Logistic,
    Matrix,
    RecallModel,
    Signals,
    TypicalCosines,
    soft_scores,
)
from jazz_select.memory.fit.sureness import FIT_DEPTH, calibrate_model
from jazz_select.outcomes.evidence import NONE, Evidence, request_digest
from jazz_select.ports import ArmHits, Vectors
from jazz_select.text import count_of
from jazz_select.values import FlowCard, flow_id

MAX_ASKED = 1_000
MIN_FLOWS, MIN_ASKED = 8, 40
"""Fewest flows and requests for a calibration."""
SHRINKAGE = 0.8
"""Shrinkage of the covariance of requests towards a multiple of the identity. With five examples a flow, much less
overfits and much more has no effect; results hardly differ from .7 to .9. The remainder is divided by `own_worth`."""
_MIN_RESIDUALS = 60
_RIVALS, _TRUST = 20, 60.0
"""Negative flows for each example, and the weight of the prior transform, in examples."""
_SHARPNESS, _STEPS, _MOMENTUM, _STRIDE = 20.0, 8, 0.9, 16.0
"""Inverse temperature of the softmax, and the optimizer: more steps overfit the examples."""
_WEIGHTS = (0.1, 0.15, 0.2, 0.25, 0.33, 0.5, 0.7, 1.0, 1.5, 2.0)
_AT_ONCE = 2
"""Transforms that are fitted in parallel."""
_USUAL_SHOWN, _APART = 0.4, 0.25
"""Prior of the BM25 weight where flows have examples: its median, and the standard deviation of its logarithm."""
_STEEP, _LOST = 200.0, -6.0
"""Inverse temperature of the softmax of fused scores, and the log probability of a flow that was not found."""
_USUAL_WORDS, _USUAL_WEIGHT = 4_000.0, 0.65
"""Words of all flows together, and the BM25 weight of a catalogue of that size without examples."""
_LEAST_WEIGHT, _MOST_WEIGHT = 0.5, 1.2
_FIT = "how much a cosine tells of tools without examples is fitted to their names"
"""Part of the digest: a new value makes the next sync fit every catalogue again."""


def catalogue_digest(fingerprints: Mapping[str, str], cases: Sequence[tuple[str, str]] = ()) -> str:
    """Return a digest of the flows, the labelled requests and the version of the fit."""
    text = "\x1f".join((_FIT, *(f"{flow}={mark}" for flow, mark in sorted(fingerprints.items())), *map(repr, cases)))
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:32]


def shuffle_flows(cards: Iterable[FlowCard]) -> list[FlowCard]:
    """Return flows in the order of the hashes of their ids: any first part is a fair sample, and always the same."""
    return sorted(cards, key=lambda card: hashlib.sha256(card.id.encode()).digest())


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A model with its training data: labelled requests, and what both arms found for each.

    `confidence` is the calibration of these leave-one-out answers; None without one. `transforms` are fitted without
    one fold of the examples each. `catalogue` is what was asked; None where no flow has two examples.
    """

    model: RecallModel
    catalogue: LeaveOneOut | None = None
    transforms: Sequence[Vectors | None] = (None,) * FOLDS
    asked: Sequence[HeldOut] = ()
    legs: Sequence[ArmHits] = ()
    confidence: Logistic | None = None


def fit(
    cards: Sequence[FlowCard],
    rows: Mapping[str, Vectors],
    lexical: Lexical,
    *,
    digest: str = "",
    cases: Sequence[tuple[str, str, Vectors]] = (),
    terms: TermCounts | None = None,
) -> Fitted:
    """Fit the recall model of a catalogue to its own examples.

    Each example is asked as a request against its flow without it (leave-one-out). The answers give the width and
    weight of each arm, P(right) by logistic regression on the margins of the candidates, and the sizes of prediction
    sets. P(in scope) compares the answers with those to the same requests where their flow, or its neighbourhood, is
    left out. The transform of requests starts at the inverse within-flow covariance, as in linear discriminant
    analysis: directions in which requests for one flow differ say little about which flow is meant. A few steps of a
    listwise loss then move examples nearer to their own flows than to others. Tools that have too few examples for
    that get a floor (`with_floor`).

    `rows` are the vectors of each flow's `dense_texts` by flow id, shape (texts, dim); `cases` are labelled requests
    beside the examples: text, flow id, vector; `terms` count the whole catalogue, if there are rows for a part of it.
    """
    known = [card for card in cards if card.id in rows]
    names = _names(cards)
    if not any(len(card.examples) > 1 for card in known):
        caveat = "no flow has two examples, so confidence is not known"
        scales = _scales_without_examples(known, lexical, flows=terms.flows if terms else len(known))
        model = RecallModel(digest=digest, scales=scales, names=names, caveat=caveat)
        return Fitted(model=with_floor(model, known, rows, lexical, terms))
    catalogue = LeaveOneOut(known, rows, lexical, terms=terms)
    *transforms, transform = _transforms(catalogue)
    asked = list(catalogue.ask_examples(transforms, MAX_ASKED))
    places = {card.id: number for number, card in enumerate(known)}
    examples = len(asked)
    for text, flow, vector in cases:
        if flow in places:  # a sample may lack the flow of a labelled request
            asked.append(catalogue.ask(text, vector, places[flow], transform))
    labelled = len(asked) - examples
    legs = [each.legs(FIT_DEPTH) for each in asked]
    scales = _weigh_bm25(_widths(legs), legs, asked)
    flows = len({each.flow for each in asked})
    caveat = (
        f"{count_of(len(asked), 'example')} of {count_of(flows, 'flow')} are too few to calibrate "
        f"({MIN_ASKED} of {MIN_FLOWS} are needed)"
    )
    model = RecallModel(digest=digest, scales=scales, transform=transform, names=names, caveat=caveat)
    model = replace(
        model, usual=TypicalCosines(lengths=catalogue.lengths, examples={card.id: len(card.examples) for card in cards})
    )
    if flows < MIN_FLOWS or len(asked) < MIN_ASKED:
        model = with_floor(model, known, rows, lexical, terms)
        return Fitted(model=model, catalogue=catalogue, transforms=transforms, asked=asked, legs=legs)
    model, confidence = calibrate_model(model, catalogue, asked, legs, cases=labelled)
    return Fitted(
        model=model, catalogue=catalogue, transforms=transforms, asked=asked, legs=legs, confidence=confidence
    )


def _names(cards: Sequence[FlowCard]) -> dict[str, str]:
    """Return flow ids by folded name, title and alias, without the ambiguous ones."""
    owners: defaultdict[str, set[str]] = defaultdict(set)
    for card in cards:
        for name in folded_names(card):
            owners[name].add(card.id)
    return {name: flows.pop() for name, flows in sorted(owners.items()) if name and len(flows) == 1}


def _transforms(catalogue: LeaveOneOut) -> list[Vectors | None]:
    """Return a transform for each fold, fitted without it, and one for all examples."""
    lessons = catalogue.lessons(MAX_ASKED, _RIVALS)
    worth = lessons.own_worth if lessons else 1.0

    def fit_fold(fold: int | None) -> Vectors | None:
        taught = lessons if lessons is None or fold is None else lessons.without(fold)
        return _sharpen(_transform(catalogue.residuals(without_fold=fold), worth), taught)

    # BLAS does nearly all of it without the interpreter's lock, and the result does not depend on the thread.
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="jazz-select-fit") as pool:
        return list(pool.map(fit_fold, (*range(FOLDS), None)))


def _transform(residuals: Vectors, own_worth: float) -> Vectors | None:
    """Return the inverse of the shrunk within-flow covariance, scaled to unit mean; None for too few residuals."""
    if len(residuals) < _MIN_RESIDUALS:
        return None
    dim = residuals.shape[1]
    scatter: Matrix = residuals.T.astype(np.float64) @ residuals / len(residuals)
    round_one = float(scatter.trace()) / dim * np.eye(dim)
    seen = (1 - SHRINKAGE) / own_worth
    mixed: Any = seen * scatter + (1 - seen) * round_one
    inverse = cast("Matrix", np.linalg.inv(mixed))
    return (inverse * (dim / float(inverse.trace()))).astype(np.float32)


def _sharpen(transform: Vectors | None, lessons: Lessons | None) -> Vectors | None:
    """Return the transform after a few steps that move requests nearer to their own flow than to its rivals.

    The loss is listwise: -log softmax of the right flow's score among its rivals. The penalty is the squared distance
    to the initial transform, weighted as `_TRUST` requests times the square of `own_worth`: where descriptions say
    more than the examples, the examples count less. Accelerated gradient descent from a fixed start is deterministic.
    """
    if transform is None or lessons is None or len(lessons.requests) < _MIN_RESIDUALS:
        return transform
    requests, count = lessons.requests, len(lessons.requests)
    initial: Vectors = transform / np.float32(np.median(np.linalg.norm(requests @ transform, axis=1)))
    penalty = np.float32(_TRUST * lessons.own_worth**2 / count)
    steepest = float(np.linalg.eigvalsh((requests.T @ requests / count).astype(np.float64))[-1])
    step = np.float32(1.0 / (_SHARPNESS**2 * steepest / _STRIDE + penalty))
    here, speed = initial, np.zeros_like(initial)
    for _ in range(_STEPS):
        ahead: Vectors = (here + np.float32(_MOMENTUM) * speed).astype(np.float32)
        slope = requests.T @ _slopes(lessons, requests @ ahead) / np.float32(count) + penalty * (ahead - initial)
        there: Vectors = (ahead - step * slope).astype(np.float32)
        here, speed = there, there - here
    return here


def _slopes(lessons: Lessons, aimed: Vectors) -> Vectors:
    """Return the gradient of each request's loss by its transformed vector; shape (requests, dim)."""
    sharpness = np.float32(_SHARPNESS)
    right = sharpness * (aimed * lessons.right).sum(axis=1, keepdims=True)
    wrong = np.where(lessons.allowed, sharpness * (lessons.wrong @ aimed[:, :, None])[:, :, 0], -np.inf)
    best = np.maximum(right, wrong.max(axis=1, keepdims=True))
    own, others = np.exp(right - best), np.exp(wrong - best)
    total = own + others.sum(axis=1, keepdims=True)
    pulled = ((others / total)[:, None, :] @ lessons.wrong)[:, 0, :]
    return (sharpness * (pulled + (own / total - 1) * lessons.right)).astype(np.float32)


def _widths(legs: Sequence[ArmHits]) -> dict[str, ArmScale]:
    """Return the width of each arm: a third of the median drop from rank 1 to ranks 2–6, three ranks on average."""
    drops: dict[str, list[float]] = {"dense": [], "bm25": []}
    for each in legs:
        for arm, found in (("dense", each.dense), ("bm25", each.bm25)):
            scores = list(found.values())[:6]
            if len(scores) <= 1:
                continue
            # BM25 has no upper bound, so its drops are shares of the best score; a cosine has one.
            top = scores[0] if arm == "bm25" else 1.0
            drop = fmean(scores[0] - score for score in scores[1:])
            drops[arm].append(drop / max(top, 1e-9))
    scales: dict[str, ArmScale] = {}
    for arm, seen in drops.items():
        width = DEFAULT_SCALES[arm].width
        if seen:
            width = max(float(np.median(seen)) / 3, 1e-4)
        scales[arm] = ArmScale(width=width, weight=1.0)
    return scales


def _scales_without_examples(cards: Sequence[FlowCard], lexical: Lexical, *, flows: int) -> Mapping[str, ArmScale]:
    """Return the scales of a catalogue without examples, of which `cards` are a sample.

    The BM25 weight grows with the number of words: among many flows vectors lie close together, while a rare word
    still tells flows apart. From names alone to 4,000 tools with parameters, the best weight grew about as the fourth
    root of the number of words.
    """
    if not cards:
        return DEFAULT_SCALES
    words = flows * fmean(len(lexical.count_card_terms(card)) for card in cards)
    weight = min(_MOST_WEIGHT, max(_LEAST_WEIGHT, _USUAL_WEIGHT * (words / _USUAL_WORDS) ** 0.25))
    return {**DEFAULT_SCALES, "bm25": replace(DEFAULT_SCALES["bm25"], weight=weight)}


def _weigh_bm25(
    scales: Mapping[str, ArmScale], legs: Sequence[ArmHits], asked: Sequence[HeldOut]
) -> dict[str, ArmScale]:
    """Return the scales with the expected BM25 weight, given the answers; the dense arm weighs 1.

    It is the posterior mean of the log weight. A weight is as likely as the right flows are under a softmax of the
    fused scores. One best weight would follow a handful of requests, where a catalogue has a hundred.
    """
    likelihoods: list[float] = []
    for weight in _WEIGHTS:
        own = {**scales, "bm25": replace(scales["bm25"], weight=weight)}
        likelihoods.append(sum(_log_chance(found, own, one.flow) for found, one in zip(legs, asked, strict=True)))
    logs = np.log(_WEIGHTS)
    prior = -0.5 * ((logs - log(_USUAL_SHOWN)) / _APART) ** 2
    belief: Matrix = np.array(likelihoods) + prior
    share = np.exp(belief - belief.max())
    mean = float(share @ logs / share.sum())
    return {**scales, "bm25": replace(scales["bm25"], weight=exp(mean))}


def _log_chance(legs: ArmHits, scales: Mapping[str, ArmScale], flow: int) -> float:
    """Return the log probability of a flow under a softmax of the fused scores; a low one if it was not found."""
    scores = soft_scores(legs, scales, REFERENCE_K)
    if flow not in scores:
        return _LOST
    steep = _STEEP / (1 + scales["bm25"].weight)
    best = max(scores.values())
    return steep * (scores[flow] - best) - log(sum(exp(steep * (score - best)) for score in scores.values()))


MOST_LOST = 0.002
"""Highest share of requests that the first embedder may answer wrongly and the second rightly."""
_PRIOR_ERRORS, _PRIOR_LOST = 4.0, 0.3
"""Prior of the share of errors that are the first embedder's alone: its weight in errors, and its mean."""


def fit_stages(
    cards: Sequence[FlowCard],
    stages: Sequence[tuple[Mapping[str, Vectors], Sequence[tuple[str, str, Vectors]]]],
    lexical: Lexical,
    *,
    digest: str = "",
    terms: TermCounts | None = None,
) -> RecallModel:
    """Fit the first embedder's model, with the second's inside it if there are two."""
    first, *rest = (fit(cards, rows, lexical, digest=digest, cases=cases, terms=terms) for rows, cases in stages)
    if not rest:
        return first.model
    second = rest[0]
    return replace(first.model, second=second.model, sure=_sure_from(first, second))


def _sure_from(first: Fitted, second: Fitted) -> float | None:
    """Return the lowest confidence of the first embedder at which at most `MOST_LOST` of all requests are lost.

    Both embedders answered the same labelled requests by leave-one-out. A request is lost if only the second is
    right; requests that only the first has right do not make up for it. Losses are too few to be counted directly, so
    they are estimated as a share of the errors that the first one's confidence predicts. None if no confidence will do.
    """
    asked, other = _answers(first), _answers(second)
    if asked is None or other is None:
        return None
    order = np.argsort(-asked[:, 1], kind="stable")
    sure, confidences = asked[order, 1], asked[order, 2]
    lost = np.cumsum((other[order, 0] > asked[order, 0]).astype(float))
    errors = np.cumsum(1.0 - sure)
    share = (lost + _PRIOR_LOST * _PRIOR_ERRORS) / (errors + _PRIOR_ERRORS)
    too_many = np.flatnonzero(share * errors / len(sure) > MOST_LOST)
    kept = int(too_many[0]) if len(too_many) else len(sure)
    return float(confidences[kept - 1]) if kept else None


def _answers(fitted: Fitted) -> Matrix | None:
    """Return rows of (whether the first candidate is right, its leave-one-out confidence, that for new requests)."""
    model, asked = fitted.model, fitted.confidence
    if model.confidence is None or asked is None:
        return None
    answers: list[tuple[bool, float, float]] = []
    for legs, one in zip(fitted.legs, fitted.asked, strict=True):
        evidence = Signals(legs, model.scales, one.terms, model.usual)
        answer = (False, 0.0, 0.0)
        for top in evidence.best(1):
            features = evidence.candidate(top)
            answer = (top == one.flow, asked(features), model.confidence(features))
        answers.append(answer)
    return np.array(answers, dtype=float)


_FIT_EVIDENCE = "requests are told apart by marks and signs"
"""Part of the digest of evidence: a new value makes the next sync learn from every log again."""


def evidence_digest(catalogue: str, seen: Sequence[Evidence]) -> str:
    """Return a digest of a catalogue's digest and of what is learned beside it."""
    parts = [_FIT_EVIDENCE, catalogue]
    for each in seen:
        parts.append(f"{each.request}\x1e{each.right}\x1e{each.trust:.6f}\x1e{each.recall_first}")
    text = "\x1f".join(parts)
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:32]


def signals_of(model: RecallModel, catalogue: LeaveOneOut, request: str, vector: Vectors) -> Signals:
    """Return how a catalogue of the places of flows answers a request, as recall would."""
    one = catalogue.ask(request, vector, 0, model.transform)
    return Signals(one.legs(FIT_DEPTH), model.scales, one.terms, model.usual)


def learn_from_log(
    model: RecallModel,
    cards: Sequence[FlowCard],
    rows: Mapping[str, Vectors],
    lexical: Lexical,
    seen: Sequence[Evidence],
    vectors: Vectors,
) -> RecallModel:
    """Return a catalogue's model with what logged requests teach, oldest first.

    Args:
        model: The model of the catalogue, with its term counts.
        cards: All its flows.
        rows: The vectors of each flow's `dense_texts` by flow id, shape (texts, dim).
        lexical: The settings of BM25.
        seen: The requests.
        vectors: Their vectors, shape (requests, dim).
    """
    catalogue = LeaveOneOut(cards, rows, lexical, terms=model.terms)
    places = {card.id: place for place, card in enumerate(cards)}
    fitted = replace(model, usual=model.usual.by_key(places.__getitem__))
    recalled: list[Mapping[str, float]] = []
    for each, vector in zip(seen, vectors, strict=True):
        signals = signals_of(fitted, catalogue, each.request, vector)
        chances = fitted.chances(signals)
        recalled.append({cards[int(key)].id: chance for key, chance in chances.items()})
    observed = Observations(
        vectors=vectors,
        labels=[flow_id(each.right) if each.right else NONE for each in seen],
        trust=np.array([each.trust for each in seen]),
        by_person=[each.by_person for each in seen],
        recall_first=[flow_id(each.recall_first) if each.recall_first else "" for each in seen],
    )
    # One row per text of a flow, and the flow that it belongs to.
    flows_of_rows: list[str] = []
    for card in cards:
        flows_of_rows.extend([card.id] * len(rows[card.id]))
    texts = np.vstack([rows[card.id] for card in cards])
    evidence = fit_evidence(texts, flows_of_rows, observed, recalled=recalled)
    return replace(model, evidence=evidence, persons=labels_of_persons(seen))


def labels_of_persons(seen: Iterable[Evidence]) -> dict[str, str]:
    """Return the ids of the flows that persons say are right, by `request_digest`; `NONE` for no flow."""
    flows: dict[str, str] = {}
    for each in seen:
        if each.by_person:
            flows[request_digest(each.request)] = flow_id(each.right) if each.right else NONE
    return flows
