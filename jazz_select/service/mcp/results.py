"""What became of a call, as the protocol tells it: data, bounded; a failure is a result that the model can read."""

from collections.abc import Mapping
from typing import Any, Final, cast

import orjson
from mcp import types

from jazz_select.errors import ToolUnheardError
from jazz_select.json_values import shorter_text, storable, storable_text, too_much
from jazz_select.routing.names.resolution import Resolution
from jazz_select.routing.tool_call import CallOutcome
from jazz_select.routing.tools.tool import Tool
from jazz_select.service.mcp.foreign import plain_text
from jazz_select.service.mcp.relay import MOST_LETTERS, Relay, bounded_answer
from jazz_select.text import beginning, cut

_LONGEST_PROBLEM: Final = 2_000
_MOST_NAMES: Final = 20


def answer(value: Mapping[str, Any]) -> types.CallToolResult:
    """An answer of one of the four, as a structure and as the text of it."""
    structure = dict(value)
    return types.CallToolResult(content=[_text(orjson.dumps(structure).decode())], structured_content=structure)


def failure(problem: str, **more: object) -> types.CallToolResult:
    """That something could not be done, why, and what to do instead."""
    told = {"error": cut(plain_text(problem), _LONGEST_PROBLEM), **more}
    return types.CallToolResult(content=[_text(orjson.dumps(told).decode())], is_error=True)


def unknown_name(found: Resolution[Tool]) -> types.CallToolResult:
    """That no tool is called so, with those that may have been meant; of hundreds not all are named."""
    names = found.connected_tools
    told = found.error()
    told["connected_tools"] = list(names[:_MOST_NAMES])
    if len(names) > _MOST_NAMES:
        told["more"] = f"{len(names) - _MOST_NAMES} more are connected: search_tools finds them"
    return types.CallToolResult(content=[_text(orjson.dumps(told).decode())], is_error=True)


def outcome_of(outcome: CallOutcome, relay: Relay, *, only_reads: bool = False) -> types.CallToolResult:
    """What became of a call of a connected tool; `only_reads` where it is said to change nothing."""
    if outcome.error is not None:
        cause = outcome.error.cause
        problem = outcome.error.message
        if only_reads and isinstance(cause, ToolUnheardError):  # nobody needs to know whether it was done
            problem = f"{outcome.call.tool}: nobody heard of its end: {cause.what}"
        return failure(problem, status=outcome.status, **_advice(outcome, only_reads=only_reads))
    if relay.answer is not None:
        return bounded_answer(relay.answer)
    value = cast("object", outcome.output)
    text = cut(value, MOST_LETTERS) if isinstance(value, str) else shorter_text(value, MOST_LETTERS)
    structure = cast("dict[str, Any]", storable(value)) if isinstance(value, dict) else None
    if structure is not None and (too_much(structure, MOST_LETTERS) or len(storable_text(structure)) > MOST_LETTERS):
        structure = None
    return types.CallToolResult(content=[_text(text)], structured_content=structure)


def _advice(outcome: CallOutcome, *, only_reads: bool) -> dict[str, object]:
    """What a model should do now."""
    if outcome.status == "unknown" and only_reads:
        return {"advice": "It changes nothing, so it can be called again."}
    if outcome.status == "unknown":
        return {"advice": "It may have been done. See whether it was before you call it again."}
    if outcome.missing:
        return {"missing": [beginning(name, 200) for name in outcome.missing[:_MOST_NAMES]]}
    if outcome.status == "denied":
        return {"advice": "Nothing was done. Do not try it another way; tell the user."}
    return {}


def _text(text: str) -> types.TextContent:
    return types.TextContent(text=text)
