"""A door that many may pass at once, and that is shut only when all are out again."""

import os
from threading import Condition

from jazz_select.errors import IndexUnusableError


class Door:
    """`with door:` around each use of a resource; `shut()` before it is released.

    Raises `IndexUnusableError` on entry once it is shut, and in a forked child: an engine's threads
    and locks do not survive a fork.
    """

    def __init__(self, what: str) -> None:
        """Name what is behind it, for error messages."""
        self._what = what
        self._changed = Condition()
        self._inside = 0
        self._shut = False
        self._owner = os.getpid()

    @property
    def is_mine(self) -> bool:
        """False in a forked child."""
        return os.getpid() == self._owner

    def __enter__(self) -> None:
        if not self.is_mine:
            raise IndexUnusableError(
                self._what,
                "it was opened before this process was forked",
                advice="Open it in the process that uses it.",
            )
        with self._changed:
            if self._shut:
                raise IndexUnusableError(self._what, "it is closed", advice="Open the memory again.")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()

    def shut(self) -> bool:
        """Let nobody in any more and wait until all are out; False where it was shut before."""
        with self._changed:
            first = not self._shut
            self._shut = True
            self._changed.wait_for(lambda: self._inside == 0)
            return first
