"""What the code of a side imports: its own modules of this version, and the library's and Python's own as they are.

A tree that has a `calendar.py` or a `yaml.py` must not change what judges it, and a package that is installed elsewhere
(this project itself, say, for whoever works on it) must not take the place of the version that is compared.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

_INSTALLED = frozenset({"site-packages", "dist-packages"})
_OWN = "jazz_select"


class ImportsOfSide:
    """Finds modules of the first level: Python's own, then those of the flows, what is installed, what lies beside.

    It goes before the finders that Python has, which get all that this one does not know; so a name that a loader puts
    on `sys.path` for a while is still found, only not instead of these.
    """

    def __init__(self, root: Path, flows: str) -> None:
        """For the flows of this name or path below `root`."""
        self._root = root.resolve()
        self._flows = frozenset({*Path(flows).parts, *flows.split(".")})

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As Python asks it of a finder."""
        if path is not None or name == _OWN:
            return None
        inside, outside = self._places()
        if name in sys.stdlib_module_names:
            return _module(name, outside, target)
        own = PathFinder.find_spec(name, inside, target)
        if own is None:
            return None
        if name in self._flows:
            return own
        installed = [each for each in outside if Path(each).name in _INSTALLED]
        return _module(name, installed, target) or (own if own.loader is not None else None)

    def _places(self) -> tuple[list[str], list[str]]:
        """Where to look within this version, and elsewhere, in the order of `sys.path`."""
        inside, outside = [str(self._root)], list[str]()
        for each in sys.path:
            place = Path(each).resolve()
            installed = place.name in _INSTALLED  # an environment may lie in the tree
            mine = place.is_relative_to(self._root) and not installed and not str(place).startswith(sys.prefix)
            (inside if mine else outside).append(each)
        return [*inside[1:], inside[0]], outside


def _module(name: str, places: list[str], target: ModuleType | None) -> ModuleSpec | None:
    """A module or a package, not a folder that happens to have the name."""
    found = PathFinder.find_spec(name, places, target)
    return found if found is not None and found.loader is not None else None
