"""LangGraph: a node that selects, and one that calls the tools. Needs the extra `langgraph`.

Calls that need approval interrupt the graph: compile it with a checkpointer, and resume with the answer.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from jazz_select.integrations.toolkit import (
    ASKED,
    OPEN,
    FlowToolkit,
    check_toolkit,
    context_in,
    framework,
    outcome_text,
    stored_question,
)
from jazz_select.json_values import is_array
from jazz_select.routing.approval import Ask
from jazz_select.routing.tools.showing import tool_schemas
from jazz_select.routing.tools.tool import Tool

with framework("langgraph"):
    from langchain_core.messages import AIMessage, HumanMessage, InvalidToolCall, ToolCall, ToolMessage
    from langchain_core.runnables import RunnableConfig
    from langgraph.func import task
    from langgraph.graph import MessagesState
    from langgraph.runtime import get_runtime
    from langgraph.types import interrupt

_NO_TOOL: Final = "not run: there is no such tool here, or the call has no id of its own"
_UNREAD: Final = "not run: the call could not be read: make it again, with arguments that are one JSON object"
_NAMELESS: Final = "True says not which of {} calls is meant, and none was made: resume with a list of their ids"
_REFUSED: Final = "not run: it was asked about, and not agreed to"


class FlowState(MessagesState):
    """What the nodes read and write: messages, and the selection for the user's last one.

    Attributes:
        flows: The names of the selected flows.
        prompt: Those flows, for the model's instructions.
        tools: Their tools, by the names that models are shown.
        flow_question: The open question to the user, if any.
    """

    flows: list[str]
    prompt: str
    tools: list[str]
    flow_question: Mapping[str, Any] | None


class FlowNodes:
    """The nodes, and the tools to bind to a chat model between them."""

    def __init__(
        self, toolkit: FlowToolkit, *, context: Callable[[FlowState], Mapping[str, Any]] | None = None
    ) -> None:
        """Create the nodes.

        The context of a run is LangGraph's own (`ainvoke(…, context={"member": "ben"})`): guards look at it, and it
        fills inputs of the tools, which no model is shown then. `context` returns more of it from a state; a value of
        None takes a name out.

        Raises:
            ConfigError: `toolkit` is not a toolkit.
        """
        check_toolkit(toolkit)
        self._toolkit, self._context = toolkit, context

    async def select(self, state: FlowState) -> dict[str, Any]:
        """Find the flows for the user's last message (a node)."""
        said = [str(message.text) for message in state["messages"] if isinstance(message, HumanMessage)]
        shown = await self._toolkit.select(said, self._context_of(state), asked=stored_question(state))
        names = shown.result.names
        return {"flows": names, "prompt": shown.prompt, "tools": list(shown.tools), OPEN: shown.kept}

    def schemas(self, state: FlowState) -> list[dict[str, Any]]:
        """Return the tools of a state, as `bind_tools` takes them for any provider. Call it in a node of the graph."""
        return tool_schemas(self._tools_shown(state))

    async def call(self, state: FlowState, config: RunnableConfig) -> dict[str, Any]:  # noqa: PLR0914 - one turn of a graph
        """Make the calls of the last reply in order (a node).

        If some need approval, it interrupts once, before any call, with `calls`: for each its id, tool, title,
        question, arguments and reason. Resume it with the ids of the approved calls, or with True if there is only one;
        True for several repeats the calls with a `problem`. Approval is for those very calls: one that has changed
        since, by the state or `approve`, is not made. Calls in `invalid_tool_calls`, which LangChain could not read,
        get an error.
        """
        shown, last = self._tools_shown(state), state["messages"][-1]
        place = f"{config.get('configurable', {}).get('thread_id', '')}:{last.id}"
        if not isinstance(last, AIMessage):
            return {"messages": []}
        calls, unread = last.tool_calls, last.invalid_tool_calls
        # An id that two calls share would let one answer count for both.
        ids = [call["id"] for call in (*calls, *unread)]
        sound = [call for call in calls if call["name"] in shown and call["id"] and ids.count(call["id"]) == 1]
        asks: list[dict[str, Any]] = []
        may_ask = False
        for call in sound:
            tool = shown[call["name"]]
            may_ask = may_ask or tool.destructive or self._toolkit.may_ask(tool)
            request = await self._approval_request(call, tool, place)
            if request is not None:
                asks.append(request)
        # Even if nothing needs approval any more: an earlier answer has to be consumed.
        if may_ask:
            asks = await pending_approvals(asks)
        approvals = _ask_approvals(asks) if asks else dict[str, bool]()
        keeps = {ASKED: {f"{place}:{each['id']}": each["identity"] for each in asks}}
        made: list[ToolMessage] = []
        for call in calls:
            own_id, text, status = str(call["id"] or ""), _NO_TOOL, "error"
            if call in sound and approvals.get(own_id, True):
                outcome = await self._toolkit.call(
                    shown[call["name"]],
                    call["args"],
                    call_id=f"{place}:{own_id}",
                    agreed=own_id in approvals,
                    keeps=keeps,
                )
                text, status = outcome_text(outcome), "error" if outcome.error else "success"
            elif own_id in approvals:
                text = _REFUSED
            made.append(ToolMessage(text, tool_call_id=own_id, name=call["name"], status=status))
        return {"messages": [*made, *map(_unreadable_call, unread)]}

    def _context_of(self, state: FlowState) -> dict[str, Any]:
        try:
            run_context = get_runtime().context
        except RuntimeError:  # outside of a run
            run_context = None
        context = context_in(run_context, self._toolkit.tools.values())
        if self._context is not None:
            context |= self._context(state)
        return context

    def _tools_shown(self, state: FlowState) -> dict[str, Tool]:
        context = self._context_of(state)
        names = [name for name in state.get("tools", ()) if name in self._toolkit.tools]
        return {name: self._toolkit.bind_tool(name, context) for name in names}

    async def _approval_request(self, call: ToolCall, tool: Tool, place: str) -> dict[str, Any] | None:
        asked = await self._toolkit.ask(tool, call["args"], f"{place}:{call['id']}")
        if not isinstance(asked.verdict, Ask):
            return None
        return {"id": call["id"], "tool": call["name"], "arguments": call["args"], **asked.about}


def _unreadable_call(call: InvalidToolCall) -> ToolMessage:
    return ToolMessage(_UNREAD, tool_call_id=call["id"] or "", name=call["name"], status="error")


@task
async def pending_approvals(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the requests unchanged. LangGraph stores a task's result, so a resumed node sees the first ones."""
    return calls


def _ask_approvals(calls: list[dict[str, Any]]) -> dict[str, bool]:
    """Return whether each call was approved: by its id in a list, or by True for the only one, and nothing else."""
    answer: object = interrupt({"calls": calls})
    while answer is True and len(calls) > 1:
        answer = interrupt({"calls": calls, "problem": _NAMELESS.format(len(calls))})
    # Accept only True itself: a text such as "no" is truthy.
    if answer is True:
        return {each["id"]: True for each in calls}
    approved = answer if is_array(answer) else []
    return {each["id"]: each["id"] in approved for each in calls}
