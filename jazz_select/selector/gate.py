"""How many calls are in flight at once, first come, first served."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary


class Gate:
    """Lets so many through at a time, on each event loop; the others wait in order of arrival."""

    def __init__(self, limit: int) -> None:
        """Open for `limit` calls."""
        self._limit = limit
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    @asynccontextmanager
    async def entered(self) -> AsyncGenerator[None]:
        """Wait for a place, and leave it at the end, however that comes."""
        loop = asyncio.get_running_loop()
        places = self._loops.get(loop)
        if places is None:
            places = self._loops[loop] = asyncio.Semaphore(self._limit)
        async with places:
            yield
