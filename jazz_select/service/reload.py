"""Changed files of flows and tools are live without a restart, or what was live stays and `problem` says why."""

import asyncio
import logging
import os
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from hashlib import sha256
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from time import monotonic
from types import ModuleType
from typing import Final

from jazz_select.errors import EmbeddingError, FlowLoadError, StoreError, SyncDeletesError
from jazz_select.flow.imports import AsWritten, run_once
from jazz_select.service.running import RunningCatalogue, Sources
from jazz_select.service.source_files import SeenFiles, look, roots
from jazz_select.text import describe_error
from jazz_select.threads import beside, in_thread

_ONE_AT_A_TIME: Final = threading.RLock()
"""What is imported belongs to the whole process."""
PATIENCE_S: Final = 30.0
"""How long the reading of another catalogue is waited for: a module of it may hang, and nothing can end that."""


class CatalogueReloader:
    """Calls what reads a catalogue, so that it gets what is written now, and notes what that was.

    The modules that lie at its places are run again where one of them changed, as one may import another. What they
    import from elsewhere is not theirs: it is imported once for the whole process, and a change of it needs a restart.

    Attributes:
        places: Where it is read from: folders, files, and names of what can be imported.
        seen: What lay there when it was last read, whether or not it could be.
    """

    def __init__(
        self, read: Callable[[], Sources], places: Sequence[str | Path], *, patience_s: float = PATIENCE_S
    ) -> None:
        """Wrap the reader of a catalogue; `patience_s` is the longest wait for other catalogues to be read."""
        self.places = tuple(places)
        self.seen: SeenFiles = ()
        self._read, self._patience_s = read, patience_s
        self._ours: dict[str, ModuleType] = {}
        self._written: Mapping[str, bytes] | None = None

    def __call__(self) -> Sources:
        """Read the flows and tools as `read` does, with its errors.

        Raises:
            FlowLoadError: Code there raised what is no `Exception`, which would end more than the reading; or another
                catalogue is being read, and does not come to its end.
        """
        seen, self.seen = look(self.places), ()
        try:
            with self._import_anew(seen):
                self.seen = seen  # not before: what could not even begin is to be tried again
                return self._read()
        except Exception:
            raise
        except BaseException as error:
            raise FlowLoadError(str(self.places[0]), f"running it raised {describe_error(error)}") from error

    @contextmanager
    def _import_anew(self, seen: SeenFiles) -> Generator[None]:
        """Make imports within the block read the files as they are now.

        Where no file of Python changed since the last time, its modules stay with all that they hold, such as open
        connections. Where one did, all of them are run again. Where the block raises, what was imported before is
        there again.
        """
        with self._read_alone():
            places, written = roots(self.places), _digests(seen)
            anew = self._written not in (None, written)
            if not anew:
                sys.modules.update(self._ours)
            before = self._take(places) if anew else _loaded_modules(places)
            finder = _Finder(places)
            sys.meta_path.insert(0, finder)
            try:
                with run_once(() if anew else self._ours):
                    yield
            except BaseException:
                self._take(places)
                _put_back(before)
                raise
            finally:
                sys.meta_path.remove(finder)
            self._ours, self._written = _loaded_modules(places), written

    @contextmanager
    def _read_alone(self) -> Generator[None]:
        if not _ONE_AT_A_TIME.acquire(timeout=self._patience_s):
            problem = (
                f"another catalogue has been read for more than {self._patience_s:g} s: does a module of it wait for "
                "something? Mend it, and start the service again"
            )
            raise FlowLoadError(str(next(iter(self.places), "")), problem)
        try:
            yield
        finally:
            _ONE_AT_A_TIME.release()

    def _take(self, places: Sequence[str]) -> dict[str, ModuleType]:
        """Forget the imported modules of these places, including those from an earlier target of a link."""
        earlier = {name: module for name, module in self._ours.items() if sys.modules.get(name) is module}
        taken = _loaded_modules(places) | earlier
        for name in taken:
            del sys.modules[name]
        return taken


def _digests(seen: SeenFiles) -> Mapping[str, bytes]:
    """Return the digest of each Python file: one that is written again as it was has not changed."""
    found: dict[str, bytes] = {}
    for path, *_ in seen:
        if path.endswith(".py"):
            with suppress(OSError):  # gone meanwhile, or not to be read: importing it will say so
                found[path] = sha256(Path(path).read_bytes()).digest()
    return found


def _loaded_modules(places: Sequence[str]) -> dict[str, ModuleType]:
    return {
        name: module
        for name, module in tuple(sys.modules.items())
        if _lies_in(getattr(module, "__file__", None), places)
    }


class _Finder:
    """Finds the modules of some places and reads them from source, past stale bytecode."""

    def __init__(self, places: Sequence[str]) -> None:
        self._places = places

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        found = PathFinder.find_spec(name, path, target)
        if found is None or not isinstance(found.loader, SourceFileLoader) or not _lies_in(found.origin, self._places):
            return None
        found.loader = AsWritten(name, found.loader.path)
        return found


def _put_back(modules: dict[str, ModuleType]) -> None:
    sys.modules.update(modules)
    for name, module in modules.items():
        above, _, last = name.rpartition(".")
        if above and (parent := sys.modules.get(above)) is not None:
            setattr(parent, last, module)


def _lies_in(file: object, places: Sequence[str]) -> bool:
    return isinstance(file, str) and any(
        file == each or file.startswith(each.rstrip(os.sep) + os.sep) for each in places
    )


log = logging.getLogger(__name__)
_QUIET_S: Final = 0.03
"""A save is often several changes: a file is read once nothing changed for so long."""
_NOISY: Final = 30
"""Or after looking so often: what changes all the time is read as it is."""
_LOOK_S: Final = 0.25
"""Between two looks: some file systems tell nobody of a change, and all of them can be looked at."""
_SHARE: Final = 50
"""Looking takes one part in so many of the time at most, however many files there are."""
_AGAIN_S: Final = 5.0
_AGAIN_MOST_S: Final = 60.0


@asynccontextmanager
async def reload_on_change(
    catalogues: Iterable[RunningCatalogue], *, every_s: float | None = None
) -> AsyncGenerator[None]:
    """Reload changed files of these catalogues while the block runs: read, check, sync, then answer from them.

    Catalogues that are not read by a `CatalogueReloader` are left alone.

    Args:
        catalogues: Whose; they have been loaded.
        every_s: Look that often, such as at a network file system; by default as often as looking is cheap.
    """
    watched = [_watch(each, each.read, every_s) for each in catalogues if isinstance(each.read, CatalogueReloader)]
    async with beside(*watched):
        yield


async def _watch(catalogue: RunningCatalogue, read: CatalogueReloader, every_s: float | None) -> None:
    """Look at the files of a catalogue again and again, until cancelled; a failure does not end it."""
    again_at = None if catalogue.is_ready else monotonic() + _AGAIN_S  # it failed when the service started
    pause_s = _AGAIN_S
    while True:
        began = monotonic()
        seen = await in_thread(look, read.places)
        took_s = monotonic() - began
        if seen != read.seen or catalogue.is_outdated:
            await _wait_until_settled(read.places, seen)
        elif again_at is None or monotonic() < again_at:
            await asyncio.sleep(max(_LOOK_S, took_s * _SHARE) if every_s is None else every_s)
            continue
        again_at = None
        try:
            await catalogue.reload()
        except Exception as error:  # noqa: BLE001 - an author's code may raise anything, and the service goes on
            what = "what was changed is not live, and what was before still is"
            log.warning("agent %s: %s: %s", catalogue.agent_id, what, describe_error(error))
            if isinstance(error, StoreError | EmbeddingError) and not isinstance(error, SyncDeletesError):
                again_at, pause_s = monotonic() + pause_s, min(2 * pause_s, _AGAIN_MOST_S)
                continue
        pause_s = _AGAIN_S


async def _wait_until_settled(places: Sequence[str | Path], seen: SeenFiles) -> None:
    for _ in range(_NOISY):
        await asyncio.sleep(_QUIET_S)
        later = await in_thread(look, places)
        if later == seen:
            return
        seen = later
