"""The loop of a turn: from node to node along the tags, to the end, or to where it is stopped."""

import asyncio
import re
from collections.abc import Mapping
from typing import Any

import pytest

from jazz_select.agent.graph.topology import NodeExit, Topology, walk
from jazz_select.errors import RouterError

RING = Topology(
    ("in", "left", "right", "out"), {"in": {"l": "left", "r": "right"}, "left": {"": "in"}, "right": {"": "out"}}
)
Value = tuple[str, ...]


def along(*tags: str, pausing: str = "") -> Any:
    """A run that keeps the names of the nodes, and leaves them by these tags."""
    left = iter(tags)

    async def run(node: str, value: Value) -> NodeExit[Value]:
        return NodeExit((*value, node), next(left), node == pausing)

    return run


@pytest.mark.parametrize(
    ("tags", "options", "found"),
    [
        pytest.param(("r", "", ""), {}, ("", ("in", "right", "out")), id="to the end"),
        pytest.param(("l", "", "r", "", ""), {}, ("", ("in", "left", "in", "right", "out")), id="once round"),
        pytest.param(
            ("r", "odd", "odd"), {}, ("", ("in", "right", "out")), id="one way takes any tag, and so does the end"
        ),
        pytest.param((), {"most_nodes": 0}, ("in", ()), id="no node"),
        pytest.param(("l",), {"most_nodes": 1}, ("left", ("in",)), id="one node"),
        pytest.param(("r", "", ""), {"most_nodes": 3}, ("", ("in", "right", "out")), id="as many as there are"),
        pytest.param(("", ""), {"start": "right"}, ("", ("right", "out")), id="from the middle"),
        pytest.param(("l", ""), {"pausing": "left"}, ("in", ("in", "left")), id="a node that pauses"),
        pytest.param(
            ("r", "", ""), {"pausing": "out"}, ("", ("in", "right", "out")), id="nothing is left to pause for"
        ),
    ],
)
async def test_a_walk_follows_the_tags(tags: tuple[str, ...], options: Mapping[str, Any], found: Any) -> None:
    start, pausing = options.get("start", "in"), options.get("pausing", "")
    assert await walk(RING, start, (), along(*tags, pausing=pausing), most_nodes=options.get("most_nodes")) == found


@pytest.mark.parametrize("tag", ["x", ""])
async def test_a_tag_without_an_edge_is_told_with_its_node(tag: str) -> None:
    with pytest.raises(RouterError, match=re.escape(f"in was left by {tag!r}, for which there is no edge")):
        await walk(RING, "in", (), along(tag))


async def round_and_round(node: str, value: int) -> NodeExit[int]:
    return NodeExit(value + 1, "l" if node == "in" else "")


async def test_others_get_their_turn_between_two_nodes() -> None:
    seen: list[str] = []

    async def other() -> None:
        seen.append("other")

    async def run(node: str, value: int) -> NodeExit[int]:
        seen.append(node)
        return await round_and_round(node, value)

    await asyncio.gather(walk(RING, "in", 0, run, most_nodes=2), other())
    assert seen == ["other", "in", "left"]


async def test_a_walk_whose_nodes_never_wait_is_cancelled_all_the_same() -> None:
    walking = asyncio.ensure_future(walk(RING, "in", 0, round_and_round))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not walking.done()
    walking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await walking


async def test_what_a_node_raises_comes_as_it_is() -> None:
    async def run(node: str, value: Value) -> NodeExit[Value]:
        raise KeyError(node, value)

    with pytest.raises(KeyError, match="in"):
        await walk(RING, "in", (), run)
