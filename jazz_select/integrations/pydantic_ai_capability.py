"""pydantic-ai: a capability that narrows an agent's own tools to the selected flows. Needs the extra `pydantic-ai`.

pydantic-ai calls the tools; those that need approval are deferred: have `DeferredToolRequests` among the output types.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from jazz_select.integrations.door import FlowDoor, Shown, check_door, framework
from jazz_select.integrations.pydantic_ai import Context, call_id, keep, returned, shown_in
from jazz_select.routing.approval import Ask, Deny

with framework("pydantic-ai"):
    from pydantic_ai import ApprovalRequired, RunContext, ToolFailed
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.tools import AgentDepsT
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset


@dataclass
class FlowCapability(AbstractCapability[AgentDepsT]):
    """The selected flows as instructions, and the agent's own tools narrowed to them: `Agent(capabilities=[…])`.

    The door's tools describe the agent's, by name. A described tool is shown if a selected flow names it; others of the
    agent always are.

    Attributes:
        door: Flows and their tools.
        context: Returns what guards look at in a run.
        now: In a run, what is shown.
    """

    door: FlowDoor
    context: Context[AgentDepsT] | None = None
    now: Shown | None = None

    def __post_init__(self) -> None:
        check_door(self.door)

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> "FlowCapability[AgentDepsT]":
        """Select, once in a run."""
        return replace(self, now=await shown_in(ctx, self.door, self.context))

    async def before_model_request(
        self, ctx: RunContext[AgentDepsT], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Store the open question."""
        keep(ctx, self.now and self.now.kept)
        return request_context

    def get_instructions(self) -> str | None:
        """Return the selected flows."""
        return self.now.prompt or None if self.now else None

    def get_wrapper_toolset(self, toolset: AbstractToolset[AgentDepsT]) -> AbstractToolset[AgentDepsT] | None:
        """Return the agent's tools, narrowed."""
        return _Narrowed(toolset, self.door, self.now) if self.now else None


@dataclass
class _Narrowed(WrapperToolset[AgentDepsT]):
    door: FlowDoor
    now: Shown

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        found = await super().get_tools(ctx)
        return {name: tool for name, tool in found.items() if name in self.now.tools or name not in self.door.tools}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> Any:
        make = partial(super().call_tool, name, tool_args, ctx, tool)
        if own := self.door.tools.get(name):
            asked = await self.door.asked(own, tool_args)
            if isinstance(asked.verdict, Deny):
                raise ToolFailed(f"not run: {asked.verdict.reason}")
            if isinstance(asked.verdict, Ask) and not self.door.is_agreed(
                call_id(ctx), asked.call, agreed=ctx.tool_call_approved
            ):
                raise ApprovalRequired(asked.about)
            if ctx.tool_call_approved:  # an approval may arrive twice
                return returned(await self.door.once(own, tool_args, call_id(ctx), make))
        return await make()
