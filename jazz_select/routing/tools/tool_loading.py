"""Loading tools: from the `TOOLS` of Python modules, from YAML, or from a JSON listing."""

import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, cast

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from jazz_select.arguments import problem_in, takes
from jazz_select.data_files import documents_of, place_of
from jazz_select.errors import ConfigError, DataFileError, FlowLoadError, ToolError, raise_all
from jazz_select.flow.base import FlowRegistry
from jazz_select.flow.data import SUFFIXES
from jazz_select.flow.imports import NOT_THERE, import_file, import_folder, import_name, is_package
from jazz_select.flow.named_objects import named_object
from jazz_select.flow.origin import short_path
from jazz_select.flow.skill_files import SKILL_FILE
from jazz_select.json_values import is_array, is_object
from jazz_select.routing.decisions.decision_points import DecisionCallback
from jazz_select.routing.schemas.validity import Checker
from jazz_select.routing.tools.functions import tool_from_function
from jazz_select.routing.tools.openapi.document import is_openapi
from jazz_select.routing.tools.openapi.entries import is_entry, tools_of_entry
from jazz_select.routing.tools.openapi.loading import tools_from_openapi
from jazz_select.routing.tools.sources import tools_from_mcp, tools_from_openai, tools_of
from jazz_select.routing.tools.tool import Tool, Toolbox, checked_keys, context_keys
from jazz_select.text import describe_error

NAME: Final = "TOOLS"
"""What a module calls its tools: a list of `Tool`s, or of functions to make them from; or a function that gives one."""

LARGEST: Final = 16 << 20
"""Bytes of a listing that is read."""
_MOST_VALUES: Final = 1_500_000
_USUAL: Final = ("tools.py", "tools.yaml", "tools.yml", "tools.json")
"""What people call the file of their tools."""
POLICY: Final = "POLICY"
"""What a module calls the `DecisionCallback` that chooses where no model is configured."""


def load_tools(
    source: str | Path,
    *,
    may_be_none: bool = False,
    state: Mapping[str, Any] | None = None,
    allow_modules: Collection[str] = (),
) -> Toolbox:
    """Return the tools of a source, in the order of their definition, file by file in alphabetical order.

    Args:
        source: The name of an importable package or module, a folder, a .py file with a list named `TOOLS`, or a .json,
            .yaml or .yml file with an MCP server's answer to `tools/list`, OpenAI-style function declarations, an
            OpenAPI document, or a list of APIs (`- openapi: FILE_OR_URL`, with the options of `tools_from_openapi`). In
            YAML, tools may also be written field by field, as in `Tool`; `function: module:name` runs one of a module
            beside the file, or of another one of the project's.
        may_be_none: Whether no tools are acceptable: for a source of flows, which need not have tools.
        state: Passed to each `TOOLS` that is a function with a parameter `state`.
        allow_modules: Modules and packages that a data file may name too, though Python or an installed package brings
            them.

    Raises:
        ToolError: There are no tools although there must be, a file is unreadable, an entry is no tool, or nothing
            takes the state; for YAML it names file and line.
        FlowLoadError: A module cannot be imported.
        DuplicateToolError: Two different tools have one name.
    """
    found: dict[int, Tool] = {}
    if may_be_none and _is_data(source):
        return Toolbox()
    with FlowRegistry(min_examples=0).scope():  # for the flows that modules define beside their tools
        for tool in _load_source(source, state, allow_modules):
            found.setdefault(id(tool), tool)  # one that a second module imports is still one
    if not found and not may_be_none:
        raise ToolError(str(source), f"there are no tools in it; {_remedy(Path(source))}, see docs/tools.md")
    return Toolbox(found.values())


def _remedy(source: Path) -> str:
    if source.suffix.lower() in SUFFIXES and source.is_file():
        return "give it a list of them, in YAML under `tools:`"
    advice = f"give a module a list named {NAME}"
    if not source.is_dir():
        return advice
    data = sorted(each.name for each in source.glob("*") if each.suffix.lower() in SUFFIXES)
    if not data:
        return advice
    return f"of a folder only .py files are read, so name {data[0]} itself if it has tools, or {advice}"


def no_tools(source: str, *, named_by: str) -> str:
    """Return a hint that flows were read without tools, and which file may have been meant.

    Unnamed files beside the flows are never run, so it only mentions them. `named_by` is the option that names tools.
    """
    path = Path(source)
    folder, where = path.parent, "beside it"
    if path.is_dir():
        folder, where = path, "in it"
    usual = [name for name in _USUAL if (folder / name).is_file()]
    hint = f"; {usual[0]} {where} is read only if it is named" if usual and path.exists() else ""
    return f"there are no tools in {source}, so it has none{hint}; {named_by} names them"


def load_policy(source: str | Path) -> DecisionCallback | None:
    """Return the first `POLICY` of the modules of a source, which chooses at guided points without a model.

    A data file has none.

    Raises:
        ToolError: There is no such source.
        FlowLoadError: A module cannot be imported.
    """
    if _is_data(source):
        return None
    with FlowRegistry(min_examples=0).scope():  # for the flows that modules define beside it
        modules = _modules(source)
    policies = [getattr(sys.modules[name], POLICY, None) for name in modules]
    return next((each for each in policies if each is not None), None)


def _is_data(source: str | Path) -> bool:
    """Tell whether a file is read rather than executed."""
    return Path(source).suffix.lower() in SUFFIXES and Path(source).is_file()


def _load_source(source: str | Path, state: Mapping[str, Any] | None, allow_modules: Collection[str]) -> Iterator[Tool]:
    try:
        path = Path(source)
    except TypeError as error:
        given = f"{source!r:.80}"
        problem = "a source is one name or path; load each of several, and put their values into one list"
        raise ToolError(given, problem) from error
    if _is_data(path):
        yield from _in_file(path, allow_modules)
        return
    names = _modules(source)
    if state is not None and not any(_takes_state(name) for name in names):
        raise ToolError(str(source), f"a conversation has a state: make {NAME} a function with a parameter 'state'")
    for name in names:
        yield from _in_module(name, state)


def _takes_state(module: str) -> bool:
    given: object = getattr(sys.modules[module], NAME, ())
    return inspect.isfunction(given) and takes(given, "state")


def _modules(source: str | Path) -> list[str]:
    path = Path(source)
    if str(source).strip() and path.is_dir():
        folder = path.resolve()
        if (folder / SKILL_FILE).is_file() and not is_package(folder):
            return []  # what lies in a skill is its own, and is not imported
        if is_package(folder):
            return import_folder(folder)
        return [import_file(_plain(each)) for each in sorted(folder.glob("*.py"))]
    if path.is_file():
        if path.suffix.lower() != ".py":
            raise ToolError(path.name, "tools are read from .py, .yaml and .json files")
        return [import_file(path.resolve())]
    is_name = isinstance(source, str) and path.suffix.lower() not in {".py", *SUFFIXES}
    if is_name and source and all(part.isidentifier() for part in str(source).split(".")):
        try:
            return import_name(str(source))
        except FlowLoadError as error:
            if error.problem == NOT_THERE:
                raise _no_source(source) from error
            raise
    raise _no_source(source)


def _no_source(source: str | Path) -> ToolError:
    return ToolError(str(source), f"there is no such package, folder or file, seen from {Path.cwd()}")


def _plain(file: Path) -> Path:
    if not file.is_file():
        raise ToolError(file.name, "it is no plain file, so reading it might never end")
    return file


def _in_module(name: str, state: Mapping[str, Any] | None) -> Iterator[Tool]:
    given: object = getattr(sys.modules[name], NAME, ())
    if inspect.isfunction(given):
        own: dict[str, Any] = {"state": state or {}} if _takes_state(name) else {}
        if given.__module__ != name:  # it is imported, and belongs to its own module
            return
        given = given(**own)
    try:
        yield from tools_of(given)
    except ConfigError as error:
        raise ToolError(name, f"its {NAME}: {error}") from error


def _read_listing(listing: Any) -> list[Tool]:
    entries: object = _unwrap(listing)
    if is_array(entries) and any(map(_is_mcp, entries)):
        return tools_from_mcp(entries, trusted=True)  # whoever keeps a listing in a file answers for what it says
    return tools_from_openai(entries)


def _unwrap(listing: Any) -> Any:
    for wrapping in ("result", "tools"):  # the whole JSON-RPC answer, or what is in it
        if is_object(listing):
            listing = listing.get(wrapping, listing)
    return listing


def _is_mcp(entry: object) -> bool:
    return is_object(entry) and not {"inputSchema", "annotations"}.isdisjoint(entry)


def _is_openai(entry: object) -> bool:
    return is_object(entry) and (is_object(entry.get("function")) or "parameters" in entry)


def _of_apis(file: Path, entries: list[object]) -> Iterator[Tool]:
    """Return the tools of the APIs that a file lists."""
    place = short_path(str(file))
    for entry in entries:
        if not is_entry(entry):
            problem = "a file that names an API by openapi: must name nothing else; put other tools into another file"
            raise ToolError(place, problem)
        try:
            yield from tools_of_entry(entry, file=file)
        except ConfigError as error:
            raise ToolError(place, str(error)) from error


class ToolData(BaseModel):
    """One tool of a YAML file: what a `Tool` has, and where the function is that runs it."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    name: str = ""
    description: str = ""
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None
    function: str = ""
    provider: str = ""
    provider_title: str = ""
    group: str = ""
    operation: str = ""
    capabilities: list[str] = []
    destructive: bool = False
    id: str = ""
    idempotent: bool = False
    read_only: bool | None = None
    title: str = ""
    undoes: str = ""
    from_context: Annotated[list[str] | dict[str, str], BeforeValidator(checked_keys)] = []
    secrets: Annotated[list[str] | dict[str, str], BeforeValidator(checked_keys)] = []


def _in_file(file: Path, allow_modules: Collection[str]) -> Iterator[Tool]:
    place = short_path(str(file))
    bounds: dict[str, Any] = {}
    if file.suffix.lower() == ".json":
        bounds = {"largest": LARGEST, "most_values": _MOST_VALUES}
    try:
        documents = documents_of(file, **bounds)
    except DataFileError as error:
        raise ToolError(place, error.problem) from error
    for content, root in documents:
        if is_openapi(content):
            yield from tools_from_openapi(cast("dict[str, Any]", content))
            continue
        entries: object = _unwrap(content)
        if entries is None:
            continue
        several: list[object] = entries if is_array(entries) else [entries]
        if any(map(is_entry, several)):
            yield from _of_apis(file, several)
            continue
        if root is None or any(_is_mcp(each) or _is_openai(each) for each in several):
            yield from _read_listing(several if is_object(entries) else entries)
            continue
        path: tuple[str, ...] = () if entries is content else ("tools",)
        if is_array(entries):
            here = [_Entry(place=place, entry=each, root=root, path=(*path, n)) for n, each in enumerate(entries)]
        elif is_object(entries):
            here = [_Entry(place=place, entry=entries, root=root, path=path)]
        else:
            problem = f"{place_of(place, root, path)}: it must hold a list of tools, or `tools:` with one"
            raise ToolError(place, f"{problem}, got {entries!r:.60}")
        yield from _from_entries(here, partial(named_object, file=file, allow_modules=allow_modules))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """One tool of a data file, and where it stands."""

    place: str
    entry: object
    root: yaml.Node
    path: tuple[str | int, ...]

    @property
    def fields(self) -> dict[str, Any]:
        return dict(self.entry) if is_object(self.entry) else {}

    def error(self, field: str, problem: str) -> ToolError:
        """Return the error that names file, line and field."""
        path = (*self.path, field) if field in self.fields else self.path
        where = place_of(self.place, self.root, path)
        if field:
            where = f"{where}: {field}"
        label = self.fields.get("name") or self.fields.get("function") or "?"
        return ToolError(str(label), f"{where}: {problem}")


def _from_entries(entries: Iterable[_Entry], named: Callable[[str], object]) -> list[Tool]:
    """Return the tools of all entries, or raise all that is wrong with them at once."""
    faults: list[ToolError] = []
    tools: list[Tool] = []
    for entry in entries:
        tool = _from_data(entry, named, faults)
        if tool is not None:
            tools.append(tool)
    raise_all(faults)
    return tools


def _from_data(given: _Entry, named: Callable[[str], object], faults: list[ToolError]) -> Tool | None:
    """Return the tool of an entry; None, and all that is wrong with it among the faults, where there is none."""
    if not isinstance(given.entry, dict):
        faults.append(given.error("", f"a tool must be a mapping with name:, description:, …, got {given.entry!r:.60}"))
        return None
    before = len(faults)
    data = _tool_data(given, faults)
    schemas = _checked_schemas(given, faults)
    if data is None or len(faults) > before:
        return None
    fields: dict[str, Any] = {"id": "", **data.model_dump(include=data.model_fields_set - {"function", "name"})}
    place: str = given.fields.get("function", "")
    try:
        return _build_tool(data, fields | schemas, place, named)
    except (ToolError, FlowLoadError, ConfigError, ImportError, AttributeError, ValueError) as error:
        problem = describe_error(error)
        if isinstance(error, ToolError | FlowLoadError):
            problem = error.problem
        elif isinstance(error, ConfigError):
            problem = str(error)
        elif isinstance(error, ModuleNotFoundError):
            problem = f"{problem}; modules are looked for beside this file, and where Python looks for them (sys.path)"
        faults.append(given.error("function" if place else "name", problem))
        return None


def _tool_data(given: _Entry, faults: list[ToolError]) -> ToolData | None:
    try:
        return ToolData.model_validate(given.fields)
    except ValidationError as error:
        known = list(ToolData.model_fields)
        for each in error.errors(include_url=False):
            faults.append(given.error(str(each["loc"][0]), problem_in(each, known, of="tool")))
        return None


def _checked_schemas(given: _Entry, faults: list[ToolError]) -> dict[str, Any]:
    schemas: dict[str, Any] = {}
    for field in ("input_schema", "output_schema"):
        schema: object = given.fields.get(field)
        if is_object(schema):
            try:
                schemas[field] = Checker(schema).schema
            except ConfigError as error:
                faults.append(given.error(field, str(error)))
    return schemas


def _build_tool(data: ToolData, fields: dict[str, Any], place: str, named: Callable[[str], object]) -> Tool:
    """Return a tool of these fields; `place` is where its function is, or "" where it has none."""
    if not place:
        return replace(Tool(name=data.name), **fields)
    function: Any = named(place)
    if isinstance(function, Tool):
        fields = _with_marked(function, fields)
        return replace(function, name=data.name or function.name, **fields)
    if data.input_schema is not None:
        own = place.rpartition(":")[2].rpartition(".")[2]
        return replace(Tool(name=data.name or own, function=function), **fields)
    tool = tool_from_function(function, name=data.name, description=data.description)
    return replace(tool, **_with_marked(tool, fields))


def _with_marked(tool: Tool, fields: dict[str, Any]) -> dict[str, Any]:
    """Add what the function itself marks with `FromContext` to what the file declares."""
    if "from_context" not in fields:
        return fields
    keys = context_keys(tool.name, tool.from_context) | context_keys(tool.name, fields["from_context"])
    return {**fields, "from_context": keys}
