"""What the vendors' answers look like on the wire."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jazz_select.errors import ModelError
from jazz_select.testing import PROVIDER_CASES, ProviderCase

SERVED = "served-1"
Call = tuple[str, str, str]
"""Id, name, and arguments as JSON text."""
INPUT_TOKENS, OUTPUT_TOKENS = 11, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """One protocol: where it is served, which model string leads there, and how it words things."""

    name: str
    path: str
    model: str
    """A model that takes a schema."""
    answer: Callable[[str, str, int], dict[str, Any]]
    """Of text, finish reason and cached tokens."""
    failure: Callable[[str, str], dict[str, Any]]
    """Of code and message."""
    empty: dict[str, Any]
    """A well-formed answer that holds none."""
    schema: Callable[[Mapping[str, Any]], Any]
    """The JSON schema that a request carries; None where it carries none."""
    calling: Callable[[str, Sequence[Call]], dict[str, Any]]
    """An answer of a text, empty for none, and calls."""
    tools: Callable[[Mapping[str, Any]], list[dict[str, Any]]]
    """The tools that a request carries, each with its name."""
    opaque: str = "opaque"
    """What stands in the parts of a calling answer that the provider wants back."""
    heard: Callable[[Mapping[str, Any]], list[tuple[str, str]]]
    """What a request tells of calls: the id, or the name where there are no ids, and what came of it."""
    environment: dict[str, str] = field(default_factory=dict[str, str])
    """What sends the vendor's client there; `{root}` is the server's."""
    special: tuple[ProviderCase, ...] = ()
    """What only this provider does."""

    @property
    def cases(self) -> tuple[ProviderCase, ...]:
        """All that may happen with this protocol."""
        return (*PROVIDER_CASES, *self.special)

    def __str__(self) -> str:
        return self.name


def _chat(text: str, finish_reason: str, cached: int) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": SERVED,
        "choices": [{"index": 0, "finish_reason": finish_reason, "message": {"role": "assistant", "content": text}}],
        "usage": {
            "prompt_tokens": INPUT_TOKENS,
            "completion_tokens": OUTPUT_TOKENS,
            "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
            "prompt_tokens_details": {"cached_tokens": cached},
        },
    }


def _responses(text: str, finish_reason: str, cached: int) -> dict[str, Any]:
    said: dict[str, Any] = {"type": "output_text", "text": text, "annotations": []}
    whole = finish_reason == "stop"
    why = {"length": "max_output_tokens"}.get(finish_reason, finish_reason)
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "completed" if whole else "incomplete",
        "incomplete_details": None if whole else {"reason": why},
        "model": SERVED,
        "output": [{"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [said]}],
        "usage": {
            "input_tokens": INPUT_TOKENS,
            "input_tokens_details": {"cached_tokens": cached},
            "output_tokens": OUTPUT_TOKENS,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
        },
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def _messages(text: str, finish_reason: str, cached: int) -> dict[str, Any]:
    """Anthropic counts what it read from its cache beside the other input tokens."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": SERVED,
        "content": [{"type": "text", "text": text}],
        "stop_reason": {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}[finish_reason],
        "stop_sequence": None,
        "usage": {
            "input_tokens": INPUT_TOKENS - cached,
            "cache_read_input_tokens": cached,
            "cache_creation_input_tokens": 0,
            "output_tokens": OUTPUT_TOKENS,
        },
    }


def _openai_failure(code: str, message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "error", "param": None, "code": code or None}}


def _anthropic_failure(code: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": code or "api_error", "message": message}}


def _schema_in(request: Mapping[str, Any], *keys: str) -> Any:
    found: Any = request
    for key in keys:
        found = found[key] if found and key in found else None
    return found


def _case(name: str, status: int, code: str, *, retryable: bool) -> ProviderCase:
    return ProviderCase(name=name, status=status, code=code, error=ModelError, retryable=retryable)


_FILTERED = ProviderCase(name="stopped by a filter", text="I can", finish_reason="content_filter")
_OPENAI_CASES = (
    _FILTERED,
    _case("rate limit", 429, "rate_limit_exceeded", retryable=True),
    _case("quota used up", 429, "insufficient_quota", retryable=False),
    _case("no such model", 404, "model_not_found", retryable=False),
    _case("prompt too long", 400, "context_length_exceeded", retryable=False),
)
_OPENAI = {"OPENAI_BASE_URL": "{root}/v1", "OPENAI_API_KEY": "a-key", "NO_PROXY": "127.0.0.1"}


def _chat_calling(text: str, calls: Sequence[Call]) -> dict[str, Any]:
    answer = _chat(text, "tool_calls", 0)
    answer["choices"][0]["message"] = {
        "role": "assistant",
        "content": text or None,
        "tool_calls": [
            {"id": own, "type": "function", "function": {"name": name, "arguments": arguments}}
            for own, name, arguments in calls
        ],
    }
    return answer


def _responses_calling(text: str, calls: Sequence[Call]) -> dict[str, Any]:
    answer = _responses(text, "stop", 0)
    reasoned: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "opaque"}
    called = [
        {"type": "function_call", "id": f"f{own}", "call_id": own, "name": name, "arguments": arguments}
        for own, name, arguments in calls
    ]
    return {**answer, "output": [reasoned, *(answer["output"] if text else []), *called]}


def _messages_calling(text: str, calls: Sequence[Call]) -> dict[str, Any]:
    said = [{"type": "text", "text": text}] if text else []
    thought = {"type": "thinking", "thinking": "hm", "signature": "opaque"}
    called = [
        {"type": "tool_use", "id": own, "name": name, "input": json.loads(arguments)} for own, name, arguments in calls
    ]
    return {**_messages("", "stop", 0), "content": [thought, *said, *called], "stop_reason": "tool_use"}


def _generated(text: str, finish_reason: str, cached: int) -> dict[str, Any]:
    ended = {"stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}[finish_reason]
    return {
        "candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": ended, "index": 0}],
        "usageMetadata": {
            "promptTokenCount": INPUT_TOKENS,
            "candidatesTokenCount": OUTPUT_TOKENS,
            "totalTokenCount": INPUT_TOKENS + OUTPUT_TOKENS,
            "cachedContentTokenCount": cached,
        },
        "modelVersion": SERVED,
    }


def _generated_calling(text: str, calls: Sequence[Call]) -> dict[str, Any]:
    answer = _generated(text, "stop", 0)
    called = [
        {"functionCall": {"id": own, "name": name, "args": json.loads(arguments)}, "thoughtSignature": "b3BhcXVl"}
        for own, name, arguments in calls
    ]
    answer["candidates"][0]["content"]["parts"] = [*([{"text": text}] if text else []), *called]
    return answer


def _google_failure(code: str, message: str) -> dict[str, Any]:
    return {"error": {"code": 400, "message": message, "status": code or "INVALID_ARGUMENT"}}


CHAT = Protocol(
    name="OpenAI chat completions",
    path="/v1/chat/completions",
    model="openai-chat:gpt-4o-mini",
    answer=_chat,
    failure=_openai_failure,
    empty={**_chat("", "stop", 0), "choices": []},
    schema=lambda request: _schema_in(request, "response_format", "json_schema", "schema"),
    calling=_chat_calling,
    tools=lambda request: [each["function"] for each in request.get("tools", ())],
    heard=lambda request: [
        (each["tool_call_id"], each["content"]) for each in request["messages"] if each["role"] == "tool"
    ],
    environment=_OPENAI,
    special=_OPENAI_CASES,
)
RESPONSES = Protocol(
    name="OpenAI responses",
    path="/v1/responses",
    model="openai:gpt-5-mini",
    answer=_responses,
    failure=_openai_failure,
    empty={**_responses("", "stop", 0), "output": []},
    schema=lambda request: _schema_in(request, "text", "format", "schema"),
    calling=_responses_calling,
    tools=lambda request: list(request.get("tools", ())),
    heard=lambda request: [
        (each["call_id"], each["output"]) for each in request["input"] if each.get("type") == "function_call_output"
    ],
    environment=_OPENAI,
    special=_OPENAI_CASES,
)
MESSAGES = Protocol(
    name="Anthropic messages",
    path="/v1/messages",
    model="anthropic:claude-haiku-4-5",
    answer=_messages,
    failure=_anthropic_failure,
    empty={**_messages("", "stop", 0), "content": []},
    schema=lambda request: _schema_in(request, "output_config", "format", "schema"),
    calling=_messages_calling,
    tools=lambda request: list(request.get("tools", ())),
    heard=lambda request: [
        (part["tool_use_id"], part["content"] if isinstance(part["content"], str) else part["content"][0]["text"])
        for each in request["messages"]
        for part in (each["content"] if isinstance(each["content"], list) else ())
        if part["type"] == "tool_result"
    ],
    environment={"ANTHROPIC_BASE_URL": "{root}", "ANTHROPIC_API_KEY": "a-key", "NO_PROXY": "127.0.0.1"},
    special=(
        _FILTERED,
        _case("rate limit", 429, "rate_limit_error", retryable=True),
        _case("overloaded", 529, "overloaded_error", retryable=True),
        _case("no credit left", 403, "billing_error", retryable=False),
    ),
)
GENERATE = Protocol(
    name="Google generate content",
    path="/v1beta/models/gemini-2.5-flash:generateContent",
    model="google:gemini-2.5-flash",
    answer=_generated,
    failure=_google_failure,
    empty={**_generated("", "stop", 0), "candidates": []},
    schema=lambda request: _schema_in(request, "generationConfig", "responseJsonSchema"),
    calling=_generated_calling,
    opaque="b3BhcXVl",
    tools=lambda request: [each for tool in request.get("tools", ()) for each in tool["functionDeclarations"]],
    heard=lambda request: [
        (part["functionResponse"]["id"], str(part["functionResponse"]["response"]))
        for each in request["contents"]
        for part in each["parts"]
        if "functionResponse" in part
    ],
    environment={"GOOGLE_GEMINI_BASE_URL": "{root}", "GOOGLE_API_KEY": "a-key", "NO_PROXY": "127.0.0.1"},
)
PROTOCOLS = (CHAT, RESPONSES, MESSAGES)
CALLING = (*PROTOCOLS, GENERATE)
"""Those that call tools."""
