"""The reason why each request moved: undo parts of the change, one at a time, and route the moved requests again.

A part is what a reviewer sees as one: a flow that came, went, changed or has a new name, an edited guard, an example
that went from one flow to another. Of a part that leads a request back, the smaller parts are undone alone. A reason is
reported only if undoing it leads the request to its former flow.
"""

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any, Final, Protocol

from jazz_select.evaluation.changes.difference import ChangeKind, Difference, FlowChanges, RouteChange
from jazz_select.evaluation.changes.snapshots import GUARD, ROUTING_FIELDS, Fields, Undone
from jazz_select.evaluation.route import Query
from jazz_select.text import beginning

_MOST_WORK: Final = 1_500
"""Most flows that recall is fitted to while parts of one change are tried."""
_SHOWN: Final = 60
_MOST_TRIED: Final = 60
"""Most parts that are tried without fitting recall anew."""


class RouteAgain(Protocol):
    """Returns the first flow for each request, with parts of the change undone, and perhaps recall fitted anew."""

    def __call__(self, parts: Undone, asked: Sequence[Query], /, *, refit: bool) -> Awaitable[Sequence[str]]:
        """Route the requests over the later version."""
        ...


Flows = Mapping[str, Fields]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Edit:
    """A part of a change: its description, how to undo it, and the smaller parts that it is made of."""

    what: str
    undone: Undone
    pieces: tuple["Edit", ...] = ()

    @classmethod
    def from_pieces(cls, what: str, pieces: Sequence["Edit"], undone: Undone) -> "Edit":
        """Return the part that is made of these; a single one stands for itself."""
        if len(pieces) == 1:
            return pieces[0]
        return cls(what=what, undone=undone, pieces=tuple(pieces))

    def join(self, other: "Edit", after: Flows) -> "Edit":
        """Return both as one, of what is there after the change."""
        both = dict(self.undone)
        for name, fields in other.undone.items():
            mine = both.get(name, {})
            if fields is None or mine is None:  # a flow that either takes out is gone
                both[name] = None
            else:
                both[name] = {**fields, **mine, **_join_examples(name, mine, fields, after)}
        return Edit(what=f"{self.what}, and {other.what}", undone=both)

    @property
    def guarded(self) -> Collection[str]:
        """The flows whose guard's result is forced, since its former code is not available."""
        return [name for name, fields in self.undone.items() if GUARD in (fields or ())]

    def touches(self, change: RouteChange) -> bool:
        """Whether the request comes from or goes to a flow of this part."""
        return not self.undone.keys().isdisjoint({change.before.first, change.after.first})


def _join_examples(name: str, one: Fields, other: Fields, after: Flows) -> Fields:
    """Return the examples of a flow without what either part takes out, and with what either puts back."""
    if not ("examples" in one and "examples" in other and name in after):
        return {}
    current, mine, theirs = after[name]["examples"], one["examples"], other["examples"]
    kept: list[str] = []
    for text in dict.fromkeys((*theirs, *mine)):
        is_put_back = text not in current
        is_in_both = text in mine and text in theirs
        if is_put_back or is_in_both:
            kept.append(text)
    return {"examples": kept}


def parts_of(flows: FlowChanges, before: Flows, after: Flows) -> Iterator[Edit]:
    """Yield the parts of a change."""
    for name in flows.added:
        yield Edit(what=flows.describe(name), undone={name: None})
    for name in flows.removed:
        yield Edit(what=flows.describe(name), undone={name: before[name]})
    for old, new in flows.renamed.items():
        yield Edit(what=flows.describe(new), undone={new: None, old: before[old]})
    same = {name: fields for name, fields in flows.changed.items() if name in before}
    moved = _examples_moved(same, before, after)
    for (giver, taker), texts in moved.items():
        pieces = [_move_examples(giver, taker, [text], before, after) for text in texts]
        whole = _move_examples(giver, taker, texts, before, after)
        yield Edit.from_pieces(f"{len(texts)} examples that went from {giver} to {taker}", pieces, whole.undone)
    for name, changed in same.items():
        explained: set[str] = set()  # examples that a move above explains are no edit of this flow alone
        for pair, texts in moved.items():
            if name in pair:
                explained.update(texts)
        yield from _of_flow(name, changed, before[name], after[name], explained)


def _of_flow(
    name: str, changed: Collection[str], before: Fields, after: Fields, explained: Collection[str]
) -> Iterator[Edit]:
    """Yield the parts of a change of one flow; `explained` are examples that another part is about."""
    pieces = list(_of_fields(name, changed, before, after, explained))
    fields: dict[str, Any] = {}
    for piece in pieces:
        fields |= piece.undone[name] or {}
    if pieces:
        yield Edit.from_pieces(f"{name} changed ({', '.join(fields)})", pieces, {name: fields})
    if GUARD in changed:
        if after[GUARD]:  # a flow that has none any more is withheld no more
            yield Edit(what=f"the guard of {name} withholds it", undone={name: {GUARD: True}})
        yield Edit(what=f"the guard of {name} lets it through", undone={name: {GUARD: False}})


def _examples_moved(names: Collection[str], before: Flows, after: Flows) -> dict[tuple[str, str], list[str]]:
    """Return the examples that one flow lost and another gained, by both flows."""
    takers: dict[str, str] = {}
    for name in names:
        takers.update(dict.fromkeys(_gained_examples(before[name], after[name]), name))
    found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for giver in names:
        for text in _gained_examples(after[giver], before[giver]):
            if text in takers:
                found[giver, takers[text]].append(text)
    return found


def _gained_examples(one: Fields, other: Fields) -> list[str]:
    return [text for text in other["examples"] if text not in one["examples"]]


def _move_examples(giver: str, taker: str, texts: Sequence[str], before: Flows, after: Flows) -> Edit:
    given = {"examples": _restore_examples(before[giver], after[giver], texts)}
    taken = {"examples": [each for each in after[taker]["examples"] if each not in texts]}
    return Edit(what=f"{_quote(texts[0])} went from {giver} to {taker}", undone={giver: given, taker: taken})


def _restore_examples(before: Fields, after: Fields, texts: Sequence[str]) -> list[str]:
    """Return the examples with some of the former ones, these in their places."""
    places = {text: place for place, text in enumerate(before["examples"])}
    return sorted([*after["examples"], *texts], key=lambda text: places.get(text, len(places)))


def _quote(text: str) -> str:
    return f"‘{beginning(text, _SHOWN)}’"


def _of_fields(
    name: str, changed: Iterable[str], before: Fields, after: Fields, explained: Collection[str]
) -> Iterator[Edit]:
    """Yield a part for each changed field of a flow; each example has its own, but for those that are `explained`."""
    for field_name in changed:
        if field_name == "examples":
            pieces = list(_of_examples(name, before, after, explained))
            if pieces or not explained:
                undone = {name: {"examples": before["examples"]}}
                yield Edit.from_pieces(f"the examples of {name} together", pieces, undone)
        elif field_name in ROUTING_FIELDS:
            spoken = field_name.replace("_", " ")
            yield Edit(what=f"the {spoken} of {name}", undone={name: {field_name: before[field_name]}})


def _of_examples(name: str, before: Fields, after: Fields, explained: Collection[str]) -> Iterator[Edit]:
    for text in dict.fromkeys(_gained_examples(before, after)):
        if text not in explained:
            less = [each for each in after["examples"] if each != text]
            yield Edit(what=f"{_quote(text)} under {name}", undone={name: {"examples": less}})
    for text in dict.fromkeys(_gained_examples(after, before)):
        if text not in explained:
            more = _restore_examples(before, after, [text])
            yield Edit(what=f"{_quote(text)} is gone from {name}", undone={name: {"examples": more}})


async def reasons(found: Difference, before: Flows, after: Flows, ask: RouteAgain) -> dict[int, str]:
    """Return the reasons why requests have another first flow, by position among the changes.

    They are searched for with recall as it is fitted to the later version: of what that leads back, recall fitted anew
    leads back 99 in 100, at thirty times the cost. That is for the other requests, which moved because of the fit.
    """
    moved = {place: each for place, each in enumerate(found.changes) if ChangeKind.FIRST in each.kinds}
    ends = Counter[str]()
    for change in moved.values():
        ends.update({change.before.first, change.after.first})
    # A part that touches the flows of many moved requests is likely to explain several at once.
    parts = sorted(parts_of(found.flows, before, after), key=lambda part: -max(ends[name] for name in part.undone))
    search = partial(_Search, parts=parts, moved=moved, after=after, now=found.flows.now)
    quick = search(ask=partial(ask, refit=False), left=_MOST_TRIED)
    exact = search(ask=partial(ask, refit=True), left=max(1, _MOST_WORK // max(1, len(after))))
    edits = await quick.edits(list(moved))
    edits |= await exact.edits([place for place in moved if place not in edits])
    if len(parts) > 1:
        both = reduce(lambda one, other: one.join(other, after), parts)
        every = Edit(what="several of these changes together", undone=_restore_fields(both.undone, before))
        unexplained = [place for place in moved if place not in edits]
        for place in await exact.moved_back(every, unexplained):
            edits[place] = every
    found_reasons: dict[int, str] = {}
    for place, edit in edits.items():
        is_direct = edit.touches(moved[place])
        found_reasons[place] = edit.what if is_direct else f"{edit.what}, indirectly"
    return found_reasons


def _restore_fields(undone: Undone, before: Flows) -> Undone:
    """Return what is undone with each field as it was: of a flow's examples, a part may undo some alone."""
    restored: dict[str, Fields | None] = {}
    for name, fields in undone.items():
        if not fields:  # a flow to take out, or nothing to undo
            restored[name] = fields
            continue
        former = {field_name: before[name][field_name] for field_name in fields if field_name != GUARD}
        if GUARD in fields:  # the result that is forced, since the former code is not there
            former[GUARD] = fields[GUARD]
        restored[name] = former
    return restored


@dataclass(kw_only=True)
class _Search:
    """Undoes parts of a change, at most `left` of them, and asks the moved requests again."""

    parts: Sequence[Edit]
    moved: Mapping[int, RouteChange]
    after: Flows
    now: Callable[[str], str]
    ask: Callable[[Undone, Sequence[Query]], Awaitable[Sequence[str]]]
    left: int
    _firsts: dict[tuple[int, Edit], str] = field(default_factory=dict[tuple[int, Edit], str])
    """The first flow for a request with a part undone, as far as that was tried."""
    _tried: set[Edit] = field(default_factory=set[Edit])
    """Parts whose fit is known; to try them again costs little."""

    async def edits(self, places: Sequence[int]) -> dict[int, Edit]:
        """Return the smallest part, or the pair of parts, that leads each request back."""
        whole: dict[int, Edit] = {}
        for part in self.parts:
            undecided: list[int] = []
            for place in places:
                change = self.moved[place]
                # A part that touches the request's flows explains it better than one that leads it back from afar.
                if place not in whole or part.touches(change) > whole[place].touches(change):
                    undecided.append(place)
            whole |= dict.fromkeys(await self.moved_back(part, undecided), part)
        found: dict[int, Edit] = {}
        for part in self.parts:
            found |= await self.narrow(part, [place for place, each in whole.items() if each is part])
        pairs = self._pairs({*places} - found.keys())
        # Try the pairs that may explain most first: the number of tries is limited.
        for pair, touched in sorted(pairs.items(), key=lambda each: -len(each[1])):
            unexplained = [place for place in touched if place not in found]
            found |= dict.fromkeys(await self.moved_back(pair, unexplained), pair)
        return found

    def _pairs(self, places: Collection[int]) -> Mapping[Edit, Sequence[int]]:
        """Return a part that touches a request with one that touches the flow that is first without it."""
        made: dict[frozenset[Edit], Edit] = {}
        found: defaultdict[Edit, list[int]] = defaultdict(list)
        for (place, one), first in self._firsts.items():
            if place not in places or not one.touches(self.moved[place]):
                continue
            for other in self.parts:
                # A guard can be forced to one result only, so two parts that force it cannot be undone together.
                is_possible = one is not other and set(one.guarded).isdisjoint(other.guarded)
                if first in other.undone and is_possible:
                    pair = made.setdefault(frozenset({one, other}), one.join(other, self.after))
                    found[pair].append(place)
        return found

    async def narrow(self, part: Edit, places: Sequence[int]) -> dict[int, Edit]:
        """Return the smallest part that leads each request back, of one that leads them all back."""
        found: dict[int, Edit] = {}
        for piece in part.pieces:
            back = await self.moved_back(piece, [place for place in places if place not in found])
            found |= await self.narrow(piece, back)
        return {**dict.fromkeys(places, part), **found}

    async def moved_back(self, part: Edit, places: Sequence[int]) -> Sequence[int]:
        """Return the positions of the requests that undoing this part leads back."""
        if not places or (len(self.parts) == 1 and part is self.parts[0] and not part.guarded):
            return places  # undoing the whole change gives the earlier version
        if part not in self._tried:
            if not self.left:
                return []
            self.left -= 1
            self._tried.add(part)
        firsts = await self.ask(part.undone, [self.moved[place].asked for place in places])
        back: list[int] = []
        for place, first in zip(places, firsts, strict=True):
            self._firsts[place, part] = first
            former = self.moved[place].before.first
            if first in {former, self.now(former)}:
                back.append(place)
        return back
