"""What it takes to bring an index to a catalogue: planned as a value first, applied after. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncPlan:
    """Flow ids by what has to happen to them."""

    create: tuple[str, ...] = ()
    update: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()

    @property
    def write(self) -> tuple[str, ...]:
        """All that is embedded and written."""
        return self.create + self.update

    @property
    def is_empty(self) -> bool:
        """True where the index is already as it should be."""
        return not (self.create or self.update or self.delete)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReport:
    """What a sync did, or would do (`dry_run`): names of flows, in the catalogue's order."""

    created: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    dry_run: bool = False

    def __str__(self) -> str:
        """One line for a log."""
        counts = ", ".join(
            f"{len(names)} {what}"
            for what, names in (
                ("created", self.created),
                ("updated", self.updated),
                ("deleted", self.deleted),
                ("unchanged", self.skipped),
            )
        )
        return f"{counts}{' (dry run: nothing was written)' if self.dry_run else ''}"


def plan_sync(wanted: Mapping[str, str], stored: Mapping[str, str]) -> SyncPlan:
    """The plan from fingerprints by flow id: those of the catalogue and those in the index.

    Applied, it leaves nothing to do: planning again skips everything.
    """
    return SyncPlan(
        create=tuple(each for each in wanted if each not in stored),
        update=tuple(each for each, mark in wanted.items() if each in stored and stored[each] != mark),
        delete=tuple(each for each in stored if each not in wanted),
        skip=tuple(each for each, mark in wanted.items() if stored.get(each) == mark),
    )
