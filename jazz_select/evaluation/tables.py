"""Tables of results, for whoever looks at them: HTML in a notebook, Markdown in a comment, a data frame to go on with.

What stands in a cell was written by users, authors and models: it is escaped, on one line, and cut.
"""

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from itertools import islice
from typing import Any, cast

from jazz_select.errors import ConfigError
from jazz_select.text import as_text, beginning, in_one_line
from jazz_select.values import is_number

MOST_ROWS = 1_000
"""Rows of a table that is looked at; the values behind it have them all."""
_LONGEST = 300
"""Characters of a cell."""
_UNKNOWN = "–"
_MARKS = re.compile(r"[\\`*_\[\]|~<>&$]|^[#+-]|^\d+(?=[.)](?:\s|$))|:(?=//)|(?<=\bwww)\.", re.IGNORECASE)
"""What Markdown, or a site that shows it, would take for more than a character, links included."""
_ENTITIES = {"<": "&lt;", "&": "&amp;"}
_MENTION = re.compile(r"(?<![A-Za-z0-9_])@|#(?=\d)")
"""What a forge makes a link of that tells people: a name, or the number of a thread."""


def html_table(headers: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """A table in HTML, every text escaped; numbers stand to the right, None is a dash."""
    kept, more = _bounded(rows)
    parts = ["<table>"]
    if caption:
        parts.append(f"<caption>{_html(caption)}</caption>")
    parts.append(f"<thead><tr>{''.join(f'<th>{_html(each)}</th>' for each in headers)}</tr></thead><tbody>")
    parts.extend(f"<tr>{''.join(map(_html_cell, row))}</tr>" for row in kept)
    if more:
        parts.append(f'<tr><td colspan="{max(len(headers), 1)}">… and {more:,} more rows</td></tr>')
    return "".join((*parts, "</tbody></table>"))


def markdown_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown as GitHub reads it, every text escaped; it ends with a line break."""
    kept, more = _bounded(rows)
    numbers = [bool(kept) and all(is_number(row[at]) or row[at] is None for row in kept) for at in range(len(headers))]
    lines = [
        f"| {' | '.join(map(markdown, headers))} |",
        f"|{'|'.join('---:' if number else '---' for number in numbers)}|",
        *(f"| {' | '.join(markdown(table_cell(cell)) for cell in row)} |" for row in kept),
    ]
    if more:
        lines += ["", f"… and {more:,} more rows"]
    return "\n".join((*lines, ""))


def markdown(text: str) -> str:
    """A text as Markdown that shows it as it is: on one line, cut, with every mark escaped."""
    escaped = _MARKS.sub(lambda found: _ENTITIES.get(found[0]) or _escaped(found[0]), one_cell(text))
    return _MENTION.sub(lambda found: f"{found[0]}\u2060", escaped)


def details_block(title: str, text: str) -> str:
    """What Markdown shows when somebody asks for it."""
    return f"<details><summary>{title}</summary>\n\n{text}\n</details>\n"


def _escaped(mark: str) -> str:
    """With a backslash before it; in a number that would begin a list, behind it."""
    return f"{mark}\\" if mark.isdigit() else f"\\{mark}"


def dataframe(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> Any:
    """A `pandas.DataFrame` of these rows."""
    try:
        pandas = import_module("pandas")
    except ModuleNotFoundError as error:
        msg = "a data frame needs the package 'pandas': pip install pandas (to_dict() has the same values without it)"
        raise ConfigError(msg) from error
    names = list(columns) or list(rows[0] if rows else ())
    return pandas.DataFrame([dict(row) for row in rows], columns=names)


Frame = tuple[Sequence[Mapping[str, Any]], Sequence[str]]


class Framed:
    """A result that shows itself as a table in a notebook, and makes a data frame: one of its things a row."""

    __slots__ = ()

    def to_dataframe(self) -> Any:
        """A `pandas.DataFrame` of all it holds: its cases, findings, changes or whatever it is a result of, by row.

        Raises:
            ConfigError: pandas is not installed.
        """
        return dataframe(*self._frame())

    def _repr_html_(self) -> str:
        """For a notebook."""
        rows, columns = self._frame()
        return html_table(columns, [[row[name] for name in columns] for row in rows], str(self))

    def _frame(self) -> Frame:
        """The rows, and the columns, which an empty table has as well."""
        raise NotImplementedError


def table_cell(value: object) -> str:
    """A value as it stands in a cell: a float with three digits after the point, None as a dash."""
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
    """A text on one line and cut, without what would act on whoever shows it."""
    return beginning(in_one_line(" ".join(text[: 4 * _LONGEST].split())), _LONGEST)


def _bounded(rows: Iterable[Sequence[object]]) -> tuple[list[Sequence[object]], int]:
    every = iter(rows)
    return list(islice(every, MOST_ROWS)), sum(1 for _ in every)


def _html_cell(value: object) -> str:
    aligned = ' style="text-align:right"' if is_number(value) else ""
    return f"<td{aligned}>{_html(table_cell(value))}</td>"


def _html(text: str) -> str:
    return html.escape(one_cell(text))
