"""What changed in a shop between two moments, and whether that is what was to change."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tests.conversations.script import Changes, Row

Tables = Mapping[str, Sequence[Row]]
What = Literal["added", "changed", "removed"]


@dataclass(frozen=True, slots=True)
class Effect:
    """One row that was added, changed or removed."""

    table: str
    what: What
    row: Row
    """As it is now; where it was removed, as it was."""
    changed: frozenset[str] = frozenset()
    """The columns that are not as they were."""

    def __str__(self) -> str:
        shown = {name: value for name, value in self.row.items() if not self.changed or self._is_told(name)}
        return f"{self.table} {self.what}: {shown}"

    def _is_told(self, name: str) -> bool:
        return name in self.changed or name == next(iter(self.row))

    def fits(self, wanted: Row) -> bool:
        """Whether it is the one that these columns name; of a change, all of it has to be named."""
        return self.changed <= wanted.keys() and all(
            name in self.row and alike(self.row[name], value) for name, value in wanted.items()
        )


def alike(real: object, wanted: object) -> bool:
    """Whether a value is the one written down: numbers and dates as texts, patterns between slashes."""
    if isinstance(wanted, str) and len(wanted) > 2 and wanted[0] == wanted[-1] == "/":
        return re.search(wanted[1:-1], str(real), re.IGNORECASE) is not None
    return real == wanted or (real is not None and wanted is not None and str(real) == str(wanted))


def diff(before: Tables, after: Tables) -> list[Effect]:
    """What changed, table by table. A row is known by its first column, where that tells the rows of a table apart."""
    found: list[Effect] = []
    for table in dict.fromkeys((*before, *after)):
        found += _diff_of(table, before.get(table, ()), after.get(table, ()))
    return found


def _diff_of(table: str, before: Sequence[Row], after: Sequence[Row]) -> list[Effect]:
    if not (_is_keyed(before) and _is_keyed(after)):
        added, removed = _beyond(after, before), _beyond(before, after)
        return [*(Effect(table, "added", row) for row in added), *(Effect(table, "removed", row) for row in removed)]
    was, now = {_key(row): row for row in before}, {_key(row): row for row in after}
    found = [Effect(table, "removed", row) for key, row in was.items() if key not in now]
    for key, row in now.items():
        old = was.get(key)
        if old is None:
            found.append(Effect(table, "added", row))
        elif columns := frozenset(name for name in row if row[name] != old.get(name)):
            found.append(Effect(table, "changed", row, columns))
    return found


def _key(row: Row) -> Any:
    return next(iter(row.values()), None)


def _is_keyed(rows: Sequence[Row]) -> bool:
    return len({_key(row) for row in rows}) == len(rows)


def _beyond(rows: Sequence[Row], others: Sequence[Row]) -> list[Row]:
    """The rows that the others have not, each as often as they lack it."""
    left = [dict(row) for row in others]
    more: list[Row] = []
    for row in rows:
        if dict(row) in left:
            left.remove(dict(row))
        else:
            more.append(row)
    return more


def compared(real: Sequence[Effect], wanted: Mapping[str, Changes]) -> tuple[list[Effect], list[str]]:
    """What happened and was not to, and what was to happen and did not."""
    left = list(real)
    lacking: list[str] = []
    named: list[tuple[str, What, Row]] = []
    for table, changes in wanted.items():
        named.extend((table, "added", row) for row in changes.added)
        named.extend((table, "changed", row) for row in changes.changed)
        named.extend((table, "removed", row) for row in changes.removed)
    # Those that say more choose first: a row that fits two is not taken from the one that needs it.
    for table, what, row in sorted(named, key=lambda each: -len(each[2])):
        fit = next((each for each in left if (each.table, each.what) == (table, what) and each.fits(row)), None)
        if fit is None:
            lacking.append(f"{table} {what}: {dict(row)}")
        else:
            left.remove(fit)
    return left, lacking
