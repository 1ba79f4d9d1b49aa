"""Fits a cascade: a model for each of its two embedders, and when the first one's answer is sure enough. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from jazz_select.memory.encoder import Lexical, TermCounts
from jazz_select.memory.fit.learning import Fitted, fit
from jazz_select.memory.fit.model import REFERENCE_K, Evidence, Matrix, RecallModel, soft_scores
from jazz_select.ports import Vectors
from jazz_select.values import FlowCard

MOST_LOST = 0.002
"""The share of requests that the first embedder may answer wrongly and the second would have answered rightly."""
_PRIOR_ERRORS, _PRIOR_LOST = 4.0, 0.3
"""As many errors of the first, of which so large a share is taken to be the first one's alone, stand beside those that
a catalogue shows: a small one shows hardly any."""


def fit_cascade(
    cards: Sequence[FlowCard],
    rows: tuple[Mapping[str, Vectors], Mapping[str, Vectors]],
    lexical: Lexical,
    *,
    digest: str = "",
    cases: Sequence[tuple[str, str, tuple[Vectors, Vectors]]] = (),
    terms: TermCounts | None = None,
) -> RecallModel:
    """The model of this catalogue for the first embedder, with that for the second, as `learning.fit` makes each.

    Args:
        cards: The flows.
        rows: As for `fit`, for each embedder.
        lexical: The lexical settings of the index.
        digest: What to call the catalogue.
        cases: As for `fit`, with a vector of each embedder.
        terms: As for `fit`.
    """
    first, second = (
        fit(
            cards,
            rows[stage],
            lexical,
            digest=digest,
            cases=[(text, flow, vectors[stage]) for text, flow, vectors in cases],
            terms=terms,
        )
        for stage in range(2)
    )
    return replace(first.model, second=second.model, sure=_sure_from(first, second))


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
        fused = soft_scores(legs, model.scales, REFERENCE_K)
        if fused:
            top = max(fused, key=fused.__getitem__)
            told = Evidence(legs, fused, one.terms, model.usual).candidate(top)
            answers.append((top == one.flow, asked(told), model.confidence(told)))
        else:
            answers.append((False, 0.0, 0.0))
    return np.array(answers, dtype=float)
