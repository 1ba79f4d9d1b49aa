"""What happened in a shop: all its tables before and after, and the rows that differ."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

Row = Mapping[str, Any]
Tables = Mapping[str, Sequence[Row]]


class TableChanges(TypedDict, total=False):
    """What differs in one table; what is empty is left out."""

    added: list[dict[str, Any]]
    removed: list[dict[str, Any]]
    changed: dict[str, dict[str, tuple[Any, Any]]]
    """Of each row that stayed, by its first column: the columns that differ, as (before, after)."""


def changes(before: Tables, after: Tables) -> dict[str, TableChanges]:
    """The tables that differ, and how.

    ```python
    before = shop.rows()
    shop.cancel_order("60144")
    changes(before, shop.rows())["orders"]["changed"]  # {"60144": {"status": ("placed", "cancelled")}}
    ```

    Args:
        before: `Shop.rows()` of then.
        after: `Shop.rows()` of now.
    """
    found = {name: _of_table(before.get(name, ()), after.get(name, ())) for name in sorted({*before, *after})}
    return {name: difference for name, difference in found.items() if difference}


def _of_table(before: Sequence[Row], after: Sequence[Row]) -> TableChanges:
    old, new = _by_key(before), _by_key(after)
    if old is None or new is None:  # no column tells the rows apart, so a row is itself or another one
        old, new = _by_itself(before), _by_itself(after)
    difference: TableChanges = {}
    if added := [dict(row) for key, row in new.items() if key not in old]:
        difference["added"] = added
    if removed := [dict(row) for key, row in old.items() if key not in new]:
        difference["removed"] = removed
    stayed = {str(key): _columns(old[key], row) for key, row in new.items() if key in old}
    if changed := {key: columns for key, columns in stayed.items() if columns}:
        difference["changed"] = changed
    return difference


def _columns(before: Row, after: Row) -> dict[str, tuple[Any, Any]]:
    return {name: (before.get(name), value) for name, value in after.items() if before.get(name) != value}


def _by_key(rows: Iterable[Row]) -> dict[object, Row] | None:
    """Rows by their first column, where that tells them apart."""
    listed = list(rows)
    found: dict[object, Row] = {next(iter(row.values())): row for row in listed}
    return found if len(found) == len(listed) else None


def _by_itself(rows: Iterable[Row]) -> dict[object, Row]:
    """Rows by all they hold, and by how often that was met."""
    found: dict[object, Row] = {}
    for row in rows:
        whole, times = tuple(row.items()), 0
        while (whole, times) in found:
            times += 1
        found[whole, times] = row
    return found
