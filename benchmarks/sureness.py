"""Measures of probabilities: calibration, ranking, and what a threshold buys. Pure but for the plots."""

from collections.abc import Sequence
from math import fsum
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]
BINS = 15


def ece(chances: Sequence[float], right: Sequence[bool], bins: int = BINS) -> float:
    """Expected calibration error: the mean gap between claimed and actual accuracy over equal-width bins."""
    return fsum(abs(claimed - actual) * share for claimed, actual, share in reliability(chances, right, bins))


def reliability(chances: Sequence[float], right: Sequence[bool], bins: int = BINS) -> list[tuple[float, float, float]]:
    """Mean claimed chance, actual accuracy and share of requests, for each bin that holds any."""
    claimed, actual = np.asarray(chances), np.asarray(right, dtype=float)
    places = np.minimum((claimed * bins).astype(int), bins - 1)
    return [
        (float(claimed[inside].mean()), float(actual[inside].mean()), float(inside.mean()))
        for inside in (places == number for number in range(bins))
        if inside.any()
    ]


def auroc(positive: Sequence[float], negative: Sequence[float]) -> float:
    """The chance that a positive scores above a negative; ties count half (Mann-Whitney)."""
    above = np.asarray(positive)[:, None]
    below = np.sort(np.asarray(negative))
    lower = np.searchsorted(below, above, side="left").sum()
    equal = np.searchsorted(below, above, side="right").sum() - lower
    return float((lower + 0.5 * equal) / (len(positive) * len(negative)))


def fpr_at(positive: Sequence[float], negative: Sequence[float], share: float = 0.95) -> float:
    """The share of negatives that pass a threshold which `share` of the positives pass."""
    threshold = float(np.quantile(np.asarray(positive), 1 - share))
    return float((np.asarray(negative) >= threshold).mean())


def coverage_at(chances: Sequence[float], right: Sequence[bool], accuracy: float) -> float:
    """The largest share of requests, surest first, whose accuracy is at least `accuracy`."""
    order = np.argsort(-np.asarray(chances), kind="stable")
    running = np.cumsum(np.asarray(right, dtype=float)[order]) / np.arange(1, len(order) + 1)
    enough = np.flatnonzero(running >= accuracy)
    return float(enough[-1] + 1) / len(order) if len(enough) else 0.0


def curve(chances: Sequence[float], right: Sequence[bool]) -> list[tuple[float, float]]:
    """Share of requests, surest first, and the accuracy so far; from 2 % on, where it stops jumping."""
    order = np.argsort(-np.asarray(chances), kind="stable")
    running = np.cumsum(np.asarray(right, dtype=float)[order]) / np.arange(1, len(order) + 1)
    start = len(order) // 50
    return [((number + 1) / len(order), float(running[number])) for number in range(start, len(order))]


def frozen(chances: Sequence[float], right: Sequence[bool], threshold: float) -> dict[str, float]:
    """What a fixed threshold gives: the share of requests above it, and their accuracy."""
    sure = np.asarray(chances) >= threshold
    return {
        "coverage": float(sure.mean()),
        "accuracy": float(np.asarray(right, dtype=float)[sure].mean()) if sure.any() else 1.0,
    }


def plot(path: Any, series: dict[str, list[tuple[float, float]]], *, x: str, y: str, diagonal: bool = False) -> None:
    """A small line plot as PNG."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure: Any
    axes: Any
    figure, axes = plt.subplots(figsize=(5, 4), dpi=90)
    for name, points in series.items():
        axes.plot(*zip(*points, strict=True), marker="." if diagonal else "", label=name, linewidth=1.2)
    if diagonal:
        axes.plot([0, 1], [0, 1], color="grey", linewidth=0.8, linestyle="--")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)
    figure.tight_layout()
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, metadata={"Software": None})
    plt.close(figure)
