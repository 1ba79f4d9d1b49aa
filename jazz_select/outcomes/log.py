"""`OutcomeLog`: a SQLite file of selections, and of corrections that say which flows were right.

Several processes may write and read it at once. A selection only queues a row, so a failure of the file, such as a
full disk, never reaches the selection. Rows are only added: a correction is a row of its own, joined on reading.
"""

import logging
import os
import secrets
import sqlite3
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, fields
from math import isfinite
from pathlib import Path
from queue import SimpleQueue
from time import monotonic, time
from typing import Annotated, Any, Final, Self, cast, get_args

import orjson

from jazz_select.arguments import Constraint, Positive, checked
from jazz_select.errors import ConfigError, OutcomeLogError, OutcomeQuotaError
from jazz_select.outcomes.callers import current_caller, current_conversation
from jazz_select.serialization import JsonData
from jazz_select.sqlite_files import guard, limit_steps, wrong_schema
from jazz_select.stages import Move, MoveKind
from jazz_select.text import as_text, describe_error
from jazz_select.values import Decision, Reason, Source, SourceKind

BY_RECALL: Final = Source(kind="recall")


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged(JsonData):
    """A request, what was selected for it, and what was right. See `Decision` for `reason` and `tier`.

    Attributes:
        id: Unique, and not to be guessed: whoever knows it may correct the entry, with the key that made it.
        at: Seconds since 1970.
        agent_id: The agent whose flows were selected.
        request: The redacted text.
        alone: Whether the request opened the conversation, so that its text is all that was asked.
        chosen: Names of the chosen flows.
        candidates: Names of the first ten candidates, best first.
        confidences: P(right) of each candidate, "none" included; None where unknown.
        p_none: P(no flow is right); None where unknown.
        asked: Whether a chat model or a decision model was asked.
        sure: Whether recall was sure enough to decide alone, by what a sync learned from a log. If a model was `asked`
            all the same, the entry is an audit.
        model: The model that answered.
        tokens_in: Tokens of its input.
        tokens_out: Tokens of its output.
        took_s: Duration of the selection, in seconds.
        chosen_by: Who chose; its `key` is the one whose request it was.
        right: Names of the right flows, by the correction that counts; None without one, and where it was taken back.
        corrected_by: Who made the correction, or took it back; None without one.
        note: Redacted note of the correction.
        corrected_at: When it was made, in seconds since 1970; None without one.
    """

    id: str
    at: float
    agent_id: str = ""
    request: str = ""
    alone: bool = True
    chosen: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    confidences: tuple[float | None, ...] = ()
    p_none: float | None = None
    reason: str = ""
    tier: str = ""
    asked: bool = False
    sure: bool = False
    model: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    took_s: float = 0.0
    chosen_by: Source = BY_RECALL
    right: tuple[str, ...] | None = None
    corrected_by: Source | None = None
    note: str = ""
    corrected_at: float | None = None

    @property
    def is_corrected_by_human(self) -> bool:
        """Whether there is a correction that counts, and it is a human's."""
        return self.right is not None and self.corrected_by is not None and self.corrected_by.is_human

    @property
    def is_taken_back(self) -> bool:
        """Whether what was said of it was taken back, by the source whose word counts."""
        return self.right is None and self.corrected_by is not None

    @property
    def first(self) -> str:
        """The name of the first candidate; empty without candidates."""
        return self.candidates[0] if self.candidates else ""

    @property
    def confidence(self) -> float | None:
        """P(the first candidate is right), "none" included, where it is known."""
        return self.confidences[0] if self.confidences else None


def labels(entries: Iterable[Logged]) -> Iterator[tuple[Logged, str, float]]:
    """Yield (entry, flow name, probability): 1 where a person corrected it, else the confidence of the chosen flow.

    Leave out requests without text, those that are not `alone`, those for no flow or several, and choices of unknown
    confidence.
    """
    for entry in entries:
        if not entry.request or not entry.alone:
            continue
        if entry.right is not None and entry.is_corrected_by_human:
            if len(entry.right) == 1:
                yield entry, entry.right[0], 1.0
        elif entry.right is None and len(entry.chosen) == 1:
            known = dict(zip(entry.candidates, entry.confidences, strict=False))
            sure = known.get(entry.chosen[0])
            if sure is not None:
                yield entry, entry.chosen[0], sure


VERSION: Final = 5
BUSY_S: Final = 5.0
"""How long to wait for another process's lock, in seconds."""
_APPLICATION: Final = 0x4A5A4F4C
"""SQLite's application id in the file's header: it distinguishes a log from another program's database."""
_COLUMNS: Final = {
    "id": "TEXT NOT NULL UNIQUE",
    "at": "REAL NOT NULL",
    "agent": "TEXT NOT NULL",
    "request": "TEXT NOT NULL",
    "alone": "INTEGER NOT NULL",
    "chosen": "TEXT NOT NULL",
    "candidates": "TEXT NOT NULL",
    "confidences": "TEXT NOT NULL",
    "p_none": "REAL",
    "reason": "TEXT NOT NULL",
    "tier": "TEXT NOT NULL",
    "asked": "INTEGER NOT NULL",
    "sure": "INTEGER NOT NULL",
    "model": "TEXT NOT NULL",
    "tokens_in": "INTEGER NOT NULL",
    "tokens_out": "INTEGER NOT NULL",
    "took_s": "REAL NOT NULL",
    "source_kind": "TEXT NOT NULL",
    "source_name": "TEXT NOT NULL",
    "key": "TEXT NOT NULL",
}
"""Columns of an entry, in the order of the fields of `Logged`; the last three are its source."""
_KINDS: Final = {"TEXT": str, "REAL": (int, float), "INTEGER": int}
_NAMES: Final = ", ".join(_COLUMNS)
_OF_SOURCE: Final = 3
_FIELDS: Final = tuple(each.name for each in fields(Logged))[: len(_COLUMNS) - _OF_SOURCE]
_MOVES: Final = (
    "at REAL NOT NULL",
    "kind TEXT NOT NULL",
    "flow TEXT NOT NULL",
    "threshold REAL NOT NULL",
    "promise REAL NOT NULL",
    "measured REAL",
    "requests INTEGER NOT NULL",
    "why TEXT NOT NULL",
)
"""Columns of a move of a threshold, in the order of the fields of `Move`."""
_OF_MOVES: Final = tuple(each.split()[0] for each in _MOVES)
TABLES: Final = f"""
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
BEGIN IMMEDIATE;
CREATE TABLE entries (
    n INTEGER PRIMARY KEY, {", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())}
);
CREATE INDEX entries_at ON entries (at);
CREATE INDEX entries_sure ON entries (agent, n) WHERE sure;
CREATE TABLE moves (
    n INTEGER PRIMARY KEY, agent TEXT NOT NULL, after INTEGER NOT NULL, {", ".join(_MOVES)}
);
CREATE TABLE feedback (
    n INTEGER PRIMARY KEY, entry TEXT NOT NULL, at REAL NOT NULL, "right" TEXT NOT NULL, note TEXT NOT NULL,
    source_kind TEXT NOT NULL, source_name TEXT NOT NULL, key TEXT NOT NULL
);
CREATE UNIQUE INDEX feedback_source ON feedback (
    entry, source_kind, key, CASE source_kind WHEN 'person' THEN source_name ELSE '' END
);
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {VERSION};
COMMIT;
"""
_OF_FEEDBACK: Final = ("entry", "at", "right", "note", "source_kind", "source_name", "key")
_STORED: Final = {
    "entries": (*_COLUMNS, "n"),
    "feedback": ("n", *_OF_FEEDBACK),
    "moves": ("n", "agent", "after", *_OF_MOVES),
}
ENTRY: Final = f"INSERT INTO entries ({_NAMES}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608 - names of ours
FEEDBACK: Final = """
INSERT OR REPLACE INTO feedback (entry, at, "right", note, source_kind, source_name, key)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 WHERE NOT EXISTS (
    SELECT 1 FROM feedback
    WHERE n = (SELECT max(n) FROM feedback WHERE entry = ?1)
        AND "right" = ?3 AND note = ?4 AND source_kind = ?5 AND source_name = ?6 AND key = ?7
)
"""
"""Of each source the last word about an entry is kept, so that the log does not grow by repetitions; the same word
again changes nothing."""
READ: Final = f"SELECT {_NAMES} FROM entries"  # noqa: S608 - likewise
_MOVE: Final = (
    f"INSERT INTO moves (agent, after, {', '.join(_OF_MOVES)}) "  # noqa: S608 - likewise
    f"SELECT ?1, coalesce((SELECT max(n) FROM entries), 0), {', '.join(f'?{place}' for place in range(3, 11))} "
    "WHERE ?2 IS NULL OR ?2 = (SELECT count(*) FROM moves WHERE agent = ?1 AND flow IN ('', ?5))"
)
"""A move that follows from others is written only if there are as many as it was told of: two processes that measure
at once would move a threshold twice, or the later one by what was true before the other's move."""
_SURE: Final = """
SELECT n, id, json_extract(candidates, '$[0]'), json_extract(confidences, '$[0]'), chosen, asked, source_kind
FROM entries WHERE agent = ? AND sure ORDER BY n DESC LIMIT ?
"""
_NEARLY_SURE: Final = """
SELECT n, id, json_extract(candidates, '$[0]'), json_extract(confidences, '$[0]'), chosen, asked, source_kind
FROM entries WHERE n > (SELECT max(n) FROM entries) - ? AND agent = ? AND asked AND alone AND NOT sure
    AND json_extract(confidences, '$[0]') >= ? ORDER BY n DESC
"""


def log_path(path: object) -> Path:
    """Return the path of a log's file; raise ConfigError for anything else, such as SQLite's database in memory."""
    if isinstance(path, str | os.PathLike):
        text: object = os.fspath(cast("str | os.PathLike[Any]", path))
        if isinstance(text, str) and text not in {"", ":memory:"} and "\0" not in text and as_text(text) == text:
            return Path(text)
    raise ConfigError(f"a log of outcomes is a file: name one, such as outcomes.db, not {path!r:.80}")


def made(path: Path) -> None:
    """Create the file if it is missing; raise OutcomeLogError if it cannot be used or is no log of this version."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=BUSY_S)) as database:
            guard(database)
            if _is_empty(database):
                try:
                    database.executescript(TABLES)
                except sqlite3.OperationalError:
                    if _is_empty(database):  # else another process created the tables first
                        raise
            _check(path, database)
    except (sqlite3.Error, OSError) as error:
        raise unusable(path, error) from error


def _is_empty(database: sqlite3.Connection) -> bool:
    return not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]


def _check(path: Path, database: sqlite3.Connection) -> None:
    application, version = (
        database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    if application != _APPLICATION:
        raise OutcomeLogError(
            str(path), "it is a database of something else", advice="Name another file, or one that is not there yet"
        )
    if version != VERSION:
        problem = f"it is of version {version}, and this jazz-select reads version {VERSION}"
        advice = "Move it away, and a new one is begun; or use the version of jazz-select that wrote it"
        raise OutcomeLogError(str(path), problem, advice=advice)
    if problem := wrong_schema(database, _STORED):
        advice = "Somebody changed this file: name another one, or copy its rows into a new log"
        raise OutcomeLogError(str(path), problem, advice=advice)


def _connected(path: Path, target: str, **options: Any) -> sqlite3.Connection:
    database = sqlite3.connect(target, timeout=BUSY_S, check_same_thread=False, **options)
    try:
        guard(database)
        _check(path, database)
    except BaseException:
        database.close()
        raise
    return database


def writing(path: Path) -> sqlite3.Connection:
    """Open a connection for writing."""
    if not path.exists():
        made(path)  # the file was moved away: begin a new one
    database = _connected(path, str(path), isolation_level=None)
    database.execute("PRAGMA synchronous = NORMAL")
    return database


@contextmanager
def reading(path: Path) -> Generator[sqlite3.Connection]:
    """Open a read-only connection, also on a read-only disk; raise OutcomeLogError for a file that cannot be read."""
    where = path.absolute().as_uri()
    try:
        try:
            database = _connected(path, f"{where}?mode=ro", uri=True)
        except sqlite3.Error:
            database = _connected(path, f"{where}?immutable=1", uri=True)
        with closing(database):
            limit_steps(database, path, path.with_name(f"{path.name}-wal"))
            yield database
    except (sqlite3.Error, ValueError, TypeError) as error:
        raise unusable(path, error) from error


def unusable(path: Path, error: Exception) -> OutcomeLogError:
    """Return the error for a file that cannot be created, opened or read."""
    if isinstance(error, sqlite3.OperationalError) and str(error) == "interrupted":
        error = ValueError("it takes more steps to read than a log of its size can need")
    damaged = isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError)
    advice = (
        "It was left as it is: move it away, and a new one is begun (sqlite3 FILE .recover saves what can be)"
        if damaged or isinstance(error, ValueError | TypeError)
        else "Name a file in a folder that can be written"
    )
    return OutcomeLogError(str(path), describe_error(error), advice=advice)


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback(JsonData):
    """What one source said about an entry: names of the right flows (None: it took that back), and a redacted note."""

    at: float
    source: Source
    right: tuple[str, ...] | None = None
    note: str = ""


def feedback_in(database: sqlite3.Connection, entries: Sequence[str]) -> dict[str, list[Feedback]]:
    """Return what was said about these entries, by entry, the oldest first."""
    found: dict[str, list[Feedback]] = {}
    marks = ", ".join("?" * len(entries))
    columns = 'entry, at, "right", note, source_kind, source_name, key'
    rows = database.execute(f"SELECT {columns} FROM feedback WHERE entry IN ({marks}) ORDER BY n", entries)  # noqa: S608 - our own text
    for entry, at, right, note, *source in rows:
        if not isinstance(at, float) or not isinstance(note, str):
            raise ValueError("a row of feedback has values of other kinds than its columns")  # noqa: TRY004 - it is data
        names = None if right == _TAKEN_BACK else _listed(right, str)
        said = Feedback(at=at, right=names, source=_source(*source), note=note)
        found.setdefault(entry, []).append(said)
    return found


_TAKEN_BACK: Final = "null"
"""In the place of names: this source takes back what it, or one that weighs less, said."""


def correction_of(said: Sequence[Feedback]) -> Feedback | None:
    """Return the feedback that counts: the last one of the source that weighs most."""
    return max(reversed(said), key=lambda each: each.source.weight, default=None)


def _source(kind: object, name: object, key: object) -> Source:
    if kind not in get_args(SourceKind):
        raise ValueError(f"{kind!r:.80} is no kind of source")
    return Source(kind=cast("SourceKind", kind), name=str(name), key=str(key))


def _check_row(row: tuple[Any, ...]) -> None:
    """Raise ValueError unless the values are of the kinds of their columns, which SQLite does not see to."""
    for (name, declared), value in zip(_COLUMNS.items(), row, strict=True):
        kind, *constraints = declared.split()
        if not isinstance(value, _KINDS[kind]) and not (value is None and not constraints):
            raise ValueError(f"{name} of an entry is {type(value).__name__}, not {kind}")


def _listed(text: object, kind: Any) -> tuple[Any, ...]:
    """Read a list in JSON; raise ValueError unless all in it are of a kind."""
    found = orjson.loads(cast("str", text))
    if not isinstance(found, list) or not all(isinstance(each, kind) for each in cast("list[object]", found)):
        raise ValueError(f"a list of an entry holds something else: {found!r:.80}")
    return tuple(cast("list[Any]", found))


def chosen_in(database: sqlite3.Connection, agent_id: str, since: float) -> Counter[str]:
    """Count how often each flow was chosen since a time. SQLite counts: a log may have a million entries."""
    each = "SELECT value, count(*) FROM entries, json_each(chosen) WHERE agent = ? AND at >= ? GROUP BY value"
    return Counter(dict(database.execute(each, (agent_id, since))))


def logged(row: tuple[Any, ...], said: Sequence[Feedback] = ()) -> Logged:
    """Build an entry from a row of `READ` and what was said about it."""
    _check_row(row)
    values = dict(zip(_FIELDS, row, strict=False))
    values |= {name: _listed(values[name], str) for name in ("chosen", "candidates")}
    values["confidences"] = _listed(values["confidences"], int | float | None)
    values |= {name: bool(values[name]) for name in ("alone", "asked", "sure")}
    values["chosen_by"] = _source(*row[-_OF_SOURCE:])
    correction = correction_of(said)
    if correction is not None:
        values |= {"right": correction.right, "corrected_by": correction.source, "note": correction.note}
        values["corrected_at"] = correction.at
    return Logged(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallAnswer:
    """An entry in which recall had a flow first, and what became of it.

    Attributes:
        n: Its place in the log.
        flow: The name of the flow that recall had first.
        confidence: P(it is right).
        sure: Whether recall was sure enough to decide alone.
        asked: Whether a model was asked.
        differs: Whether a person, or else the model that was asked, said that something else is right; None if nobody
            said anything. Where recall was not sure, further flows beside this one are no difference.
    """

    n: int
    flow: str
    confidence: float
    sure: bool = True
    asked: bool
    differs: bool | None


def _recall_answer(row: tuple[Any, ...], said: Sequence[Feedback], *, sure: bool) -> RecallAnswer:
    n, _, flow, confidence, chosen, asked, kind = row
    if type(n) is not int or not isinstance(flow, str) or not isinstance(confidence, int | float):
        raise ValueError("an entry in which recall was sure has no first candidate")
    correction = correction_of(said)
    right: Sequence[str] | None = None
    if correction is not None and correction.source.kind == "person" and correction.right is not None:
        right = correction.right
    elif asked and kind == "model":
        right = _listed(chosen, str)
    differs: bool | None = None
    if right is not None:
        differs = tuple(right) != (flow,) if sure else flow not in right
    return RecallAnswer(n=n, flow=flow, confidence=float(confidence), sure=sure, asked=bool(asked), differs=differs)


def _move(row: tuple[Any, ...]) -> Move:
    at, kind, flow, threshold, promise, measured, requests, why, after = row
    numbers = (at, threshold, promise, 0.0 if measured is None else measured)
    is_read = all(isinstance(each, int | float) for each in numbers) and type(after) is type(requests) is int
    if not is_read or kind not in get_args(MoveKind):
        raise ValueError("a row of moves has values of other kinds than its columns")
    return Move(
        at=at,
        kind=kind,
        flow=str(flow),
        threshold=threshold,
        promise=promise,
        measured=measured,
        requests=requests,
        why=str(why),
        after=after,
    )


_log = logging.getLogger(__name__)

_Line = tuple[str, tuple[object, ...]]
"""A statement and its values."""
_MOST_QUEUED: Final = 20_000
_GATHER_S, _RETRIES = 0.2, 3
_SWEEP_EVERY: Final = 1_000
_DAY_S, _GRACE_S, _HOUR_S = 86_400.0, 3_600.0, 3_600.0
_LINE_BYTES: Final = 100
"""What a row takes beside its texts."""
_WIDEST: Final = (1 << 63) - 1
_LINE_ERRORS: Final = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    ValueError,
    TypeError,
    OverflowError,
)
"""Errors of one row: SQLite rolls back that row alone, and the batch goes on."""


class LogWriter:
    """The queue of rows and the thread that writes them. It holds no reference to the log, so the log can be freed."""

    def __init__(
        self, path: Path, keep_days: float | None, max_entries: int | None, hourly_bytes: int | None = None
    ) -> None:
        self._path = path
        self._hourly_bytes = hourly_bytes
        self._keep_s = None if keep_days is None else keep_days * _DAY_S
        self._max_entries = max_entries
        self.dropped = 0
        self._closed = False
        self.reset()
        _WRITERS.add(self)

    def reset(self) -> None:
        """Set up empty state; also run in a forked process."""
        self._queue: SimpleQueue[_Line | threading.Event | None] = SimpleQueue()
        self._hurry, self._lock, self._counting = threading.Event(), threading.Lock(), threading.Lock()
        self._thread: threading.Thread | None = None
        self._unswept, self._warned = _SWEEP_EVERY, False
        self._hour = 0.0
        self._written: Counter[str] = Counter()

    @staticmethod
    def new_id() -> str:
        """Return a random id of 128 bits: it is unique among all processes, and says nothing about other ids."""
        return secrets.token_hex(16)

    def put(self, sql: str, row: tuple[object, ...]) -> bool:
        """Queue a row; return False where the queue is full or closed."""
        line = (sql, tuple(map(_storable, row)))
        key = str(line[1][-1])
        if self.seconds_until_room(key):
            self.lost(1, f"key {key!r} has written its {self._hourly_bytes} bytes of this hour")
            return False
        if self._hourly_bytes is not None:
            with self._counting:
                self._written[key] += _LINE_BYTES + sum(len(each) for each in line[1] if isinstance(each, str))
        with self._lock:  # shared with `close`: rows queued before it are written, and none is queued after
            closed = self._closed
            if room := not closed and self._queue.qsize() < _MOST_QUEUED:
                if self._thread is None:  # before queuing: a thread may be unavailable
                    thread = threading.Thread(target=self._run, name="jazz-select-outcomes", daemon=True)
                    thread.start()
                    self._thread = thread
                self._queue.put(line)
        if not room:
            self.lost(1, "the log is closed" if closed else f"{_MOST_QUEUED} lines wait to be written")
        return room

    def lost(self, lines: int, why: str) -> None:
        """Count lost rows, and warn once until a row is written again."""
        with self._counting:
            self.dropped += lines
            warned, self._warned = self._warned, True
        if not warned:
            with suppress(Exception):  # a logging handler may raise
                _log.warning("path=<%s> | outcomes are not kept: %s", as_text(self._path), why)

    def seconds_until_room(self, key: str) -> float:
        """Return how long a key has to wait until it may write again; 0 if it may now."""
        if self._hourly_bytes is None:
            return 0.0
        now = monotonic()
        with self._counting:
            if now - self._hour >= _HOUR_S:
                self._hour = now
                self._written.clear()
            return self._hour + _HOUR_S - now if self._written[key] >= self._hourly_bytes else 0.0

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
            self._thread.join(BUSY_S * _RETRIES)

    def _run(self) -> None:
        database: sqlite3.Connection | None = None
        taken: list[_Line | threading.Event | None] = []
        while None not in taken:
            taken = [self._queue.get()]
            self._hurry.wait(_GATHER_S)
            self._hurry.clear()
            taken += [self._queue.get() for _ in range(self._queue.qsize())]
            batch = [each for each in taken if isinstance(each, tuple)]
            try:
                database = self._write(database, batch) if batch else database
            except Exception as error:  # noqa: BLE001 - the thread has to live: there is no other one
                database = None
                self.lost(len(batch), describe_error(error))
            for each in taken:
                if isinstance(each, threading.Event):
                    each.set()
        if database is not None:
            database.close()

    def _write(self, database: sqlite3.Connection | None, batch: list[_Line]) -> sqlite3.Connection | None:
        """Write a batch in one transaction, with retries; return the connection, None where it must be reopened.

        A row that cannot be written is lost alone.
        """
        why = ""
        for attempt in range(_RETRIES):
            try:
                database = database or writing(self._path)
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
                    self._warned = False
                return database
        self.lost(len(batch), why)
        return None

    def _sweep(self, database: sqlite3.Connection, lines: int) -> None:
        """Delete entries that are too old or too many, once every `_SWEEP_EVERY` rows."""
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
        if gone:  # recent feedback may precede its entry, which another process has yet to write
            old = "DELETE FROM feedback WHERE at < ? AND entry NOT IN (SELECT id FROM entries)"
            database.execute(old, (now - _GRACE_S,))
            database.execute("PRAGMA incremental_vacuum").fetchall()


def _storable(value: object) -> object:
    if value is None or isinstance(value, float):
        return value if value is None or isfinite(value) else None
    if isinstance(value, int):
        return max(-_WIDEST, min(_WIDEST, int(value)))
    return as_text(value)


_WRITERS: "weakref.WeakSet[LogWriter]" = weakref.WeakSet()


if hasattr(os, "register_at_fork"):  # the parent writes its own queue, and its thread is not in the child
    os.register_at_fork(after_in_child=lambda: [writer.reset() for writer in _WRITERS])


LONGEST: Final = 8_000
"""Maximum length of a stored request or note, in characters."""
MOST_RIGHT: Final = 100
"""Maximum number of flows that a correction names."""
_MOST_CANDIDATES, _LONGEST_NAME = 10, 200
_READ_AT_ONCE: Final = 500
_CORRECTED, _UNCORRECTED = "id IN (SELECT entry FROM feedback)", "id NOT IN (SELECT entry FROM feedback)"
Redact = Callable[[str], str]
"""Returns what may be stored of a text. Where it raises, nothing is stored."""


class OutcomeLog:
    """A log of outcomes in a file; a context manager that writes what is queued when it ends.

    Rows are written within `0.2` seconds; a killed process loses only the rows of that time, and the file stays whole.
    The file holds what users said: store it where you store conversations.

    Attributes:
        path: Path of the file.
    """

    @checked
    def __init__(
        self,
        path: Annotated[str | os.PathLike[str], Constraint("a file: name one, such as outcomes.db")],
        *,
        keep_days: Annotated[float, Constraint("a number of days above 0", gt=0)] | None = 90,
        max_entries: Positive | None = 1_000_000,
        redact: Redact | None = None,
        hourly_bytes: Positive | None = None,
    ) -> None:
        """Open the file, or create it.

        Args:
            path: A file on a local disk (no network drive). SQLite keeps two files beside it while it is open.
            keep_days: Age at which entries are deleted, in days; None: never.
            max_entries: The number of entries to keep, the newest; None: all.
            redact: Applied to each request and note before it is queued.
            hourly_bytes: How much each key of a service may add within an hour; what is more is not kept. None: no
                limit.

        Raises:
            ConfigError: An argument is invalid.
            OutcomeLogError: The file is another program's, damaged, of another version, or cannot be written.
        """
        file = log_path(path)
        made(file)
        self._begin(file, redact, LogWriter(file, keep_days, max_entries, hourly_bytes))

    def _begin(self, path: Path, redact: Redact | None, writer: LogWriter) -> None:
        self.path = path
        self._redact = redact
        self._writer = writer
        self._end = weakref.finalize(self, self._writer.close)

    @classmethod
    def existing(cls, path: str | os.PathLike[str]) -> Self:
        """Open a log that exists, for reading; it may be on a read-only disk.

        Raises:
            ConfigError: The path names no file.
            OutcomeLogError: The file is missing or cannot be used.
        """
        file = log_path(path)
        if not file.is_file():
            raise OutcomeLogError(str(file), "it is not there", advice="FlowSelector(…, log=PATH) writes one")
        with reading(file):
            pass
        log = cls.__new__(cls)
        log._begin(file, None, LogWriter(file, None, None))  # noqa: SLF001 - one of this class
        return log

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def dropped(self) -> int:
        """How many rows were lost since this object was made."""
        return self._writer.dropped

    def record(  # noqa: PLR0913 - options with a name
        self,
        request: str,
        decision: Decision,
        *,
        agent_id: str = "",
        chosen: Sequence[str] = (),
        alone: bool = True,
        source: Source | None = None,
        sure: bool = False,
        entry: str = "",
    ) -> str:
        """Add what was selected for a request; return the entry's id. It never raises: "" where the entry is lost.

        Args:
            request: The text of the request.
            decision: What was decided.
            agent_id: The agent whose flows were selected from.
            chosen: Names of the chosen flows.
            alone: Whether the request opens the conversation.
            source: Who chose; by default as the decision says, in the current conversation, with the caller's key.
            sure: Whether recall was sure enough to decide alone.
            entry: The entry's id, from `new_id`; by default a new one.
        """
        try:
            source = source_of(decision) if source is None else source
            offered, usage = decision.candidates[:_MOST_CANDIDATES], decision.usage
            took_s = float(decision.latency.total_s)
            entry = entry or self.new_id()
            row = (
                entry,
                time(),
                as_text(agent_id),
                self._stored(request),
                alone,
                _names(chosen),
                _names([each.flow_name or each.flow_id for each in offered]),
                orjson.dumps([_rounded(each.confidence) for each in offered]).decode(),
                _rounded(decision.p_none),
                decision.reason.value,
                decision.tier.value,
                _asked(decision),
                sure,
                as_text(decision.model)[:_LONGEST_NAME],
                usage.input_tokens if usage else 0,
                usage.output_tokens if usage else 0,
                took_s if isfinite(took_s) else 0.0,
                *_columns_of(source),
            )
            return entry if self._writer.put(ENTRY, row) else ""
        except Exception as error:  # noqa: BLE001 - a log must not cost a selection
            self._writer.lost(1, describe_error(error))
            return ""

    def correct(self, entry: str, right: Sequence[str] | None, *, note: str = "", source: Source | None = None) -> None:
        """Add what was right for an entry, and wait until it is written.

        `FlowSelector.feedback` is the async form. Of each source the last correction counts; a reviewer's is never
        overridden by a user's, nor a user's by an agent's.

        Args:
            entry: The entry's id.
            right: Names of the right flows; empty where none fits. None takes back what was said: the entry has no
                correction then, until a source that weighs as much makes one.
            note: A remark.
            source: Who says it; by default a user, in the current conversation, with the caller's key.

        Raises:
            ConfigError: There are too many names.
            OutcomeQuotaError: Its key has written what it may in this hour.
            OutcomeLogError: It could not be written.
        """
        if right is not None and len(right) > MOST_RIGHT:
            raise ConfigError(f"right must have at most {MOST_RIGHT} names of flows, got {len(right)}")
        source = said_by("user") if source is None else source
        if wait_s := self._writer.seconds_until_room(source.key):
            raise OutcomeQuotaError(str(self.path), source.key, retry_after=wait_s)
        before = self.dropped
        self.hint(entry, right, note=note, source=source)
        if not self.flush() or self.dropped > before:
            advice = "see the log of the program for the cause, then say it again"
            raise OutcomeLogError(str(self.path), "the correction could not be written", advice=advice)

    def hint(self, entry: str, right: Sequence[str] | None, *, note: str = "", source: Source | None = None) -> None:
        """Like `correct`, without waiting or raising: for what an agent infers, which is also the default source."""
        if not is_id(entry):
            self._writer.lost(1, f"{as_text(entry)[:_LONGEST_NAME]!r} is no entry's id")
            return
        try:
            source = said_by("agent") if source is None else source
            names = _TAKEN_BACK if right is None else _names(right[:MOST_RIGHT])
            row = (entry, time(), names, self._stored(note), *_columns_of(source))
            self._writer.put(FEEDBACK, row)
        except Exception as error:  # noqa: BLE001 - likewise
            self._writer.lost(1, describe_error(error))

    def flush(self, timeout_s: float = 10.0) -> bool:
        """Wait until everything recorded is written or lost; return False after `timeout_s`."""
        return self._writer.flush(timeout_s)

    def close(self) -> None:
        """Write what is queued. Later rows are lost; a second call does nothing."""
        self._end()

    @staticmethod
    def new_id() -> str:
        """Return an id for an entry that is recorded later."""
        return LogWriter.new_id()

    def keep_move(self, agent_id: str, move: Move, *, following: Sequence[Move] | None = None) -> None:
        """Add a move of a threshold, after all entries so far. It never raises.

        Args:
            agent_id: The agent.
            move: The move.
            following: All moves of the agent that it follows from: nothing is added if there are others of its flow, or
                of all flows, by the time that it is written. None: it is added whatever is there.
        """
        values = [getattr(move, each.name) for each in fields(Move)]
        known = None if following is None else sum(each.flow in {"", move.flow} for each in following)
        self._writer.put(_MOVE, (as_text(agent_id), known, *values[: len(_OF_MOVES)]))

    def moves(self, agent_id: str) -> tuple[Move, ...]:
        """Return all moves of an agent's thresholds, the oldest first.

        Raises:
            OutcomeLogError: The file cannot be read.
        """
        self.flush()
        names = ", ".join((*_OF_MOVES, "after"))
        with reading(self.path) as database:
            rows = database.execute(f"SELECT {names} FROM moves WHERE agent = ? ORDER BY n", (agent_id,))  # noqa: S608 - our own text
            return tuple(_move(row) for row in rows)

    def recall_answers(self, agent_id: str, *, last: int, least: float, among: int) -> tuple[RecallAnswer, ...]:
        """Return what became of recall's answers, the oldest first.

        Args:
            agent_id: The agent.
            last: How many of the entries in which recall was sure, the newest.
            least: The least confidence of other entries: those that begin a conversation, and of which a model was
                asked.
            among: The number of the log's newest entries that these others are looked for in.

        Raises:
            OutcomeLogError: The file cannot be read.
        """
        self.flush()
        with reading(self.path) as database:
            sure = database.execute(_SURE, (agent_id, last)).fetchall()
            others = database.execute(_NEARLY_SURE, (among, agent_id, least)).fetchall()
            persons = "SELECT entry FROM feedback WHERE source_kind = 'person'"
            spoken_of = {entry for (entry,) in database.execute(persons)}
            said = feedback_in(database, [row[1] for row in (*sure, *others) if row[1] in spoken_of])
            answers = [_recall_answer(row, said.get(row[1], ()), sure=True) for row in sure]
            answers += [_recall_answer(row, said.get(row[1], ()), sure=False) for row in others]
        return tuple(sorted(answers, key=lambda each: each.n))

    def has(self, entry: str) -> bool:
        """Whether there is an entry of this id.

        Raises:
            OutcomeLogError: The file cannot be read.
        """
        return self.get(entry) is not None

    def get(self, entry: str) -> Logged | None:
        """Return the entry of this id, or None.

        Raises:
            OutcomeLogError: The file cannot be read.
        """
        if not is_id(entry):
            return None
        self.flush()
        with reading(self.path) as database:
            row = database.execute(f"{READ} WHERE id = ?", (entry,)).fetchone()
            return None if row is None else logged(row, feedback_in(database, [entry]).get(entry, ()))

    def feedback(self, entry: str) -> tuple[Feedback, ...]:
        """Return all that was said about an entry, the oldest first: the last word of each source.

        Raises:
            OutcomeLogError: The file cannot be read.
        """
        if not is_id(entry):
            return ()
        self.flush()
        with reading(self.path) as database:
            return tuple(feedback_in(database, [entry]).get(entry, ()))

    def agents(self, *, corrected: bool = False) -> dict[str, int]:
        """Return the number of entries of each agent, or of those with a correction.

        Raises:
            OutcomeLogError: The file cannot be read.
        """
        self.flush()
        where = f" WHERE {_CORRECTED}" if corrected else ""
        with reading(self.path) as database:
            return dict(database.execute(f"SELECT agent, COUNT(*) FROM entries{where} GROUP BY agent").fetchall())  # noqa: S608 - our own text

    def count(self, *, agent_id: str, since: float | None = None) -> Counter[tuple[str, bool]]:
        """Return the number of an agent's entries by reason, and by whether a model was asked.

        Args:
            agent_id: The agent.
            since: The earliest time, in seconds since 1970.

        Raises:
            OutcomeLogError: The file cannot be read.
        """
        self.flush()
        each = "SELECT reason, asked, COUNT(*) FROM entries WHERE agent = ? AND at >= ? GROUP BY reason, asked"
        with reading(self.path) as database:
            rows = database.execute(each, (agent_id, 0.0 if since is None else since))
            return Counter({(str(reason), bool(asked)): int(count) for reason, asked, count in rows})

    def read(
        self,
        *,
        agent_id: str | None = None,
        corrected: bool | None = None,
        since: float | None = None,
        last: int | None = None,
        key: str | None = None,
    ) -> Iterator[Logged]:
        """Yield the entries, oldest first; others may write meanwhile. Few of them are in memory at once.

        Args:
            agent_id: The agent; None: all agents.
            corrected: Whether entries have a correction; None: both.
            since: The earliest time, in seconds since 1970.
            last: How many of the newest; None: all.
            key: The name of the key whose requests they were; None: all.

        Raises:
            OutcomeLogError: The file cannot be read.
        """
        self.flush()
        options = {"agent = ?": agent_id, "at >= ?": since, "key = ?": key}
        conditions = [name for name, value in options.items() if value is not None]
        wanted = [value for value in options.values() if value is not None]
        if corrected is not None:
            conditions.append(_CORRECTED if corrected else _UNCORRECTED)
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        if last is not None:
            where = f" WHERE n IN (SELECT n FROM entries{where} ORDER BY n DESC LIMIT {last:d})"  # noqa: S608 - likewise
        with reading(self.path) as database:
            rows = database.execute(f"{READ}{where} ORDER BY n", wanted)
            while batch := rows.fetchmany(_READ_AT_ONCE):
                said = feedback_in(database, [row[0] for row in batch])
                for row in batch:
                    yield logged(row, said.get(row[0], ()))

    def _stored(self, text: str) -> str:
        """Return the redacted text to store."""
        if self._redact is not None:
            try:
                text = self._redact(text)[:LONGEST]
            except Exception:  # noqa: BLE001 - whatever it trips over, nothing may get out that it should have taken out
                _log.warning("redact failed, so the text is left out of the log of outcomes")
                return ""
        return as_text(text[:LONGEST])


def is_id(entry: object) -> bool:
    """Whether this may be the id of an entry."""
    return isinstance(entry, str) and bool(entry) and as_text(entry) == entry


def said_by(kind: SourceKind, name: str = "") -> Source:
    """Return the source of what is said now: with the current caller's key, and by default in its conversation."""
    return Source(kind=kind, name=name or current_conversation(), key=current_caller().key)


def source_of(decision: Decision) -> Source:
    """Return who chose: a model, the user who answered a question, or recall where nobody was asked or answered."""
    reason = decision.reason
    if reason is Reason.USER:
        return said_by("user")
    if reason in {Reason.LLM, Reason.DECIDER} or (reason is Reason.NONE and _asked(decision) and not decision.error):
        return Source(kind="model", name=decision.model, key=current_caller().key)
    return Source(kind="recall", key=current_caller().key)


def _columns_of(source: Source) -> tuple[str, str, str]:
    return source.kind, as_text(source.name)[:_LONGEST_NAME], as_text(source.key)[:_LONGEST_NAME]


def _asked(decision: Decision) -> bool:
    """Whether a chat model or a decision model was asked, even if it failed."""
    said = decision.raw_reply is not None or decision.attempts > 0 or bool(decision.error)
    return said or any(each.calls or each.outcome == "failed" for each in decision.stages)


def _names(names: Sequence[str]) -> str:
    return orjson.dumps([as_text(name)[:_LONGEST_NAME] for name in names]).decode()


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 4)
