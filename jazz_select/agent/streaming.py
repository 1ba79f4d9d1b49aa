"""An answer while it is made, as events to iterate over."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence

from jazz_select.agent.chain import Strategy
from jazz_select.agent.events import Event
from jazz_select.agent.finalizing import OnLimit
from jazz_select.agent.formatting import MAX_CHARS, FormattingPrompt
from jazz_select.agent.responding import respond
from jazz_select.agent.schemas import SchemaLike
from jazz_select.agent.toolcalls import AfterCall, BeforeCall
from jazz_select.ports import ChatModel
from jazz_select.routing.tool import Tool
from jazz_select.values import Message


async def stream_respond(  # noqa: PLR0913 - options with a name
    model: ChatModel,
    messages: Sequence[Message],
    tools: Iterable[Tool] = (),
    schema: SchemaLike | None = None,
    *,
    strategy: Strategy = "deferred",
    chain_limit: int = 8,
    before_call: BeforeCall | None = None,
    after_call: AfterCall | None = None,
    conversation_id: str = "",
    tool_timeout_s: float | None = 30.0,
    at_once: int = 1,
    prompt: FormattingPrompt | None = None,
    max_chars: int = MAX_CHARS,
    on_limit: OnLimit = "format",
    max_reasks: int = 1,
    model_timeout_s: float | None = None,
    max_retries: int = 2,
) -> AsyncGenerator[Event, None]:
    """What `respond` does, event by event; the last one, `Finished`, holds its `Answer`.

    Output text comes as `OutputText` and as nothing else: from the last call alone, each piece once. A model with a
    `stream` method is read while it writes; if what it wrote turns out not to be valid, `FormatRestarted` says so
    before the next attempt. From any other model the text comes in one piece, once it is known to be valid.

    Whoever stops iterating early closes the generator (`contextlib.aclosing`), and the work ends with it. Arguments
    and errors are those of `respond`.
    """
    queue: asyncio.Queue[Event | None] = asyncio.Queue()

    async def work() -> None:
        try:
            await respond(
                model,
                messages,
                tools,
                schema,
                strategy=strategy,
                chain_limit=chain_limit,
                before_call=before_call,
                after_call=after_call,
                on_event=queue.put_nowait,
                conversation_id=conversation_id,
                tool_timeout_s=tool_timeout_s,
                at_once=at_once,
                prompt=prompt,
                max_chars=max_chars,
                on_limit=on_limit,
                max_reasks=max_reasks,
                model_timeout_s=model_timeout_s,
                max_retries=max_retries,
            )
        finally:
            queue.put_nowait(None)

    task = asyncio.create_task(work())
    try:
        while (event := await queue.get()) is not None:
            yield event
        await task
    finally:
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        task.cancel()
        await asyncio.wait({task})
