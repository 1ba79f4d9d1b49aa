"""What passes by a call on its way through: progress to the client that asked, and the answer of a server as it was."""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, cast

from mcp import types

from jazz_select.json_values import too_much
from jazz_select.service.mcp.foreign import plain_text
from jazz_select.text import cut

Report = Callable[[float, float | None, str | None], Awaitable[None]]
"""Tells a client how far its call is: progress, total and what is being done."""
MOST_LETTERS: Final = 100_000
"""Characters of text in one answer."""
_MOST_BLOCKS: Final = 100
_MOST_BYTES: Final = 8_000_000
"""Characters of pictures, sounds and files in one answer, as they are sent: base64."""
_LONGEST_MESSAGE: Final = 500


@dataclass(slots=True)
class Relay:
    """What a call and whoever made it tell each other, beside arguments and output.

    Attributes:
        report: Where progress goes; None where nobody asked for it.
        answer: What a server of others answered, where the call was made there.
    """

    report: Report | None = None
    answer: types.CallToolResult | None = None

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Pass on how far it is; the words are those of a server of others."""
        if self.report is not None:
            told = None if message is None else cut(plain_text(message), _LONGEST_MESSAGE)
            await self.report(progress, total, told)


relayed: ContextVar[Relay | None] = ContextVar("jazz_select_relay", default=None)
"""The relay of the call that is being made."""


def bounded_answer(answer: types.CallToolResult) -> types.CallToolResult:
    """What a server of others answered, within bounds: what is left out is named in its place."""
    letters, size = MOST_LETTERS, _MOST_BYTES
    blocks: list[types.ContentBlock] = []
    for block in answer.content[:_MOST_BLOCKS]:
        if isinstance(block, types.TextContent):
            kept = cut(block.text, letters) if letters > 0 else f"[… {len(block.text)} characters …]"
            letters -= len(kept)
            blocks.append(types.TextContent(text=kept))
            continue
        heavy = len(block.model_dump_json())
        if heavy > size:
            blocks.append(types.TextContent(text=f"[… {block.type} of {heavy} characters, which is too large …]"))
            continue
        size -= heavy
        blocks.append(block)
    if len(answer.content) > _MOST_BLOCKS:
        blocks.append(types.TextContent(text=f"[… {len(answer.content) - _MOST_BLOCKS} more parts …]"))
    structured = cast("dict[str, Any] | None", answer.structured_content)
    if structured is not None and too_much(structured, MOST_LETTERS):
        structured = None
    return types.CallToolResult(content=blocks, structured_content=structured)
