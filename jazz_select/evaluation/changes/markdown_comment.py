"""A difference as a comment on a pull request: a summary first, details folded, within GitHub's size limit."""

from collections.abc import Iterable, Sequence

from jazz_select.evaluation.changes.difference import BROKEN, Difference, Effect, RouteChange
from jazz_select.evaluation.tables import details_block, markdown, markdown_table
from jazz_select.text import beginning, some_of

MARKER = "<!-- jazz-select diff -->"
"""The first line, by which the next run finds the comment to update it."""
MOST = 10_000
"""Most bytes of a comment."""
_REASONS, _OPEN = 10, 20
"""Most reasons listed, and most changes shown without unfolding."""
_CELL = 160
_NAMES = 20
_ICONS = dict.fromkeys(BROKEN, "❌") | {Effect.SURER: "⚠️"} | dict.fromkeys((Effect.FIXED, Effect.FOUND), "✅")
_CHANGES = ("", "request", "from", "first before", "first after", "what else")


def comment(found: Difference, *, most: int = MOST) -> str:
    """Return the comment as GitHub Markdown of at most `most` bytes; all texts from outside are escaped.

    Details are dropped first, and the number of dropped rows is stated.
    """
    parts = [MARKER, f"### jazz-select diff: {markdown(found.summary)}", ""]
    parts += [f"❌ {_cut(failure.message, 2 * _CELL)}" for failure in found.failures]
    if found.failures:
        parts.append("")
    parts += [f"`{_code(found.base)}` → `{_code(found.head)}`", ""]
    parts += [_totals(found), *_flows(found), "", *_why(found)]
    head = "\n".join(parts)
    notes = [f"> {_cut(note, 2 * _CELL)}" for note in found.notes]
    tail = "\n".join((*notes, "", "No model was asked."))
    # The details get what is left, less some room for their headings.
    room = most - _size(head) - _size(tail) - 500
    body = _changes([each for each in found.changes if not each.is_shuffle], room)
    body += _confusions(found, room - _size(body))
    return f"{head}\n{body}\n{tail}\n".encode(errors="replace")[:most].decode(errors="ignore")


def _size(text: str) -> int:
    return len(text.encode(errors="replace"))


def _why(found: Difference) -> list[str]:
    if not found.why:
        return []
    lines = ["**Why requests move:**", ""]
    for what, count in list(found.why.items())[:_REASONS]:
        requests = "requests" if count > 1 else "request"
        lines.append(f"- {_cut(what, _CELL)}: {count:,} {requests}")
    more = len(found.why) - _REASONS
    if more > 0:
        lines.append(f"- and {more} more {'reason' if more == 1 else 'reasons'}")
    return [*lines, ""]


def _totals(found: Difference) -> str:
    rows = [("before", *found.before.figures.values()), ("after", *found.after.figures.values())]
    return markdown_table(("", *found.after.figures), rows)


def _flows(found: Difference) -> list[str]:
    lines: list[str] = []
    for what, names in found.flows.in_words.items():
        if names:
            lines.append(f"**{what.capitalize()}:** {_name_some(names)}  ")
    return lines


def _name_some(names: Sequence[str]) -> str:
    return some_of(names, _NAMES, lambda name: _cut(name, _CELL))


def _changes(changes: Sequence[RouteChange], room: int) -> str:
    """Return the first rows open and the others folded, as many as fit."""
    if not changes:
        return ""
    rows = [_row(each) for each in changes]
    kept = _rows_within(rows, room - 200)
    shown = markdown_table(_CHANGES, kept[:_OPEN])
    if len(kept) > _OPEN:
        shown += "\n" + details_block(f"{len(kept) - _OPEN:,} more", markdown_table(_CHANGES, kept[_OPEN:]))
    if len(kept) < len(rows):
        shown += f"\n… and {len(rows) - len(kept):,} more, which there is no room for here; `--json` has them all.\n"
    return shown


def _row(change: RouteChange) -> tuple[str, ...]:
    icon = _ICONS.get(change.effect, "")
    cells = (
        f"{icon} {change.effect.value}".strip(),
        change.request,
        change.source.value,
        change.before.first or "nothing",
        change.after.first or "nothing",
        "; ".join(change.details),
    )
    return tuple(beginning(each, _CELL) for each in cells)


def _confusions(found: Difference, room: int) -> str:
    rows = [(each.expected[:_CELL], each.first[:_CELL], each.before, each.after) for each in found.confusions]
    kept = _rows_within(rows, room - 200)
    if not kept:
        return ""
    noun = "pair" if len(rows) == 1 else "pairs"
    title = f"{len(rows):,} {noun} of flows confused more often"
    return "\n" + details_block(title, markdown_table(("right", "first", "before", "after"), kept))


def _rows_within(rows: Iterable[tuple[object, ...]], room: int) -> list[tuple[object, ...]]:
    """Return the rows, from the first, that fit once they are escaped."""
    kept: list[tuple[object, ...]] = []
    for row in rows:
        room -= sum(_size(markdown(str(cell))) + 3 for cell in row) + 2
        if room < 0:
            break
        kept.append(row)
    return kept


def _cut(text: str, limit: int) -> str:
    return markdown(beginning(text, limit))


def _code(text: str) -> str:
    return " ".join(text.replace("`", "'").split())[:_CELL]
