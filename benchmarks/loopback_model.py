"""A model on loopback that speaks OpenAI's chat completions: `python -m benchmarks.loopback_model`.

Prints its port, then answers until its input ends, each time after the same while. It is a process
of its own, so that its work is not the client's.
"""

import asyncio
import json
import sys

LATENCY_S = 0.05
REPLY = "[1]"


def _answer(model: str) -> bytes:
    body = json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": model,
            "choices": [{"index": 0, "message": {"role": "assistant", "content": REPLY}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
    ).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


_ANSWER = _answer("loopback")


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection, request after request."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
            await reader.readexactly(length)
            await asyncio.sleep(LATENCY_S)
            writer.write(_ANSWER)
            await writer.drain()
    except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
        writer.close()


async def main() -> None:
    """Serve until the input ends."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=4_096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
