"""Asking an MCP session through the SDK, which refuses a whole listing for one tool, and a whole answer for one part.

What the SDK refuses is asked for as the server sends it. Only its public ways are used; where they lead nowhere, its
own checks stand.
"""

import sys
from collections.abc import Mapping
from importlib import import_module
from inspect import signature
from typing import Any, Final, cast

_UNDONE: Final = ("METHOD_NOT_FOUND", "HEADER_MISMATCH")
"""Errors by which nothing was called: a server in this process that knows methods by their hash, and one that has to be
listed first."""


async def tools_page(session: Any, cursor: str | None) -> object:
    """Return a page of a session's tools; one in which the SDK refuses a tool as the server sent it."""
    # Versions of the SDK differ in how they take a cursor, and in whether they keep a listing.
    parameters = signature(session.list_tools).parameters
    options: dict[str, Any] = {}
    if "cache_mode" in parameters:
        options["cache_mode"] = "refresh"
    if cursor is not None and "params" in parameters:
        types: Any = import_module("mcp.types")
        options["params"] = types.PaginatedRequestParams(cursor=cursor)
    elif cursor is not None:
        options["cursor"] = cursor
    try:
        return await session.list_tools(**options)
    except (ValueError, RecursionError) as error:  # one tool is not as declared, or too deep to be looked at
        inner = _inner(session)
        if inner is None:
            raise
        types = import_module("mcp.types")
        params = None if cursor is None else types.PaginatedRequestParams(cursor=cursor)
        try:
            return await _send_unchecked(inner, types.ListToolsRequest(params=params))
        except Exception:  # noqa: BLE001 - what the SDK said first says more
            raise error from None


async def tool_answer(session: Any, name: str, arguments: Mapping[str, Any], progress: Any = None) -> object:
    """Call a tool once, and return its answer as the server sent it, whatever its declared output is.

    The SDK raises for an answer that its own check refuses, and nobody sees what was answered.
    """
    inner = _inner(session)
    if inner is not None:
        mcp: Any = sys.modules["mcp"]
        types: Any = import_module("mcp.types")
        request = types.CallToolRequest(params=types.CallToolRequestParams(name=name, arguments=dict(arguments)))
        try:
            answer = await _send_unchecked(inner, request, progress)
        except mcp.MCPError as error:
            if error.error.code not in {getattr(types, each) for each in _UNDONE}:
                raise
        else:
            if answer.get("resultType") != "input_required":
                return {"isError": False, **answer}
        # Nothing was done so far: the SDK asks whoever has to be asked, or lists the tools anew, and calls it again.
    options = {} if progress is None else {"progress_callback": progress}
    return await session.call_tool(name, dict(arguments), **options)


def _inner(session: Any) -> Any:
    """Return the SDK's own session, of a version whose requests can be sent like this, else None."""
    mcp: Any = sys.modules.get("mcp")
    client: Any = getattr(mcp, "Client", None)
    types: Any = sys.modules.get("mcp.types")
    if client is None or types is None or not hasattr(types.Request, "name_param"):
        return None
    if isinstance(session, client):
        if session.extensions:  # what one makes of an answer, it makes in the client's own call
            return None
        return session.session
    return session if isinstance(session, mcp.ClientSession) else None


class _Method(str):
    """A method's name that the SDK's table of checks by method does not have: its answers come as they were sent."""

    __slots__ = ()

    def __hash__(self) -> int:
        return ~super().__hash__()


async def _send_unchecked(session: Any, request: Any, progress: Any = None) -> dict[str, Any]:
    """Send a request of the SDK, and return the result without the SDK's check of it."""
    pydantic: Any = import_module("pydantic")

    class Unchecked(type(request)):  # pyright: ignore[reportGeneralTypeIssues, reportUntypedBaseClass]
        """The same request, under a method that is not checked."""

        name_param = "name" if request.method == "tools/call" else None

        def model_dump(self, **options: Any) -> dict[str, Any]:
            data = cast("dict[str, Any]", request.model_dump(**options))
            return {**data, "method": _Method(data["method"])}

    result_type = pydantic.TypeAdapter(dict[str, Any])
    return await session.send_request(Unchecked(params=request.params), result_type, progress_callback=progress)
