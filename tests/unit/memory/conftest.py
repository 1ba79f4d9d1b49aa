"""Memories to test on: the embedded engine, and the store of a server over the engine of Qdrant's client."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jazz_select import ProceduralMemory
from jazz_select.memory.embedders.known_embedders import open_embedder
from jazz_select.memory.encoder import Encoder, Lexical
from jazz_select.memory.engines.qdrant_server import RemoteStore
from jazz_select.ports import Embedder
from jazz_select.testing import HashEmbedder
from tests.qdrant_server import EngineClient

Place = Path | None
"""A folder; None for a server of its own, which is gone with the memory."""


@pytest.fixture(params=["edge", "server"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Where the index is kept."""
    return tmp_path / "index" if request.param == "edge" else None


async def opened(place: Place, *, embedder: str | Embedder, language: str = "english") -> ProceduralMemory:
    """`ProceduralMemory.open` of a place."""
    if place is not None:
        return await ProceduralMemory.open(place, embedder=embedder, language=language)
    encoder = Encoder(open_embedder(embedder), Lexical(language))
    return ProceduralMemory(RemoteStore(EngineClient(), encoder.layout), encoder)


@pytest.fixture
async def memory(place: Place) -> AsyncIterator[ProceduralMemory]:
    """An empty memory with an embedder that needs no model."""
    async with await opened(place, embedder=HashEmbedder()) as memory:
        yield memory
