"""What a model is asked and what it answered, as values; and the same question again after a reply that is no use."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from jazz_select.text import cut, in_one_line, name_shown
from jazz_select.values import Message, Reply, Usage

_REPLY_LIMIT: Final = 500


@dataclass(frozen=True, slots=True)
class Question:
    """What a model is asked.

    Attributes:
        messages: What it is told, oldest first.
        schema: The JSON schema of its answer, if it is to have one.
        wanted: What the answer is to be, in words, for a model whose reply could not be used.
    """

    messages: tuple[Message, ...]
    schema: Mapping[str, Any] | None = None
    wanted: str = ""

    @property
    def key(self) -> tuple[object, ...]:
        """The same for those who ask the same."""
        return (self.messages, orjson.dumps(self.schema))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReply:
    """What a model answered; `text` is None where it was no text."""

    text: str | None = None
    usage: Usage | None = None
    model: str = ""
    truncated: bool = False
    attempts: int = 0
    """Calls that it took."""
    notes: tuple[str, ...] = ()


def chat_reply_of(reply: object) -> ChatReply:
    """A model of somebody's own may answer anything; what is no text is not an error, but unreadable."""
    if isinstance(reply, Reply) and isinstance(reply.text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        notes = ("the model's reply was cut off by a limit on its length",) if reply.truncated else ()
        return ChatReply(
            text=reply.text, usage=reply.usage, model=reply.model, truncated=reply.truncated, attempts=1, notes=notes
        )
    if isinstance(reply, str):
        return ChatReply(text=reply, attempts=1)
    return ChatReply(attempts=1, notes=(f"the model answered {type(reply).__name__} without a text",))


def total_usage(one: Usage | None, other: Usage | None) -> Usage | None:
    """The tokens of two calls; None where neither was counted."""
    if one is None or other is None:
        return one or other
    return Usage(
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        cached_tokens=one.cached_tokens + other.cached_tokens,
    )


def why_unusable(answer: ChatReply, ids: Sequence[str], offered: Collection[str], *, what: str = "ids") -> str:
    """Why a reply could not be used, as its writer is told.

    Args:
        answer: The reply.
        ids: What was read from it.
        offered: What might have been.
        what: What was to be found in it.
    """
    if answer.text is None:
        return "it was no text"
    if answer.truncated:
        return "it was cut off before it ended"
    strange = [each for each in ids if each not in offered]
    if strange:
        return f"not among the candidates: {', '.join(name_shown(cut(each, 60)) for each in strange[:3])}"
    if ids:
        return "what it chose can not be run any more"
    return f"no {what} were found in it"


def asked_again(question: Question, reply: str | None, problem: str) -> Question:
    """The same question once more, with the reply that could not be used, why, and what is wanted instead."""
    said = (reply or "").strip()[:_REPLY_LIMIT] or "(no text)"
    correction = f"That could not be used: {in_one_line(problem)}. Answer again, with nothing but {question.wanted}."
    more = (Message(role="assistant", content=said), Message(role="user", content=correction))
    return Question((*question.messages, *more), question.schema, question.wanted)
