"""A loop of one's own: what to show a model, and calls by the rules. `python -m examples.elsewhere.own_loop`.

`ask` stands in for a provider's client; `tool_schemas` gives what its `tools=` takes.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from examples.elsewhere.desk import ASKED, ORDERS, open_toolkit
from jazz_select.integrations.toolkit import outcome_text
from jazz_select.routing import tool_schemas

SCRIPT: list[dict[str, Any]] = [
    {"call": "look_up_order", "arguments": {"order_id": "A1"}},
    {"call": "pay_back", "arguments": {"order_id": "A1", "amount": 129}},
    {"text": "129 are on their way back to you."},
]


async def ask(messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the model replies to these messages, with these tools."""
    print("the model sees", [tool["function"]["name"] for tool in tools])
    return SCRIPT[sum(message["role"] == "tool" for message in messages)]


def agrees(question: str) -> bool:
    """What the user says to a question; here always yes."""
    print("asked:", question, "| order is", ORDERS["A1"]["state"])
    return True


async def main() -> None:
    """One request, with a call that needs a yes."""
    async with open_toolkit() as toolkit:
        shown = await toolkit.select([ASKED])
        system = {"role": "system", "content": shown.prompt}
        messages: list[dict[str, Any]] = [system, {"role": "user", "content": ASKED}]
        while "call" in (reply := await ask(messages, tool_schemas(shown.tools))):
            tool, arguments = shown.tools[reply["call"]], reply["arguments"]
            made = await toolkit.call(tool, arguments)
            if made.status == "asked" and agrees(f"{tool.display_name} {arguments}"):
                made = await toolkit.call(tool, arguments, agreed=True)
            messages += [{"role": "assistant", **reply}, {"role": "tool", "content": outcome_text(made)}]
    print(reply["text"], "| order is", ORDERS["A1"]["state"])


if __name__ == "__main__":
    asyncio.run(main())
