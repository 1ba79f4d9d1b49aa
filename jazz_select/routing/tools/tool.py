"""A tool as a value: what it is called, what it takes and gives, and what runs it."""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from hashlib import sha256
from textwrap import dedent
from typing import Any, Final, cast

from jazz_select.errors import ConfigError, DuplicateToolError, ToolError
from jazz_select.json_values import canonical_bytes
from jazz_select.routing.schemas.fields import mapping
from jazz_select.routing.schemas.places import (
    Path,
    has_place,
    input_names,
    names_of_object,
    objects_to_make,
    part_at,
    path_of,
)
from jazz_select.routing.schemas.reduction import without_fields
from jazz_select.text import nfc, titled
from jazz_select.threads import unbound
from jazz_select.words import ACTING, LOOKING, READING, folded_name, stems, words

CALL_ID: Final = "call_id"
"""The parameter of a function that gets the id of the call, and of which no model is told."""
SECRETS: Final = "secrets"
"""The parameter of a function that gets the credentials of a call, which are no arguments of it."""
ALIASES: Mapping[str, str] = {"mail": "email", "cal": "calendar", "msg": "message", "docs": "document"}
"""Words of capabilities that mean the same."""
_JOINING: Final = frozenset({"and", "or", "then", "in", "out", "off", "on"})
"""With one of these a name has two verbs, or another one: `find_or_create`, `check_in`."""
_SECTION = re.compile(
    r"^(?:Args|Arguments|Parameters|Params):[ \t]*\n((?:[ \t]+\S.*(?:\n|\Z)|[ \t]*\n)+)", re.MULTILINE
)
_ENTRY = re.compile(r"^(\*{0,2}\w+)[ \t]*(?:\(.*?\))?:(.*(?:\n[ \t]+.*|\n(?=\n))*)", re.MULTILINE)
_RULED = re.compile(r"^Parameters[ \t]*\n-{3,}[ \t]*\n((?:(?!.*\n-{3,}).*(?:\n|\Z))*)", re.MULTILINE)
_RULED_ENTRY = re.compile(r"^(\*{0,2}\w+)[ \t]*(?::.*)?((?:\n[ \t]+.*|\n(?=\n))+)", re.MULTILINE)
_FIELDS = re.compile(r"^(:param[ \t].*(?:\n[ \t]+\S.*)*(?:\n|\Z))", re.MULTILINE)
_FIELD = re.compile(r"^:param[ \t]+(?:[^:\n]*[ \t])?(\*{0,2}\w+):(.*(?:\n[ \t]+.*)*)", re.MULTILINE)
_TYPE_FIELD = re.compile(r"^:type[ \t].*(?:\n|\Z)", re.MULTILINE)
_EMAIL = re.compile(r"\be-mail\b", re.IGNORECASE)


ContextKeys = Mapping[str, str] | Iterable[str]
"""Inputs that the caller's context fills: by name the key in the context, or names that are their own keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextInputs:
    """The inputs of a tool that the caller's context fills, and that no model is shown.

    An input is a name at the top, or a field of an object, written with dots: `params.member`.

    Attributes:
        schema: JSON Schema of all arguments, these inputs included.
        shown: The same without these inputs.
        declared: The key in the context, by input that the tool's author declared to come from there.
        keys: The key in the context, by input.
        values: The value from the context, by input; an input without one is left out.
        paths: The names that lead to it, by input.
        withheld: The folded names of which a model may give no value, by the path of the object that holds them.
        objects: The objects that are made where a call leaves them out, by path: their default fields.
        problem: Why no call can be made with this context; empty if nothing is wrong.
    """

    schema: Mapping[str, Any]
    shown: Mapping[str, Any]
    declared: Mapping[str, str] = field(default_factory=dict[str, str])
    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    paths: Mapping[str, Path] = field(default_factory=dict[str, Path])
    withheld: Mapping[Path, frozenset[str]] = field(default_factory=dict[Path, frozenset[str]])
    objects: Mapping[Path, Mapping[str, Any]] = field(default_factory=dict[Path, Mapping[str, Any]])
    problem: str = ""

    def admits(self, path: Path) -> bool:
        """Tell whether a model may give a value at this path."""
        withheld = self.withheld.get(path[:-1], frozenset())
        return path not in self.paths.values() and folded_name(path[-1]) not in withheld


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tool:
    """A connected tool. Two tools are equal only if they are one object.

    Attributes:
        name: The name for models.
        description: What it does, for people and models.
        input_schema: JSON Schema of its arguments, an object; without the inputs that the context fills.
        output_schema: JSON Schema of its result; None if unknown.
        function: Takes the arguments by name, sync or async; None for a tool that is only described. A parameter
            `call_id` that is no input gets the id of the call, the same for each attempt.
        provider: Its owner, such as an MCP server by its name here.
        provider_title: What the owner calls itself: an MCP server's own title, or that of an API. Read by recall.
        group: What it is listed under at its owner, such as the tags of an API. Read by recall.
        operation: The provider's name of it.
        capabilities: Its abilities, as dotted words in lower case: `calendar.list`.
        destructive: Whether it destroys something. Such a tool never runs on a guess.
        id: Stable and unique; by default `provider.name`.
        idempotent: Whether calling it twice has the effect of calling it once. Only then is a call with an unknown
            outcome repeated.
        read_only: Whether it changes nothing; None if unknown: then `reads` goes by its name.
        undoes: The name of the tool whose effect it reverses; users are told of it if that effect stays.
        confirm: Returns, in words for the user, what a call with these arguments would do, such as "129.00 EUR for the
            headphones go back to Visa". Takes the arguments of `function`.
        title: Its name for users, such as "Refund of the payment"; by default its name in words (`display_name`).
        from_context: Inputs that only the caller's `context=` fills, such as who the user is: their names, or by name
            the key in the context. A field of an object is written with dots: `params.member`. No model and no user is
            asked for them, and a call without them fails.
        secrets: Credentials that only the caller's `context=` holds, and that are no inputs: their names, or by name
            the key in the context. `function` gets those that are there as a mapping, in its parameter `secrets`; no
            schema, record, trace, question or digest has them.
        context_inputs: All inputs that the context fills; None if there are none. Set by itself, see `bind_context`.
        converts: Whether `function` converts and checks texts by itself, as one of `tool_from_function` does; then a
            `format` in `input_schema` is left to it.
        argument_checks: For inputs whose type says more than their schema, a function that converts a value, or raises
            `ToolArgumentsError`. By these a user's value is checked when it is said.
    """

    name: str
    description: str = ""
    input_schema: Mapping[str, Any] = field(default_factory=dict[str, Any])
    output_schema: Mapping[str, Any] | None = None
    function: Callable[..., object] | None = None
    provider: str = ""
    provider_title: str = ""
    group: str = ""
    operation: str = ""
    capabilities: tuple[str, ...] = ()
    destructive: bool = False
    id: str = ""
    idempotent: bool = False
    read_only: bool | None = None
    title: str = ""
    confirm: Callable[..., object] | None = None
    undoes: str = ""
    from_context: ContextKeys = ()
    secrets: ContextKeys = ()
    context_inputs: ContextInputs | None = None
    converts: bool = False
    argument_checks: Mapping[str, Callable[[Any], object]] = field(
        default_factory=dict[str, Callable[[Any], object]], repr=False
    )

    def __post_init__(self) -> None:
        """Check what cannot be guessed, bring capabilities to one form, and hide what the context fills."""
        name, schema = cast("object", self.name), cast("object", self.input_schema)  # callers without a type checker
        if not isinstance(name, str) or not name.strip():
            raise ToolError(str(name), "its name is blank; give it one")
        if not isinstance(schema, Mapping):
            problem = "input_schema must be a JSON Schema as a mapping, such as {'type': 'object'}"
            raise ToolError(self.name, f"{problem}, got {schema!r:.60}")
        if not isinstance(cast("object", self.title), str):
            raise ToolError(self.name, f"title must be a text in words for users, got {self.title!r:.60}")
        object.__setattr__(self, "name", nfc(self.name))
        object.__setattr__(self, "undoes", nfc(self.undoes))
        object.__setattr__(self, "title", " ".join(self.title.split()))
        object.__setattr__(self, "id", nfc(self.id) or ".".join(part for part in (self.provider, self.name) if part))
        object.__setattr__(self, "capabilities", tuple(dict.fromkeys(map(capability, self.capabilities))))
        object.__setattr__(self, "secrets", context_keys(self.name, self.secrets))
        self._hide_context_inputs()

    def _hide_context_inputs(self) -> None:
        keys = context_keys(self.name, self.from_context)
        object.__setattr__(self, "from_context", keys)
        before = self.context_inputs
        if before is None and not keys:
            return
        whole = self.input_schema
        if before is not None and self.input_schema is before.shown:  # a copy of a tool whose inputs are hidden already
            if keys == before.declared:
                return
            whole = before.schema
        _check_declared(self.name, keys, whole)
        paths = {place: path_of(whole, place) for place in keys}
        # A dotted place that was declared without a key is filled from the key of its last name.
        keys = {place: paths[place][-1] if key == place else key for place, key in keys.items()}
        object.__setattr__(self, "from_context", keys)
        inputs = ContextInputs(
            schema=whole,
            shown=without_fields(whole, [*paths.values()]),
            declared=keys,
            keys=keys,
            paths=paths,
            withheld=withheld_names((), [*paths.values()]),
            objects=objects_to_make(whole, [*paths.values()]),
            problem=missing_context(whole, keys),
        )
        object.__setattr__(self, "input_schema", inputs.shown)
        object.__setattr__(self, "context_inputs", inputs)

    @property
    def call_schema(self) -> Mapping[str, Any]:
        """JSON Schema of all arguments of a call, those that the context fills included."""
        return self.input_schema if self.context_inputs is None else self.context_inputs.schema

    @property
    def display_name(self) -> str:
        """What users are told that it is called: its title, else its name in words."""
        return self.title or titled(self.name)

    @property
    def reads(self) -> bool:
        """Whether it changes nothing: it says so, or the only verb of its name is one of reading.

        A name is no proof. It permits nothing: it only decides whether a request that may be a question is acted on
        without a model.
        """
        return self._seems_harmless(READING)

    @property
    def looks(self) -> bool:
        """Whether nothing says that it changes something: it `reads`, or the only verb of its name is one of looking.

        That is less than `reads`: `measure` and `convert` look. A name with no verb may do anything.
        """
        return self._seems_harmless(LOOKING)

    def _seems_harmless(self, verbs: AbstractSet[str]) -> bool:
        if self.destructive:
            return False
        if self.read_only is not None:
            return self.read_only
        named = stems(self.name)
        for word in named:
            if word in LOOKING or word in ACTING:
                return word in verbs and not _JOINING.intersection(named)
        return False  # a name without a verb may do anything

    @property
    def digest(self) -> str:
        """A digest of what it is: its name, title, schema, description and effects. Another tool has another one."""
        effects = [self.destructive, self.idempotent, self.read_only]
        what: list[object] = [self.name, self.title, self.id, self.description, self.call_schema, effects]
        if self.from_context:
            what.append(self.from_context)
        return sha256(canonical_bytes(what)).hexdigest()

    @property
    def effect(self) -> str:
        """What it does to the world, in words for a model."""
        if self.destructive:
            return "cannot be undone"
        return "changes nothing" if self.reads else "changes something"


def empty_key(given: object) -> str:
    """Return the problem of a declaration that names an input with no key in the context; empty if there is none."""
    for name, key in mapping(given).items():
        if key is None or key == "":
            return f"the value of {name!r} must be its key in the context, got an empty value; write the key after it"
    return ""


def checked_keys(given: object) -> object:
    """Return a declaration in a file as it is.

    Raises:
        ValueError: It names an input with no key in the context.
    """
    problem = empty_key(given)
    if problem:
        raise ValueError(problem)
    return given


def context_keys(tool: str, given: object) -> dict[str, str]:
    """Return the key in the context of each input that is declared to come from there."""
    keys: dict[object, object] | None = None
    if isinstance(given, Mapping):
        keys = dict(cast("Mapping[object, object]", given))
    elif isinstance(given, Iterable) and not isinstance(given, str):
        keys = {name: name for name in cast("Iterable[object]", given)}
    if keys is not None and all(isinstance(each, str) and each for each in (*keys, *keys.values())):
        return cast("dict[str, str]", keys)
    problem = "from_context must be a list of inputs, or a mapping of inputs to keys of the context"
    empty = empty_key(cast("object", given))
    raise ToolError(tool, f"{problem}, got {given!r:.80}{f'; {empty}' if empty else ''}")


def withheld_names(
    wrappers: Iterable[Path], paths: Iterable[Path], alike: Iterable[str] = ()
) -> dict[Path, frozenset[str]]:
    """Return the folded names of which a model may give no value, by the path of the object that holds them.

    Names that are `alike` to those of a context are withheld from the arguments themselves, and from the fields of the
    single objects at `wrappers`; an object beside other inputs keeps its own.
    """
    names: dict[Path, set[str]] = {path: set(alike) for path in ((), *wrappers)}
    for path in paths:
        for length in range(1, len(path) - 1):  # objects on the way are looked into, too
            names.setdefault(path[:length], set())
        names.setdefault(path[:-1], set()).add(folded_name(path[-1]))
    return {path: frozenset(each) for path, each in names.items()}


def _check_declared(tool: str, keys: Mapping[str, str], schema: Mapping[str, Any]) -> None:
    known = input_names(schema)
    unknown = [name for name in keys if not has_place(schema, name)]
    for name in unknown:
        around = path_of(schema, name)[:-1]
        fields = names_of_object(part_at(schema, around), schema) if around else ()
        if fields:
            inner = f"the fields of {'.'.join(around)} are {', '.join(fields)}"
            raise ToolError(tool, f"from_context names {name}, which is no input of it; {inner}")
    if unknown and (known or mapping(schema).get("additionalProperties") is False):
        there = f"its inputs are {', '.join(known)}" if known else "it has none"
        raise ToolError(tool, f"from_context names {', '.join(unknown)}, which is no input of it; {there}")


def missing_context(schema: Mapping[str, Any], keys: Mapping[str, str]) -> str:
    """Return why no call can be made without these inputs, which are not in the context; empty if all have defaults."""
    missing: list[str] = []
    for name, key in keys.items():
        part = part_at(schema, path_of(schema, name))
        if "default" not in mapping(part):
            missing.append(key)
    if not missing:
        return ""
    named = " and ".join(map(repr, missing))
    return f"it needs {named} from the context, which has none; give it with context="


def checked_tool(tool: object) -> Tool:
    """Return a tool as it is; raise `ConfigError` for any other value, such as a plain function."""
    if isinstance(tool, Tool):
        return tool
    msg = f"tools must be Tools or functions, got {tool!r:.80}; tool_from_function makes a Tool of a function"
    raise ConfigError(msg)


class Toolbox(Mapping[str, Tool]):
    """Connected tools by name, in the order in which they were connected."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        """Connect these.

        Raises:
            DuplicateToolError: Two have one name.
            ConfigError: One is no tool.
        """
        self._tools: dict[str, Tool] = {}
        for tool in map(checked_tool, tools):
            if tool.name in self._tools:
                raise DuplicateToolError(tool.name, (self._tools[tool.name].id, tool.id))
            self._tools[tool.name] = tool

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)


def capability(text: str) -> str:
    """Fold the spellings of a capability: `Calendar:listEvents`, `cal/list-events`, `calendar.list_events` are one."""
    found = words(_EMAIL.sub("email", text))
    return ".".join(ALIASES.get(word, word) for word in found)


def inner_function(function: Callable[..., object]) -> Callable[..., object]:
    """Return the function or method that a partial or a callable object calls in the end."""
    inner = cast("Callable[..., object]", unbound(function))
    if inspect.isroutine(inner):
        return inner
    return cast("Callable[..., object]", getattr(type(inner), "__call__", inner))  # noqa: B004


def name_of(function: object) -> str:
    """Return the name of a function, or of a callable object's class."""
    inner = unbound(function)
    return str(getattr(inner, "__name__", type(inner).__name__))


def docstring_of(function: Callable[..., object]) -> str:
    """Return the docstring of a function, or of a callable object's class."""
    inner = unbound(function)
    if inspect.isroutine(inner):
        return inspect.getdoc(inner) or ""
    own: object = inner_function(function).__doc__  # as it is: without one, `getdoc` has that of the builtin
    if isinstance(own, str):
        return inspect.cleandoc(own)
    return inspect.getdoc(type(inner)) or ""


def split_docstring(docstring: str) -> tuple[str, Mapping[str, str]]:
    """Split a docstring into its text and the texts of its parameters, by name; in Google's, NumPy's or Sphinx's form.

    The parameters are removed from the text, since they are returned beside it.
    """
    found: dict[str, str] = {}

    def take_out(section: re.Match[str], entry: re.Pattern[str]) -> str:
        entries = list(entry.finditer(dedent(section[1])))
        for match in entries:
            text = " ".join(match[2].split())
            if text:
                found[match[1].lstrip("*")] = text
        return "" if entries else section[0]  # a section without entries is text like any other

    rest = _SECTION.sub(lambda section: take_out(section, _ENTRY), docstring)
    rest = _RULED.sub(lambda section: take_out(section, _RULED_ENTRY), rest)
    rest = _TYPE_FIELD.sub("", _FIELDS.sub(lambda section: take_out(section, _FIELD), rest))
    return re.sub(r"\n{3,}", "\n\n", rest).strip(), found
