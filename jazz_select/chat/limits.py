"""Limits of calls: a moment by which an answer has to be there, and how many calls may be under way at once."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic
from weakref import WeakKeyDictionary


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """A moment on the clock by which the model has to have answered; `limit_s` is None where it may take for ever."""

    limit_s: float | None
    at: float | None

    @classmethod
    def after(cls, limit_s: float | None) -> "Deadline":
        """That many seconds from now."""
        return cls(limit_s=limit_s, at=None if limit_s is None else monotonic() + limit_s)

    @property
    def left_s(self) -> float | None:
        """Seconds until then; below 0 afterwards."""
        return None if self.at is None else self.at - monotonic()


class Limiter:
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
