"""An index of another version's format: recall says so, and one sync for each agent moves it."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jazz_select import ProceduralMemory
from jazz_select.errors import EmbedderMismatchError
from jazz_select.memory.encoder import Encoder, Lexical
from jazz_select.memory.engines import stored_points
from jazz_select.memory.engines.edge import EdgeStore
from jazz_select.memory.engines.qdrant_server import RemoteStore
from jazz_select.ports import FlowStore
from jazz_select.testing import HashEmbedder
from jazz_select.values import FlowCard
from tests.qdrant_server import EngineClient
from tests.unit.memory.cards import CARDS


@contextmanager
def another_format() -> Generator[None]:
    """Layouts as another version has them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_points, "_FORMAT", 1)
        yield


class Open(RemoteStore):
    """Leaves the client open on close: what is in memory would be gone."""

    async def close(self) -> None:
        pass


class Place:
    """One index, opened again and again."""

    def __init__(self, engine: str, folder: Path) -> None:
        self.folder = folder
        self.client = EngineClient() if engine == "memory" else None

    def opened(self) -> ProceduralMemory:
        encoder = Encoder(HashEmbedder(), Lexical())
        store: FlowStore
        store = Open(self.client, encoder.layout) if self.client else EdgeStore(self.folder, encoder.layout)
        return ProceduralMemory(store, encoder)


def _card(flow_id: str) -> FlowCard:
    return FlowCard(id=flow_id, name=f"flow of {flow_id}", text=flow_id, checksum=flow_id)


@pytest.mark.spec("005.17")
@pytest.mark.parametrize("engine", ["edge", "memory"])
async def test_it_is_moved_by_a_sync_and_by_nothing_else(engine: str, tmp_path: Path) -> None:
    place = Place(engine, tmp_path)
    with another_format():
        async with place.opened() as memory:
            await memory.sync("support", CARDS)
            await memory.sync("note", [_card("support"), _card("other")])
    async with place.opened() as memory:
        for agent in ("support", "note"):
            with pytest.raises(EmbedderMismatchError, match=r"by another version .* Run sync_registry"):
                await memory.recall("money back", agent)
        report = await memory.sync("support", CARDS)
        assert (len(report.created), report.deleted) == (len(CARDS), ())
        assert (await memory.recall("money back", "support"))[0]["flow_name"] == CARDS[0].name
    with another_format():
        async with place.opened() as memory:
            assert len(await memory.list_flows("note")) == 2, "the move of one agent leaves another's flows"
            assert await memory._store.payloads("support") == {}  # pyright: ignore[reportPrivateUsage]
    async with place.opened() as memory:
        await memory.sync("note", [_card("support"), _card("other")])
        assert len(await memory.list_flows("note")) == 2
        assert (await memory.recall("money back", "support"))[0]["flow_name"] == CARDS[0].name
        store = memory._store  # pyright: ignore[reportPrivateUsage]
        assert await store.elsewhere("support") == await store.elsewhere("note") == []
