"""The server adapter where the server is gone, refuses, or answers nonsense."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from jazz_select import ProceduralMemory
from jazz_select.errors import ConfigError, StoreUnavailableError
from jazz_select.memory.engines.qdrant_server import RemoteStore
from jazz_select.memory.engines.stored_points import Layout
from jazz_select.ports import FlowPoint, HybridQuery, SparseVector
from jazz_select.testing import HashEmbedder
from tests.qdrant_server import EngineClient

POINT = FlowPoint(
    agent_id="a",
    flow_id="one",
    fingerprint="1",
    dense=(1.0, 0.0),
    sparse=SparseVector(indices=(1,), values=(1.0,)),
    payload={"flow_id": "one"},
)
QUERY = HybridQuery(agent_id="a", dense=(1.0, 0.0), sparse=None, depth=1)


async def test_a_collection_that_somebody_removed_is_empty_and_made_again() -> None:
    client = EngineClient()
    store = RemoteStore(client, Layout(embedder="e", dim=2, lexical="l"))
    await store.upsert([POINT])
    (name,) = [each.name for each in (await client.get_collections()).collections]
    await client.delete_collection(name)
    assert (await store.search([QUERY]))[0].dense == {}
    await store.upsert([POINT])
    await client.delete_collection(name)
    await store.upsert([POINT])
    assert list((await store.search([QUERY]))[0].dense) == [store.key("a", "one")]
    await store.close()


async def test_moving_one_agent_removes_no_collection() -> None:
    client = EngineClient()
    old, new = (RemoteStore(client, Layout(embedder=name, dim=2, lexical="l")) for name in ("old", "new"))
    await old.upsert([POINT])
    await new.upsert([POINT])
    await new.forget_other_layouts("a")
    assert len((await client.get_collections()).collections) == 2, "another agent may be about to write there"
    assert await old.payloads("a") == {}
    await new.close()


class _Nonsense(BaseHTTPRequestHandler):
    """Answers every request as its path's server was told to."""

    def _answer(self) -> None:
        server = self.server
        status, body = server.answer  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
        length = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(length)
        self.send_response(status)  # pyright: ignore[reportUnknownArgumentType]
        self.send_header("Content-Length", str(len(body)))  # pyright: ignore[reportUnknownArgumentType]
        self.end_headers()
        self.wfile.write(body)  # pyright: ignore[reportUnknownArgumentType]

    do_GET = do_POST = do_PUT = _answer  # noqa: N815

    def log_message(self, *args: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        pass


@pytest.fixture(
    params=[(401, b"{}"), (503, b""), (200, b"<html>hello</html>"), (200, b""), (200, b"null")],
    ids=["refused", "overloaded", "a page", "nothing", "null"],
)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server that is no Qdrant."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Nonsense)
    server.answer = request.param  # pyright: ignore[reportAttributeAccessIssue]
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


async def test_whatever_a_server_answers_is_a_typed_error(url: str) -> None:
    async with await ProceduralMemory.open(url=url, embedder=HashEmbedder()) as memory:
        with pytest.raises(StoreUnavailableError, match="Is it running") as caught:
            await memory.recall("money back", "a")
        assert caught.value.url == url


@pytest.mark.parametrize("url", ["http://127.0.0.1:notaport", "ftp://127.0.0.1"])
async def test_an_address_that_is_none_says_what_one_looks_like(url: str) -> None:
    with pytest.raises((ConfigError, StoreUnavailableError)) as caught:
        async with await ProceduralMemory.open(url=url, embedder=HashEmbedder()) as memory:
            await memory.recall("money back", "a")
    assert url in str(caught.value)
