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
from jazz_select.evaluation.route import Asked, Route
from jazz_select.flow.base import BaseFlow, FlowRegistry

_LEAST_EXAMPLES: Final = 3
"""A flow of fewer can spare none to be judged by."""
_MOST_OWN: Final = 1_000
_NOISE: Final = 0.05
"""As improbable as a flow's losses have to be, if nothing had changed, to count as one."""
_SURE: Final = 1.96
"""Standard errors to either side of what holds in 95 of 100."""
Part = Literal["held", "case", "own"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A request of the gate: where it is from, and the flows one of which has to come first."""

    asked: Asked
    right: frozenset[str]
    part: Part


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
    """Labelled requests that some flow is right for; of those that none is, recall alone decides nothing."""
    return [
        Judged(
            asked=Asked(request=case.request, episodes=case.episodes, context=case.context),
            right=frozenset(case.expect),
            part=part,
        )
        for case in cases
        if case.expect
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
    loses more than it wins beyond noise (a sign test at .05). The interval of the gain is that of paired shares
    (Wald, as McNemar's test takes them).
    """
    was = [route.first in each.right for each, route in zip(judged, before, strict=True)]
    now = [route.first in each.right for each, route in zip(judged, after, strict=True)]
    lost = tuple(place for place, (old, new) in enumerate(zip(was, now, strict=True)) if old and not new)
    won = tuple(place for place, (old, new) in enumerate(zip(was, now, strict=True)) if new and not old)
    gain = _gain(len(judged), sum(was), len(won), len(lost))
    return Verdict(gain=gain, lost=lost, why=_why_not(judged, won, lost))


def _why_not(judged: Sequence[Judged], won: Sequence[int], lost: Sequence[int]) -> str:
    if len(lost) > len(won):
        return f"of {len(judged)} requests {len(lost)} would be lost and {len(won)} won"
    given = [sum(judged[place].part == "case" for place in places) for places in (lost, won)]
    if given[0] > given[1]:
        return f"of the labelled requests {given[0]} would be lost and {given[1]} won"
    counts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for column, places in enumerate((lost, won)):
        for place in places:
            for name in judged[place].right:
                counts[name][column] += 1
    for name, (less, more) in sorted(counts.items()):
        if less > more and _chance(less, more) < _NOISE:
            return f"{name} would lose {less} requests and win {more}"
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
        low=round(change - _SURE * error, 4),
        high=round(change + _SURE * error, 4),
    )


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="replace")).digest()
