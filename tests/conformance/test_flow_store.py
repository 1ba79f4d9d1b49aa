"""One contract for every place where flows are kept."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from jazz_select.memory.engines.edge import EdgeStore
from jazz_select.memory.engines.qdrant_server import RemoteStore, Wire, connect
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


def _server(_: Path, __: ExitStack) -> Opener:
    settings = Settings()
    assert settings.url, "JAZZ_URL names the server to test"
    key = settings.api_key.get_secret_value() if settings.api_key else None

    async def open_store(layout: str) -> FlowStore:
        url = str(settings.url)
        wire = Wire(url, port=settings.grpc_port, api_key=key)
        return RemoteStore(connect(url, key), _layout(f"contract {layout}"), where=url, wire=wire)

    return open_store


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
