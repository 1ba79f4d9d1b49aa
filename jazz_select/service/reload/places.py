"""What lies at the places that a catalogue is read from: their files, and the folders that tell of a change."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from jazz_select.flow.data import SUFFIXES

_MOST_FOLDERS: Final = 1_000
"""As many as are read flows from."""
_READ: Final = frozenset({".py", *SUFFIXES})


@dataclass(frozen=True, slots=True)
class File:
    """One file as it lies there. Another one in its place differs, whatever its time says."""

    path: str
    changed_ns: int
    size: int
    inode: int


@dataclass(frozen=True, slots=True)
class Seen:
    """What lay at all places of a catalogue at one moment; two are equal where nothing changed."""

    files: tuple[File, ...] = ()
    folders: tuple[str, ...] = ()
    """Where these lie, those without one too."""
    landmarks: tuple[str, ...] = ()
    """The places themselves and what leads to them, which may be put in another's place, go, or come back."""

    @property
    def told_by(self) -> set[str]:
        """The folders whose changes may be changes of this."""
        around = (os.path.dirname(each) for each in self.landmarks)  # noqa: PTH120 - also of what is not there
        return {*self.folders, *(each for each in around if os.path.isdir(each))}  # noqa: PTH112

    def is_told_by(self, path: str) -> bool:
        """Whether a change at this path is one that matters: editors and caches leave many beside it."""
        return path in self.landmarks or (os.path.dirname(path) in self.folders and not _is_passing(path))  # noqa: PTH120


def look(sources: Iterable[str | Path]) -> Seen:
    """What lies there now. A place that is gone holds nothing."""
    files: dict[str, File] = {}
    folders: dict[str, None] = {}
    landmarks: dict[str, None] = {}
    for source in sources:
        place = placed(source)
        if place is None:
            continue
        landmarks.update(dict.fromkeys(_leading_to(place)))
        for entry in _walk(place, folders):
            files.update((entry.path, entry) for entry in _stat(entry))
    return Seen(tuple(files[each] for each in sorted(files)), tuple(folders), tuple(landmarks))


def python_files(sources: Iterable[str | Path]) -> Iterator[Path]:
    """All files of Python there, in the order of their paths."""
    return (Path(each.path) for each in look(sources).files if each.path.endswith(".py"))


def roots(sources: Iterable[str | Path]) -> Sequence[str]:
    """The places as paths: as they are called, and as they are where that is a link."""
    found = [place for source in sources if (place := placed(source)) is not None]
    return list(dict.fromkeys(each for place in found for each in (place, os.path.realpath(place))))


def placed(source: str | Path) -> str | None:
    """Where a source lies: a path, or the name of what can be imported; None where nothing says it."""
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


def _walk(place: str, folders: dict[str, None]) -> Iterator[str]:
    """The files that may be read below a place, each real folder once; and note the folders."""
    if not os.path.isdir(place):  # noqa: PTH112
        yield place
        return
    real: set[str] = set()
    waiting = [place]
    while waiting and len(real) < _MOST_FOLDERS:
        folder = waiting.pop()
        if (at := os.path.realpath(folder)) in real:
            continue
        real.add(at)
        folders.update(dict.fromkeys((folder, at)))
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if _is_passing(entry.path):
                        continue
                    if entry.is_dir():
                        waiting.append(entry.path)
                    elif os.path.splitext(entry.name)[1].lower() in _READ:  # noqa: PTH122
                        yield entry.path
        except OSError:  # gone meanwhile, or not to be read: reading it will say so
            continue


def _is_passing(path: str) -> bool:
    """Whether it is of an editor, a cache or a version control, none of which is read."""
    name = os.path.basename(path)  # noqa: PTH119
    # A volume of Kubernetes changes all of its files at once by a link of this name.
    return name != "..data" and (name.startswith((".", "#")) or name.endswith("~") or name == "__pycache__")


def _stat(path: str) -> Iterator[File]:
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return
    yield File(path, found.st_mtime_ns, found.st_size, found.st_ino)


def _leading_to(place: str) -> Iterator[str]:
    """The place; what it and what holds it are links to; and where it is not there, what of its way is missing."""
    yield place
    here = place
    while (above := os.path.dirname(here)) != here:  # noqa: PTH120
        if os.path.islink(here):  # noqa: PTH114
            yield here
            yield os.path.realpath(here)
        if not os.path.exists(above):  # noqa: PTH110
            yield above
        here = above
