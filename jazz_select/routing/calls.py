"""One call as a model writes it, in any of the spellings that models use, to a step of a plan. Pure."""

import re
from collections.abc import Mapping
from typing import Any, Final, cast

from jazz_select.routing.plan import PlanStep
from jazz_select.selector.fragments import decoded

TOOL_KEYS: Final = ("tool", "tool_name", "name", "function", "function_name", "tool_id")
ARGUMENT_KEYS: Final = ("arguments", "args", "parameters", "params", "input", "inputs", "tool_input")
_ID_KEYS = ("id", "step", "step_id", "call_id")
_SEPARATOR = re.compile(r"[\s_-]+")


def fold(key: object) -> str:
    """A key without case and separators: toolCalls and tool_calls are one."""
    return _SEPARATOR.sub("", key[:80]).casefold() if isinstance(key, str) else ""


def folded(item: Mapping[Any, Any]) -> dict[str, Any]:
    """An object by folded keys; of two that fold to one, the first."""
    return {fold(key): value for key, value in reversed([*item.items()])}


def step_of(call: object) -> PlanStep:
    """The step that one call stands for. One that cannot be run says so in `problem`, so that the others still run."""
    if isinstance(call, str):
        return PlanStep(tool=call)
    if not isinstance(call, Mapping):
        return PlanStep(tool="", problem=f"a call is an object with a tool and arguments, not {type(call).__name__}")
    fields = folded(cast("Mapping[Any, Any]", call))
    own_id = _id_of(fields)
    for wrapping in ("toolcall", "function", "tool"):
        inner = fields.get(wrapping)
        if isinstance(inner, Mapping):
            fields = {**fields, **folded(cast("Mapping[Any, Any]", inner))}
            fields.pop(wrapping)
    tool = _tool_of(fields)
    arguments = _arguments_of(fields)
    if not tool:
        own_id, tool = "", own_id  # a tool's own id, as the list of tools shows it
    if not tool:
        return PlanStep(tool="", problem="the call names no tool")
    if arguments is None:
        return PlanStep(tool=tool, id=own_id, problem="the arguments are no JSON object")
    return PlanStep(tool=tool, id=own_id, arguments=arguments)


def is_call(value: object) -> bool:
    """True for an object that names a tool and gives it arguments, and does not describe one."""
    if not isinstance(value, Mapping):
        return False
    fields = folded(cast("Mapping[Any, Any]", value))
    inner = fields.get("function")
    if isinstance(inner, Mapping):
        fields = folded(cast("Mapping[Any, Any]", inner))
    has_arguments = any(fold(key) in fields for key in ARGUMENT_KEYS)
    return bool(_tool_of(fields)) and has_arguments and "description" not in fields


def _tool_of(fields: Mapping[str, Any]) -> str:
    for key in TOOL_KEYS:
        value = fields.get(fold(key))
        if isinstance(value, str) and value.strip():
            return value
    provider, operation = fields.get("provider"), fields.get("operation")
    if isinstance(operation, str) and operation:
        return f"{provider}.{operation}" if isinstance(provider, str) and provider else operation
    return ""


def _id_of(fields: Mapping[str, Any]) -> str:
    for key in _ID_KEYS:
        value = fields.get(fold(key))
        if isinstance(value, str) and value.strip():
            return value.strip()
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**9:
            return str(value)
    return ""


def _arguments_of(fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """The arguments; none at all is an empty object. A text that holds an object is that object."""
    value = next((fields[fold(key)] for key in ARGUMENT_KEYS if fold(key) in fields), None)
    if isinstance(value, str):
        value = decoded(value) if value.strip() else None
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        return None
    given = cast("Mapping[Any, Any]", value)
    return {key: each for key, each in given.items() if isinstance(key, str)}
