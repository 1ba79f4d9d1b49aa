"""pydantic-ai: a toolset of the selected flows' tools. `python -m examples.elsewhere.with_pydantic_ai`.

The model follows a script; put `"openai:gpt-5-mini"` in its place.
"""

import asyncio

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from examples.elsewhere.desk import ASKED, ORDERS, open_toolkit
from jazz_select.integrations.pydantic_ai import FlowToolset

SCRIPT = [
    [ToolCallPart("look_up_order", {"order_id": "A1"})],
    [ToolCallPart("pay_back", {"order_id": "A1", "amount": 129}, tool_call_id="pay")],
    [TextPart("129 are on their way back to you.")],
]


async def main() -> None:
    """One request, with a call that needs a yes."""
    replies = iter(SCRIPT)

    def reply(_: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        print("the model sees", [tool.name for tool in info.function_tools])
        return ModelResponse(parts=next(replies))

    async with open_toolkit() as toolkit:
        agent = Agent(
            FunctionModel(reply),
            instructions="You work at the desk of a shop.",
            toolsets=[FlowToolset[object](toolkit)],
            output_type=[str, DeferredToolRequests],
        )
        first = await agent.run(ASKED)
        assert isinstance(first.output, DeferredToolRequests)  # noqa: S101 - else nothing was to be asked
        for call in first.output.approvals:
            print("asked:", call.tool_name, call.args, "| order is", ORDERS["A1"]["state"])
        yes = DeferredToolResults(approvals={call.tool_call_id: True for call in first.output.approvals})
        second = await agent.run(message_history=first.all_messages(), deferred_tool_results=yes)
        print(second.output, "| order is", ORDERS["A1"]["state"])


if __name__ == "__main__":
    asyncio.run(main())
