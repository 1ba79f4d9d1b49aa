"""The model of a conversation: a cassette that knows kinds of prompts, and stops at what it has no reply to."""

import asyncio
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Final

from jazz_select.telemetry import Span
from jazz_select.testing import Cassette, Recorded
from jazz_select.values import Reply

KINDS: Final = {
    "select": "choose",
    "fill": "fill",
    "step": "decide",
    "consent": "consent",
    "format": "finalize",
    "answer": "finalize",
    "chain": "call",
}
"""A prompt's kind, by the name of the nearest span around it that is here."""


def kind_of(span: Span | None) -> str:
    """What a model is asked for, by where it is asked: choose, fill, decide, call, finalize, consent, or a span's name.

    A node of the turn says nothing of it, since a node may ask for several things; so a part that asks has a span of
    its own, and a new one is known by that name until it is in `KINDS`.
    """
    nearest = ""
    while span is not None:
        is_stage = span.kind == "node" and span.name in {"select", "answer"}  # of the turn: not what asks
        if span.name in KINDS and not is_stage:
            return KINDS[span.name]
        if span.kind != "chat":
            nearest = nearest or span.name
        span = span.parent
    return nearest or "prompt"


class Mode(Enum):
    """What becomes of a prompt without a record."""

    STOP = "stop"
    """The conversation stops."""
    REKEY = "rekey"
    """It gets the reply of the next record, if that is of its turn and kind."""
    ASK = "ask"
    """The model is asked, whatever was recorded."""


class Tape(Cassette):
    """A cassette for one conversation, and the hook that tells it what is asked for.

    Attributes:
        stopped: The prompt that nobody answered.
        rekeyed: The records whose prompts have changed, each with the prompt as it is now.
        replies: To give to the next prompts without a record; each is recorded.
    """

    def __init__(self, path: Path, *, mode: Mode = Mode.STOP, model: Any = None, replies: Sequence[str] = ()) -> None:
        super().__init__(path, model, kind=lambda _: kind_of(self._span), takes_schema=None if model else False)
        self.mode = mode
        self.replies = list(replies)
        self.recorded: list[Recorded] = []
        self.rekeyed: list[tuple[Recorded, Recorded]] = []
        self.stopped: Recorded | None = None
        self.stopping = asyncio.Event()
        self._span: Span | None = None
        if mode is Mode.ASK:
            self.left = []

    def started(self, span: Span) -> None:
        """A call of the model begins in its span, before the model is asked."""
        if span.kind == "chat":
            self._span = span

    def ended(self, span: Span) -> None:
        """Nothing is left to be done."""

    async def unrecorded(self, question: Recorded) -> Reply:
        """Give the next reply, one that was kept for another prompt, or none: then whoever plays stops the turn.

        Nothing is raised: an agent makes do without a model that fails, and would go on.
        """
        if self.mode is Mode.ASK:
            return await super().unrecorded(question)
        stale = self.left[0] if self.left else None
        if self.replies:
            reply = self.replies.pop(0)
            self.recorded.append(question)
        elif self.mode is Mode.REKEY and stale is not None and _place(stale) == _place(question):
            reply = stale.reply
            self.rekeyed.append((stale, question))
        else:
            self.stopped = self.stopped or question  # of several at once the first, as replies are given
            self.stopping.set()
            await asyncio.Event().wait()
            raise AssertionError  # nobody sets it: the turn is cancelled
        self.keep(question, reply)
        return Reply(text=reply, model="cassette")


def _place(record: Recorded) -> tuple[int, str]:
    return record.turn, record.kind
