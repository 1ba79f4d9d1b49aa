"""Where the flows lie: a map in two dimensions, who is nearest to whom, and whose examples lead to another flow."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from jazz_select.evaluation.checks.nearness import Asked, ask
from jazz_select.flow.base import BaseFlow
from jazz_select.memory.encoder import Encoder
from jazz_select.memory.fit.leave_one_out import LeaveOneOut
from jazz_select.ports import Vectors
from jazz_select.text import as_text

Floats = npt.NDArray[np.float64]
_NEAREST: Final = 6
_MOST_SHOWN: Final = 3
"""Examples that are told of each pair that is confused."""
_ROUNDS, _MOST_REFINED = 120, 600
"""Rounds of refinement of a map; a larger catalogue's stays as the projection has it, and its stress is not known."""
HOW_MAPPED: Final = (
    "Each flow is where its own texts lead requests: the mean of the vectors of its examples and description, by the "
    "embedder of the index. Distance on the map stands for 1 − cosine of those: their first two principal components, "
    "refined by stress majorization (SMACOF), the same for the same catalogue. Stress says how far the map is off: "
    "the error of all distances, as a share of them."
)
HOW_CONFUSED: Final = (
    "Every example is asked as a request while its flow does without it. A row is the flow that it belongs to, a "
    "column the flow that came first instead. Meaning and words are weighed as a check weighs them, without what a "
    "sync fits to the catalogue: read which flows are taken for each other, not how often requests go astray."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Landscape:
    """What lies where; made once for each generation of a catalogue.

    Attributes:
        points: Each flow with its place, from -1 to 1 both ways.
        stress: How far the map is off: 0 for not at all.
        nearest: Flow to those that lie nearest, with the cosine and how often either's examples lead to the other.
        confusions: Each pair of which one is first for an example of the other, most often first.
        asked: How many examples were asked; 0 where there are too few to tell anything.
        right: For how many of them their own flow was first.
    """

    points: tuple[dict[str, Any], ...] = ()
    stress: float | None = None
    nearest: dict[str, list[dict[str, Any]]]
    confusions: tuple[dict[str, Any], ...] = ()
    asked: int = 0
    right: int = 0


def landscape(flows: Sequence[BaseFlow], encoder: Encoder) -> Landscape:
    """Where these flows lie; takes as long as embedding all of their texts.

    Raises:
        EmbeddingError: The embedder failed.
    """
    drawn = [flow for flow in flows if flow.examples or flow.description]
    if not drawn:
        return Landscape(nearest={})
    asked = ask(drawn, encoder)
    vectors = _prototypes(drawn, encoder)
    places, stress = positions(vectors)
    confused = [] if asked is None else _confused(asked)
    names = [flow.name for flow in drawn]
    return Landscape(
        points=tuple(
            {
                "name": as_text(flow.name),
                "title": as_text(flow.display_name),
                "type": flow.type,
                "examples": len(flow.examples),
                "x": round(float(x), 4),
                "y": round(float(y), 4),
            }
            for flow, (x, y) in zip(drawn, places, strict=True)
        ),
        stress=None if stress is None else round(stress, 4),
        nearest=_nearest(names, vectors, confused),
        confusions=tuple(confused),
        asked=0 if asked is None else len(asked.whose),
        right=0 if asked is None else int((_first(asked) == asked.whose).sum()),
    )


def positions(vectors: Vectors) -> tuple[Floats, float | None]:
    """Places in two dimensions for unit vectors, each coordinate from -1 to 1, and the stress of them.

    Args:
        vectors: One row for each thing, shape (things, dim).
    """
    count = len(vectors)
    centred = (vectors - vectors.mean(axis=0)).astype(np.float64)
    _, axes = np.linalg.eigh(centred.T @ centred)
    found = centred @ axes[:, ::-1][:, :2]
    found *= np.where(found[np.abs(found).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)  # the same way up each time
    stress = None
    if 1 < count <= _MOST_REFINED:
        distances = 1.0 - np.clip((vectors @ vectors.T).astype(np.float64), -1.0, 1.0)
        np.fill_diagonal(distances, 0.0)
        for _ in range(_ROUNDS):
            pull = -distances / np.maximum(_apart(found), 1e-9)
            np.fill_diagonal(pull, 0.0)
            np.fill_diagonal(pull, -pull.sum(axis=1))
            found = pull @ found / count
        stress = float(np.sqrt(((_apart(found) - distances) ** 2).sum() / max(float((distances**2).sum()), 1e-12)))
    found = found - (found.max(axis=0) + found.min(axis=0)) / 2
    return found / max(float(np.abs(found).max()), 1e-9), stress


def _apart(places: Floats) -> Floats:
    return np.sqrt(((places[:, None, :] - places[None, :, :]) ** 2).sum(axis=2))


def _prototypes(flows: Sequence[BaseFlow], encoder: Encoder) -> Vectors:
    """Where the requests of each flow are expected to lie, as unit vectors."""
    cards = [flow.card() for flow in flows]
    rows = encoder.rows(cards)
    own = {card.id: encoder.of_stage(0, rows[card.id]) for card in cards}
    found = LeaveOneOut(cards, own, encoder.lexical).prototypes
    return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-9)


def _first(asked: Asked) -> npt.NDArray[np.int_]:
    return asked.scores.argmax(axis=1)


def _confused(asked: Asked) -> list[dict[str, Any]]:
    pairs: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
    for example, (own, first) in enumerate(zip(asked.whose, _first(asked), strict=True)):
        if own != first:
            flow = asked.flows[int(own)]
            pairs[int(own), int(first)].append(flow.examples[asked.numbers[example]])
    found = [
        {
            "expected": as_text(asked.flows[own].name),
            "first": as_text(asked.flows[first].name),
            "count": len(texts),
            "of": int((asked.whose == own).sum()),
            "examples": [as_text(text)[:300] for text in texts[:_MOST_SHOWN]],
        }
        for (own, first), texts in pairs.items()
    ]
    return sorted(found, key=lambda each: (-each["count"], each["expected"], each["first"]))


def _nearest(
    names: Sequence[str], vectors: Vectors, confused: Sequence[dict[str, Any]]
) -> dict[str, list[dict[str, Any]]]:
    mixed: defaultdict[frozenset[str], int] = defaultdict(int)
    for each in confused:
        mixed[frozenset((each["expected"], each["first"]))] += each["count"]
    found: dict[str, list[dict[str, Any]]] = {}
    for place, name in enumerate(names):
        cosines = vectors @ vectors[place]
        order = [int(other) for other in np.argsort(-cosines)[: _NEAREST + 1] if other != place][:_NEAREST]
        found[name] = [
            {
                "name": as_text(names[other]),
                "cosine": round(float(cosines[other]), 4),
                "confused": mixed[frozenset((as_text(name), as_text(names[other])))],
            }
            for other in order
        ]
    return found
