"""Results on disk: one file per question, one row per run. A run replaces its own earlier row, never others."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import orjson

RESULTS = Path(__file__).parent / "results"

Row = dict[str, Any]


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
