"""A difference as a comment for a pull request: what counts on top, details folded, within what GitHub takes."""

from collections.abc import Iterable, Sequence

from jazz_select.evaluation.changes.difference import (
    BROKEN,
    ChangeKind,
    Difference,
    Effect,
    RouteChange,
    Totals,
    confidence_class,
)
from jazz_select.evaluation.tables import folded, markdown, markdown_table
from jazz_select.text import beginning

MARKER = "<!-- jazz-select diff -->"
"""Stands on top, so that the next run finds the comment and updates it."""
MOST = 65_000
"""Characters of a comment: GitHub takes 65,536."""
_OPEN = 20
"""Changes that are shown without unfolding."""
_CELL = 160
_NAMES = 20
_ICONS = dict.fromkeys(BROKEN, "❌") | {Effect.SURER: "⚠️"} | dict.fromkeys((Effect.FIXED, Effect.FOUND), "✅")
_CHANGES = ("", "request", "from", "first before", "first after", "what else")


def comment(found: Difference, *, most: int = MOST) -> str:
    """The comment, in Markdown as GitHub reads it; every text from outside is escaped.

    Args:
        found: What to tell.
        most: How many characters it may have; details are left out first, and it says how many.
    """
    parts = [MARKER, f"### jazz-select diff: {markdown(found.summary)}", ""]
    parts += [f"❌ {_cut(each.message, 2 * _CELL)}" for each in found.failures]
    parts += [""] if found.failures else []
    parts += [f"`{_code(found.base)}` → `{_code(found.head)}`", ""]
    parts += [_totals(found.before, found.after), *_flows(found), ""]
    head = "\n".join(parts)
    tail = "\n".join((*(f"> {_cut(note, 2 * _CELL)}" for note in found.notes), "", "No model was asked."))
    room = most - len(head) - len(tail) - 500
    body = _changes(found.changes, room)
    body += _confusions(found, room - len(body))
    return f"{head}\n{body}\n{tail}\n"[:most]


def _totals(before: Totals, after: Totals) -> str:
    rows = [
        (
            name,
            totals.flows,
            totals.requests,
            totals.labelled,
            None if totals.recall_at_1 is None else f"{totals.recall_at_1:.1%}",
            f"{totals.asked:,} ({totals.asked_share:.1%})",
            totals.prompt_tokens if totals.counted else None,
        )
        for name, totals in (("before", before), ("after", after))
    ]
    headers = ("", "flows", "requests", "cases", "R@1", "would ask a model", f"tokens of {after.counted} prompts")
    return markdown_table(headers, rows)


def _flows(found: Difference) -> list[str]:
    flows = found.flows
    told = (
        ("Added", flows.added),
        ("Removed", flows.removed),
        ("Renamed", tuple(f"{old} → {new}" for old, new in flows.renamed.items())),
        ("Changed", tuple(f"{name} ({', '.join(fields)})" for name, fields in flows.changed.items())),
    )
    return [f"**{what}:** {_some(names)}  " for what, names in told if names]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(_cut(name, _CELL) for name in names[:_NAMES]) + more


def _changes(changes: Sequence[RouteChange], room: int) -> str:
    """The first ones open, the others folded, as many as there is room for."""
    if not changes:
        return ""
    rows = [_row(each) for each in changes]
    kept = _within(rows, room - 200)
    shown = markdown_table(_CHANGES, kept[:_OPEN])
    if len(kept) > _OPEN:
        shown += "\n" + folded(f"{len(kept) - _OPEN:,} more", markdown_table(_CHANGES, kept[_OPEN:]))
    if len(kept) < len(rows):
        shown += f"\n… and {len(rows) - len(kept):,} more, which there is no room for here; `--json` has them all.\n"
    return shown


def _row(change: RouteChange) -> tuple[str, ...]:
    icon = _ICONS.get(change.effect, "")
    before, after = change.before, change.after
    more: list[str] = []
    if ChangeKind.CANDIDATES in change.kinds:
        more.append(" ".join([*(f"+{name}" for name in change.entered), *(f"-{name}" for name in change.left)]))
    if ChangeKind.OUTCOME in change.kinds:
        more.append(f"{before.outcome.value} → {after.outcome.value}")
    if ChangeKind.CONFIDENCE in change.kinds:
        more.append(" → ".join(confidence_class(each.confidence) for each in (before, after)))
    if change.effect is Effect.SURER:
        more.append(f"right is {', '.join(change.expect or ()) or 'no flow'}")
    told = "; ".join(each for each in (*more, change.why) if each)
    cells = (
        f"{icon} {change.effect.value}".strip(),
        change.request,
        change.source.value,
        before.first or "nothing",
        after.first or "nothing",
        told,
    )
    return tuple(beginning(each, _CELL) for each in cells)


def _confusions(found: Difference, room: int) -> str:
    rows = [(each.expected[:_CELL], each.first[:_CELL], each.before, each.after) for each in found.confusions]
    kept = _within(rows, room - 200)
    if not kept:
        return ""
    title = f"{len(rows):,} pair{'s' if len(rows) > 1 else ''} of flows confused more often"
    return "\n" + folded(title, markdown_table(("right", "first", "before", "after"), kept))


def _within(rows: Iterable[tuple[object, ...]], room: int) -> list[tuple[object, ...]]:
    """As many rows, from the first, as there is room for once they are escaped."""
    kept: list[tuple[object, ...]] = []
    for row in rows:
        room -= sum(len(markdown(str(cell))) + 3 for cell in row) + 2
        if room < 0:
            break
        kept.append(row)
    return kept


def _cut(text: str, limit: int) -> str:
    return markdown(beginning(text, limit))


def _code(text: str) -> str:
    return " ".join(text.replace("`", "'").split())[:_CELL]
