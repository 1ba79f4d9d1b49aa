"""How sure an answer is, learned from the answers to a catalogue's own examples. Pure."""

from collections.abc import Mapping, Sequence

import numpy as np

from jazz_select.memory.fit.leave_one_out import HeldOut, LeaveOneOut
from jazz_select.memory.fit.model import MOST_SIZED, REFERENCE_K, Evidence, Logistic, Sets, fit_logistic
from jazz_select.memory.fusion import ArmScale, soft_scores
from jazz_select.ports import Legs

FIT_DEPTH = 30
"""Hits that each arm brings to the fusion. Deeper ones hardly ever reach the top ten."""
_JUDGED = 3
"""Candidates of each asked example that confidence learns from."""


def fit_confidence(legs: Sequence[Legs], asked: Sequence[HeldOut], scales: Mapping[str, ArmScale]) -> Logistic:
    """P(a candidate is right), from the best candidates of each of these requests."""
    features: list[tuple[float, ...]] = []
    right: list[float] = []
    for leg, one in zip(legs, asked, strict=True):
        fused = soft_scores(leg, scales, REFERENCE_K)
        evidence = Evidence(leg, fused, one.terms)
        for key in sorted(fused, key=fused.__getitem__, reverse=True)[:_JUDGED]:
            features.append(evidence.candidate(key))
            right.append(float(key == one.flow))
    return fit_logistic(np.array(features), np.array(right))


def fit_scope(
    catalogue: LeaveOneOut, legs: Sequence[Legs], asked: Sequence[HeldOut], scales: Mapping[str, ArmScale]
) -> Logistic:
    """P(some flow is right), from the answers to these requests with their flow and without its neighbourhood."""

    def told(leg: Legs, one: HeldOut) -> tuple[float, ...]:
        return Evidence(leg, soft_scores(leg, scales, REFERENCE_K), one.terms).scope()

    neighbourhoods = {flow: catalogue.neighbourhood(flow) for flow in {one.flow for one in asked}}
    inside = [told(leg, one) for leg, one in zip(legs, asked, strict=True)]
    outside = [told(one.legs(FIT_DEPTH, without=neighbourhoods[one.flow]), one) for one in asked]
    return fit_logistic(np.array(inside + outside), np.array([1.0] * len(inside) + [0.0] * len(outside)))


def fit_sets(
    legs: Sequence[Legs], asked: Sequence[HeldOut], scales: Mapping[str, ArmScale], confidence: Logistic
) -> Sets:
    """How far down the right flow lies, in doubt (see `Sets`), for each of these requests."""
    strangeness: list[float] = []
    for leg, one in zip(legs, asked, strict=True):
        fused = soft_scores(leg, scales, REFERENCE_K)
        evidence = Evidence(leg, fused, one.terms)
        best = sorted(fused, key=fused.__getitem__, reverse=True)[:MOST_SIZED]
        doubts = Sets.doubts([confidence(evidence.candidate(key)) for key in best])
        strangeness.append(doubts[best.index(one.flow)] if one.flow in best else 1.0)
    return Sets(strangeness=tuple(sorted(strangeness)))
