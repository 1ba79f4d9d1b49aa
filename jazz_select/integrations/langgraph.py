"""LangGraph: a node that selects, and one that calls the tools. Needs the extra `langgraph`.

What needs a yes interrupts the graph: compile it with a checkpointer, and resume with what was answered.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, cast

from jazz_select.integrations.door import FlowDoor, check_door, told
from jazz_select.integrations.fitting import framework
from jazz_select.routing.approval import Ask
from jazz_select.routing.tools.showing import tool_schemas
from jazz_select.routing.tools.tool import Tool

with framework("langgraph"):
    from langchain_core.messages import AIMessage, HumanMessage, ToolCall, ToolMessage
    from langchain_core.runnables import RunnableConfig
    from langgraph.graph import MessagesState
    from langgraph.types import interrupt

_NO_TOOL: Final = "not run: there is no such tool here, or the call has no id of its own"
_REFUSED: Final = "not run: it was asked about, and not agreed to"


class FlowState(MessagesState):
    """What the nodes read and write: messages, and what was selected for the last one of the user.

    Attributes:
        flows: The names of the selected flows.
        prompt: Those flows, for the model's instructions.
        tools: The names of the tools that go with them, as models are shown them.
    """

    flows: list[str]
    prompt: str
    tools: list[str]


class FlowNodes:
    """The nodes, and what to bind to a chat model between them."""

    def __init__(self, door: FlowDoor, *, context: Callable[[FlowState], Mapping[str, Any]] | None = None) -> None:
        """Take the door to flows and tools, and what of a state guards look at.

        Raises:
            ConfigError: It is no door.
        """
        check_door(door)
        self._door, self._context = door, context

    async def select(self, state: FlowState) -> dict[str, Any]:
        """The node that finds the flows for what the user said last."""
        said = [str(message.text) for message in state["messages"] if isinstance(message, HumanMessage)]
        shown = await self._door.select(said, self._context(state) if self._context else None)
        return {"flows": shown.result.names, "prompt": shown.prompt, "tools": list(shown.tools)}

    def schemas(self, state: FlowState) -> list[dict[str, Any]]:
        """The tools of a state, as `bind_tools` takes them for any provider."""
        return tool_schemas(self._shown(state))

    async def call(self, state: FlowState, config: RunnableConfig) -> dict[str, Any]:
        """The node that makes the calls of the last reply, one after the other.

        Where some need a yes, it interrupts once, before any is made, with `calls`: for each its id, tool, title,
        arguments and the reason. It is resumed with the ids of those that may be made, or True for all of them.
        """
        shown, last = self._shown(state), state["messages"][-1]
        calls = last.tool_calls if isinstance(last, AIMessage) else []
        ids = [call["id"] for call in calls]
        sound = [call for call in calls if call["name"] in shown and call["id"] and ids.count(call["id"]) == 1]
        asked = {str(call["id"]): asks for call in sound if (asks := await self._asks(call, shown[call["name"]]))}
        agreed = _agreed(interrupt({"calls": [*asked.values()]}), asked) if asked else set[str]()
        thread = str(config.get("configurable", {}).get("thread_id", ""))
        made: list[ToolMessage] = []
        for call in calls:
            own, said, status = str(call["id"] or ""), _NO_TOOL, "error"
            if call in sound and (own not in asked or own in agreed):
                tool, known_as = shown[call["name"]], f"{thread}:{own}"
                outcome = await self._door.call(tool, call["args"], call_id=known_as, agreed=own in agreed)
                said, status = told(outcome), "error" if outcome.error else "success"
            elif own in asked:
                said = _REFUSED
            made.append(ToolMessage(said, tool_call_id=own, name=call["name"], status=status))
        return {"messages": made}

    def _shown(self, state: FlowState) -> dict[str, Tool]:
        return {name: self._door.tools[name] for name in state.get("tools", ()) if name in self._door.tools}

    async def _asks(self, call: ToolCall, tool: Tool) -> dict[str, Any] | None:
        """What somebody is asked about a call; None where nobody is."""
        verdict = await self._door.verdict(tool, call["args"])
        if not isinstance(verdict, Ask):
            return None
        known = {"id": call["id"], "tool": call["name"], "title": tool.display_name}
        return {**known, "arguments": call["args"], "reason": verdict.reason}


def _agreed(answer: object, asked: Collection[str]) -> set[str]:
    """The ids that an answer agrees to: all for True, else those in a list of them. Anything else is no yes."""
    listed = cast("list[object]", answer) if isinstance(answer, list) else []
    return set(asked) if answer is True else {each for each in asked if each in listed}
