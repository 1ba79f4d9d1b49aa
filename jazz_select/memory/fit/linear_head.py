"""A linear head: multinomial logistic regression on request vectors. Pure, deterministic, numpy alone."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from jazz_select.ports import Vectors

PENALTY = 0.1
"""L2 penalty of the weights, in requests of unit length; see decision 0029."""
_BIAS_PENALTY = 1e-3
_STEPS, _KEPT, _ENOUGH = 40, 8, 1e-4
"""Most steps of the optimizer, pairs that it keeps of the curvature, and the relative gain that ends it."""
_ARMIJO, _SHORTEST = 1e-4, 1e-4


@dataclass(frozen=True, slots=True)
class Lesson:
    """What a head is fitted to.

    Attributes:
        vectors: Requests, shape (requests, dim).
        targets: P(class) of each request times its weight, shape (requests, classes).
    """

    vectors: Vectors
    targets: Vectors


def fit_head(lesson: Lesson, *, start: Vectors | None = None, penalty: float = PENALTY) -> Vectors:
    """Return weights and, in the last row, biases: shape (dim + 1, classes).

    Minimizes the cross-entropy of soft targets plus an L2 penalty, by L-BFGS (Nocedal 1980) with backtracking. A
    `start` from fewer requests spares steps. The loss is convex, so the start does not decide where it ends.
    """
    ones = np.ones((len(lesson.vectors), 1), dtype=np.float32)
    design: Vectors = np.hstack([lesson.vectors.astype(np.float32, copy=False), ones])
    targets: Vectors = lesson.targets.astype(np.float32, copy=False)
    weights: Vectors = targets.sum(axis=1, keepdims=True)
    held = np.full((design.shape[1], 1), penalty, dtype=np.float32)
    held[-1] = _BIAS_PENALTY

    def judged(solution: Vectors) -> tuple[float, Vectors]:
        logits = design @ solution
        logits -= logits.max(axis=1, keepdims=True)
        agreement = (targets * logits).sum(dtype=np.float64)
        np.exp(logits, out=logits)
        total = logits.sum(axis=1, keepdims=True)
        loss = float((weights * np.log(total)).sum(dtype=np.float64) - agreement)
        logits *= weights / total
        logits -= targets
        slope = held * solution
        loss += 0.5 * float((slope * solution).sum(dtype=np.float64))
        return loss, design.T @ logits + slope

    shape = (design.shape[1], targets.shape[1])
    solution: Vectors = np.zeros(shape, dtype=np.float32) if start is None else start.astype(np.float32)
    return _minimize(solution, judged)


def _minimize(solution: Vectors, judged: Callable[[Vectors], tuple[float, Vectors]]) -> Vectors:
    loss, slope = judged(solution)
    curve = _Curvature()
    for _ in range(_STEPS):
        step = curve.scaled(slope)
        falls = float((slope * step).sum(dtype=np.float64))
        share = 1.0
        while True:
            there: Vectors = (solution - np.float32(share) * step).astype(np.float32)
            new_loss, new_slope = judged(there)
            if new_loss <= loss - _ARMIJO * share * falls or share < _SHORTEST:
                break
            share /= 2
        if not new_loss < loss:
            break
        curve.add(there - solution, new_slope - slope)
        gained = loss - new_loss
        solution, loss, slope = there, new_loss, new_slope
        if gained < _ENOUGH * abs(loss):
            break
    return solution


class _Curvature:
    """The inverse Hessian of L-BFGS, from the last steps and the changes of the gradient along them."""

    def __init__(self) -> None:
        self._pairs: deque[tuple[Vectors, Vectors, float]] = deque(maxlen=_KEPT)

    def add(self, step: Vectors, change: Vectors) -> None:
        """Keep a pair; one without positive curvature, which rounding can make, is left out."""
        along = float((step * change).sum(dtype=np.float64))
        if along > 0:
            self._pairs.append((step, change, along))

    def scaled(self, slope: Vectors) -> Vectors:
        """Return the inverse Hessian times a gradient: the two-loop recursion; a step of length 1 at first."""
        step = slope.copy()
        if not self._pairs:
            return step / np.float32(max(float(np.linalg.norm(slope)), 1e-12))
        shares: list[float] = []
        for moved, change, along in reversed(self._pairs):
            shares.append(float((moved * step).sum(dtype=np.float64)) / along)
            step -= np.float32(shares[-1]) * change
        _, change, along = self._pairs[-1]
        step *= np.float32(along / float((change * change).sum(dtype=np.float64)))
        for (moved, change, along), share in zip(self._pairs, reversed(shares), strict=True):
            step += np.float32(share - float((change * step).sum(dtype=np.float64)) / along) * moved
        return step
