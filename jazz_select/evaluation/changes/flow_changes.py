"""Which flows were added, removed, renamed and changed between two versions of a catalogue. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_ALIKE = 0.6
"""The share of examples that two flows have in common (Jaccard) from which on one is the other under a new name."""
_NAMED = frozenset({"name", "title", "aliases"})
"""What a new name brings along."""
_Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowChanges:
    """What happened to the flows themselves.

    Attributes:
        added: Names of flows that were not there before.
        removed: Names of flows that are not there any more.
        renamed: The old name of a flow to its new one: what else it says is the same, or most of its examples are.
        changed: The fields that are different, of each flow that both versions have, by its later name.
    """

    added: tuple[str, ...]
    removed: tuple[str, ...]
    renamed: Mapping[str, str]
    changed: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, before: Mapping[str, _Fields], after: Mapping[str, _Fields]) -> "FlowChanges":
        """From what the flows of both versions say, as far as both say it."""
        gone = sorted(before.keys() - after.keys())
        new = sorted(after.keys() - before.keys())
        renamed = _renamed({name: before[name] for name in gone}, {name: after[name] for name in new})
        pairs = {name: name for name in before.keys() & after.keys()} | {now: old for old, now in renamed.items()}
        changed = {name: fields for name in sorted(pairs) if (fields := _different(before[pairs[name]], after[name]))}
        return cls(
            added=tuple(name for name in new if name not in renamed.values()),
            removed=tuple(name for name in gone if name not in renamed),
            renamed=renamed,
            changed=changed,
        )

    def now(self, name: str) -> str:
        """What a flow of the earlier version is called in the later one."""
        return self.renamed.get(name, name)

    @property
    def any(self) -> bool:
        """Whether anything is different."""
        return bool(self.added or self.removed or self.renamed or self.changed)


def _different(before: _Fields, after: _Fields) -> tuple[str, ...]:
    both = before.keys() & after.keys()
    return tuple(sorted(field for field in both if field != "name" and _told(before[field]) != _told(after[field])))


def _told(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _renamed(gone: Mapping[str, _Fields], new: Mapping[str, _Fields]) -> dict[str, str]:
    """The likeliest pairs, each flow in one of them; the same whichever version is the earlier."""
    likeness = sorted(
        (
            (-alike, *sorted((old, now)), old, now)
            for old in gone
            for now in new
            if (alike := _alike(gone[old], new[now]))
        ),
    )
    pairs: dict[str, str] = {}
    for *_, old, now in likeness:
        if old not in pairs and now not in pairs.values():
            pairs[str(old)] = str(now)
    return pairs


def _alike(one: _Fields, other: _Fields) -> float:
    """From 0 to 1; 0 where it is too little to be one flow."""
    both = (one.keys() & other.keys()) - _NAMED
    says = any(one.get(field) for field in ("description", "examples"))
    if says and all(_told(one[field]) == _told(other[field]) for field in both):
        return 1.0
    mine, theirs = set(map(str, one.get("examples") or ())), set(map(str, other.get("examples") or ()))
    share = len(mine & theirs) / len(mine | theirs) if mine and theirs else 0.0
    return share if share >= _ALIKE else 0.0
