"""Both stores of a log of outcomes keep the port's contract; stores that break it are found out."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from jazz_select.outcomes.entries import Feedback
from jazz_select.outcomes.file_store import FileLogStore
from jazz_select.outcomes.store import LogLine, Retention
from jazz_select.postgres.connection import Database
from jazz_select.postgres.log_store import PostgresLogStore
from jazz_select.testing import check_log_store
from jazz_select.threads import in_thread


@pytest.mark.spec("021.1")
def test_contract_in_a_file(tmp_path: Path) -> None:
    check_log_store(FileLogStore(tmp_path / "outcomes.db"), FileLogStore(tmp_path / "others.db"))


@pytest.mark.spec("021.1")
@pytest.mark.programs
async def test_contract_in_postgresql(database_url: str) -> None:
    async with Database(database_url) as database:
        store, other = PostgresLogStore(database, "shop"), PostgresLogStore(database, "clinic")
        await in_thread(check_log_store, store, other)


class Twice(FileLogStore):
    """Writes each line as another one where it comes again."""

    def write(self, lines: Sequence[LogLine], retention: Retention | None) -> Sequence[str]:
        again = [LogLine(each.kind, (f"{each.values[0]}+", *each.values[1:])) for each in lines if each.kind == "entry"]
        super().write(again, None)
        return super().write(lines, retention)


class Mute(FileLogStore):
    """Has no feedback."""

    def feedback(self, entry: str) -> tuple[Feedback, ...]:
        return ()


class Whole(FileLogStore):
    """Loses all lines of a transaction with one that cannot be written."""

    def write(self, lines: Sequence[LogLine], retention: Retention | None) -> Sequence[str]:
        is_broken = any(None in each.values[:2] for each in lines if each.kind == "entry")
        return ["broken"] if is_broken else super().write(lines, retention)


class Hoarding(FileLogStore):
    """Deletes nothing."""

    def write(self, lines: Sequence[LogLine], retention: Retention | None) -> Sequence[str]:
        return super().write(lines, None)


@pytest.mark.parametrize(
    ("store", "problem"),
    [
        (Twice, "entries must come back once each"),
        (Mute, "the last word must be kept"),
        (Whole, "cost another one"),
        (Hoarding, "the oldest must go"),
    ],
    ids=["writes twice", "has no feedback", "loses a whole transaction", "deletes nothing"],
)
def test_a_store_that_breaks_the_contract_is_found_out(
    tmp_path: Path, store: Callable[[Path], FileLogStore], problem: str
) -> None:
    with pytest.raises(AssertionError, match=problem):
        check_log_store(store(tmp_path / "outcomes.db"), FileLogStore(tmp_path / "others.db"))


@pytest.mark.spec("021.1")
def test_a_log_in_the_place_of_another_is_found_out(tmp_path: Path) -> None:
    path = tmp_path / "outcomes.db"
    with pytest.raises(AssertionError, match="another log has"):
        check_log_store(FileLogStore(path), FileLogStore(path))
