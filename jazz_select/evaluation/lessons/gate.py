"""The gate: requests whose right flow is known and that nothing is learned from, and whether a change lowers them."""

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from math import comb, sqrt
from typing import Final, Literal

from jazz_select.evaluation.cases import Case
from jazz_select.evaluation.lessons.overlay import Gain
from jazz_select.evaluation.metrics import Z95
from jazz_select.evaluation.route import Asked, Outcome, Route
from jazz_select.flow.base import BaseFlow, FlowRegistry

_LEAST_EXAMPLES: Final = 3
"""A flow of fewer can spare none to be judged by."""
_MOST_OWN: Final = 1_000
_NOISE: Final = 0.05
"""As improbable as a flow's losses have to be, if nothing had changed, to count as one."""
_OUTSIDE: Final = 0.5
"""P(some flow is right) below which recall says that none is."""
_NO_FLOW: Final = ""
"""Counts what no flow is for as if it were a flow's."""
Part = Literal["held", "case", "own"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A request of the gate: where it is from, and the flows one of which has to come first; none where none fits."""

    asked: Asked
    right: frozenset[str]
    part: Part

    def is_right(self, route: Route) -> bool:
        """Whether a route is right, as far as can be told without a model.

        Where no flow fits, it is where nothing is chosen, or a model is asked and told that probably none does.
        """
        if self.right:
            return route.first in self.right
        doubted = route.in_scope is not None and route.in_scope < _OUTSIDE
        return route.outcome is Outcome.NONE or (route.outcome is Outcome.ASKED and doubted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a change does to the gate.

    Attributes:
        gain: Shares before and after.
        lost: Places, in the gate, of requests that were right and are not any more.
        why: Why the change must not land; empty where it may.
    """

    gain: Gain
    lost: tuple[int, ...] = ()
    why: str = ""


def gate_cases(cases: Sequence[Case], part: Part) -> list[Judged]:
    """Labelled requests."""
    return [
        Judged(
            asked=Asked.of(case),
            right=frozenset(case.expect),
            part=part,
        )
        for case in cases
    ]


def spared(registry: Mapping[str, BaseFlow], authored: Mapping[str, BaseFlow]) -> tuple[FlowRegistry, list[Judged]]:
    """The catalogue with one of their own examples taken out of its flows, and these examples, to judge by.

    Asked of an index that has them, they would find themselves. Which one it is follows from its words.

    Args:
        registry: The flows as they are indexed, with what was learned.
        authored: The flows as their authors wrote them: only their examples are taken.
    """
    own: dict[str, str] = {}
    for flow in authored.values():
        if len(flow.examples) >= _LEAST_EXAMPLES:
            own[flow.id] = min(flow.examples, key=lambda each: _hash(f"{flow.name} {each}"))
    if len(own) > _MOST_OWN:
        own = {each: own[each] for each in sorted(own, key=_hash)[:_MOST_OWN]}
    made = FlowRegistry(min_examples=0)
    for flow in registry.values():
        again = copy(flow)
        if flow.id in own:
            again.examples = tuple(each for each in flow.examples if each != own[flow.id])
        made.register(again)
    judged = [
        Judged(asked=Asked(request=text), right=frozenset({authored[each].name}), part="own")
        for each, text in own.items()
    ]
    return made, judged


def verdict(judged: Sequence[Judged], before: Sequence[Route], after: Sequence[Route]) -> Verdict:
    """Compare the same requests before and after a change.

    It must not land where fewer are right in all, or among the labelled requests that were given, or where a flow
    loses more than it wins beyond noise (a sign test at .05); requests that no flow is for are looked at by themselves,
    in the same way, and are no part of the gain. Its interval is that of paired shares (Wald, as McNemar's test takes
    them).
    """
    was = [each.is_right(route) for each, route in zip(judged, before, strict=True)]
    now = [each.is_right(route) for each, route in zip(judged, after, strict=True)]
    lost = tuple(place for place, (old, new) in enumerate(zip(was, now, strict=True)) if old and not new)
    won = tuple(place for place, (old, new) in enumerate(zip(was, now, strict=True)) if new and not old)
    fits = [place for place, each in enumerate(judged) if each.right]
    changed = [sum(bool(judged[place].right) for place in places) for places in (won, lost)]
    gain = _gain(len(fits), sum(was[place] for place in fits), *changed)
    return Verdict(gain=gain, lost=lost, why=_why_not(judged, won, lost))


def _why_not(judged: Sequence[Judged], won: Sequence[int], lost: Sequence[int]) -> str:
    fits = [sum(bool(judged[place].right) for place in places) for places in (lost, won)]
    if fits[0] > fits[1]:
        return f"of {sum(bool(each.right) for each in judged)} requests {fits[0]} would be lost and {fits[1]} won"
    given = [[judged[place] for place in places if judged[place].part == "case"] for places in (lost, won)]
    fits = [sum(bool(each.right) for each in side) for side in given]
    if fits[0] > fits[1]:
        return f"of the labelled requests {fits[0]} would be lost and {fits[1]} won"
    none = [len(side) - some for side, some in zip(given, fits, strict=True)]
    if none[0] > none[1]:
        return (
            f"of the labelled requests that no flow is for, {none[0]} would seem to be for one, and {none[1]} no more"
        )
    counts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for column, places in enumerate((lost, won)):
        for place in places:
            for name in judged[place].right or {_NO_FLOW}:
                counts[name][column] += 1
    for name, (less, more) in sorted(counts.items()):
        if less > more and _chance(less, more) < _NOISE:
            return f"{name or 'what no flow is for'} would lose {less} requests and win {more}"
    return ""


def _chance(lost: int, won: int) -> float:
    """How probable so many losses or more are among the requests that changed, if losing were as likely as winning."""
    changed = lost + won
    return sum(comb(changed, each) for each in range(lost, changed + 1)) / 2**changed


def _gain(requests: int, right: int, won: int, lost: int) -> Gain:
    if not requests:
        return Gain(requests=0, before=0.0, after=0.0, low=0.0, high=0.0)
    change = (won - lost) / requests
    error = sqrt(max(0.0, (won + lost) / requests - change**2) / requests)
    return Gain(
        requests=requests,
        before=round(right / requests, 4),
        after=round((right + won - lost) / requests, 4),
        low=round(change - Z95 * error, 4),
        high=round(change + Z95 * error, 4),
    )


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="replace")).digest()
