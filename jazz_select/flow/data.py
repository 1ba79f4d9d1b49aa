"""Flows as data: YAML and JSON files, checked by pydantic, with errors that name file, flow and field."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, cast

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, ValidationError
from pydantic_core import ErrorDetails

from jazz_select.arguments import problem_in
from jazz_select.errors import ConfigError, FlowError, FlowLoadError, FlowValidationError
from jazz_select.flow.base import BaseFlow, Flow
from jazz_select.flow.checks import Input, Subject, check_text, fault_in_reply
from jazz_select.flow.composite import CompositeFlow, ConditionalFlow, ParallelFlow, SequentialFlow
from jazz_select.flow.origin import read_from, short_path
from jazz_select.text import beginning, describe_value, did_you_mean

if TYPE_CHECKING:
    from yaml import SafeLoader as _YamlLoader
else:
    _YamlLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster, where PyYAML has libyaml

LARGEST = 4 << 20
"""Bytes of a file that is read."""
MOST_VALUES = 100_000
"""Keys, texts, lists and mappings in one file, those that aliases and merge keys repeat counted again."""
_DEPTH = 100
_LONGEST_NUMBER = 100
_LONGEST_FIELD, _LONGEST_PROBLEM, _MOST_NAMED = 80, 500, 10
_NUMBER = "+-0123456789_:."
SUFFIXES = (".json", ".yaml", ".yml")
_PLAIN: dict[str, type[CompositeFlow]] = {"sequential": SequentialFlow, "parallel": ParallelFlow}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class BranchData(_Strict):
    """`{when: "the parcel was lost", flow: resend_order}`, or the pair `["the parcel was lost", resend_order]`."""

    when: str
    flow: str


def _from_pair(value: Any) -> object:
    match value:
        case [when, flow]:
            return {"when": when, "flow": flow}
        case _:
            return value


class PointData(_Strict):
    """A step of a chain where the next tool is a choice; the fields of `GuidedDecisionPoint`."""

    after_step: str
    candidate_tools: list[str]
    decision_prompt: str | None = None
    context_fields: list[str] = []
    fallback_tool: str | None = None


class InputData(_Strict):
    """An input; the fields of `Input`, with the name of a tool for `check`."""

    name: str
    question: str = ""
    choices: list[str | int | float] = []
    example: str = ""
    check: str | None = None
    problem: str = ""
    required: bool = True


_NAME, _POINT = "<name>", "<point>"
_CHOOSE = "CHOOSE"
"""The step that is left open on purpose, where no tool has this name."""


def _kind_of_step(step: object) -> str:
    return _POINT if isinstance(step, dict | PointData) else _NAME


_Step = Annotated[
    Annotated[str, Tag(_NAME)] | Annotated[PointData, Tag(_POINT)],
    Discriminator(_kind_of_step),
]


class FlowData(_Strict):
    """One flow of a data file; the fields of `Flow` and of the composites, whose parts are given by name."""

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
    branches: list[Annotated[BranchData, BeforeValidator(_from_pair)]] = []
    otherwise: str | None = None
    chain: list[_Step] = []
    reply: str = ""
    title: str = ""
    optional_tools: list[str] = []
    manual: bool = False
    max_error: float | None = None
    inputs: list[InputData] = []
    ask: Literal["one", "together"] = "one"
    calls: list[str] = []
    handover: bool = False


def read_flows(file: Path) -> Iterator[BaseFlow]:
    """Build the flows of a data file, one at a time; each registers itself in the current scope.

    Raises:
        FlowLoadError: The file cannot be read, or holds something else than flows.
        FlowValidationError: A field of one of its flows is missing or wrong.
    """
    for flow in read_each(file):
        if isinstance(flow, FlowError):
            raise flow
        yield flow


def read_each(file: Path) -> Iterator[BaseFlow | FlowError]:
    """Each flow of a data file as by `read_flows`, or what is wrong with it; those after it are read all the same.

    Raises:
        FlowLoadError: The file cannot be read, or holds something else than flows.
    """
    entries = list(_entries(file))
    if not entries:
        raise FlowLoadError(short_path(str(file)), "it holds no flows; write at least one, or delete the file")
    for number, entry in enumerate(entries, start=1):
        try:
            yield _read(file, number, entry)
        except FlowError as error:
            yield error


def _read(file: Path, number: int, entry: object) -> BaseFlow:
    data = _validated(file, number, entry)
    subject = Subject(name=data.name, place=_place(file, number))
    with read_from(file, number):
        flow = _build(data, subject)
    if data.chain:
        flow.chain = _chain(data, subject)
    for field, said in data.model_dump(include={"reply", "chain"}).items():
        check_text(subject, field, json.dumps(said, ensure_ascii=False))
    if fault := fault_in_reply(data.reply):
        raise subject.error("reply", fault)
    if data.reply:
        flow.reply = data.reply
    return flow


def _chain(data: FlowData, subject: Subject) -> tuple[str | dict[str, Any], ...]:
    """The steps as an executor reads them."""
    tools = set(data.tools)
    for number, step in enumerate(data.chain):
        where = f"chain[{number}]"
        if isinstance(step, str):
            names = [] if step == _CHOOSE else [step]
        else:
            names = [step.after_step, *step.candidate_tools, *([step.fallback_tool] if step.fallback_tool else [])]
            if step.after_step in step.candidate_tools:
                after = beginning(step.after_step, _LONGEST_FIELD)
                raise subject.error(where, f"a tool never follows itself: take {after!r} out of candidate_tools")
        for name in (each for each in names if each not in tools):
            advice = did_you_mean(name, data.tools) or "add it to the flow's `tools:`, or take the step out"
            raise subject.error(where, f"{beginning(name, _LONGEST_FIELD)!r} is not among the flow's tools; {advice}")
    return tuple(step if isinstance(step, str) else step.model_dump() for step in data.chain)


def _input(data: InputData, subject: Subject, number: int) -> Input:
    try:
        return Input(**data.model_dump())
    except ConfigError as error:
        field = f"inputs[{number}]"
        raise subject.error(field, str(error)) from error


def _build(data: FlowData, subject: Subject) -> BaseFlow:
    common = data.model_dump(exclude={"type", "priority", "flows", "branches", "otherwise", "chain", "reply", "inputs"})
    common["priority"] = (data.priority[0], data.priority[1])
    common["inputs"] = [_input(each, subject, number) for number, each in enumerate(data.inputs)]
    if data.type == "conditional":
        branches = [(branch.when, branch.flow) for branch in data.branches]
        return ConditionalFlow(**common, branches=branches, flows=data.flows, otherwise=data.otherwise)
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
    text = read_text(file)
    try:
        documents = (
            _json(text) if file.suffix.lower() == ".json" else [document for document, _ in yaml_documents(text)]
        )
    except SYNTAX_ERRORS as error:
        raise FlowLoadError(short_path(str(file)), syntax_problem(error)) from error
    for document in documents:
        content = document
        if isinstance(content, dict):
            mapping = cast("dict[object, object]", content)
            if mapping.keys().isdisjoint({"name", "flows"}) and _are_described(mapping.get("tools")):
                problem = "it holds tools and no flows; load_tools reads it, and the command does as --tools"
                raise FlowLoadError(short_path(str(file)), problem)
            content = mapping["flows"] if "flows" in mapping and "name" not in mapping else [mapping]
            if set(mapping) - {"flows"} and "name" not in mapping and "flows" in mapping:
                extra = ", ".join(sorted(f"{key!r:.80}" for key in set(mapping) - {"flows"})[:_MOST_NAMED])
                raise FlowLoadError(short_path(str(file)), f"next to `flows:` it holds {extra}; take that out")
        if content is None:
            continue
        if not isinstance(content, list):
            problem = "it has to hold a list of flows, `flows:` with such a list, or one flow with its `name:`"
            raise FlowLoadError(short_path(str(file)), problem)
        yield from cast("list[object]", content)


def _are_described(tools: object) -> bool:
    """Whether these are tools with all that is said of them; a flow has their names."""
    return isinstance(tools, list) and any(isinstance(each, dict) for each in cast("list[object]", tools))


SYNTAX_ERRORS = (ValueError, RecursionError, yaml.YAMLError)
"""What reading a data file fails with."""


def read_text(file: Path, largest: int = LARGEST) -> str:
    """The text of a data file of at most so many bytes.

    Raises:
        FlowLoadError: There is none, or it is not UTF-8.
    """
    try:
        with file.open("rb") as opened:
            content = opened.read(largest + 1)  # whatever the file system says of its size
        if len(content) > largest:
            problem = f"it is larger than {largest >> 20} MiB; split it into several files"
            raise FlowLoadError(short_path(str(file)), problem)
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise FlowLoadError(short_path(str(file)), f"line {line} is not UTF-8; save the file as UTF-8") from error
    except OSError as error:
        raise FlowLoadError(short_path(str(file)), error.strerror or str(error)) from error


def _json(text: str) -> list[object]:
    return [json.loads(text, object_pairs_hook=unique)] if text.strip() else []


def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """The pairs of an object of JSON, for `object_pairs_hook`."""
    seen: dict[str, object] = {}
    for key, value in pairs:
        if key in seen:
            raise ValueError(f"{key!r:.80} stands twice in one mapping")
        seen[key] = value
    return seen


def yaml_documents(text: str) -> list[tuple[Any, yaml.Node]]:
    """The documents of a YAML text, each with the node that says where in the text each part of it stands.

    Raises:
        ValueError: It would not be loaded in a moment; other syntax errors are among `SYNTAX_ERRORS`.
    """
    _check_size(text)
    loader: Any = _UniqueKeys(text)
    found: list[tuple[Any, yaml.Node]] = []
    while loader.check_node():
        node = loader.get_node()
        found.append((loader.construct_document(node), node))
    return found


def _check_size(text: str) -> None:
    """Refuse what would not be loaded in a moment: events come one at a time, whatever they add up to.

    The fast loader recurses in C, where too deep a nesting ends the process; an alias stands for all that it names,
    so that a line may mean a million; and a long number, in the base 60 of YAML 1.1, takes time by its square.
    """
    total = 0
    known: dict[str, int] = {}
    nodes: list[tuple[str | None, int]] = []
    for event in yaml.parse(text, Loader=_YamlLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            nodes.append((event.anchor, total))
            total += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = nodes.pop()
            if anchor:
                known[str(anchor)] = total - before
        elif isinstance(event, yaml.AliasEvent):
            # One that is not closed yet holds itself; one that there is not is told of when the nodes are made.
            is_open = any(anchor == event.anchor for anchor, _ in nodes)
            total += MOST_VALUES if is_open else known.get(str(event.anchor), 1)
        elif isinstance(event, yaml.ScalarEvent):
            total += 1
            known |= {str(event.anchor): 1} if event.anchor else {}
            if len(event.value) > _LONGEST_NUMBER and not event.value.strip(_NUMBER):
                msg = f"it has a number of more than {_LONGEST_NUMBER} digits; put quotes around it if it is a text"
                raise ValueError(msg)
        if len(nodes) > _DEPTH:
            raise ValueError(f"it nests lists or mappings more than {_DEPTH} deep, which no flow does")
        if total > MOST_VALUES:
            msg = f"it holds more than {MOST_VALUES} values, aliases counted as what they stand for; split it"
            raise ValueError(msg)


class _UniqueKeys(_YamlLoader):
    """A safe loader that refuses a key written twice, where YAML libraries silently keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        pairs = node.value if isinstance(node, yaml.MappingNode) else ()  # pyright: ignore[reportUnnecessaryIsInstance] - `!!map x`
        keys = [key.value for key, _ in pairs if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
        counts = Counter(keys)
        repeated = next((key for key in keys if counts[key] > 1), None)
        if repeated is not None:
            problem = f"{repeated!r:.80} stands twice in one mapping; a new flow begins with a dash"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return super().construct_mapping(node, deep=deep)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: FBT001, FBT002
        try:
            return super().construct_object(node, deep=deep)  # pyright: ignore[reportUnknownMemberType] - as PyYAML is typed
        except (ValueError, LookupError, AttributeError, TypeError) as error:  # as PyYAML fails on `!!bool x`
            what = f"{describe_value(node.value)} is no {node.tag.rpartition(':')[2]}"
            problem = f"{what}; put quotes around it if it is a text, and take the tag off if it has one"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error


_COLUMN = "; the fields of an entry begin in one column, and a text that begins with a brace or a quote needs quotes"
_MEANT = {
    "mapping values are not allowed": "; a text with a colon in it needs quotes, and a field a blank after its colon",
    "did not find expected key": _COLUMN,
    "expected <block end>": _COLUMN,
    "cannot start any token": "; a text that begins with such a mark needs quotes",
    "undefined alias": "; a text that begins with a star needs quotes",
}
"""What is mostly wrong, by what the two YAML libraries say of it."""


def syntax_problem(error: Exception) -> str:
    """What is wrong with a data file that cannot be read, and in which line."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        problem = f"line {error.problem_mark.line + 1}: {error.problem}"
        if "\\t" in problem or " tab " in problem:
            return beginning(f"{problem}; YAML is indented with spaces, not tabs", _LONGEST_PROBLEM)
        hint = next((hint for said, hint in _MEANT.items() if said in problem), "")
        return beginning(problem, _LONGEST_PROBLEM) + hint
    return "it is nested too deeply" if isinstance(error, RecursionError) else beginning(str(error), _LONGEST_PROBLEM)


def _validated(file: Path, number: int, entry: object) -> FlowData:
    place = _place(file, number)
    label = f"<flow {number}>"
    given = describe_value(entry)
    if not isinstance(entry, dict):
        raise FlowValidationError(
            label, "name", f"a flow is a mapping with name:, description:, …, not {given}", place=place
        )
    fields = cast("Mapping[object, object]", entry)
    name = fields.get("name")
    label = name if isinstance(name, str) and name else label
    try:
        return FlowData.model_validate(fields)
    except ValidationError as error:
        first = _first(error.errors(include_url=False))
        raise FlowValidationError(label, _field(first["loc"]), _problem(first), place=place) from error


def _first(errors: list[ErrorDetails]) -> ErrorDetails:
    """The one to tell: where a field is missing and another stands in its place, that is mostly a misspelt one."""
    first = errors[0]
    beside = (
        each for each in errors if each["type"] == "extra_forbidden" and len(first["loc"]) == len(each["loc"]) > 1
    )
    same = (each for each in beside if each["loc"][:-1] == first["loc"][:-1])
    return next(same, first) if first["type"] == "missing" else first


def _place(file: Path, number: int) -> str:
    return f"{short_path(str(file))} (flow {number})"


def _field(loc: tuple[int | str, ...]) -> str:
    steps = (step for step in loc if step not in {_NAME, _POINT})
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return beginning(path.removeprefix("."), _LONGEST_FIELD) or ("''" if loc else "name")


def _problem(error: ErrorDetails) -> str:
    match error["type"]:
        case "list_type" | "too_short" | "too_long" if error["loc"] == ("priority",):
            return f"has to be a list of two whole numbers such as [1, 0], not {describe_value(error['input'])}"
        case "model_type":
            return (
                f"has to be a pair [when, flow] or a mapping with when: and flow:, not {describe_value(error['input'])}"
            )
        case _:
            of, data = _KINDS.get(error["loc"][0] if len(error["loc"]) > 1 else "", ("flow", FlowData))
            return problem_in(error, tuple(data.model_fields), of=of)


_KINDS: Final[Mapping[int | str, tuple[str, type[BaseModel]]]] = {
    "chain": ("choice between tools", PointData),
    "branches": ("branch", BranchData),
}
