"""Files of cases as entries, each with the line where it begins: YAML, JSON, JSON Lines, CSV and TSV, within bounds."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import yaml

from jazz_select.errors import ConfigError, FlowLoadError
from jazz_select.flow.data import SYNTAX_ERRORS, read_text, syntax_problem, unique, yaml_documents
from jazz_select.text import beginning, describe_value, unknown_field

LARGEST = 32 << 20
"""Bytes of a file in JSON, JSON Lines, CSV or TSV; one in YAML, which takes longer to read, is bounded as flows are."""
MOST_CASES = 100_000
"""Entries of one file."""
_LONGEST = 80
"""Characters of a foreign name in a message."""
_PLAIN = ("id", "request", "why")
_NAMES = ("expect", "tags", "tools")
_OBJECTS = ("context", "inputs")
COLUMNS = (*_PLAIN, *_NAMES, "episodes", *_OBJECTS)
"""What a CSV may have, in any order; `request` and `expect` it has to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of a file.

    Attributes:
        number: Its place, from 1.
        line: Where it begins, from 1; None where the format does not tell.
        given: What it holds.
        wrong: Fields that could not be read, with why.
    """

    number: int
    line: int | None = None
    given: object = None
    wrong: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """All entries of a file, and what is wrong with the file beside them."""

    entries: tuple[Entry, ...]
    problems: tuple[str, ...] = ()


def read_entries(file: Path, what: str) -> object:
    """What a file of the command's own holds, read within the bounds of a file of flows; None where it is empty.

    Args:
        file: In YAML.
        what: What stands in it, in words.

    Raises:
        ConfigError: It cannot be read, or is no YAML that is read in a moment.
    """
    document = _document(file, what)
    return document[0] if document else None


def entries_of(file: Path) -> Entries:
    """The entries of a file of cases, by its suffix: .json, .jsonl, .ndjson, .csv, .tsv, anything else as YAML.

    Raises:
        ConfigError: It cannot be read, is not of that format, is too large, or holds no list of entries.
    """
    match file.suffix.lower():
        case ".csv" | ".tsv":
            found = _rows(file)
        case ".json":
            found = Entries(entries=_numbered(_list(file, _parsed(file, _text(file)))))
        case ".jsonl" | ".ndjson":
            lines = enumerate(_text(file).split("\n"), 1)
            kept = ((line, text) for line, text in lines if text.strip())
            given = ((line, _parsed(file, text, line=line)) for line, text in kept)
            found = Entries(
                entries=tuple(Entry(number=number, line=line, given=each) for number, (line, each) in _counted(given))
            )
        case _:
            found = _nodes(file)
    if len(found.entries) > MOST_CASES:
        msg = f"{file} holds more than {MOST_CASES:,} cases; split it into several files"
        raise ConfigError(msg)
    return found


def _counted(given: Iterator[tuple[int, object]]) -> Iterator[tuple[int, tuple[int, object]]]:
    """No more of them than are refused."""
    return zip(range(1, MOST_CASES + 2), given, strict=False)


def _numbered(given: Sequence[object]) -> tuple[Entry, ...]:
    return tuple(Entry(number=number, given=each) for number, each in enumerate(given[: MOST_CASES + 1], 1))


def _list(file: Path, given: object) -> list[object]:
    if isinstance(given, list):
        return cast("list[object]", given)
    if given is None:
        msg = f"{file} holds no requests"
        raise ConfigError(msg)
    what = "one mapping" if isinstance(given, dict) else beginning(describe_value(given), _LONGEST)
    msg = f"{file} has to hold a list of cases, each with request: and expect:, and holds {what}"
    raise ConfigError(msg)


# --- YAML -----------------------------------------------------------------------


def _document(file: Path, what: str) -> tuple[Any, yaml.Node] | None:
    try:
        documents = yaml_documents(read_text(file))
    except FlowLoadError as error:
        msg = f"cannot read the {what} in {file}: {error.problem}"
        raise ConfigError(msg) from error
    except SYNTAX_ERRORS as error:
        is_yaml = isinstance(error, ValueError | RecursionError)  # and more of it than is read
        msg = f"{f'cannot read the {what} in {file}' if is_yaml else f'{file} is no YAML'}: {syntax_problem(error)}"
        raise ConfigError(msg) from error
    if len(documents) > 1:
        msg = f"cannot read the {what} in {file}: it holds {len(documents)} documents; take the lines of --- out"
        raise ConfigError(msg)
    return documents[0] if documents else None


def _nodes(file: Path) -> Entries:
    try:
        document = _document(file, "requests")
    except ConfigError as error:
        if "values" in str(error) or "MiB" in str(error):
            msg = f"{error}, or write it as .jsonl or .csv, which may hold {MOST_CASES:,} cases in {LARGEST >> 20} MiB"
            raise ConfigError(msg) from error
        raise
    given, node = document or (None, None)
    nodes: list[yaml.Node] = node.value if isinstance(node, yaml.SequenceNode) else []
    lines = [each.start_mark.line + 1 for each in nodes]
    return Entries(
        entries=tuple(
            Entry(number=number, line=line, given=each)
            for number, (line, each) in enumerate(zip(lines, _list(file, given), strict=True), 1)
        )
    )


# --- JSON -----------------------------------------------------------------------


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            content = opened.read(LARGEST + 1)
    except OSError as error:
        msg = f"cannot read the requests in {file}: {error.strerror or error}"
        raise ConfigError(msg) from error
    if len(content) > LARGEST:
        msg = f"cannot read the requests in {file}: it is larger than {LARGEST >> 20} MiB; split it into several files"
        raise ConfigError(msg)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        msg = f"cannot read the requests in {file}: line {line} is not UTF-8; save the file as UTF-8"
        raise ConfigError(msg) from error


def _parsed(file: Path, text: str, *, line: int | None = None) -> object:
    if not text.strip():
        return None
    try:
        return json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        at = error.lineno + (line or 1) - 1 if isinstance(error, json.JSONDecodeError) else line
        said = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        what = "it is nested too deeply" if isinstance(error, RecursionError) else beginning(said, 4 * _LONGEST)
        msg = f"{file} is no {'JSON Lines' if line else 'JSON'}{f', line {at}' if at else ''}: {what}"
        raise ConfigError(msg) from error


# --- CSV ------------------------------------------------------------------------


def _rows(file: Path) -> Entries:
    text = _text(file)
    head = text.partition("\n")[0]
    marks = {mark: head.count(mark) for mark in ",;\t"}
    delimiter = max(marks, key=lambda mark: marks[mark])  # a spreadsheet takes the one of its country
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    entries: list[Entry] = []
    try:
        header = [each.strip().casefold() for each in next(reader, list[str]())]
        problems = _header_problems(file, header)
        begins = reader.line_num + 1
        for cells in reader:
            if any(cell.strip() for cell in cells):
                entries.append(_row(len(entries) + 1, begins, header, cells))
            begins = reader.line_num + 1
            if len(entries) > MOST_CASES:
                break
    except csv.Error as error:
        msg = f"{file} is no CSV, line {reader.line_num}: {beginning(str(error), _LONGEST)}"
        raise ConfigError(msg) from error
    return Entries(entries=tuple(entries), problems=problems)


def _header_problems(file: Path, header: Sequence[str]) -> tuple[str, ...]:
    """Columns that say nothing to anybody.

    Raises:
        ConfigError: One that has to be there is not, or is there twice.
    """
    if not any(header):
        msg = f"{file} holds no requests: its first line has to name the columns, such as request,expect"
        raise ConfigError(msg)
    for name in COLUMNS:
        if name in ("request", "expect") and name not in header:
            given = ", ".join(beginning(each, _LONGEST) for each in header[:10])
            msg = f"{file} has no column {name!r}: its first line names {given}; there are {', '.join(COLUMNS)}"
            raise ConfigError(msg)
        if header.count(name) > 1:
            msg = f"{file} has two columns {name!r}; take one out"
            raise ConfigError(msg)
    return tuple(f"column {beginning(each, _LONGEST)!r}: {no_field(each)}" for each in header if _odd(each))


def _odd(name: str) -> bool:
    return bool(name) and name not in COLUMNS


def no_field(name: str, known: Sequence[str] = COLUMNS) -> str:
    """What to say of a field that no case has."""
    return unknown_field(name, sorted(known), of="case")


def _row(number: int, line: int, header: Sequence[str], cells: Sequence[str]) -> Entry:
    given: dict[str, object] = {}
    wrong: dict[str, str] = {}
    if any(cell.strip() for cell in cells[len(header) :]):
        wrong["row"] = (
            f"has {len(cells)} cells under {len(header)} columns; put quotes around a text with a comma in it"
        )
    for name, cell in zip(header, cells, strict=False):
        text = cell.strip()
        if name not in COLUMNS or (not text and name not in ("request", "expect")):
            continue
        try:
            given[name] = _cell(name, text)
        except (ValueError, RecursionError):
            wrong[name] = f'is not JSON: {beginning(text, _LONGEST)}; write for example {{"authenticated": true}}'
    return Entry(number=number, line=line, given=given, wrong=wrong)


def _cell(name: str, text: str) -> object:
    if name in _PLAIN:
        return text
    if name in _OBJECTS or text.startswith("["):
        return json.loads(text, object_pairs_hook=unique)
    marks = "|" if name == "episodes" else ";|"  # what was said may well hold a semicolon
    parts = text.replace(marks[0], marks[-1]).split(marks[-1])
    return [part.strip() for part in parts if part.strip()] if len(parts) > 1 else text
