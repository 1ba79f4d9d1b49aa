"""A service on a Qdrant server notices that the server is away or lost its flows, says so, and mends what it can."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager

import pytest

from jazz_select import ProceduralMemory
from jazz_select.testing import HashEmbedder
from tests.qdrant_server import LoopbackQdrant
from tests.unit.service.served import REFUND, Service, Shop, catalogue, clinic, service, shop_service

ASKED = {"request": REFUND}


@pytest.fixture
def qdrant() -> Generator[LoopbackQdrant]:
    """A server without a key."""
    with LoopbackQdrant() as server:
        yield server


@asynccontextmanager
async def _service(qdrant: LoopbackQdrant) -> AsyncGenerator[Service]:
    async with (
        await ProceduralMemory.open(url=qdrant.url, grpc_port=qdrant.grpc_port, embedder=HashEmbedder()) as memory,
        service(catalogue(memory, Shop().sources)) as up,
    ):
        yield up


def _drop(qdrant: LoopbackQdrant) -> None:
    for each in qdrant.client.get_collections().collections:
        qdrant.client.delete_collection(each.name)


async def _is_ready(up: Service) -> bool:
    """Ask after the last look is too old to hold; waiting takes no time here."""
    await asyncio.sleep(1.5)
    return (await up.client.get("/readyz")).status_code == 200


@pytest.mark.parametrize("is_asked", [True, False], ids=["somebody asks", "nobody asks"])
async def test_a_collection_that_is_deleted_is_an_error_in_the_log_and_comes_back(
    is_asked: bool, qdrant: LoopbackQdrant, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "jazz_select")
    async with _service(qdrant) as up:
        first = await up.post("/v1/select", ASKED)
        assert [each["flow_name"] for each in first.json()["chosen"]] == ["refund_order"]
        caplog.clear()
        _drop(qdrant)
        if is_asked:
            refused = await up.post("/v1/select", ASKED)
            assert (refused.status_code, refused.json()["code"]) == (503, "FlowsMissingError")
            assert "Retry-After" in refused.headers
            assert (await up.client.get("/readyz")).json() == {"status": "no_index", "not_served": 1}
        found: list[str] = []
        for _ in range(20):  # the service looks every two seconds
            answer = await up.post("/v1/select", ASKED)
            assert answer.status_code == 503 or answer.json()["chosen"], "never an empty answer"
            found = [each["flow_name"] for each in answer.json().get("chosen", ())]
            if found:
                break
            await asyncio.sleep(1)
        assert found == ["refund_order"]
        assert await _is_ready(up)
        said = [each.message for each in caplog.records if each.name == "jazz_select.service.running"]
        assert sum("the index does not answer" in each for each in said) == 1
        assert any("3 flows were gone from the index, and are written again" in each for each in said)


async def test_while_the_server_is_away_the_service_is_not_ready(
    qdrant: LoopbackQdrant, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "jazz_select.service.running")
    async with _service(qdrant) as up:
        assert await _is_ready(up)
        qdrant.refuse = lambda call: (503, b"gone fishing") if call else None
        assert not await _is_ready(up)
        told = await up.client.get("/readyz")
        assert (told.status_code, told.json()) == (503, {"status": "no_index", "not_served": 1})
        assert (await up.client.get("/healthz")).status_code == 200
        qdrant.refuse = lambda call: (503, b"") if not call else None
        assert await _is_ready(up)
        said = [each.message for each in caplog.records]
        assert sum("gone fishing" in each for each in said) == 1
        assert sum("answers again" in each for each in said) == 1
        assert (await up.post("/v1/select", ASKED)).json()["chosen"]


async def test_one_agent_without_flows_keeps_no_others_away(qdrant: LoopbackQdrant) -> None:
    async with (
        await ProceduralMemory.open(url=qdrant.url, grpc_port=0, embedder=HashEmbedder()) as memory,
        service(
            catalogue(memory, Shop().sources),
            catalogue(memory, clinic, "clinic"),
            keys=["a-key-of-the-shop", "a-key-of-the-clinic"],
        ) as up,
    ):
        up.agents["clinic"].note_index("somebody deleted its flows")
        assert (await up.client.get("/readyz")).json()["status"] == "ready"
        up.agents["shop"].note_index("somebody deleted its flows")
        assert await _is_ready(up), "the next look finds them"


async def test_who_asks_often_asks_the_server_once_a_second(qdrant: LoopbackQdrant) -> None:
    async with _service(qdrant) as up:
        before = qdrant.asked["REST POST count"]
        for _ in range(100):
            await up.client.get("/readyz")
        assert qdrant.asked["REST POST count"] - before < 50


async def test_an_index_of_ones_own_is_not_looked_at() -> None:
    async with shop_service() as up:
        assert (await up.client.get("/readyz")).json() == {"status": "ready"}
