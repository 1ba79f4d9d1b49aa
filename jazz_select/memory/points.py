"""What every engine adapter shares: field names, point ids, and how an engine's lists become hits. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from uuid import NAMESPACE_URL, uuid5

from jazz_select.ports import Hit

DENSE = "flow"
SPARSE = "bm25"
AGENT = "agent_id"
FINGERPRINT = "fingerprint"
LAYOUT = "layout"


class Scored(Protocol):
    """A scored point, as each engine's client returns it."""

    @property
    def id(self) -> Any:
        """Comparable and hashable."""
        ...

    @property
    def score(self) -> float:
        """Higher is nearer."""
        ...

    @property
    def payload(self) -> Any:
        """What was stored beside the vectors, where it was asked for."""
        ...


def point_id(agent_id: str, flow_id: str) -> str:
    """One point per agent and flow: agents may have flows of the same name."""
    return str(uuid5(NAMESPACE_URL, f"{agent_id}\x1f{flow_id}"))


def to_hits(fused: Sequence[Scored], legs: Mapping[str, Sequence[Scored]]) -> tuple[Hit, ...]:
    """The fused list, each with its rank and raw score in the arms that found it."""
    ids = [found.id for found in fused]
    places = {arm: _places(leg, set(ids)) for arm, leg in legs.items()}
    return tuple(
        Hit(
            flow_id=found.payload["flow_id"],
            score=found.score,
            payload=found.payload,
            ranks={arm: place[each][0] for arm, place in places.items() if each in place},
            scores={arm: place[each][1] for arm, place in places.items() if each in place},
        )
        for each, found in zip(ids, fused, strict=True)
    )


def _places(leg: Sequence[Scored], wanted: set[Any]) -> dict[Any, tuple[int, float]]:
    """Rank and score of the wanted points; stops when all are found, since each look at an engine's id costs."""
    places: dict[Any, tuple[int, float]] = {}
    for rank, found in enumerate(leg, start=1):
        if (each := found.id) in wanted:
            places[each] = (rank, found.score)
            if len(places) == len(wanted):
                break
    return places
