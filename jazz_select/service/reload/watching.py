"""A changed file is live at once, or what was live before stays and the catalogue's `problem` says why."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import Final

from watchfiles import awatch  # pyright: ignore[reportUnknownVariableType] - of a framework that is not here

from jazz_select.errors import EmbeddingError, StoreError, SyncDeletesError
from jazz_select.service.reload.places import Seen, look
from jazz_select.service.reload.reading import ReadAnew
from jazz_select.service.running import RunningCatalogue
from jazz_select.text import describe_error, in_log
from jazz_select.threads import in_thread

log = logging.getLogger(__name__)
_TELL_MS: Final = 20
_QUIET_S: Final = 0.03
"""A save is often several changes: a file is read once nothing changed for so long."""
_NOISY: Final = 30
"""Or after looking so often: what changes all the time is read as it is."""
_LOOK_S: Final = 2.0
"""Between two looks where nobody told of a change: some file systems never do."""
_SHARE: Final = 50
"""Looking takes one part in so many of the time at most, however many files there are."""
_AGAIN_S: Final = 5.0
_AGAIN_MOST_S: Final = 60.0
_LONG_S: Final = 30.0


@asynccontextmanager
async def reloading(catalogues: Iterable[RunningCatalogue], *, every_s: float | None = None) -> AsyncGenerator[None]:
    """While the block runs, changed files of these catalogues are read, checked and synced, and then answer.

    Catalogues that are not read by a `ReadAnew` are left alone.

    Args:
        catalogues: Whose; they have been loaded.
        every_s: Look that often instead of being told by the system: for network file systems, which do not tell.
    """
    watches = [_Watch(each, each.read, every_s) for each in catalogues if isinstance(each.read, ReadAnew)]
    tasks = [asyncio.create_task(each.run()) for each in watches]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Watch:
    """The files of one catalogue."""

    def __init__(self, catalogue: RunningCatalogue, read: ReadAnew, every_s: float | None) -> None:
        self._catalogue, self._read, self._every_s = catalogue, read, every_s
        self._stirred = asyncio.Event()
        self._listener: asyncio.Task[None] | None = None
        self._listens_to, self._folders = Seen(), set[str]()
        self._again_at = None if catalogue.is_ready else monotonic() + _AGAIN_S  # it failed when the service started
        self._pause_s = _AGAIN_S

    async def run(self) -> None:
        """Look whenever there is a reason to, until cancelled."""
        try:
            while True:
                self._stirred.clear()
                began = monotonic()
                seen = await self._look()
                took_s = monotonic() - began
                if self._every_s is None and await self._listens_anew(seen):
                    continue  # what changed before it did was told to nobody
                if seen != self._read.seen or self._catalogue.is_outdated:
                    await self._settle(seen)
                    await self._reload()
                elif self._again_at is not None and monotonic() >= self._again_at:
                    await self._reload()
                else:
                    await self._wait(max(_LOOK_S, took_s * _SHARE) if self._every_s is None else self._every_s)
        finally:
            await self._stop_listening()

    async def _look(self) -> Seen:
        return await in_thread(look, self._read.places)

    async def _settle(self, seen: Seen) -> None:
        """Wait until nobody writes any more."""
        for _ in range(_NOISY):
            await asyncio.sleep(_QUIET_S)
            later = await self._look()
            if later == seen:
                return
            seen = later

    async def _wait(self, most_s: float) -> None:
        """Until there may be a change, or what failed may work now."""
        if self._again_at is not None:
            most_s = min(most_s, max(self._again_at - monotonic(), 0))
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stirred.wait(), most_s)

    async def _reload(self) -> None:
        """Have it read; whatever comes of it, this goes on."""
        catalogue = self._catalogue
        task = asyncio.create_task(catalogue.reload())
        try:
            done, _ = await asyncio.wait({task}, timeout=_LONG_S)
            if not done:
                catalogue.problem = f"reading takes longer than {_LONG_S:g} s: does a module wait for something?"
                log.warning("agent %s: %s", catalogue.agent_id, in_log(catalogue.problem))
            await task
        except Exception as error:  # noqa: BLE001 - an author's code may raise anything, and the service goes on
            self._failed(error)
            return
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task})
            raise
        self._again_at, self._pause_s = None, _AGAIN_S

    def _failed(self, error: Exception) -> None:
        catalogue = self._catalogue
        log.warning(
            "agent %s: what was changed is not live, and what was before still is: %s",
            catalogue.agent_id,
            describe_error(error),
        )
        passing = isinstance(error, StoreError | EmbeddingError) and not isinstance(error, SyncDeletesError)
        self._again_at = monotonic() + self._pause_s if passing else None
        self._pause_s = min(2 * self._pause_s, _AGAIN_MOST_S) if passing else _AGAIN_S

    async def _listens_anew(self, seen: Seen) -> bool:
        """Be told of changes of these; true where that begins now."""
        folders = seen.told_by
        self._listens_to = seen
        if self._listener is not None and folders == self._folders and not self._listener.done():
            return False
        await self._stop_listening()
        is_new, self._folders = folders != self._folders, folders
        self._listener = asyncio.create_task(self._told())
        await asyncio.sleep(0)
        return is_new

    async def _stop_listening(self) -> None:
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.gather(self._listener, return_exceptions=True)

    async def _told(self) -> None:
        def matters(_: object, path: str) -> bool:
            return self._listens_to.is_told_by(path)

        try:
            async for _ in awatch(*sorted(self._folders), watch_filter=matters, step=_TELL_MS, recursive=False):
                self._stirred.set()
        except Exception as error:  # noqa: BLE001 - a limit of the system, or a folder that is gone meanwhile
            log.debug("agent %s: not told of changes: %s", self._catalogue.agent_id, describe_error(error))
