"""The files of a catalogue: where its sources lie, and what lies there at one moment."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TypeAlias

from jazz_select.flow.data import SUFFIXES
from jazz_select.flow.skill_files import SKILL_FILE

_MOST_FOLDERS: Final = 1_000
"""As many as are read flows from."""
_READ: Final = frozenset({".py", *SUFFIXES})


SeenFiles: TypeAlias = tuple[tuple[str, int, int, int], ...]
"""What lay at all places of a catalogue at one moment: each file by its path, when it was changed, its size and its
inode, so that another one in its place differs."""


def look(sources: Iterable[str | Path]) -> SeenFiles:
    """Return what lies there now. A place that is gone holds nothing."""
    files: set[tuple[str, int, int, int]] = set()
    for source in sources:
        for path in _walk(source_location(source)):
            with suppress(OSError):  # gone meanwhile, or not to be read: reading it will say so
                found = os.stat(path)  # noqa: PTH116
                files.add((path, found.st_mtime_ns, found.st_size, found.st_ino))
    return tuple(sorted(files))


def roots(sources: Iterable[str | Path]) -> Sequence[str]:
    """Return the places as paths: as they are called, and as they are where that is a link."""
    paths: dict[str, None] = {}
    for source in sources:
        place = source_location(source)
        if place is not None:
            paths[place] = None
            paths[os.path.realpath(place)] = None
    return list(paths)


def source_location(source: str | Path) -> str | None:
    """Return the path of a source, which is a path or a name that can be imported; None where nothing says it."""
    text = os.path.abspath(source)  # noqa: PTH100 - no link is followed
    if isinstance(source, Path) or os.path.exists(text):  # noqa: PTH110
        return text
    if not source.strip() or not all(part.isidentifier() for part in source.split(".")):
        return text
    try:
        spec = find_spec(source)
    except (ImportError, ValueError, AttributeError):
        return None
    except Exception:  # noqa: BLE001 - what holds it is imported, and may raise anything; reading it will say so
        return None
    if spec is None:
        return None
    within = next(iter(spec.submodule_search_locations or ()), None)
    return within or (spec.origin if spec.has_location else None)


def _walk(place: str | None) -> Iterator[str]:
    if place is None:
        return
    if not os.path.isdir(place):  # noqa: PTH112
        yield place
        return
    real: set[str] = set()
    for folder, inside, names in os.walk(place, followlinks=True):
        at = os.path.realpath(folder)
        if at in real or len(real) == _MOST_FOLDERS:
            inside.clear()
            continue
        real.add(at)
        inside[:] = (each for each in inside if not _is_passing(each))
        for name in names:
            is_read = name == SKILL_FILE or os.path.splitext(name)[1].lower() in _READ  # noqa: PTH122
            if is_read and not _is_passing(name):
                yield os.path.join(folder, name)  # noqa: PTH118


def _is_passing(path: str) -> bool:
    """Tell whether a path belongs to an editor, a cache or version control; such files are not read."""
    name = os.path.basename(path)  # noqa: PTH119
    # A volume of Kubernetes changes all of its files at once by a link of this name.
    return name != "..data" and (name.startswith((".", "#")) or name.endswith("~") or name == "__pycache__")
