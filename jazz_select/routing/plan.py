"""A plan: calls of tools that may use each other's outputs. Pure; everything is checked before anything runs.

A reference is an object, `{"$ref": "s1#/items/0/id"}`: the id of a step, then a JSON Pointer
into its output. It is replaced by that value, of whatever type. Text is never expanded, so
that nothing a tool returns can become a reference.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, cast

from jazz_select.routing.pointer import malformed

MOST_STEPS: Final = 64
DEEPEST: Final = 64
"""Arguments that are nested deeper are refused."""
_MOST_VALUES = 100_000
_REF = "$ref"
_ID = re.compile(r"[^#\s]{1,100}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStep:
    """One call.

    Attributes:
        tool: The name that the model gave; not yet resolved.
        arguments: JSON values, in which references may stand.
        id: What other steps call it by; empty where it is yet to be given one.
        problem: Why the call cannot be run as it was written; empty where it can.
    """

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    id: str = ""
    problem: str = ""


class Reference(NamedTuple):
    """Where a value comes from."""

    step: str
    pointer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Calls in planned order, and what each waits for. Build it with `Plan.of`.

    Attributes:
        steps: The calls, each with an id of its own.
        problems: Everything that is wrong with it. A plan with problems is not run, not even in parts.
        needs: Step to the steps whose outputs it uses.
    """

    steps: tuple[PlanStep, ...] = ()
    problems: tuple[str, ...] = ()
    needs: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    @classmethod
    def of(cls, steps: Iterable[PlanStep]) -> "Plan":
        """The plan of these calls: ids are given where they are missing, references are checked."""
        named, twice = _with_ids(tuple(steps))
        problems = [f"a plan has at most {MOST_STEPS} steps, not {len(named)}"] if len(named) > MOST_STEPS else []
        ids = {step.id for step in named}
        needs: dict[str, tuple[str, ...]] = {}
        for step in named:
            references, found = references_in(step.arguments)
            for reference in references:
                found += _unusable(reference, step.id, ids, twice)
            problems += [f"{step.id}: {problem}" for problem in found]
            needs[step.id] = tuple(dict.fromkeys(each.step for each in references if each.step in ids - {step.id}))
        problems += [f"steps wait for each other: {' → '.join(cycle)}" for cycle in _cycles(needs)]
        return cls(steps=named, problems=tuple(problems), needs=needs)

    @property
    def layers(self) -> tuple[tuple[str, ...], ...]:
        """Ids by layer: the steps of one wait only for those before it. Planned order within each."""
        done: set[str] = set()
        layers: list[tuple[str, ...]] = []
        while layer := tuple(
            step.id for step in self.steps if step.id not in done and done.issuperset(self.needs.get(step.id, ()))
        ):
            layers.append(layer)
            done.update(layer)
        return tuple(layers)

    def error(self) -> dict[str, Any]:
        """What is wrong with it, to hand back to the model; empty where nothing is."""
        return {"error": "The plan cannot be run.", "problems": list(self.problems)} if self.problems else {}


def references_in(arguments: Mapping[str, Any]) -> tuple[list[Reference], list[str]]:
    """The references in these arguments, however deep, in order; and what is wrong with those that are none."""
    found: list[Reference] = []
    problems: list[str] = []
    stack: list[tuple[Any, int]] = [(arguments, 0)]
    for _ in range(_MOST_VALUES):
        if not stack:
            return found, problems
        value, depth = stack.pop()
        if depth > DEEPEST:
            return found, [*problems, f"the arguments are nested deeper than {DEEPEST} levels"]
        if isinstance(value, Mapping):
            fields = cast("Mapping[str, Any]", value)
            if _REF in fields:
                read = _reference(fields)
                (problems if isinstance(read, str) else found).append(cast("Any", read))
            else:
                stack.extend((each, depth + 1) for each in reversed([*fields.values()]))
        elif isinstance(value, list | tuple):
            stack.extend((each, depth + 1) for each in reversed(cast("list[Any]", value)))
    return found, [*problems, f"the arguments hold more than {_MOST_VALUES} values"]


def is_reference(value: object) -> bool:
    """True for an object with `$ref` in it."""
    return isinstance(value, Mapping) and _REF in value


def parsed(value: Mapping[str, Any]) -> Reference:
    """The parts of a reference that was checked."""
    step, _, pointer = str(value[_REF]).partition("#")
    return Reference(step.strip(), pointer)


def _reference(fields: Mapping[str, Any]) -> Reference | str:
    """What a reference names, or what is wrong with it."""
    text = fields[_REF]
    if not isinstance(text, str):
        return f"{_REF} is a text such as 's1#/items/0/id', not {text!r:.80}"
    if len(fields) > 1:
        return f"beside {_REF} {text!r:.80} an object holds nothing else"
    read = parsed(fields)
    if not read.step:
        return f"{_REF} {text!r:.80} names no step"
    problem = malformed(read.pointer)
    return f"{_REF} {text!r:.80}: {problem}" if problem else read


def _unusable(reference: Reference, own: str, ids: set[str], twice: set[str]) -> list[str]:
    if reference.step == own:
        return ["refers to its own output"]
    if reference.step in twice:
        return [f"refers to {reference.step!r:.80}, which is the id of two steps"]
    if reference.step not in ids:
        return [f"refers to {reference.step!r:.80}, which is no step of this plan"]
    return []


def _with_ids(steps: tuple[PlanStep, ...]) -> tuple[tuple[PlanStep, ...], set[str]]:
    """The steps with an id each, and the ids that two of them asked for. A fresh id, such as s2, says the place."""
    wanted = [step.id if _ID.fullmatch(step.id) else "" for step in steps]
    twice = (
        {each for each in wanted if each and wanted.count(each) > 1} if len(wanted) <= 10 * MOST_STEPS else set[str]()
    )
    taken = set(wanted)
    seen: set[str] = set()
    named: list[PlanStep] = []
    for place, (step, own) in enumerate(zip(steps, wanted, strict=True), start=1):
        given = own
        if not own or own in seen:
            given = f"s{place}"
            while given in taken:
                given = f"{given}_"
            taken.add(given)
        seen.add(given)
        named.append(replace(step, id=given))
    return tuple(named), twice


def _cycles(needs: Mapping[str, tuple[str, ...]]) -> list[list[str]]:
    """Circles of steps that wait for each other, each step in one at most."""
    left = dict(needs)
    while ready := [step for step, before in left.items() if not any(each in left for each in before)]:
        for step in ready:
            del left[step]
    found: list[list[str]] = []
    while left:
        way = [next(iter(left))]
        while (following := next((each for each in left[way[-1]] if each in left), None)) not in {None, *way}:
            way.append(str(following))
        if following is not None:
            found.append([*way[way.index(following) :], following])
        for step in way:
            del left[step]
    return found
