"""Asking once more: why a reply could not be used, and how its writer is told. Pure."""

from collections.abc import Collection, Sequence
from typing import Final

from jazz_select.selector.answer import Answer
from jazz_select.text import cut
from jazz_select.values import Message

_REPLY_LIMIT: Final = 500


def why_unusable(answer: Answer, ids: Sequence[str], offered: Collection[str], *, what: str = "ids") -> str:
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
        return f"not among the candidates: {', '.join(cut(each, 60) for each in strange[:3])}"
    if ids:
        return "what it chose can not be run any more"
    return f"no {what} were found in it"


def asked_again(messages: Sequence[Message], reply: str | None, problem: str, *, wanted: str) -> tuple[Message, ...]:
    """The same question once more, with the reply that could not be used, why, and what is wanted instead."""
    said = (reply or "").strip()[:_REPLY_LIMIT] or "(no text)"
    correction = f"That could not be used: {problem}. Answer again, with nothing but {wanted}."
    return (*messages, Message(role="assistant", content=said), Message(role="user", content=correction))
