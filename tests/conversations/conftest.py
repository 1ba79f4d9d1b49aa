"""The catalogue of the example shop, indexed and opened once for all conversations."""

from collections.abc import AsyncIterator

import pytest_asyncio

from jazz_select import ProceduralMemory
from tests.conversations.desk import index


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def memory() -> AsyncIterator[ProceduralMemory]:
    async with index() as opened:
        yield opened
