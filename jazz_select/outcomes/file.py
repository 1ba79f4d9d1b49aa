"""A log of outcomes: what an entry holds, and its file, with its tables, its version, and how it is opened."""

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal, cast

import orjson

from jazz_select.errors import ConfigError, OutcomeLogError
from jazz_select.text import as_text, describe_error

Source = Literal["user", "agent"]
"""Who says what was right: a person, or an agent that gathers it from how a conversation goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """A request, what was selected for it, and what was right.

    Attributes:
        id: Of the entry.
        at: When, in seconds since 1970.
        agent_id: Whose flows were selected.
        request: The text, redacted; empty where texts are not kept.
        digest: Where texts are not kept, what is equal for equal requests; else empty. Who can guess a request can
            find it out by this.
        chars: How long the request was.
        alone: Whether nothing was said before it: then the text is all that was asked.
        chosen: Names of the flows that were chosen.
        candidates: Names of the first ten that were offered, best first.
        confidences: P(each of them is right), None where that was not known.
        in_scope: P(some flow is right), likewise.
        reason: As of `Decision`.
        tier: Likewise.
        asked: Whether a model was asked, a decision model included.
        model: Which one answered.
        tokens_in: What it read.
        tokens_out: What it wrote.
        took_s: How long the selection took, in seconds.
        catalogue: Equal where the flows said the same; empty where that was not known.
        right: Names of the flows that were right, as somebody said last; None where nobody did.
        source: Who said so; empty where nobody did.
        note: What was said beside, redacted.
    """

    id: str
    at: float
    agent_id: str = ""
    request: str = ""
    digest: str = ""
    chars: int = 0
    alone: bool = True
    chosen: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    confidences: tuple[float | None, ...] = ()
    in_scope: float | None = None
    reason: str = ""
    tier: str = ""
    asked: bool = False
    model: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    took_s: float = 0.0
    catalogue: str = ""
    right: tuple[str, ...] | None = None
    source: str = ""
    note: str = ""

    @property
    def first(self) -> str:
        """The first candidate; empty where there was none."""
        return self.candidates[0] if self.candidates else ""

    @property
    def confidence(self) -> float | None:
        """P(the first candidate is right), where that was known."""
        return self.confidences[0] if self.confidences else None

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)


def labels(entries: Iterable[Logged]) -> Iterator[tuple[str, str, float]]:
    """Each request with a flow that it is for, and how sure that is: 1 where a person said so, else P(it is right).

    What recall alone took to be right is labelled with its confidence, and left out where that was not known; so are
    requests without a text, those that need what was said before, and those that are for no flow or for several.
    """
    for entry in entries:
        if not entry.request or not entry.alone:
            continue
        if entry.right is not None and entry.source == "user":
            if len(entry.right) == 1:
                yield entry.request, entry.right[0], 1.0
        elif entry.right is None and len(entry.chosen) == 1:
            known = dict(zip(entry.candidates, entry.confidences, strict=False))
            sure = known.get(entry.chosen[0])
            if sure is not None:
                yield entry.request, entry.chosen[0], sure


VERSION: Final = 1
"""Of the file's tables."""
BUSY_S: Final = 5.0
"""How long another process is waited for, in seconds."""
_APPLICATION: Final = 0x4A5A4F4C
"""Stands in the file's header, so that another program's database is told from a log."""
_COLUMNS: Final = {
    "id": "TEXT NOT NULL UNIQUE",
    "at": "REAL NOT NULL",
    "agent": "TEXT NOT NULL",
    "request": "TEXT NOT NULL",
    "digest": "TEXT NOT NULL",
    "chars": "INTEGER NOT NULL",
    "alone": "INTEGER NOT NULL",
    "chosen": "TEXT NOT NULL",
    "candidates": "TEXT NOT NULL",
    "confidences": "TEXT NOT NULL",
    "in_scope": "REAL",
    "reason": "TEXT NOT NULL",
    "tier": "TEXT NOT NULL",
    "asked": "INTEGER NOT NULL",
    "model": "TEXT NOT NULL",
    "tokens_in": "INTEGER NOT NULL",
    "tokens_out": "INTEGER NOT NULL",
    "took_s": "REAL NOT NULL",
    "catalogue": "TEXT NOT NULL",
}
"""Of an entry, in the order of the fields of `Logged`."""
_NAMES: Final = ", ".join(_COLUMNS)
_FIELDS: Final = tuple(each.name for each in fields(Logged))
TABLES: Final = f"""
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
BEGIN IMMEDIATE;
CREATE TABLE entries (
    n INTEGER PRIMARY KEY, {", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())}
);
CREATE INDEX entries_at ON entries (at);
CREATE TABLE feedback (
    n INTEGER PRIMARY KEY, entry TEXT NOT NULL, at REAL NOT NULL, "right" TEXT NOT NULL, note TEXT NOT NULL,
    source TEXT NOT NULL
);
CREATE INDEX feedback_entry ON feedback (entry);
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {VERSION};
COMMIT;
"""
ENTRY: Final = f"INSERT INTO entries ({_NAMES}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608 - names of ours
FEEDBACK: Final = 'INSERT INTO feedback (entry, at, "right", note, source) VALUES (?, ?, ?, ?, ?)'
READ: Final = f"SELECT {_NAMES} FROM entries"  # noqa: S608 - likewise


def named(path: object) -> Path:
    """The path of a log's file; SQLite's name for a database in memory is refused."""
    if isinstance(path, str | os.PathLike):
        text: object = os.fspath(cast("str | os.PathLike[Any]", path))
        if isinstance(text, str) and text not in {"", ":memory:"} and "\0" not in text and as_text(text) == text:
            return Path(text)
    raise ConfigError(f"a log of outcomes is a file: name one, such as outcomes.db, not {path!r:.80}")


def made(path: Path) -> None:
    """Make the file where there is none; refuse what is no log of this version."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=BUSY_S)) as database:
            if _is_empty(database):
                try:
                    database.executescript(TABLES)
                except sqlite3.OperationalError:
                    if _is_empty(database):  # else another process was quicker
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
        raise OutcomeLogError(str(path), problem, advice="Use the version that wrote it, or name another file")


def connected(path: Path) -> sqlite3.Connection:
    """A connection to write by."""
    if not path.exists():
        made(path)  # whoever moved it away wants a new one
    database = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        _check(path, database)
        database.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        database.close()
        raise
    return database


def reading(path: Path) -> "closing[sqlite3.Connection]":
    """A connection to read by, which changes nothing; also from a disk that cannot be written."""
    where = path.absolute().as_uri()
    problem: sqlite3.Error | None = None
    for how in ("?mode=ro", "?immutable=1"):
        database: sqlite3.Connection | None = None
        try:
            database = sqlite3.connect(where + how, uri=True, timeout=BUSY_S, check_same_thread=False)
            _check(path, database)
        except sqlite3.Error as error:
            problem = problem or error
            if database is not None:
                database.close()
        except OutcomeLogError:
            if database is not None:
                database.close()
            raise
        else:
            return closing(database)
    raise unusable(path, problem or sqlite3.Error("it cannot be opened"))


def unusable(path: Path, error: Exception) -> OutcomeLogError:
    """What to say where a file cannot be made, opened or read."""
    damaged = isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError)
    advice = (
        "It was left as it is: move it away, and a new one is begun (sqlite3 FILE .recover saves what can be)"
        if damaged or isinstance(error, ValueError | TypeError)
        else "Name a file in a folder that can be written"
    )
    return OutcomeLogError(str(path), describe_error(error), advice=advice)


def corrections_in(database: sqlite3.Connection) -> dict[str, tuple[str, str, str]]:
    """What was right, who said so and with which note, by entry: the last that a person said, else the last."""
    said: dict[str, tuple[str, str, str]] = {}
    for entry, right, source, note in database.execute('SELECT entry, "right", source, note FROM feedback ORDER BY n'):
        if source == "user" or entry not in said or said[entry][1] != "user":
            said[entry] = (right, source, note)
    return said


def logged(row: tuple[Any, ...], said: tuple[str, str, str] | None) -> Logged:
    """An entry, of a row as `READ` has it and of what was right, as `corrections_in` has it."""
    told = dict(zip(_FIELDS, row, strict=False))
    told |= {name: tuple(orjson.loads(told[name])) for name in ("chosen", "candidates", "confidences")}
    told |= {name: bool(told[name]) for name in ("alone", "asked")}
    if said is not None:
        told |= {"right": tuple(orjson.loads(said[0])), "source": said[1], "note": said[2]}
    return Logged(**told)
