"""Tools from what people have: functions, MCP servers and their listings, and declarations in OpenAI's form."""

import asyncio
import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import islice
from types import MappingProxyType
from typing import Annotated, Any, Final, cast

import orjson

from jazz_select.arguments import Methods, Seconds, checked
from jazz_select.errors import ConfigError, ToolAnswerError, ToolArgumentsError, ToolError, ToolOutcomeUnknownError
from jazz_select.json_values import as_json, is_array, is_object, storable_text, too_much
from jazz_select.routing.schemas.fields import alternatives
from jazz_select.routing.schemas.places import has_place
from jazz_select.routing.schemas.validity import Checker, schema_problem
from jazz_select.routing.tools.functions import tool_from_function
from jazz_select.routing.tools.mcp_session import tool_answer, tools_page
from jazz_select.routing.tools.tool import ContextKeys, Tool, Toolbox, checked_tool, context_keys
from jazz_select.text import as_text, cut, describe_error, in_log, in_one_line, nfc, one_line
from jazz_select.threads import in_thread, run_with_timeout

Calling = Callable[[str, dict[str, Any]], object]
"""Runs a tool by name, with its arguments; sync or async."""
Destroys = bool | Callable[[str, Mapping[str, bool]], bool]
"""Whether tools destroy something: those without hints, or by name and hints each."""
ToolLike = Tool | Callable[..., object]
"""A tool, or a function of which one is made."""
ToolsLike = Mapping[str, ToolLike] | Iterable[ToolLike]
"""Tools as every door takes them: a list of tools and functions, mixed, or a mapping of names to them, such as what
`load_tools` returns."""

_log = logging.getLogger(__name__)
_HUMP: Final = re.compile("([A-Z])")
_HINTS: Final = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False}
"""What each hint is where its two spellings differ."""
_RESULT: Final = frozenset({"isError", "is_error", "structuredContent", "structured_content"})
_NAMED: Final = ("uri", "name", "title", "description", "mimeType", "size")
_OWN_CODES: Final = frozenset({-32000, -32001, -32700, 408})
"""What clients answer themselves: that the connection broke, time ran out, or the answer could not be read."""
_CLOSED: Final = "its session is closed; keep it open as long as its tools are in use"
_MOST_PAGES, _MOST_TOOLS = 1_000, 10_000
_MOST_LOGGED: Final = 20
_HOLDING_A_VALUE: Final = frozenset(("default", "const", "example"))
_HOLDING_VALUES: Final = frozenset(("enum", "examples"))
_HOLDING_SCHEMAS_BY_NAME: Final = frozenset(
    ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
)
_LONGEST_NAME, _LONGEST_DESCRIPTION, _LARGEST_SCHEMA = 500, 20_000, 500_000
_MOST_PARTS, _LONGEST_WORD, _LONGEST_ERROR = 100, 500, 500
_LONGEST_TEXT, _LARGEST_STRUCTURE, _READ_OF_ERROR = 100_000, 1_000_000, 5_000
_NO_ERROR: Final = (None, False, "false")
"""What says that nothing failed: whatever else stands there is no clear no."""


def tools_of(given: object) -> tuple[Tool, ...]:
    """Return the tools in a caller's value, in order.

    Raises:
        ConfigError: It is neither a list of tools and functions nor a mapping of names to them.
        ToolError: A function cannot become a tool.
    """
    if isinstance(given, str | bytes | type) or callable(given) or not isinstance(given, Iterable):
        advice = ""
        if isinstance(given, str):
            advice = "; load_tools reads what stands in a package, folder or file"
        elif isinstance(given, Tool) or callable(given):
            advice = "; put a single one in a list"
        msg = f"tools must be a list of Tools and functions, or what load_tools returns, got {given!r:.80}{advice}"
        raise ConfigError(msg)
    if isinstance(given, Toolbox):
        return tuple(given.values())
    if isinstance(given, Mapping):
        named = cast("Mapping[object, object]", given)
        return tuple(_called_as(name, each) for name, each in named.items())
    return tuple(_as_tool(each) for each in cast("Iterable[object]", given))


def toolbox_of(given: object) -> Toolbox:
    """Return the connected tools as a toolbox; every entry point uses this.

    Raises what `tools_of` does, and a DuplicateToolError if two tools have one name.
    """
    return Toolbox(tools_of(given))


def _as_tool(given: object, name: str = "") -> Tool:
    if isinstance(given, str):
        what = f"tools must be Tools or functions, got the name {given!r:.80}"
        raise ConfigError(f"{what}; of what load_tools returns, .values() are the tools")
    if callable(given) and not isinstance(given, type):
        return tool_from_function(given, name=name)
    return checked_tool(given)


def _called_as(name: object, given: object) -> Tool:
    if not isinstance(name, str):
        raise ConfigError(f"the keys of a mapping of tools must be their names, got {name!r:.80}")
    tool = _as_tool(given, name)
    if tool.name != nfc(name):
        msg = f"a mapping of tools calls one {name!r:.80} that calls itself {tool.name!r:.80}; give both the same name"
        raise ConfigError(msg)
    return tool


class ListedTools(list[Tool]):
    """The tools of a listing, in its order.

    Attributes:
        left_out: The entries that are no usable tools, each with what is wrong; the others are not lost with them.
    """

    def __init__(self, tools: Iterable[Tool] = (), *, left_out: Iterable[ToolError] = ()) -> None:
        super().__init__(tools)
        self.left_out: tuple[ToolError, ...] = tuple(left_out)


def tools_from_mcp(  # noqa: PLR0913 - options with a name
    listing: object,
    *,
    provider: str = "",
    provider_title: str = "",
    prefix: str = "",
    call: Calling | None = None,
    destructive: Destroys = True,
    trusted: bool = False,
    from_context: ContextKeys = (),
) -> ListedTools:
    """Return tools from an MCP server's answer to `tools/list`, or from its list: objects of the SDK, or mappings.

    As in the protocol, a tool without hints counts as destructive. A hint that it is destructive is always believed.
    An entry that is no usable tool is left out, and named in `left_out` and in a warning.

    Args:
        listing: The answer, or its list, in either spelling (`inputSchema`, `input_schema`).
        provider: The owner of the tools.
        provider_title: What the server calls itself; recall reads it beside `provider`.
        prefix: Prefix of each name, if two servers share names. The server is called with its own name.
        call: Runs a tool by the server's name. Its answer is read as an MCP result if it is one.
        destructive: Whether a tool without hints is destructive; or a function of the server's name and the hints
            (`readOnlyHint`, `destructiveHint`, `idempotentHint`) that decides for each tool.
        trusted: Whether to believe the server's hints that a tool is harmless or may be called twice, and its titles.
            Otherwise each tool counts as destructive unless `destructive` says otherwise.
        from_context: Inputs that only the caller's context fills, in every tool that has them: their names, or by name
            the key in the context. No model is shown them.

    Raises:
        ToolError: No entry is a usable tool, there are more than 10,000 entries, or `from_context` names an input that
            no tool has.
    """
    keys = context_keys(provider or "?", from_context)
    reader = _McpReader(
        provider=provider,
        provider_title=provider_title,
        prefix=prefix,
        call=call,
        destructive=destructive,
        trusted=trusted,
        keys=keys,
    )
    return _require_tools(_read_listing(_bounded_entries(listing), reader.tool), keys)


def _read_listing(entries: Iterable[object], read: Callable[[object, int], Tool]) -> ListedTools:
    """Return what can be read of a listing; what cannot is left out, whatever is wrong with it."""
    found: dict[str, Tool] = {}
    left_out: list[ToolError] = []
    for number, entry in enumerate(entries):
        try:
            tool = read(entry, number)
        except ToolError as error:
            left_out.append(error)
        except Exception as error:  # noqa: BLE001 - others wrote it, and it may be anything
            left_out.append(ToolError(f"#{number}", describe_error(error)))
        else:
            if found.setdefault(tool.name, tool) is not tool:
                left_out.append(ToolError(tool.name, "it is listed twice, and the first one is taken"))
    _warn_of(left_out)
    return ListedTools(found.values(), left_out=left_out)


def _warn_of(left_out: Sequence[ToolError]) -> None:
    for each in left_out[:_MOST_LOGGED]:
        _log.warning("tool=<%s>, problem=<%s> | a listed tool is left out", in_log(each.tool), in_log(each.problem))


def listed_tools(tools: Iterable[Tool], left_out: Sequence[ToolError], *, keys: Mapping[str, str]) -> ListedTools:
    """Return tools that were read elsewhere as a listing; what was left out is named in a warning.

    Raises:
        ToolError: All were left out, or `keys` names an input that none has.
    """
    _warn_of(left_out)
    return _require_tools(ListedTools(tools, left_out=left_out), keys)


def _require_tools(listed: ListedTools, keys: Mapping[str, str] = MappingProxyType({})) -> ListedTools:
    if listed.left_out and not listed:
        raise listed.left_out[0]
    _check_keys(listed, keys)
    return listed


@dataclass(frozen=True, slots=True, kw_only=True)
class _McpReader:
    """Reads the entries of an MCP server's listing; the attributes are what `tools_from_mcp` takes."""

    provider: str
    provider_title: str
    prefix: str
    call: Calling | None
    destructive: Destroys
    trusted: bool
    keys: Mapping[str, str]

    def tool(self, entry: object, number: int) -> Tool:
        name = _name(_checked_entry(entry, number), number)
        schema = _input_schema(name, _get_field(entry, "inputSchema"), "inputSchema")
        hints = _hints(_get_field(entry, "annotations"))
        output_schema: Mapping[str, Any] | None = None
        declared_output = _get_field(entry, "outputSchema")
        if declared_output is not None:
            output_schema = _schema(name, declared_output, "outputSchema")
        title = _text(_get_field(entry, "title")) or _text(_get_field(entry, "annotations.title"))
        return Tool(
            name=f"{self.prefix}{name}",
            description=cut(_text(_get_field(entry, "description")) or title, _LONGEST_DESCRIPTION),
            input_schema=schema,
            output_schema=output_schema,
            function=None if self.call is None else _bind_call(self.call, name, output_schema),
            provider=self.provider,
            provider_title=self.provider_title,
            operation=name,
            destructive=_destroys(name, hints, self.destructive, trusted=self.trusted),
            idempotent=self.trusted and True in (hints.get("idempotentHint"), hints.get("readOnlyHint")),
            read_only=hints.get("readOnlyHint") if self.trusted else None,
            # Users agree to calls by their titles: a server that is not trusted may not word what they agree to.
            title=in_one_line(one_line(title)) if self.trusted else "",
            from_context=_taken_keys(schema, self.keys),
        )


def _taken_keys(schema: Mapping[str, Any], keys: Mapping[str, str]) -> dict[str, str]:
    return {name: key for name, key in keys.items() if has_place(schema, name)}


def _check_keys(tools: Iterable[Tool], keys: Mapping[str, str]) -> None:
    used: set[str] = set()
    for tool in tools:
        used.update(context_keys(tool.name, tool.from_context))
    unused = [name for name in keys if name not in used]
    if unused:
        raise ToolError("?", f"from_context names {', '.join(unused)}, which is an input of no tool in the listing")


@checked
async def tools_from_session(  # noqa: PLR0913 - options with a name
    session: Annotated[
        object, Methods("one with list_tools() and call_tool(name, arguments)", "list_tools", "call_tool")
    ],
    *,
    provider: str = "",
    prefix: str = "",
    timeout_s: Seconds = 60.0,
    destructive: Destroys = True,
    trusted: bool = False,
    from_context: ContextKeys = (),
) -> ListedTools:
    """Return the tools of a live MCP session, whatever its transport; each calls the server.

    They work while the session is open, also from other event loops while its own runs. Answers are bounded: text,
    `structuredContent`, or a list in which images and files are named and not kept. An answer that is not what the
    tool's `outputSchema` says is returned all the same: the tool has run. An answer with `isError` is a failed step;
    after a broken connection the outcome of a call is unknown. A tool that cannot be used is left out, as by
    `tools_from_mcp`, also where the SDK refuses the listing for it.

    Args:
        session: An initialised `ClientSession` or `Client` of the package `mcp`, or an object with `list_tools()` and
            `call_tool(name, arguments)` like theirs.
        provider: The owner of the tools.
        prefix: Prefix of each name, if two servers share names.
        timeout_s: Time limit of each page of the listing and of each call, beside the limit of a step.
        destructive: As for `tools_from_mcp`.
        trusted: As for `tools_from_mcp`.
        from_context: As for `tools_from_mcp`.

    Raises:
        ConfigError: It is no session, or the limit is invalid.
        ToolError: The server cannot list its tools, or none of those it lists can be used.
    """
    return _require_tools(
        await session_tools(
            session,
            provider=provider,
            prefix=prefix,
            timeout_s=timeout_s,
            destructive=destructive,
            trusted=trusted,
            from_context=from_context,
        )
    )


async def session_tools(  # noqa: PLR0913 - options with a name
    session: object,
    *,
    provider: str,
    timeout_s: float,
    destructive: Destroys,
    trusted: bool,
    prefix: str = "",
    from_context: ContextKeys = (),
) -> ListedTools:
    """Return what `tools_from_session` does, and no tools from a server of which none can be used."""
    keys = context_keys(provider or "?", from_context)
    live = _Live(session, asyncio.get_running_loop(), timeout_s)
    entries = await live.list_entries(provider or "?")
    reader = _McpReader(
        provider=provider,
        provider_title=_server_title(session),
        prefix=prefix,
        call=live.call,
        destructive=destructive,
        trusted=trusted,
        keys=keys,
    )
    found = await in_thread(_read_listing, entries, reader.tool)  # thousands take longer than a loop may wait
    _check_keys(found, keys if found else {})
    return found


def _server_title(session: object) -> str:
    """Return what the server of a session calls itself, for recall; nobody is asked for a yes by these words."""
    title = _text(_get_field(session, "serverInfo.title")) or _text(_get_field(session, "serverInfo.name"))
    return in_one_line(one_line(cut(title, _LONGEST_NAME)))


def tools_from_openai(
    listing: object,
    *,
    provider: str = "",
    functions: Mapping[str, Callable[..., object]] | None = None,
    from_context: ContextKeys = (),
) -> ListedTools:
    """Return tools from function declarations: `{"type": "function", "function": {…}}`, or the inner part alone.

    One that is no usable tool is left out, as by `tools_from_mcp`.

    Args:
        listing: The declarations.
        provider: The owner of the tools.
        functions: What runs them, by name.
        from_context: As for `tools_from_mcp`.

    Raises:
        ToolError: None is a usable tool, there are more than 10,000 entries, or `from_context` names an input that no
            tool has.
    """
    keys = context_keys(provider or "?", from_context)

    def read_function(entry: object, number: int) -> Tool:
        own = _get_field(_checked_entry(entry, number), "function") or entry
        name = _name(own, number)
        schema = _input_schema(name, _get_field(own, "parameters"), "parameters")
        return Tool(
            name=name,
            description=_text(_get_field(own, "description")),
            input_schema=schema,
            function=(functions or {}).get(name),
            provider=provider,
            operation=name,
            from_context=_taken_keys(schema, keys),
        )

    return _require_tools(_read_listing(_bounded_entries(listing), read_function), keys)


def _entries(listing: object, key: str) -> Sequence[object]:
    entries: object = listing
    if not isinstance(listing, Sequence):
        entries = _get_field(listing, key, f"result.{key}")
    if not isinstance(entries, Sequence) or isinstance(entries, str | bytes):
        problem = f"a listing must be a list of tools, or a mapping with one under {key!r}, got {listing!r:.60}"
        raise ToolError("?", problem)
    return cast("Sequence[object]", entries)


def _checked_entry(entry: object, number: int) -> object:
    if not isinstance(entry, Mapping) and not isinstance(getattr(entry, "name", None), str):
        raise ToolError(f"#{number}", f"an entry of a listing must be a mapping, got {entry!r:.60}")
    return cast("object", entry)


def _bounded_entries(listing: object) -> list[object]:
    found = list(islice(_entries(listing, "tools"), _MOST_TOOLS + 1))
    if len(found) > _MOST_TOOLS:
        raise ToolError("?", f"the listing holds more than {_MOST_TOOLS} tools; give those that are wanted, in a list")
    return found


def _get_field(given: object, *names: str) -> Any:
    """Return the first present value of these names in either spelling; `a.b` is nested."""
    for name in names:
        outer, _, inner = name.partition(".")
        for spelling in _spellings_in(given, outer):
            value = _get_value(given, spelling)
            if inner:
                value = _get_field(value, inner)
            if value is not None:
                return value
    return None


def _get_value(given: object, name: str) -> Any:
    if is_object(given):
        return given.get(name)
    value: Any = getattr(given, name, None)
    return None if callable(value) else value


def _spellings_in(given: object, name: str) -> Sequence[str]:
    """Return the spellings of a name to look for. A model of the SDK has one, and may warn of the other."""
    spellings = _spellings(name)
    fields: Collection[str] = () if isinstance(given, Mapping) else getattr(type(given), "model_fields", ())
    return [each for each in spellings if each in fields] or spellings


@cache
def _spellings(name: str) -> tuple[str, ...]:
    """Return a name as the protocol spells it, and as the SDK may: `isError`, `is_error`."""
    return tuple(dict.fromkeys((name, _HUMP.sub(r"_\1", name).lower())))


def _name(entry: object, number: int) -> str:
    name = _text(_get_field(entry, "name"))
    if not name.strip() or len(name) > _LONGEST_NAME:
        problem = "it has no name"
        if name.strip():
            problem = f"its name must have at most {_LONGEST_NAME} characters, got {len(name)}"
        raise ToolError(f"#{number}", problem)
    if as_text(name) != name:
        raise ToolError(as_text(name), "its name is no text that can be written: it has half a character")
    return name


def _input_schema(tool: str, given: object, field: str) -> Mapping[str, Any]:
    """Return the schema of a tool's arguments; nothing, true and an empty list say that it takes anything."""
    if given is None or given is True or given == []:
        return {}
    schema = _schema(tool, given, field)
    if all(each.type not in {"object", ""} for each in alternatives(schema, schema)):
        raise ToolError(tool, f"{field} takes no object, and arguments are one")
    problem = schema_problem(schema)
    if problem:
        raise ToolError(tool, f"{field}: {problem}")
    return schema


def _schema(tool: str, given: object, field: str) -> Mapping[str, Any]:
    if not is_object(given):
        raise ToolError(tool, f"{field} must be a JSON Schema as a mapping, got {given!r:.60}")
    try:
        text = orjson.dumps(dict(given))
    except TypeError as error:
        raise ToolError(tool, f"{field} is no JSON: {describe_error(error)}") from error
    if len(text) > _LARGEST_SCHEMA:
        raise ToolError(tool, f"{field} must have at most {_LARGEST_SCHEMA} bytes, got {len(text)}")
    if b"null" in text or b"[]" in text:
        return _without_unset(given)
    return given


def _without_unset(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema without keywords that are not set: Go servers write `"properties": null`, and PHP writes `[]`.

    A property that is null is one of which nothing is said. Nulls in values that a schema gives stay.
    """
    found: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _HOLDING_A_VALUE or (keyword in _HOLDING_VALUES and value is not None):
            found[keyword] = value
        elif keyword in _HOLDING_SCHEMAS_BY_NAME and value == []:
            found[keyword] = {}
        elif keyword in _HOLDING_SCHEMAS_BY_NAME and is_object(value):
            found[keyword] = {name: {} if each is None else _drop_unset(each) for name, each in value.items()}
        elif value is not None:
            found[keyword] = _drop_unset(value)
    return found


def _drop_unset(value: Any) -> Any:
    if is_object(value):
        return _without_unset(value)
    if is_array(value):
        return [_drop_unset(each) for each in value]
    return value


# --- hints -----------------------------------------------------------------------


def _hints(annotations: object) -> dict[str, bool]:
    """Return the effective annotations in the spelling of the protocol; of two that differ, the more careful one."""
    found: dict[str, bool] = {}
    for name, careful in _HINTS.items():
        stated = [_get_value(annotations, spelling) for spelling in _spellings_in(annotations, name)]
        hints = [each for each in stated if isinstance(each, bool)]
        if hints:
            found[name] = careful if careful in hints else hints[0]
    return found


def _destroys(name: str, hints: Mapping[str, bool], destructive: Destroys, *, trusted: bool) -> bool:
    if callable(destructive):
        return destructive(name, dict(hints)) is not False  # whatever else it says is no clear no
    if hints.get("destructiveHint") is True:
        return True
    if trusted and (hints.get("readOnlyHint") is True or hints.get("destructiveHint") is False):
        return False
    return destructive or hints.get("readOnlyHint") is False


# --- calls -----------------------------------------------------------------------


def _bind_call(call: Calling, name: str, schema: Mapping[str, Any] | None) -> Callable[..., object]:
    return partial(_call_remote, call, name, None if schema is None else _Declared(schema))


def _call_remote(call: Calling, name: str, declared: "_Declared | None", /, **arguments: Any) -> object:
    answer = call(name, arguments)

    async def output_of(pending: Awaitable[object]) -> object:
        return _output(name, await pending, declared)

    if inspect.isawaitable(answer):
        return output_of(answer)
    return _output(name, answer, declared)


class _Declared:
    """What a tool is declared to return."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._is_object = any(each.type == "object" for each in alternatives(schema, schema))

    @cached_property
    def _checker(self) -> Checker | None:
        try:
            return Checker(self._schema, unread=frozenset(("format",)))  # a result is not sent back for its texts
        except ConfigError:  # nobody can say what fits
            return None

    def problem(self, value: object) -> str:
        return "" if self._checker is None else self._checker.problems(value)

    def value_of(self, text: str) -> object:
        """Return the JSON in a text if that is what is declared, and not the text itself."""
        try:
            value: object = orjson.loads(text)
        except orjson.JSONDecodeError:
            return text
        if value is None or self.problem(value):
            return text
        # Where the text is valid as well, it may be just that: a text of digits, or "true".
        is_declared = (self._is_object and is_object(value)) or self.problem(text)
        return value if is_declared else text


@dataclass(frozen=True, slots=True)
class _Live:
    session: Any
    loop: asyncio.AbstractEventLoop
    timeout_s: float

    async def call(self, name: str, arguments: dict[str, Any]) -> object:
        try:
            sent = as_json(arguments)
        except (TypeError, ValueError, RecursionError) as error:
            raise ToolArgumentsError(name, f"they are no JSON: {describe_error(error)}") from error
        try:
            getattr(self.session, "session", None)  # mcp's `Client` has one as long as it is open, and raises otherwise
        except RuntimeError as error:
            raise ToolError(name, _CLOSED) from error
        try:
            return await self._run_in_session(partial(tool_answer, self.session, name, sent), name)
        except ToolError:
            raise
        except TimeoutError as error:
            raise ToolOutcomeUnknownError(name, f"its server gave no answer within {self.timeout_s:g} s") from error
        except Exception as error:
            raise _fault(name, error) from error

    async def list_entries(self, server: str) -> list[object]:
        """List the entries of all pages; raise `ToolError` if the pages do not end."""
        found: list[object] = []
        cursors: list[str] = []
        while len(cursors) < _MOST_PAGES:
            try:
                cursor = cursors[-1] if cursors else None
                page = await self._run_in_session(partial(tools_page, self.session, cursor), server)
                found += islice(_entries(page, "tools"), _MOST_TOOLS + 1 - len(found))
            except Exception as error:
                raise ToolError(server, f"its server could not list its tools: {describe_error(error)}") from error
            if len(found) > _MOST_TOOLS:
                break
            cursor = _text(_get_field(page, "nextCursor"))
            if not cursor:
                return found
            if cursor in cursors:
                raise ToolError(server, "the pages of its server's listing go round in a circle")
            cursors.append(cursor)
        raise ToolError(server, f"its server lists more than {_MOST_TOOLS} tools, or {_MOST_PAGES} pages of them")

    async def _run_in_session(self, ask: Callable[[], Awaitable[object]], name: str) -> object:
        async def run() -> object:
            return await ask()

        async def run_in_session_loop() -> object:
            if asyncio.get_running_loop() is self.loop:
                return await run()
            if not self.loop.is_running():
                raise ToolError(name, "the event loop of its session has ended; open one in this loop")
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(run(), self.loop))

        try:  # one that does not end when it is cancelled is left
            return await run_with_timeout(run_in_session_loop, limit_s=self.timeout_s, name="its session")
        except BaseExceptionGroup as error:  # of a session's own tasks
            ending = error.subgroup((KeyboardInterrupt, SystemExit))
            if ending is not None:
                raise
            raise ToolOutcomeUnknownError(name, describe_error(error)) from error


def _fault(name: str, error: Exception) -> ToolError:
    """Return what a failed call means: the server's own answer, or an outcome that nobody knows."""
    answered: object = getattr(getattr(error, "error", None), "code", None)
    if type(error).__name__ == "ClosedResourceError":
        return ToolError(name, _CLOSED)
    if isinstance(answered, int) and answered not in _OWN_CODES:
        return ToolAnswerError(name, cut(" ".join(str(error).split()), _LONGEST_ERROR))
    return ToolOutcomeUnknownError(name, describe_error(error))


# --- what a server answers -------------------------------------------------------


def _output(name: str, answer: object, declared: _Declared | None) -> object:
    """Return the output of a call: structured content, text, or a description of other content. Raise for a failure.

    An output that is not what was declared is one all the same: whoever reads it gets it, since the tool has run.
    """
    if not _is_result(answer):
        return answer
    parts = _parts(answer)
    structured = _get_field(answer, "structuredContent")
    if any(_get_field(answer, each) not in _NO_ERROR for each in ("isError", "is_error")):
        texts = [_text(_get_field(part, "text")) or _text(part) for part in parts]
        problem = as_text(" ".join(" ".join(text[:_READ_OF_ERROR] for text in texts).split()))
        if not problem:
            problem = f"it said that it failed, and not why{_structured_suffix(structured)}"
        raise ToolAnswerError(name, cut(problem, _LONGEST_ERROR))
    if structured is not None:
        excess = too_much(structured, _LARGEST_STRUCTURE)
        if excess:
            raise ToolOutcomeUnknownError(name, f"its server returned {excess}")
        _note_undeclared(name, structured, declared)
        return structured
    if declared is not None and len(parts) == 1:
        # Some servers send what they declare as JSON in a text alone.
        text = _text(_get_field(parts[0], "text"))
        if 0 < len(text) <= _LARGEST_STRUCTURE:
            value = declared.value_of(text)
            _note_undeclared(name, value, declared)
            if not isinstance(value, str):
                return value
    return _content(parts)


def _parts(answer: object) -> list[object]:
    content: object = _get_field(answer, "content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if is_object(content):  # one part outside of a list
        return [content]
    if isinstance(content, list | tuple):
        return list(cast("Sequence[object]", content)[: _MOST_PARTS + 1])
    return []


def _note_undeclared(name: str, value: object, declared: _Declared | None) -> None:
    problem = "" if declared is None else declared.problem(value)
    if problem:
        message = "tool=<%s>, problem=<%s> | a server answered otherwise than its tool declares; the answer is taken"
        _log.warning(message, in_log(name), in_log(problem))


def _content(parts: Sequence[object]) -> object:
    left = _LONGEST_TEXT
    shown: list[object] = []
    for part in parts[:_MOST_PARTS]:
        shown.append(_part(part, left))
        left -= len(_text(shown[-1]) or _text(_get_field(shown[-1], "text")))
    if len(parts) > _MOST_PARTS:
        shown.append(f"[… more than {_MOST_PARTS} parts …]")
    if not shown:
        return None
    if all(isinstance(each, str) for each in shown):
        return "\n".join(cast("list[str]", shown))
    return shown[0] if len(shown) == 1 else shown


def _structured_suffix(structured: object) -> str:
    """Return what else a failure holds."""
    if structured is None or too_much(structured, _READ_OF_ERROR):
        return ""
    return f": {storable_text(structured)}"


def _is_result(answer: object) -> bool:
    """Tell whether a value is a server's answer, not the result of a wrapper."""
    if is_object(answer):
        if not answer.keys().isdisjoint(_RESULT):
            return True
        content: object = answer.get("content")
        blocks = cast("Sequence[object]", content) if isinstance(content, list | tuple) else [content]
        return all(not isinstance(each, str) and isinstance(_get_field(each, "type"), str) for each in blocks)
    fields: Collection[str] | None = getattr(type(answer), "model_fields", None)
    if fields is None:
        return any(hasattr(answer, name) for name in _RESULT)
    return not _RESULT.isdisjoint(fields)


def _part(part: object, room: int) -> object:
    if part is None or isinstance(part, str | int | float):  # no part as the protocol has it, and yet an answer
        return cut(str(part), max(room, 0))
    text = _get_field(part, "text")
    kind = _text(_get_field(part, "type"))
    if kind == "text":
        return cut(_text(text), max(room, 0))
    inner = _get_field(part, "resource") or part
    data = _text(_get_field(inner, "data", "blob"))
    named: dict[str, Any] = {"type": cut(kind, _LONGEST_WORD)}
    for field in _NAMED:
        value = _get_field(inner, field)
        if value is not None:
            named[field] = value if isinstance(value, int) else cut(str(value), _LONGEST_WORD)
    if data:
        named["bytes"] = len(data) * 3 // 4
    if inner is not part:
        embedded = _get_field(inner, "text")
        if isinstance(embedded, str):
            named["text"] = cut(embedded, max(room, 0))
    return named


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
