"""Memories to test on: both engines that need nothing outside this process."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from jazz_select import ProceduralMemory
from jazz_select.testing import HashEmbedder

Place = str | Path


@pytest.fixture(params=["edge", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Where the index is kept."""
    return tmp_path / "index" if request.param == "edge" else ":memory:"


@pytest.fixture
async def memory(place: Place) -> AsyncIterator[ProceduralMemory]:
    """An empty memory with an embedder that needs no model."""
    async with await ProceduralMemory.open(place, embedder=HashEmbedder()) as opened:
        yield opened


Opener = Callable[..., Awaitable[ProceduralMemory]]
