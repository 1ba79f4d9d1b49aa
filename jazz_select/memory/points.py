"""What every engine adapter shares: names of fields and vectors, and keys of points. Pure."""

from collections.abc import Iterable
from typing import Any, Protocol
from uuid import NAMESPACE_URL, uuid5

from jazz_select.ports import Key

DENSE = "flow"
SPARSE = "bm25"
AGENT = "agent_id"
FINGERPRINT = "fingerprint"
LAYOUT = "layout"
NOTE = "note"
NOTE_OF = "note_of"


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
