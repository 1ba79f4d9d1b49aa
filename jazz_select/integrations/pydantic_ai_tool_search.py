"""pydantic-ai: a strategy for its `ToolSearch` capability. Needs the extra `pydantic-ai`."""

from collections.abc import Sequence
from typing import Any

from jazz_select.integrations.tool_search import ToolSearcher, searcher_of
from jazz_select.integrations.toolkit import framework
from jazz_select.routing.tools.sources import ToolsLike
from jazz_select.routing.tools.tool import Tool

with framework("pydantic-ai"):
    from pydantic_ai import RunContext
    from pydantic_ai.capabilities import ToolSearchFunc
    from pydantic_ai.tools import ToolDefinition


def jazz_tool_search(tools: ToolsLike | ToolSearcher = ()) -> ToolSearchFunc[Any]:
    """Return a strategy: `Agent(capabilities=[ToolSearch(strategy=jazz_tool_search())])`.

    It searches the agent's tools that have `defer_loading=True`. It returns no name if probably none of them fits; the
    model is then told so.

    Args:
        tools: Tools of jazz_select, whose texts are searched in place of the agent's of the same names; or a
            `ToolSearcher`, which may have examples and a decision model.

    Raises:
        ConfigError: These are no tools.
    """
    searcher = searcher_of(tools)

    async def strategy(_ctx: RunContext[Any], queries: Sequence[str], tools: Sequence[ToolDefinition]) -> list[str]:
        found = await searcher.search(queries, [_tool(each) for each in tools])
        return list(found.names)

    return strategy


def _tool(definition: ToolDefinition) -> Tool:
    return Tool(
        name=definition.name,
        description=definition.description or "",
        input_schema=definition.parameters_json_schema,
    )
