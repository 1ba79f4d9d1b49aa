"""The catalogue of the example shop, indexed once for all conversations."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jazz_select import ProceduralMemory
from tests.conversations.desk import index


@pytest.fixture(scope="session")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("conversations")

    async def fill() -> None:
        async with index(folder):
            pass

    asyncio.run(fill())
    return folder


@pytest.fixture
async def memory(indexed: Path) -> AsyncIterator[ProceduralMemory]:
    async with index(indexed) as opened:
        yield opened
