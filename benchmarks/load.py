"""What the second stage costs, alone and under load: `python -m benchmarks.load`. Needs no data."""

import asyncio
import json
import resource
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import typer
from rich.console import Console

from benchmarks import rows
from benchmarks.loopback_model import LATENCY_S, REPLY
from benchmarks.metrics import percentile
from benchmarks.options import Unclean, opened_book
from jazz_select import FlowRegistry, FlowSelector
from jazz_select.build import load_registry
from jazz_select.chat.pydantic_ai_model import PydanticAIModel
from jazz_select.ports import ChatModel
from jazz_select.selector.selector_options import ModelOptions
from jazz_select.testing import ScriptedModel
from jazz_select.values import Candidate, Message, Reason, Reply

KEY = ("question", "client", "in_flight")
FLOWS = Path(__file__).parents[1] / "flows"
SELECTS = 1_000
TOP_K = 3
LIMITS = (16, 32, 64)
_ALONE = 2_000
_STEP = 16


class RawModel:
    """The least that a client can be: requests on connections that stay open, over asyncio's own streams."""

    name = "raw"

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def complete(self, messages: Sequence[Message]) -> Reply:
        """One request."""
        body = json.dumps({"model": "loopback", "messages": [vars_of(message) for message in messages]}).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        reader, writer = self._idle.pop() if self._idle else await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        content = json.loads(await reader.readexactly(length))
        self._idle.append((reader, writer))
        return Reply(text=content["choices"][0]["message"]["content"])

    async def warm(self, connections: int) -> None:
        """Open so many connections one by one: all at once, a listener's queue may drop some without a word."""
        self._idle += [await asyncio.open_connection("127.0.0.1", self._port) for _ in range(connections)]

    async def aclose(self) -> None:
        """Close the connections."""
        for _, writer in self._idle:
            writer.close()


class Watched:
    """A model whose calls are timed and counted."""

    def __init__(self, inner: ChatModel) -> None:
        self._inner = inner
        self.seconds: list[float] = []
        self.now = self.most = 0

    async def complete(self, messages: Sequence[Message]) -> Reply:
        """Ask the model inside."""
        self.now += 1
        self.most = max(self.most, self.now)
        start = perf_counter()
        try:
            return await self._inner.complete(messages)
        finally:
            self.seconds.append(perf_counter() - start)
            self.now -= 1


def vars_of(message: Message) -> dict[str, str]:
    """A message as the protocol has it."""
    return {"role": message.role, "content": message.content}


@asynccontextmanager
async def loopback() -> AsyncGenerator[int]:
    """The port of a model in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.loopback_model"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603, ASYNC220
        assert server.stdout is not None  # noqa: S101 - it is a pipe
        assert server.stdin is not None  # noqa: S101
        try:
            yield int(server.stdout.readline())
        finally:
            server.stdin.close()


def offered(registry: FlowRegistry, number: int) -> list[dict[str, Any]]:
    """Candidates for a request, as recall would give them: other ones for each."""
    flows = list(registry.values())
    chosen = [flows[(number * TOP_K + place) % len(flows)].card() for place in range(TOP_K)]
    return [
        Candidate(
            flow_id=card.id,
            flow_name=card.name,
            description=card.description,
            condition=card.condition,
            desired_effects=card.desired_effects,
        ).as_metadata()
        for card in chosen
    ]


async def under_load(model: Any, registry: FlowRegistry, limit: int) -> dict[str, Any]:
    """A thousand selections at once."""
    watched = Watched(model)
    selector = FlowSelector(watched, registry, model_options=ModelOptions(max_concurrency=limit), timeout_s=60)
    requests = [(f"request {number}", offered(registry, number)) for number in range(SELECTS)]
    for start in range(0, limit, _STEP):  # opens the connections, and not all at once
        await asyncio.gather(*(selector.select(*each) for each in requests[: start + _STEP]))
    watched.seconds.clear()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds: list[float] = []

    async def one(text: str, candidates: list[dict[str, Any]]) -> bool:
        start = perf_counter()
        result = await selector.select(text, candidates)
        seconds.append(perf_counter() - start)
        return result.decision.reason is Reason.LLM

    start = perf_counter()
    fine = await asyncio.gather(*(one(*each) for each in requests))
    took = perf_counter() - start
    return {
        "in_flight": watched.most,
        "per_s": round(SELECTS / took),
        "errors": SELECTS - sum(fine),
        "call_ms": rows.rounded({f"p{p}": 1e3 * percentile(watched.seconds, p / 100) for p in (50, 99)}, 1),
        "select_ms": rows.rounded({f"p{p}": 1e3 * percentile(seconds, p / 100) for p in (50, 99)}, 1),
        "memory_mb": round((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, 1),
    }


async def alone(registry: FlowRegistry) -> dict[str, Any]:
    """The stage without a network: candidates in, prompt, a reply that is there at once, result out."""
    selector = FlowSelector(ScriptedModel(REPLY, repeat=True), registry)
    requests = [(f"request {number}", offered(registry, number)) for number in range(_ALONE)]
    seconds: list[float] = []
    for text, candidates in requests:
        start = perf_counter()
        await selector.select(text, candidates)
        seconds.append(perf_counter() - start)
    return {
        "in_flight": 1,
        "select_ms": rows.rounded({f"p{p}": 1e3 * percentile(seconds, p / 100) for p in (50, 99)}, 3),
    }


async def measured() -> list[rows.Row]:
    """All rows."""
    registry = load_registry(FLOWS)
    found: list[rows.Row] = [{"question": "alone", "client": "none", **await alone(registry)}]
    async with loopback() as port:
        for limit in LIMITS:
            raw = RawModel(port)
            await raw.warm(limit)
            found.append({"question": "load", "client": "bare sockets", **await under_load(raw, registry, limit)})
            await raw.aclose()
            sdk = _sdk(port)
            found.append({"question": "load", "client": "OpenAI's SDK", **await under_load(sdk, registry, limit)})
    return found


def _sdk(port: int) -> PydanticAIModel:
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    client = AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0)
    return PydanticAIModel(OpenAIChatModel("loopback", provider=OpenAIProvider(openai_client=client)))


def main(*, unclean: Unclean = False) -> None:
    """Measure the stage alone, then a thousand selections at once, and store the rows."""
    console, book = Console(), opened_book("load", KEY, look=unclean)
    found = asyncio.run(measured())
    book.store(*({**row, "latency_ms": 1e3 * LATENCY_S, "selects": SELECTS} for row in found))
    for row in found:
        console.print(row)


if __name__ == "__main__":
    typer.run(main)
