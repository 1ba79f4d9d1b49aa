"""Walking a graph from one of its nodes, to its end or to where it pauses."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol

from pydantic_graph import EndMarker, Graph, GraphTaskRequest
from pydantic_graph.id_types import NodeID

from jazz_select.agent.state import NodeRecord, StateT


@dataclass(slots=True)
class Progress(Generic[StateT]):
    """A run on its way: the graph's own state."""

    state: StateT
    trace: list[NodeRecord] = field(default_factory=list[NodeRecord])
    paused: bool = False


class Pausable(Protocol):
    """The state of a walk."""

    @property
    def paused(self) -> bool:
        """Whether to stop before the next node."""
        ...


async def walk(
    graph: "Graph[Any, Any, Any, str]",
    start: str,
    progress: Pausable,
    *,
    nodes: Collection[str],
    most_nodes: int | None = None,
) -> str:
    """Pass nodes from `start` on, and say which comes next; none where the graph came to its end."""
    left = -1 if most_nodes is None else most_nodes
    async with graph.iter(state=progress, inputs=None) as run:
        found: Any = await anext(run)
        if found[0].node_id != start:
            run.override_next([GraphTaskRequest(node_id=NodeID(start), inputs=None, fork_stack=found[0].fork_stack)])
        while not isinstance(found, EndMarker):
            following: Any = run.next_task
            name = str(following[0].node_id)
            if name in nodes:  # between them the graph has nodes of its own, where it branches
                if left == 0 or progress.paused:
                    return name
                left -= 1
            found = await anext(run)
    return ""
