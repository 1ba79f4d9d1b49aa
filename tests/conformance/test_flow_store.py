"""One contract for every place where flows are kept."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest
from qdrant_client import QdrantClient

from jazz_select.memory.engines.edge import EdgeStore
from jazz_select.memory.engines.qdrant_server import RemoteStore
from jazz_select.memory.engines.qdrant_wire import Wire
from jazz_select.memory.engines.server_address import ServerAddress
from jazz_select.memory.engines.server_client import connect
from jazz_select.memory.engines.stored_points import Layout
from jazz_select.ports import FlowStore
from jazz_select.settings import Settings
from jazz_select.testing import check_flow_store, check_layouts, check_second_vectors
from tests.qdrant_server import EngineClient, LoopbackQdrant

Opener = Callable[[str], Awaitable[FlowStore]]
Make = Callable[[Path, ExitStack], Opener]
TWO = "two vectors"


def _layout(name: str) -> Layout:
    return Layout(embedder=name, dim=2, lexical="words", second_dim=3 if name.endswith(TWO) else 0)


def _edge(tmp_path: Path, _: ExitStack) -> Opener:
    async def open_store(layout: str) -> FlowStore:
        return await asyncio.to_thread(EdgeStore, tmp_path / "index", _layout(layout))

    return open_store


class _Shared(RemoteStore):
    """Leaves the client open on close: what is in memory would be gone."""

    async def close(self) -> None:
        pass


def _in_memory(_: Path, __: ExitStack) -> Opener:
    client = EngineClient()

    async def open_store(layout: str) -> FlowStore:
        return _Shared(client, _layout(layout))

    return open_store


def _loopback(stack: ExitStack, *, grpc: bool) -> Opener:
    server = stack.enter_context(LoopbackQdrant(speaks_grpc=grpc))

    async def open_store(layout: str) -> FlowStore:
        wire = Wire(server.url, port=server.grpc_port)
        return RemoteStore(connect(server.url), _layout(layout), where=server.url, wire=wire)

    return open_store


def _over_grpc(_: Path, stack: ExitStack) -> Opener:
    return _loopback(stack, grpc=True)


def _over_rest(_: Path, stack: ExitStack) -> Opener:
    return _loopback(stack, grpc=False)


def _server(_: Path, stack: ExitStack) -> Opener:
    """The server that JAZZ_URL names; without one, one on loopback that wants a key."""
    settings = Settings()
    url, port = settings.url or "", settings.grpc_port
    key = settings.api_key.get_secret_value() if settings.api_key else None
    if not url:
        key = "a-key-of-the-contract"
        server = stack.enter_context(LoopbackQdrant(api_key=key))
        url, port = server.url, server.grpc_port
    run = uuid4().hex  # two runs at once, and what one that was killed has left, are no matter

    async def open_store(layout: str) -> FlowStore:
        made = _layout(f"contract {run} {layout}")
        stack.callback(_drop, ServerAddress.parse(url, key), f"jazz_flows_{made.key}")
        wire = Wire(url, port=port, api_key=key)
        return RemoteStore(connect(url, key), made, where=url, wire=wire)

    return open_store


def _drop(address: ServerAddress, collection: str) -> None:
    """Leave nothing on the server."""
    client = QdrantClient(url=address.url, headers=dict(address.headers), check_compatibility=False)
    try:
        client.delete_collection(collection)
    finally:
        client.close()


BACKENDS = [
    pytest.param(_edge, id="edge"),
    pytest.param(_in_memory, id="memory"),
    pytest.param(_over_grpc, id="over gRPC"),
    pytest.param(_over_rest, id="over REST"),
    pytest.param(_server, id="server", marks=pytest.mark.live),
]


@pytest.fixture
def stack() -> Generator[ExitStack]:
    """What a backend needs while the test runs."""
    with ExitStack() as opened:
        yield opened


@pytest.mark.parametrize("make", BACKENDS)
async def test_a_store_keeps_its_promises(make: Make, stack: ExitStack, tmp_path: Path) -> None:
    store = await make(tmp_path, stack)("only")
    await check_flow_store(store)
    await store.close()
    await store.close()


@pytest.mark.spec("006.2")
@pytest.mark.parametrize("make", BACKENDS)
async def test_second_vectors_are_asked_for_themselves(make: Make, stack: ExitStack, tmp_path: Path) -> None:
    store = await make(tmp_path, stack)(TWO)
    await check_second_vectors(store)
    await store.close()


@pytest.mark.parametrize("make", BACKENDS)
async def test_layouts_stay_apart(make: Make, stack: ExitStack, tmp_path: Path) -> None:
    await check_layouts(make(tmp_path, stack))


async def test_the_contract_leaves_nothing_on_a_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with LoopbackQdrant(api_key="a key") as server, ExitStack() as opened:
        for name, value in (("URL", server.url), ("API_KEY", "a key"), ("GRPC_PORT", str(server.grpc_port))):
            monkeypatch.setenv(f"JAZZ_{name}", value)
        await check_layouts(_server(tmp_path, opened))
        assert server.client.get_collections().collections
        await asyncio.to_thread(opened.close)
        assert server.client.get_collections().collections == []
