"""Writing a file whole or not at all: whoever reads it finds what was there before, or what is there now.

For what several processes may read and write at the same time: what was learned, and what sides of a comparison were.
"""

import os
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

_OWN, _SHARED = 0o600, 0o666


def write_whole(file: Path, content: bytes, *, private: bool = False) -> None:
    """Write it aside, and put it in its place at once; folders on the way are made.

    Two processes may write the same file: one of the two is there afterwards, never a mixture.

    Args:
        file: Where it is to be; what is there is replaced.
        content: All of it.
        private: Whether nobody else on this machine may read it; else as the process makes its files.

    Raises:
        OSError: It cannot be written; what was there is as it was, and nothing is left beside it.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_name(f".{file.name[:100]}.{uuid4().hex[:12]}")
    try:
        handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, _OWN if private else _SHARED)
        with os.fdopen(handle, "wb") as opened:
            opened.write(content)
        aside.replace(file)
    except BaseException:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise


_BINARY = getattr(os, "O_BINARY", 0)
"""Windows would make two bytes of each end of a line."""
