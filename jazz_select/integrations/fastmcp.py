"""FastMCP: a transform of a server that lists a search in place of its tools. Needs the extra `fastmcp`."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from jazz_select.integrations.tool_search import ABOUT, NO_TOOL, QUERY, SEARCH_TOOLS, ToolSearcher
from jazz_select.integrations.toolkit import framework
from jazz_select.routing.tools.tool import Tool

with framework("fastmcp"):
    from fastmcp import Context
    from fastmcp.dependencies import CurrentContext
    from fastmcp.server.transforms.search import SearchResultSerializer
    from fastmcp.server.transforms.search.base import BaseSearchTransform
    from fastmcp.tools import Tool as ServerTool


class JazzSearchTransform(BaseSearchTransform):
    """Lists `search_tools` and `call_tool` in place of a server's tools: `FastMCP(transforms=[JazzSearchTransform()])`.

    A client finds only tools that it may see.
    """

    def __init__(
        self,
        searcher: ToolSearcher | None = None,
        *,
        always_visible: Iterable[str] = (),
        search_result_serializer: SearchResultSerializer | None = None,
    ) -> None:
        """Create the transform.

        Args:
            searcher: A searcher with options of its own.
            always_visible: The names of tools that stay listed, and are not searched.
            search_result_serializer: Writes found tools, such as FastMCP's `serialize_tools_for_output_markdown`; by
                default they are JSON.
        """
        super().__init__(
            always_visible=list(always_visible),
            search_tool_name=SEARCH_TOOLS,
            search_result_serializer=search_result_serializer,
        )
        self._searcher = searcher or ToolSearcher()

    def _make_search_tool(self) -> ServerTool:
        async def search_tools(query: Annotated[str, QUERY], ctx: Context = CurrentContext()) -> Any:  # noqa: B008 - FastMCP's own form
            found = await self._search(await self._get_visible_tools(ctx), query)
            return await self._render_results(found) if found else NO_TOOL

        return ServerTool.from_function(search_tools, name=SEARCH_TOOLS, description=ABOUT)

    async def _search(self, tools: Sequence[ServerTool], query: str) -> Sequence[ServerTool]:
        by_name = {tool.name: tool for tool in tools}
        found = await self._searcher.search(query, [_tool_of(tool) for tool in by_name.values()])
        return [by_name[name] for name in found.names]


def _tool_of(tool: ServerTool) -> Tool:
    return Tool(
        name=tool.name,
        title=tool.title or "",
        description=tool.description or "",
        input_schema=tool.parameters,
    )
