"""Loading tools: from the `TOOLS` of Python modules, or from a JSON listing."""

import inspect
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

import orjson

from jazz_select.errors import ToolError
from jazz_select.flow.base import FlowRegistry
from jazz_select.flow.imports import import_file, import_folder, import_name, is_package
from jazz_select.routing.decisions.points import DecisionCallback
from jazz_select.routing.tools.functions import tool_from_function
from jazz_select.routing.tools.sources import tools_from_mcp, tools_from_openai
from jazz_select.routing.tools.tool import Tool, Toolbox

NAME: Final = "TOOLS"
"""What a module calls its tools: a list of `Tool`s, or of functions to make them from; or a function that gives one."""


POLICY: Final = "POLICY"
"""What a module calls the `DecisionCallback` that chooses where no model is configured."""


def load_tools(source: str | Path) -> Toolbox:
    """The tools of a source, in the order of their definition, file by file in alphabetical order.

    Args:
        source: The name of an importable package or module, a folder, a .py file with a list named `TOOLS`, or a .json
            file with what an MCP server answers to `tools/list`, or with OpenAI-style function declarations.

    Raises:
        ToolError: There are none, a file cannot be read, or an entry is no tool.
        FlowLoadError: A module cannot be imported.
        DuplicateToolError: Two different tools have one name.
    """
    found: dict[int, Tool] = {}
    with _flows_aside():
        for tool in _found(source):
            found.setdefault(id(tool), tool)  # one that a second module imports is still one
    if not found:
        raise ToolError(str(source), f"there are no tools in it; give a module a list named {NAME}, see docs/tools.md")
    return Toolbox(found.values())


def load_policy(source: str | Path) -> DecisionCallback | None:
    """The first `POLICY` of the modules of a source: who chooses at guided points where no model does.

    Raises:
        ToolError: There is no such source.
        FlowLoadError: A module cannot be imported.
    """
    with _flows_aside():
        found = (getattr(sys.modules[name], POLICY, None) for name in _modules(source))
        return next((each for each in found if each is not None), None)


@contextmanager
def _flows_aside() -> Generator[None]:
    """Modules may define flows beside their tools; those are not wanted here."""
    with FlowRegistry(min_examples=0).scope():
        yield


def _found(source: str | Path) -> Iterator[Tool]:
    path = Path(source)
    if path.suffix.lower() == ".json" and path.is_file():
        yield from _listed(path)
        return
    for name in _modules(source):
        yield from _in_module(name)


def _modules(source: str | Path) -> list[str]:
    """Import a source, and say what its modules are called."""
    path = Path(source)
    if str(source).strip() and path.is_dir():
        folder = path.resolve()
        return (
            import_folder(folder) if is_package(folder) else [import_file(each) for each in sorted(folder.glob("*.py"))]
        )
    if path.is_file():
        if path.suffix.lower() != ".py":
            raise ToolError(path.name, "tools are read from .py and .json files")
        return [import_file(path.resolve())]
    if isinstance(source, str) and source and all(part.isidentifier() for part in source.split(".")):
        return import_name(source)
    raise ToolError(str(source), f"there is no such package, folder or file, seen from {Path.cwd()}")


def _in_module(name: str) -> Iterator[Tool]:
    given: object = getattr(sys.modules[name], NAME, ())
    if inspect.isfunction(given):
        given = given() if given.__module__ == name else ()  # one that was imported is its own module's
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ToolError(name, f"its {NAME} is a list of tools, not {given!r:.60}")
    for entry in cast("Sequence[object]", given):
        if isinstance(entry, Tool):
            yield entry
        elif callable(entry):
            yield tool_from_function(entry)
        else:
            raise ToolError(name, f"an entry of its {NAME} is a Tool or a function, not {entry!r:.60}")


def _listed(file: Path) -> list[Tool]:
    try:
        listing: Any = orjson.loads(file.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise ToolError(file.name, f"it cannot be read as JSON: {error}") from error
    for wrapping in ("result", "tools"):  # the whole JSON-RPC answer, or what is in it
        listing = cast("dict[str, Any]", listing).get(wrapping, listing) if isinstance(listing, dict) else listing
    entries = cast("list[object]", listing) if isinstance(listing, list) else []
    is_mcp = any("inputSchema" in cast("dict[str, Any]", each) for each in entries if isinstance(each, dict))
    return tools_from_mcp(cast("object", listing)) if is_mcp else tools_from_openai(cast("object", listing))
