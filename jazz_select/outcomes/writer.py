"""The queue of a log of outcomes, and the thread that writes it: a failure of the store never reaches a selection."""

import logging
import os
import secrets
import threading
import weakref
from collections import Counter
from contextlib import suppress
from math import isfinite
from queue import SimpleQueue
from time import monotonic
from typing import Final

from jazz_select.errors import DatabaseUnavailableError
from jazz_select.outcomes.store import LineKind, LogLine, LogStore, Retention
from jazz_select.text import as_text, describe_error

_log = logging.getLogger(__name__)
_MOST_QUEUED: Final = 20_000
_GATHER_S, _RETRIES = 0.2, 3
_AWAY_S: Final = 0.5
"""Between two attempts to write to a server that is away."""
_SWEEP_EVERY: Final = 1_000
_HOUR_S: Final = 3_600.0
_CLOSING_S: Final = 15.0
_LINE_BYTES: Final = 100
"""What a row takes beside its texts."""
_WIDEST: Final = (1 << 63) - 1


class LogWriter:
    """The queue of rows and the thread that writes them. It holds no reference to the log, so the log can be freed."""

    def __init__(self, store: LogStore, retention: Retention, hourly_bytes: int | None = None) -> None:
        self._store = store
        self._retention = retention
        self._hourly_bytes = hourly_bytes
        self.dropped = 0
        self._closed = False
        self.reset()
        _WRITERS.add(self)

    def reset(self) -> None:
        """Set up empty state; also run in a forked process."""
        self._store.reset()
        self._queue: SimpleQueue[LogLine | threading.Event | None] = SimpleQueue()
        self._hurry, self._lock, self._counting = threading.Event(), threading.Lock(), threading.Lock()
        self._thread: threading.Thread | None = None
        self._unswept, self._warned = _SWEEP_EVERY, False
        self._hour = 0.0
        self._written: Counter[str] = Counter()

    @staticmethod
    def new_id() -> str:
        """Return a random id of 128 bits: it is unique among all processes, and says nothing about other ids."""
        return secrets.token_hex(16)

    def put(self, kind: LineKind, row: tuple[object, ...]) -> bool:
        """Queue a row; return False where the queue is full or closed."""
        line = LogLine(kind, tuple(map(_storable, row)))
        key = str(line.values[-1])
        if self.seconds_until_room(key):
            self.lost(1, f"key {key!r} has written its {self._hourly_bytes} bytes of this hour")
            return False
        if self._hourly_bytes is not None:
            length = sum(len(each) for each in line.values if isinstance(each, str))
            with self._counting:
                self._written[key] += _LINE_BYTES + length
        why_lost = ""
        with self._lock:  # shared with `close`: rows queued before it are written, and none is queued after
            if self._closed:
                why_lost = "the log is closed"
            elif self._queue.qsize() >= _MOST_QUEUED:
                why_lost = f"{_MOST_QUEUED} lines wait to be written"
            else:
                if self._thread is None:  # before queuing: a thread may be unavailable
                    thread = threading.Thread(target=self._run, name="jazz-select-outcomes", daemon=True)
                    thread.start()
                    self._thread = thread
                self._queue.put(line)
        if why_lost:  # counted outside of the lock, since a logging handler may take its time
            self.lost(1, why_lost)
        return not why_lost

    def lost(self, lines: int, why: str) -> None:
        """Count lost rows, and warn once until a row is written again."""
        with self._counting:
            self.dropped += lines
            warned, self._warned = self._warned, True
        if not warned:
            with suppress(Exception):  # a logging handler may raise
                _log.warning("path=<%s> | outcomes are not kept: %s", as_text(self._store.name), why)

    def seconds_until_room(self, key: str) -> float:
        """Return how long a key has to wait until it may write again; 0 if it may now."""
        if self._hourly_bytes is None:
            return 0.0
        now = monotonic()
        with self._counting:
            if now - self._hour >= _HOUR_S:
                self._hour = now
                self._written.clear()
            if self._written[key] < self._hourly_bytes:
                return 0.0
            return self._hour + _HOUR_S - now

    def flush(self, timeout_s: float) -> bool:
        """Wait until every queued row is written or lost; return False after `timeout_s`."""
        written = threading.Event()
        with self._lock:
            if self._thread is None:
                return True
            if not self._closed:
                self._queue.put(written)
        if self._closed:
            self._thread.join(timeout_s)
            return not self._thread.is_alive()
        self._hurry.set()
        return written.wait(timeout_s)

    def close(self) -> None:
        """Write what is queued, and end the thread. Later rows are refused."""
        with self._lock:
            self._closed = True
            self._queue.put(None)
        self._hurry.set()
        if self._thread is not None:
            self._thread.join(_CLOSING_S)

    def _run(self) -> None:
        items: list[LogLine | threading.Event | None] = []
        while None not in items:
            items = [self._queue.get()]
            self._hurry.wait(_GATHER_S)  # rows that come meanwhile go into the same transaction
            self._hurry.clear()
            items += [self._queue.get() for _ in range(self._queue.qsize())]
            batch = [each for each in items if isinstance(each, LogLine)]
            try:
                if batch:
                    self._write(batch)
            except Exception as error:  # noqa: BLE001 - the thread has to live: there is no other one
                self.lost(len(batch), describe_error(error))
            for each in items:
                if isinstance(each, threading.Event):
                    each.set()
        self._store.close()

    def _write(self, batch: list[LogLine]) -> None:
        """Write a batch in one transaction, with retries; a row that cannot be written is lost alone."""
        self._unswept += len(batch)
        is_due = self._unswept >= _SWEEP_EVERY
        failures = 0
        while True:
            try:
                wrong = self._store.write(batch, self._retention if is_due else None)
            except DatabaseUnavailableError as error:
                # A server comes back, and what it is to be told waits for it: the queue has a bound of its own.
                if self._closed:
                    return self.lost(len(batch), str(error))
                threading.Event().wait(_AWAY_S)
            except Exception as error:  # noqa: BLE001 - whatever a store fails with
                failures += 1
                if failures == _RETRIES:
                    return self.lost(len(batch), describe_error(error))
                threading.Event().wait(_GATHER_S)
            else:
                break
        if is_due:
            self._unswept = 0
        if wrong:
            return self.lost(len(wrong), wrong[0])
        self._warned = False
        return None


def _storable(value: object) -> object:
    if value is None:
        return None
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, int):  # SQLite's integers have 64 bits
        return max(-_WIDEST, min(_WIDEST, int(value)))
    return as_text(value)


_WRITERS: "weakref.WeakSet[LogWriter]" = weakref.WeakSet()


if hasattr(os, "register_at_fork"):  # the parent writes its own queue, and its thread is not in the child
    os.register_at_fork(after_in_child=lambda: [writer.reset() for writer in _WRITERS])
