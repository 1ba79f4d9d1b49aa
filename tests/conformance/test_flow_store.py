"""One contract for every place where flows are kept."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from qdrant_client import AsyncQdrantClient

from jazz_select.memory.engines.edge import EdgeStore
from jazz_select.memory.engines.points import Layout
from jazz_select.memory.engines.remote import RemoteStore, connect
from jazz_select.ports import FlowStore
from jazz_select.settings import Settings
from jazz_select.testing import check_flow_store, check_layouts, check_second_vectors

Opener = Callable[[str], Awaitable[FlowStore]]
TWO = "two vectors"


def _layout(name: str) -> Layout:
    return Layout(embedder=name, dim=2, lexical="words", second_dim=3 if name.endswith(TWO) else 0)


def _edge(tmp_path: Path) -> Opener:
    async def open_store(layout: str) -> FlowStore:
        return await asyncio.to_thread(EdgeStore, tmp_path / "index", _layout(layout))

    return open_store


class _Shared(RemoteStore):
    """Leaves the client open on close: what is in memory would be gone."""

    async def close(self) -> None:
        pass


def _in_memory(_: Path) -> Opener:
    client = AsyncQdrantClient(":memory:")

    async def open_store(layout: str) -> FlowStore:
        return _Shared(client, _layout(layout))

    return open_store


def _server(_: Path) -> Opener:
    settings = Settings()
    assert settings.url, "JAZZ_URL names the server to test"
    key = settings.api_key.get_secret_value() if settings.api_key else None

    async def open_store(layout: str) -> FlowStore:
        return RemoteStore(connect(settings.url, key), _layout(f"contract {layout}"), where=str(settings.url))

    return open_store


BACKENDS = [
    pytest.param(_edge, id="edge"),
    pytest.param(_in_memory, id="memory"),
    pytest.param(_server, id="server", marks=pytest.mark.live),
]


@pytest.mark.parametrize("make", BACKENDS)
async def test_a_store_keeps_its_promises(make: Callable[[Path], Opener], tmp_path: Path) -> None:
    store = await make(tmp_path)("only")
    await check_flow_store(store)
    await store.close()
    await store.close()


@pytest.mark.spec("006.2")
@pytest.mark.parametrize("make", BACKENDS)
async def test_second_vectors_are_asked_for_themselves(make: Callable[[Path], Opener], tmp_path: Path) -> None:
    store = await make(tmp_path)(TWO)
    await check_second_vectors(store)
    await store.close()


@pytest.mark.parametrize("make", BACKENDS)
async def test_layouts_stay_apart(make: Callable[[Path], Opener], tmp_path: Path) -> None:
    await check_layouts(make(tmp_path))
