"""The tools of what was selected, and tools as providers of models take them.

For whoever runs the loop of a model and its tools: a selection says which flows, this says what the model is shown.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, cast

from jazz_select.arguments import check_argument
from jazz_select.errors import ConfigError, ToolError
from jazz_select.flow.base import BaseFlow
from jazz_select.json_values import as_json
from jazz_select.routing.tools.sources import ToolsLike, tools_of
from jazz_select.routing.tools.tool import Tool, Toolbox

OpenTools = Literal["read", "all", "none"]
"""Which tools a model gets where no flow fits: those that change nothing, all, or none."""
SchemaForm = Literal["openai", "openai-responses", "anthropic"]
"""Whose form of a tool: OpenAI's for chat completions, which most servers take, or for responses, or Anthropic's."""
_LONGEST: Final = 64
"""Characters of a name that every provider takes."""
_STRANGE: Final = re.compile(r"[^a-zA-Z0-9_-]")


def selected_tools(flows: Iterable[BaseFlow], tools: ToolsLike, *, open_tools: OpenTools = "read") -> list[Tool]:
    """Return the connected tools that these flows name, each once and in the order of the flows.

    A composite includes the tools of its parts. Flows and parts that are `manual` give no tools to a model.

    Args:
        flows: `result.chosen_flows`.
        tools: The connected tools.
        open_tools: The tools to return if there are no flows; a skill that names no `allowed-tools` gets them too.

    Raises:
        ConfigError: An argument has the wrong type.
        DuplicateToolError: Two tools have one name.
        FlowValidationError: A part of a flow does not exist.
    """
    check_argument("open_tools", open_tools, OpenTools)
    connected = Toolbox(tools_of(tools))
    chosen = _checked_flows(flows)
    names: dict[str, None] = {}
    for flow in chosen:
        names |= dict.fromkeys(_model_tools(flow))
    if not chosen or any(flow.takes_open_tools and not flow.manual for flow in chosen):
        names |= dict.fromkeys(_open_names(connected, open_tools))
    return [connected[name] for name in names if name in connected]


def _open_names(connected: Mapping[str, Tool], open_tools: OpenTools) -> list[str]:
    """Return the names of the tools that are there where no flow fits."""
    if open_tools == "all":
        return list(connected)
    if open_tools == "none":
        return []
    return [name for name, tool in connected.items() if tool.reads]


def _checked_flows(given: object) -> list[BaseFlow]:
    if isinstance(given, Iterable) and not isinstance(given, str | Mapping):
        listed = list(cast("Iterable[object]", given))
        flows = [each for each in listed if isinstance(each, BaseFlow)]
        if len(flows) == len(listed):
            return flows
    raise ConfigError(f"flows must be those that were selected, as result.chosen_flows has them, got {given!r:.80}")


def _model_tools(flow: BaseFlow) -> Iterator[str]:
    flow.definition()  # no circle, and no part that is not there
    if flow.manual:
        return
    yield from flow.own_tools
    for part in flow.subflows:
        yield from _model_tools(part)


def shown_names(tools: Iterable[Tool]) -> dict[str, Tool]:
    """Return the tools by the names that providers accept: letters, digits, `_` and `-`, at most 64.

    Other characters, such as the dot of `shop.refund`, become `_`; a later duplicate ends in a number. Calls of a model
    are looked up here.
    """
    shown: dict[str, Tool] = {}
    for tool in tools:
        name = base = _STRANGE.sub("_", tool.name)[:_LONGEST]
        number = 1
        while name in shown:
            number += 1
            end = f"_{number}"
            name = f"{base[: _LONGEST - len(end)]}{end}"
        shown[name] = tool
    return shown


def tool_schemas(tools: Sequence[Tool] | Mapping[str, Tool], form: SchemaForm = "openai") -> list[dict[str, Any]]:
    """Return the tools as JSON values for a request to a provider.

    Args:
        tools: The tools, or the result of `shown_names`.
        form: The form of the provider.

    Raises:
        ConfigError: The form is unknown, or an entry is no tool.
        ToolError: The schema of a tool cannot be serialized.
    """
    check_argument("form", form, SchemaForm)
    listed = cast("object", tools.values() if isinstance(tools, Mapping) else tools)
    if not isinstance(listed, Iterable) or not all(isinstance(each, Tool) for each in cast("Iterable[object]", listed)):
        msg = f"tools must be a list of Tools, or what shown_names or FlowToolkit.select returned, got {tools!r:.80}"
        raise ConfigError(msg)
    named = tools if isinstance(tools, Mapping) else shown_names(tools)
    return [_in_form(name, tool, form) for name, tool in named.items()]


def input_schema(tool: Tool) -> dict[str, Any]:
    """Return a tool's inputs as the schema of an object, the only kind that providers accept."""
    try:
        own: dict[str, Any] = as_json(dict(tool.input_schema))
    except TypeError as error:
        problem = "its input_schema cannot be written as JSON; correct it, or leave the tool out"
        raise ToolError(tool.name, problem) from error
    return {"properties": {}, **own, "type": "object"}


def _in_form(name: str, tool: Tool, form: SchemaForm) -> dict[str, Any]:
    described = {"name": name, "description": tool.description}
    if form == "anthropic":
        return {**described, "input_schema": input_schema(tool)}
    function = {**described, "parameters": input_schema(tool)}
    if form == "openai-responses":
        return {"type": "function", **function}
    return {"type": "function", "function": function}
