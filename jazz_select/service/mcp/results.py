"""What became of a call, as the protocol tells it: data, bounded; a failure is a result that the model can read."""

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, cast

from mcp import types
from pydantic import TypeAdapter, ValidationError

from jazz_select.errors import ToolOutcomeUnknownError
from jazz_select.json_values import is_array, json_text, shorter_text, storable, storable_text, too_much
from jazz_select.routing.names.resolution import Resolution
from jazz_select.routing.tool_call import CallOutcome
from jazz_select.routing.tools.context_inputs import NOT_USED
from jazz_select.service.mcp.untrusted_text import plain_text
from jazz_select.text import beginning, cut

MOST_LETTERS: Final = 100_000
"""Characters of text in one answer."""
_MOST_BLOCKS: Final = 100
_MOST_BYTES: Final = 8_000_000
"""Characters of pictures, sounds and files in one answer, as they are sent: base64."""
_LONGEST_MESSAGE: Final = 500
_LONGEST_PART: Final = 2_000
_BLOCK: Final[TypeAdapter[types.ContentBlock]] = TypeAdapter(types.ContentBlock)


@dataclass(slots=True)
class Relay:
    """What a call and whoever made it tell each other, beside arguments and output.

    Attributes:
        report: Tells a client how far its call is: progress, total and what is being done.
        answer: What a server of others answered, where the call was made there.
    """

    report: Callable[[float, float | None, str | None], Awaitable[None]]
    answer: types.CallToolResult | None = None

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Pass on how far it is; the words are those of a server of others."""
        words = None if message is None else cut(plain_text(message), _LONGEST_MESSAGE)
        await self.report(progress, total, words)


relayed: ContextVar[Relay | None] = ContextVar("jazz_select_relay", default=None)
"""The relay of the call that is being made."""


def answer_of(given: object) -> types.CallToolResult:
    """Convert the answer of another's server; a part that the SDK cannot read is replaced by its name."""
    if isinstance(given, types.CallToolResult):
        return given
    try:
        return types.CallToolResult.model_validate(given, by_name=False)
    except ValidationError:
        fields = cast("dict[str, object]", given)
    content, structured = fields.get("content"), fields.get("structuredContent")
    parts: list[object] = []
    if content is not None:
        parts = content if is_array(content) else [content]
    return types.CallToolResult(
        content=[_block_of(part) for part in parts],
        structured_content=cast("dict[str, Any]", structured) if isinstance(structured, dict) else None,
        is_error=fields.get("isError") not in (None, False, "false"),  # as `tools_from_session` reads it
    )


def _block_of(part: object) -> types.ContentBlock:
    try:
        return _BLOCK.validate_python(part, by_name=False)
    except ValidationError:
        text = part if isinstance(part, str) else shorter_text(part, _LONGEST_PART)
        return types.TextContent(text=text)


def bounded_answer(answer: types.CallToolResult) -> types.CallToolResult:
    """Limit the size of the answer of another's server; a part left out is replaced by its name."""
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


_LONGEST_PROBLEM: Final = 2_000
_MOST_NAMES: Final = 20


def structured_answer(value: Mapping[str, Any]) -> types.CallToolResult:
    """Build the answer of one of the four tools, as a structure and as text."""
    return types.CallToolResult(content=_json(value), structured_content=dict(value))


def failure(problem: str, **more: object) -> types.CallToolResult:
    """Build the answer of a failure: the problem, and what to do instead."""
    error = {"error": cut(plain_text(problem), _LONGEST_PROBLEM), **more}
    return types.CallToolResult(content=_json(error), is_error=True)


def unknown_name(found: Resolution) -> types.CallToolResult:
    """Build the answer for an unknown tool, with those that may have been meant; long lists are cut."""
    names = found.connected_tools
    error = found.error()
    error["connected_tools"] = list(names[:_MOST_NAMES])
    if len(names) > _MOST_NAMES:
        error["more"] = f"{len(names) - _MOST_NAMES} more are connected: search_tools finds them"
    return types.CallToolResult(content=_json(error), is_error=True)


def outcome_of(outcome: CallOutcome, relay: Relay, *, only_reads: bool = False) -> types.CallToolResult:
    """Build the answer from the outcome of a call; `only_reads` if the tool says that it changes nothing."""
    if outcome.error is not None:
        cause = outcome.error.cause
        problem = outcome.error.message
        if only_reads and isinstance(cause, ToolOutcomeUnknownError):  # nobody needs to know whether it was done
            problem = f"{outcome.call.tool}: its outcome is unknown: {cause.what}"
        return failure(problem, status=outcome.status, **_advice(outcome, only_reads=only_reads))
    if relay.answer is not None:
        return bounded_answer(relay.answer)
    value = cast("object", outcome.output)
    text = cut(value, MOST_LETTERS) if isinstance(value, str) else shorter_text(value, MOST_LETTERS)
    structure = cast("dict[str, Any]", storable(cast("dict[str, Any]", value))) if isinstance(value, dict) else None
    if structure is not None and (too_much(structure, MOST_LETTERS) or len(storable_text(structure)) > MOST_LETTERS):
        structure = None
    return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=structure)


def with_notes(result: types.CallToolResult, outcome: CallOutcome) -> types.CallToolResult:
    """Return a result that says, in a part of its own, that values which a model gave were dropped."""
    if not outcome.dropped:
        return result
    return result.model_copy(update={"content": [*result.content, types.TextContent(text=NOT_USED)]})


def _advice(outcome: CallOutcome, *, only_reads: bool) -> dict[str, object]:
    if outcome.status == "unknown" and only_reads:
        return {"advice": "It changes nothing, so it can be called again."}
    if outcome.status == "unknown":
        return {"advice": "It may have been done. See whether it was before you call it again."}
    if outcome.missing:
        return {"missing": [beginning(name, 200) for name in outcome.missing[:_MOST_NAMES]]}
    if outcome.status == "refused":
        return {"advice": "Nothing was done. Tell the user why."}
    if outcome.status == "denied":
        return {"advice": "Nothing was done. Do not try it another way; tell the user."}
    return {}


def _json(value: Mapping[str, Any]) -> list[types.ContentBlock]:
    return [types.TextContent(text=json_text(value))]
