"""A log of outcomes in PostgreSQL: one log for each name, which all replicas write and read."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, LiteralString, TypeVar

import orjson
import psycopg
from psycopg import sql

from jazz_select.errors import DatabaseError, OutcomeLogError
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
from jazz_select.outcomes.store import EntryFilter, LineKind, LogLine, Retention
from jazz_select.postgres.connection import Database, Row, explain
from jazz_select.stages import Move

T = TypeVar("T")
_LISTS: Final = frozenset({"chosen", "candidates", "confidences", "right"})
"""Columns of JSON, which are read as text: the reader of a file checks them too."""
_BOOLEANS: Final = frozenset({"alone", "asked", "sure"})
_GRACE_S: Final = 3_600.0
_READ_AT_ONCE: Final = 500
_REFUSED: Final = (
    psycopg.DataError,
    psycopg.IntegrityError,
    psycopg.ProgrammingError,
    psycopg.errors.ProgramLimitExceeded,
    ValueError,
)
"""Errors of one line, which would be refused at every attempt: the lines behind it must not wait for it."""
_ADVICE: Final = "The message of the database says why; /readyz says when it can be used again"


_COLUMNS_OF: Final[Mapping[LineKind, Sequence[str]]] = {"entry": [*COLUMNS], "feedback": FEEDBACK_COLUMNS}


def _names(columns: Sequence[str]) -> sql.Composed:
    """Return the names of columns to read, lists of JSON as text."""
    read = [sql.SQL("{}::text" if name in _LISTS else "{}").format(sql.Identifier(name)) for name in columns]
    return sql.SQL(", ").join(read)


def _values(columns: Sequence[str]) -> sql.Composed:
    """Return the places of values to write, each of the type of its column."""
    places: list[LiteralString] = []
    for name in columns:
        if name in _LISTS:
            places.append("%s::jsonb")
        elif name in _BOOLEANS:
            places.append("%s::integer::boolean")
        else:
            places.append("%s")
    return sql.SQL(", ").join(map(sql.SQL, places))


def _identifiers(columns: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, columns))


_ENTRY: Final = sql.SQL("INSERT INTO jazz_select.entries (log, {}) VALUES (%s, {}) ON CONFLICT DO NOTHING").format(
    _identifiers([*COLUMNS]), _values([*COLUMNS])
)
_FORGET_WORD: Final = """
DELETE FROM jazz_select.feedback
WHERE log = %(log)s AND entry = %(entry)s AND source_kind = %(kind)s AND key = %(key)s
    AND person = CASE %(kind)s WHEN 'person' THEN %(name)s ELSE '' END
"""
_LAST_WORD: Final = """
SELECT "right"::text, note, source_kind, source_name, key FROM jazz_select.feedback
WHERE log = %s AND entry = %s ORDER BY n DESC LIMIT 1
"""
_FEEDBACK: Final = sql.SQL("INSERT INTO jazz_select.feedback (log, {}) VALUES (%s, {})").format(
    _identifiers(FEEDBACK_COLUMNS), _values(FEEDBACK_COLUMNS)
)
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
_MOVES_SO_FAR: Final = "SELECT count(*) FROM jazz_select.moves WHERE log = %s AND agent = %s AND flow IN ('', %s)"
_MOVE: Final = sql.SQL(
    "INSERT INTO jazz_select.moves (log, agent, after, {})"
    " VALUES (%s, %s, coalesce((SELECT max(n) FROM jazz_select.entries WHERE log = %s), 0), {})"
).format(_identifiers([*MOVE_COLUMNS]), _values([*MOVE_COLUMNS]))
_SAME_MOVE: Final = (
    "SELECT 1 FROM jazz_select.moves WHERE log = %s AND agent = %s AND at = %s AND kind = %s AND flow = %s LIMIT 1"
)
_ANSWER: Final = (
    "SELECT n, id, candidates->>0, (confidences->>0)::double precision, chosen::text, asked, source_kind"
    " FROM jazz_select.entries WHERE log = %(log)s AND agent = %(agent)s"
)
_SURE: Final = f"{_ANSWER} AND sure ORDER BY n DESC LIMIT %(last)s"
_NEARLY_SURE: Final = (
    f"{_ANSWER} AND asked AND alone AND NOT sure AND (confidences->>0)::double precision >= %(least)s"  # noqa: S608 - our own text
    " AND n > coalesce((SELECT n FROM jazz_select.entries WHERE log = %(log)s"
    " ORDER BY n DESC OFFSET %(among)s LIMIT 1), 0) ORDER BY n DESC"
)
_NOW: Final = "extract(epoch FROM now())::double precision"
_CORRECTED: Final = (
    "EXISTS (SELECT 1 FROM jazz_select.feedback AS f WHERE f.log = entries.log AND f.entry = entries.id)"
)


class PostgresLogStore:
    """A `LogStore` of one name in a database, such as that of an agent; it never sees another one's lines."""

    def __init__(self, database: Database, log: str) -> None:
        """Use an open database."""
        self._database, self._log = database, log

    @property
    def name(self) -> str:
        """The name of the log, and where it is kept."""
        return f"{self._log} in {self._database.place}"

    def write(self, lines: Sequence[LogLine], retention: Retention | None) -> Sequence[str]:
        """Write lines in one transaction; one that cannot be written is left out, and the others are written."""
        wrong: list[str] = []

        def work(connection: Row) -> None:
            wrong.clear()
            for line in lines:
                try:
                    # Without one a line that is refused would end the transaction of all.
                    with connection.transaction():
                        self._write_line(connection, line)
                except _REFUSED as error:
                    wrong.append(explain(error))
            if retention is not None:
                self._sweep(connection, retention)

        self._database.run_blocking(work)
        return wrong

    def _write_line(self, connection: Row, line: LogLine) -> None:
        columns = _COLUMNS_OF.get(line.kind, ())
        values = [_storable(each) for each in line.values]
        for place, name in enumerate(columns):
            if name in _LISTS:
                values[place] = _storable_list(values[place])
        writers: dict[LineKind, Callable[[Row, tuple[Any, ...]], None]] = {
            "entry": self._write_entry,
            "feedback": self._write_feedback,
            "move": self._write_move,
        }
        writers[line.kind](connection, tuple(values))

    def _write_entry(self, connection: Row, values: tuple[Any, ...]) -> None:
        connection.execute(_ENTRY, (self._log, *values))

    def _write_feedback(self, connection: Row, values: tuple[Any, ...]) -> None:
        """Keep the last word of each source; the same word again changes nothing."""
        entry, _, right, note, kind, name, key = values
        connection.execute(_LOCK, (f"jazz_select feedback {self._log} {entry}",))
        last = connection.execute(_LAST_WORD, (self._log, entry)).fetchone()
        if last is not None and last == (right, note, kind, name, key):
            return
        where = {"log": self._log, "entry": entry, "kind": kind, "name": name, "key": key}
        connection.execute(_FORGET_WORD, where)
        connection.execute(_FEEDBACK, (self._log, *values))

    def _write_move(self, connection: Row, values: tuple[Any, ...]) -> None:
        agent, known, *move = values
        at, kind, flow = move[:3]
        connection.execute(_LOCK, (f"jazz_select moves {self._log}",))
        if connection.execute(_SAME_MOVE, (self._log, agent, at, kind, flow)).fetchone() is not None:
            return  # this transaction was made before its connection broke
        if known is not None:
            found = connection.execute(_MOVES_SO_FAR, (self._log, agent, flow)).fetchone()
            if found is None or found[0] != known:
                return
        connection.execute(_MOVE, (self._log, agent, self._log, *move))

    def _sweep(self, connection: Row, retention: Retention) -> None:
        """Delete what is too old by the clock of the database: that of one replica may be wrong by months."""
        gone = 0
        if retention.keep_s is not None:
            old = f"DELETE FROM jazz_select.entries WHERE log = %s AND at < {_NOW} - %s"  # noqa: S608 - our own text
            gone += connection.execute(old, (self._log, retention.keep_s)).rowcount
        if retention.max_entries is not None:
            many = (
                "DELETE FROM jazz_select.entries WHERE log = %s AND n <= (SELECT n FROM jazz_select.entries"
                " WHERE log = %s ORDER BY n DESC OFFSET %s LIMIT 1)"
            )
            gone += connection.execute(many, (self._log, self._log, retention.max_entries)).rowcount
        if gone:  # recent feedback may precede its entry, which another replica has yet to write
            orphans = (
                f"DELETE FROM jazz_select.feedback AS f WHERE f.log = %s AND f.at < {_NOW} - %s AND NOT EXISTS"  # noqa: S608 - our own text
                " (SELECT 1 FROM jazz_select.entries AS e WHERE e.log = f.log AND e.id = f.entry)"
            )
            connection.execute(orphans, (self._log, _GRACE_S))

    def entries(self, which: EntryFilter) -> Iterator[Logged]:
        """Yield entries, the oldest first, page by page: no transaction is open between two pages."""
        conditions: list[LiteralString] = ["log = %(log)s"]
        values: dict[str, object] = {"log": self._log, "after": 0, "page": _READ_AT_ONCE}
        if which.agent_id is not None:
            conditions.append("agent = %(agent)s")
            values["agent"] = which.agent_id
        if which.since is not None:
            conditions.append("at >= %(since)s")
            values["since"] = which.since
        if which.key is not None:
            conditions.append("key = %(key)s")
            values["key"] = which.key
        if which.corrected is not None:
            conditions.append(_CORRECTED if which.corrected else f"NOT {_CORRECTED}")
        where = " AND ".join(conditions)
        if which.last is not None:
            before = f"SELECT n FROM jazz_select.entries WHERE {where} ORDER BY n DESC OFFSET %(last)s LIMIT 1"  # noqa: S608 - our own text
            found = self._run_reading(
                lambda connection: connection.execute(before, {**values, "last": which.last}).fetchone()
            )
            values["after"] = 0 if found is None else found[0]
        page = sql.SQL("SELECT n, {} FROM jazz_select.entries WHERE {} AND n > %(after)s ORDER BY n LIMIT %(page)s")
        statement = page.format(_names([*COLUMNS]), sql.SQL(where))

        def read_page(connection: Row) -> tuple[int, list[Logged]]:
            rows = connection.execute(statement, values).fetchall()
            feedback = self._feedback_of(connection, [row[1] for row in rows])
            return (rows[-1][0] if rows else 0), [entry_from_row(row[1:], feedback.get(row[1], ())) for row in rows]

        while True:
            last, found_entries = self._run_reading(read_page)
            yield from found_entries
            if len(found_entries) < _READ_AT_ONCE:
                return
            values["after"] = last

    def entry(self, entry: str) -> Logged | None:
        """Return the entry of this id."""
        one = sql.SQL("SELECT {} FROM jazz_select.entries WHERE log = %s AND id = %s").format(_names([*COLUMNS]))

        def read_entry(connection: Row) -> Logged | None:
            row = connection.execute(one, (self._log, _storable(entry))).fetchone()
            return None if row is None else entry_from_row(row, self._feedback_of(connection, [entry]).get(entry, ()))

        return self._run_reading(read_entry)

    def feedback(self, entry: str) -> tuple[Feedback, ...]:
        """Return the last word of each source about an entry."""
        return tuple(self._run_reading(lambda connection: self._feedback_of(connection, [entry])).get(entry, ()))

    def moves(self, agent_id: str) -> tuple[Move, ...]:
        """Return all moves of an agent's thresholds."""
        all_moves = sql.SQL("SELECT {}, after FROM jazz_select.moves WHERE log = %s AND agent = %s ORDER BY n")
        statement = all_moves.format(_names([*MOVE_COLUMNS]))

        def read_moves(connection: Row) -> tuple[Move, ...]:
            rows = connection.execute(statement, (self._log, agent_id)).fetchall()
            return tuple(move_of_row(row) for row in rows)

        return self._run_reading(read_moves)

    def recall_answers(self, agent_id: str, *, last: int, least: float, among: int) -> tuple[RecallAnswer, ...]:
        """Return what became of recall's answers."""
        values = {"log": self._log, "agent": agent_id, "last": last, "least": least, "among": among}

        def read_answers(connection: Row) -> list[RecallAnswer]:
            sure = connection.execute(_SURE, values).fetchall()
            others = connection.execute(_NEARLY_SURE, values).fetchall()
            feedback = self._feedback_of(connection, [row[1] for row in (*sure, *others)])
            answers = [recall_answer(row, feedback.get(row[1], ()), sure=True) for row in sure]
            answers += [recall_answer(row, feedback.get(row[1], ()), sure=False) for row in others]
            return answers

        return tuple(sorted(self._run_reading(read_answers), key=lambda each: each.n))

    def agents(self, *, corrected: bool) -> dict[str, int]:
        """Return the number of entries of each agent."""
        where: LiteralString = f" AND {_CORRECTED}" if corrected else ""
        counted = f"SELECT agent, count(*) FROM jazz_select.entries WHERE log = %s{where} GROUP BY agent"  # noqa: S608 - our own text
        return dict(self._run_reading(lambda connection: connection.execute(counted, (self._log,)).fetchall()))

    def count(self, agent_id: str, since: float) -> Counter[tuple[str, bool]]:
        """Return the number of an agent's entries by reason and `asked`."""
        counted = (
            "SELECT reason, asked, count(*) FROM jazz_select.entries WHERE log = %s AND agent = %s AND at >= %s"
            " GROUP BY reason, asked"
        )
        values = (self._log, agent_id, since)
        rows = self._run_reading(lambda connection: connection.execute(counted, values).fetchall())
        return Counter({(reason, asked): count for reason, asked, count in rows})

    def chosen(self, agent_id: str, since: float) -> Counter[str]:
        """Count how often each flow was chosen."""
        counted = (
            "SELECT flow, count(*) FROM jazz_select.entries, jsonb_array_elements_text(chosen) AS flow"
            " WHERE log = %s AND agent = %s AND at >= %s GROUP BY flow"
        )
        values = (self._log, agent_id, since)
        return Counter(dict(self._run_reading(lambda connection: connection.execute(counted, values).fetchall())))

    def reset(self) -> None:
        """Do nothing: connections belong to the database, which a fork opens anew."""

    def close(self) -> None:
        """Do nothing: connections belong to the database."""

    def _feedback_of(self, connection: Row, entries: Sequence[str]) -> dict[str, list[Feedback]]:
        if not entries:
            return {}
        query = sql.SQL("SELECT {} FROM jazz_select.feedback WHERE log = %s AND entry = ANY(%s) ORDER BY n")
        asked = [_storable(each) for each in entries]
        return feedback_by_entry(connection.execute(query.format(_names(FEEDBACK_COLUMNS)), (self._log, asked)))

    def _run_reading(self, read: Callable[[Row], T]) -> T:
        try:
            return self._database.run_blocking(read)
        except DatabaseError as error:
            raise OutcomeLogError(self.name, error.problem, advice=_ADVICE) from error
        except (ValueError, TypeError) as error:
            raise OutcomeLogError(
                self.name, str(error), advice="Somebody changed its rows by hand: mend them"
            ) from error


def _storable(value: Any) -> Any:
    """Return a value without the character that PostgreSQL has no place for in a text."""
    return value.replace("\0", "\N{REPLACEMENT CHARACTER}") if isinstance(value, str) else value


def _storable_list(value: Any) -> Any:
    """Return the JSON of a list of names without that character, which JSON has a spelling for, and jsonb has not."""
    if not isinstance(value, str) or "\\u0000" not in value:
        return value
    return orjson.dumps([_storable(each) for each in orjson.loads(value)]).decode()
