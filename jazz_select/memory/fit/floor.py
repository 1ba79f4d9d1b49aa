"""What is known of confidence where tools have no examples: by names, descriptions and parameters alone. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log, log1p
from statistics import median
from typing import Final

import numpy as np

from jazz_select.memory.encoder import Lexical, TermCounts, prototype, spoken_name
from jazz_select.memory.fit.model import Logistic, RecallModel
from jazz_select.ports import Vectors
from jazz_select.stages import OUTSIDE
from jazz_select.values import FlowCard

_TOOL: Final = "tool"
FEWEST_TOOLS: Final = 8
"""Fewest tools among which it can be told what is usual."""
_SOME: Final = (0.45, 0.4, 1.85)
_SOME_BIAS: Final = -0.8
"""Log odds that some tool is right, where as many requests are for none: weights of the standardized best cosine, of
the nearest tool's share of the best BM25 score, and of the logarithm of that score beside the usual one.

Fitted to MetaTool, Seal-Tools and LiveMCPBench, static and MiniLM vectors: requests for their tools, requests for tools
that were left out, questions from outside and small talk of CLINC150. BFCL was not seen.
"""
_RIGHT: Final = (0.34, 0.225, 0.36, 1.2)
_RIGHT_BIAS: Final = -1.45
"""Log odds that a candidate is right, if some tool is: weights of its margin in the fusion, of its standardized cosine
and the margin of that, and of its margin in BM25. Fitted to the same requests for tools that were there."""
_LEAST_SPREAD: Final = 1e-3
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
    by those between the tools themselves, and BM25 scores compared with the median score of a tool's own name. Weights
    are of `Signals.scope` and `Signals.candidate`. Other catalogues, and very small ones, come back as they are.

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
    said = _usual_score(cards, lexical, terms or TermCounts.of(map(lexical.terms, cards)))
    cosine, agreement, words = _SOME
    bias = _SOME_BIAS - cosine * mean / spread - words * said + log((1 - OUTSIDE) / OUTSIDE)
    scope = Logistic(weights=(cosine / spread, 0.0, 0.0, agreement, words, 0.0), bias=bias)
    fused, near, lead, lead_words = _RIGHT
    weights = (fused, near / spread, lead / spread, lead_words, 0.0, 0.0, 0.0)
    confidence = Logistic(weights=weights, bias=_RIGHT_BIAS - near * mean / spread)
    return replace(model, scope=scope, confidence=confidence, caveat=CAVEAT)


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
