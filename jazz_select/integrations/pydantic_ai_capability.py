"""pydantic-ai: a capability that narrows an agent's own tools to the selected flows. Needs the extra `pydantic-ai`.

pydantic-ai calls the tools; those that need approval are deferred: have `DeferredToolRequests` among the output types.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pydantic_core import ValidationError

from jazz_select.integrations.pydantic_ai import (
    ARGUMENTS,
    Context,
    call_id,
    context_of,
    select_for_run,
    store_in_history,
    unwrap_outcome,
)
from jazz_select.integrations.toolkit import FlowToolkit, Shown, check_toolkit, framework
from jazz_select.routing.approval import Ask, Deny
from jazz_select.routing.schemas.places import has_place, path_of, wrapper_paths
from jazz_select.routing.tools.context_inputs import bind_context, describe_dropped, filled_arguments
from jazz_select.routing.tools.showing import input_schema
from jazz_select.routing.tools.tool import Tool, context_keys
from jazz_select.text import describe_error

with framework("pydantic-ai"):
    from pydantic_ai import ApprovalRequired, ModelRetry, RunContext, ToolFailed
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.tools import AgentDepsT
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset

_log = logging.getLogger(__name__)


@dataclass
class FlowCapability(AbstractCapability[AgentDepsT]):
    """The selected flows as instructions, and the agent's own tools narrowed to them: `Agent(capabilities=[…])`.

    The toolkit's tools describe the agent's, by name. A described tool is shown if a selected flow names it; others of
    the agent always are. The inputs of described tools that the run's context holds are hidden and filled.

    Attributes:
        toolkit: Flows and their tools.
        context: Returns more of the context of a run than its deps, as for `FlowToolset`.
        now: In a run, what is shown.
    """

    toolkit: FlowToolkit
    context: Context[AgentDepsT] | None = None
    now: Shown | None = None

    def __post_init__(self) -> None:
        check_toolkit(self.toolkit)

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> "FlowCapability[AgentDepsT]":
        """Select, once in a run."""
        return replace(self, now=await select_for_run(ctx, self.toolkit, context_of(ctx, self.toolkit, self.context)))

    async def before_model_request(
        self, ctx: RunContext[AgentDepsT], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Store the open question."""
        store_in_history(ctx, self.now and self.now.kept)
        return request_context

    def get_instructions(self) -> str | None:
        """Return the selected flows."""
        if self.now is None:
            return None
        return self.now.prompt or None

    def get_wrapper_toolset(self, toolset: AbstractToolset[AgentDepsT]) -> AbstractToolset[AgentDepsT] | None:
        """Return the agent's tools, narrowed."""
        if self.now is None:
            return None
        return _NarrowedToolset(toolset, self.toolkit, self.now, self.context)


@dataclass
class _NarrowedToolset(WrapperToolset[AgentDepsT]):
    toolkit: FlowToolkit
    now: Shown
    context: Context[AgentDepsT] | None
    unbound: dict[str, ToolsetTool[AgentDepsT]] = field(default_factory=dict[str, Any])
    """The agent's tools as they are, by name, of those that are shown without what the context fills."""

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        found = await super().get_tools(ctx)
        shown = {name: tool for name, tool in found.items() if name in self.now.tools or name not in self.toolkit.tools}
        for name in shown.keys() & self.toolkit.tools.keys():
            shown[name] = self._without_context_inputs(name, shown[name], ctx)
        return shown

    def _without_context_inputs(
        self, name: str, tool: ToolsetTool[AgentDepsT], ctx: RunContext[AgentDepsT]
    ) -> ToolsetTool[AgentDepsT]:
        own = self._bind_described(name, tool, ctx)
        if own.context_inputs is None or not own.context_inputs.keys:
            return tool
        self.unbound[name] = tool
        described = replace(tool.tool_def, parameters_json_schema=input_schema(own))
        return replace(tool, tool_def=described, args_validator=ARGUMENTS)  # validated when all of them are there

    def _bind_described(self, name: str, tool: ToolsetTool[AgentDepsT], ctx: RunContext[AgentDepsT]) -> Tool:
        """Return the toolkit's tool with the inputs of the agent's, bound to the run's context."""
        known, schema = self.toolkit.tools[name], tool.tool_def.parameters_json_schema
        declared = context_keys(known.name, known.from_context)
        taken = {each: key for each, key in declared.items() if has_place(schema, each)}
        # The framework shows the fields of a single model as the inputs.
        around = wrapper_paths(known.call_schema)
        for place, key in declared.items():
            *outer, name = path_of(known.call_schema, place)
            if place not in taken and tuple(outer) in around and has_place(schema, name):
                taken[name] = key
        own = replace(known, input_schema=schema, from_context=taken, context_inputs=None)
        return bind_context(own, context_of(ctx, self.toolkit, self.context))

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> Any:
        tool = self.unbound.get(name, tool)
        call = super().call_tool
        if name not in self.toolkit.tools:
            return await call(name, tool_args, ctx, tool)
        own = self._bind_described(name, tool, ctx)
        if name in self.unbound:
            tool_args = _with_context(own, tool, tool_args)
        make = partial(call, name, tool_args, ctx, tool)
        asked = await self.toolkit.ask(own, tool_args)
        if isinstance(asked.verdict, Deny):
            raise ToolFailed(f"not run: {asked.verdict.reason}")
        needs_approval = isinstance(asked.verdict, Ask)
        if needs_approval and not self.toolkit.is_agreed(call_id(ctx), asked.call, agreed=ctx.tool_call_approved):
            raise ApprovalRequired(asked.about)
        if ctx.tool_call_approved:  # an approval may arrive twice
            return unwrap_outcome(await self.toolkit.call_once(own, tool_args, call_id(ctx), make))
        return await make()


def _with_context(own: Tool, tool: ToolsetTool[Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return a model's arguments with what the context fills, validated by the agent's own tool.

    Raises:
        ToolFailed: The context lacks a value, or one does not fit.
        ModelRetry: What the model gave does not fit.
    """
    inputs = own.context_inputs
    keys: Mapping[str, str] = {} if inputs is None else inputs.keys
    if inputs is not None and inputs.problem:
        raise ToolFailed(f"{own.name} was not run: {inputs.problem}")
    filled = filled_arguments(own, given)
    if filled.dropped:
        _log.warning(
            "note=<%s> | a model gave what only the context may give", describe_dropped(own.name, filled.dropped)
        )
    try:
        return tool.args_validator.validate_python(filled.arguments)
    except ValidationError as error:
        refused = [tuple(map(str, each["loc"])) for each in error.errors(include_input=False)]
        paths: Mapping[str, tuple[str, ...]] = {} if inputs is None else inputs.paths
        of_context: list[str] = []
        for name, key in keys.items():
            path = paths[name]
            if any(place[: len(path)] == path for place in refused):
                of_context.append(key)
        # The model cannot correct a value of the context, so it is not asked to retry.
        if of_context:
            named = " and ".join(map(repr, of_context))
            raise ToolFailed(f"{own.name} was not run: {named} of the context does not fit its input") from error
        raise ModelRetry(f"the arguments are not valid: {describe_error(error)}") from error
