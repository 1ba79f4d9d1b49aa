"""The graph of a turn: nodes and edges, checked, drawn and walked."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Final, Generic, TypeVar

from jazz_select.errors import RouterError

FAILED: Final = "failed"
"""The tag of an action that raised; the turn ends."""
_NAME: Final = re.compile(r"(?!__)\w[\w.-]*")  # names with two leading underscores are reserved
T = TypeVar("T")
Edges = Mapping[str, Mapping[str, str]]
"""By node, the next node per tag. A single edge needs no tag: `{"": node}`."""


@dataclass(frozen=True, slots=True)
class Topology:
    """Nodes in order, the entry first, and the edges between them."""

    nodes: tuple[str, ...]
    edges: Edges

    def check(self, home: str) -> None:
        """Check that every edge leads to a node, every node is reachable from `home`, and every loop passes `home`."""
        for name in (*self.nodes, *(tag for ways in self.edges.values() for tag in ways if tag)):
            if not _NAME.fullmatch(name):
                raise RouterError(f"{name!r} is no name of a node or tag: letters, digits, _, - and . make one")
        for node, ways in self.edges.items():
            for tag, target in ways.items():
                if target not in self.nodes:
                    raise RouterError(f"the edge {tag or '(always)'!r} of {node} leads to {target!r}, which is no node")
        reached, ahead = {home}, [home]
        while ahead:
            new = {*self.edges.get(ahead.pop(), {}).values()} - reached
            reached |= new
            ahead += new
        lost = [node for node in self.nodes if node not in reached]
        if lost:
            raise RouterError(f"nothing leads to {', '.join(lost)}")
        loop = self._loop_without(home)
        if loop:
            raise RouterError(f"{' → '.join(loop)} is a loop that no guard sees; lead it back to {home}")

    def following(self, node: str, tag: str) -> str:
        """Return the node after this one by a tag; empty at the end of the graph."""
        ways = self.edges.get(node)
        if not ways:
            return ""
        if tag in ways:
            return ways[tag]
        if len(ways) == 1 and "" in ways:
            return ways[""]  # a single edge takes every tag
        raise RouterError(f"{node} was left by {tag!r}, for which there is no edge")

    def _loop_without(self, home: str) -> list[str]:
        """Return a loop that does not pass `home`; empty if there is none."""
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


def mermaid(topology: Topology) -> str:
    """Return a mermaid flowchart; edges between the same nodes are merged."""
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


@dataclass(frozen=True, slots=True)
class NodeExit(Generic[T]):
    """How a node was left.

    Attributes:
        value: The input of the next node.
        tag: The edge to take.
        pauses: Whether to stop before the next node.
    """

    value: T
    tag: str = ""
    pauses: bool = False


async def walk(
    topology: Topology,
    start: str,
    value: T,
    run: Callable[[str, T], Awaitable[NodeExit[T]]],
    *,
    most_nodes: int | None = None,
) -> tuple[str, T]:
    """Run nodes from `start` on; return the next node, empty at the end, and its input."""
    node, passed = start, 0
    while node and passed != most_nodes:
        await asyncio.sleep(0)  # nodes may never await: let other tasks run, and a cancellation take effect
        left = await run(node, value)
        node, value, passed = topology.following(node, left.tag), left.value, passed + 1
        if left.pauses:
            break
    return node, value
