"""HTML tables of values for notebooks. All text is escaped and long text cut.

The text comes from users, models and tools, so none of it becomes markup, a link or a style.
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from jazz_select.text import as_text, beginning, in_one_line

_LONGEST: Final = 300
_MOST_ROWS: Final = 100
_TABLE: Final = "border-collapse:collapse;margin:.4em 0"
_CELL: Final = "text-align:left;vertical-align:top;padding:.15em .8em .15em 0;white-space:pre-wrap"
_QUIET: Final = f"{_CELL};opacity:.65;font-weight:normal"


class NotebookRepr(str):
    """HTML made here from escaped text."""

    __slots__ = ()


def text_html(value: object) -> NotebookRepr:
    """Return a value as one line of escaped text, cut if long."""
    if isinstance(value, NotebookRepr):
        return value
    shown = "" if value is None else as_text(value)
    if isinstance(value, float):
        shown = f"{value:.4g}"
    return NotebookRepr(escape(in_one_line(beginning(shown, _LONGEST))))


def facts_html(title: str, facts: Iterable[tuple[str, object]]) -> NotebookRepr:
    """Return the nonempty facts about one thing, one a line."""
    rows = ""
    for name, value in facts:
        if value not in (None, "", (), []):
            rows += f'<tr><th scope="row" style="{_QUIET}">{text_html(name)}</th>{_cell(value)}</tr>'
    return NotebookRepr(f'<table style="{_TABLE}">{_caption(title)}<tbody>{rows}</tbody></table>')


def rows_html(names: Sequence[str], rows: Sequence[Sequence[object]], title: str = "") -> NotebookRepr:
    """Return a table of rows, with the number of rows not shown."""
    if not rows and not title:
        return NotebookRepr("")
    head = "".join(f'<th scope="col" style="{_QUIET}">{text_html(name)}</th>' for name in names)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows[:_MOST_ROWS])
    more = len(rows) - _MOST_ROWS
    foot = f'<tfoot><tr><td style="{_QUIET}">and {more} more</td></tr></tfoot>' if more > 0 else ""
    head = f"{_caption(title)}<thead><tr>{head}</tr></thead>"
    return NotebookRepr(f'<table style="{_TABLE}">{head}<tbody>{body}</tbody>{foot}</table>')


def _caption(title: str) -> str:
    return f'<caption style="{_CELL};font-weight:bold">{text_html(title)}</caption>' if title else ""


def _cell(value: object) -> str:
    return f'<td style="{_CELL}">{text_html(value)}</td>'


def page_html(*parts: NotebookRepr) -> str:
    """Join parts, one below the other."""
    return f"<div>{''.join(parts)}</div>"
