"""What the application at a client says beside a request, in its `_meta`: who the user is, and the like."""

from collections.abc import Mapping
from typing import Any, Final, cast

from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.types import INVALID_PARAMS

from jazz_select.json_values import is_object, too_much

Context = ServerRequestContext[Any, Any]
CONTEXT: Final = "jazz-select/context"
"""The field of a request's `_meta` in which the application at the client says who the user is, and the like."""


def request_context(context: Context) -> dict[str, Any]:
    """Return what the application at the client knows: it fills inputs of tools, and no model is shown these.

    Raises:
        MCPError: It is no object, or too large.
    """
    given: object = cast("Mapping[str, object]", context.meta or {}).get(CONTEXT)
    if given is None:
        return {}
    if not is_object(given):
        raise MCPError(INVALID_PARAMS, f"_meta {CONTEXT} must be an object of names and values, got {given!r:.80}")
    known = dict(given)
    if excess := too_much(known):
        raise MCPError(INVALID_PARAMS, f"_meta {CONTEXT} holds {excess}; give what identifies it instead")
    return known


CALL_ID: Final = "jazz-select/call_id"
"""The field in which an application names a call, so that the same one is made once, however often it is sent."""
_LONGEST_ID: Final = 200


def request_call_id(context: Context) -> str:
    """Return the name that the application gave the call; empty where it gave none.

    Raises:
        MCPError: It is no text, or too long.
    """
    given: object = cast("Mapping[str, object]", context.meta or {}).get(CALL_ID)
    if given is None:
        return ""
    if not isinstance(given, str) or not 0 < len(given) <= _LONGEST_ID:
        raise MCPError(INVALID_PARAMS, f"_meta {CALL_ID} must be a text of 1 to {_LONGEST_ID} characters")
    return given
