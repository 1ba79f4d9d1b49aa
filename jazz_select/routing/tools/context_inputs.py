"""Inputs that the caller's context fills: who the user is, and whatever else no model may write.

A tool is bound to a context before a model sees it and before it is called. Its schema then lacks these inputs, and
`filled_arguments` adds them to a call. Every door binds; nobody else hides or fills.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from jazz_select.errors import ConfigError
from jazz_select.json_values import plain_bytes
from jazz_select.routing.schemas.reduction import input_names, without_inputs
from jazz_select.routing.tools.tool import ContextInputs, Tool, lacking_context
from jazz_select.text import beginning, some_of
from jazz_select.words import by_spelling, excess_of_names, folded_name

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

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
    if not isinstance(context, Mapping) or not all(
        isinstance(name, str) for name in cast("Mapping[Any, Any]", context)
    ):
        raise ConfigError(f"context must be a mapping of names to values, got {context!r:.80}")


class _Keys:
    """The keys of a context by their folded names, and the values; a value of None counts as unknown."""

    def __init__(self, context: Mapping[str, Any]) -> None:
        self.values = {key: value for key, value in context.items() if value is not None}
        self.alike = by_spelling(self.values)
        # `by_spelling` leaves names out then, and a model could give an input under another spelling of one of them.
        self.excess = excess_of_names(self.values)

    def named(self, name: str) -> list[str]:
        """Return the keys that mean a name: that very key, else all that differ in case and separators alone."""
        return [name] if name in self.values else self.alike.get(folded_name(name), [])


def bind_tools(tools: Iterable[Tool], context: Mapping[str, Any] | None) -> list[Tool]:
    """Return tools bound to a context, in order; see `bind_context`."""
    keys = _Keys(context or {})
    return [_bound(tool, keys) for tool in tools]


def bind_context(tool: Tool, context: Mapping[str, Any] | None) -> Tool:
    """Return a tool with the inputs that a context holds filled from it, and gone from its schema.

    Names may differ in case and separators. Values of None count as unknown.
    """
    return _bound(tool, _Keys(context or {}))


def filled_arguments(tool: Tool, given: Mapping[str, Any]) -> FilledArguments:
    """Return the arguments of a call of a bound tool: those given that may be given, and those from its context."""
    inputs = tool.context_inputs
    if inputs is None:
        return FilledArguments(dict(given))
    kept: dict[str, Any] = {}
    dropped: list[str] = []
    for name, value in given.items():
        if inputs.admits(name):
            kept[name] = value
        elif value is not None and (name not in inputs.values or not _is_equal(value, inputs.values[name])):
            dropped.append(name)
    known = {**kept, **inputs.values}
    order = [name for name in input_names(inputs.schema) if name in known]
    return FilledArguments({name: known[name] for name in dict.fromkeys((*order, *known))}, tuple(dropped))


def given_arguments(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call without what the context fills or withholds, as a model may see them."""
    inputs = tool.context_inputs
    if inputs is None:
        return dict(arguments)
    return {name: value for name, value in arguments.items() if inputs.admits(name)}


def declared_inputs(tools: Iterable[Tool]) -> frozenset[str]:
    """Return the folded names of the inputs that tools declare to come from the context, and that nobody is asked."""
    return frozenset(folded_name(name) for tool in tools for name in tool.from_context)


def describe_dropped(tool: str, dropped: Iterable[str]) -> str:
    """Return the note that values which a model gave were dropped; empty if none were."""
    named = some_of(list(dropped), _MOST_NAMED, lambda name: repr(beginning(name, _LONGEST_NAMED)))
    if not named:
        return ""
    return f"{tool}: the value given for {named} was dropped, since only the context may give it"


def _is_equal(one: object, other: object) -> bool:
    return one is other or plain_bytes(one) == plain_bytes(other)


@lru_cache(4_096)
def _inputs_of(tool: Tool) -> tuple[str, ...]:
    return input_names(tool.call_schema)


@lru_cache(4_096)
def _shown(tool: Tool, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the schema of a tool without these inputs; the same tools are bound again and again."""
    return without_inputs(tool.call_schema, names)


def _bound(tool: Tool, keys: _Keys) -> Tool:
    if tool.context_inputs is None and not keys.values:
        return tool
    schema = tool.call_schema
    keys_of_inputs = tool.from_context
    declared: Mapping[str, str] = (
        cast("Mapping[str, str]", keys_of_inputs) if isinstance(keys_of_inputs, Mapping) else {}
    )
    used: dict[str, str] = {}
    lacking: dict[str, str] = {}
    problem = ""
    for name in dict.fromkeys((*_inputs_of(tool), *declared)):
        found = keys.named(declared.get(name, name))
        if found:
            used[name] = found[0]
            if len({plain_bytes(keys.values[each]) for each in found}) > 1:
                listed = " and ".join(map(repr, found))
                problem = f"the context holds {listed}, and either may be meant by its input {name!r}; give one of them"
        elif name in declared:
            lacking[name] = declared[name]
    if keys.excess:
        problem = f"the context holds {keys.excess}; give what identifies it instead"
    elif tool.context_inputs is None and not used and schema.get("additionalProperties") is False:
        return tool  # it takes nothing that the context holds, declared or not
    inputs = ContextInputs(
        schema=schema,
        shown=_shown(tool, (*used, *lacking)),
        declared=declared,
        keys={**used, **lacking},
        values={name: keys.values[key] for name, key in used.items()},
        withheld=frozenset((*keys.alike, *map(folded_name, declared))),
        problem=problem or lacking_context(schema, lacking),
    )
    return replace(tool, input_schema=inputs.shown, context_inputs=inputs)
