"""Claims of calls: of all that would make one call, one does. In an SQLite file, or within one object."""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from threading import Lock
from time import time
from typing import Any, Final, cast

from jazz_select.errors import ConfigError
from jazz_select.text import describe_error
from jazz_select.threads import in_thread
from jazz_select.values import Claim

_BUSY_S: Final = 10.0
"""Seconds to wait while another process writes."""
_TIMES_UNSETTLED: Final = 10
"""How many times as many claims are kept while none of them has an outcome."""
_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS claims (call_id TEXT PRIMARY KEY, fingerprint TEXT NOT NULL,"
    " claimed_at REAL NOT NULL, outcome TEXT) WITHOUT ROWID"
)


class SqliteClaims:
    """A `ClaimStore` in one file, for the processes of one machine, without a server.

    Each claim is on disk before it is answered: it survives a killed process, and a power failure as far as the disk is
    reliable. The file contains tool results: protect it like conversations. Network file systems do not lock reliably.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        """Open the file, or make it.

        Raises:
            ConfigError: It cannot be used.
        """
        self._path = Path(path)
        try:
            with self._open_transaction() as database:
                database.execute(_TABLE)
                database.execute("SELECT call_id, fingerprint, claimed_at, outcome FROM claims LIMIT 0")
        except sqlite3.Error as error:
            raise ConfigError(
                f"claims cannot be kept in {self._path}: {describe_error(error)}; "
                "name a file that is a database of claims or not there yet, in a folder that can be written"
            ) from error

    async def claim(self, call_id: str, fingerprint: str) -> Claim | None:
        """Claim a call before it is made: None where nobody has before.

        Raises:
            sqlite3.Error: The file could not be written; the call must not be made.
        """
        return await in_thread(self._claim, call_id, fingerprint)

    async def settle(self, call_id: str, outcome: str) -> None:
        """Store the outcome of a claimed call; the first outcome stays.

        Raises:
            sqlite3.Error: The file could not be written.
        """
        await in_thread(self._settle, call_id, outcome)

    async def forget(self, older_than_s: float) -> int:
        """Delete claims older than this many seconds and return their number.

        A conversation that was saved before may repeat its calls: keep claims as long as conversations.
        """
        return await in_thread(self._forget, time() - older_than_s)

    def _claim(self, call_id: str, fingerprint: str) -> Claim | None:
        with self._open_transaction() as database:
            made = database.execute(
                "INSERT INTO claims (call_id, fingerprint, claimed_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                (call_id, fingerprint, time()),
            )
            if made.rowcount:
                return None
            found = database.execute("SELECT fingerprint, outcome FROM claims WHERE call_id = ?", (call_id,)).fetchone()
        kept, outcome = cast("tuple[str, str | None]", found)
        return Claim(fingerprint=kept, outcome=outcome)

    def _settle(self, call_id: str, outcome: str) -> None:
        with self._open_transaction() as database:
            database.execute("UPDATE claims SET outcome = ? WHERE call_id = ? AND outcome IS NULL", (outcome, call_id))

    def _forget(self, before: float) -> int:
        with self._open_transaction() as database:
            return database.execute("DELETE FROM claims WHERE claimed_at < ?", (before,)).rowcount

    @contextmanager
    def _open_transaction(self) -> Generator[Any]:
        """Open a transaction on a new connection: threads and forked processes must not share one."""
        database = sqlite3.connect(self._path, timeout=_BUSY_S, isolation_level=None)
        try:
            database.execute("PRAGMA synchronous = FULL")  # a claim must survive a power failure
            database.execute("BEGIN IMMEDIATE")  # two processes that read first could both find nothing
            yield database
            database.execute("COMMIT")
        finally:
            database.close()


class RecentClaims:
    """A `ClaimStore` in memory, the default: it holds the most recent calls of this process.

    Calls without a known outcome are kept longer: they may have been made.
    """

    def __init__(self, most: int = 1_000, *, most_letters: int = 20_000_000) -> None:
        """Begin without claims, and keep so many at most, and so much of what tools returned: the oldest goes first.

        Those without an outcome stay until there are ten times as many.
        """
        self._most, self._most_letters = most, most_letters
        self._known: dict[str, Claim] = {}
        self._letters = 0
        self._lock = Lock()  # an object may be used on several loops

    async def claim(self, call_id: str, fingerprint: str) -> Claim | None:
        """Claim a call; return None to the first caller, and the earlier claim to every other."""
        with self._lock:
            known = self._known.get(call_id)
            if known is None:
                self._known[call_id] = Claim(fingerprint=fingerprint)
                self._drop()
        return known

    async def settle(self, call_id: str, outcome: str) -> None:
        """Record the outcome of a call, unless it has one already."""
        with self._lock:
            known = self._known.get(call_id)
            if known is not None and known.outcome is None:
                self._known[call_id] = replace(known, outcome=outcome)
                self._letters += len(outcome)
                self._drop()

    def _drop(self) -> None:
        while len(self._known) > self._most or self._letters > self._most_letters:
            oldest = next((known for known, claim in self._known.items() if claim.outcome is not None), None)
            if oldest is None:
                if len(self._known) <= _TIMES_UNSETTLED * self._most:
                    return
                oldest = next(iter(self._known))
            self._letters -= len(self._known.pop(oldest).outcome or "")
