"""What somebody deletes on a server is missed: by a recall, and by the sync that was writing it."""

from collections.abc import Generator
from typing import Any

import pytest

from jazz_select import ProceduralMemory
from jazz_select.errors import FlowsMissingError, SyncIncompleteError
from jazz_select.memory import sync
from jazz_select.testing import HashEmbedder
from tests.qdrant_server import LoopbackQdrant
from tests.unit.memory.cards import CARDS, card

REQUEST = "money back"
MANY = [card(f"flow_{number}") for number in range(60)]


@pytest.fixture
def server() -> Generator[LoopbackQdrant]:
    """A server without a key."""
    with LoopbackQdrant() as server:
        yield server


async def _opened(server: LoopbackQdrant, **options: Any) -> ProceduralMemory:
    port = options.pop("port", server.grpc_port)
    return await ProceduralMemory.open(url=server.url, grpc_port=port, embedder=HashEmbedder())


def _drop(server: LoopbackQdrant) -> None:
    for each in server.client.get_collections().collections:
        server.client.delete_collection(each.name)


@pytest.mark.parametrize("is_read", [True, False], ids=["after a recall", "before any"])
@pytest.mark.parametrize("over", ["gRPC", "REST"])
async def test_a_collection_that_is_deleted_is_an_error_and_no_empty_answer(
    is_read: bool, over: str, server: LoopbackQdrant, caplog: pytest.LogCaptureFixture
) -> None:
    async with await _opened(server, port=server.grpc_port if over == "gRPC" else 0) as memory:
        await memory.sync("support", CARDS)
        if is_read:
            assert await memory.recall(REQUEST, "support")
        _drop(server)
        for _ in range(2):
            with pytest.raises(FlowsMissingError, match=rf"{len(CARDS)} were there.*sync_registry"):
                await memory.recall(REQUEST, "support")
        assert any("the collection is gone" in each.message for each in caplog.records)
        assert await memory.list_flows("support") == []
        await memory.sync("support", CARDS)
        assert (await memory.recall(REQUEST, "support"))[0]["flow_name"] == CARDS[0].name


async def test_what_was_emptied_on_purpose_is_empty(server: LoopbackQdrant) -> None:
    async with await _opened(server) as memory, await _opened(server) as other:
        await memory.sync("support", CARDS)
        assert await memory.recall(REQUEST, "support")
        await other.sync("support", [], allow_delete=True)
        assert not await memory.recall(REQUEST, "support")
        assert not await memory.recall(REQUEST, "never synced")
        await memory.memorize(CARDS[0], "support")
        assert await memory.recall(REQUEST, "support")
        await memory.delete_flow(CARDS[0].id, "support")
        assert not await memory.recall(REQUEST, "support")


@pytest.mark.parametrize("at", [1, 2, 4, 6])
async def test_a_sync_writes_again_what_was_deleted_while_it_wrote(
    at: int, server: LoopbackQdrant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "BATCH", 10)
    writes = 0

    def drop_once(call: str) -> None:
        nonlocal writes
        writes += call == "REST PUT"
        if call == "REST PUT" and writes == at + 1:
            _drop(server)

    async with await _opened(server) as memory:
        await memory.sync("support", MANY[:15])
        server.on_call = drop_once
        report = await memory.sync("support", MANY)
        assert {each["flow_name"] for each in await memory.list_flows("support")} == {each.name for each in MANY}
        assert sorted((*report.created, *report.updated, *report.skipped)) == sorted(each.name for each in MANY)
        assert set(report.skipped) <= {each.name for each in MANY[:15]}
        assert (await memory.recall("please flow_3", "support")).notes == ()
        again = await memory.sync("support", MANY)
        assert (again.created, again.updated, again.notes) == ((), (), ())
    assert any("were written again" in each for each in report.notes)


async def test_a_sync_that_never_gets_through_says_what_is_missing(server: LoopbackQdrant) -> None:
    async with await _opened(server) as memory:
        server.on_call = lambda call: _drop(server) if call == "REST POST scroll" else None
        with pytest.raises(SyncIncompleteError, match=r"4 of 4 flows .*refund_order") as caught:
            await memory.sync("support", CARDS)
    assert set(caught.value.missing) == {each.name for each in CARDS}


async def test_a_sync_that_changes_nothing_reads_nothing_twice(server: LoopbackQdrant) -> None:
    async with await _opened(server) as memory:
        await memory.sync("support", CARDS)
        before = server.asked.copy()
        await memory.sync("support", CARDS)
        assert (server.asked - before)["REST POST scroll"] <= 2, "its own flows, and the sample for gRPC"
