"""A provider on this machine that speaks OpenAI's chat completions, and fails as it is told to."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "gpt-4o-mini"
HANG_UP = -1


def completion(text: str | None, *, usage: bool = True) -> dict[str, Any]:
    body: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": f"{MODEL}-2024-07-18",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
    }
    if usage:
        body["usage"] = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}
    return body


def responses_api(text: str) -> dict[str, Any]:
    said: dict[str, Any] = {"type": "output_text", "text": text, "annotations": []}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "completed",
        "model": MODEL,
        "output": [{"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [said]}],
        "usage": {
            "input_tokens": 11,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 3,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 14,
        },
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def messages_api(text: str) -> bytes:
    """Anthropic's, as server-sent events, since pydantic-ai streams it behind a plain call too."""
    usage = {"input_tokens": 11, "output_tokens": 3}
    message: dict[str, Any] = {"id": "m", "type": "message", "role": "assistant", "model": MODEL, "content": []}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "usage": usage, "stop_reason": None, "stop_sequence": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]
    return b"".join(b"event: %s\ndata: %s\n\n" % (e["type"].encode(), json.dumps(e).encode()) for e in events)


def failure(message: str, *, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "error", "param": None, "code": code}}


@dataclass
class Provider:
    """Set `status` and `body` to what the next requests get; `requests` are those that came."""

    status: int = 200
    body: object = field(default_factory=lambda: completion("pong"))
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    url: str = ""
    silent: threading.Event | None = None
    """Set: requests wait for this event before they are answered."""
    arrived: threading.Event = field(default_factory=threading.Event)


@contextmanager
def serving() -> Generator[Provider]:
    provider = Provider()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            provider.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            provider.arrived.set()
            if provider.silent is not None:
                provider.silent.wait(10)
            if provider.status == HANG_UP:
                self.close_connection = True
                return
            raw = json.dumps(provider.body).encode() if not isinstance(provider.body, bytes) else provider.body
            try:
                self.send_response(provider.status)
                events = raw.startswith(b"event:")
                self.send_header("Content-Type", "text/event-stream" if events else "application/json")
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)
            except ConnectionError:  # the caller gave up waiting
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the base's name)
            """Keep the test output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    provider.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield provider
    finally:
        if provider.silent is not None:
            provider.silent.set()
        server.shutdown()
        server.server_close()
        thread.join()
