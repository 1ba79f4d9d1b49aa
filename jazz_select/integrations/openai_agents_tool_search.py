"""OpenAI Agents SDK: a search tool that enables an agent's other tools. Needs the extra `openai-agents`.

The SDK's runner refuses `tool_search` with `execution="client"`. This works in its place, with any model.
"""

from collections.abc import Sequence
from copy import copy
from typing import Any, Final

from jazz_select.errors import ConfigError
from jazz_select.integrations.tool_search import (
    ABOUT,
    QUERY_SCHEMA,
    SEARCH_TOOLS,
    ToolSearcher,
    check_search_name,
    query_in,
)
from jazz_select.integrations.toolkit import framework, read_value, write_value
from jazz_select.json_values import is_array, storable_text
from jazz_select.routing.tools.tool import Tool

with framework("openai-agents"):
    from agents import AgentBase, FunctionTool, RunContextWrapper
    from agents.tool_context import ToolContext

FOUND_TOOLS: Final = "found_tools"
"""The key of the names of found tools in the context of a run."""


def searched_tools(tools: Sequence[FunctionTool], searcher: ToolSearcher | None = None) -> list[FunctionTool]:
    """Return a search tool and copies of these tools that are enabled once found: `Agent(tools=searched_tools(…))`.

    What was found is kept in the context of the run: under `"found_tools"` of a dict, or in an attribute `found_tools`.
    Keep the context as long as the conversation; it begins as `context={}`.

    Args:
        tools: The tools to search among. Tools beside the result are always enabled.
        searcher: A searcher with options of its own.

    A run raises `ConfigError` if its context cannot keep anything.

    Raises:
        ConfigError: A tool has the name of the search tool.
    """
    check_search_name(SEARCH_TOOLS, [each.name for each in tools])
    finder = searcher or ToolSearcher()
    described = [_tool_of(each) for each in tools]

    async def search(ctx: ToolContext[Any], arguments: str) -> str:
        found = await finder.search(query_in(arguments), described)
        # What was found before stays enabled: the model may have been told of it in an earlier turn.
        names = dict.fromkeys((*_found_in(ctx), *found.names))
        write_value(ctx.context, FOUND_TOOLS, list(names))
        if not found.names:
            return found.message
        return storable_text({"tools": list(found.names)})

    search_tool = FunctionTool(
        name=SEARCH_TOOLS,
        description=ABOUT,
        params_json_schema=dict(QUERY_SCHEMA),
        on_invoke_tool=search,
        is_enabled=_check_context,
    )
    return [search_tool, *map(_enabled_once_found, tools)]


def _tool_of(tool: FunctionTool) -> Tool:
    return Tool(name=tool.name, description=tool.description, input_schema=tool.params_json_schema)


def _check_context(ctx: RunContextWrapper[Any], _agent: AgentBase) -> bool:
    """Raise before a model is asked if what it finds could not be kept."""
    if not write_value(ctx.context, FOUND_TOOLS, _found_in(ctx)):
        raise ConfigError("the run has no context that can keep the found tools: call Runner.run(…, context={})")
    return True


def _enabled_once_found(tool: FunctionTool) -> FunctionTool:
    own = tool.is_enabled

    async def enabled(ctx: RunContextWrapper[Any], agent: AgentBase) -> bool:
        if tool.name not in _found_in(ctx):
            return False
        answer = own(ctx, agent) if callable(own) else own
        return answer if isinstance(answer, bool) else await answer

    searched = copy(tool)
    searched.is_enabled = enabled
    return searched


def _found_in(ctx: RunContextWrapper[Any]) -> list[str]:
    kept = read_value(ctx.context, FOUND_TOOLS)
    listed = kept if is_array(kept) else []
    return [name for name in listed if isinstance(name, str)]
