"""A log of outcomes in an SQLite file, which several processes may write and read at once."""

import os
import sqlite3
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from time import time
from typing import Any, Final, cast

from jazz_select.errors import ConfigError, OutcomeLogError
from jazz_select.outcomes.entries import (
    COLUMNS,
    FEEDBACK_COLUMNS,
    MOVE_COLUMNS,
    Feedback,
    Logged,
    RecallAnswer,
    entry_from_row,
    feedback_by_entry,
    move_of_row,
    recall_answer,
)
from jazz_select.outcomes.store import EntryFilter, LogLine, Retention
from jazz_select.sqlite_files import guard, limit_steps, wrong_schema
from jazz_select.stages import Move
from jazz_select.text import as_text, describe_error

_VERSION: Final = 5
_BUSY_S: Final = 5.0
"""How long to wait for another process's lock, in seconds."""
_APPLICATION: Final = 0x4A5A4F4C
"""SQLite's application id in the file's header: it distinguishes a log from another program's database."""
_NAMES: Final = ", ".join(COLUMNS)
_MOVE_TYPES: Final = ", ".join(f"{name} {kind}" for name, kind in MOVE_COLUMNS.items())
_TABLES: Final = f"""
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
BEGIN IMMEDIATE;
CREATE TABLE entries (
    n INTEGER PRIMARY KEY, {", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())}
);
CREATE INDEX entries_at ON entries (at);
CREATE INDEX entries_sure ON entries (agent, n) WHERE sure;
CREATE TABLE moves (
    n INTEGER PRIMARY KEY, agent TEXT NOT NULL, after INTEGER NOT NULL, {_MOVE_TYPES}
);
CREATE TABLE feedback (
    n INTEGER PRIMARY KEY, entry TEXT NOT NULL, at REAL NOT NULL, "right" TEXT NOT NULL, note TEXT NOT NULL,
    source_kind TEXT NOT NULL, source_name TEXT NOT NULL, key TEXT NOT NULL
);
CREATE UNIQUE INDEX feedback_source ON feedback (
    entry, source_kind, key, CASE source_kind WHEN 'person' THEN source_name ELSE '' END
);
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_VERSION};
COMMIT;
"""
_STORED: Final = {
    "entries": (*COLUMNS, "n"),
    "feedback": ("n", *FEEDBACK_COLUMNS),
    "moves": ("n", "agent", "after", *MOVE_COLUMNS),
}
_ENTRY: Final = (
    f"INSERT INTO entries ({_NAMES}) VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608 - names of ours
    " ON CONFLICT (id) DO NOTHING"
)
_FEEDBACK: Final = """
INSERT OR REPLACE INTO feedback (entry, at, "right", note, source_kind, source_name, key)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 WHERE NOT EXISTS (
    SELECT 1 FROM feedback
    WHERE n = (SELECT max(n) FROM feedback WHERE entry = ?1)
        AND "right" = ?3 AND note = ?4 AND source_kind = ?5 AND source_name = ?6 AND key = ?7
)
"""
"""Of each source the last word about an entry is kept, so that the log does not grow by repetitions; the same word
again changes nothing."""
_READ: Final = f"SELECT {_NAMES} FROM entries"  # noqa: S608 - likewise
_MOVE: Final = (
    f"INSERT INTO moves (agent, after, {', '.join(MOVE_COLUMNS)}) "  # noqa: S608 - likewise
    f"SELECT ?1, coalesce((SELECT max(n) FROM entries), 0), {', '.join(f'?{place}' for place in range(3, 11))} "
    "WHERE ?2 IS NULL OR ?2 = (SELECT count(*) FROM moves WHERE agent = ?1 AND flow IN ('', ?5))"
)
_STATEMENTS: Final = {"entry": _ENTRY, "feedback": _FEEDBACK, "move": _MOVE}
_SURE: Final = """
SELECT n, id, json_extract(candidates, '$[0]'), json_extract(confidences, '$[0]'), chosen, asked, source_kind
FROM entries WHERE agent = ? AND sure ORDER BY n DESC LIMIT ?
"""
_NEARLY_SURE: Final = """
SELECT n, id, json_extract(candidates, '$[0]'), json_extract(confidences, '$[0]'), chosen, asked, source_kind
FROM entries WHERE n > (SELECT max(n) FROM entries) - ? AND agent = ? AND asked AND alone AND NOT sure
    AND json_extract(confidences, '$[0]') >= ? ORDER BY n DESC
"""
_GRACE_S: Final = 3_600.0
_READ_AT_ONCE: Final = 500
_CORRECTED, _UNCORRECTED = "id IN (SELECT entry FROM feedback)", "id NOT IN (SELECT entry FROM feedback)"
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


def log_path(path: object) -> Path:
    """Return the path of a log's file; raise ConfigError for anything else, such as SQLite's database in memory."""
    if isinstance(path, str | os.PathLike):
        text: object = os.fspath(cast("str | os.PathLike[Any]", path))
        if isinstance(text, str) and text not in {"", ":memory:"} and "\0" not in text and as_text(text) == text:
            return Path(text)
    raise ConfigError(f"a log of outcomes must be a file, such as outcomes.db, got {path!r:.80}")


def _make(path: Path) -> None:
    """Create the file if it is missing; raise OutcomeLogError if it cannot be used or is no log of this version."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=_BUSY_S)) as database:
            guard(database)
            if _is_empty(database):
                try:
                    database.executescript(_TABLES)
                except sqlite3.OperationalError:
                    if _is_empty(database):  # else another process created the tables first
                        raise
            _check(path, database)
    except (sqlite3.Error, OSError) as error:
        raise _file_error(path, error) from error


def _is_empty(database: sqlite3.Connection) -> bool:
    return not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]


def _check(path: Path, database: sqlite3.Connection) -> None:
    application = database.execute("PRAGMA application_id").fetchone()[0]
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if application != _APPLICATION:
        raise OutcomeLogError(
            str(path), "it is a database of something else", advice="Name another file, or one that is not there yet"
        )
    if version != _VERSION:
        problem = f"it is of version {version}, and this jazz-select reads version {_VERSION}"
        advice = "Move it away, and a new one is begun; or use the version of jazz-select that wrote it"
        raise OutcomeLogError(str(path), problem, advice=advice)
    if problem := wrong_schema(database, _STORED):
        advice = "Somebody changed this file: name another one, or copy its rows into a new log"
        raise OutcomeLogError(str(path), problem, advice=advice)


def _connect(path: Path, target: str, **options: Any) -> sqlite3.Connection:
    database = sqlite3.connect(target, timeout=_BUSY_S, check_same_thread=False, **options)
    try:
        guard(database)
        _check(path, database)
    except BaseException:
        database.close()
        raise
    return database


def _open_for_writing(path: Path) -> sqlite3.Connection:
    """Open a connection for writing."""
    if not path.exists():
        _make(path)  # the file was moved away: begin a new one
    database = _connect(path, str(path), isolation_level=None)
    database.execute("PRAGMA synchronous = NORMAL")
    return database


@contextmanager
def _reading(path: Path) -> Generator[sqlite3.Connection]:
    """Open a read-only connection, also on a read-only disk; raise OutcomeLogError for a file that cannot be read."""
    where = path.absolute().as_uri()
    try:
        try:
            database = _connect(path, f"{where}?mode=ro", uri=True)
        except sqlite3.Error:
            database = _connect(path, f"{where}?immutable=1", uri=True)
        with closing(database):
            limit_steps(database, path, path.with_name(f"{path.name}-wal"))
            yield database
    except (sqlite3.Error, ValueError, TypeError) as error:
        raise _file_error(path, error) from error


def _file_error(path: Path, error: Exception) -> OutcomeLogError:
    """Return the error for a file that cannot be created, opened or read."""
    if isinstance(error, sqlite3.OperationalError) and str(error) == "interrupted":
        error = ValueError("it takes more steps to read than a log of its size can need")
    damaged = isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError)
    if damaged or isinstance(error, ValueError | TypeError):
        advice = "It was left as it is: move it away, and a new one is begun (sqlite3 FILE .recover saves what can be)"
    else:
        advice = "Name a file in a folder that can be written"
    return OutcomeLogError(str(path), describe_error(error), advice=advice)


def _feedback_in(database: sqlite3.Connection, entries: Sequence[str]) -> dict[str, list[Feedback]]:
    """Return what was said about these entries, by entry, the oldest first."""
    marks = ", ".join("?" * len(entries))
    names = ", ".join(f'"{name}"' for name in FEEDBACK_COLUMNS)
    rows = database.execute(f"SELECT {names} FROM feedback WHERE entry IN ({marks}) ORDER BY n", entries)  # noqa: S608 - our own text
    return feedback_by_entry(rows)


class FileLogStore:
    """A `LogStore` in one SQLite file."""

    def __init__(self, path: Path, *, must_exist: bool = False) -> None:
        """Open the file, or create it; one that must exist may be on a read-only disk.

        Raises:
            OutcomeLogError: The file cannot be used.
        """
        self.path = path
        self._database: sqlite3.Connection | None = None
        if not must_exist:
            _make(path)
            return
        if not path.is_file():
            raise OutcomeLogError(
                str(path),
                "it is not there",
                advice="FlowSelector(…, log=PATH) and jazz-select serve --log PATH write one",
            )
        with _reading(path):
            pass

    @property
    def name(self) -> str:
        """The path."""
        return str(self.path)

    def write(self, lines: Sequence[LogLine], retention: Retention | None) -> Sequence[str]:
        """Write lines in one transaction; SQLite rolls back alone a line that cannot be written."""
        try:
            self._database = database = self._database or _open_for_writing(self.path)
            wrong: list[str] = []
            with database:
                database.execute("BEGIN IMMEDIATE")
                for line in lines:
                    try:
                        database.execute(_STATEMENTS[line.kind], line.values)
                    except _LINE_ERRORS as error:
                        wrong.append(describe_error(error))
                if retention is not None:
                    _sweep(database, retention)
        except BaseException:
            self.close()
            raise
        return wrong

    def entries(self, which: EntryFilter) -> Iterator[Logged]:
        """Yield entries, the oldest first."""
        conditions: list[str] = []
        wanted: list[object] = []
        for condition, value in (("agent = ?", which.agent_id), ("at >= ?", which.since), ("key = ?", which.key)):
            if value is not None:
                conditions.append(condition)
                wanted.append(value)
        if which.corrected is not None:
            conditions.append(_CORRECTED if which.corrected else _UNCORRECTED)
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        if which.last is not None:
            where = f" WHERE n IN (SELECT n FROM entries{where} ORDER BY n DESC LIMIT {which.last:d})"  # noqa: S608 - our own text
        with _reading(self.path) as database:
            rows = database.execute(f"{_READ}{where} ORDER BY n", wanted)
            while batch := rows.fetchmany(_READ_AT_ONCE):
                feedback = _feedback_in(database, [row[0] for row in batch])
                for row in batch:
                    yield entry_from_row(row, feedback.get(row[0], ()))

    def entry(self, entry: str) -> Logged | None:
        """Return the entry of this id."""
        with _reading(self.path) as database:
            row = database.execute(f"{_READ} WHERE id = ?", (entry,)).fetchone()
            if row is None:
                return None
            return entry_from_row(row, _feedback_in(database, [entry]).get(entry, ()))

    def feedback(self, entry: str) -> tuple[Feedback, ...]:
        """Return the last word of each source about an entry."""
        with _reading(self.path) as database:
            return tuple(_feedback_in(database, [entry]).get(entry, ()))

    def moves(self, agent_id: str) -> tuple[Move, ...]:
        """Return all moves of an agent's thresholds."""
        names = ", ".join((*MOVE_COLUMNS, "after"))
        with _reading(self.path) as database:
            rows = database.execute(f"SELECT {names} FROM moves WHERE agent = ? ORDER BY n", (agent_id,))  # noqa: S608 - our own text
            return tuple(move_of_row(row) for row in rows)

    def recall_answers(self, agent_id: str, *, last: int, least: float, among: int) -> tuple[RecallAnswer, ...]:
        """Return what became of recall's answers."""
        with _reading(self.path) as database:
            sure = database.execute(_SURE, (agent_id, last)).fetchall()
            others = database.execute(_NEARLY_SURE, (among, agent_id, least)).fetchall()
            persons = "SELECT entry FROM feedback WHERE source_kind = 'person'"
            spoken_of = {entry for (entry,) in database.execute(persons)}
            feedback = _feedback_in(database, [row[1] for row in (*sure, *others) if row[1] in spoken_of])
            answers = [recall_answer(row, feedback.get(row[1], ()), sure=True) for row in sure]
            answers += [recall_answer(row, feedback.get(row[1], ()), sure=False) for row in others]
        return tuple(sorted(answers, key=lambda each: each.n))

    def agents(self, *, corrected: bool) -> dict[str, int]:
        """Return the number of entries of each agent."""
        where = f" WHERE {_CORRECTED}" if corrected else ""
        with _reading(self.path) as database:
            return dict(database.execute(f"SELECT agent, COUNT(*) FROM entries{where} GROUP BY agent").fetchall())  # noqa: S608 - our own text

    def count(self, agent_id: str, since: float) -> Counter[tuple[str, bool]]:
        """Return the number of an agent's entries by reason and `asked`."""
        each = "SELECT reason, asked, COUNT(*) FROM entries WHERE agent = ? AND at >= ? GROUP BY reason, asked"
        with _reading(self.path) as database:
            rows = database.execute(each, (agent_id, since))
            return Counter({(str(reason), bool(asked)): int(count) for reason, asked, count in rows})

    def chosen(self, agent_id: str, since: float) -> Counter[str]:
        """Count how often each flow was chosen. SQLite counts: a log may have a million entries."""
        each = "SELECT value, count(*) FROM entries, json_each(chosen) WHERE agent = ? AND at >= ? GROUP BY value"
        with _reading(self.path) as database:
            return Counter(dict(database.execute(each, (agent_id, since))))

    def reset(self) -> None:
        """Forget the parent's connection, in a fork."""
        self._database = None

    def close(self) -> None:
        """Close the connection for writing."""
        database, self._database = self._database, None
        if database is not None:
            with suppress(sqlite3.Error):
                database.close()


def _sweep(database: sqlite3.Connection, retention: Retention) -> None:
    now = time()
    deleted = 0
    if retention.keep_s is not None:
        deleted += database.execute("DELETE FROM entries WHERE at < ?", (now - retention.keep_s,)).rowcount
    if retention.max_entries is not None:
        too_many = "DELETE FROM entries WHERE n <= (SELECT max(n) FROM entries) - ?"
        deleted += database.execute(too_many, (retention.max_entries,)).rowcount
    if deleted:  # recent feedback may precede its entry, which another process has yet to write
        old = "DELETE FROM feedback WHERE at < ? AND entry NOT IN (SELECT id FROM entries)"
        database.execute(old, (now - _GRACE_S,))
        database.execute("PRAGMA incremental_vacuum").fetchall()
