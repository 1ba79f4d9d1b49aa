"""The catalogue of the example shop, indexed and opened once for all conversations."""

import logging
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from jazz_select import ProceduralMemory
from tests.conversations.desk import index


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def memory() -> AsyncIterator[ProceduralMemory]:
    async with index() as opened:
        yield opened


@pytest.fixture(autouse=True)
def _log() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] - of itself
    """The programs that are tried here are quiet; what comes after them is not."""
    yield
    logging.disable(logging.NOTSET)
