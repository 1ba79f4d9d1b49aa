"""What recall knows of one agent's catalogue beyond its vectors: how its scores are to be read."""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jazz_select.memory.fit.logistic import Logistic
from jazz_select.memory.fusion import ArmScale
from jazz_select.ports import Vectors

DEFAULT_SCALES: Mapping[str, ArmScale] = {
    "dense": ArmScale(width=0.035, weight=1.0),
    "bm25": ArmScale(width=0.135, weight=0.6),
}
"""For catalogues without examples to learn from: the medians of several tool catalogues, rounded."""

_VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallModel:
    """Fitted to a catalogue by `jazz_select.memory.fit.learning`, stored beside it, used by every recall.

    Attributes:
        digest: Of the catalogue it was fitted to.
        scales: How each arm's scores count in the fusion.
        transform: Request vectors are multiplied by it, symmetric, shape (dim, dim); None leaves them as they are.
        confidence: P(a candidate is right) from `features.candidate_features`; None where that is not known.
        scope: P(some flow is right) from `features.scope_features`; None where that is not known.
        names: Folded names and aliases that stand for one flow alone, to its id.
        caveat: Why confidence is not known, for people; empty where it is.
    """

    digest: str = ""
    scales: Mapping[str, ArmScale] = field(default_factory=lambda: DEFAULT_SCALES)
    transform: Vectors | None = None
    confidence: Logistic | None = None
    scope: Logistic | None = None
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    caveat: str = "the catalogue has not been synced, so confidence is not known"

    def aim(self, vector: Vectors) -> list[float]:
        """The request's vector as this catalogue wants it asked; unit length."""
        if self.transform is None:
            return vector.tolist()
        aimed: Vectors = vector @ self.transform
        length = float(np.sqrt(aimed @ aimed))
        return (aimed / length).tolist() if length > 0 else vector.tolist()

    def as_note(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "version": _VERSION,
            "digest": self.digest,
            "scales": {arm: [scale.width, scale.weight] for arm, scale in self.scales.items()},
            "transform": None if self.transform is None else _packed(self.transform),
            "confidence": _logistic_as_list(self.confidence),
            "scope": _logistic_as_list(self.scope),
            "names": dict(self.names),
            "caveat": self.caveat,
        }

    @classmethod
    def from_note(cls, note: Mapping[str, Any] | None) -> "RecallModel":
        """Read it back; what another version wrote is as good as none."""
        if note is None or note.get("version") != _VERSION:
            return cls()
        return cls(
            digest=note["digest"],
            scales={arm: ArmScale(width=width, weight=weight) for arm, (width, weight) in note["scales"].items()},
            transform=None if note["transform"] is None else _unpacked(note["transform"]),
            confidence=_logistic(note["confidence"]),
            scope=_logistic(note["scope"]),
            names=note["names"],
            caveat=note["caveat"],
        )


def _packed(matrix: Vectors) -> dict[str, Any]:
    return {"shape": list(matrix.shape), "data": b64encode(matrix.astype("<f4").tobytes()).decode("ascii")}


def _unpacked(packed: Mapping[str, Any]) -> Vectors:
    flat = np.frombuffer(b64decode(packed["data"]), dtype="<f4")
    return flat.reshape(packed["shape"]).astype(np.float32)


def _logistic_as_list(model: Logistic | None) -> list[float] | None:
    return None if model is None else [model.bias, *model.weights]


def _logistic(numbers: list[float] | None) -> Logistic | None:
    return None if numbers is None else Logistic(bias=numbers[0], weights=tuple(numbers[1:]))
