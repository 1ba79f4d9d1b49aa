"""A call as models write it in JSON: under which keys stand the tool, its arguments and its id. Pure.

Models are trained on many formats, so each part has several names. A key that belongs to none of them may be an
argument that was written in the wrong place: it becomes a problem that names the key, so that the model can be asked
again, and the call is never made without it.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple

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
    if not isinstance(key, str):
        return ""
    return _SEPARATOR.sub("", key[:_LONGEST_KEY]).casefold()


def folded_fields(item: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the first fields of an object by folded keys; of two that fold to one, the first."""
    fields: dict[str, Any] = {}
    for key, value in islice(item.items(), _MOST_FIELDS):
        fields.setdefault(folded_key(key), value)
    return fields


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
    fields, spellings = folded_fields(call), _spellings(call)
    own_id, after = _id_of(fields), _dependencies(fields)
    for wrapping in _WRAPPINGS:
        inner = fields.get(wrapping)
        if is_object(inner):
            # Take the wrapping out first: "function" may be the key of the name inside of it too.
            del fields[wrapping]
            fields |= folded_fields(inner)
            spellings = {**_spellings(inner), **spellings}
            own_id = own_id or _id_of(fields)
    tool_name = _tool_of(fields)
    arguments = _arguments_of(fields)
    tool = tool_name.name
    if not tool and not tool_name.keys:
        own_id, tool = "", own_id  # a tool's own id, as the list of tools shows it
    understood = {*tool_name.keys, *arguments.keys, *_IDS, *_AFTERS, *map(folded_key, known)}
    understood |= _BESIDE_ARGUMENTS if arguments.keys else _THOUGHT_KEYS
    if fields.get("type") in _KINDS:
        understood.add("type")
    unknown = [key for folded, key in spellings.items() if folded in fields and folded not in understood]
    if not tool:
        problem = _no_tool(unknown)
    else:
        problem = tool_name.problem or arguments.problem or _unknown_keys(unknown)
    return WrittenCall(
        tool=tool,
        arguments={} if problem else arguments.values,
        id=own_id,
        after=after,
        reason=_reason_of(fields),
        problem=problem,
    )


def _spellings(item: Mapping[Any, Any]) -> dict[str, str]:
    """Return the keys of an object, as they are written, by their folded form, in order."""
    spellings: dict[str, str] = {}
    for key in islice(item, _MOST_FIELDS):
        if isinstance(key, str):
            spellings.setdefault(folded_key(key), key)
    return spellings


def _reason_of(fields: Mapping[str, Any]) -> str:
    for key in _REASONS:
        reason = fields.get(key)
        if isinstance(reason, str):
            return reason
    return ""


def is_call(value: object) -> bool:
    """Whether an object names a tool and gives it arguments, and does not describe one."""
    if not is_object(value):
        return False
    fields = folded_fields(value)
    for wrapping in ("function", "functioncall", "tooluse"):
        inner = fields.get(wrapping)
        if is_object(inner):
            fields = folded_fields(inner)
    has_arguments = not fields.keys().isdisjoint(_ARGUMENTS)
    # A definition of a tool has a name and parameters too; its description tells it from a call.
    return bool(_tool_of(fields).name) and has_arguments and "description" not in fields


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


class _ToolName(NamedTuple):
    """A tool's name, the keys that give it, and what is wrong where they give several."""

    name: str
    keys: set[str]
    problem: str = ""


def _tool_of(fields: Mapping[str, Any]) -> _ToolName:
    names: dict[str, str] = {}
    for key in _TOOLS:
        value = fields.get(key)
        if isinstance(value, str) and value.strip():
            names[key] = value
    if names:
        first_key, tool = next(iter(names.items()))
        problem = ""
        for key, name in names.items():
            if name.strip() != tool.strip():
                problem = f'the call names a tool twice, under "{first_key}" and "{key}"'
                break
        return _ToolName(tool, set(names), problem)
    provider, operation = fields.get("provider"), fields.get("operation")
    if isinstance(operation, str) and operation:
        has_provider = isinstance(provider, str) and provider
        return _ToolName(f"{provider}.{operation}" if has_provider else operation, {"provider", "operation"})
    # A blank name keeps its keys: the call names no tool, and its id must not pass for one.
    return _ToolName("", {key for key in _TOOLS if fields.get(key) == ""})


class _Arguments(NamedTuple):
    """The arguments of a call, the keys that give them, and what is wrong with them."""

    values: Mapping[str, Any]
    keys: set[str]
    problem: str = ""


def _arguments_of(fields: Mapping[str, Any]) -> _Arguments:
    keys = [key for key in _ARGUMENTS if key in fields]
    filled: dict[str, Mapping[str, Any]] = {}
    for key in keys:
        value = fields[key]
        if isinstance(value, str):
            # Some models write the arguments as JSON within a string.
            value = parse_whole(value) if value.strip() else None
        if value is None:
            continue
        if not is_object(value):
            return _Arguments({}, set(keys), "the arguments are no JSON object")
        if value:
            filled[key] = value
    if not filled:
        return _Arguments({}, set(keys))
    first, *others = filled.values()
    if any(each != first for each in others):
        listed = " and ".join(f'"{key}"' for key in list(filled)[:2])
        return _Arguments({}, set(keys), f"the call gives different arguments under {listed}; give them once")
    by_name = {name: value for name, value in first.items() if isinstance(name, str)}  # pyright: ignore[reportUnnecessaryIsInstance] - of callers
    return _Arguments(by_name, set(keys))


def _id_of(fields: Mapping[str, Any]) -> str:
    for key in _IDS:
        own_id = _as_id(fields.get(key))
        if own_id:
            return own_id
    return ""


def _dependencies(fields: Mapping[str, Any]) -> tuple[str, ...]:
    found: list[str] = []
    for key in _AFTERS:
        value = fields.get(key)
        ids = value if is_array(value) else [value]
        found += filter(None, map(_as_id, ids[:_MOST_FIELDS]))
    return tuple(dict.fromkeys(found))


def _as_id(value: object) -> str:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST_ID:
        return str(value)
    return ""
