"""An MCP server that sends whatever it is told to, over a session of the SDK: real ones are as careless."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp import ClientSession
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCError, JSONRPCRequest, JSONRPCResponse
from mcp.types.jsonrpc import ErrorData


class RawServer:
    """Lists these tools and answers each call with these results, as they are; an exception ends the connection.

    Attributes:
        called: The calls that arrived: name and arguments.
        pages: How many pages of the listing were asked for.
    """

    def __init__(self, tools: Sequence[Any], answers: Mapping[str, Any] | None = None, *, page: int = 1_000) -> None:
        self.tools, self.answers, self.page = list(tools), dict(answers or {}), page
        self.called: list[tuple[str, Any]] = []
        self.pages = 0

    def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        """The result of a request; None for a method that it does not have."""
        if method == "initialize":
            about: dict[str, Any] = {"serverInfo": {"name": "raw", "version": "1"}, "capabilities": {"tools": {}}}
            return {"protocolVersion": params["protocolVersion"], **about}
        if method == "tools/list":
            self.pages += 1
            start = int(params.get("cursor") or 0)
            end = start + self.page
            more = {"nextCursor": str(end)} if end < len(self.tools) else {}
            return {"tools": self.tools[start:end], **more}
        if method == "tools/call":
            self.called.append((params["name"], params.get("arguments")))
            return self.answers[params["name"]]
        return None

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[ClientSession]:
        """An initialised session of the SDK with it."""
        to_client, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](100)
        to_server, from_client = anyio.create_memory_object_stream[SessionMessage](100)

        async def serve() -> None:
            async for sent in from_client:
                asked = sent.message
                if not isinstance(asked, JSONRPCRequest):
                    continue
                result = self.answer(asked.method, asked.params or {})
                if result is None:
                    error = ErrorData(code=-32601, message="unknown method")
                    await to_client.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=asked.id, error=error)))
                else:
                    await to_client.send(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=asked.id, result=result)))

        async with to_client, from_server, to_server, from_client, anyio.create_task_group() as group:
            group.start_soon(serve)
            async with ClientSession(from_server, to_server) as session:
                await session.initialize()
                yield session
            group.cancel_scope.cancel()
