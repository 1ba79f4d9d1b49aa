"""Clean what a model answers, before anything reads it: the only way in for replies of every adapter.

What a model writes is hostile input, and what a provider's server makes of it may be odd: ids of calls that are missing
or repeated, names with remains of a template, arguments that are no object, blank text, reasoning as text.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, TypeGuard, cast

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
    # An adapter may omit the text if there are calls; without either there is no reply.
    if written is None or (cast("object", given.text) is None and not given.tool_calls):
        return None
    contents = _contents(given.tool_calls)
    excess = too_large_calls(contents) if contents else ""
    if excess:
        given = replace(given, tool_calls=(), origin=None)
    calls, notes = clean_calls(given.tool_calls)
    text, text_notes = _answer_in(written, cut_off=given.truncated)
    if written.strip() and not text and not calls and not excess:
        text_notes = (*text_notes, ONLY_REASONING)
    return CleanReply(
        reply=replace(given, text=text, tool_calls=calls),
        written=written,
        notes=(*notes, *text_notes),
        unread=f"the reply {excess}" if excess else "",
    )


def text_of(content: object) -> str | None:
    """Return the text of a message: None counts as empty, and parts as their texts; None if it is no text."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if not _is_sequence(content):
        return None
    texts: list[str] = []
    for part in content:
        text: object = part.get("text") if is_object(part) else part
        if not isinstance(text, str):
            return None
        texts.append(text)
    return "".join(texts)


def _is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, list | tuple)


def _answer_in(written: str, *, cut_off: bool) -> tuple[str, tuple[str, ...]]:
    """Return the text without reasoning, empty if it is blank, and notes on what was dropped."""
    beginning = written[:LONGEST]
    is_longer = len(beginning) < len(written)
    text = without_reasoning(beginning, cut_off=cut_off or is_longer)
    # Without reasoning, a longer reply is not cut: the JSON reader has a limit of its own.
    if text == beginning:
        return (written if written.strip() else ""), ()
    if not text.strip():
        text = ""
    if is_longer:
        return text, (f"the reply is longer than {LONGEST} characters; the rest is dropped",)
    return text, ()


def _contents(calls: object) -> list[object]:
    contents: list[object] = []
    for call in _call_list(calls):
        if isinstance(call, NativeCall):
            contents.append((call.id, call.name, call.arguments))
    return contents


def _call_list(calls: object) -> Sequence[object]:
    return calls if _is_sequence(calls) else ()


def clean_calls(given: object) -> tuple[tuple[NativeCall, ...], tuple[str, ...]]:
    """Return the calls of a reply, each with an id of its own, and notes on those that were dropped."""
    listed = _call_list(given)
    notes: list[str] = []
    calls: list[NativeCall] = []
    taken: set[str] = set()
    unread = 0
    for call in islice(listed, MOST_CALLS):
        if not isinstance(call, NativeCall):
            unread += 1
            continue
        own_id = unique_id(call.id, taken)
        calls.append(NativeCall(id=own_id, name=_clean_name(call.name), arguments=_clean_arguments(call.arguments)))
    if unread:
        notes.append(f"{count_of(unread, 'call')} in the reply could not be read: a call has to be a NativeCall")
    if len(listed) > MOST_CALLS:
        notes.append(f"the reply holds {len(listed)} calls; those after the first {MOST_CALLS} are dropped")
    return tuple(calls), tuple(notes)


def unique_id(given: object, taken: set[str]) -> str:
    """Return an id like the given one that is not among those taken, and take it."""
    base = ""
    if isinstance(given, str):
        base = _STRANGE.sub("_", given).strip("_")[:LONGEST_ID]
    base = base or "call"
    own, number = base, 1
    # The stand-in always gets a number, even the first one.
    while own in taken or own == "call":
        end = f"_{number}"
        own, number = f"{base[: LONGEST_ID - len(end)]}{end}", number + 1
    taken.add(own)
    return own


def _clean_name(given: object) -> str:
    if not isinstance(given, str):
        return ""
    # Cut it before the search, which bounds the work, and again without what the template left.
    name = _TEMPLATE.sub("", as_text(given[: 2 * LONGEST_NAME]))
    return name.strip()[:LONGEST_NAME]


def _clean_arguments(given: object) -> Mapping[str, Any] | str:
    if given is None:
        return ""
    if isinstance(given, str) or is_object(given):
        return given
    return storable_text(given)  # JSON that is no object, as the reader of the call says
