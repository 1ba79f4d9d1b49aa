"""pydantic-ai: a toolset of the selected flows' tools. Needs the extra `pydantic-ai`.

Calls that need approval are deferred: have `DeferredToolRequests` among the agent's output types.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from pydantic_core import SchemaValidator, core_schema

from jazz_select.integrations.toolkit import (
    OPEN,
    FlowToolkit,
    Shown,
    approval_request,
    check_toolkit,
    context_in,
    digest_of,
    framework,
    outcome_text,
    stored_question,
    text_in,
)
from jazz_select.routing.tool_call import CallOutcome
from jazz_select.routing.tools.context_inputs import NOT_USED
from jazz_select.routing.tools.showing import input_schema

with framework("pydantic-ai"):
    from pydantic_ai import ApprovalRequired, ModelRetry, RunContext, ToolDefinition, ToolFailed, ToolReturn
    from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart, UserPromptPart
    from pydantic_ai.tools import AgentDepsT
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool

ARGUMENTS = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))
"""Takes any arguments: they are validated when the call is made."""
Context: TypeAlias = Callable[[RunContext[AgentDepsT]], Mapping[str, Any]]
"""Returns more of the context of a run, beside its deps."""


def context_of(
    ctx: RunContext[AgentDepsT], toolkit: FlowToolkit, context: Context[AgentDepsT] | None = None
) -> dict[str, Any]:
    """Return the context of a run: its deps, and what `context` returns, which replaces what the deps hold."""
    found = context_in(ctx.deps, toolkit.tools.values())
    if context is not None:
        found |= context(ctx)
    return found


async def select_for_run(ctx: RunContext[AgentDepsT], toolkit: FlowToolkit, context: Mapping[str, Any]) -> Shown:
    """Return what a run shows; a run resumed after an approval also shows the tools it was about."""
    requests = [each for each in ctx.messages if _has_user_prompt(each)]
    messages = _user_messages(requests)
    is_resumed = ctx.prompt is None
    calls: Sequence[ToolCallPart] = ()
    if not is_resumed:
        messages.append(text_in(ctx.prompt))
    elif ctx.messages and isinstance(ctx.messages[-1], ModelResponse):
        calls = ctx.messages[-1].tool_calls
    waiting = await toolkit.tools_awaiting_approval(((call.tool_name, call.args_as_dict()) for call in calls), context)
    # A resumed run selects with what its own request stored. A new request may answer the one before it.
    last_requests = requests[-2:] if is_resumed else requests[-1:]
    asked = stored_question(*(each.metadata for each in last_requests))
    shown = await toolkit.select(messages, context, asked=asked)
    return replace(shown, tools={**shown.tools, **waiting})


def _has_user_prompt(message: ModelMessage) -> bool:
    return any(isinstance(part, UserPromptPart) for part in message.parts)


def store_in_history(ctx: RunContext[Any], kept: Mapping[str, Any] | None) -> None:
    """Store the open question in the message that led to it, so that it travels with the history."""
    if not kept or not ctx.messages:
        return
    last = ctx.messages[-1]
    if _has_user_prompt(last):
        last.metadata = {**(last.metadata or {}), OPEN: kept}


def unwrap_outcome(made: CallOutcome) -> Any:
    """Return a call's output, or raise so that pydantic-ai sees the outcome."""
    if made.status == "asked":
        raise ApprovalRequired(approval_request(made.call, made.reason))
    if made.error is None and made.dropped:
        value = {"result": made.output, "note": NOT_USED}
        return ToolReturn(return_value=value, metadata={"notes": list(made.notes)})
    if made.error is None:
        return made.output
    # Ask the model again only if other arguments can help.
    if made.error.fault == "arguments":
        raise ModelRetry(outcome_text(made))
    raise ToolFailed(outcome_text(made))


def call_id(ctx: RunContext[Any]) -> str:
    """Return an id of a call that survives resuming; it includes the place, as providers may repeat ids."""
    replies = [each for each in ctx.messages if isinstance(each, ModelResponse)]
    before = digest_of(str(len(replies)), *_user_messages(ctx.messages))
    return f"{ctx.conversation_id}:{before}:{ctx.tool_call_id}"


def _user_messages(messages: Iterable[ModelMessage]) -> list[str]:
    texts: list[str] = []
    for message in messages:
        for part in message.parts:
            if isinstance(part, UserPromptPart):
                texts.append(text_in(part.content))
    return texts


@dataclass(eq=False)
class FlowToolset(AbstractToolset[AgentDepsT]):
    """The tools for what the user says, and the selected flows as instructions: `Agent(toolsets=[…])`.

    Attributes:
        toolkit: Flows and their tools.
        context: Returns more of the context of a run than its deps, which are the context by default. Guards look at
            it, and it fills inputs of the tools, which the model is not shown then. A value of None takes a name out.
        name: Unique among an agent's toolsets.
        now: In a run, what is shown.
    """

    toolkit: FlowToolkit
    context: Context[AgentDepsT] | None = None
    name: str = "flows"
    now: Shown | None = None

    def __post_init__(self) -> None:
        check_toolkit(self.toolkit)

    @property
    def id(self) -> str:
        """Its name."""
        return self.name

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> "FlowToolset[AgentDepsT]":
        """Select, once in a run."""
        return replace(self, now=await select_for_run(ctx, self.toolkit, context_of(ctx, self.toolkit, self.context)))

    async def for_run_step(self, ctx: RunContext[AgentDepsT]) -> "FlowToolset[AgentDepsT]":
        """Store the open question."""
        store_in_history(ctx, self.now and self.now.kept)
        return self

    async def get_instructions(self, ctx: RunContext[AgentDepsT]) -> str | None:  # noqa: ARG002 - pydantic-ai's signature
        """Return the selected flows."""
        if self.now is None:
            return None
        return self.now.prompt or None

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        """Return the selected flows' tools; destructive ones run alone."""
        found: dict[str, ToolsetTool[AgentDepsT]] = {}
        context = context_of(ctx, self.toolkit, self.context)
        # Outside of a run nothing is selected yet, so all tools are listed.
        shown = self.toolkit.tools if self.now is None else self.now.tools
        for name in shown:
            own = self.toolkit.bind_tool(name, context)
            schema = input_schema(own)
            described = ToolDefinition(
                name=name, description=own.description, parameters_json_schema=schema, sequential=own.destructive
            )
            found[name] = ToolsetTool(
                toolset=self, tool_def=described, max_retries=ctx.max_retries, args_validator=ARGUMENTS
            )
        return found

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> Any:
        """Call a tool through the toolkit."""
        del tool  # pydantic-ai's signature
        own = self.toolkit.bind_tool(name, context_of(ctx, self.toolkit, self.context))
        made = await self.toolkit.call(own, tool_args, call_id=call_id(ctx), agreed=ctx.tool_call_approved)
        return unwrap_outcome(made)
