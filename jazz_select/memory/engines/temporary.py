"""Temporary folders for indexes, in memory where the machine has plenty of it."""

import os
import shutil
import weakref
from pathlib import Path
from tempfile import mkdtemp

from jazz_select.errors import IndexUnusableError

_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the folder's name is random, and its maker alone may enter
_ROOM = 1 << 30


class TemporaryFolder:
    """A folder that is removed by `remove`, and at the latest with this object or the process.

    Attributes:
        path: Where it is.
    """

    def __init__(self, parent: Path | None = None) -> None:
        """Create it in `parent`, or else in the system's folder for temporary files.

        Raises:
            IndexUnusableError: Nothing can be written there.
        """
        try:
            self.path = Path(mkdtemp(prefix="jazz-index-", dir=parent))
        except OSError as error:
            problem = f"no temporary folder can be created ({error})"
            raise IndexUnusableError(
                ":memory:", problem, advice="Set TMPDIR to a folder that can be written."
            ) from error
        self.remove = weakref.finalize(self, _remove, self.path, os.getpid())

    def __enter__(self) -> Path:
        """Return the path."""
        return self.path

    def __exit__(self, *_: object) -> None:
        """Remove the folder."""
        self.remove()


def _remove(path: Path, maker: int) -> None:
    """Remove a folder, unless this process is a fork of its maker."""
    if os.getpid() == maker:
        shutil.rmtree(path, ignore_errors=True)


def shared_memory(room: int = _ROOM) -> Path | None:
    """Return Linux's folder in memory if so many bytes are free there. Flushing writes to a disk is slow."""
    try:
        roomy = shutil.disk_usage(_SHARED_MEMORY).free >= room
        return _SHARED_MEMORY if roomy and os.access(_SHARED_MEMORY, os.W_OK) else None
    except OSError:
        return None
