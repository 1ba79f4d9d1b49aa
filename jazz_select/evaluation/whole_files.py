"""Atomic writes and locks for files that several processes read and write."""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

from jazz_select.errors import ConfigError, JazzSelectError, UnreadableFileError

_PATIENCE_S: Final = 10.0
_OWN, _SHARED = 0o600, 0o666


def write_readable(file: Path, content: bytes, read: Callable[[Path], object], *, advice: str) -> None:
    """Replace a file as `write_whole` does, if its own reader can read what would be there.

    Args:
        file: The file.
        content: Its new content.
        read: The reader of such files, with all its limits; it is given the new file under another name.
        advice: What to do where it cannot read that.

    Raises:
        UnreadableFileError: The reader refuses it; the file is as it was.
        OSError: It cannot be written.
    """

    def check(aside: Path) -> None:
        try:
            read(aside)
        except JazzSelectError as error:
            problem = str(error).replace(str(aside), "it").replace(aside.name, "it")
            raise UnreadableFileError(str(file), problem, advice=advice) from error

    write_whole(file, content, check=check)


def write_whole(
    file: Path, content: bytes, *, private: bool = False, check: Callable[[Path], None] | None = None
) -> None:
    """Replace a file atomically; missing folders are made. Of two processes that write the same file, one wins.

    Only the owner may read a `private` file; otherwise the process's umask applies. What `check` raises about the new
    file leaves the old one there.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    # Write beside the file: a rename is atomic only within one file system. Cut the name, as its length is limited.
    aside = file.with_name(f".{file.name[:100]}.{uuid4().hex[:12]}")
    try:
        handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, _OWN if private else _SHARED)
        with os.fdopen(handle, "wb") as opened:
            opened.write(content)
        if check is not None:
            check(aside)
        aside.replace(file)
    except BaseException:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise


def keep_untracked(folder: Path) -> None:
    """Write a `.gitignore`, in `.jazz` for a folder there and else in the folder, so that it is never committed."""
    home = folder.parent if folder.parent.name == ".jazz" else folder
    with suppress(OSError):  # where nothing can be kept, nothing is committed either
        home.mkdir(parents=True, exist_ok=True)
        with (home / ".gitignore").open("x", encoding="utf-8") as file:
            file.write("# Made by jazz-select, for itself alone.\n*\n")


@contextmanager
def file_lock(file: Path) -> Generator[None]:
    """Hold an exclusive lock on the file against threads and processes; a hidden lock file stays beside it."""
    import portalocker

    flags = portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # Lock a separate file: the protected one is replaced while the lock is held.
        lock = portalocker.Lock(file.with_name(f".{file.name}.lock"), mode="a+", timeout=_PATIENCE_S, flags=flags)
        lock.acquire()
    except portalocker.exceptions.LockException as error:
        raise ConfigError(f"another process is changing {file}: try again when it is done") from error
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror or error}") from error
    try:
        yield
    finally:
        lock.release()


_BINARY = getattr(os, "O_BINARY", 0)
"""Prevents newline translation on Windows."""
