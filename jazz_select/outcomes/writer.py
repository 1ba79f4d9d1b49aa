"""The queue of a log of outcomes, and the thread that empties it into the file.

Nothing that is queued can end the thread: what a column cannot hold is made into what it can as it is queued, a line
that fails all the same is lost alone, and whatever else happens costs one batch.
"""

import logging
import os
import secrets
import sqlite3
import threading
import weakref
from collections import deque
from contextlib import suppress
from itertools import count
from math import isfinite
from pathlib import Path
from time import time
from typing import Final

from jazz_select.errors import OutcomeLogError
from jazz_select.outcomes.file import BUSY_S, connected
from jazz_select.text import as_text, describe_error

_MOST_QUEUED: Final = 20_000
_GATHER_S, _RETRIES = 0.2, 3
_SWEEP_EVERY: Final = 1_000
_DAY_S, _GRACE_S = 86_400.0, 3_600.0
_WIDEST: Final = (1 << 63) - 1
"""The greatest whole number of a column."""
_LINE_ERRORS: Final = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    ValueError,
    TypeError,
    OverflowError,
)
"""What is wrong with one line and not with the file: SQLite takes back that line, and goes on with the others."""
_log = logging.getLogger(__name__)


class Writer:
    """The queue, and the thread that empties it; it knows nothing of the log, so that the log can be let go of."""

    def __init__(self, path: Path, keep_days: float | None, max_entries: int | None) -> None:
        self._path = path
        self._keep_s = None if keep_days is None else keep_days * _DAY_S
        self._max_entries = max_entries
        self.dropped = 0
        self._closed = False
        self._begin()
        _WRITERS.add(self)

    def _begin(self) -> None:
        """As it is in a process that has written nothing: also in one that was forked off."""
        self._queue: deque[tuple[str, tuple[object, ...]]] = deque()
        self._wake, self._hurry = threading.Event(), threading.Event()
        self._lock, self._counting = threading.Lock(), threading.Lock()
        self._written = threading.Condition()
        self._thread: threading.Thread | None = None
        self._put, self._done, self._unswept, self._told = 0, 0, _SWEEP_EVERY, False
        self._ids, self._prefix = count(), secrets.token_hex(6)

    forked = _begin

    def new_id(self) -> str:
        """An id that no other entry of any process has."""
        return f"{self._prefix}-{next(self._ids):x}"

    def put(self, sql: str, row: tuple[object, ...]) -> bool:
        """Queue a line; False where there is no room for it."""
        line = (sql, tuple(map(_storable, row)))
        with self._lock:  # as in `close`: what is queued before it is written, and nothing is after it
            closed = self._closed
            room = not closed and len(self._queue) < _MOST_QUEUED
            if room:
                if self._thread is None:  # first, so that nothing is queued where no thread can be had
                    thread = threading.Thread(target=self._run, name="jazz-select-outcomes", daemon=True)
                    thread.start()
                    self._thread = thread
                self._put += 1
                self._queue.append(line)
        if not room:
            self.lost(1, "the log is closed" if closed else f"{_MOST_QUEUED} lines wait to be written")
            return False
        if not self._wake.is_set():
            self._wake.set()
        return True

    def lost(self, lines: int, why: str) -> None:
        """Count what is not kept, and say so, once until something is written again."""
        with self._counting:
            self.dropped += lines
            told, self._told = self._told, True
        if not told:
            with suppress(Exception):  # a handler of the program's own may fail, and this must not
                _log.warning("path=<%s> | outcomes are not kept: %s", as_text(self._path), why)

    def flush(self, timeout_s: float) -> bool:
        """Wait until what was queued is written or lost; False where that took longer."""
        target = self._put
        with self._written:
            if self._done < target:
                self._hurry.set()
                self._wake.set()
            return self._written.wait_for(lambda: self._done >= target, timeout_s)

    def close(self) -> None:
        """Write what is left, and end the thread; what is put afterwards is refused."""
        with self._lock:
            self._closed = True
        self._hurry.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(BUSY_S * _RETRIES)

    def _run(self) -> None:
        database: sqlite3.Connection | None = None
        while True:
            self._wake.wait()
            self._hurry.wait(_GATHER_S)
            self._wake.clear()
            self._hurry.clear()
            if batch := [self._queue.popleft() for _ in range(len(self._queue))]:
                try:
                    database = self._write(database, batch)
                except Exception as error:  # noqa: BLE001 - the thread has to live: there is no other one
                    database = None
                    self.lost(len(batch), describe_error(error))
                finally:
                    with self._written:
                        self._done += len(batch)
                        self._written.notify_all()
            if self._closed:
                if self._queue:
                    self._wake.set()
                    continue
                break
        if database is not None:
            database.close()

    def _write(
        self, database: sqlite3.Connection | None, batch: list[tuple[str, tuple[object, ...]]]
    ) -> sqlite3.Connection | None:
        """One transaction, tried again where the file is busy; the connection, unless it has to be made anew.

        A line that cannot be written is lost alone.
        """
        why = ""
        for attempt in range(_RETRIES):
            try:
                database = database or connected(self._path)
                wrong: list[str] = []
                with database:
                    database.execute("BEGIN IMMEDIATE")
                    for sql, row in batch:
                        try:
                            database.execute(sql, row)
                        except _LINE_ERRORS as error:
                            wrong.append(describe_error(error))
                    self._sweep(database, len(batch))
            except (sqlite3.Error, OSError, OutcomeLogError) as error:
                why = describe_error(error)
                if database is not None:
                    with suppress(sqlite3.Error):
                        database.close()
                database = None
                if attempt + 1 < _RETRIES:
                    threading.Event().wait(_GATHER_S)
            else:
                if wrong:
                    self.lost(len(wrong), wrong[0])
                else:
                    self._told = False
                return database
        self.lost(len(batch), why)
        return None

    def _sweep(self, database: sqlite3.Connection, lines: int) -> None:
        """Let go of what is too old or too much, now and then."""
        self._unswept += lines
        if self._unswept < _SWEEP_EVERY:
            return
        self._unswept = 0
        now, gone = time(), 0
        if self._keep_s is not None:
            gone += database.execute("DELETE FROM entries WHERE at < ?", (now - self._keep_s,)).rowcount
        if self._max_entries is not None:
            too_many = "DELETE FROM entries WHERE n <= (SELECT max(n) FROM entries) - ?"
            gone += database.execute(too_many, (self._max_entries,)).rowcount
        if gone:  # what another process has just said may be of an entry that is still on its way
            old = "DELETE FROM feedback WHERE at < ? AND entry NOT IN (SELECT id FROM entries)"
            database.execute(old, (now - _GRACE_S,))
            database.execute("PRAGMA incremental_vacuum").fetchall()


def _storable(value: object) -> object:
    """A value as a column of SQLite can hold it."""
    if value is None or isinstance(value, float):
        return value if value is None or isfinite(value) else None
    if isinstance(value, int):
        return max(-_WIDEST, min(_WIDEST, int(value)))
    return as_text(value)


_WRITERS: "weakref.WeakSet[Writer]" = weakref.WeakSet()


def _after_fork() -> None:
    """What the parent queued is the parent's to write, and its thread is not here."""
    for writer in _WRITERS:
        writer.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
