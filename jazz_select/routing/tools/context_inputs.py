"""Inputs that the caller's context fills: who the user is, and whatever else no model may write.

A tool is bound to a context before a model sees it and before it is called. Its schema then lacks these inputs, and
`filled_arguments` adds them to a call. Every door binds; nobody else hides or fills.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Concatenate, Final, NamedTuple, ParamSpec, TypeVar, cast

from jazz_select.errors import ConfigError
from jazz_select.json_values import canonical_bytes, has_fields, is_object, plain
from jazz_select.routing.schemas.places import (
    Path,
    input_names,
    input_paths,
    objects_to_make,
    path_of,
    without_paths,
    wrapper_paths,
)
from jazz_select.routing.schemas.reduction import without_fields
from jazz_select.routing.tools.tool import SECRETS, ContextInputs, Tool, missing_context, withheld_names
from jazz_select.text import beginning, some_of
from jazz_select.words import by_spelling, excess_of_names, folded_name

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

NOT_USED: Final = (
    "Arguments that are not among this tool's inputs were not used: "
    "the program sets what it works on, such as for whom."
)
"""What a model is told if values that it gave were dropped."""
_P = ParamSpec("_P")
_T = TypeVar("_T")
_MOST_NAMED = 5
_LONGEST_NAMED = 80


@dataclass(frozen=True, slots=True)
class FromContext:
    """Marks a parameter of a function that only the caller's context fills: `Annotated[str, FromContext]`.

    No model and no user is asked for it, and a call without it in `context=` fails. A parameter with a default is
    optional: without a value in the context it keeps its default.

    Attributes:
        key: The key in the context, as in `Annotated[str, FromContext("customer_id")]`; by default the parameter's
            name.
    """

    key: str = ""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: Callable[[object], object]) -> "CoreSchema":
        """Refuse to be part of a type: what is marked is a parameter as a whole."""
        del source, handler
        msg = (
            "FromContext marks a parameter as a whole, as in Annotated[str | None, FromContext], and no part of a type"
            '; for a field of an object name its place, as in tool_from_function(find, from_context=["query.member"])'
        )
        raise TypeError(msg)


class FilledArguments(NamedTuple):
    """The arguments of a call with what the context fills.

    Attributes:
        arguments: All arguments, in the order of the tool's inputs.
        dropped: The names for which a value was given that the context fills, or withholds.
    """

    arguments: dict[str, Any]
    dropped: tuple[str, ...] = ()


def check_context(context: object) -> None:
    """Raise unless this is a mapping of names to values, or None.

    Raises:
        ConfigError: It is neither.
    """
    if context is None:
        return
    if isinstance(context, Mapping) and all(isinstance(name, str) for name in cast("Mapping[Any, Any]", context)):
        return
    raise ConfigError(f"context must be a mapping of names to values, got {context!r:.80}")


class _Keys:
    """The keys of a context by their folded names, and the values; a value of None counts as unknown."""

    def __init__(self, context: Mapping[str, Any]) -> None:
        self.values = {key: value for key, value in context.items() if value is not None}
        self.alike = by_spelling(self.values)
        # `by_spelling` leaves names out then, and a model could give an input under another spelling of one of them.
        self.excess = excess_of_names(self.values)

    def keys_for(self, name: str) -> list[str]:
        """Return the keys that mean a name: that very key, else all that differ in case and separators alone."""
        return [name] if name in self.values else self.alike.get(folded_name(name), [])


def bind_tools(tools: Iterable[Tool], context: Mapping[str, Any] | None) -> list[Tool]:
    """Return tools bound to a context, in order; see `bind_context`."""
    keys = _Keys(context or {})
    return [_bind_tool(tool, keys) for tool in tools]


def bind_context(tool: Tool, context: Mapping[str, Any] | None) -> Tool:
    """Return a tool with the inputs that a context holds filled from it, and gone from its schema.

    Names may differ in case and separators. Values of None count as unknown.
    """
    return _bind_tool(tool, _Keys(context or {}))


def filled_arguments(tool: Tool, given: Mapping[str, Any]) -> FilledArguments:
    """Return the arguments of a call of a bound tool: those given that may be given, and those from its context."""
    inputs = tool.context_inputs
    if inputs is None:
        return FilledArguments(dict(given))
    known, refused = _split_arguments(inputs, given)
    values = {inputs.paths[name]: value for name, value in inputs.values.items()}
    dropped: list[str] = []
    for path, value in refused.items():
        # A null, or the very value of the context, makes no difference: nobody needs to hear of it.
        is_same = path in values and _is_equal(value, values[path])
        if value is not None and not is_same:
            dropped.append(".".join(path))
    for path in sorted(values, key=len):  # an object as a whole before its fields
        known = _with_value(known, path, values[path], inputs)
    order = [name for name in input_names(inputs.schema) if name in known]
    return FilledArguments({name: known[name] for name in dict.fromkeys((*order, *known))}, tuple(dropped))


def given_arguments(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call without what the context fills or withholds, as a model may see them."""
    inputs = tool.context_inputs
    if inputs is None:
        return dict(arguments)
    return _split_arguments(inputs, arguments)[0]


def without_filled(arguments: Mapping[str, Any], filled: Collection[str]) -> dict[str, Any]:
    """Return the arguments of a recorded call without what the context `filled`: names, or places with dots."""
    paths: set[Path] = set()
    for place in filled:
        paths |= {(place,), tuple(place.split("."))}  # a name may have a dot itself
    return without_paths(arguments, paths)


def declared_inputs(tools: Iterable[Tool]) -> frozenset[str]:
    """Return the folded names of the inputs that tools declare to come from the context, and that nobody is asked.

    A declared field of an object counts only if the object is all that the tool takes.
    """
    found: set[str] = set()
    for tool in tools:
        inputs = tool.context_inputs
        if inputs is not None and inputs.declared:
            known = set(_input_paths_of(inputs.schema))
            for place in inputs.declared:
                path = path_of(inputs.schema, place)
                if len(path) == 1 or path in known:
                    found.add(folded_name(path[-1]))
    return frozenset(found)


def describe_dropped(tool: str, dropped: Iterable[str]) -> str:
    """Return the note that values which a model gave were dropped; empty if none were."""
    named = some_of(list(dropped), _MOST_NAMED, lambda name: repr(beginning(name, _LONGEST_NAMED)))
    if not named:
        return ""
    return f"{tool}: the value given for {named} was dropped, since only the context may give it"


def _is_equal(one: object, other: object) -> bool:
    return one is other or canonical_bytes(one) == canonical_bytes(other)


def _split_arguments(inputs: ContextInputs, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[Path, Any]]:
    """Return what may be given of the arguments of a call, and by path what only the context may give."""
    refused: dict[Path, Any] = {}

    def keep_allowed(values: Mapping[str, Any], around: Path) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for name, value in values.items():
            path = (*around, name)
            own = _as_fields(value) if path in inputs.withheld else None
            if inputs.admits(path):
                kept[name] = value if own is None else keep_allowed(own, path)
            else:
                refused[path] = value
        return kept

    return keep_allowed(given, ()), refused


def _as_fields(value: object) -> Mapping[str, Any] | None:
    """Return the fields of an object that was given as a mapping, a dataclass or a model; None for anything else."""
    if is_object(value):
        return value
    fields = plain(value) if has_fields(value) else None
    return fields if is_object(fields) else None


def _with_value(
    given: Mapping[str, Any], path: Path, value: object, inputs: ContextInputs, around: Path = ()
) -> dict[str, Any]:
    """Return arguments with a value at a path. An object that was left out is made only if that makes it whole."""
    name, *rest = path
    if not rest:
        return {**given, name: value}
    here = (*around, name)
    inner = given.get(name)
    fields = inputs.objects.get(here) if inner is None else _as_fields(inner)
    if fields is None:
        return dict(given)
    return {**given, name: _with_value(fields, tuple(rest), value, inputs, here)}


class _SchemaKey:
    """A schema as the key of a cache: equal to itself alone.

    A tool would be another key each time it is bound, and would keep the values of its context there.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema = schema

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SchemaKey) and other.schema is self.schema

    def __hash__(self) -> int:
        return id(self.schema)


def _cached_by_schema(
    read: Callable[Concatenate[Mapping[str, Any], _P], _T],
) -> Callable[Concatenate[Mapping[str, Any], _P], _T]:
    """Remember what is read of a schema: the same tools are bound again and again."""

    @lru_cache(4_096)
    def read_of(key: _SchemaKey, *args: _P.args, **options: _P.kwargs) -> _T:
        return read(key.schema, *args, **options)

    def known(schema: Mapping[str, Any], *args: _P.args, **options: _P.kwargs) -> _T:
        return read_of(_SchemaKey(schema), *args, **options)

    return known


@_cached_by_schema
def _input_paths_of(schema: Mapping[str, Any]) -> tuple[Path, ...]:
    return tuple(input_paths(schema))


@_cached_by_schema
def _reduce_schema(
    schema: Mapping[str, Any], paths: tuple[Path, ...]
) -> tuple[dict[str, Any], dict[Path, Mapping[str, Any]]]:
    """Return a schema without these inputs, and the objects around them that can be made."""
    return without_fields(schema, paths), objects_to_make(schema, paths)


@_cached_by_schema
def _wrapper_paths_of(schema: Mapping[str, Any]) -> tuple[Path, ...]:
    return tuple(wrapper_paths(schema))


def _is_closed(schema: Mapping[str, Any]) -> bool:
    return schema.get("additionalProperties") is False and not _wrapper_paths_of(schema)


class _Secrets(dict[str, Any]):
    """The credentials of a call by name. None of them is shown where the function that holds them is."""

    def __repr__(self) -> str:
        return f"<{len(self)} secrets>"


def _with_secrets(tool: Tool, keys: _Keys) -> Tool:
    """Return a tool whose function has the credentials that a context holds; they never become arguments of a call."""
    wanted = cast("Mapping[str, str]", tool.secrets)
    found = {name: keys.values[key] for name, key in wanted.items() if key in keys.values}
    if not found or tool.function is None:
        return tool
    return replace(tool, function=partial(tool.function, **{SECRETS: _Secrets(found)}))


def _bind_tool(tool: Tool, keys: _Keys) -> Tool:
    return _with_inputs(_with_secrets(tool, keys), keys)


def _with_inputs(tool: Tool, keys: _Keys) -> Tool:
    if tool.context_inputs is None and not keys.values:
        return tool
    schema = tool.call_schema
    keys_of_inputs = tool.from_context
    declared: Mapping[str, str] = (
        cast("Mapping[str, str]", keys_of_inputs) if isinstance(keys_of_inputs, Mapping) else {}
    )
    paths = {name: path_of(schema, name) for name in declared}
    places = {path: name for name, path in paths.items()}
    used: dict[str, str] = {}
    missing: dict[str, str] = {}
    problem = ""
    for path in dict.fromkeys((*_input_paths_of(schema), *places)):
        name = places.get(path, ".".join(path))
        found = keys.keys_for(declared.get(name, path[-1]))
        if found and path not in places and path[:-1] in [paths[each] for each in used]:
            continue  # the object around it comes from the context as a whole
        if found:
            used[name] = found[0]
            paths[name] = path
            if len({canonical_bytes(keys.values[each]) for each in found}) > 1:
                listed = " and ".join(map(repr, found))
                problem = f"the context holds {listed}, and either may be meant by its input {name!r}; give one of them"
        elif name in declared:
            missing[name] = declared[name]
    if keys.excess:
        problem = f"the context holds {keys.excess}; give what identifies it instead"
    elif tool.context_inputs is None and not used and _is_closed(schema):
        return tool  # it takes nothing that the context holds, declared or not
    hidden = {**used, **missing}
    shown, objects = _reduce_schema(schema, tuple(paths[name] for name in hidden))
    inputs = ContextInputs(
        schema=schema,
        shown=shown,
        declared=declared,
        keys=hidden,
        values={name: keys.values[key] for name, key in used.items()},
        paths=paths,
        withheld=withheld_names(_wrapper_paths_of(schema), paths.values(), keys.alike),
        objects=objects,
        problem=problem or missing_context(schema, missing),
    )
    return replace(tool, input_schema=inputs.shown, context_inputs=inputs)
