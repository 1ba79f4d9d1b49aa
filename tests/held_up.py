"""What would hold a service or a turn up: each attack once, what it cost everybody else, and whether that is too much.

`make serving` runs all of them, `python -m tests.held_up NAME …` some. Times depend on what else the machine does: a
bound on one is five times as wide, unless `--strict` says that the machine is quiet.
"""

import argparse
import asyncio
import os
import resource
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import cycle
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, median
from typing import Any, Final

import anyio
import httpx
import orjson

from jazz_select import Agent, FlowRegistry, FlowSelector, tool_from_function
from jazz_select.errors import JazzSelectError
from jazz_select.flow.base import Flow
from jazz_select.routing import Allow
from jazz_select.routing.tool_call import call_tool
from jazz_select.selector.policy import Policy
from jazz_select.service.agents import load_agents
from jazz_select.service.mcp.gateway import Upstream
from jazz_select.service.mcp.servers_file import ServerSpec
from jazz_select.settings import Settings
from jazz_select.testing import ListMemory
from tests.agents import make_agent
from tests.unit.cli.shop import INVOICE, REFUND, TRACK, write_flows
from tests.unit.service.processes import Process, running

KEY, OTHER = "the-key-of-the-shop", "the-key-of-the-office"
LARGEST_MB, LONGEST_HELD_S = 64, 0.05
_ASKED: Final = orjson.dumps({"request": "I want my money back"})
_SAID: Final = "I want my money back for the lamp of last week. "
_PATIENCE_S: Final = 20.0
_SIEGE_S: Final = 8.0
_PAUSE_S: Final = 0.005
_SETTLING_S: Final = 0.2
_LEAST_ASKED, _LEAST_BATCHES = 50, 12
_MOST_SLOWED: Final = 1 / 0.9 - 1
"""How much longer others may take beside a flood: they keep nine tenths of their rate."""
_ONE_PIECE_S: Final = 0.005
"""What one piece of work may take on the loop: less than this is not told apart from what the machine does besides."""
_TRIES: Final = 3
"""Times that waits of a few milliseconds are compared before they are called too long."""
_BUSY: Final = 5
"""How many times as long all may take on a machine that does other things, too: what holds others up takes longer."""


@dataclass
class Found:
    """What one attack came to: what is told of it, what is too much, and what is too much on a quiet machine."""

    measures: list[str] = field(default_factory=list[str])
    faults: list[str] = field(default_factory=list[str])

    slow: list[str] = field(default_factory=list[str])

    def measured(self, what: str, value: float, most: float, unit: str) -> None:
        """A figure, and the most that it may be."""
        self.measures.append(f"{what} {value:.3g} {unit}")
        if value > most:
            self.faults.append(f"{what}: {value:.3g} {unit}, and the bound is {most:.3g}")

    def timed(self, what: str, value: float, most: float, unit: str) -> None:
        """A figure of the clock, and the most that it may be on a quiet machine."""
        self.measured(what, value, most * _BUSY, unit)
        if value > most:
            self.slow.append(f"{what}: {value:.3g} {unit}, and a quiet machine needs {most:.3g} at most")


def prepared(folder: Path) -> list[str]:
    """Two agents, and the options that serve them."""
    write_flows(folder / "flows", REFUND, TRACK)
    write_flows(folder / "office", INVOICE)
    entry = "  {}: {{flows: {}, key_sha256: {}}}\n"
    agents = (("shop", "flows", KEY), ("office", "office", OTHER))
    told = (entry.format(name, where, sha256(key.encode()).hexdigest()) for name, where, key in agents)
    (folder / "agents.yaml").write_text("agents:\n" + "".join(told))
    return ["--port", "0", "--agents", str(folder / "agents.yaml"), "--config", "access_log=false"]


def memory_mb(up: Process) -> float:
    """What a process holds."""
    told = Path(f"/proc/{up.popen.pid}/status").read_text()
    return int(told.partition("VmRSS:")[2].split()[0]) / 1024


def own_peak_mb() -> float:
    """The most that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# --- clients -------------------------------------------------------------------------


@asynccontextmanager
async def client(root: str, key: str = "") -> AsyncGenerator[httpx.AsyncClient]:
    headers = {"content-type": "application/json", **({"authorization": f"Bearer {key}"} if key else {})}
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(base_url=root, headers=headers, timeout=_PATIENCE_S, limits=limits) as made:
        yield made


class Asker:
    """Who asks on one connection, a stranger without a key, with as little work of its own as can be."""

    def __init__(self, root: str, key: str, body: bytes, what: str = "POST /v1/select") -> None:
        self._port = int(root.rpartition(":")[2])
        head = f"{what} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        bearer = f"authorization: Bearer {key}\r\n" if key else ""
        self._sent = f"{head}{bearer}\r\n".encode() + body
        self._open: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self) -> int:
        """Ask once; the status of the answer."""
        reader, writer = self._open = self._open or await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(self._sent)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _PATIENCE_S)
        await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]))
        if b"connection: close" in head.lower():
            writer.close()
            self._open = None
        return int(head.split(b" ", 2)[1])

    def close(self) -> None:
        """Hang up."""
        if self._open is not None:
            self._open[1].close()


def besieged_now() -> bool:
    """Whether others do what they do: every other second, so that whatever else the machine does is in both."""
    return int(time.time()) % 2 == 0


async def held_s(root: str, attack: Callable[[httpx.AsyncClient], Awaitable[object]], times: int = 5) -> float:
    """How long nobody else is answered while an attack is made: the median of the worst waits of so many times."""
    worst: list[float] = []

    async def wait() -> None:
        async with client(root) as stranger:
            while True:
                began = time.perf_counter()
                await stranger.get("/healthz")
                worst[-1] = max(worst[-1], time.perf_counter() - began)
                await asyncio.sleep(0.002)

    async with client(root, KEY) as mine:
        for _ in range(times):
            worst.append(0.0)
            waiting = asyncio.create_task(wait())
            await asyncio.sleep(0.05)
            await attack(mine)
            await asyncio.sleep(0.02)
            waiting.cancel()
    return median(worst)


async def slow(port: int, path: bytes, sent: bytes, *, key: str = "") -> Any:
    """A connection on which a body was announced that never comes."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    bearer = b"authorization: Bearer %s\r\n" % key.encode() if key else b""
    writer.write(b"POST %s HTTP/1.1\r\nhost: x\r\n%scontent-length: 1048576\r\n\r\n" % (path, bearer) + sent)
    return writer


def besieged(root: str, kind: str) -> int:
    """What others do meanwhile, in a process of their own that takes no time from who measures; how often."""
    os.nice(5)
    return asyncio.run(_besieged(root, kind))


async def _besieged(root: str, kind: str) -> int:
    port, until, times = int(root.rpartition(":")[2]), time.monotonic() + _SIEGE_S, 0
    body = _ASKED if kind != "values" else orjson.dumps({"request": "x", "context": {"a": [0] * 490_000}})
    if kind == "batches":
        body = orjson.dumps({"requests": [f"{number}. {_SAID * 50}" for number in range(400)]})

    public = cycle(("GET /docs", "GET /healthz", "GET /openapi.json", "POST /v1/select"))

    async def ask() -> None:
        nonlocal times
        theirs = Asker(root, OTHER, body) if kind != "gets" else Asker(root, "", b"", next(public))
        if kind == "batches":
            theirs = Asker(root, OTHER, body, "POST /v1/select_many")
        while time.monotonic() < until:
            if not besieged_now():
                await asyncio.sleep(0.02)
                continue
            times += 1
            if kind == "slow":
                writers = [await slow(port, path, b"x") for path in (b"/docs", b"/healthz", b"/panel/", b"/v1/select")]
                await asyncio.sleep(0.8)
                for writer in writers:
                    writer.transport.abort()
            elif kind in {"bodies", "keys"}:
                path, key = (b"/healthz", "") if kind == "bodies" else (b"/v1/select", "a key of nobody")
                writer = await slow(port, path, b"x" * 1_000_000, key=key)
                await asyncio.sleep(0.5)
                writer.transport.abort()
            else:
                await theirs.ask()
        theirs.close()

    many = {"slow": 128, "bodies": 200, "keys": 200, "gets": 64, "selects": 64, "values": 8, "batches": 12}[kind]
    await asyncio.gather(*(ask() for _ in range(many)), return_exceptions=True)
    return times


async def beside(root: str, kind: str) -> tuple[list[float], list[float], Counter[int]]:
    """How long a key holder waits alone, and beside others; and how it is answered."""
    took: dict[bool, list[float]] = {True: [], False: []}
    statuses: Counter[int] = Counter()
    loop, mine = asyncio.get_running_loop(), Asker(root, KEY, _ASKED)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as others:
        siege = loop.run_in_executor(others, besieged, root, kind)
        while not siege.done():
            when, began = besieged_now(), time.perf_counter()
            statuses[await mine.ask()] += 1
            if time.time() % 1 > _SETTLING_S and when is besieged_now():
                took[when].append(time.perf_counter() - began)
            await asyncio.sleep(_PAUSE_S)
        assert await siege >= (_LEAST_ASKED if kind != "batches" else _LEAST_BATCHES), "nobody asked beside it"
    mine.close()
    return took[False], took[True], statuses


async def repeated(
    up: Process, kind: str, is_good: Callable[[list[float], list[float]], bool]
) -> tuple[list[float], list[float], Counter[int]]:
    """As `beside`, again where it was too much: what is true is so each time."""
    for _ in range(_TRIES - 1):
        found = await beside(up.root, kind)
        if is_good(*found[:2]):
            return found
    return await beside(up.root, kind)


def p95(took: Sequence[float]) -> float:
    """The wait that one in twenty exceeds."""
    return sorted(took)[int(len(took) * 0.95)]


# --- attacks on a service --------------------------------------------------------------


async def values(up: Process) -> Found:
    """A megabyte of numbers as a context, and as a conversation."""
    found = Found()
    for kind, body in (
        ("context", {"request": "x", "context": {"a": [0] * 490_000}}),
        ("history", {"message": "x", "history": orjson.dumps({"signature": "0", "a": [0] * 490_000}).decode()}),
    ):
        path = "/v1/turn" if kind == "history" else "/v1/select"

        async def attack(mine: httpx.AsyncClient, path: str = path, content: bytes = orjson.dumps(body)) -> None:
            await mine.post(path, content=content)

        held = await held_s(up.root, attack)
        found.timed(f"{kind}: others wait", 1000 * held, 1000 * LONGEST_HELD_S, "ms")
    return found


async def strangers(up: Process) -> Found:
    """Hundreds of slow requests without a key, at public paths and others."""
    return await _flooded(up, "slow")


async def gets(up: Process) -> Found:
    """Requests without a key as fast as they are answered, for public pages and others."""
    return await _flooded(up, "gets")


async def bodies(up: Process) -> Found:
    """Hundreds of megabytes without a key, at a public path."""
    return await _flooded(up, "bodies")


async def _flooded(up: Process, kind: str) -> Found:
    found, before = Found(), memory_mb(up)

    def slowed(alone: list[float], then: list[float]) -> float:
        return (mean(then) + _PAUSE_S) / (mean(alone) + _PAUSE_S) - 1

    alone, then, statuses = await repeated(up, kind, lambda alone, then: slowed(alone, then) <= _MOST_SLOWED)
    found.measured("memory grows by", memory_mb(up) - before, LARGEST_MB, "MB")
    found.measures.append(f"rate of key holders beside them {100 / (1 + slowed(alone, then)):.3g} %")
    found.timed("their answers take longer by", 100 * slowed(alone, then), 100 * _MOST_SLOWED, "%")
    found.measured("key holders refused", statuses.total() - statuses[200], 0, f"of {statuses.total()}")
    return found


async def keys(up: Process) -> Found:
    """Hundreds of megabytes with a key that opens nothing."""
    return await _flooded(up, "keys")


async def tenants(up: Process) -> Found:
    """Another key that asks as much as it may."""
    return await _shared(up, "selects")


async def contexts(up: Process) -> Found:
    """Another key that sends contexts of a megabyte without end."""
    return await _shared(up, "values")


async def batches(up: Process) -> Found:
    """Another key that asks for twelve times four hundred long requests at once, again and again."""
    return await _shared(up, "batches")


async def _shared(up: Process, kind: str) -> Found:
    found = Found()

    def longer(alone: list[float]) -> float:
        return max(p95(alone), _ONE_PIECE_S)

    alone, then, statuses = await repeated(up, kind, lambda alone, then: p95(then) - p95(alone) <= longer(alone))
    found.measures.append(f"alone p50 {1000 * median(alone):.1f}, p95 {1000 * p95(alone):.1f} ms")
    found.measures.append(f"beside it p50 {1000 * median(then):.1f}, p95 {1000 * p95(then):.1f} ms")
    found.timed("beside it p95 is longer by", 1000 * (p95(then) - p95(alone)), 1000 * longer(alone), "ms")
    found.measured("refused", statuses.total() - statuses[200], 0, f"of {statuses.total()}")
    return found


# --- attacks on a process ----------------------------------------------------------------

_SERVER = """
import gzip, json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

LARGE = %d


def answer(message):
    method, named = message["method"], message.get("params", {})
    if method == "initialize":
        told = {"capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
        return {"protocolVersion": named["protocolVersion"], **told}
    if method == "tools/list":
        return {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}
    return {"content": [{"type": "text", "text": "y"}] * LARGE} if method == "tools/call" else None


def answered(message):
    result = answer(message)
    told = {"error": {"code": -32601, "message": "no"}} if result is None else {"result": result}
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], **told}).encode()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(405)
        self.send_header("content-length", "0")
        self.end_headers()

    do_DELETE = do_GET

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        body = gzip.compress(answered(message)) if "id" in message else b""
        self.send_response(200 if body else 202)
        for name, value in (("type", "application/json"), ("encoding", "gzip"), ("length", str(len(body)))):
            self.send_header(f"content-{name}", value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if "http" in sys.argv:
    server = HTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        sys.stdout.write(answered(message).decode() + "\\n")
        sys.stdout.flush()
"""


async def mcp_stdio() -> Found:
    """An MCP server on a pipe that answers with 60 MB."""
    with tempfile.TemporaryDirectory() as name:
        program = Path(name) / "server.py"
        program.write_text(_SERVER % 2_000_000)
        return await _called(ServerSpec(name="x", command=sys.executable, args=[str(program)]))


async def mcp_gzip() -> Found:
    """An MCP server on HTTP whose answer of 0.2 MB is 62 MB without gzip."""
    with tempfile.TemporaryDirectory() as name:
        program = Path(name) / "server.py"
        program.write_text(_SERVER % 2_000_000)
        server = await asyncio.create_subprocess_exec(
            sys.executable, str(program), "http", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        assert server.stdout is not None
        try:
            port = int(await server.stdout.readline())
            return await _called(ServerSpec(name="x", url=f"http://127.0.0.1:{port}/"))
        finally:
            server.kill()
            await server.wait()


async def _called(spec: ServerSpec) -> Found:
    found, before, upstream, status = Found(), own_peak_mb(), Upstream(spec), ""
    async with anyio.create_task_group() as group:
        group.start_soon(upstream.run)
        await upstream.tried.wait()
        status = (await call_tool(upstream.tools[0], {}, door="executor", timeout_s=120)).status
        group.cancel_scope.cancel()
    found.measures.append(f"the call is {status}")
    found.measured("memory grows by", own_peak_mb() - before, LARGEST_MB, "MB")
    return found


def _agent(**options: Any) -> Agent:
    def find_order(email: str) -> dict[str, str]:
        """Find an order."""
        return {"order": email}

    registry = FlowRegistry(min_examples=0)
    flow = Flow(name="find_it", description="Find it", examples=["find it"], tools=["find_order"], registry=registry)
    vars(flow)["chain"] = ("find_order",)
    memory = ListMemory([{"flow_id": flow.id, "flow_name": flow.name}])
    selector = FlowSelector(None, registry, memory, "a", policy=Policy(on_empty="top1"))
    return make_agent(selector, [tool_from_function(find_order)], **options)


async def pattern() -> Found:
    """A schema for an answer whose pattern backtracks, and a text of 28 characters that it is held against."""
    found, schema = Found(), {"type": "object", "properties": {"order": {"type": "string", "pattern": "^(a+)+$"}}}
    agent = _agent(timeout_s=1)
    known = {"email": "a" * 27 + "!"}
    await agent.turn("find it", context=known)
    began = time.perf_counter()
    result = await agent.turn("find it", context=known, schema={**schema, "required": ["order"]})
    found.timed("it took", 1000 * (time.perf_counter() - began), 1000 * LONGEST_HELD_S, "ms")
    found.measures.append(f"{result.status}, {str(result.error or result.value)[:80]}")
    return found


async def hooks() -> Found:
    """A hundred turns with an `approve` that hangs."""
    found, before, go_on = Found(), threading.active_count(), threading.Event()

    def approve(_: object) -> Allow:
        go_on.wait()
        return Allow()

    agent = _agent(timeout_s=0.02, approve=approve)
    for _ in range(100):
        await agent.turn("find it", context={"email": "ada@example.org"})
    found.measured("threads left", threading.active_count() - before, 8, "")
    go_on.set()
    return found


async def context() -> Found:
    """A turn with two million values as its context, and half a second."""
    found, timeout_s = Found(), 0.5
    large = {"email": "ada@example.org", "rows": [{"n": number} for number in range(1_000_000)]}
    began = time.perf_counter()
    try:
        told = (await _agent(timeout_s=timeout_s).turn("find it", context=large)).status
    except JazzSelectError as error:
        told = f"refused: {str(error)[:60]}"
    late = time.perf_counter() - began - timeout_s
    found.timed("it is late by", 1000 * late, 1000 * LONGEST_HELD_S, "ms")
    found.measures.append(told)
    return found


async def files() -> Found:
    """A file of agents of a few lines that stand for billions of values."""
    found, before = Found(), own_peak_mb()
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "agents.yaml"
        lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
        lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
        merged = ["b0: &b0 {k: 1}", *(f"b{n}: &b{n} {{<<: [*b{n - 1}, *b{n - 1}]}}" for n in range(1, 22))]
        began = time.perf_counter()
        for text in (lines, merged, [f"n: {'1:' * 50_000}1"], [f"d: {'[' * 50_000}"]):
            file.write_text("\n".join([*text, "agents: {a: {flows: x}}"]))
            try:
                load_agents(file, Settings())
            except JazzSelectError:
                continue
            found.faults.append(f"it was read: {text[0][:60]}")
    found.timed("it took", time.perf_counter() - began, 1, "s")
    found.measured("memory grows by", own_peak_mb() - before, LARGEST_MB, "MB")
    return found


OF_A_SERVICE: Final = (values, strangers, gets, bodies, keys, tenants, contexts, batches)
OF_A_PROCESS: Final = (pattern, mcp_stdio, mcp_gzip, hooks, context, files)


def alone(number: int) -> Found:
    """One attack of a process, in a process of its own."""
    return asyncio.run(OF_A_PROCESS[number]())


def tell(name: str, attack: Callable[..., object], found: Found, *, strict: bool) -> list[str]:
    """A line of the report, and what is wrong; `strict`: on a quiet machine."""
    sys.stdout.write(f"{name}: {attack.__doc__} {'; '.join(found.measures)}\n")
    sys.stdout.flush()
    return [f"{name}: {each}" for each in (*found.faults, *(found.slow if strict else ()))]


def attacked(names: Sequence[str] = (), *, strict: bool = False) -> list[str]:
    """Make all attacks, or those of these names; what is wrong afterwards. `strict`: the machine is quiet."""
    faults: list[str] = []
    wanted = [each for each in OF_A_SERVICE if not names or each.__name__ in names]
    if wanted:
        with tempfile.TemporaryDirectory() as name, running(Path(name), *prepared(Path(name))) as up:
            for attack in wanted:
                faults += tell(attack.__name__, attack, asyncio.run(attack(up)), strict=strict)
            if up.popen.poll() is not None:
                faults.append(f"the service ended with {up.popen.poll()}")
    for number, attack in enumerate(OF_A_PROCESS):
        if not names or attack.__name__ in names:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as apart:
                faults += tell(attack.__name__, attack, apart.submit(alone, number).result(), strict=strict)
    return faults


def main() -> int:
    """Make them; 1 where anything is too much."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*(each.__name__ for each in (*OF_A_SERVICE, *OF_A_PROCESS)), []])
    parser.add_argument("--strict", action="store_true", help="hold times as a quiet machine does")
    given = parser.parse_args()
    faults = attacked(given.names, strict=given.strict)
    sys.stdout.write("".join(f"{each}\n" for each in faults) or "no fault\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
