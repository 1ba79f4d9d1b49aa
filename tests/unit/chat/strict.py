"""What the providers refuse of a conversation, and replies with calls as they write them, whole or streamed."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tests.unit.chat.protocols import CHAT, GENERATE, MESSAGES, RESPONSES, Call, Protocol

Asked = Mapping[str, Any]
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_GOOGLE_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")


def _first(problems: Iterator[str]) -> str:
    return next(problems, "")


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _chat(asked: Asked) -> Iterator[str]:
    """A server with a strict template: roles alternate, and the system's text comes first and once."""
    yield from _chat_order(asked["messages"])
    seen: set[str] = set()
    for each in asked["messages"]:
        calls = each.get("tool_calls") or ()
        if not calls and not (each.get("content") or "").strip():
            yield f"Invalid value for 'content' of {each['role']}: expected a string with text"
        for call in calls:
            if call["id"] in seen or not 0 < len(call["id"]) <= 40:
                yield f"Invalid 'tool_calls[].id': {call['id']}"
            if not _NAME.fullmatch(call["function"]["name"]) or not _is_object(call["function"]["arguments"]):
                yield f"Invalid 'tool_calls[].function': {call['function']}"
            seen.add(call["id"])


def _chat_order(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    waiting: list[str] = []
    last = ""
    for number, each in enumerate(messages):
        role = each["role"]
        if role == "system" and number:
            yield "System message must be at the beginning"
        if role == "tool" and each["tool_call_id"] not in waiting:
            yield "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
        if role != "tool" and waiting:
            yield f"tool_call_ids did not have response messages: {waiting}"
        if role == last != "tool" or (role == "assistant" and last in {"", "system"}):
            yield "Conversation roles must alternate user/assistant/user/assistant/..."
        waiting = [own for own in waiting if own != each.get("tool_call_id")]
        waiting += [call["id"] for call in each.get("tool_calls") or ()]
        last = role
    if waiting:
        yield f"tool_call_ids did not have response messages: {waiting}"


def _responses(asked: Asked) -> Iterator[str]:
    calls: list[str] = []
    results: list[str] = []
    for each in asked["input"]:
        if each.get("type") == "function_call":
            if each["call_id"] in calls or not _ID.fullmatch(each["call_id"]) or len(each["call_id"]) > 64:
                yield f"Invalid 'input[].call_id': {each['call_id']}"
            if not _NAME.fullmatch(each["name"]):
                yield f"Invalid 'input[].name': {each['name']}"
            calls.append(each["call_id"])
        elif each.get("type") == "function_call_output":
            results.append(each["call_id"])
        elif not each.get("content") and "role" in each:
            yield "Invalid 'input[].content': empty"
    if sorted(calls) != sorted(results):
        yield f"No tool output found for function call: {calls} {results}"


def _messages(asked: Asked) -> Iterator[str]:
    if asked["messages"][0]["role"] != "user":
        yield 'messages: first message must use the "user" role'
    waiting: list[str] = []
    seen: list[str] = []
    for number, each in enumerate(asked["messages"]):
        parts = _parts(each)
        if not parts or any(part["type"] == "text" and not part["text"].strip() for part in parts):
            yield f"messages.{number}: text content blocks must contain non-whitespace text"
        results = [part["tool_use_id"] for part in parts if part["type"] == "tool_result"]
        if sorted(results) != sorted(waiting) or any(part["type"] != "tool_result" for part in parts[: len(results)]):
            yield f"messages.{number}: `tool_use` ids without `tool_result` blocks immediately after: {waiting}"
        uses = [part for part in parts if part["type"] == "tool_use"]
        waiting = [part["id"] for part in uses]
        seen += waiting
        for part in uses:
            if (
                not _ID.fullmatch(part["id"])
                or not _NAME.fullmatch(part["name"])
                or not isinstance(part["input"], dict)
            ):
                yield f"messages.{number}.tool_use: String should match pattern: {part}"
    if waiting or len(set(seen)) < len(seen):
        yield f"`tool_use` ids must be unique, and have `tool_result` blocks: {seen}"
    last = asked["messages"][-1]
    text = _parts(last)[-1].get("text", "")
    if last["role"] == "assistant" and text != text.rstrip():
        yield "messages: final assistant content cannot end with trailing whitespace"


def _parts(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _generated(asked: Asked) -> Iterator[str]:
    last: Sequence[Mapping[str, Any]] = ()
    for number, each in enumerate(asked["contents"]):
        parts = each["parts"]
        if not number and each["role"] != "user":
            yield "Please ensure that the first turn is of the user"
        if not parts or any("text" in part and not part["text"].strip() for part in parts):
            yield f"contents[{number}].parts: must not be empty"
        calls = [part["functionCall"] for part in last if "functionCall" in part]
        results = [part["functionResponse"] for part in parts if "functionResponse" in part]
        if [call["name"] for call in calls] != [result["name"] for result in results]:
            yield "the number of function response parts must equal that of the call parts before"
        for part in parts:
            if "functionCall" in part and not _GOOGLE_NAME.fullmatch(part["functionCall"]["name"]):
                yield f"Invalid function name: {part['functionCall']['name']}"
        last = parts
    if any("functionCall" in part for part in last):
        yield "a function call turn has to be followed by its responses"


_REFUSALS: Mapping[str, Callable[[Asked], Iterator[str]]] = {
    CHAT.name: _chat,
    RESPONSES.name: _responses,
    MESSAGES.name: _messages,
    GENERATE.name: _generated,
}


def refusal_of(protocol: Protocol) -> Callable[[Asked], str]:
    """Why this provider refuses a request; empty if it does not."""
    return lambda asked: _first(_REFUSALS[protocol.name](asked))


# --- replies ---


def _arguments(text: str) -> Any:
    """What a provider makes of arguments that it sends as an object."""
    return json.loads(text) if _is_object(text) else {}


def whole(protocol: Protocol, pieces: Sequence[str], calls: Sequence[Call]) -> dict[str, Any]:
    """A reply that is sent whole."""
    text = "".join(pieces)
    if not calls:
        return protocol.answer(text, "stop", 0)
    if protocol.name in {CHAT.name, RESPONSES.name}:
        return protocol.calling(text, calls)
    return protocol.calling(text, [(own, name, json.dumps(_arguments(given))) for own, name, given in calls])


def streamed(protocol: Protocol, pieces: Sequence[str], calls: Sequence[Call], *, ends: bool = True) -> bytes:
    """A reply that is sent while it is written, without its end if it is cut off."""
    events = _STREAMS[protocol.name](pieces, calls, ends)
    sent = b"".join(
        (f"event: {kind}\n" if kind else "").encode() + b"data: " + json.dumps(data).encode() + b"\n\n"
        for kind, data in events
    )
    return sent + (b"data: [DONE]\n\n" if protocol is CHAT else b"")


Events = Iterator[tuple[str, dict[str, Any]]]


def _chat_stream(pieces: Sequence[str], calls: Sequence[Call], ends: bool) -> Events:
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}

    def chunk(delta: dict[str, Any], reason: str | None = None) -> tuple[str, dict[str, Any]]:
        return "", {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    for piece in pieces:
        yield chunk({"role": "assistant", "content": piece})
    for index, (own, name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": ""}
        yield chunk({"tool_calls": [{"index": index, "id": own, "type": "function", "function": function}]})
        for part in _halves(arguments):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    if ends:
        yield chunk({}, "tool_calls" if calls else "stop")


def _responses_stream(pieces: Sequence[str], calls: Sequence[Call], ends: bool) -> Events:
    answer = whole(RESPONSES, pieces, calls)
    steps: list[dict[str, Any]] = [{"type": "response.created", "response": {**answer, "output": [], "usage": None}}]
    for index, given in enumerate(answer["output"]):
        item = {**given, "id": f"item_{index}"}
        place = {"item_id": item["id"], "output_index": index}
        empty: dict[str, Any] = {"message": {"content": []}, "function_call": {"arguments": ""}}
        begun: dict[str, Any] = {**item, **empty.get(item["type"], {})}
        steps.append({"type": "response.output_item.added", "output_index": index, "item": begun})
        if item["type"] == "message":
            part: dict[str, Any] = {"type": "output_text", "text": "", "annotations": []}
            steps.append({"type": "response.content_part.added", **place, "content_index": 0, "part": part})
            for piece in pieces:
                told: dict[str, Any] = {"content_index": 0, "delta": piece, "logprobs": []}
                steps.append({"type": "response.output_text.delta", **place, **told})
        elif item["type"] == "function_call":
            kind = "response.function_call_arguments.delta"
            steps += [{"type": kind, **place, "delta": half} for half in _halves(item["arguments"])]
        steps.append({"type": "response.output_item.done", "output_index": index, "item": item})
    if ends:
        steps.append({"type": "response.completed", "response": answer})
    for number, step in enumerate(steps):
        yield step["type"], {**step, "sequence_number": number}


def _messages_stream(pieces: Sequence[str], calls: Sequence[Call], ends: bool) -> Events:
    answer = whole(MESSAGES, pieces, calls)
    steps: list[dict[str, Any]] = [{"type": "message_start", "message": {**answer, "content": [], "stop_reason": None}}]
    given = iter(calls)
    for index, block in enumerate(answer["content"]):
        thought = {"thinking": "", "signature": ""}
        empty: dict[str, Any] = {"text": {"text": ""}, "thinking": thought, "tool_use": {"input": {}}}
        begun: dict[str, Any] = {**block, **empty[block["type"]]}
        steps.append({"type": "content_block_start", "index": index, "content_block": begun})
        deltas: list[dict[str, Any]] = [{"type": "text_delta", "text": piece} for piece in pieces]
        if block["type"] == "thinking":
            deltas = [{"type": "thinking_delta", "thinking": block["thinking"]}]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        elif block["type"] == "tool_use":
            halves = _halves(next(given)[2])
            deltas = [{"type": "input_json_delta", "partial_json": half} for half in halves]
        steps += [{"type": "content_block_delta", "index": index, "delta": each} for each in deltas]
        steps.append({"type": "content_block_stop", "index": index})
    if ends:
        ended = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
        steps.append({"type": "message_delta", "delta": ended, "usage": {"output_tokens": 3}})
        steps.append({"type": "message_stop"})
    for step in steps:
        yield step["type"], step


def _generated_stream(pieces: Sequence[str], calls: Sequence[Call], ends: bool) -> Events:
    (candidate,) = whole(GENERATE, pieces, calls)["candidates"]
    parts = [{"text": piece} for piece in pieces]
    parts += [part for part in candidate["content"]["parts"] if "functionCall" in part]
    for number, part in enumerate(parts, 1):
        reason = {"finishReason": "STOP"} if ends and number == len(parts) else {}
        yield "", {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0, **reason}]}


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


_STREAMS: Mapping[str, Callable[[Sequence[str], Sequence[Call], bool], Events]] = {
    CHAT.name: _chat_stream,
    RESPONSES.name: _responses_stream,
    MESSAGES.name: _messages_stream,
    GENERATE.name: _generated_stream,
}
