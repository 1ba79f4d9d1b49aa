"""What a run of pydantic-ai is shown: read out of what the user said in it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from jazz_select.integrations.door import FlowDoor, Shown
from jazz_select.integrations.fitting import framework

with framework("pydantic-ai"):
    from pydantic_ai import RunContext
    from pydantic_ai.messages import ModelResponse, TextContent, UserContent, UserPromptPart
    from pydantic_ai.tools import AgentDepsT

Context: TypeAlias = Callable[[RunContext[AgentDepsT]], Mapping[str, Any]]
"""Of a run, what guards look at."""


async def shown_in(ctx: RunContext[AgentDepsT], door: FlowDoor, context: Context[AgentDepsT] | None = None) -> Shown:
    """What is shown in a run; in one that goes on after somebody was asked, also what was asked about."""
    parts = [part for message in ctx.messages for part in message.parts]
    said = [_text(part.content) for part in parts if isinstance(part, UserPromptPart)]
    said += [] if ctx.prompt is None else [_text(ctx.prompt)]
    last = ctx.messages[-1] if ctx.messages and ctx.prompt is None else None
    calls = last.tool_calls if isinstance(last, ModelResponse) else []
    waiting = await door.waiting((call.tool_name, call.args_as_dict()) for call in calls)
    shown = await door.select(said, context(ctx) if context else None)
    return replace(shown, tools={**shown.tools, **waiting})


def call_id(ctx: RunContext[Any]) -> str:
    """What a call is known by, in this run and in one that goes on with it."""
    return f"{ctx.conversation_id}:{ctx.tool_call_id}"


def _text(content: str | Sequence[UserContent]) -> str:
    each = [content] if isinstance(content, str) else content
    texts = (part.content if isinstance(part, TextContent) else part for part in each)
    return "\n".join(text for text in texts if isinstance(text, str))
