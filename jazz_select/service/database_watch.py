"""Whether the database of a service answers: asked when somebody wants to know, and again and again."""

import asyncio
import logging
from typing import Final, Protocol

_EVERY_S: Final = 1.0
"""Between two looks."""
_FRESH_S: Final = 0.5
"""For so long a look holds: everybody may ask whether the service is ready, as often as they like."""
_log = logging.getLogger(__name__)


class Pingable(Protocol):
    """What may be away."""

    async def ping(self) -> str:
        """Return why it cannot be used now, or an empty text."""
        ...


class DatabaseWatch:
    """Looks whether the database answers, and logs once that it does not, and that it does again.

    Attributes:
        problem: Why it cannot be used; empty where it can.
    """

    def __init__(self, database: Pingable) -> None:
        """Watch this one."""
        self.problem = ""
        self._database = database
        self._lock = asyncio.Lock()
        self._looked_at: float | None = None

    async def look(self) -> str:
        """Return why the database cannot be used, by a look of a moment ago or a new one."""
        async with self._lock:
            now = asyncio.get_running_loop().time()
            if self._looked_at is None or now - self._looked_at >= _FRESH_S:
                self._note(await self._database.ping())
                self._looked_at = asyncio.get_running_loop().time()
            return self.problem

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(_EVERY_S)

    def _note(self, problem: str) -> None:
        if problem and not self.problem:
            _log.warning("the service is not ready: %s", problem)
        elif self.problem and not problem:
            _log.warning("the service is ready again: its database answers")
        self.problem = problem
