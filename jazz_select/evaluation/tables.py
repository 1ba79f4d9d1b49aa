"""Tables of results: for notebooks, Markdown for comments, and data frames.

Cells hold texts of users, authors and models, so they are escaped, put on one line, and cut.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from itertools import islice
from typing import Any, cast

from jazz_select.errors import ConfigError
from jazz_select.notebook import page_html, rows_html
from jazz_select.text import as_text, beginning, in_one_line
from jazz_select.values import is_number

MOST_ROWS = 1_000
"""Most rows of a table in Markdown; data frames have all."""
_LONGEST = 300
"""Most characters of a cell."""
_UNKNOWN = "–"
_MARKS = re.compile(r"[\\`*_\[\]|~<>&$]|^[#+-]|^\d+(?=[.)](?:\s|$))|:(?=//)|(?<=\bwww)\.", re.IGNORECASE)
"""Characters with a meaning in Markdown, or in links of sites that render it."""
_ENTITIES = {"<": "&lt;", "&": "&amp;"}
_MENTION = re.compile(r"(?<![A-Za-z0-9_])@|#(?=\d)")
"""Marks that a forge turns into notifications: user names and thread numbers."""


def markdown_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a GitHub Markdown table with all texts escaped, ending with a line break."""
    every = iter(rows)
    kept = list(islice(every, MOST_ROWS))
    more = sum(1 for _ in every)
    marks: list[str] = []
    for column in range(len(headers)):
        cells = [row[column] for row in kept]
        is_numeric = bool(cells) and all(cell is None or is_number(cell) for cell in cells)
        marks.append("---:" if is_numeric else "---")  # numbers are aligned to the right
    lines = [_markdown_row(map(markdown, headers)), f"|{'|'.join(marks)}|"]
    for row in kept:
        lines.append(_markdown_row(markdown(table_cell(cell)) for cell in row))
    if more:
        lines += ["", f"… and {more:,} more rows"]
    return "\n".join((*lines, ""))


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def markdown(text: str) -> str:
    """Return a text as Markdown that renders literally, on one line and cut."""
    escaped = _MARKS.sub(_escape, one_cell(text))
    # An invisible word joiner keeps GitHub and the like from linking a name or a number.
    return _MENTION.sub(lambda found: f"{found[0]}\u2060", escaped)


def details_block(title: str, text: str) -> str:
    """Return a folded Markdown section."""
    return f"<details><summary>{title}</summary>\n\n{text}\n</details>\n"


def _escape(found: re.Match[str]) -> str:
    """Return an entity, or the mark after a backslash."""
    mark = found[0]
    if mark in _ENTITIES:
        return _ENTITIES[mark]
    if mark.isdigit():  # the number of a list entry: its dot follows, and is what must be escaped
        return f"{mark}\\"
    return f"\\{mark}"


def dataframe(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> Any:
    """Return rows as a `pandas.DataFrame`."""
    try:
        pandas = import_module("pandas")
    except ModuleNotFoundError as error:
        msg = "a data frame needs the package 'pandas': pip install pandas (to_dict() has the same values without it)"
        raise ConfigError(msg) from error
    names = list(columns) or list(rows[0] if rows else ())
    return pandas.DataFrame([dict(row) for row in rows], columns=names)


Frame = tuple[Sequence[Mapping[str, Any]], Sequence[str]]


class Framed:
    """A result with a table for notebooks and a data frame, one row for each of its items."""

    __slots__ = ()

    def to_dataframe(self) -> Any:
        """Return a `pandas.DataFrame` with a row for each item, such as a case, a finding or a change.

        Raises:
            ConfigError: pandas is not installed.
        """
        return dataframe(*self._frame())

    def _repr_html_(self) -> str:
        rows, columns = self._frame()
        cells = [[table_cell(row[name]) for name in columns] for row in rows]
        return page_html(rows_html(columns, cells, str(self)))

    def _frame(self) -> Frame:
        """Return the rows, and the columns for an empty table."""
        raise NotImplementedError


def table_cell(value: object) -> str:
    """Return a value as a cell: floats with three decimals, None as a dash."""
    if value is None:
        return _UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return ", ".join(map(table_cell, cast("Sequence[object]", value)[:_LONGEST]))
    return as_text(value)


def one_cell(text: str) -> str:
    """Return a text on one line, cut, without control characters."""
    return beginning(in_one_line(" ".join(text[: 4 * _LONGEST].split())), _LONGEST)
