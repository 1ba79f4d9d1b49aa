"""What an engine stores: points, and the layout that says with which embedder they were made."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import NAMESPACE_URL, uuid5

from jazz_select.ports import Key

_FORMAT = 1
DENSE = "flow"
SPARSE = "bm25"
AGENT = "agent_id"
FINGERPRINT = "fingerprint"
LAYOUT = "layout"
NOTE = "note"
NOTE_OF = "note_of"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What two sets of vectors must share to be compared.

    Each layout has a place of its own in a store, so vectors of two embedders never mix:
    changing the embedder means moving to another layout, one agent at a time.
    """

    embedder: str
    dim: int
    lexical: str

    @property
    def key(self) -> str:
        """Short, stable, safe in file and collection names."""
        text = f"{_FORMAT}|{self.embedder}|{self.dim}|{self.lexical}"
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def __str__(self) -> str:
        """As a person reads it in an error message."""
        return f"embedder {self.embedder} ({self.dim} dimensions) and {self.lexical}"


class Scored(Protocol):
    """A scored point, as each engine's client returns it."""

    @property
    def id(self) -> Any:
        """Its key."""
        ...

    @property
    def score(self) -> float:
        """Higher is nearer."""
        ...


def point_key(agent_id: str, flow_id: str) -> Key:
    """One point per agent and flow: agents may have flows of the same name.

    A number, not a UUID, since a client makes a Python object of each id it returns, and numbers are twenty times
    cheaper. Of 63 bits: two of a million flows share one with a probability of about 5e-8.
    """
    return uuid5(NAMESPACE_URL, f"{agent_id}\x1f{flow_id}").int >> 65


def note_key(agent_id: str) -> Key:
    """The point that holds an agent's note."""
    return uuid5(NAMESPACE_URL, f"note\x1f{agent_id}").int >> 65


def leg(found: Iterable[Scored]) -> dict[Key, float]:
    """Key to raw score, in the order found."""
    return {point.id: point.score for point in found}
