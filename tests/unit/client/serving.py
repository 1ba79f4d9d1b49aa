"""A service on this machine: a real one over a small shop, and one that answers whatever a test says."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import uvicorn
from starlette.applications import Starlette

from jazz_select import FlowRegistry, ProceduralMemory, tool_from_function
from jazz_select.outcomes import OutcomeLog
from jazz_select.ports import ChatModel
from jazz_select.routing.tools.sources import toolbox_of
from jazz_select.service.agents import ServedAgents, key_digest
from jazz_select.service.app import make_app
from jazz_select.service.running import RunningCatalogue, Sources
from jazz_select.service.service_options import ServeOptions
from jazz_select.settings import Settings
from jazz_select.testing import HashEmbedder
from tests.clock import until
from tests.http_server import LoopbackServer
from tests.unit.selector.shop import flow

KEY = "a-key-of-these-tests-0123456789abcdef"


@asynccontextmanager
async def listening(app: Starlette, path: Path | None = None) -> AsyncGenerator[str]:
    """The address of an app that is served in this loop, at a port or at the file of a socket."""
    # Named as TCP, so that asyncio takes it for that and sends small answers at once.
    kind = (socket.AF_INET, socket.IPPROTO_TCP) if path is None else (socket.AF_UNIX, 0)
    with closing(socket.socket(kind[0], socket.SOCK_STREAM, kind[1])) as own:
        own.bind(("127.0.0.1", 0) if path is None else str(path))
        config = uvicorn.Config(app, log_config=None, access_log=False, ws="none", timeout_graceful_shutdown=1)
        server = LoopbackServer(config)
        running = asyncio.create_task(server.serve(sockets=[own]))
        await until(lambda: server.started)
        try:
            yield f"http://127.0.0.1:{own.getsockname()[1]}" if path is None else "http://localhost"
        finally:
            server.should_exit = True
            await running


# --- a shop --------------------------------------------------------------------


def shop_flows() -> FlowRegistry:
    """Three flows with a tool each; one of them destroys something."""
    registry = FlowRegistry(min_examples=0)
    about = {
        "refund_order": ("Money back for an order", ["I want my money back", "refund my order"]),
        "track_order": ("Where a parcel is", ["where is my parcel", "track my order"]),
        "close_account": ("Delete the account of a customer", ["delete my account", "close my account"]),
    }
    for name, (description, examples) in about.items():
        made = flow(name, registry, description=description, examples=examples, tools=[name.split("_", 1)[0]])
        vars(made)["chain"] = made.tools
    return registry


def refund(email: str) -> dict[str, str]:
    """Refund the last order."""
    return {"refunded": email}


def track(email: str) -> dict[str, str]:
    """Find a parcel."""
    return {"parcel": f"near {email}"}


def close(email: str) -> dict[str, str]:
    """Delete an account."""
    return {"closed": email}


def sources() -> Sources:
    """What the shop is read from."""
    tools = [tool_from_function(refund), tool_from_function(track), tool_from_function(close, destructive=True)]
    return Sources(registry=shop_flows(), tools=toolbox_of(tools))


@asynccontextmanager
async def catalogue(
    model: ChatModel | None = None, log: Path | None = None, **settings: Any
) -> AsyncGenerator[RunningCatalogue]:
    """The shop, as it is served."""
    memory = await ProceduralMemory.open(":memory:", embedder=HashEmbedder())
    outcomes = None if log is None else OutcomeLog(log)
    try:
        made = RunningCatalogue(
            Settings(agent_id="shop").model_copy(update=settings), memory, sources, model=model, log=outcomes
        )
        await made.reload()
        yield made
    finally:
        if outcomes is not None:
            outcomes.close()
        await memory.close()


@asynccontextmanager
async def serving(
    made: RunningCatalogue, *, path: Path | None = None, keyed: bool = True, options: ServeOptions | None = None
) -> AsyncGenerator[str]:
    """The address at which it is served."""
    keys = {key_digest(KEY, "here"): made.agent_id} if keyed else None
    async with listening(make_app(ServedAgents({made.agent_id: made}, keys, is_open=not keyed), options), path) as url:
        yield url


# --- one that answers whatever is wanted ----------------------------------------

Act = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Script:
    """Connections, each answered by the next act; the last one over and over."""

    acts: list[Act]
    url: str = ""
    requests: list[str] = field(default_factory=list[str])
    """The heads of those that came whole."""
    connections: int = 0


@asynccontextmanager
async def acting(*acts: Act) -> AsyncGenerator[Script]:
    """A server of nothing but these."""
    script = Script([*acts])

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        act = script.acts[min(script.connections, len(script.acts) - 1)]
        script.connections += 1
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            script.requests.append(head.decode())
            length = next(
                (int(line[15:]) for line in head.decode().lower().split("\r\n") if line[:15] == "content-length:"), 0
            )
            await reader.readexactly(length)
            await act(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    script.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield script
    finally:
        server.close()


def says(status: int, body: Any = None, *, media: str = "application/json", **headers: str) -> Act:
    """Answer this, and close."""
    content = body if isinstance(body, bytes) else orjson.dumps(body)
    lines = [f"HTTP/1.1 {status} X", f"content-type: {media}", f"content-length: {len(content)}", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]

    async def act(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write("\r\n".join([*lines, "", ""]).encode() + content)
        await writer.drain()

    return act


def problem(status: int, code: str, detail: str = "no", **headers: str) -> Act:
    """Problem details, as a service of ours tells them."""
    body = {"type": "about:blank", "title": "x", "status": status, "detail": detail, "code": code, "request_id": "r1"}
    return says(status, body, media="application/problem+json", **headers)


def raw(content: bytes, *, reset: bool = False) -> Act:
    """Write this, and close; or have the connection reset."""

    async def act(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(content)
        await writer.drain()
        if reset:
            writer.transport.abort()

    return act


def hangs(content: bytes = b"") -> Act:
    """Write this, and nothing else until the caller leaves."""

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(content)
        await writer.drain()
        await reader.read()

    return act
