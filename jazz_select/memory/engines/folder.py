"""The folder of an embedded index: who may open it, and where each layout lies in it."""

import errno
import os
import shutil
from contextlib import ExitStack
from pathlib import Path

import orjson
import portalocker

from jazz_select.errors import DiskFullError, IndexLockedError, IndexUnusableError

_MARKER = "jazz_index.json"
_LOCK = "lock"
_LAYOUTS = "layouts"
_FORMAT = 1
_DRAFT = "jazz_index.json.new"
ROOM_TO_WRITE = 16_000_000
"""Bytes that have to be free on the disk, beside what is written. The engine writes through a memory map of files with
holes: where the disk has no block left for one, the operating system ends the process (SIGBUS), and nobody is told."""
ROOM_TO_OPEN = 8_000_000
_FULL = frozenset({errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)})
_OURS = frozenset({_MARKER, _LOCK, _LAYOUTS, _DRAFT})


class IndexFolder:
    """An index folder, held open by this object alone until `close`.

    The lock is the operating system's, so it goes with the process: after a crash
    there is nothing to clean up.
    """

    def __init__(self, path: Path) -> None:
        """Create the folder where there is none, check it, and lock it.

        Raises:
            IndexLockedError: Another process, or another object in this one, holds it.
            IndexUnusableError: It cannot be written, or is something else than an index.
        """
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            _check_contents(path)
            with ExitStack() as stack:
                self._lock = _lock(path)
                stack.callback(self.close)
                _write_marker(path)
                stack.pop_all()
        except OSError as error:
            if error.errno in _FULL:
                raise disk_full(path, ROOM_TO_OPEN) from error
            raise IndexUnusableError(
                str(path), f"it is not a folder that can be written ({error})", advice="Pass another path."
            ) from error

    def require_room(self, wanted: int) -> None:
        """Refuse to go on unless so many bytes are free on its disk."""
        if _free(self.path) < wanted:
            raise disk_full(self.path, wanted)

    def layout(self, key: str) -> Path:
        """Where the layout of this key lies, or will lie."""
        return self.path / _LAYOUTS / key

    def layouts(self) -> tuple[str, ...]:
        """Keys of the layouts there are."""
        folder = self.path / _LAYOUTS
        if not folder.is_dir():
            return ()
        return tuple(sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and "." not in entry.name))

    def close(self) -> None:
        """Let others open it; a second call does nothing."""
        self._lock.release()


def disk_full(path: Path, wanted: int) -> DiskFullError:
    """The error to raise where the disk of this folder lacks room."""
    return DiskFullError(str(path), wanted=wanted, free=_free(path))


def _free(path: Path) -> int:
    try:
        return shutil.disk_usage(path).free
    except OSError:  # a file system that does not say
        return ROOM_TO_WRITE * 1_000


def _check_contents(path: Path) -> None:
    marker = path / _MARKER
    if marker.is_file():
        try:
            found = orjson.loads(marker.read_bytes()).get("format")
        except (ValueError, AttributeError) as error:
            raise IndexUnusableError(
                str(path), f"{_MARKER} is corrupt", advice="Delete the folder and sync again."
            ) from error
        if found != _FORMAT:
            raise IndexUnusableError(
                str(path), f"its format is {found!r}, this version reads {_FORMAT}", advice="Delete it and sync again."
            )
        return
    strangers = sorted(entry.name for entry in path.iterdir() if entry.name not in _OURS)
    if strangers:
        raise IndexUnusableError(
            str(path),
            f"it holds other things ({', '.join(strangers[:3])}) and no {_MARKER}",
            advice="Pass an empty folder or a new path.",
        )


def _lock(path: Path) -> portalocker.Lock:
    lock = portalocker.Lock(
        path / _LOCK, mode="a+", timeout=0, flags=portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING
    )
    try:
        handle = lock.acquire()
    except portalocker.exceptions.LockException as error:
        raise IndexLockedError(str(path), holder=_holder(path)) from error
    handle.seek(0)
    handle.truncate()
    handle.write(str(os.getpid()))
    handle.flush()
    return lock


def _holder(path: Path) -> str:
    try:
        pid = int((path / _LOCK).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return ""
    return "this process" if pid == os.getpid() else f"process {pid}"


def _write_marker(path: Path) -> None:
    marker = path / _MARKER
    if not marker.exists():
        draft = path / _DRAFT
        draft.write_bytes(orjson.dumps({"format": _FORMAT, "made_by": "jazz-select"}))
        draft.replace(marker)
