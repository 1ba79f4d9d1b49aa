"""One call to a model, with a time limit that nobody mistakes for a cancellation."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from jazz_select.errors import ModelTimeoutError
from jazz_select.ports import ChatModel
from jazz_select.values import Message, Reply, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a model answered; `text` is None where it was no text."""

    text: str | None = None
    usage: Usage | None = None
    model: str = ""
    notes: tuple[str, ...] = ()


async def ask(model: ChatModel, messages: Sequence[Message], *, timeout_s: float | None) -> Answer:
    """What the model answers.

    Raises:
        ModelTimeoutError: The model took longer than `timeout_s`. A TimeoutError of its own passes as it is,
            and so does whatever else it raises.
        CancelledError: The caller was cancelled meanwhile, even where the model's code answered that with an error
            or a value of its own.
    """
    task = asyncio.current_task()
    cancelled_before = task.cancelling() if task else 0
    limit = asyncio.timeout(timeout_s)
    try:
        async with limit:
            reply = await model.complete(messages)
    except Exception as error:
        if task and task.cancelling() > cancelled_before:
            raise asyncio.CancelledError from error
        if limit.expired():
            name = str(getattr(model, "name", type(model).__name__))
            raise ModelTimeoutError(name, timeout_s=timeout_s or 0.0) from error
        raise
    if task and task.cancelling() > cancelled_before:
        raise asyncio.CancelledError
    return _answer(reply)


def _answer(reply: object) -> Answer:
    """A model of somebody's own may answer anything; what is no text is not an error, but unreadable."""
    if isinstance(reply, Reply) and isinstance(reply.text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        return Answer(text=reply.text, usage=reply.usage, model=reply.model)
    if isinstance(reply, str):
        return Answer(text=reply)
    return Answer(notes=(f"the model answered {type(reply).__name__} without a text",))
