"""Fits recall to a catalogue, from the flows' own examples alone. Pure: the same catalogue gives the same model."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, cast

import numpy as np

from jazz_select.memory.encoder import Lexical, TermCounts, folded_alias
from jazz_select.memory.fit.leave_one_out import FOLDS, HeldOut, LeaveOneOut, Lessons
from jazz_select.memory.fit.model import (
    DEFAULT_SCALES,
    REFERENCE_K,
    ArmScale,
    Logistic,
    Matrix,
    RecallModel,
    Signals,
    soft_scores,
)
from jazz_select.memory.fit.sureness import FIT_DEPTH, calibrated_model
from jazz_select.ports import Legs, Vectors
from jazz_select.values import FlowCard

MAX_ASKED = 1_000
MIN_FLOWS, MIN_ASKED = 8, 40
"""Below these a probability would be a guess."""
SHRINKAGE = 0.8
"""How far the scatter of requests is drawn towards a round one. With five examples a flow much less overfits, and
much more does nothing; between .7 and .9 hardly anything changes. What is left is divided by `own_worth`."""
_MIN_RESIDUALS = 60
_RIVALS, _TRUST = 20, 60.0
"""How many flows an example is told apart from, and how many examples the transform before that is worth."""
_SHARPNESS, _STEPS, _MOMENTUM, _STRIDE = 20.0, 8, 0.9, 16.0
"""How much a difference in cosine counts, and the way down: more steps learn the examples by heart."""
_WEIGHTS = (0.1, 0.15, 0.2, 0.25, 0.33, 0.5, 0.7, 1.0, 1.5, 2.0)
_AT_ONCE = 2
"""Transforms that are fitted at the same time."""
_PRIOR = 60
"""As many requests as the default weight of BM25 is worth against what a catalogue's own examples say."""
_TOLD, _TOLD_WEIGHT = 4_000.0, 0.65
"""So many words of all flows together, and what BM25 weighs where they say that many and show no examples."""
_LEAST_WEIGHT, _MOST_WEIGHT = 0.5, 1.2
_FIT = "words told"
"""Changes when a catalogue would be fitted otherwise than before, so that the next sync does it once more."""


def catalogue_digest(fingerprints: Mapping[str, str], cases: Sequence[tuple[str, str]] = ()) -> str:
    """Changes when any flow does, or the labelled requests, or the way in which recall is fitted."""
    told = "\x1f".join((_FIT, *(f"{flow}={mark}" for flow, mark in sorted(fingerprints.items())), *map(repr, cases)))
    return hashlib.sha256(told.encode(errors="replace")).hexdigest()[:32]


def sample(cards: Sequence[FlowCard], limit: int) -> list[FlowCard]:
    """At most `limit` flows, the same ones for the same catalogue in any order: those whose ids hash lowest."""
    order = sorted(cards, key=lambda card: hashlib.sha256(card.id.encode()).digest())
    return order[:limit]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A model, and what it was fitted to: requests whose right flow is known, and what both arms found for each."""

    model: RecallModel
    asked: Sequence[HeldOut] = ()
    legs: Sequence[Legs] = ()
    confidence: Logistic | None = None
    """That of their answers, as each was asked; None where it is not known."""


def fit(
    cards: Sequence[FlowCard],
    rows: Mapping[str, Vectors],
    lexical: Lexical,
    *,
    digest: str = "",
    cases: Sequence[tuple[str, str, Vectors]] = (),
    terms: TermCounts | None = None,
) -> Fitted:
    """The model of this catalogue.

    Args:
        cards: The flows.
        rows: Flow id to the vectors of its `dense_texts`, shape (texts, dim).
        lexical: The lexical settings of the index.
        digest: What to call the catalogue.
        cases: Labelled requests, where there are any: text, flow id, vector. They are asked beside the examples.
        terms: How rare words are, where `cards` are a sample of the catalogue.

    Nothing but the catalogue goes in. Each example is asked as a request while its flow does without
    it (leave one out). From the answers come: the width and weight of each arm, P(right) by logistic regression on
    the leads of the candidates, P(in scope) by comparing those answers with the ones that the same requests get when
    their flow is left out, and when its neighbourhood is, and how many candidates hold the right one.
    Requests are aimed by the inverse of the scatter within flows, as linear
    discriminant analysis does: directions in which requests for one and the same flow differ tell little about which
    flow is meant. From there the aim is sharpened until the examples lie nearer to their own flows than to others.
    """
    known = [card for card in cards if card.id in rows]
    names = _names(cards)
    if not any(len(card.examples) > 1 for card in known):
        caveat = "no flow has two examples, so confidence is not known"
        scales = _untaught(known, lexical, flows=terms.flows if terms else len(known))
        return Fitted(model=RecallModel(digest=digest, scales=scales, names=names, caveat=caveat))
    catalogue = LeaveOneOut(known, rows, lexical, terms=terms)
    *transforms, transform = _transforms(catalogue)
    asked = list(catalogue.ask_examples(transforms, MAX_ASKED))
    places = {card.id: number for number, card in enumerate(known)}
    examples = len(asked)
    asked += [catalogue.ask(text, vector, places[flow], transform) for text, flow, vector in cases if flow in places]
    labelled = len(asked) - examples
    legs = [each.legs(FIT_DEPTH) for each in asked]
    scales = _weighted(_widths(legs), legs, asked)
    flows = len({each.flow for each in asked})
    caveat = f"{len(asked)} examples of {flows} flows are too few to calibrate ({MIN_ASKED} of {MIN_FLOWS} are needed)"
    model = RecallModel(digest=digest, scales=scales, transform=transform, names=names, caveat=caveat)
    if flows < MIN_FLOWS or len(asked) < MIN_ASKED:
        return Fitted(model=model, asked=asked, legs=legs)
    model, confidence = calibrated_model(model, catalogue, asked, legs, cases=labelled)
    return Fitted(model=model, asked=asked, legs=legs, confidence=confidence)


def _names(cards: Sequence[FlowCard]) -> dict[str, str]:
    """Names and aliases, without those that stand for two flows."""
    pairs = {(folded_alias(name), card.id) for card in cards for name in (card.name, *card.aliases)}
    flows = Counter(name for name, _ in pairs)
    return {name: flow for name, flow in sorted(pairs) if name and flows[name] == 1}


def _transforms(catalogue: LeaveOneOut) -> list[Vectors | None]:
    """That of each fold, which has not seen it, and that of all."""
    lessons = catalogue.lessons(MAX_ASKED, _RIVALS)
    worth = lessons.own_worth if lessons else 1.0

    def fitted(fold: int | None) -> Vectors | None:
        taught = lessons if lessons is None or fold is None else lessons.without(fold)
        return _sharpened(_transform(catalogue.residuals(without_fold=fold), worth), taught)

    # Nearly all of it is done by BLAS, without the interpreter's lock; which thread does it changes nothing.
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="jazz-select-fit") as pool:
        return list(pool.map(fitted, (*range(FOLDS), None)))


def _transform(residuals: Vectors, own_worth: float) -> Vectors | None:
    """The inverse scatter; where flows say more than their examples do, so much less of what the examples scatter."""
    if len(residuals) < _MIN_RESIDUALS:
        return None
    dim = residuals.shape[1]
    scatter: Matrix = residuals.T.astype(np.float64) @ residuals / len(residuals)
    round_one = float(scatter.trace()) / dim * np.eye(dim)
    seen = (1 - SHRINKAGE) / own_worth
    mixed: Any = seen * scatter + (1 - seen) * round_one
    inverse = cast("Matrix", np.linalg.inv(mixed))
    return (inverse * (dim / float(inverse.trace()))).astype(np.float32)


def _sharpened(transform: Vectors | None, lessons: Lessons | None) -> Vectors | None:
    """The transform, moved so that requests lie nearer to their own flow than to its rivals.

    A listwise fit: the loss is -log softmax of the right flow's score among its rivals'. The penalty is the squared
    distance to where it began, as strong as `_TRUST` requests. Where flows have more to tell than their examples do
    (`own_worth`), the examples are not the whole of it, and the penalty grows with the square of that.
    A few steps of accelerated descent from the same start: the same catalogue gives the same transform.
    """
    if transform is None or lessons is None or len(lessons.requests) < _MIN_RESIDUALS:
        return transform
    requests, count = lessons.requests, len(lessons.requests)
    begun: Vectors = transform / np.float32(np.median(np.linalg.norm(requests @ transform, axis=1)))
    penalty = np.float32(_TRUST * lessons.own_worth**2 / count)
    steepest = float(np.linalg.eigvalsh((requests.T @ requests / count).astype(np.float64))[-1])
    step = np.float32(1.0 / (_SHARPNESS**2 * steepest / _STRIDE + penalty))
    here, speed = begun, np.zeros_like(begun)
    for _ in range(_STEPS):
        ahead: Vectors = (here + np.float32(_MOMENTUM) * speed).astype(np.float32)
        slope = requests.T @ _slopes(lessons, requests @ ahead) / np.float32(count) + penalty * (ahead - begun)
        there: Vectors = (ahead - step * slope).astype(np.float32)
        here, speed = there, there - here
    return here


def _slopes(lessons: Lessons, aimed: Vectors) -> Vectors:
    """How the loss of each request grows with its aimed vector."""
    sharpness = np.float32(_SHARPNESS)
    right = sharpness * (aimed * lessons.right).sum(axis=1, keepdims=True)
    wrong = np.where(lessons.allowed, sharpness * (lessons.wrong @ aimed[:, :, None])[:, :, 0], -np.inf)
    best = np.maximum(right, wrong.max(axis=1, keepdims=True))
    own, others = np.exp(right - best), np.exp(wrong - best)
    total = own + others.sum(axis=1, keepdims=True)
    pulled = ((others / total)[:, None, :] @ lessons.wrong)[:, 0, :]
    return (sharpness * (pulled + (own / total - 1) * lessons.right)).astype(np.float32)


def _widths(legs: Sequence[Legs]) -> dict[str, ArmScale]:
    """A third of the mean drop from the first to ranks two to six: those lie three ranks further down on average."""
    drops: dict[str, list[float]] = {"dense": [], "bm25": []}
    for each in legs:
        for arm, found in (("dense", each.dense), ("bm25", each.bm25)):
            scores = list(found.values())[:6]
            if len(scores) > 1:
                top = scores[0] if arm == "bm25" else 1.0
                drops[arm].append(fmean(scores[0] - score for score in scores[1:]) / max(top, 1e-9))
    return {
        arm: ArmScale(width=max(float(np.median(seen)) / 3, 1e-4) if seen else DEFAULT_SCALES[arm].width, weight=1.0)
        for arm, seen in drops.items()
    }


def _untaught(cards: Sequence[FlowCard], lexical: Lexical, *, flows: int) -> Mapping[str, ArmScale]:
    """The scales of so many flows, of which these are a sample, where no example tells how much words count.

    The more all of them say, the more words count: among many flows vectors lie close together, and the vector of a
    long text says little of each detail, where a word that few flows have still tells them apart. From names alone to
    4,000 tools with their parameters, the best weight grew about as the fourth root of how many words there are.
    """
    if not cards:
        return DEFAULT_SCALES
    told = flows * fmean(len(lexical.counted_in(card)) for card in cards)
    weight = min(_MOST_WEIGHT, max(_LEAST_WEIGHT, _TOLD_WEIGHT * (told / _TOLD) ** 0.25))
    return {**DEFAULT_SCALES, "bm25": replace(DEFAULT_SCALES["bm25"], weight=weight)}


def _weighted(scales: Mapping[str, ArmScale], legs: Sequence[Legs], asked: Sequence[HeldOut]) -> dict[str, ArmScale]:
    """The weight of BM25 beside the dense arm's 1 that ranks the right flow highest (mean reciprocal rank).

    A small catalogue says little, so the default weight counts as `_PRIOR` requests (geometric mean of the two).
    """

    def with_weight(weight: float) -> dict[str, ArmScale]:
        return {**scales, "bm25": replace(scales["bm25"], weight=weight)}

    def quality(weight: float) -> float:
        own = with_weight(weight)
        return fmean(_reciprocal_rank(found, own, one.flow) for found, one in zip(legs, asked, strict=True))

    best = max(_WEIGHTS, key=quality)
    share = len(asked) / (len(asked) + _PRIOR)
    return with_weight(best**share * DEFAULT_SCALES["bm25"].weight ** (1 - share))


def _reciprocal_rank(legs: Legs, scales: Mapping[str, ArmScale], flow: int) -> float:
    """Of this flow among those found; 0 where it is none of them."""
    scores = soft_scores(legs, scales, REFERENCE_K)
    own = scores.get(flow)
    return 0.0 if own is None else 1.0 / (1 + sum(score > own for score in scores.values()))


MOST_LOST = 0.002
"""The share of requests that the first embedder may answer wrongly and the second would have answered rightly."""
_PRIOR_ERRORS, _PRIOR_LOST = 4.0, 0.3
"""As many errors of the first, of which so large a share is taken to be the first one's alone, stand beside those that
a catalogue shows: a small one shows hardly any."""


def fit_stages(
    cards: Sequence[FlowCard],
    stages: Sequence[tuple[Mapping[str, Vectors], Sequence[tuple[str, str, Vectors]]]],
    lexical: Lexical,
    *,
    digest: str = "",
    terms: TermCounts | None = None,
) -> RecallModel:
    """The model of this catalogue for the first embedder, with that for the second where there is one."""
    first, *rest = (fit(cards, rows, lexical, digest=digest, cases=cases, terms=terms) for rows, cases in stages)
    return replace(first.model, second=rest[0].model, sure=_sure_from(first, rest[0])) if rest else first.model


def _sure_from(first: Fitted, second: Fitted) -> float | None:
    """The lowest confidence from which on no more than `MOST_LOST` of all requests are lost; None where none is.

    Both have answered the same requests with the right flow known, each as if it were no example. Lost is what the
    second alone has right; what the first alone has right is not set against it. Counted alone, a handful of losses
    would say little, so they are counted as a share of the errors that the first one's confidence owns to.
    """
    asked, other = _answers(first), _answers(second)
    if asked is None or other is None:
        return None
    order = np.argsort(-asked[:, 1], kind="stable")
    sure, said = asked[order, 1], asked[order, 2]
    lost = np.cumsum((other[order, 0] > asked[order, 0]).astype(float))
    errors = np.cumsum(1.0 - sure)
    share = (lost + _PRIOR_LOST * _PRIOR_ERRORS) / (errors + _PRIOR_ERRORS)
    too_many = np.flatnonzero(share * errors / len(sure) > MOST_LOST)
    kept = int(too_many[0]) if len(too_many) else len(sure)
    return float(said[kept - 1]) if kept else None


def _answers(fitted: Fitted) -> Matrix | None:
    """For each request that was asked, whether its first candidate is right, the confidence in it, and in a like one.

    The former is how sure the answer was without the example; the latter is what a request has that is none.
    """
    model, asked = fitted.model, fitted.confidence
    if model.confidence is None or asked is None:
        return None
    answers: list[tuple[bool, float, float]] = []
    for legs, one in zip(fitted.legs, fitted.asked, strict=True):
        evidence = Signals(legs, model.scales, one.terms, model.usual)
        answer = (False, 0.0, 0.0)
        for top in evidence.best(1):
            told = evidence.candidate(top)
            answer = (top == one.flow, asked(told), model.confidence(told))
        answers.append(answer)
    return np.array(answers, dtype=float)
