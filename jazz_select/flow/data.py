"""Flows as data: YAML and JSON files, checked by pydantic, with errors that name file, flow and field."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, cast

import yaml
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError
from pydantic_core import ErrorDetails

from jazz_select.arguments import problem_in
from jazz_select.data_files import documents_of, place_of
from jazz_select.errors import (
    ConfigError,
    DataFileError,
    FlowError,
    FlowLoadError,
    FlowValidationError,
    JazzSelectError,
    raise_all,
)
from jazz_select.flow.base import BaseFlow, Flow, chain_of, current_scope
from jazz_select.flow.composite import CompositeFlow, ConditionalFlow, ParallelFlow, SequentialFlow
from jazz_select.flow.field_checks import Subject, bar_faults, check_text, fault_in_reply, field_faults
from jazz_select.flow.inputs import Input, ToolChoices
from jazz_select.flow.origin import read_from, short_path
from jazz_select.json_values import is_array
from jazz_select.text import beginning, describe_value, near

_LONGEST_FIELD, _LONGEST_PROBLEM, _MOST_NAMED = 80, 500, 10
_STEPS: Final = re.compile(r"[^.\[\]]+")
_ENTRY: Final = re.compile(r"(?P<file>.+) \(flow (?P<entry>\d+)\)", re.DOTALL)
SUFFIXES = (".json", ".yaml", ".yml")
_PLAIN: dict[str, type[CompositeFlow]] = {"sequential": SequentialFlow, "parallel": ParallelFlow}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class BranchData(_Strict):
    """`{when: "the parcel was lost", flow: resend_order}`."""

    when: str
    flow: str


class ToolChoicesData(_Strict):
    """`{tool: list_rooms, value: id, label: name}`; the fields of `ToolChoices`."""

    tool: str
    value: str = ""
    label: str = ""
    arguments: dict[str, str] = {}


_LISTED, _BY_TOOL = "listed", "by tool"


def _kind_of_choices(given: object) -> str:
    return _BY_TOOL if isinstance(given, dict | ToolChoicesData) else _LISTED


class InputData(_Strict):
    """An input; the fields of `Input`, with the name of a tool for `check`."""

    name: str
    question: str = ""
    choices: Annotated[
        Annotated[list[str | int | float], Tag(_LISTED)] | Annotated[ToolChoicesData, Tag(_BY_TOOL)],
        Discriminator(_kind_of_choices),
    ] = []
    example: str = ""
    check: str | None = None
    problem: str = ""
    required: bool = True
    when: dict[str, Any] = {}
    propose: Any = None


class FlowData(_Strict):
    """One flow of a data file: the fields of `Flow` and of the composites, with parts by name."""

    name: str
    type: Literal["flow", "sequential", "parallel", "conditional"] = "flow"
    description: str = ""
    condition: str = ""
    desired_effects: list[str] = []
    examples: list[str] = []
    aliases: list[str] = []
    tools: list[str] = []
    steps: list[str] = []
    priority: Annotated[list[int], Field(min_length=2, max_length=2)] = [0, 0]
    flows: list[str] = []
    branches: list[BranchData] = []
    otherwise: str | None = None
    chain: list[Any] = []
    reply: str = ""
    title: str = ""
    owner: str = ""
    optional_tools: list[str] = []
    manual: bool = False
    max_error: float | None = None
    inputs: list[InputData] = []
    ask: Literal["one", "together"] = "one"
    calls: list[str] = []
    handover: bool = False
    only_called: bool = False


def read_each(file: Path) -> Iterator[BaseFlow | FlowError]:
    """Yield each flow of a data file, or its error; an error does not stop the rest.

    Raises:
        FlowLoadError: The file cannot be read, or holds something other than flows.
    """
    entries = list(_entries(file))
    if not entries:
        raise FlowLoadError(short_path(str(file)), "it holds no flows; write at least one, or delete the file")
    for number, entry in enumerate(entries, start=1):
        try:
            yield _read_entry(file, number, entry)
        except FlowError as error:
            yield _with_lines(error)


def entry_nodes(file: str) -> list[yaml.Node]:
    """Return the YAML nodes of the flows of a data file, in order; none if it cannot be read."""
    try:
        documents = documents_of(Path(file), suffix=".yaml")  # the JSON of flows is valid YAML
    except DataFileError:
        return []
    found: list[yaml.Node] = []
    for content, root in documents:
        if content is None:
            continue
        node: Any = root
        if isinstance(content, dict) and "flows" in content and "name" not in content:
            node = next(value for key, value in cast("Any", root).value if key.value == "flows")
        found.extend(node.value if isinstance(node, yaml.SequenceNode) else [node])
    return found


def place_of_input(flow: BaseFlow, field: str) -> str:
    """Return where a field of an input stands, such as `inputs[1].when`: with its line, if a data file holds it."""
    origin = flow.origin
    if not origin.entry:
        return flow.place
    return _place_with_line(origin.file, origin.entry, field)


def _place_with_line(file: str, entry: int, field: str) -> str:
    nodes = entry_nodes(file)
    path = [int(step) if step.isdigit() else step for step in _STEPS.findall(field)]
    if not 0 < entry <= len(nodes):
        return _place(Path(file), entry)
    return f"{place_of(short_path(file), nodes[entry - 1], path)} (flow {entry})"


def _with_lines(error: FlowError) -> FlowError:
    """Return an error with the lines of the inputs that it and those beside it are about."""
    if not isinstance(error, FlowValidationError) or not any(map(_is_of_input, (error, *error.others))):
        return error
    faults: list[JazzSelectError] = []
    for each in (error, *error.others):
        found: re.Match[str] | None = None
        if isinstance(each, FlowValidationError) and _is_of_input(each):
            found = _ENTRY.fullmatch(each.place)
        if found is None or not isinstance(each, FlowValidationError):
            faults.append(each)
            continue
        place = _place_with_line(found["file"], int(found["entry"]), each.field)
        placed = FlowValidationError(each.flow, each.field, each.problem, place=place)
        placed.__cause__ = each.__cause__
        faults.append(placed)
    try:
        raise_all(faults)
    except FlowError as raised:
        return raised
    return error  # pragma: no cover - there is at least one fault


def _is_of_input(error: BaseException) -> bool:
    return isinstance(error, FlowValidationError) and error.field.startswith("inputs[")


def _read_entry(file: Path, number: int, entry: object) -> BaseFlow:
    data, faults, misspelt_fields = _validate_entry(file, number, entry)
    if data is None:
        raise_all(faults)
        raise AssertionError  # pragma: no cover - without data there is a fault
    subject = Subject(name=data.name, place=_place(file, number))
    inputs = _inputs(data.inputs, subject, faults)
    if faults:
        wrong = [*misspelt_fields, *(each.field for each in faults)]
        raise_all([*faults, *_faults_of_the_rest(data, inputs, subject, wrong)])
    with read_from(file, number):
        flow = _build(data, inputs, subject)
    _ = chain_of(flow)  # raises if it cannot run
    raise_all(_faults_of_texts(data, subject))
    if data.reply:
        flow.reply = data.reply
    return flow


def _inputs(entries: Sequence[object], subject: Subject, faults: list[FlowValidationError]) -> list[Input]:
    """Return the inputs of entries; what else is wrong with them is added to the faults."""
    made: list[Input] = []
    for number, entry in enumerate(entries):
        try:
            each = InputData.model_validate(entry)
        except ValidationError:
            continue  # it is among the faults
        try:
            made.append(_input_of(each))
        except ConfigError as error:
            fault = subject.error(f"inputs[{number}]", str(error))
            fault.__cause__ = error
            faults.append(fault)
    return made


def _input_of(given: InputData) -> Input:
    fields = given.model_dump()
    if isinstance(given.choices, ToolChoicesData):
        fields["choices"] = ToolChoices(**given.choices.model_dump())
    return Input(**fields)


def _faults_of_texts(data: FlowData, subject: Subject) -> list[FlowValidationError]:
    faults: list[FlowValidationError] = []
    for field in ("reply", "chain"):
        try:
            check_text(subject, field, json.dumps(getattr(data, field), ensure_ascii=False))
        except FlowValidationError as error:
            faults.append(error)
    fault = fault_in_reply(data.reply)
    if fault:
        faults.append(subject.error("reply", fault))
    return faults


def _faults_of_the_rest(
    data: FlowData, inputs: list[Input], subject: Subject, wrong: list[str]
) -> list[FlowValidationError]:
    """Return what is wrong with the fields of a flow that cannot be built, beside those named, to mend all at once."""
    fields = {**data.model_dump(), "inputs": inputs}
    found = [*field_faults(subject, fields), *_faults_of_texts(data, subject)]
    scope = current_scope()
    needed = (BaseFlow.registry if scope is None else scope).examples_needed
    wrong = [*wrong, *(each.field for each in found)]
    found += bar_faults(subject, fields, composite=data.type != "flow", min_examples=needed, wrong=wrong)
    return found


def _build(data: FlowData, inputs: list[Input], subject: Subject) -> BaseFlow:
    common = data.model_dump(exclude={"type", "priority", "flows", "branches", "otherwise", "reply", "inputs"})
    common["priority"] = (data.priority[0], data.priority[1])
    common["inputs"] = inputs
    if data.type == "conditional":
        branches = [(branch.when, branch.flow) for branch in data.branches]
        if data.flows:
            raise subject.error("flows", "is for flows that run all their parts; a conditional has `branches:`")
        return ConditionalFlow(**common, branches=branches, otherwise=data.otherwise)
    for field in ("branches", "otherwise"):
        if getattr(data, field):
            raise subject.error(field, "is for flows of `type: conditional` only")
    if data.type != "flow":
        return _PLAIN[data.type](**common, flows=data.flows)
    if data.flows:
        problem = "is for composites; add `type: sequential`, `type: parallel` or `type: conditional`"
        raise subject.error("flows", problem)
    return Flow(**common)


def _entries(file: Path) -> Iterator[object]:
    try:
        documents = documents_of(file)
    except DataFileError as error:
        raise FlowLoadError(short_path(str(file)), error.problem) from error
    for document in documents:
        content = document.value
        if isinstance(content, dict):
            mapping = cast("dict[object, object]", content)
            tools: Any = mapping.get("tools")
            is_described = is_array(tools) and any(isinstance(each, dict) for each in tools)
            if is_described and mapping.keys().isdisjoint({"name", "flows"}):
                problem = "it holds tools and no flows; load_tools reads it, and the command does as --tools"
                raise FlowLoadError(short_path(str(file)), problem)
            content = [mapping]
            if "flows" in mapping and "name" not in mapping:  # with a name it is a composite, and these are its parts
                content = mapping["flows"]
                extra = sorted(f"{key!r:.80}" for key in mapping if key != "flows")
                if extra:
                    problem = f"next to `flows:` it holds {', '.join(extra[:_MOST_NAMED])}; take that out"
                    raise FlowLoadError(short_path(str(file)), problem)
        if content is None:
            continue
        if not is_array(content):
            problem = "it must hold a list of flows, `flows:` with such a list, or one flow with its `name:`"
            raise FlowLoadError(short_path(str(file)), problem)
        yield from content


class _ValidatedEntry(NamedTuple):
    """The fields of an entry, without those that are wrong, and an error for each of these."""

    data: FlowData | None
    faults: list[FlowValidationError]
    misspelt_fields: list[str]
    """The fields of which an unknown one is a misspelling: nothing more is said of them."""


def _validate_entry(file: Path, number: int, entry: object) -> _ValidatedEntry:
    place = _place(file, number)
    label = f"<flow {number}>"
    if not isinstance(entry, dict):
        problem = f"a flow must be a mapping with name:, description:, …, got {describe_value(entry)}"
        return _ValidatedEntry(None, [FlowValidationError(label, "name", problem, place=place)], [])
    fields = cast("Mapping[object, object]", entry)
    name = fields.get("name")
    if isinstance(name, str) and name:
        label = name
    try:
        return _ValidatedEntry(FlowData.model_validate(fields), [], [])
    except ValidationError as error:
        every = error.errors(include_url=False)
        misspelt: list[str] = []
        for each in every:
            if each["type"] == "extra_forbidden":
                misspelt.extend(_near_fields(each["loc"]))
        # A field that is missing because its name is misspelt is said to be misspelt, and no more.
        errors = [each for each in every if each["type"] != "missing" or each["loc"][0] not in misspelt]
        first = _first(errors)
        ordered = [first, *(each for each in errors if each is not first)]
        faults = [FlowValidationError(label, _field(each["loc"]), _problem(each), place=place) for each in ordered]
        faults[0].__cause__ = error
    wrong = {each["loc"][0] for each in errors if each["loc"]}
    entries: object = fields.get("inputs")
    if "inputs" in wrong and is_array(entries):
        _inputs(entries, Subject(name=label, place=place), faults)
    rest = {name: value for name, value in fields.items() if name not in wrong}
    try:
        data = FlowData.model_validate({**rest, "name": label})
    except ValidationError:
        data = None
    return _ValidatedEntry(data, faults, misspelt)


def _near_fields(loc: tuple[int | str, ...]) -> list[str]:
    """Return the field of a flow that an unknown one may be a misspelling of."""
    return near(str(loc[0]), FlowData.model_fields) if len(loc) == 1 else []


def _first(errors: list[ErrorDetails]) -> ErrorDetails:
    """Return the error to report: an unknown field beside a missing one is usually its misspelling."""
    first = errors[0]
    if first["type"] != "missing" or len(first["loc"]) == 1:
        return first
    for each in errors:
        if each["type"] == "extra_forbidden" and each["loc"][:-1] == first["loc"][:-1]:
            return each
    return first


def _place(file: Path, number: int) -> str:
    return f"{short_path(str(file))} (flow {number})"


def _field(loc: tuple[int | str, ...]) -> str:
    path = ""
    for step in loc:
        if step not in {_LISTED, _BY_TOOL}:  # pydantic's names for the alternatives of a field
            path += f"[{step}]" if isinstance(step, int) else f".{step}"
    return beginning(path.removeprefix("."), _LONGEST_FIELD) or ("''" if loc else "name")


def _problem(error: ErrorDetails) -> str:
    match error["type"]:
        case "list_type" | "too_short" | "too_long" if error["loc"] == ("priority",):
            return f"must be a list of two whole numbers such as [1, 0], got {describe_value(error['input'])}"
        case _:
            of, data = _KINDS.get(error["loc"][0] if len(error["loc"]) > 1 else "", ("flow", FlowData))
            if _BY_TOOL in error["loc"]:
                of, data = "list of choices by a tool", ToolChoicesData
            return problem_in(error, tuple(data.model_fields), of=of)


_KINDS: Final[Mapping[int | str, tuple[str, type[BaseModel]]]] = {
    "branches": ("branch", BranchData),
    "inputs": ("flow's input", InputData),
}
