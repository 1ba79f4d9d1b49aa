"""Clean what a model answers, before anything reads it: the only way in for replies of every adapter.

What a model writes is hostile input, and what a provider's server makes of it may be odd: ids of calls that are missing
or repeated, names with remains of a template, arguments that are no object, blank text, reasoning as text.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, cast

from jazz_select.chat.json_reader import LONGEST, too_large_calls
from jazz_select.chat.reasoning import without_reasoning
from jazz_select.json_values import is_object, storable_text
from jazz_select.text import as_text, count_of
from jazz_select.values import NativeCall, Reply

MOST_CALLS: Final = 128
"""The most calls of one reply; a provider takes back no more."""
LONGEST_ID: Final = 64
LONGEST_NAME: Final = 200
ONLY_REASONING: Final = "the model gave its reasoning and no answer"
"""The note on a reply that has nothing else."""
_STRANGE: Final = re.compile(r"[^!-~]+")
"""What no provider's ids have: white space, controls, letters beyond ASCII."""
_TEMPLATE: Final = re.compile(r"<\|.*", re.DOTALL)
"""The remains of a template behind a name, as in `look_up<|channel|>json`."""


@dataclass(frozen=True, slots=True)
class CleanReply:
    """A reply that can be read.

    Attributes:
        reply: The reply; its `notes` are the adapter's own.
        written: Its text as the model wrote it.
        notes: What was dropped here, one sentence each.
        unread: Why the reply has none of its calls: they are too large to be read; empty if it has them.
    """

    reply: Reply
    written: str
    notes: tuple[str, ...] = ()
    unread: str = ""


def clean_reply(given: object) -> CleanReply | None:
    """Return a model's answer with an answer's text, and with calls that have unique ids; None if it is no reply.

    The text is without reasoning, and empty if it is blank. Calls stay in their order.
    """
    if isinstance(given, str):
        given = Reply(text=given)
    if not isinstance(given, Reply):
        return None
    written = text_of(given.text)
    if written is None or (cast("object", given.text) is None and not given.tool_calls):
        return None
    contents = _contents(given.tool_calls)
    unread = too_large_calls(contents) if contents else ""
    calls, notes = clean_calls(() if unread else given.tool_calls)
    text, more = _answer_in(written, cut_off=given.truncated)
    if written.strip() and not text and not calls and not unread:
        more = (*more, ONLY_REASONING)
    reply = replace(given, text=text, tool_calls=calls, origin=None if unread else given.origin)
    return CleanReply(reply, written, (*notes, *more), unread and f"the reply {unread}")


def text_of(content: object) -> str | None:
    """Return the text of a message: None counts as empty, and parts as their texts; None if it is no text."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if not isinstance(content, list | tuple):
        return None
    texts: list[str] = []
    for part in cast("Sequence[object]", content):
        text: object = part.get("text") if is_object(part) else part
        if not isinstance(text, str):
            return None
        texts.append(text)
    return "".join(texts)


def _answer_in(written: str, *, cut_off: bool) -> tuple[str, tuple[str, ...]]:
    read = written[:LONGEST]
    text = without_reasoning(read, cut_off=cut_off or len(read) < len(written))
    if text == read:
        return (written if written.strip() else ""), ()
    notes = (
        () if len(read) == len(written) else (f"the reply is longer than {LONGEST} characters; the rest is dropped",)
    )
    return (text if text.strip() else ""), notes


def _contents(calls: object) -> list[object]:
    return [(each.id, each.name, each.arguments) for each in _call_list(calls) if isinstance(each, NativeCall)]


def _call_list(calls: object) -> Sequence[object]:
    return cast("Sequence[object]", calls) if isinstance(calls, list | tuple) else ()


def clean_calls(given: object) -> tuple[tuple[NativeCall, ...], tuple[str, ...]]:
    """Return the calls of a reply, each with an id of its own, and notes on those that were dropped."""
    several = _call_list(given)
    notes: list[str] = []
    calls: list[NativeCall] = []
    taken: set[str] = set()
    unread = 0
    for each in islice(several, MOST_CALLS):
        if not isinstance(each, NativeCall):
            unread += 1
            continue
        own = unique_id(each.id, taken)
        calls.append(NativeCall(id=own, name=_name(each.name), arguments=_arguments(each.arguments)))
    if unread:
        notes.append(f"{count_of(unread, 'call')} in the reply could not be read: a call has to be a NativeCall")
    if len(several) > MOST_CALLS:
        notes.append(f"the reply holds {len(several)} calls; those after the first {MOST_CALLS} are dropped")
    return tuple(calls), tuple(notes)


def unique_id(given: object, taken: set[str]) -> str:
    """Return an id like the given one that is not among those taken, and take it."""
    base = _STRANGE.sub("_", given).strip("_")[:LONGEST_ID] if isinstance(given, str) else ""
    base = base or "call"
    own, number = base, 1
    while own in taken or own == "call":
        end = f"_{number}"
        own, number = f"{base[: LONGEST_ID - len(end)]}{end}", number + 1
    taken.add(own)
    return own


def _name(given: object) -> str:
    return (
        _TEMPLATE.sub("", as_text(given[: 2 * LONGEST_NAME])).strip()[:LONGEST_NAME] if isinstance(given, str) else ""
    )


def _arguments(given: object) -> Mapping[str, Any] | str:
    if given is None:
        return ""
    if isinstance(given, str | Mapping):
        return cast("Mapping[str, Any] | str", given)
    return storable_text(given)  # JSON that is no object, as the reader of the call says
