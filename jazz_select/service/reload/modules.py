"""The Python among flows and tools: run again where it changed, left alone where not, put back where it fails."""

import os
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Final

from jazz_select.errors import FlowLoadError
from jazz_select.flow.imports import AsWritten, run_once
from jazz_select.service.reload.places import python_files, roots

_ONE_AT_A_TIME: Final = threading.RLock()
"""What is imported belongs to the whole process."""
PATIENCE_S: Final = 30.0
"""How long the reading of another catalogue is waited for: a module of it may hang, and nothing can end that."""


class Modules:
    """The modules that lie at the places of one catalogue.

    What they import from elsewhere is not theirs: it is imported once for the whole process, and a change of it needs
    a restart.
    """

    def __init__(self, sources: Sequence[str | Path], patience_s: float = PATIENCE_S) -> None:
        """For these places; nothing is looked at yet. Other catalogues are waited for so many seconds."""
        self._sources, self._patience_s = tuple(sources), patience_s
        self._ours: dict[str, ModuleType] = {}
        self._written = ""

    @contextmanager
    def as_written(self) -> Generator[None]:
        """Inside, what is imported from there is what is written there now.

        Where no file of Python changed since the last time, its modules stay with all that they hold, such as open
        connections. Where one did, all of them are run again, as one may import another. Where the block raises, what
        was imported before is there again.

        Raises:
            FlowLoadError: Another catalogue is being read, and does not come to its end.
        """
        with self._alone():
            places, written = roots(self._sources), self._digest()
            anew = bool(self._written) and written != self._written
            if not anew:
                sys.modules.update(self._ours)
            before = self._take(places) if anew else self._there(places)
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
            self._ours, self._written = self._there(places), written

    @contextmanager
    def _alone(self) -> Generator[None]:
        if not _ONE_AT_A_TIME.acquire(timeout=self._patience_s):
            problem = (
                f"another catalogue has been read for more than {self._patience_s:g} s: does a module of it wait for "
                "something? Mend it, and start the service again"
            )
            raise FlowLoadError(str(next(iter(self._sources), "")), problem)
        try:
            yield
        finally:
            _ONE_AT_A_TIME.release()

    def _digest(self) -> str:
        total = sha256()
        for file in python_files(self._sources):
            try:
                text = file.read_bytes()
            except OSError:  # gone meanwhile, or not to be read: importing it will say so
                text = b""
            for each in (str(file).encode(errors="surrogatepass"), text):
                total.update(len(each).to_bytes(8))
                total.update(each)
        return total.hexdigest()

    def _there(self, places: Sequence[str]) -> dict[str, ModuleType]:
        """What is imported from there."""
        return {name: module for name, module in tuple(sys.modules.items()) if _lies_in(_file(module), places)}

    def _take(self, places: Sequence[str]) -> dict[str, ModuleType]:
        """Have it forgotten; also what lay elsewhere when it was imported, where the place is another folder now."""
        earlier = {name: module for name, module in self._ours.items() if sys.modules.get(name) is module}
        taken = self._there(places) | earlier
        for name in taken:
            del sys.modules[name]
        return taken


class _Finder:
    """Finds the modules of some places, and has them read from their source."""

    def __init__(self, places: Sequence[str]) -> None:
        self._places = places

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As Python asks it of a finder."""
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


def _file(module: object) -> str | None:
    found: object = getattr(module, "__file__", None)
    return found if isinstance(found, str) else None


def _lies_in(file: str | None, places: Sequence[str]) -> bool:
    return file is not None and any(file == each or file.startswith(each.rstrip(os.sep) + os.sep) for each in places)
