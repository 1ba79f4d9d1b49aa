"""The graph of a turn: its nodes and edges, checked, drawn and walked."""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, Generic, Literal, Protocol

from pydantic_graph import EndMarker, Graph, GraphBuilder, GraphTaskRequest, StepContext, TypeExpression
from pydantic_graph.id_types import NodeID

from jazz_select.agent.graph.state import NodeRecord, StateT
from jazz_select.errors import RouterError

FAILED: Final = "failed"
"""The tag of an action that raised: the turn ends."""
_NAME = re.compile(r"(?!__)\w[\w.-]*")  # two underscores are what the library's own nodes begin with
Edges = Mapping[str, Mapping[str, str]]
"""Node to tag to the node that comes then. One tag alone needs no name: `{"": node}`."""


@dataclass(frozen=True, slots=True)
class Topology:
    """Nodes in their order, the first of which is entered first, and the edges between them."""

    nodes: tuple[str, ...]
    edges: Edges

    def check(self, home: str) -> None:
        """See that every edge leads somewhere, every node is reached from `home`, and every loop passes it.

        Raises:
            RouterError: One does not.
        """
        for name in (*self.nodes, *(tag for ways in self.edges.values() for tag in ways if tag)):
            if not _NAME.fullmatch(name):
                raise RouterError(f"{name!r} is no name of a node or tag: letters, digits, _, - and . make one")  # noqa: EM102, TRY003
        for node, ways in self.edges.items():
            for tag, target in ways.items():
                if target not in self.nodes:
                    raise RouterError(f"the edge {tag or '(always)'!r} of {node} leads to {target!r}, which is no node")  # noqa: EM102, TRY003 - said once
        reached, ahead = {home}, [home]
        while ahead:
            new = {*self.edges.get(ahead.pop(), {}).values()} - reached
            reached |= new
            ahead += new
        lost = [node for node in self.nodes if node not in reached]
        if lost:
            raise RouterError(f"nothing leads to {', '.join(lost)}")  # noqa: EM102, TRY003
        loop = self._loop_without(home)
        if loop:
            told = " → ".join(loop)
            raise RouterError(f"{told} is a loop that no guard sees; lead it back to {home}")  # noqa: EM102, TRY003

    def _loop_without(self, home: str) -> list[str]:
        """A way round that does not pass `home`; none where there is none."""
        before: dict[str, set[str]] = {node: set() for node in self.nodes}
        for node, ways in self.edges.items():
            for target in ways.values():
                if home not in {node, target}:
                    before[target].add(node)
        try:
            TopologicalSorter(before).prepare()
        except CycleError as error:
            return list(error.args[1])
        return []


def build_graph(
    topology: Topology, run: Callable[[str, Any], Awaitable[str]], *, name: str
) -> "Graph[Any, Any, Any, str]":
    """The topology as a pydantic-graph; `run` passes a node and says by which tag it is left."""
    builder: GraphBuilder[Any, Any, Any, str] = GraphBuilder(name=name, state_type=object, output_type=str)

    def step(node: str) -> Any:
        async def call(ctx: StepContext[Any, Any, Any]) -> str:
            return await run(node, ctx.state)

        return builder.step(call, node_id=node, label=node)

    steps = {node: step(node) for node in topology.nodes}
    builder.add(builder.edge_from(builder.start_node).to(steps[topology.nodes[0]]))
    for node, step_ in steps.items():
        ways = topology.edges.get(node, {})
        if not ways:
            builder.add(builder.edge_from(step_).to(builder.end_node))
        elif len(ways) == 1:
            builder.add(builder.edge_from(step_).to(steps[next(iter(ways.values()))]))
        else:
            choice: Any = builder.decision(node_id=f"after {node}")
            for tag, target in ways.items():
                choice = choice.branch(builder.match(TypeExpression[Literal[tag]]).label(tag).to(steps[target]))  # pyright: ignore[reportInvalidTypeForm, reportInvalidTypeArguments] - a tag is a value of this very run
            builder.add(builder.edge_from(step_).to(choice))
    return builder.build()


def mermaid(topology: Topology) -> str:
    """A mermaid flowchart: tags on the edges, those to one node together."""
    ids = {node: f"n{number}" for number, node in enumerate(topology.nodes)}
    lines = ["flowchart TD", f"    start([START]) --> {ids[topology.nodes[0]]}"]
    lines += [f'    {ids[node]}["{node}"]' for node in topology.nodes]
    for node in topology.nodes:
        ways: dict[str, list[str]] = {}
        for tag, target in topology.edges.get(node, {}).items():
            ways.setdefault(target, []).append(tag)
        for target, tags in ways.items():
            label = f"|{' · '.join(tags)}|" if any(tags) else ""
            arrow = "-.->" if tags == [FAILED] else "-->"
            lines.append(f"    {ids[node]} {arrow}{label} {ids[target]}")
        if not ways:
            lines.append(f"    {ids[node]} --> stop([END])")
    return "\n".join(lines) + "\n"


@dataclass(slots=True)
class TurnProgress(Generic[StateT]):
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
