"""A plan: calls of tools that may refer to each other's outputs, checked before any of them runs. Pure."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from typing import Any, Final, NamedTuple, cast
from urllib.parse import unquote

from jazz_select.json_values import is_object, unquoted_json
from jazz_select.routing.names.resolution import NameIndex
from jazz_select.routing.schemas.fields import RESULT, Schema, alternatives, mapping
from jazz_select.text import beginning, some_of

_WELL_FORMED = re.compile(r"(?:/(?:[^~/]|~[01])*)*")
_INDEX = re.compile(r"0|[1-9][0-9]{0,17}")
_SHOWN = 5
_LONGEST_KEY: Final = 80
MOST_STEPS: Final = 64
DEEPEST: Final = 64
"""Arguments that are nested deeper are refused."""
_MOST_VALUES = 100_000
_REF = "$ref"
_ID = re.compile(r"[^#\s]{1,100}")
_LISTED: Final = 8


@dataclass(frozen=True, slots=True)
class Missing:
    """The pointer leads nowhere."""

    problem: str


@dataclass(frozen=True, slots=True)
class NotYet:
    """The step has not run: references to its output stay."""


def pointer_problem(pointer: str) -> str:
    """Say what is wrong with the spelling of a pointer; empty if nothing is."""
    if _WELL_FORMED.fullmatch(pointer):
        return ""
    if not pointer.startswith("/"):
        return "a pointer must begin with '/'"
    return "'~' must be written '~0', and '/' within a name '~1'"


def look_up(value: Any, pointer: str) -> Any:
    """Return the part of `value` at a well-formed pointer, or Missing.

    After a `#` characters may be percent-encoded; a key that matches literally takes precedence. `/result` is the value
    itself if it has no such field: models are told of an output under that name.
    """
    here, path = value, ""
    tokens = pointer.split("/")[1:]
    if tokens[:1] == [RESULT]:
        shown = unquoted_json(value)
        if not is_object(shown) or RESULT not in shown:
            tokens = tokens[1:]
    for token in tokens:
        found = _child(here, _unescape(token))
        if isinstance(found, Missing):
            return Missing(f"{path or 'the output'} {found.problem}")
        here, path = found, f"{path}/{token}"
    return here


def _unescape(token: str) -> str:
    return token.replace("~1", "/").replace("~0", "~")  # in this order: "~01" is a written "~1"


def _child(value: Any, key: str) -> Any:
    value = unquoted_json(value)  # as models are shown it
    if is_object(value):
        for spelling in (key, unquote(key)):
            if spelling in value:
                return value[spelling]
        return Missing(f"has no {_short(key)}; it has {_list_fields(value)}")
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        items = cast("Sequence[Any]", value)
        if not _INDEX.fullmatch(key):
            return Missing(f"is a list, and {_short(key)} is no place in it")
        if int(key) >= len(items):
            return Missing(f"has {len(items)} items, so none at {key}")
        return items[int(key)]
    kind = "null" if value is None else type(value).__name__
    return Missing(f"is {kind}, so there is no {_short(key)} in it")


def _short(key: str) -> str:
    return repr(beginning(key, _LONGEST_KEY))


def _list_fields(fields: Mapping[str, Any]) -> str:
    return some_of(fields, _SHOWN, lambda name: _short(str(name))) or "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStep:
    """One call of a plan.

    Attributes:
        tool: The name that the model gave, unresolved.
        arguments: JSON values that may contain references.
        id: Its id for other steps; empty until assigned.
        after: Ids of steps that have to come before, beside those whose outputs it uses.
        problem: Why the call cannot run as written, or "".
    """

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    id: str = ""
    problem: str = ""
    after: tuple[str, ...] = ()


class Reference(NamedTuple):
    """Where a value comes from."""

    step: str
    pointer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Calls in planned order with their dependencies. Build it with `Plan.from_steps`.

    Attributes:
        steps: The calls, each with an id.
        problems: All problems. A plan with problems does not run, not even in part.
        needs: The steps whose outputs each step uses.
        by_model: Whether a model made it: then nobody has decided that destructive tools may run.
    """

    steps: tuple[PlanStep, ...] = ()
    problems: tuple[str, ...] = ()
    needs: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    by_model: bool = False

    @classmethod
    def from_steps(cls, steps: Iterable[PlanStep], *, by_model: bool = False) -> "Plan":
        """Build the plan of these steps: missing ids are added, references are checked."""
        named, twice = _with_ids(tuple(steps))
        problems: list[str] = []
        if len(named) > MOST_STEPS:
            problems.append(f"a plan must have at most {MOST_STEPS} steps, got {len(named)}")
        ids = {step.id for step in named}
        needs: dict[str, tuple[str, ...]] = {}
        for step in named:
            references, own_problems = references_in(step.arguments)
            references += [Reference(each, "") for each in step.after]
            for reference in references:
                own_problems += _reference_problems(reference, step.id, ids, twice)
            problems += [f"{step.id}: {problem}" for problem in own_problems]
            others = ids - {step.id}
            needs[step.id] = tuple(dict.fromkeys(each.step for each in references if each.step in others))
        problems += [f"steps wait for each other: {' → '.join(cycle)}" for cycle in _cycles(needs)]
        return cls(steps=named, problems=tuple(problems), needs=needs, by_model=by_model)

    def error(self) -> dict[str, Any]:
        """Return the error to hand back to the model; empty if the plan can be run."""
        if not self.problems:
            return {}
        return {"error": "The plan cannot be run.", "problems": list(self.problems)}


def references_in(arguments: Mapping[str, Any]) -> tuple[list[Reference], list[str]]:
    """Find the references in these arguments, at any depth and in order, and the problems of malformed ones."""
    found: list[Reference] = []
    problems: list[str] = []
    stack: list[tuple[Any, int]] = [(arguments, 0)]
    for _ in range(_MOST_VALUES):
        if not stack:
            return found, problems
        value, depth = stack.pop()
        if depth > DEEPEST:
            return found, [*problems, f"the arguments are nested deeper than {DEEPEST} levels"]
        if is_object(value) and _REF in value:
            reference = _reference(value)
            if isinstance(reference, str):
                problems.append(reference)
            else:
                found.append(reference)
        elif is_object(value):
            stack.extend((each, depth + 1) for each in reversed([*value.values()]))
        elif isinstance(value, list | tuple):
            stack.extend((each, depth + 1) for each in reversed(cast("list[Any]", value)))
    return found, [*problems, f"the arguments hold more than {_MOST_VALUES} values"]


def parse_reference(value: Mapping[str, Any]) -> Reference:
    """Return the parts of a reference that was checked."""
    step, _, pointer = str(value[_REF]).partition("#")
    return Reference(step.strip(), pointer)


def with_outputs(value: Any, output_of: Callable[[str], Any], lost: list[str]) -> Any:
    """Return `value` with copies of the outputs that its references, checked before, lead to.

    A reference stays as it is where `output_of` gives `NotYet`; what leads nowhere is added to `lost`.
    """
    if isinstance(value, list | tuple):
        return [with_outputs(each, output_of, lost) for each in cast("list[Any]", value)]
    if not is_object(value):
        return value
    if _REF not in value:
        return {key: with_outputs(each, output_of, lost) for key, each in value.items()}
    step, pointer = parse_reference(value)
    output = output_of(step)
    if isinstance(output, NotYet):
        return dict(value)
    found, place = output, ""
    if not isinstance(output, Missing):
        found, place = look_up(output, pointer), f"{step}#{pointer:.200}: "
    if isinstance(found, Missing):
        lost.append(f"{place}{found.problem}")
        return None
    return deepcopy(found)  # a tool may change what it is given, and the output stays what it was


def with_steps_named(value: Any, names: Mapping[str, str]) -> Any:
    """Return `value` with other ids for these steps in its references."""
    if isinstance(value, list | tuple):
        return [with_steps_named(each, names) for each in cast("list[Any]", value)]
    if not is_object(value):
        return value
    if _REF not in value:
        return {key: with_steps_named(each, names) for key, each in value.items()}
    step, pointer = parse_reference(value)
    return {_REF: f"{names[step]}#{pointer}"} if step in names else dict(value)


def _reference(fields: Mapping[str, Any]) -> Reference | str:
    """Return a reference, or what is wrong with it."""
    text = fields[_REF]
    if not isinstance(text, str):
        return f"{_REF} must be a text such as 's1#/items/0/id', got {text!r:.80}"
    if len(fields) > 1:
        return f"an object with {_REF} {text!r:.80} must hold nothing else"
    reference = parse_reference(fields)
    if not reference.step:
        return f"{_REF} {text!r:.80} must name a step, as in 's1#/items/0/id'"
    problem = pointer_problem(reference.pointer)
    return f"{_REF} {text!r:.80}: {problem}" if problem else reference


def _reference_problems(reference: Reference, own: str, ids: set[str], twice: set[str]) -> list[str]:
    if reference.step == own:
        return ["refers to its own output"]
    if reference.step in twice:
        return [f"refers to {reference.step!r:.80}, which is the id of two steps"]
    if reference.step not in ids:
        return [f"refers to {reference.step!r:.80}, which is no step of this plan"]
    return []


def _with_ids(steps: tuple[PlanStep, ...]) -> tuple[tuple[PlanStep, ...], set[str]]:
    """Give each step an id; return the steps and the duplicate ids. A new id, such as s2, tells the position."""
    wanted = [step.id if _ID.fullmatch(step.id) else "" for step in steps]
    twice: set[str] = set()
    if len(wanted) <= 10 * MOST_STEPS:  # a longer plan is refused for its length
        twice = {each for each in wanted if each and wanted.count(each) > 1}
    taken = set(wanted)
    seen: set[str] = set()
    named: list[PlanStep] = []
    for place, (step, own) in enumerate(zip(steps, wanted, strict=True), start=1):
        unique = own
        if not own or own in seen:
            unique = f"s{place}"
            while unique in taken:
                unique = f"{unique}_"
            taken.add(unique)
        seen.add(unique)
        named.append(replace(step, id=unique))
    return tuple(named), twice


def _cycles(needs: Mapping[str, tuple[str, ...]]) -> list[list[str]]:
    """Return the cycles of steps that wait for each other; a step is in at most one."""
    remaining = dict(needs)
    found: list[list[str]] = []
    while True:  # the sorter tells one cycle at a time
        try:
            TopologicalSorter(remaining).prepare()
        except CycleError as error:
            found.append(error.args[1][::-1])
            remaining = {step: before for step, before in remaining.items() if step not in found[-1]}
        else:
            return found


def dangling_references(plan: Plan, index: NameIndex) -> tuple[str, ...]:
    """Return a problem for each reference to an undeclared field of a declared output.

    An output counts as declared if its schema lists `properties` and leaves no others open. All else is found at run
    time.
    """
    tools = {step.id: index.resolve(step.tool).tool for step in plan.steps}
    problems: list[str] = []
    for step in plan.steps:
        for reference in references_in(step.arguments)[0]:
            tool = tools.get(reference.step)
            if tool is None or tool.output_schema is None:
                continue
            problem = _missing_place(reference.pointer, tool.output_schema)
            if problem:
                place = f"{step.id}: {reference.step}#{reference.pointer:.200}"
                problems.append(f"{place}: the output of {tool.name} {problem}")
    return tuple(problems)


def _missing_place(pointer: str, root: Schema) -> str:
    """Return where a pointer leaves what the schema describes, or ""; `/result` may be the whole, as in `look_up`."""
    tokens = pointer.split("/")[1:]
    problem = _missing_field(tokens, root)
    if problem and tokens[0] == RESULT:
        return _missing_field(tokens[1:], root)
    return problem


def _missing_field(tokens: Sequence[str], root: Schema) -> str:
    here: list[object] = [root]
    for token in tokens:
        key = _unescape(token)
        parts: list[object] = []
        known: dict[str, None] = {}
        for each in chain.from_iterable(alternatives(schema, root) for schema in here):
            part = _part_schema(each.schema, each.type, key) if each.certain else True
            if part is True:
                return ""
            if part is not None:
                parts.append(part)
            known |= dict.fromkeys(map(str, mapping(each.schema.get("properties"))))
        if not parts:
            return f"has no {key!r:.80}; it has {', '.join([*known][:_LISTED]) or 'no fields'}"
        here = parts
    return ""


def _part_schema(schema: Schema, kind: str, key: str) -> object:
    """Return the schema of one part: True if anything is allowed, None if the part cannot exist."""
    if kind == "object":
        properties: object = schema.get("properties")
        if not is_object(properties) or "patternProperties" in schema:
            return True
        for spelling in (key, unquote(key)):
            if spelling in properties:
                return properties[spelling]
        more = schema.get("additionalProperties", True)
        return None if more is False else more
    if kind == "array":
        if not key.isdecimal():
            return None
        return True if "prefixItems" in schema else schema.get("items", True)
    return True if kind == "" else None
