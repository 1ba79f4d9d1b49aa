"""What a service costs beside the same selector in process: `python -m benchmarks.serving`. Needs no data."""

import asyncio
import multiprocessing
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated, Any

import orjson
import typer
import yaml
from rich.console import Console

from benchmarks import machine, rows
from benchmarks.metrics import percentile
from benchmarks.options import Unclean, opened_book
from jazz_select import FlowSelector, ProceduralMemory
from jazz_select.build import load_registry, open_selector, sync_registry
from jazz_select.client import RemoteSelector
from jazz_select.errors import JazzSelectError
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.settings import Settings

KEY = ("question",)
ROOT = Path(__file__).parents[1]
REQUESTS: list[str] = [
    each["request"] for each in yaml.safe_load((ROOT / "examples" / "eval.yaml").read_text(encoding="utf-8"))
]
AGENT = "support"
EMBEDDER = "static"
ONE_BY_ONE = 2_000
TOGETHER = 20_000
CLIENTS = 64
WORKERS, EACH = 4, 25
STEADY = 50_000
_HEAD = b"POST /v1/select HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


class Service:
    """A `jazz-select serve` in a process of its own."""

    def __init__(self, index: Path, uds: Path | None = None) -> None:
        where = ["--port", "0"] if uds is None else ["--config", f"uds={uds}"]
        files = ["--flows", "flows", "--index", str(index), "--agent-id", AGENT]
        settings = (f"embedder={EMBEDDER}", "access_log=false", "reload=false", "on_empty=none")
        parts = [part for each in settings for part in ("--config", each)]
        program = [sys.executable, "-c", "from jazz_select.cli import app; app()"]
        command = [*program, "serve", *files, *where, *parts]
        self.began = perf_counter()
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)  # noqa: S603
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        self.address = self._process.stdout.readline().strip()
        self.up_s = perf_counter() - self.began
        if not self.address:
            msg = "the service did not start; it says why above"
            raise SystemExit(msg)
        self.port = 0 if uds else int(self.address.rpartition(":")[2])

    @property
    def rss_mb(self) -> float:
        """What it holds of memory now."""
        return machine.resident_mb(self._process.pid)

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Have it stop, and wait for that."""
        self._process.send_signal(how)
        self._process.wait(30)
        assert self._process.stdout is not None  # noqa: S101
        self._process.stdout.close()


class Raw:
    """The least that a client can be: one connection that stays open, over asyncio's own streams."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def to(cls, port: int = 0, uds: Path | None = None) -> "Raw":
        """Connect."""
        opened = asyncio.open_connection("127.0.0.1", port) if uds is None else asyncio.open_unix_connection(uds)
        return cls(*await opened)

    async def select(self, request: str) -> bytes:
        """The answer's body; raises where it is no success."""
        body = orjson.dumps({"request": request})
        self._writer.write(_HEAD % len(body) + body)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        content = await self._reader.readexactly(length)
        if not head.startswith(b"HTTP/1.1 200"):
            raise ConnectionError(head[:80], content[:200])
        return content

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


@asynccontextmanager
async def in_process(index: Path) -> AsyncGenerator[FlowSelector]:
    """The same selector in this process, on an index of its own."""
    registry = load_registry(ROOT / "flows")
    async with await ProceduralMemory.open(index, embedder=EMBEDDER) as memory:
        await sync_registry(memory, AGENT, registry)
        async with open_selector(Settings(agent_id=AGENT, on_empty="none", llm=None), memory, registry) as selector:
            yield selector


async def one_by_one(select: Callable[[str], Awaitable[object]], count: int) -> dict[str, Any]:
    """How long each takes where nobody else asks."""
    for request in REQUESTS:
        await select(request)
    seconds: list[float] = []
    for number in range(count):
        began = perf_counter()
        await select(REQUESTS[number % len(REQUESTS)])
        seconds.append(perf_counter() - began)
    return {"selects": count, "ms": rows.rounded({f"p{p}": 1e3 * percentile(seconds, p / 100) for p in (50, 99)}, 3)}


async def together(port: int, count: int, clients: int = CLIENTS) -> dict[str, Any]:
    """How many a second, where so many clients ask as fast as they are answered."""
    left = iter(range(count))
    seconds: list[float] = []
    errors: Counter[str] = Counter()

    async def client() -> None:
        raw = await Raw.to(port)
        for number in left:
            began = perf_counter()
            try:
                await raw.select(REQUESTS[number % len(REQUESTS)])
            except (OSError, asyncio.IncompleteReadError) as error:
                errors[type(error).__name__] += 1
                raw = await Raw.to(port)
            seconds.append(perf_counter() - began)
        raw.close()

    began = perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    took = perf_counter() - began
    times = rows.rounded({f"p{p}": 1e3 * percentile(seconds, p / 100) for p in (50, 99)}, 1)
    return {"selects": count, "clients": clients, "per_s": round(count / took), "errors": errors.total(), "ms": times}


def told(result: FlowSelectionResult) -> str:
    """What a result says, without what differs from call to call."""
    found = [(each["flow_name"], each["confidence"]) for each in result.candidates]
    return orjson.dumps([result.names, found, result.combined_prompt]).decode()


def worker(port: int, clients: int) -> tuple[list[str], int]:
    """What one web worker is: a process whose clients ask everything, each in another order; answers and errors."""

    async def run() -> tuple[list[str], int]:
        selector = RemoteSelector(f"http://127.0.0.1:{port}")
        answers: set[tuple[int, str]] = set()
        errors = 0

        async def client(first: int) -> None:
            nonlocal errors
            for step in range(len(REQUESTS)):
                number = (first + step) % len(REQUESTS)
                try:
                    answers.add((number, told(await selector.select(REQUESTS[number]))))
                except JazzSelectError:
                    errors += 1

        await asyncio.gather(*(client(7 * each) for each in range(clients)))
        await selector.aclose()
        return [orjson.dumps(each).decode() for each in sorted(answers)], errors

    return asyncio.run(run())


async def workers(port: int, expected: Sequence[str]) -> dict[str, Any]:
    """Several processes with many clients each: how fast, and how many answers differ from those in process."""
    loop = asyncio.get_running_loop()
    began = perf_counter()
    with ProcessPoolExecutor(WORKERS, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = await asyncio.gather(*(loop.run_in_executor(pool, worker, port, EACH) for _ in range(WORKERS)))
    took = perf_counter() - began
    wanted = {orjson.dumps((number, each)).decode() for number, each in enumerate(expected)}
    count = WORKERS * EACH * len(REQUESTS)
    return {
        "selects": count,
        "processes": WORKERS,
        "clients": EACH,
        "per_s": round(count / took),
        "errors": sum(errors for _, errors in found),
        "different": sum(len(set(answers) - wanted) for answers, _ in found),
    }


async def killed(index: Path) -> dict[str, Any]:
    """`kill -9` under load: what clients get, and how long until the next one answers."""
    service = Service(index)
    errors: Counter[str] = Counter()

    async def client() -> None:
        selector = RemoteSelector(service.address, max_retries=0)
        try:
            for number in range(10_000):
                await selector.select(REQUESTS[number % len(REQUESTS)])
        except JazzSelectError as error:
            errors[type(error).__name__] += 1
        except Exception as error:  # noqa: BLE001 - what is no error of ours is what is looked for
            errors[f"untyped {type(error).__name__}"] += 1
        finally:
            await selector.aclose()

    clients = [asyncio.create_task(client()) for _ in range(16)]
    await asyncio.sleep(1)
    await asyncio.to_thread(service.end, signal.SIGKILL)
    await asyncio.gather(*clients)
    again = await asyncio.to_thread(Service, index)
    raw = await Raw.to(again.port)
    answer = orjson.loads(await raw.select(REQUESTS[0]))
    served_s = perf_counter() - again.began
    raw.close()
    await asyncio.to_thread(again.end)
    return {"clients": 16, "told": dict(errors), "restart_s": round(served_s, 2), "answers": bool(answer)}


async def measured(folder: Path, share: float = 1.0) -> list[rows.Row]:
    """All rows, one after the other; a share of the requests for a quick look."""

    def part(count: int) -> int:
        return max(round(count * share), 64)

    async with in_process(folder / "own") as selector:
        found: list[rows.Row] = [{"question": "in process", **await one_by_one(selector.select, part(ONE_BY_ONE))}]
        expected = [told(await selector.select(each)) for each in REQUESTS]
    index = folder / "served"
    await asyncio.to_thread(copytree, folder / "own", index)  # fitted once, so to the last digit alike
    service = await asyncio.to_thread(Service, index)
    try:
        raw = await Raw.to(service.port)
        found.append({"question": "over HTTP", **await one_by_one(raw.select, part(ONE_BY_ONE))})
        raw.close()
        remote = RemoteSelector(service.address)
        found.append({"question": "by the client", **await one_by_one(remote.select, part(ONE_BY_ONE))})
        await remote.aclose()
        found.append({"question": "many clients", **await together(service.port, part(TOGETHER))})
        found.append({"question": "many workers", **await workers(service.port, expected)})
        before = service.rss_mb
        steady = await together(service.port, part(STEADY))
        memory = {"rss_before_mb": round(before, 1), "rss_after_mb": round(service.rss_mb, 1)}
        found.append({"question": "for long", **steady, **memory})
    finally:
        await asyncio.to_thread(service.end)
    uds = folder / "serve.sock"
    service = await asyncio.to_thread(Service, index, uds)
    try:
        raw = await Raw.to(uds=uds)
        found.append({"question": "over a Unix socket", **await one_by_one(raw.select, part(ONE_BY_ONE))})
        raw.close()
    finally:
        await asyncio.to_thread(service.end)
    found.append({"question": "killed", **await killed(index)})
    return found


def main(
    *,
    share: Annotated[float, typer.Option(help="Of the requests, for a quick look with --unclean.")] = 1.0,
    unclean: Unclean = False,
) -> None:
    """Measure a selector in process and served, side by side, and store the rows."""
    console, book = Console(), opened_book("serving", KEY, look=unclean or share != 1.0)
    with TemporaryDirectory() as folder:
        found = asyncio.run(measured(Path(folder), share))
    book.store(*found)
    for row in found:
        console.print(row)


if __name__ == "__main__":
    typer.run(main)
