"""LangGraph: nodes that select and call, around a chat model. `python -m examples.elsewhere.with_langgraph`.

The model follows a script; put `init_chat_model("openai:gpt-5-mini")` in its place.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command

from examples.elsewhere.desk import ASKED, ORDERS, open_toolkit
from jazz_select.integrations.langgraph import FlowNodes, FlowState

THREAD: RunnableConfig = {"configurable": {"thread_id": "ada"}}
SCRIPT = [
    AIMessage("", tool_calls=[{"name": "look_up_order", "args": {"order_id": "A1"}, "id": "look"}]),
    AIMessage("", tool_calls=[{"name": "pay_back", "args": {"order_id": "A1", "amount": 129}, "id": "pay"}]),
    AIMessage("129 are on their way back to you."),
]


class Scripted(GenericFakeChatModel):
    """LangChain's fake model, which takes tools."""

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        """Say what the model would be sent."""
        print("the model sees", [tool["function"]["name"] for tool in tools])
        return self


def desk_graph(nodes: FlowNodes, model: Scripted) -> Any:
    """Select, then reply and call in turn."""

    async def reply(state: FlowState) -> dict[str, Any]:
        system = SystemMessage(f"You work at the desk of a shop.\n\n{state['prompt']}")
        return {"messages": [await model.bind_tools(nodes.schemas(state)).ainvoke([system, *state["messages"]])]}

    def after(state: FlowState) -> str:
        last = state["messages"][-1]
        return "call" if isinstance(last, AIMessage) and (last.tool_calls or last.invalid_tool_calls) else END

    graph: Any = StateGraph(FlowState)  # its types are partly unknown
    graph.add_node("select", nodes.select)
    graph.add_node("reply", reply)
    graph.add_node("call", nodes.call)
    graph.add_edge(START, "select")
    graph.add_edge("select", "reply")
    graph.add_conditional_edges("reply", after)
    graph.add_edge("call", "reply")
    return graph.compile(checkpointer=InMemorySaver())


async def main() -> None:
    """One request, with a call that needs a yes."""
    async with open_toolkit() as toolkit:
        graph = desk_graph(FlowNodes(toolkit), Scripted(messages=iter(SCRIPT)))
        first = await graph.ainvoke({"messages": [HumanMessage(ASKED)]}, THREAD)
        print("selected", first["flows"])
        asked = first["__interrupt__"][0].value["calls"]
        for call in asked:
            print("asked:", call["title"], call["arguments"], "| order is", ORDERS["A1"]["state"])
        second = await graph.ainvoke(Command(resume=[call["id"] for call in asked]), THREAD)
        print(second["messages"][-1].content, "| order is", ORDERS["A1"]["state"])


if __name__ == "__main__":
    asyncio.run(main())
