"""Shape a conversation into what a provider accepts: the only way out for messages to every adapter.

A provider refuses a request whole (400) for one message that it does not allow, often after tools have run. Every
model gets a conversation in which each call has an id of its own and is answered once, directly behind it. An adapter
shapes further by the provider's `Dialect`. Pure; the same beginning of a conversation always takes the same shape, so
that a provider's cache of prompts holds.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final, get_args

from jazz_select.chat.incoming import text_of
from jazz_select.chat.json_reader import parse_whole
from jazz_select.errors import MessageError
from jazz_select.json_values import is_object, storable
from jazz_select.text import as_text, cut, json_line
from jazz_select.values import Message, NativeCall, Role

NOTHING: Final = "(nothing)"
"""Stands for a blank text where a provider wants one."""
OPENING: Final = "(The assistant begins.)"
"""What the user says before the assistant opens a conversation."""
GOES_ON: Final = "(Go on.)"
"""What the user says between two messages of the assistant that cannot be one."""
UNANSWERED: Final = "no result of this call was kept: it may have been made, and may have had its effect"
UNREADABLE: Final = "INVALID_JSON"
"""The input that holds arguments of a call that are no JSON object, as pydantic-ai names it."""
_UNNAMED: Final = "unnamed_tool"
_LONGEST_UNREADABLE: Final = 16_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What a provider accepts.

    Attributes:
        other_in_ids: Matches characters that an id of a call may not have.
        longest_id: The most characters of an id.
        fixed_ids: Whether ids have exactly that length.
        other_in_names: Matches characters that the name of a tool may not have.
        longest_name: The most characters of a name.
        trims_end: Whether a message of the assistant at the end may not end in white space.
    """

    other_in_ids: re.Pattern[str] = re.compile(r"[^A-Za-z0-9_-]+")
    longest_id: int = 40
    fixed_ids: bool = False
    other_in_names: re.Pattern[str] = re.compile(r"[^A-Za-z0-9_-]+")
    longest_name: int = 64
    trims_end: bool = True


COMMON: Final = Dialect()
"""What every provider accepts."""
OPENAI_CHAT: Final = Dialect(other_in_ids=re.compile(r"[^!-~]+"), trims_end=False)
OPENAI_RESPONSES: Final = Dialect(longest_id=64, trims_end=False)
ANTHROPIC: Final = Dialect(longest_id=64)
GOOGLE: Final = Dialect(longest_id=64, trims_end=False)
MISTRAL: Final = Dialect(other_in_ids=re.compile(r"[^A-Za-z0-9]+"), longest_id=9, fixed_ids=True)


def shape_messages(given: Iterable[Message], dialect: Dialect | None = None) -> list[Message]:
    """Return a conversation as a provider accepts it; without a dialect, only its calls and results are mended.

    Raises:
        MessageError: A message cannot be sent to any model; the error says which, and what to do.
    """
    readable = [_check_message(number, each) for number, each in enumerate(given)]
    # Pair calls and results first: if two calls share an id, only the order tells their results apart.
    messages = _with_unique_ids(_pair_results(readable), dialect)
    return messages if dialect is None else _in_dialect(messages, dialect)


def _check_message(number: int, message: object) -> Message:
    """Return a message with its content as text.

    Raises:
        MessageError: It cannot be sent.
    """
    if not isinstance(message, Message):
        raise MessageError(number, f"it is a {type(message).__name__}", "pass a jazz_select.values.Message")
    if message.role not in get_args(Role):
        roles = ", ".join(get_args(Role))
        raise MessageError(number, f"its role is {message.role!r:.80}", f"use one of {roles}")
    text = text_of(message.content)
    if text is None:
        problem = f"its content is a {type(message.content).__name__} that holds more than text"
        raise MessageError(number, problem, "pass the text alone, as a str")
    calls: Any = message.tool_calls  # callers without a type checker pass anything
    if not isinstance(calls, list | tuple) or any(not isinstance(each, NativeCall) for each in message.tool_calls):  # pyright: ignore[reportUnnecessaryIsInstance] - as above
        raise MessageError(number, "its tool_calls are no NativeCalls", "pass a tuple of jazz_select.values.NativeCall")
    if calls and message.role != "assistant":
        raise MessageError(number, f"it is of role {message.role} and has tool_calls", "give them to the assistant")
    if calls and text and not text.strip():
        text = ""  # a blank text without calls stays: `_in_dialect` drops or fills it
    return message if text is message.content else replace(message, content=text)


# --- calls and their results ---


def _pair_results(messages: Sequence[Message]) -> list[Message]:
    """Put the results of each call directly behind it, one each; what answers no call becomes a text of the user."""
    if not any(each.tool_calls or each.role == "tool" for each in messages):
        return list(messages)
    paired: list[Message] = []
    at = 0
    while at < len(messages):
        message = messages[at]
        at += 1
        if not message.tool_calls:
            paired.append(_without_orphan(message))
            continue
        end = at
        while end < len(messages) and not messages[end].tool_calls:
            end += 1
        results, others = _results_of(message.tool_calls, messages[at:end])
        paired += [message, *results, *others]
        at = end
    return paired


def _results_of(calls: Sequence[NativeCall], following: Sequence[Message]) -> tuple[list[Message], list[Message]]:
    """Return a result for each of the calls, and all other messages up to the next calls."""
    waiting: dict[str, list[int]] = {}
    for place, call in enumerate(calls):
        waiting.setdefault(call.id, []).append(place)
    found: dict[int, Message] = {}
    others: list[Message] = []
    for each in following:
        places = waiting.get(each.call_id) if each.role == "tool" else None
        if places:
            found[places.pop(0)] = each
        elif each.role != "tool" or each not in found.values():  # the same result once more says nothing new
            others.append(_without_orphan(each))
    results: list[Message] = []
    for place, call in enumerate(calls):
        result = found.get(place)
        if result is None:
            content = json_line({"ok": False, "error": UNANSWERED})
            result = Message(role="tool", content=content, call_id=call.id)
        results.append(replace(result, tool=call.name))
    return results, others


def _without_orphan(message: Message) -> Message:
    """Return a message; a result of no call in the conversation becomes data that the user passes on."""
    if message.role != "tool":
        return message
    line = json_line({"tool": message.tool, "result": message.content})
    return Message(role="user", content=f"TOOL RESULTS:\n{line}")


def _with_unique_ids(messages: Sequence[Message], dialect: Dialect | None) -> list[Message]:
    """Give each call of the conversation an id of its own, and its result the same."""
    shaped: list[Message] = []
    taken: dict[str, int] = {}
    ids: list[str] = []
    for message in messages:
        if message.role == "tool":
            own = ids.pop(0)  # the results stand right behind their calls, in order
            shaped.append(message if own == message.call_id else replace(message, call_id=own))
            continue
        ids = [_own_id(call.id, taken, dialect) for call in message.tool_calls]
        calls = tuple(replace(call, id=own) for call, own in zip(message.tool_calls, ids, strict=True))
        shaped.append(message if calls == message.tool_calls else replace(message, tool_calls=calls))
    return shaped


def _own_id(given: str, taken: dict[str, int], dialect: Dialect | None) -> str:
    """Return an id that is not among those taken; `taken` counts the calls that wanted each."""
    wanted = own = _fitting_id(given, 1, dialect)
    while own in taken:
        taken[wanted] += 1
        own = _fitting_id(given, taken[wanted], dialect)
    taken[own] = 1
    return own


def _fitting_id(given: str, number: int, dialect: Dialect | None) -> str:
    """Return an id in the dialect for the call that is the given number of those with this id."""
    if dialect is None:
        if not given.strip():
            return f"call_{number}"
        return given if number == 1 else f"{given}_{number}"
    if dialect.fixed_ids:
        is_sound = len(given) == dialect.longest_id and not dialect.other_in_ids.search(given)
        if is_sound and number == 1:
            return given
        # A digest has a fixed length, and stays distinct where truncated ids would be equal.
        return sha256(f"{number} {given}".encode(errors="replace")).hexdigest()[: dialect.longest_id]
    base = dialect.other_in_ids.sub("_", given).strip("_") or "call"
    if given and not dialect.other_in_ids.search(given):
        base = given
    end = "" if number == 1 and base != "call" else f"_{number}"
    return f"{base[: dialect.longest_id - len(end)]}{end}"


# --- the whole conversation ---


def _in_dialect(messages: Sequence[Message], dialect: Dialect) -> list[Message]:
    rules = [each.content.strip() for each in messages if each.role == "system"]
    system = as_text("\n\n".join(filter(None, rules)))
    shaped: list[Message] = []
    if system:
        shaped.append(Message(role="system", content=system))
    last: Message | None = None
    for each in messages:
        if each.role == "system":
            continue
        message = _dialect_message(each, dialect)
        if message is None:
            continue
        if last is None and message.role == "assistant":
            shaped.append(Message(role="user", content=OPENING))
        elif last is not None and last.role == message.role and message.role != "tool":
            # Calls need their results right behind them, and an origin goes back to the provider as it came.
            if message.role == "user" or not (last.tool_calls or last.origin or message.origin):
                message = _join_messages(last, message)
                shaped.pop()
            else:
                shaped.append(Message(role="user", content=GOES_ON))
        shaped.append(message)
        last = message
    if last is None:
        shaped.append(Message(role="user", content=NOTHING))
    elif dialect.trims_end and last.role == "assistant" and not last.tool_calls:
        shaped[-1] = replace(last, content=last.content.rstrip(), origin=None)
    return shaped


def _join_messages(first: Message, second: Message) -> Message:
    text = "\n\n".join(each.content for each in (first, second) if each.content.strip())
    return replace(second, content=text)


def _dialect_message(message: Message, dialect: Dialect) -> Message | None:
    """Return a message with what the dialect allows; None if nothing is left of it."""
    text = as_text(message.content)
    is_blank = not text.strip()
    if message.role == "tool":
        tool = _fitting_name(message.tool, dialect)
        return replace(message, content=NOTHING if is_blank else text, tool=tool)
    if message.role == "user":
        return replace(message, content=NOTHING if is_blank else text)
    if not message.tool_calls:
        return None if is_blank else replace(message, content=text)
    calls: list[NativeCall] = []
    for call in message.tool_calls:
        name = _fitting_name(call.name, dialect)
        calls.append(replace(call, name=name, arguments=_arguments_object(call.arguments)))
    return replace(message, content=text, tool_calls=tuple(calls))


def _fitting_name(given: str, dialect: Dialect) -> str:
    name = dialect.other_in_names.sub("_", given)[: dialect.longest_name]
    if not name.strip("_-"):
        return _UNNAMED
    if name[0].isalpha() or name[0] == "_":
        return name
    return f"_{name}"[: dialect.longest_name]


def _arguments_object(arguments: Mapping[str, Any] | str) -> dict[str, Any]:
    if not arguments:
        return {}
    value: object = arguments
    if isinstance(arguments, str) and arguments.strip():
        value = parse_whole(arguments)
    if is_object(value):
        return storable(value)
    return {UNREADABLE: cut(as_text(arguments), _LONGEST_UNREADABLE)}
