"""Results on disk: one file per question, one row per run. A run replaces its own earlier row, never others.

A row names the commit that it was measured on, so that only what is committed is stored: `Book` refuses anything else.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import orjson

from benchmarks import machine

RESULTS = Path(__file__).parent / "results"

Row = dict[str, Any]
_NAMED = 10


class UncleanError(Exception):
    """What is measured is not what a commit holds, and so no row can say what it was measured on."""

    def __init__(self, why: str) -> None:
        super().__init__(f"nothing can be stored: {why}; commit first, or look without storing: --unclean")


class Book:
    """Where the rows of a question go, each with where and on what it was measured; a look is not written down.

    Raises:
        UncleanError: The tree differs from its commit, at the start or when a row is stored. A look never raises it.
    """

    def __init__(
        self,
        question: str,
        key: tuple[str, ...],
        *,
        look: bool = False,
        folder: Path = RESULTS,
        root: Path = machine.ROOT,
    ) -> None:
        self._question, self._key, self._look, self._folder, self._root = question, key, look, folder, root
        self._where = machine.circumstances(root)
        self._check()

    def store(self, *new: Row) -> None:
        """Write these rows, unless this is a look."""
        self._check()
        if not self._look:
            store(self._question, [{**row, **self._where} for row in new], self._key, self._folder)

    def _check(self) -> None:
        if not self._look and (why := self._against()):
            raise UncleanError(why)

    def _against(self) -> str:
        commit = self._where["commit"]
        if not commit:
            return "this is no git checkout with a commit"
        if machine.commit(self._root) != commit:
            return f"{commit} was measured, and another commit is checked out now"
        files = machine.changed(self._root)
        more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
        return f"not committed: {', '.join(files[:_NAMED])}{more}" if files else ""


def read(question: str, folder: Path = RESULTS) -> list[Row]:
    """The stored rows of a question; none where it was never asked."""
    path = folder / f"{question}.json"
    return cast("list[Row]", orjson.loads(path.read_bytes())) if path.is_file() else []


def store(question: str, new: Iterable[Row], key: tuple[str, ...], folder: Path = RESULTS) -> Path:
    """Add rows; a row that agrees with an older one in all fields of `key` takes its place."""
    rows = {_identity(row, key): row for row in [*read(question, folder), *new]}
    lines = b",\n".join(orjson.dumps(rows[identity]) for identity in sorted(rows))
    path = folder / f"{question}.json"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"[\n" + lines + b"\n]\n")
    return path


def rounded(numbers: Mapping[str, float], digits: int = 4) -> dict[str, float]:
    """Numbers as they are stored."""
    return {name: round(value, digits) for name, value in numbers.items()}


def _identity(row: Row, key: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(str(row[field]) for field in key)
