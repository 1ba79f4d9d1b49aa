"""The support pack, indexed once; each test opens the index anew."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jazz_select import FlowRegistry, ProceduralMemory, sync_registry
from jazz_select.flow.loading import load_flows
from tests.vectors import EMBEDDER

PACK = Path(__file__).parents[3] / "flows"


@pytest.fixture(scope="session")
def pack() -> FlowRegistry:
    registry = FlowRegistry()
    load_flows(PACK, registry)
    return registry


@pytest.fixture(scope="session")
def indexed(tmp_path_factory: pytest.TempPathFactory, pack: FlowRegistry) -> Path:
    folder = tmp_path_factory.mktemp("index")

    async def fill() -> None:
        async with await ProceduralMemory.open(folder, embedder=EMBEDDER) as memory:
            await sync_registry(memory, "support", pack)

    asyncio.run(fill())
    return folder


@pytest.fixture
async def memory(indexed: Path) -> AsyncIterator[ProceduralMemory]:
    async with await ProceduralMemory.open(indexed, embedder=EMBEDDER) as memory:
        yield memory
