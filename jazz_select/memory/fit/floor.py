"""What is known of confidence where tools have no examples: by names, descriptions and parameters alone. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log, log1p
from statistics import median
from typing import Final

import numpy as np

from jazz_select.memory.encoder import Lexical, TermCounts, prototype, spoken_name, unit
from jazz_select.memory.fit.model import Logistic, Matrix, RecallModel
from jazz_select.memory.fit.sureness import newton
from jazz_select.ports import Vectors
from jazz_select.stages import OUTSIDE
from jazz_select.values import FlowCard

_TOOL: Final = "tool"
FEWEST_TOOLS: Final = 8
"""Fewest tools among which it can be told what is usual."""
_SOME: Final = (0.8, 2.05)
_SOME_BIAS: Final = -0.9
_COSINE: Final = 0.45
"""Log odds that some tool is right, where as many requests are for none: weights of the nearest tool's share of the
best BM25 score, and of the logarithm of that score beside the usual one. The weight of the standardized best cosine is
fitted to each catalogue (`_cosine_weight`), and `_COSINE` its prior mean.

Fitted to MetaTool and Seal-Tools, static vectors: requests for their tools, requests for tools that were left out, and
questions from outside and small talk of CLINC150. BFCL was not fitted to. The bias is .6 above what they say: what a
search takes for nothing is hidden, and so it leaves out less than 1 % of the tools that are right in these sets.
"""
_RIGHT: Final = (0.34, 0.225, 0.36, 1.2)
_RIGHT_BIAS: Final = -1.45
"""Log odds that a candidate is right, if some tool is: weights of its margin in the fusion, of its standardized cosine
and the margin of that, and of its margin in BM25. Fitted to requests for tools that were there, of these sets and of
LiveMCPBench, static and MiniLM vectors."""
_LEAST_SPREAD: Final = 1e-3
_MOST_ASKED: Final = 500
"""Most tools whose names are asked for the weight of the cosine."""
_PRECISION: Final = 10.0
"""Precision of the prior of that weight, in requests."""
CAVEAT: Final = "confidence rests on names, descriptions and parameters: there are too few examples to calibrate it"


def with_floor(
    model: RecallModel,
    cards: Sequence[FlowCard],
    rows: Mapping[str, Vectors],
    lexical: Lexical,
    terms: TermCounts | None = None,
) -> RecallModel:
    """Return the model of a catalogue of tools that cannot be calibrated, with a confidence that is fitted elsewhere.

    Weights are those of public sets. What is usual is measured here, so that they carry over: cosines are standardized
    by those between the tools themselves, and BM25 scores compared with the median score of a tool's own name. How much
    a cosine tells differs several times between catalogues and embedders, so that its weight is fitted to the tools'
    names. Weights are of `Signals.scope` and `Signals.candidate`. Other catalogues, and very small ones, come back as
    they are.

    Args:
        model: The model so far.
        cards: The tools, or a sample of them.
        rows: The vectors of their `dense_texts` by id, shape (texts, dim).
        lexical: The words of the catalogue.
        terms: Term counts of the whole catalogue; those of `cards` if None.
    """
    if len(cards) < FEWEST_TOOLS or any(card.type != _TOOL for card in cards):
        return model
    mean, spread = _cosines(np.stack([prototype(card, rows[card.id]) for card in cards]))
    terms = terms or TermCounts.from_documents(map(lexical.terms, cards))
    typical_score = _usual_score(cards, lexical, terms)
    cosine = _cosine_weight(cards, rows, lexical, terms)
    agreement, words = _SOME
    bias = _SOME_BIAS - cosine * mean / spread - words * typical_score + log((1 - OUTSIDE) / OUTSIDE)
    scope = Logistic(weights=(cosine / spread, 0.0, 0.0, agreement, words, 0.0), bias=bias)
    fused, near, lead, lead_words = _RIGHT
    weights = (fused, near / spread, lead / spread, lead_words, 0.0, 0.0, 0.0)
    confidence = Logistic(weights=weights, bias=_RIGHT_BIAS - near * mean / spread)
    return replace(model, scope=scope, confidence=confidence, caveat=CAVEAT)


def _cosine_weight(
    cards: Sequence[FlowCard], rows: Mapping[str, Vectors], lexical: Lexical, terms: TermCounts
) -> float:
    """Return how many log odds a standard deviation of the best cosine is worth among these tools.

    Each tool's name is asked as a request, once of what all tools say beside their names, and once without its own
    tool: a logistic regression on the best cosine and the best BM25 score tells the one from the other. A name is the
    only text of a bare tool that is not in the others, and about as long as a request.
    """
    named = [card for card in cards if card.description.strip() and spoken_name(card.name)][:_MOST_ASKED]
    if len(named) < FEWEST_TOOLS:
        return _COSINE
    features = _with_and_without_own(_name_cosines(named, rows), _name_scores(named, lexical, terms))
    middle, spread = features.mean(axis=0), np.maximum(features.std(axis=0), _LEAST_SPREAD)
    solution = newton(
        (features - middle) / spread,
        np.repeat([1.0, 0.0], len(named)),
        counts=np.ones(len(features)),
        expected=(_COSINE * float(spread[0]), _SOME[1] * float(spread[1]), 0.0),
        held=(_PRECISION, _PRECISION, 1e-6),  # the last one keeps the bias finite
    )
    return max(float(solution[0] / spread[0]), 0.0)


def _with_and_without_own(cosines: Matrix, scores: Matrix) -> Matrix:
    """Return the best cosine and the log of the best score of each request: with its own tool, then without it."""
    is_own = np.eye(len(cosines), dtype=bool)
    with_own = np.column_stack([cosines.max(axis=1), np.log1p(scores.max(axis=1))])
    others = np.where(is_own, -np.inf, cosines), np.where(is_own, 0.0, scores)
    without = np.column_stack([others[0].max(axis=1), np.log1p(others[1].max(axis=1))])
    return np.vstack([with_own, without])


def _name_cosines(cards: Sequence[FlowCard], rows: Mapping[str, Vectors]) -> Matrix:
    """Return the standardized cosines of each tool's name with the first sentence of each; shape (tools, tools)."""
    own = [rows[card.id][: len(rows[card.id]) - len(card.examples)] for card in cards]
    names: Vectors = np.stack([unit(texts[-1]) for texts in own])
    sentences: Vectors = np.stack([unit(texts[-2]) for texts in own])
    cosines: Matrix = (names @ sentences.T).astype(np.float64)
    apart = cosines[~np.eye(len(cards), dtype=bool)]
    return (cosines - apart.mean()) / max(float(apart.std()), _LEAST_SPREAD)


def _name_scores(cards: Sequence[FlowCard], lexical: Lexical, terms: TermCounts) -> Matrix:
    """Return the BM25 scores of each tool's name, as words, in what each says beside its name; shape (tools, tools)."""
    places: defaultdict[int, list[tuple[int, float]]] = defaultdict(list)
    for place, card in enumerate(cards):
        document = lexical.document(replace(card, name="", text=f"\n{card.description}", examples=()))
        for term, weight in zip(document.indices, document.values, strict=True):
            places[term].append((place, weight * terms.rarity(term)))
    scores: Matrix = np.zeros((len(cards), len(cards)))
    for asked, card in enumerate(cards):
        query = lexical.query(spoken_name(card.name))
        for term in query.indices if query else ():
            for place, score in places.get(term, ()):
                scores[asked, place] += score
    return scores


def _cosines(prototypes: Vectors) -> tuple[float, float]:
    """Return the mean and the standard deviation of the cosines between different tools."""
    cosines = prototypes @ prototypes.T
    apart = cosines[~np.eye(len(prototypes), dtype=bool)].astype(np.float64)
    return float(apart.mean()), max(float(apart.std()), _LEAST_SPREAD)


def _usual_score(cards: Sequence[FlowCard], lexical: Lexical, terms: TermCounts) -> float:
    """Return log(1 + x) of the median BM25 score x of a tool's own name, as words, among its texts."""
    scores: list[float] = []
    for card in cards:
        query, document = lexical.query(spoken_name(card.name)), lexical.document(card)
        weights = dict(zip(document.indices, document.values, strict=True))
        asked = query.indices if query else ()
        scores.append(sum(weights[term] * terms.rarity(term) for term in asked if term in weights))
    return log1p(median(scores))
