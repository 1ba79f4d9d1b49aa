"""OpenAI Agents SDK: an agent's instructions and tools follow the selected flows. Needs the extra `openai-agents`.

Calls that need approval interrupt the run: `result.interruptions`, then `state.approve(…)` or `state.reject(…)`.
"""

from asyncio import Future, ensure_future, wait
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from jazz_select.integrations.toolkit import (
    FlowToolkit,
    Shown,
    check_toolkit,
    context_in,
    digest_of,
    framework,
    outcome_text,
    run_id_in,
    store_question,
    stored_question,
    text_in,
)
from jazz_select.routing.approval import Ask
from jazz_select.routing.tools.showing import input_schema
from jazz_select.routing.tools.tool import Tool

with framework("openai-agents"):
    from agents import Agent, AgentBase, FunctionTool, RunContextWrapper
    from agents.tool_context import ToolContext

Context = Callable[[RunContextWrapper[Any]], Mapping[str, Any]]
"""Returns more of the context of a run, beside the run's own."""


class FlowAgentParts:
    """Instructions and tools for what the user says: `Agent(instructions=parts.instructions("…"), tools=parts.tools)`.

    Attributes:
        tools: All connected tools; a run enables those of the selected flows.
    """

    def __init__(self, toolkit: FlowToolkit, *, context: Context | None = None) -> None:
        """Create the parts.

        The context of a run is the SDK's own (`Runner.run(…, context={"member": "ben"})`): guards look at it, and it
        fills inputs of the tools, which the model is not shown then. `context` returns more of it; a value of None
        takes a name out.

        The SDK has one schema a tool for all runs. It is set before each reply of a model, so runs at the same time
        should hold the same names; what a run's context holds is filled and dropped at the call in any case.

        Raises:
            ConfigError: `toolkit` is not a toolkit.
        """
        check_toolkit(toolkit)
        self._toolkit, self._context = toolkit, context
        self._runs: WeakKeyDictionary[RunContextWrapper[Any], tuple[Future[Shown], list[None]]] = WeakKeyDictionary()
        self._resumed: WeakSet[RunContextWrapper[Any]] = WeakSet()
        self.tools: list[FunctionTool] = [self._function(name, tool) for name, tool in toolkit.tools.items()]

    def instructions(self, base: str = "") -> Callable[[RunContextWrapper[Any], Agent[Any]], Awaitable[str]]:
        """Return the agent's own instructions followed by the selected flows."""

        async def instructions_with_prompt(ctx: RunContextWrapper[Any], _agent: Agent[Any]) -> str:
            shown = await self._select_once(ctx)
            prompt = "" if shown is None else shown.prompt
            return "\n\n".join(filter(None, (base, prompt)))

        return instructions_with_prompt

    async def _select_once(self, ctx: RunContextWrapper[Any]) -> Shown | None:
        """Return what a run shows, selected once; None if a resumed run's message is not known yet.

        The selection runs as long as anybody waits: cancelling one waiter does not end it. A failed one is forgotten.
        """
        if ctx not in self._runs:
            if not ctx.turn_input:
                self._resumed.add(ctx)
                return None
            self._runs[ctx] = ensure_future(self._select(ctx)), []
            # Without a waiter, asyncio would warn of an error that nobody retrieves.
            self._runs[ctx][0].add_done_callback(lambda done: done.cancelled() or done.exception())
        selecting, waiting = self._runs[ctx]
        waiting.append(None)
        try:
            if not selecting.done():  # a finished task may belong to a closed loop
                await wait({selecting})
            return selecting.result()
        finally:
            waiting.pop()
            if not waiting and (selecting.cancel() or selecting.cancelled() or selecting.exception()):
                del self._runs[ctx]

    async def _select(self, ctx: RunContextWrapper[Any]) -> Shown:
        question = stored_question(ctx.context)
        shown = await self._toolkit.select(_user_messages(ctx), self._context_of(ctx), asked=question)
        store_question(ctx.context, shown.kept)
        return shown

    def _context_of(self, ctx: RunContextWrapper[Any]) -> dict[str, Any]:
        context = context_in(ctx.context, self._toolkit.tools.values())
        if self._context is not None:
            context |= self._context(ctx)
        return context

    def _function(self, name: str, tool: Tool) -> FunctionTool:
        def bound(ctx: RunContextWrapper[Any]) -> Tool:
            return self._toolkit.bind_tool(name, self._context_of(ctx))

        async def enabled(ctx: RunContextWrapper[Any], _agent: AgentBase) -> bool:
            function.params_json_schema = input_schema(bound(ctx))
            shown = await self._select_once(ctx)
            # A run resumed elsewhere begins with the pending approvals, which must be stored by then.
            waits = ctx in self._resumed and self._toolkit.may_ask(tool)
            return waits or (shown is not None and name in shown.tools)

        async def asks(ctx: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
            # Here, since from now on the state of the run can be stored: it has to hold the id.
            run_id_in(ctx.context, begins=tool.destructive and ctx not in self._resumed)
            if ctx in self._resumed:
                shown = await self._select_once(ctx)
                if shown is None or name not in shown.tools:
                    return True  # shown only for a pending approval, not by this run's flows
            asked = await self._toolkit.ask(bound(ctx), arguments, _place(ctx, call_id), keeps=ctx.context)
            return isinstance(asked.verdict, Ask)

        async def call(ctx: ToolContext[Any], arguments: str) -> str:
            agreed = ctx.is_tool_approved(name, ctx.tool_call_id) is True  # None: nobody was asked
            place = _place(ctx, ctx.tool_call_id)
            made = await self._toolkit.call(bound(ctx), arguments, call_id=place, agreed=agreed, keeps=ctx.context)
            # Without an id of the run, an earlier call of this id may be another conversation's: its output stays out.
            return outcome_text(made, own=bool(run_id_in(ctx.context)))

        function = FunctionTool(
            name=name,
            description=tool.description,
            params_json_schema=input_schema(tool),
            on_invoke_tool=call,
            strict_json_schema=False,
            is_enabled=enabled,
            needs_approval=asks,
        )
        return function


def _place(ctx: RunContextWrapper[Any], call_id: str) -> str:
    """Return an id of a call by run, since models may repeat ids."""
    return f"{digest_of(run_id_in(ctx.context), *_user_messages(ctx))}:{call_id}"


def _user_messages(ctx: RunContextWrapper[Any]) -> list[str]:
    return [text_in(each.get("content")) for each in ctx.turn_input if each.get("role") == "user"]
