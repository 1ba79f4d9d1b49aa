"""A small shop for chains: a request, tools, schemas, and a model whose replies come in pieces."""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from jazz_select.agent.chain.transcript import Chain, ToolResult
from jazz_select.routing.tools.tool import Tool
from jazz_select.testing import ScriptedModel
from jazz_select.testing.doubles import ScriptedReply
from jazz_select.values import Message, OfferedTool, Reply, Usage
from tests.unit.routing import shop

ASK = (Message(role="system", content="You work in a shop."), Message(role="user", content="What did A1 cost?"))
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"order": {"type": "string"}, "amount": {"type": "integer"}},
    "required": ["order", "amount"],
    "additionalProperties": False,
}
FIND = '{"tool_calls": [{"id": "s1", "tool": "find_order", "arguments": {"order_id": "A1"}}]}'
SAID = "Order A1 cost 20."
VALID = '{"order": "A1", "amount": 20}'
VALUE = {"order": "A1", "amount": 20}
INVALID = '{"order": "A1", "amount": "much"}'


class Cost(BaseModel):
    """What an order cost."""

    order: str
    amount: int


def tools(**changes: Any) -> list[Tool]:
    """The shop's tools; keyword arguments replace a tool's function."""
    return shop.tools(**changes)


def counted(text: str, tokens: int) -> Reply:
    """A reply that took so many tokens each way."""
    return Reply(text=text, model="scripted", usage=Usage(input_tokens=tokens, output_tokens=tokens))


def call(tool: str, **arguments: Any) -> str:
    return json.dumps({"tool_call": {"id": "s1", "tool": tool, "arguments": arguments}})


def giving(output: Any) -> Callable[..., Any]:
    """A tool that returns this."""

    def give(**_: Any) -> Any:
        return output

    return give


def results(chain: Chain) -> list[ToolResult]:
    return [entry for entry in chain.entries if isinstance(entry, ToolResult)]


class StreamingModel(ScriptedModel):
    """A scripted model that can be read while it writes, three characters at a time; it fails where told to."""

    def __init__(
        self,
        *replies: ScriptedReply,
        fail_after: int | None = None,
        delay_s: float = 0.0,
        takes_tools: bool = False,
    ) -> None:
        super().__init__(*replies, delay_s=delay_s, takes_tools=takes_tools)
        self.streamed = self.closed = 0
        self._fail_after = fail_after

    async def stream(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, Any] | None = None,
        tools: Sequence[OfferedTool] = (),
    ) -> AsyncIterator[str | Reply]:
        """The next reply in pieces, and whole."""
        self.streamed += 1
        try:
            reply = await self.complete(messages, schema=schema, tools=tools)
            text = reply.text
            for number, start in enumerate(range(0, len(text), 3)):
                if number == self._fail_after:
                    msg = "the line went dead"
                    raise ConnectionError(msg)
                yield text[start : start + 3]
            yield reply
        finally:
            self.closed += 1
