"""OpenAI's Responses: `tool_search` that the client executes. It builds and reads plain data, and needs no extra."""

from collections.abc import Iterable, Mapping
from typing import Any

from jazz_select.integrations.tool_search import ABOUT, QUERY_SCHEMA, ShownTools, ToolSearcher
from jazz_select.routing.tools.showing import tool_schemas
from jazz_select.routing.tools.sources import ToolsLike
from jazz_select.routing.tools.tool import Tool


class ResponsesToolSearch:
    """Answers the `tool_search_call` items of a response with the tools that fit.

    Attributes:
        tool: The search, for `tools=[search.tool]` of a request. The tools themselves are not sent.
        tools: The tools by their names for models: a `function_call` means `search.tools[call.name]`.
    """

    def __init__(self, tools: ToolsLike | ToolSearcher) -> None:
        """Search among these tools.

        Raises:
            ConfigError: These are no tools, or there are none.
        """
        self._shown = ShownTools(tools)
        self.tools: Mapping[str, Tool] = self._shown.tools
        self.tool: dict[str, Any] = {
            "type": "tool_search",
            "execution": "client",
            "description": ABOUT,
            "parameters": dict(QUERY_SCHEMA),
        }

    async def answer(self, output: Iterable[Any]) -> list[dict[str, Any]]:
        """Return a `tool_search_output` for each search in a response's output that the client is to execute.

        The input of the next request is that of this one, then the response's output, then these items.
        """
        calls = [each for each in output if each.type == "tool_search_call" and each.execution == "client"]
        return [await self._output(call) for call in calls]

    async def _output(self, call: Any) -> dict[str, Any]:
        found, _ = await self._shown.search(call.arguments)
        schemas = tool_schemas(found, "openai-responses")
        return {
            "type": "tool_search_output",
            "call_id": call.call_id,
            "execution": "client",
            "status": "completed",
            "tools": [{**each, "strict": False, "defer_loading": True} for each in schemas],
        }
