"""What happens while something else is under way: writes of other agents, closing, cancelling, forking."""

import asyncio
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jazz_select import ProceduralMemory
from jazz_select.errors import ConfigError, IndexUnusableError
from jazz_select.memory.encoder import Encoder, Lexical
from jazz_select.memory.engines.edge import EdgeStore, Shard
from jazz_select.memory.engines.qdrant_server import RemoteStore
from jazz_select.memory.engines.stored_points import Layout
from jazz_select.ports import ArmHits, FlowPoint, HybridQuery, SparseVector
from jazz_select.testing import HashEmbedder
from tests.clock import until
from tests.qdrant_server import EngineClient
from tests.unit.memory.cards import CARDS, card


def _point(agent_id: str) -> FlowPoint:
    payload = {"flow_id": f"flow of {agent_id}"}
    sparse = SparseVector(indices=(1,), values=(1.0,))
    return FlowPoint(
        agent_id=agent_id, flow_id=payload["flow_id"], fingerprint="", dense=(1.0, 0.0), sparse=sparse, payload=payload
    )


async def test_another_agents_first_write_during_a_search_is_never_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = EdgeStore(tmp_path / "index", Layout(embedder="e", dim=2, lexical="l"))
    await store.upsert([_point("a")])
    asked = Shard._search  # pyright: ignore[reportPrivateUsage]
    searches = 0

    def interrupted(self: Shard, queries: Sequence[HybridQuery], **options: Any) -> list[ArmHits]:
        nonlocal searches
        searches += 1
        if searches == 1:
            store._upsert([_point("b")])  # pyright: ignore[reportPrivateUsage]
        return asked(self, queries, **options)

    monkeypatch.setattr(Shard, "_search", interrupted)
    query = HybridQuery(agent_id="a", dense=(1.0, 0.0), sparse=None, depth=5)
    (legs,) = await store.search([query])
    assert list(legs.dense) == [store.key("a", "flow of a")]
    assert searches == 2, "the unfiltered answer was thrown away"
    await store.close()


async def test_closing_waits_for_what_is_under_way(tmp_path: Path) -> None:
    memory = await ProceduralMemory.open(tmp_path / "index", embedder=HashEmbedder())
    await memory.sync("a", [card(f"flow_{number}") for number in range(300)])
    listing = [asyncio.create_task(memory.list_flows("a")) for _ in range(5)]
    await asyncio.sleep(0)
    await memory.close()
    answers = await asyncio.gather(*listing, return_exceptions=True)
    assert all(isinstance(each, IndexUnusableError) or len(each) == 300 for each in answers)  # pyright: ignore[reportArgumentType]
    async with await ProceduralMemory.open(tmp_path / "index", embedder=HashEmbedder()) as again:
        assert len(await again.list_flows("a")) == 300


async def test_a_sync_after_close_says_so_and_leaves_nothing_locked(tmp_path: Path) -> None:
    memory = await ProceduralMemory.open(tmp_path / "index", embedder=HashEmbedder())
    await memory.close()
    with pytest.raises(IndexUnusableError, match="closed"):
        await memory.sync("a", CARDS)
    async with await ProceduralMemory.open(tmp_path / "index", embedder=HashEmbedder()) as again:
        assert await again.list_flows("a") == []


async def test_a_cancelled_sync_writes_nothing_after_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = EdgeStore._upsert  # pyright: ignore[reportPrivateUsage]

    begun, goes_on = threading.Event(), threading.Event()

    def slow(self: EdgeStore, points: Sequence[FlowPoint]) -> None:
        begun.set()
        goes_on.wait(30)
        write(self, points)

    monkeypatch.setattr(EdgeStore, "_upsert", slow)
    async with await ProceduralMemory.open(tmp_path / "index", embedder=HashEmbedder()) as memory:
        first = asyncio.create_task(memory.sync("a", [card("refund_order", "the first version"), card("only_first")]))
        await until(begun.is_set)
        first.cancel()
        second = asyncio.create_task(memory.sync("a", [card("refund_order", "the second version")]))
        await asyncio.sleep(0)  # it begins, and finds the first one still writing
        goes_on.set()
        await second
        with pytest.raises(asyncio.CancelledError):
            await first
        assert [each["description"] for each in await memory.list_flows("a")] == ["the second version"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
async def test_a_forked_child_is_told_and_leaves_the_lock_alone(tmp_path: Path) -> None:
    memory = await ProceduralMemory.open(tmp_path / "index", embedder=HashEmbedder())
    await memory.sync("a", CARDS)
    store: Any = memory._store  # pyright: ignore[reportPrivateUsage]
    child = os.fork()
    if child == 0:  # no test runner in here: the exit status is the answer
        try:
            store._door.__enter__()
        except IndexUnusableError as error:
            store.release()
            os._exit(7 if "forked" in str(error) else 8)
        os._exit(9)
    _, status = await asyncio.to_thread(os.waitpid, child, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    assert len(await memory.list_flows("a")) == len(CARDS)
    await memory.close()


@pytest.mark.parametrize("agent_id", ["", "  ", None, 1, True, ("a",), "\ud800"], ids=repr)
async def test_an_agent_needs_a_name(tmp_path: Path, agent_id: Any) -> None:
    async with await ProceduralMemory.open(tmp_path / "index", embedder=HashEmbedder()) as memory:
        calls = (memory.memorize(CARDS[0], agent_id), memory.recall("x", agent_id), memory.list_flows(agent_id))
        for call in (*calls, memory.sync(agent_id, CARDS), memory.delete_flow("x", agent_id)):
            with pytest.raises(ConfigError, match="agent_id"):
                await call


@pytest.mark.spec("005.17")
async def test_two_syncs_of_one_agent_at_once_are_told_of_and_mended_by_the_next() -> None:
    client, encoder = EngineClient(), Encoder(HashEmbedder(), Lexical())
    first, second, third = (ProceduralMemory(RemoteStore(client, encoder.layout), encoder) for _ in range(3))
    ours, theirs = ([card(f"{whose}_{number}") for number in range(10)] for whose in ("ours", "theirs"))
    await asyncio.gather(first.sync("a", ours), second.sync("a", theirs))
    both = {each["flow_name"] for each in await third.list_flows("a")}
    assert both <= {each.name for each in (*ours, *theirs)}
    if len(both) > len(ours):
        (note,) = (await third.recall("please ours_3", "a")).notes
        assert "two wrote at once; run sync_registry" in note
    await third.sync("a", ours, allow_delete=True)
    assert {each["flow_name"] for each in await third.list_flows("a")} == {each.name for each in ours}
    assert (await third.recall("please ours_3", "a")).notes == ()
    await client.close()
