"""Inputs of flows beside the tools that take them: choices in the type of the parameter, and what is wrong."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from jazz_select.errors import FlowValidationError
from jazz_select.flow.base import BaseFlow, steps_named
from jazz_select.flow.data import place_of_input
from jazz_select.flow.inputs import Input, ToolChoices, allowed_values
from jazz_select.json_values import is_array, is_object
from jazz_select.routing.schemas.fields import Schema, alternatives, fields, type_text
from jazz_select.routing.schemas.validity import invalid
from jazz_select.routing.tools.tool import Tool
from jazz_select.text import beginning, did_you_mean

_LONGEST: Final = 80
_NUMERIC: Final = frozenset({"integer", "number"})


class InputFault(NamedTuple):
    """What is wrong with an input beside the tools of its flow.

    Attributes:
        flow: The flow that declares it.
        number: Its place among the inputs, from 0.
        field: The field that is wrong.
        problem: What is wrong, and behind a semicolon what to do.
    """

    flow: BaseFlow
    number: int
    field: str
    problem: str

    def error(self) -> FlowValidationError:
        """Return the error to raise, with file and line where a data file holds the flow."""
        field = f"inputs[{self.number}].{self.field}"
        return FlowValidationError(self.flow.label, field, self.problem, place=place_of_input(self.flow, field))


def in_type_of(value: Any, name: str, part: object, root: Schema) -> tuple[Any, bool]:
    """Return a value in a form that a parameter takes, and whether there is one: "5" as 5 where it is a number."""
    forms: list[Any] = [value]
    if isinstance(value, str):
        forms += _read_forms(value, part, root)
    elif not isinstance(value, bool):
        forms.append(str(value))
    for form in forms:
        if _takes(form, name, part, root):
            return form, True
    return value, False


def _read_forms(text: str, part: object, root: Schema) -> Iterator[Any]:
    kinds = {each.type for each in alternatives(part, root)}
    if kinds & _NUMERIC:
        for read in (int, float):
            with suppress(ValueError):
                yield read(text)
    if "boolean" in kinds and text.casefold() in {"true", "false"}:
        yield text.casefold() == "true"


def _takes(value: Any, name: str, part: object, root: Schema) -> bool:
    schema = {**root, "type": "object", "properties": {name: part}, "required": [name]}
    return not invalid(schema, {name: value}, formats=False)


def listed_choices(declared: Input, part: object, root: Schema) -> list[Any]:
    """Return the choices that an author lists, in the type of the parameter."""
    return [in_type_of(each, declared.name, part, root)[0] for each in declared.listed]


def input_faults(flows: Iterable[BaseFlow], tools: Mapping[str, Tool]) -> Iterator[InputFault]:
    """Yield what is wrong with the inputs of flows beside these tools: types, choices, conditions and proposals."""
    for flow in flows:
        if flow.manual:
            continue
        taken = parameters_of(flow, tools)
        for number, each in enumerate(flow.inputs):
            for field, problem in _faults_of(each, flow, taken, tools):
                yield InputFault(flow, number, field, problem)


def parameters_of(flow: BaseFlow, tools: Mapping[str, Tool]) -> dict[str, tuple[object, Tool]]:
    """Return the schema of each parameter of a flow's tools, parts included, with the first tool that has it."""
    found: dict[str, tuple[object, Tool]] = {}
    for name in _tools_of(flow):
        if name in tools:
            for parameter, (part, _) in fields(tools[name].input_schema).items():
                found.setdefault(parameter, (part, tools[name]))
    return found


def _tools_of(flow: BaseFlow) -> Iterator[str]:
    yield from flow.own_tools
    for part in flow.parts_there():
        yield from _tools_of(part)


def _faults_of(
    declared: Input, flow: BaseFlow, taken: Mapping[str, tuple[object, Tool]], tools: Mapping[str, Tool]
) -> Iterator[tuple[str, str]]:
    """Yield the field and the problem of each fault of one input."""
    if declared.by_tool is not None:
        for problem in _tool_problems(declared.by_tool, tools):
            yield "choices", problem
    # Each value with the field that holds it and the parameter that takes it.
    values = [("choices", declared.name, value) for value in declared.listed]
    if declared.propose is not None and not declared.proposes_from:
        values.append(("propose", declared.name, declared.propose))
    inputs = {each.name for each in flow.inputs}
    for name, wanted in declared.when.items():
        if name in inputs:
            # True and False stand for "given" and "not given" there, whatever the type.
            values += [("when", name, value) for value in allowed_values(wanted) if not isinstance(value, bool)]
    for field, name, value in values:
        problem = _type_problem(value, name, taken)
        if problem:
            yield field, problem
    needing = _step_that_needs(declared.name, flow, tools) if declared.when else ""
    if needing:
        advice = "make the parameter optional, or take `when` out"
        yield "when", f"leaves {declared.name} out at times, and {needing} cannot do without it; {advice}"


def _type_problem(value: Any, name: str, taken: Mapping[str, tuple[object, Tool]]) -> str:
    if name not in taken:
        return ""
    part, tool = taken[name]
    if in_type_of(value, name, part, tool.input_schema)[1]:
        return ""
    kind = beginning(type_text(part, tool.input_schema), _LONGEST)
    return f"{tool.name} takes {name} as {kind}, which {value!r:.80} is not; write a value that it takes"


def _step_that_needs(name: str, flow: BaseFlow, tools: Mapping[str, Tool]) -> str:
    """Return the first step of a flow's own chain that cannot be called without an input, or ""."""
    for step in steps_named(flow):
        if step in tools and fields(tools[step].input_schema).get(name, (None, False))[1]:
            return step
    return ""


def _tool_problems(choices: ToolChoices, tools: Mapping[str, Tool]) -> Iterator[str]:
    tool = tools.get(choices.tool)
    if tool is None:
        advice = did_you_mean(choices.tool, tools) or "connect it"
        yield f"the tool {choices.tool!r:.80} is not connected; {advice}"
        return
    if not tool.reads:
        yield f"the tool {choices.tool!r:.80} may change something; declare it `read_only=True`, or name another one"
    takes = fields(tool.input_schema)
    for argument in choices.arguments:
        if argument not in takes and argument not in tool.from_context:
            advice = did_you_mean(argument, takes) or f"it takes {', '.join(takes) or 'nothing'}"
            yield f"the tool {choices.tool!r:.80} has no argument {argument!r:.80}; {advice}"
    known = _entry_fields(tool)
    for field in filter(None, (choices.value, choices.label)):
        if known and field not in known:
            advice = did_you_mean(field, known) or f"there are {', '.join(known)}"
            yield f"the entries of {choices.tool!r:.80} have no field {field!r:.80}; {advice}"


def _entry_fields(tool: Tool) -> Sequence[str]:
    """Return the names of the fields of the entries that a tool declares to list; none if it does not say."""
    root: Schema = tool.output_schema or {}
    parts: list[object] = [root, *(part for part, _ in fields(root).values())]
    lists = [part for part in parts if _is_list(part, root)]
    if len(lists) != 1:
        return ()
    found: dict[str, None] = {}
    for each in alternatives(lists[0], root):
        items = each.schema.get("items")
        if items is None:
            continue
        for entry in alternatives(items, root):
            found |= dict.fromkeys(fields({**root, **entry.schema}))
    return [*found]


def _is_list(part: object, root: Schema) -> bool:
    return [each.type for each in alternatives(part, root) if each.type != "null"] == ["array"]


def entries_of(output: object) -> list[Any] | None:
    """Return the entries of a tool's output: a list, or the only list in an object; None if there is none."""
    if is_array(output):
        return output
    if not is_object(output):
        return None
    lists = [each for each in output.values() if is_array(each)]
    return lists[0] if len(lists) == 1 else None
