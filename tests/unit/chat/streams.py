"""Replies as providers send them while they are written: server-sent events, one protocol each."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.unit.chat.protocols import CHAT, GENERATE, MESSAGES, RESPONSES, Protocol

Sent = Iterator[tuple[str, Mapping[str, Any]]]


def _chat(text: str, whole: Mapping[str, Any]) -> Sent:
    head = {"id": whole["id"], "object": "chat.completion.chunk", "created": whole["created"], "model": whole["model"]}
    for piece in _halves(text):
        yield "", {**head, "choices": [{"index": 0, "delta": {"role": "assistant", "content": piece}}]}
    ended = whole["choices"][0]["finish_reason"]
    yield "", {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": ended}]}
    yield "", {**head, "choices": [], "usage": whole["usage"]}


def _responses(text: str, whole: Mapping[str, Any]) -> Sent:
    (item,) = whole["output"]
    begun: dict[str, Any] = {**item, "status": "in_progress", "content": []}
    place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    steps: list[tuple[str, dict[str, Any]]] = [
        ("response.created", {"response": {**whole, "status": "in_progress", "output": [], "usage": None}}),
        ("response.output_item.added", {"output_index": 0, "item": begun}),
        ("response.content_part.added", {**place, "part": {**item["content"][0], "text": ""}}),
        *(("response.output_text.delta", {**place, "delta": piece, "logprobs": []}) for piece in _halves(text)),
        ("response.output_text.done", {**place, "text": text, "logprobs": []}),
        ("response.output_item.done", {"output_index": 0, "item": item}),
        (f"response.{whole['status']}", {"response": whole}),
    ]
    for number, (kind, data) in enumerate(steps):
        yield kind, {"type": kind, "sequence_number": number, **data}


def _messages(text: str, whole: Mapping[str, Any]) -> Sent:
    begun: dict[str, Any] = {
        **whole,
        "content": [],
        "stop_reason": None,
        "usage": {**whole["usage"], "output_tokens": 1},
    }
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    steps: list[tuple[str, dict[str, Any]]] = [
        ("message_start", {"message": begun}),
        ("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
        *(
            ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": piece}})
            for piece in _halves(text)
        ),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": ended, "usage": {"output_tokens": whole["usage"]["output_tokens"]}}),
        ("message_stop", {}),
    ]
    for kind, data in steps:
        yield kind, {"type": kind, **data}


def _generated(text: str, whole: Mapping[str, Any]) -> Sent:
    (candidate,) = whole["candidates"]
    first, second = _halves(text)
    yield "", {**whole, "candidates": [{"content": {"role": "model", "parts": [{"text": first}]}, "index": 0}]}
    yield "", {**whole, "candidates": [{**candidate, "content": {"role": "model", "parts": [{"text": second}]}}]}


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


_WRITTEN: Mapping[str, Callable[[str, Mapping[str, Any]], Sent]] = {
    CHAT.name: _chat,
    RESPONSES.name: _responses,
    MESSAGES.name: _messages,
    GENERATE.name: _generated,
}


def written(protocol: Protocol, text: str, finish_reason: str, cached: int) -> Iterator[bytes]:
    """A reply event by event, the text in two pieces."""
    for kind, data in _WRITTEN[protocol.name](text, protocol.answer(text, finish_reason, cached)):
        yield (f"event: {kind}\n" if kind else "").encode() + b"data: " + json.dumps(data).encode() + b"\n\n"
    if protocol is CHAT:
        yield b"data: [DONE]\n\n"
