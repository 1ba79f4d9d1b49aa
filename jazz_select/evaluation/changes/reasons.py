"""The reason why each request moved: undo parts of the change, one at a time, and route the moved requests again.

First whole flows are undone. Of those that move a request back, each changed field and example is undone alone. A
reason is reported only if undoing that part leads the request to its former flow.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from jazz_select.evaluation.changes.difference import ChangeKind, Difference, FlowChanges, RouteChange
from jazz_select.evaluation.changes.snapshots import GUARD
from jazz_select.evaluation.changes.undoing import ROUTING_FIELDS, Fields, Undone
from jazz_select.text import beginning

_MOST_WORK: Final = 3_000
"""Most flows that are indexed while parts of one change are tried."""
_SHOWN: Final = 60
Ask = Callable[[Undone, Sequence[RouteChange]], Awaitable[Sequence[str]]]
"""Returns the first flow for each request, with parts of the change undone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A part of a change: its description, and how to undo it."""

    what: str
    undone: Undone


def flow_parts(flows: FlowChanges, before: Mapping[str, Fields], after: Mapping[str, Fields]) -> Iterator[Edit]:
    """Yield each changed flow as a part."""
    for name in flows.added:
        yield Edit(what=f"{name} is new", undone={name: None})
    for name in flows.removed:
        yield Edit(what=f"{name} was removed", undone={name: before[name]})
    old_names = {new: old for old, new in flows.renamed.items()}
    for new, old in old_names.items():
        yield Edit(what=f"{new} has a new name", undone={new: None, old: before[old]})
    for name, changed in flows.changed.items():
        if name not in old_names:
            fields = {field: before[name][field] for field in changed if field in ROUTING_FIELDS}
            what = f"{name} changed ({', '.join(changed)})"
            if fields:
                yield Edit(what=what, undone={name: fields})
            if GUARD in changed:
                yield from _of_guard(name, fields, after[name])


def _of_guard(name: str, fields: Fields, now: Fields) -> Iterator[Edit]:
    """Yield both results of an edited guard: its former code is not available, but a result can be forced."""
    for opened in (True, False) if now[GUARD] else (False,):  # without a guard nothing is withheld any more
        what = f"the guard of {name} {'withholds it' if opened else 'lets it through'}"
        yield Edit(what=what, undone={name: {**fields, GUARD: opened}})


def smaller_parts(part: Edit, before: Mapping[str, Fields], after: Mapping[str, Fields]) -> Iterator[Edit]:
    """Yield the parts of one flow's change: examples that were added or removed, and other fields."""
    (name,) = part.undone if len(part.undone) == 1 else ("",)
    fields = part.undone.get(name)
    if not fields or name not in before or name not in after:
        return
    for field, old in fields.items():
        if field == "examples":
            yield from _of_examples(name, tuple(old), tuple(after[name]["examples"]))
        elif field == GUARD:
            if len(fields) > 1:
                yield replace(part, undone={name: {GUARD: old}})
        else:
            what = f"the {field.replace('_', ' ')} of {name}"
            yield Edit(what=what, undone={name: {field: old}})


def _of_examples(name: str, old: Sequence[str], new: Sequence[str]) -> Iterator[Edit]:
    gone, come = [each for each in old if each not in new], [each for each in new if each not in old]
    for each in come:
        left = [text for text in new if text != each]
        what = f"‘{beginning(each, _SHOWN)}’ under {name}"
        yield Edit(what=what, undone={name: {"examples": left}})
    for each in gone:
        what = f"‘{beginning(each, _SHOWN)}’ is gone from {name}"
        yield Edit(what=what, undone={name: {"examples": [*new, each]}})
    if len(gone) + len(come) > 1 or not gone + come:
        what = f"the examples of {name} together"
        yield Edit(what=what, undone={name: {"examples": list(old)}})


async def reasons(
    found: Difference, before: Mapping[str, Fields], after: Mapping[str, Fields], ask: Ask
) -> dict[int, str]:
    """Return the reasons why requests have another first flow, by position among the changes."""
    open_places = [place for place, each in enumerate(found.changes) if ChangeKind.FIRST in each.kinds]
    work = _Work(found, ask, max(1, _MOST_WORK // max(1, len(after))))
    parts = _likely(list(flow_parts(found.flows, before, after)), found, open_places)
    whole: dict[int, Edit] = {}
    for part in parts:
        left = [place for place in open_places if place not in whole]
        whole |= dict.fromkeys(await work.moved_back(part, left, known=len(parts) == 1), part)
    whys = {place: part.what for place, part in whole.items()}
    for part in parts:
        pieces = list(smaller_parts(part, before, after))
        for piece in pieces:
            left = [place for place, each in whole.items() if each is part and whys[place] == part.what]
            whys |= dict.fromkeys(await work.moved_back(piece, left, known=len(pieces) == 1), piece.what)
    rest = [place for place in open_places if place not in whys]
    if rest and len(parts) > 1:
        together = {name: fields for part in parts for name, fields in part.undone.items()}
        both = Edit(what="several of these changes together", undone=together)
        whys |= dict.fromkeys(await work.moved_back(both, rest, known=False), both.what)
    return whys


def _likely(parts: Sequence[Edit], found: Difference, places: Sequence[int]) -> list[Edit]:
    """Sort parts by the number of moved requests that come from or go to their flows, most first."""
    ends = Counter[str]()
    for place in places:
        change = found.changes[place]
        ends.update({change.before.first, change.after.first})
    return sorted(parts, key=lambda part: -max(ends[name] for name in part.undone))


@dataclass
class _Work:
    """Tries parts, up to a limit."""

    _found: Difference
    _ask: Ask
    _left: int

    async def moved_back(self, part: Edit, places: Sequence[int], *, known: bool) -> list[int]:
        """Return the positions of the requests that undoing this part leads back.

        If the part is the whole change (`known`), undoing it gives the earlier version, so nothing is tried.
        """
        is_guard = any(GUARD in (fields or ()) for fields in part.undone.values())
        if not places or (known and not is_guard):
            return list(places)
        if not self._left:
            return []
        self._left -= 1
        changes = [self._found.changes[place] for place in places]
        firsts = await self._ask(part.undone, changes)
        names = self._found.flows
        return [
            place
            for place, change, first in zip(places, changes, firsts, strict=True)
            if first in {change.before.first, names.now(change.before.first)}
        ]


def explained(found: Difference, whys: Mapping[int, str]) -> Difference:
    """Return the difference with the reasons that were found."""
    changes = [
        replace(each, why="; ".join((*lost_flow(each), whys[place]))) if place in whys else each
        for place, each in enumerate(found.changes)
    ]
    return replace(found, changes=tuple(changes))


def lost_flow(change: RouteChange) -> tuple[str, ...]:
    """Return the note that a case lost its flow, if the change has one."""
    first = change.why.partition("; ")[0]
    return (first,) if first.startswith("lost its flow") else ()
