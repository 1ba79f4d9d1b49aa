"""A server is asked over gRPC where it can be: in one round trip, with typed errors, and over REST where it cannot."""

import asyncio
from collections import Counter
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event
from typing import Any

import grpc
import pytest

from jazz_select import ProceduralMemory
from jazz_select.errors import StoreUnavailableError
from jazz_select.memory.engines import qdrant_wire, stored_points
from jazz_select.testing import HashEmbedder
from tests.qdrant_server import LoopbackQdrant
from tests.unit.memory.cards import CARDS

KEY = "the right key"
REQUEST = "money back"


@pytest.fixture
def server() -> Generator[LoopbackQdrant]:
    """A server without a key."""
    with LoopbackQdrant() as server:
        yield server


async def _opened(server: LoopbackQdrant, *, port: int | None = None, key: str | None = None) -> ProceduralMemory:
    port = server.grpc_port if port is None else port
    return await ProceduralMemory.open(url=server.url, grpc_port=port, api_key=key, embedder=HashEmbedder())


def _since(server: LoopbackQdrant, before: Counter[str]) -> dict[str, int]:
    return dict(server.asked - before)


@pytest.mark.spec("006.9")
async def test_a_recall_is_one_round_trip(server: LoopbackQdrant) -> None:
    async with await _opened(server) as memory:
        await memory.sync("support", CARDS)
    async with await _opened(server) as memory:
        await memory.list_flows("support")  # what is read once of an agent
        before = server.asked.copy()
        first = await memory.recall(REQUEST, "support")
        assert _since(server, before) == {"gRPC QueryBatch": 1}, "payloads come along"
        before = server.asked.copy()
        again = await memory.recall(f"{REQUEST} and then a new password please", "support")
        many = await memory.recall_many([REQUEST, "a new password"], "support")
        assert _since(server, before) == {"gRPC QueryBatch": 2}
    assert first[0]["flow_name"] == CARDS[0].name
    assert list(many[0]) == list(first)
    assert again


@pytest.mark.spec("006.9")
async def test_many_first_recalls_read_what_is_known_of_an_agent_once(server: LoopbackQdrant) -> None:
    async with await _opened(server) as memory:
        await memory.sync("support", CARDS)
    async with await _opened(server) as memory:
        before = server.asked.copy()
        found = await asyncio.gather(*(memory.recall(REQUEST, "support") for _ in range(8)))
        assert all(each[0]["flow_name"] == CARDS[0].name for each in found)
        assert server.asked["REST POST count"] - before["REST POST count"] == 1


@pytest.mark.spec("006.9")
async def test_it_answers_as_over_rest(server: LoopbackQdrant) -> None:
    async with await _opened(server) as memory, await _opened(server, port=0) as rest:
        await memory.sync("support", CARDS)
        for request in (*(card.name for card in CARDS), REQUEST, "nothing of the kind", ""):
            for exclude in ((), (CARDS[0].id,)):
                told, right = [await each.recall(request, "support", exclude=exclude) for each in (memory, rest)]
                assert [each["flow_id"] for each in told] == [each["flow_id"] for each in right]
                assert [each["desired_effects"] for each in told] == [each["desired_effects"] for each in right]
                for one, other in zip(told, right, strict=True):
                    assert one["score"] == pytest.approx(other["score"], abs=1e-6)  # pyright: ignore[reportUnknownMemberType]
    assert server.asked["gRPC QueryBatch"]
    assert server.asked["REST POST query batch"]


@pytest.mark.spec("006.9")
@pytest.mark.parametrize(
    ("refusals", "asked", "problem"),
    [
        ([grpc.StatusCode.UNAVAILABLE], 2, None),
        ([grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.DEADLINE_EXCEEDED], 3, None),
        ([grpc.StatusCode.PERMISSION_DENIED], 1, "PERMISSION_DENIED"),
        ([grpc.StatusCode.INVALID_ARGUMENT], 1, "INVALID_ARGUMENT"),
    ],
    ids=["away for a moment", "busy, then slow", "not allowed", "refused"],
)
async def test_what_goes_wrong_is_tried_again_or_a_typed_error(
    refusals: list[grpc.StatusCode], asked: int, problem: str | None, server: LoopbackQdrant
) -> None:
    async with await _opened(server) as memory:
        await memory.sync("support", CARDS)
        await memory.recall(REQUEST, "support")
        server.refusals[:], before = refusals, server.asked.copy()
        if problem is None:
            assert (await memory.recall(REQUEST, "support"))[0]["flow_name"] == CARDS[0].name
        else:
            with pytest.raises(StoreUnavailableError, match=problem) as caught:
                await memory.recall(REQUEST, "support")
            assert caught.value.url == server.url
        assert _since(server, before) == {"gRPC QueryBatch": asked}


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock of the gRPC side; the last number is the time."""
    times = [1_000.0]
    monkeypatch.setattr(qdrant_wire, "monotonic", lambda: times[-1])
    return times


async def test_where_grpc_is_gone_for_good_rest_answers_until_it_is_back(
    server: LoopbackQdrant, now: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", "jazz_select")
    async with await _opened(server) as memory:
        await memory.sync("support", CARDS)
        await memory.recall(REQUEST, "support")
        assert memory.asked_over.startswith("gRPC at")
        server.stop_grpc()
        for _ in range(3):
            assert (await memory.recall(REQUEST, "support"))[0]["flow_name"] == CARDS[0].name
        assert memory.asked_over.startswith("REST, since gRPC at")
        assert [("asked over REST" in each.message) for each in caplog.records] == [True], "it is said once"
        now.append(now[-1] + 61)
        assert await memory.recall(REQUEST, "support"), "it is tried again, and REST answers meanwhile"
        server.start_grpc()
        now.append(now[-1] + 1)
        assert await memory.recall(REQUEST, "support")
        assert memory.asked_over.startswith("REST"), "not at each recall"
        now.append(now[-1] + 61)
        before = server.asked.copy()
        for _ in range(20):  # a channel connects again within a second
            if (await memory.recall(REQUEST, "support")) and memory.asked_over.startswith("gRPC at"):
                break
            await asyncio.sleep(0.1)
            now.append(now[-1] + 61)
        assert memory.asked_over.startswith("gRPC at")
        assert _since(server, before)["gRPC QueryBatch"] >= 1


@pytest.mark.parametrize(
    "refusals",
    [[grpc.StatusCode.UNAVAILABLE] * 3, [grpc.StatusCode.UNIMPLEMENTED], [grpc.StatusCode.INTERNAL] * 3],
    ids=["away", "another program", "broken"],
)
async def test_what_grpc_alone_cannot_answer_rest_does(
    refusals: list[grpc.StatusCode], server: LoopbackQdrant, now: list[float]
) -> None:
    async with await _opened(server) as memory:
        await memory.sync("support", CARDS)
        await memory.recall(REQUEST, "support")
        server.refusals[:], before = refusals, server.asked.copy()
        assert (await memory.recall(REQUEST, "support"))[0]["flow_name"] == CARDS[0].name
        assert _since(server, before) == {"gRPC QueryBatch": len(refusals), "REST POST query batch": 1}
        now.append(now[-1] + 6)
        await memory.recall(REQUEST, "support")
        assert memory.asked_over.startswith("gRPC at")


async def test_a_server_that_is_away_as_a_whole_loses_no_grpc(server: LoopbackQdrant) -> None:
    async with await _opened(server) as memory:
        await memory.sync("support", CARDS)
        await memory.recall(REQUEST, "support")
        server.refusals[:] = [grpc.StatusCode.UNAVAILABLE] * 3
        server.refuse = lambda call: (503, b"") if call == "POST points query batch" else None
        with pytest.raises(StoreUnavailableError, match="it answered 503"):
            await memory.recall(REQUEST, "support")
        server.refuse = lambda call: None
        before = server.asked.copy()
        assert await memory.recall(REQUEST, "support")
        assert _since(server, before) == {"gRPC QueryBatch": 1}


WRITES: dict[str, Callable[[LoopbackQdrant, str, int], object]] = {
    "rewrites one": lambda server, name, key: server.client.set_payload(name, {"condition": "now"}, points=[key]),
    "deletes one": lambda server, name, key: server.client.delete(name, [key]),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_who_writes_during_the_probe_does_not_turn_grpc_off(
    write: Callable[[LoopbackQdrant, str, int], object], server: LoopbackQdrant
) -> None:
    async with await _opened(server) as memory:
        await memory.sync("support", CARDS)
    written = 0

    def between(call: str) -> None:
        nonlocal written
        if call == "gRPC Get" and not written:
            written += 1
            (name,) = [each.name for each in server.client.get_collections().collections]
            write(server, name, stored_points.point_key("support", CARDS[1].id))

    server.on_call = between
    async with await _opened(server) as memory:
        assert (await memory.recall(REQUEST, "support"))[0]["flow_name"] == CARDS[0].name
        assert memory.asked_over.startswith("gRPC at")
    assert written


async def test_a_port_that_speaks_no_grpc_yet_is_asked_again(server: LoopbackQdrant, now: list[float]) -> None:
    server.stop_grpc()
    async with await _opened(server) as memory:
        await memory.sync("support", CARDS)
        await memory.recall(REQUEST, "support")
        assert memory.asked_over.startswith("REST, since gRPC at")
        server.start_grpc()
        for _ in range(20):
            now.append(now[-1] + 61)
            await memory.recall(REQUEST, "support")
            if memory.asked_over.startswith("gRPC at"):
                break
            await asyncio.sleep(0.1)
        assert memory.asked_over.startswith("gRPC at")


async def test_a_collection_that_seemed_to_be_gone_is_looked_at_again(server: LoopbackQdrant) -> None:
    async with await _opened(server) as memory:
        await memory.sync("support", CARDS)
        assert await memory.recall(REQUEST, "support")
        server.refusals.append(grpc.StatusCode.NOT_FOUND)
        assert (await memory.recall(REQUEST, "support"))[0]["flow_name"] == CARDS[0].name


@pytest.mark.parametrize("answers", ["nobody", "no Qdrant", "another server"])
async def test_where_no_grpc_answers_the_server_is_asked_over_rest(
    answers: str, server: LoopbackQdrant, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "jazz_select")
    with LoopbackQdrant(speaks_grpc=answers != "no Qdrant") as other:
        port = 1 if answers == "nobody" else other.grpc_port
        async with await _opened(server, port=port) as memory:
            await memory.sync("support", CARDS)
            for _ in range(3):
                assert (await memory.recall(REQUEST, "support"))[0]["flow_name"] == CARDS[0].name
    assert server.asked["REST POST query batch"] == 3
    assert sum("asked over REST" in each.message for each in caplog.records) == 1
    assert other.asked["gRPC Get"] == (1 if answers == "another server" else 0)


async def test_the_port_after_that_of_rest_is_found_without_being_named() -> None:
    with LoopbackQdrant(next_port=True) as server:
        async with await ProceduralMemory.open(url=server.url, embedder=HashEmbedder()) as memory:
            assert not memory.asked_over
            await memory.sync("support", CARDS)
            assert (await memory.recall(REQUEST, "support"))[0]["flow_name"] == CARDS[0].name
            assert memory.asked_over == f"gRPC at 127.0.0.1:{server.grpc_port}"
    assert server.asked["gRPC QueryBatch"] == 1


async def test_another_server_with_a_collection_of_the_same_name_is_not_asked(server: LoopbackQdrant) -> None:
    with LoopbackQdrant() as other:
        async with await _opened(other) as memory:
            await memory.sync("support", CARDS[1:])
        async with await _opened(server, port=other.grpc_port) as memory:
            await memory.sync("support", CARDS)
            assert (await memory.recall(REQUEST, "support"))[0]["flow_name"] == CARDS[0].name
            assert memory.asked_over.startswith("REST, since gRPC at")
            assert "grpc_port" in memory.asked_over
    assert not other.asked["gRPC QueryBatch"]


async def test_connections_over_rest_are_used_again(server: LoopbackQdrant) -> None:
    async with await _opened(server, port=0) as memory:
        await memory.sync("support", CARDS)
        for _ in range(20):
            assert await memory.recall(REQUEST, "support")
        assert server.connections == 1
        await asyncio.gather(*(memory.recall(REQUEST, "support") for _ in range(3)))
        before = server.connections
        await memory.recall(REQUEST, "support")
        assert server.connections == before <= 3
        assert memory.asked_over.startswith("REST")


async def test_a_call_over_rest_is_logged_once(server: LoopbackQdrant, caplog: pytest.LogCaptureFixture) -> None:
    async with await _opened(server, port=0) as memory:
        await memory.sync("support", CARDS)
        caplog.set_level("INFO", "httpx")
        before = server.asked.copy()
        await memory.recall(REQUEST, "support")
    assert len([each for each in caplog.records if each.name == "httpx"]) == (server.asked - before).total()


def _garbage(*_: object) -> bytes:
    return b"\xff\xff\xff"


class _Garbage(grpc.GenericRpcHandler):
    def service(self, handler_call_details: object) -> Any:
        api: Any = grpc  # its types are not published
        return api.unary_unary_rpc_method_handler(_garbage)


async def test_where_garbage_answers_the_server_is_asked_over_rest(server: LoopbackQdrant) -> None:
    other = grpc.server(ThreadPoolExecutor(1), handlers=[_Garbage()])
    port = other.add_insecure_port("127.0.0.1:0")
    other.start()
    try:
        async with await _opened(server, port=port) as memory:
            await memory.sync("support", CARDS)
            assert (await memory.recall(REQUEST, "support"))[0]["flow_name"] == CARDS[0].name
    finally:
        other.stop(grace=None).wait()
    assert server.asked["REST POST query batch"] == 1


@pytest.mark.parametrize(("key", "works"), [(KEY, True), ("another", False)], ids=["right", "wrong"])
async def test_a_key_is_sent_along(key: str, works: bool) -> None:
    with LoopbackQdrant(api_key=KEY) as server:
        async with await _opened(server, key=key) as memory:
            if not works:
                with pytest.raises(StoreUnavailableError, match="api_key"):
                    await memory.recall(REQUEST, "support")
                return
            await memory.sync("support", CARDS)
            assert await memory.recall(REQUEST, "support")
        assert server.asked["gRPC QueryBatch"] == 1


async def test_a_caller_who_gives_up_is_let_go(server: LoopbackQdrant) -> None:
    async with await _opened(server) as memory:
        await memory.sync("support", CARDS)
        await memory.recall(REQUEST, "support")
        asked, answer = Event(), Event()

        def hold(_: str) -> None:
            asked.set()
            answer.wait(20)

        server.on_call = hold
        waiting = asyncio.create_task(memory.recall(REQUEST, "support"))
        await asyncio.to_thread(asked.wait, 20)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        answer.set()
        server.on_call = lambda _: None
        assert await memory.recall(REQUEST, "support")


def test_one_memory_serves_several_loops(server: LoopbackQdrant) -> None:
    memory = asyncio.run(_opened(server))
    asyncio.run(memory.sync("support", CARDS))
    for _ in range(3):
        assert asyncio.run(memory.recall(REQUEST, "support"))[0]["flow_name"] == CARDS[0].name
    assert server.asked["gRPC QueryBatch"] == 3
    asyncio.run(memory.close())


async def test_what_another_process_writes_is_seen(server: LoopbackQdrant, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    monkeypatch.setattr(stored_points, "monotonic", lambda: now)
    told = replace(CARDS[0], condition="only on Sundays", checksum="changed")
    async with await _opened(server) as memory, await _opened(server) as other:
        await memory.sync("support", CARDS)
        assert (await memory.recall(REQUEST, "support"))[0]["condition"] == CARDS[0].condition
        await other.update_memory(told, "support")
        now += 61
        assert (await memory.recall(REQUEST, "support"))[0]["condition"] == "only on Sundays"
        await memory.update_memory(CARDS[0], "support")
        assert (await memory.recall(REQUEST, "support"))[0]["condition"] == CARDS[0].condition, "its own at once"
        await other.delete_flow(CARDS[0].id, "support")
        found = await memory.recall(REQUEST, "support")
        assert CARDS[0].name not in [each["flow_name"] for each in found], "what is gone is found no more"
