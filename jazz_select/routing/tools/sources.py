"""Tools from what people have: functions, pydantic models, and the listings of MCP servers and OpenAI-style APIs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from jazz_select.errors import ConfigError, ToolError
from jazz_select.routing.names.words import check_named
from jazz_select.routing.tools.functions import tool_from_function
from jazz_select.routing.tools.tool import Tool, Toolbox

Calling = Callable[[str, dict[str, Any]], object]
"""Runs a tool by name, with its arguments; sync or async."""
ToolLike = Tool | Callable[..., object]
"""A tool, or a function of which one is made."""
ToolsLike = Mapping[str, ToolLike] | Iterable[ToolLike]
"""Tools as every door takes them: a list of tools and functions, mixed, or a mapping of names to them, such as what
`load_tools` returns."""


def tools_of(given: object) -> tuple[Tool, ...]:
    """Tools of whatever a caller has as tools, in their order.

    Raises:
        ConfigError: It is neither a list of tools and functions nor a mapping of names to them.
        ToolError: Of one of the functions no tool can be made.
    """
    if isinstance(given, str | bytes | type) or callable(given) or not isinstance(given, Iterable):
        more = "; load_tools reads what stands in a package, folder or file" if isinstance(given, str) else ""
        one = "; put a single one in a list" if isinstance(given, Tool) or callable(given) else ""
        msg = f"tools are a list of Tools and functions, or what load_tools returns, not {given!r:.80}{more}{one}"
        raise ConfigError(msg)
    if isinstance(given, Toolbox):
        return tuple(given.values())
    if isinstance(given, Mapping):
        named = cast("Mapping[object, object]", given)
        return tuple(_called_as(name, each) for name, each in named.items())
    return tuple(_as_tool(each) for each in cast("Iterable[object]", given))


def toolbox_of(given: object) -> Toolbox:
    """The one home of "what is connected": every door makes its toolbox of what it is given here.

    Raises:
        ConfigError: It is neither a list of tools and functions nor a mapping of names to them.
        ToolError: Of one of the functions no tool can be made.
        DuplicateToolError: Two tools have one name.
    """
    return Toolbox(tools_of(given))


def _as_tool(given: object, name: str = "") -> Tool:
    if isinstance(given, type) or isinstance(getattr(given, "name", None), str) or not callable(given):
        check_named(given)
        return cast("Tool", given)
    return tool_from_function(given, name=name)


def _called_as(name: object, given: object) -> Tool:
    """A tool of a mapping, which calls it by the name that it has."""
    if not isinstance(name, str):
        msg = f"a mapping of tools has their names as its keys, and no {name!r:.80}"
        raise ConfigError(msg)
    tool = _as_tool(given, name)
    if tool.name != name:
        msg = f"a mapping of tools calls one {name!r:.80} that calls itself {tool.name!r:.80}; give both the same name"
        raise ConfigError(msg)
    return tool


def tools_from_mcp(listing: object, *, provider: str = "", call: Calling | None = None) -> list[Tool]:
    """Tools from what an MCP server answers to `tools/list`, or from the list inside it.

    A tool counts as destructive where its annotations say so, or say that it is not read-only and nothing else: such
    is the default of the protocol. One without annotations does not, since most servers write none.

    Raises:
        ToolError: An entry has no name, or a schema that is none.
    """
    found: list[Tool] = []
    for number, entry in enumerate(_entries(listing, "tools")):
        name = _name(entry, number)
        hints = entry.get("annotations")
        said: Mapping[str, Any] = cast("Mapping[str, Any]", hints) if isinstance(hints, Mapping) else {}
        output = entry.get("outputSchema")
        found.append(
            Tool(
                name=name,
                description=_text(entry.get("description")) or _text(entry.get("title")) or _text(said.get("title")),
                input_schema=_schema(name, entry.get("inputSchema", {}), "inputSchema"),
                output_schema=None if output is None else _schema(name, output, "outputSchema"),
                function=None if call is None else _bound(call, name),
                provider=provider,
                operation=name,
                destructive=_destructive(said),
            )
        )
    return found


def tools_from_openai(
    listing: object, *, provider: str = "", functions: Mapping[str, Callable[..., object]] | None = None
) -> list[Tool]:
    """Tools from function declarations: `{"type": "function", "function": {…}}`, or the inner part alone.

    Raises:
        ToolError: An entry has no name, or parameters that are no schema.
    """
    found: list[Tool] = []
    for number, entry in enumerate(_entries(listing, "tools")):
        inner = entry.get("function")
        own = cast("Mapping[str, Any]", inner) if isinstance(inner, Mapping) else entry
        name = _name(own, number)
        found.append(
            Tool(
                name=name,
                description=_text(own.get("description")),
                input_schema=_schema(name, own.get("parameters") or {}, "parameters"),
                function=(functions or {}).get(name),
                provider=provider,
                operation=name,
            )
        )
    return found


def _entries(listing: object, key: str) -> Iterable[Mapping[str, Any]]:
    entries: object = cast("Mapping[str, object]", listing).get(key) if isinstance(listing, Mapping) else listing
    if not isinstance(entries, Sequence) or isinstance(entries, str | bytes):
        raise ToolError("?", f"a listing is a list of tools, or a mapping with one under {key!r}, not {listing!r:.60}")
    for number, entry in enumerate(cast("Sequence[object]", entries)):
        if not isinstance(entry, Mapping):
            place = f"#{number}"
            raise ToolError(place, f"an entry of a listing is a mapping, not {entry!r:.60}")
        yield cast("Mapping[str, Any]", entry)


def _name(entry: Mapping[str, Any], number: int) -> str:
    name = _text(entry.get("name"))
    if not name.strip():
        place = f"#{number}"
        raise ToolError(place, "it has no name")
    return name


def _schema(tool: str, given: object, field: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise ToolError(tool, f"{field} is a JSON Schema as a mapping, not {given!r:.60}")
    return cast("Mapping[str, Any]", given)


def _destructive(said: Mapping[str, Any]) -> bool:
    if isinstance(said.get("destructiveHint"), bool):
        return said["destructiveHint"]
    return bool(said) and said.get("readOnlyHint") is False


def _bound(call: Calling, name: str) -> Callable[..., object]:
    return partial(_called, call, name)


def _called(call: Calling, name: str, /, **arguments: Any) -> object:
    return call(name, arguments)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
