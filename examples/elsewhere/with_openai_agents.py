"""OpenAI Agents SDK: instructions and tools that follow the flows. `python -m examples.elsewhere.with_openai_agents`.

The model follows a script; leave `model=` out for OpenAI's.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from agents import Agent, RunConfig, Runner, Tool
from agents.items import ModelResponse
from agents.models.interface import Model
from agents.usage import Usage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from examples.elsewhere.desk import ASKED, ORDERS, open_toolkit
from jazz_select.integrations.openai_agents import FlowAgentParts

QUIET = RunConfig(tracing_disabled=True)  # the SDK sends traces to OpenAI else


def called(tool: str, call_id: str, **arguments: Any) -> ResponseFunctionToolCall:
    """A call, as the model writes it."""
    return ResponseFunctionToolCall(arguments=json.dumps(arguments), call_id=call_id, name=tool, type="function_call")


def said(text: str) -> ResponseOutputMessage:
    """A text, as the model writes it."""
    content = ResponseOutputText(text=text, type="output_text", annotations=[])
    return ResponseOutputMessage(id="said", content=[content], role="assistant", status="completed", type="message")


SCRIPT = [
    called("look_up_order", "look", order_id="A1"),
    called("pay_back", "pay", order_id="A1", amount=129),
    said("129 are on their way back to you."),
]


class Scripted(Model):
    """Replies with a script."""

    def __init__(self, script: Sequence[Any] = SCRIPT) -> None:
        self._replies = iter(script)

    async def get_response(self, *_: Any, tools: Sequence[Tool], **__: Any) -> ModelResponse:
        """The next reply."""
        print("the model sees", [tool.name for tool in tools])
        return ModelResponse(output=[next(self._replies)], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        """Not in this script."""
        raise NotImplementedError


async def main() -> None:
    """One request, with a call that needs a yes."""
    async with open_toolkit() as toolkit:
        flows = FlowAgentParts(toolkit)
        agent = Agent[Any](
            name="desk",
            instructions=flows.instructions("You work at the desk of a shop."),
            tools=[*flows.tools],
            model=Scripted(),
        )
        first = await Runner.run(agent, ASKED, run_config=QUIET)
        state = first.to_state()
        for call in first.interruptions:
            print("asked:", call.name, call.arguments, "| order is", ORDERS["A1"]["state"])
            state.approve(call)
        second = await Runner.run(agent, state, run_config=QUIET)
        print(second.final_output, "| order is", ORDERS["A1"]["state"])


if __name__ == "__main__":
    asyncio.run(main())
