"""Anthropic's Messages: a search tool that returns `tool_reference` blocks. It is plain data, and needs no extra."""

from collections.abc import Iterable, Mapping
from typing import Any

from jazz_select.integrations.tool_search import (
    ABOUT,
    QUERY_SCHEMA,
    SEARCH_TOOLS,
    ShownTools,
    ToolSearcher,
    check_search_name,
)
from jazz_select.routing.tools.showing import tool_schemas
from jazz_select.routing.tools.sources import ToolsLike
from jazz_select.routing.tools.tool import Tool


class MessagesToolSearch:
    """Answers the calls of the search tool with references to the tools that fit.

    Attributes:
        name: The name of the search tool.
        schemas: The search tool and all other tools, these with `defer_loading`: `tools=search.schemas` of each
            request, always the same, so that the prompt stays cached.
        tools: The tools by their names for models: a `tool_use` block means `search.tools[block.name]`.
    """

    def __init__(self, tools: ToolsLike | ToolSearcher, *, name: str = SEARCH_TOOLS) -> None:
        """Search among these tools.

        Raises:
            ConfigError: These are no tools, there are none, or one has the name of the search tool.
        """
        self.name = name
        self._shown = ShownTools(tools)
        self.tools: Mapping[str, Tool] = self._shown.tools
        check_search_name(name, self.tools)
        search = {"name": name, "description": ABOUT, "input_schema": dict(QUERY_SCHEMA)}
        deferred = [{**each, "defer_loading": True} for each in tool_schemas(self.tools, "anthropic")]
        self.schemas: list[dict[str, Any]] = [search, *deferred]

    async def answer(self, content: Iterable[Any]) -> list[dict[str, Any]]:
        """Return a `tool_result` block for each search among a message's content blocks.

        They belong into the next user message, with the results of the other calls. Empty if there is no search.
        """
        calls = [each for each in content if each.type == "tool_use" and each.name == self.name]
        return [await self._result(call) for call in calls]

    async def _result(self, call: Any) -> dict[str, Any]:
        found, message = await self._shown.search(call.input)
        references = [{"type": "tool_reference", "tool_name": name} for name in found]
        return {
            "type": "tool_result",
            "tool_use_id": call.id,
            "content": references or [{"type": "text", "text": message}],  # an empty result is refused
        }
