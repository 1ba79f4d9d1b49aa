"""`learn`, `drift` and `eval` on the log of an agent in a database: the same as on a file, and replicas are told."""

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import orjson
import psycopg
import pytest

from jazz_select.evaluation.overlay import load_overlay
from jazz_select.outcomes.entries import COLUMNS, FEEDBACK_COLUMNS
from jazz_select.outcomes.store import LineKind, LogLine
from jazz_select.postgres.connection import Database
from jazz_select.postgres.log_store import PostgresLogStore
from tests.postgres_server import PASSWORD
from tests.unit.cli.conftest import Jazz
from tests.unit.cli.test_learn import kept, run
from tests.vectors import EMBEDDER

pytestmark = [pytest.mark.programs, pytest.mark.timeout(300)]


@pytest.fixture
def log(jazz: Jazz) -> Path:
    return asyncio.run(kept(jazz.folder, jazz.flows))


def copied(log: Path, url: str) -> None:
    """Keep what a file has in the log of the same agent in a database."""

    async def make_schema() -> None:
        async with Database(url):
            pass

    asyncio.run(make_schema())
    with closing(sqlite3.connect(log)) as file:
        lines = [
            *lines_of(file, "entry", "entries", [*COLUMNS]),
            *lines_of(file, "feedback", "feedback", FEEDBACK_COLUMNS),
        ]
    database = Database(url).open_blocking()
    try:
        assert not PostgresLogStore(database, "support").write(lines, None)
    finally:
        database.close_blocking()


def lines_of(file: sqlite3.Connection, kind: LineKind, table: str, columns: Sequence[str]) -> list[LogLine]:
    """The lines of one kind in a file, as they were written."""
    names = ", ".join(f'"{each}"' for each in columns)
    rows = file.execute(f"SELECT {names} FROM {table} ORDER BY n").fetchall()  # noqa: S608 - our own names
    return [LogLine(kind, row) for row in rows]


def in_database(jazz: Jazz, url: str, *args: str, code: int = 0) -> str:
    """Run a command whose database is in the environment."""
    result = jazz(*args, code=code, JAZZ_EMBEDDER=EMBEDDER, JAZZ_DATABASE=url, COLUMNS="200")
    return result.stdout if "--json" in args else result.output


@pytest.mark.spec("021.1")
def test_a_database_teaches_what_a_file_teaches(jazz: Jazz, log: Path, database_url: str) -> None:
    copied(log, database_url)
    file = jazz.folder / "learned.yaml"
    for step in (("learn",), ("learn", "--shadow"), ("learn", "--promote")):
        in_file = run(jazz, *step[:1], *([] if "--promote" in step else [str(log)]), *step[1:], "--json").stdout
        found, expected = orjson.loads(in_database(jazz, database_url, *step, "--json")), orjson.loads(in_file)
        for each in (found, expected):
            each.pop("took_s", None)
            if isinstance(each.get("version"), dict):
                each["version"].pop("at")
        assert found == expected, step
    with psycopg.connect(database_url) as connection:
        row = connection.execute("SELECT content FROM jazz_select.documents WHERE scope = 'support'").fetchone()
    assert row is not None
    assert orjson.loads(row[0])["live"] == load_overlay(file).live == 1
    assert not (Path("learned.yaml")).exists()


@pytest.mark.spec("021.1")
def test_a_roll_back_tells_the_log_in_the_database(jazz: Jazz, log: Path, database_url: str) -> None:
    copied(log, database_url)
    in_database(jazz, database_url, "learn")
    in_database(jazz, database_url, "learn", "--promote")
    told = in_database(jazz, database_url, "learn", "--roll-back")
    assert "replicas that run sync the index by themselves" in told
    again = orjson.loads(in_database(jazz, database_url, "learn", "--json"))
    assert not again["learned"], "a person has taken back what was learned"


@pytest.mark.spec("021.1")
def test_drift_and_eval_read_the_database(jazz: Jazz, log: Path, database_url: str) -> None:
    copied(log, database_url)
    found = orjson.loads(in_database(jazz, database_url, "drift", "--json"))
    expected = orjson.loads(run(jazz, "drift", str(log), "--json").stdout)
    assert found["now"]["requests"] == expected["now"]["requests"] == 9
    assert "refund_order" in in_database(jazz, database_url, "suggest", "--log", "database", "--json")


@pytest.mark.spec("021.1")
@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("learn", "outcomes.db"), "the log is kept there"),
        (("drift", "outcomes.db"), "the log is kept there"),
        (("learn", "--learned", "learned.yaml"), "name no file"),
        (("drift",), "it has no schema jazz_select"),
    ],
)
def test_what_cannot_be_meant_is_refused(jazz: Jazz, database_url: str, args: tuple[str, ...], says: str) -> None:
    result = jazz(*args, code=2, JAZZ_EMBEDDER=EMBEDDER, JAZZ_DATABASE=database_url, COLUMNS="200")
    assert says in " ".join(result.output.split())
    assert PASSWORD not in result.output


def test_a_log_in_a_database_that_nobody_names_is_refused(jazz: Jazz) -> None:
    result = jazz("suggest", "--log", "database", code=2, JAZZ_EMBEDDER=EMBEDDER, COLUMNS="200")
    assert "name that with JAZZ_DATABASE" in " ".join(result.output.split())


def test_a_log_that_nobody_names_is_asked_for(jazz: Jazz) -> None:
    result = jazz("drift", code=2, JAZZ_EMBEDDER=EMBEDDER, COLUMNS="200")
    assert "name the log" in " ".join(result.output.split())
