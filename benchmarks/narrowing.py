"""Which tools can follow: by our formula, and by names alone. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.datasets.schemas import Catalogue, GoldCall
from benchmarks.metrics import percentile
from jazz_select.routing.schemas.compatibility import (
    CompatibilityIndex,
    Scores,
    Slot,
    field_score,
    outputs,
    schema_of,
)
from jazz_select.routing.schemas.fields import fields
from jazz_select.routing.tools.tool import Tool
from jazz_select.words import folded_name

Scorer = Callable[[Sequence[Slot]], Scores]
"""What is there, to a score for every tool."""
LIMIT = 10
"""The most that one who chooses is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A place where a tool is to be chosen.

    Attributes:
        fields: What is there.
        last: The tool that ran last; it is not offered again.
        gold: The tool that comes next in the answer; "" where nobody knows.
        linked: Whether that one takes something which an earlier tool gave.
    """

    fields: tuple[Slot, ...]
    last: str = ""
    gold: str = ""
    linked: bool = False


def formula(tools: Sequence[Tool]) -> Scorer:
    """`compatibility_score`."""
    return CompatibilityIndex(tools).scores


def without_types(tools: Sequence[Tool]) -> Scorer:
    """The same, where every tool takes values of any type."""
    return CompatibilityIndex([replace(tool, input_schema=_untyped(tool)) for tool in tools]).scores


def equal_names(tools: Sequence[Tool]) -> Scorer:
    """1 where all that a tool requires is there by exactly its name, else 0."""
    wanted = [frozenset(each.name for each in _deciding(tool)) for tool in tools]
    empty = np.array([not names for names in wanted])

    def scores(available: Sequence[Slot]) -> Scores:
        there = {each.name for each in available}
        return np.where(empty, 0.0, [float(names <= there) for names in wanted])

    return scores


METHODS: Mapping[str, Callable[[Sequence[Tool]], Scorer]] = {
    "names and types": formula,
    "names, no types": without_types,
    "equal names": equal_names,
}


def _untyped(tool: Tool) -> dict[str, object]:
    known = fields(tool.input_schema)
    return {
        "type": "object",
        "properties": {name: {} for name in known},
        "required": [name for name, (_, needed) in known.items() if needed],
    }


def narrowed(scores: Scores, names: Sequence[str], last: str, least: float) -> list[str]:
    """As the analyzer does it: from `least` on, best first, equals in the order of registration."""
    order: list[int] = np.argsort(-scores, kind="stable").tolist()
    return [names[place] for place in order if scores[place] >= max(least, 1e-12) and names[place] != last]


def after_each(catalogue: Catalogue) -> Iterator[Point]:
    """After every tool, with what it gives and nothing else."""
    for tool in catalogue.tools:
        yield Point(fields=outputs(tool), last=tool.name)


def from_request(catalogue: Catalogue) -> Iterator[Point]:
    """Before the only call, with the values of the arguments that it gets."""
    for (call,) in catalogue.answers:
        yield Point(fields=_given(call), gold=call.tool)


def so_far(catalogue: Catalogue) -> Iterator[Point]:
    """After each call but the last, with what the calls so far took and gave."""
    for calls in catalogue.answers:
        for place in range(1, len(calls)):
            yield _point(catalogue, calls, place, calls[:place])


def all_given(catalogue: Catalogue) -> Iterator[Point]:
    """Likewise, with the arguments that the request gives to the calls to come as well, by their names."""
    for calls in catalogue.answers:
        for place in range(1, len(calls)):
            yield _point(catalogue, calls, place, calls)


def _given(call: GoldCall) -> tuple[Slot, ...]:
    return tuple(Slot(name, schema_of(value)) for name, value in call.arguments.items())


def _point(catalogue: Catalogue, calls: Sequence[GoldCall], place: int, telling: Sequence[GoldCall]) -> Point:
    """As a run keeps it: arguments by their values, outputs as they are declared."""
    there: dict[str, Slot] = {}
    for call in telling:
        there |= {each.name: each for each in _given(call)}
    for call in calls[:place]:
        there |= {each.name: each for each in outputs(catalogue.by_name[call.tool])}
    return Point(
        fields=tuple(there.values()),
        last=calls[place - 1].tool,
        gold=calls[place].tool,
        linked=bool(calls[place].links),
    )


def counted(points: Sequence[Point], tools: Sequence[Tool], scorer: Scorer) -> dict[str, float]:
    """How many tools remain, and whether the right one is among them.

    `lost_free` are right ones that do not remain and require no argument.
    """
    names = [tool.name for tool in tools]
    free = {tool.name for tool in tools if not any(each.certain for each in _all_inputs(tool))}
    most, certain, sizes = 0, 0, list[int]()
    found = {"gold": 0, "first_10": 0, "first": 0, "gold_sure": 0, "single": 0, "single_right": 0, "lost_free": 0}
    for point in points:
        scores = scorer(point.fields)
        left = narrowed(scores, names, point.last, 0.5)
        sure = narrowed(scores, names, point.last, 1.0)
        sizes.append(len(left))
        most, certain = most + len(left), certain + len(sure)
        found["single"] += len(left) == 1
        if point.gold:
            found["gold"] += point.gold in left
            found["lost_free"] += point.gold not in left and point.gold in free
            found["gold_sure"] += point.gold in sure
            found["first_10"] += point.gold in left[:LIMIT]
            found["first"] += point.gold in left[:1]
            found["single_right"] += left == [point.gold]
    return {
        "points": len(points),
        "with_gold": sum(bool(point.gold) for point in points),
        "again": sum(bool(point.gold) and point.gold == point.last for point in points),
        "share": most / (len(points) * len(names)),
        "share_sure": certain / (len(points) * len(names)),
        "p50": percentile(sizes, 0.5),
        "p90": percentile(sizes, 0.9),
        "most": max(sizes),
        "p50_shown": percentile([min(size, LIMIT) for size in sizes], 0.5),
        "p90_shown": percentile([min(size, LIMIT) for size in sizes], 0.9),
        "none": sum(not size for size in sizes),
        **found,
    }


def links(catalogue: Catalogue) -> dict[str, int]:
    """Of the arguments that an earlier call gives: how many are called what that call calls them, and fit."""
    found = {"links": 0, "one_name": 0, "alike": 0, "fit": 0}
    for call in (call for calls in catalogue.answers for call in calls):
        wanted = {each.name: each for each in _all_inputs(catalogue.by_name[call.tool])}
        for link in call.links:
            there = next(each for each in outputs(catalogue.by_name[link.producer]) if each.name == link.output)
            found["links"] += 1
            found["one_name"] += link.argument == link.output
            found["alike"] += folded_name(link.argument) == folded_name(link.output)
            found["fit"] += field_score([replace(there, name=link.argument)], wanted[link.argument]) == 1
    return found


def _deciding(tool: Tool) -> tuple[Slot, ...]:
    """What decides whether a tool can run: its required arguments, or all of them where none is required."""
    wanted = _all_inputs(tool)
    return tuple(each for each in wanted if each.certain) or wanted


def _all_inputs(tool: Tool) -> tuple[Slot, ...]:
    known = fields(tool.input_schema)
    return tuple(Slot(name, part, tool.input_schema, needed) for name, (part, needed) in known.items())
