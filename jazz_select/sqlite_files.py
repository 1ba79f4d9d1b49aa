"""Connections to SQLite files that somebody else may have made: plain tables alone, read in bounded steps.

A file's schema is a program. A view in place of a table may have rows without end, a generated column or a trigger
computes whatever its author likes, and pages that point to one another repeat a few rows billions of times.
"""

import sqlite3
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

LONGEST_VALUE: Final = 1 << 20
"""The most bytes of one text or row."""
_EVERY: Final = 50_000
"""Steps of SQLite's machine between two looks at their number."""
_STEPS, _STEPS_A_BYTE = 5_000_000, 20
"""The most steps of one connection: what is read of a row takes far fewer than twenty for each of its bytes."""


def guard(database: sqlite3.Connection) -> None:
    """Have a connection take nothing for granted of the file that it opens; call it before anything else."""
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
    database.execute("PRAGMA trusted_schema = OFF")
    database.execute("PRAGMA cell_size_check = ON")


def limit_steps(database: sqlite3.Connection, *files: Path) -> None:
    """End statements of a connection that take more steps than files of this size can need.

    They raise `sqlite3.OperationalError` ("interrupted").
    """
    size = sum(file.stat().st_size for file in files if file.exists())
    left = (_STEPS + _STEPS_A_BYTE * size) // _EVERY

    def is_over() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    database.set_progress_handler(is_over, _EVERY)


def wrong_schema(database: sqlite3.Connection, tables: Mapping[str, Collection[str]]) -> str:
    """Return why these tables, given with their columns, are not plain tables of the file; empty if they are.

    Other tables and indexes may be there, since nothing reads them. Triggers may not: they run with each row.
    """
    named = "SELECT name, type, rootpage FROM sqlite_master WHERE type IN ('table', 'view') AND name IN ({})"
    marks = ", ".join("?" * len(tables))
    found = {name: (kind, page) for name, kind, page in database.execute(named.format(marks), [*tables])}
    for table, columns in tables.items():
        kind, page = found.get(table, ("", 0))
        if kind != "table" or not page:
            found_kind = {"": "nothing", "view": "a view"}.get(kind, "a virtual table")
            return f"its {table} must be a table, got {found_kind}"
        # By name, whether a column is hidden or computed: 0 if it is stored.
        known = {row[1]: row[6] for row in database.execute(f"PRAGMA table_xinfo({table})")}
        for column in columns:
            if column not in known:
                return f"its table {table} has no column {column}"
            if known[column]:
                return f"the column {column} of its table {table} must be stored, got one that is computed"
    triggers = f"SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name IN ({marks})"  # noqa: S608 - marks
    trigger = database.execute(triggers, [*tables]).fetchone()
    if trigger is None:
        return ""
    return f"its trigger {str(trigger[0])!r:.80} runs with each row; drop it"
