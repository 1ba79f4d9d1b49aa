"""The recorded replies as a model would give them that calls tools in its provider's own form."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jazz_select.text import json_line
from jazz_select.values import Message, OfferedTool, Reply
from tests.conversations.tape import Mode, NativeTape


class KeptPrompts(NativeTape):
    """A tape of native calls that keeps what was asked with the tools.

    Attributes:
        prompts: What was asked, with the tools.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, mode=Mode.REKEY)
        self.prompts: list[tuple[tuple[Message, ...], tuple[OfferedTool, ...]]] = []

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, Any] | None = None,
        tools: Sequence[OfferedTool] = (),
    ) -> Reply:
        """The recorded reply, with its calls as calls."""
        self.prompts.append((tuple(messages), tuple(tools)))
        return await super().complete(messages, schema=schema, tools=tools)


def as_sent(messages: Sequence[Message], tools: Sequence[OfferedTool]) -> Iterator[Message]:
    """A prompt as a provider reads it: the tools, then the messages with their calls."""
    if tools:
        told = [{"name": each.name, "description": each.description, "parameters": each.schema} for each in tools]
        yield Message(role="system", content=json_line(told))
    for each in messages:
        calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in each.tool_calls]
        yield Message(role=each.role, content=f"{each.content}{json_line(calls) if calls else ''}")
