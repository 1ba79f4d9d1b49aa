"""Logistic regression whose weights never point the wrong way. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, fsum

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]
_TINY = 1e-9


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
