"""LangChain: middleware that picks the tools of each model call. Needs the extra `langchain`."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

from jazz_select.arguments import Positive, checked
from jazz_select.integrations.tool_search import ToolSearcher
from jazz_select.integrations.toolkit import framework
from jazz_select.routing.tools.tool import Tool

with framework("langchain"):
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
    from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
    from langchain_core.tools import BaseTool
    from langchain_core.utils.function_calling import convert_to_openai_tool

_MOST_MESSAGES: Final = 2
"""The user's last messages that are searched for: an answer to a question says little by itself."""


class JazzToolSelector(AgentMiddleware[Any, Any, Any]):
    """Shows a model the tools nearest to what the user says: `create_agent(…, middleware=[JazzToolSelector()])`.

    It asks no model. Tools that the conversation has called stay, and so do tools of the provider. It hides nothing
    because it probably does not fit; `max_tools` is the only limit. The agent has to be run by `ainvoke` or `astream`.
    """

    @checked
    def __init__(
        self,
        searcher: ToolSearcher | None = None,
        *,
        max_tools: Positive = 10,
        always_include: Iterable[str] = (),
    ) -> None:
        """Create the middleware.

        Args:
            searcher: A searcher with options of its own.
            max_tools: How many tools are picked.
            always_include: The names of tools that are always shown, beside those.
        """
        super().__init__()
        self._searcher = searcher or ToolSearcher()
        self._max_tools = max_tools
        self._always = frozenset(always_include)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Call the model with the tools that were picked."""
        always = self._always | _called_tools(request.messages)
        searched = [each for each in request.tools if isinstance(each, BaseTool) and each.name not in always]
        user_messages = [str(each.text) for each in request.messages if isinstance(each, HumanMessage)]
        query = "\n".join(user_messages[-_MOST_MESSAGES:])
        picked = await self._searcher.narrow(query, [_tool_of(each) for each in searched], self._max_tools)
        hidden = {each.name for each in searched} - {*picked}
        # A tool that is a dict is the provider's own, such as a web search.
        shown = [each for each in request.tools if isinstance(each, dict) or each.name not in hidden]
        return await handler(request.override(tools=shown))


def _called_tools(messages: Sequence[AnyMessage]) -> frozenset[str]:
    names: set[str] = set()
    for message in messages:
        if isinstance(message, AIMessage):
            names.update(call["name"] for call in message.tool_calls)
    return frozenset(names)


def _tool_of(tool: BaseTool) -> Tool:
    function: dict[str, Any] = convert_to_openai_tool(tool)["function"]
    return Tool(name=tool.name, description=tool.description, input_schema=function.get("parameters", {}))
