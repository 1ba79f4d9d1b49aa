"""A call as models write it in JSON: under which keys stand the tool, its arguments and its id. Pure.

Models are trained on many formats, so each part has several names. A key that belongs to none of them may be an
argument that was written in the wrong place: it becomes a problem that names the key, so that the model can be asked
again, and the call is never made without it.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, cast

from jazz_select.chat.json_reader import parse_whole
from jazz_select.json_values import is_array, is_object
from jazz_select.text import name_shown, some_of

TOOL_KEYS: Final = ("tool", "tool_name", "name", "function", "function_name", "tool_id", "action", "action_name")
ARGUMENT_KEYS: Final = (
    *("arguments", "args", "parameters", "params", "input", "inputs", "tool_input", "action_input", "kwargs"),
    *("tool_args", "tool_arguments", "function_args", "function_arguments", "tool_parameters", "action_args"),
    "action_arguments",
)
WRAPPING_KEYS: Final = ("tool_call", "function_call", "tool_use", "function", "tool", "action")
"""Keys that may hold the whole call as an object, as in `{"function": {"name": …, "arguments": …}}`."""
_ID_KEYS: Final = ("id", "step", "step_id", "call_id", "tool_call_id", "tool_use_id")
AFTER_KEYS: Final = ("depends_on", "dependencies", "after")
"""Keys for the ids of steps that have to come before."""
REASON_KEYS: Final = ("reason", "reasoning", "thought", "thoughts", "rationale", "explanation", "why")
_THOUGHT_KEYS: Final = frozenset({"reasoning", "thought", "thoughts", "rationale", "explanation", "why"})
"""Words about a call that are hardly ever an argument."""
_BESIDE_ARGUMENTS: Final = _THOUGHT_KEYS | {"reason", "comment", "description", "purpose", "note", "confidence"}
"""Words about a call that may be arguments, but not where arguments are given by themselves."""
_KINDS: Final = frozenset({"function", "tool", "tool_call", "tool_use", "function_call", "call", "action"})
_SEPARATOR = re.compile(r"[\s_-]+")
_MOST_FIELDS: Final = 1_000
_MOST_NAMED: Final = 5
_LONGEST_KEY: Final = 80
_LARGEST_ID: Final = 10**9


def folded_key(key: object) -> str:
    """Return a key without case and separators: toolCalls and tool_calls are one."""
    return _SEPARATOR.sub("", key[:_LONGEST_KEY]).casefold() if isinstance(key, str) else ""


def folded_fields(item: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the first fields of an object by folded keys; of two that fold to one, the first."""
    return {folded_key(key): value for key, value in reversed([*islice(item.items(), _MOST_FIELDS)])}


def _fold_keys(keys: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(folded_key, keys)))


_TOOLS, _ARGUMENTS, _IDS = _fold_keys(TOOL_KEYS), _fold_keys(ARGUMENT_KEYS), _fold_keys(_ID_KEYS)
_WRAPPINGS, _AFTERS, _REASONS = _fold_keys(WRAPPING_KEYS), _fold_keys(AFTER_KEYS), _fold_keys(REASON_KEYS)
CALLING: Final = frozenset((*_TOOLS, *_ARGUMENTS, *_WRAPPINGS, "toolcalls"))
"""The folded keys of which an object that is meant as a call has some."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCall:
    """One call as it was written.

    Attributes:
        tool: The name of the tool or action, unresolved; empty where none is named.
        arguments: Its arguments; empty where there is a problem with them.
        id: Its id for other steps, or "".
        after: Ids of the steps that it says have to come before.
        reason: Why, in its words, or "".
        problem: Why it cannot be made as it is written, or "".
    """

    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    id: str = ""
    after: tuple[str, ...] = ()
    reason: str = ""
    problem: str = ""


def read_call(call: Mapping[Any, Any], *, known: Collection[str] = ()) -> WrittenCall:
    """Return the parts of a call.

    Args:
        call: The object.
        known: Further keys that the caller understands.
    """
    fields, shown = folded_fields(call), _as_written(call)
    own_id, after = _id_of(fields), _dependencies(fields)
    for wrapping in _WRAPPINGS:
        inner = fields.get(wrapping)
        if isinstance(inner, Mapping):
            own = cast("Mapping[Any, Any]", inner)
            del fields[wrapping]
            fields |= folded_fields(own)
            shown = {**_as_written(own), **shown}
            own_id = own_id or _id_of(fields)
    tool, tool_keys, problem = _tool_of(fields)
    arguments, argument_keys, wrong = _arguments_of(fields)
    if not tool and not tool_keys:
        own_id, tool = "", own_id  # a tool's own id, as the list of tools shows it
    understood = {*tool_keys, *argument_keys, *_IDS, *_AFTERS, *map(folded_key, known)}
    understood |= _BESIDE_ARGUMENTS if argument_keys else _THOUGHT_KEYS
    if fields.get("type") in _KINDS:
        understood.add("type")
    unknown = [key for folded, key in shown.items() if folded in fields and folded not in understood]
    if not tool:
        problem = _no_tool(unknown)
    elif not problem:
        problem = wrong or _unknown_keys(unknown)
    reason = next((fields[key] for key in _REASONS if isinstance(fields.get(key), str)), "")
    return WrittenCall(
        tool=tool, arguments={} if problem else arguments, id=own_id, after=after, reason=reason, problem=problem
    )


def _as_written(item: Mapping[Any, Any]) -> dict[str, str]:
    """Return the keys of an object by their folded form, in order."""
    shown: dict[str, str] = {}
    for key in islice(item, _MOST_FIELDS):
        if isinstance(key, str):
            shown.setdefault(folded_key(key), key)
    return shown


def is_call(value: object) -> bool:
    """Whether an object names a tool and gives it arguments, and does not describe one."""
    if not isinstance(value, Mapping):
        return False
    fields = folded_fields(cast("Mapping[Any, Any]", value))
    for wrapping in ("function", "functioncall", "tooluse"):
        inner = fields.get(wrapping)
        if isinstance(inner, Mapping):
            fields = folded_fields(cast("Mapping[Any, Any]", inner))
    has_arguments = not fields.keys().isdisjoint(_ARGUMENTS)
    return bool(_tool_of(fields)[0]) and has_arguments and "description" not in fields


def _no_tool(unknown: list[str]) -> str:
    beside = f"; it has {_shown_keys(unknown)}" if unknown else ""
    return f"the call names no tool{beside}"


def _unknown_keys(unknown: list[str]) -> str:
    if not unknown:
        return ""
    what = "an unknown key" if len(unknown) == 1 else "unknown keys"
    return f'the call has {what}, {_shown_keys(unknown)}; arguments must stand in the object "arguments"'


def _shown_keys(keys: list[str]) -> str:
    return some_of(keys, _MOST_NAMED, lambda key: name_shown(key[:_LONGEST_KEY]))


def _tool_of(fields: Mapping[str, Any]) -> tuple[str, set[str], str]:
    """Return the tool's name, the keys that give it, and what is wrong where they give several."""
    named = {key: value for key in _TOOLS if isinstance(value := fields.get(key), str) and value.strip()}
    if named:
        tool = next(iter(named.values()))
        different = [key for key, value in named.items() if value.strip() != tool.strip()]
        problem = f'the call names a tool twice, under "{next(iter(named))}" and "{different[0]}"' if different else ""
        return tool, set(named), problem
    provider, operation = fields.get("provider"), fields.get("operation")
    if isinstance(operation, str) and operation:
        has_provider = isinstance(provider, str) and provider
        return (f"{provider}.{operation}" if has_provider else operation), {"provider", "operation"}, ""
    return "", {key for key in _TOOLS if fields.get(key) == ""}, ""


def _arguments_of(fields: Mapping[str, Any]) -> tuple[Mapping[str, Any], set[str], str]:
    """Return the arguments, the keys that give them, and what is wrong with them."""
    keys = [key for key in _ARGUMENTS if key in fields]
    read: list[tuple[str, Mapping[str, Any]]] = []
    for key in keys:
        value = fields[key]
        if isinstance(value, str):
            value = parse_whole(value) if value.strip() else None
        if value is None:
            continue
        if not is_object(value):
            return {}, set(keys), "the arguments are no JSON object"
        if value or not read:
            read.append((key, value))
    several = [each for each in read if each[1]] or read
    if any(each[1] != several[0][1] for each in several[1:]):
        listed = " and ".join(f'"{key}"' for key, _ in several[:2])
        return {}, set(keys), f"the call gives different arguments under {listed}; give them once"
    given: Mapping[str, Any] = several[0][1] if several else {}
    return {key: each for key, each in given.items() if isinstance(key, str)}, set(keys), ""  # pyright: ignore[reportUnnecessaryIsInstance] - of callers


def _id_of(fields: Mapping[str, Any]) -> str:
    return next((found for key in _IDS if (found := _as_id(fields.get(key)))), "")


def _dependencies(fields: Mapping[str, Any]) -> tuple[str, ...]:
    found: list[str] = []
    for key in _AFTERS:
        value = fields.get(key)
        several = value if is_array(value) else [value]
        found += filter(None, map(_as_id, several[:_MOST_FIELDS]))
    return tuple(dict.fromkeys(found))


def _as_id(value: object) -> str:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST_ID:
        return str(value)
    return ""
