"""An MCP server with the tools of a file, which do nothing: `python -m benchmarks.listed_server FILE`."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import orjson
from mcp import types
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server

READS = types.ToolAnnotations(read_only_hint=True)


async def main(listing: bytes) -> None:
    """Serve over standard in- and output."""
    tools = [types.Tool.model_validate({**each, "annotations": READS}) for each in orjson.loads(listing)]

    async def listed(
        _: ServerRequestContext[Any, Any], __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def called(_: ServerRequestContext[Any, Any], params: types.CallToolRequestParams) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(text=f"called {params.name}")])

    server: Server[Any] = Server("listed", on_list_tools=listed, on_call_tool=called)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]).read_bytes()))
