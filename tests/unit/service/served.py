"""A service on this machine: real sockets, small catalogues in memory, several agents."""

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import StreamingResponse

from jazz_select import Flow, FlowRegistry, ProceduralMemory, tool_from_function
from jazz_select.errors import JazzSelectError
from jazz_select.ports import ChatModel, ClaimStore
from jazz_select.routing.tools.tool import Toolbox
from jazz_select.service.agents import ServedAgents
from jazz_select.service.app import AppPart, make_app
from jazz_select.service.http.limits import Lifecycle
from jazz_select.service.running import RunningCatalogue, Sources
from jazz_select.service.server import bind_address, serve
from jazz_select.service.service_options import ServeOptions
from jazz_select.service.shared_state import SharedState
from jazz_select.settings import Settings
from jazz_select.testing import HashEmbedder
from tests.clock import until

REFUND = "I want my money back"
KEY, OTHER_KEY = "a-key-of-the-shop", "a-key-of-the-clinic"


@dataclass
class Shop:
    """What the tools of a shop did."""

    cancelled: list[str] = field(default_factory=list[str])

    def find_order(self, email: str) -> str:
        """Find the last order of a customer."""
        return f"order of {email}"

    def cancel_order(self, order_id: str) -> str:
        """Cancel an order for good."""
        self.cancelled.append(order_id)
        return f"{order_id} is cancelled"

    def sources(self) -> Sources:
        """Three flows and two tools, made anew."""
        registry = FlowRegistry(min_examples=0)
        flow("refund_order", "Give the money back", [REFUND, "refund my order"], registry, ("find_order",))
        flow("track_order", "Say where a parcel is", ["where is my parcel", "track my order"], registry)
        flow("cancel_order", "Cancel an order", ["cancel my order", "stop the order"], registry, ("cancel_order",))
        tools = [tool_from_function(self.find_order), tool_from_function(self.cancel_order, destructive=True)]
        return Sources(registry=registry, tools=Toolbox(tools))


def clinic() -> Sources:
    """Flows that no customer of the shop is to hear of."""
    registry = FlowRegistry(min_examples=0)
    flow("book_visit", "Book a visit at the clinic", ["book a visit", "see a doctor"], registry)
    flow("refund_order", "Pay back a bill of the clinic", ["my money back for the bill"], registry)
    return Sources(registry=registry, tools=Toolbox())


def flow(name: str, description: str, examples: list[str], registry: FlowRegistry, chain: tuple[str, ...] = ()) -> Flow:
    made = Flow(name=name, description=description, examples=examples, tools=list(chain), registry=registry)
    vars(made)["chain"] = chain
    return made


@dataclass
class Service:
    """One that runs."""

    root: str
    port: int
    client: httpx.AsyncClient
    life: Lifecycle
    agents: ServedAgents

    async def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        """Ask with JSON."""
        return await self.client.post(path, json=body, headers=headers)

    async def rests(self) -> None:
        """Wait until nothing is worked on any more."""
        await until(lambda: not self.life.in_flight)

    async def raw(self, *sent: bytes, pause_s: float = 0.0, eof: bool = False, patience_s: float = 20.0) -> bytes:
        """All that comes back for these bytes, until the service closes the connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            for each in sent:
                writer.write(each)
                await writer.drain()
                await asyncio.sleep(pause_s)
            if eof:
                writer.write_eof()
            async with asyncio.timeout(patience_s):
                return await reader.read()
        except ConnectionError:  # closed while there was more to read
            return b""
        finally:
            writer.close()


def catalogue(
    memory: ProceduralMemory,
    read: Callable[[], Sources],
    agent_id: str = "shop",
    *,
    model: ChatModel | None = None,
    claims: ClaimStore | None = None,
    **settings: Any,
) -> RunningCatalogue:
    """One agent, not loaded yet."""
    told = Settings(agent_id=agent_id, top_k=3, on_empty="top1").model_copy(update=settings)
    return RunningCatalogue(told, memory, read, model=model, claims=claims, secret=f"{agent_id} signs with this")


async def endless(_: Request) -> StreamingResponse:
    """An answer that has begun, and ends only when its client leaves."""

    async def pieces() -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.Event().wait()

    return StreamingResponse(pieces())


async def streams(life: Lifecycle, count: int) -> None:
    """Wait until so many are held open."""
    await until(lambda: len(life.streams) == count)


@asynccontextmanager
async def memory() -> AsyncGenerator[ProceduralMemory]:
    """An index of the test's own."""
    async with await ProceduralMemory.open(":memory:", embedder=HashEmbedder()) as opened:
        yield opened


@asynccontextmanager
async def service(
    *catalogues: RunningCatalogue,
    keys: Sequence[str] = (),
    options: ServeOptions | None = None,
    broken: Sequence[str] = (),
    parts: Sequence[AppPart] = (),
    more_keys: Mapping[str, str] | None = None,
    teachers: Sequence[str] = (),
    shared: SharedState | None = None,
) -> AsyncGenerator[Service]:
    """These agents, each behind the key at its place; without keys, the one there is. Broken ones cannot be loaded.

    `more_keys` open an agent by its id, too; a key is called by its own text in the log.
    """
    opened = {key: each.agent_id for key, each in zip(keys, catalogues, strict=False)} | dict(more_keys or {})
    digests = {key: sha256(key.encode()).hexdigest() for key in opened}
    agents = ServedAgents(
        {each.agent_id: each for each in catalogues},
        {digests[key]: agent_id for key, agent_id in opened.items()},
        is_open=not keys,
        names={digest: key for key, digest in digests.items()},
        teachers=[digests[key] for key in teachers],
    )
    agents.shared = shared
    for each in catalogues:
        with pytest.raises(JazzSelectError) if each.agent_id in broken else nullcontext():
            await each.reload()
    life, wanted = Lifecycle(), options or ServeOptions(stop_s=2, panel=False, mcp=False)
    listening = bind_address("127.0.0.1", 0)
    port: int = listening.getsockname()[1]
    ready = asyncio.Event()
    app = make_app(agents, wanted, life=life, parts=parts)
    running = asyncio.create_task(serve(app, listening, options=wanted, life=life, ready=ready.set))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
    root = f"http://127.0.0.1:{port}"
    try:
        async with httpx.AsyncClient(base_url=root, timeout=20) as client:
            yield Service(root, port, client, life, agents)
    finally:
        life.end()
        await running
        waiting.cancel()


@asynccontextmanager
async def shop_service(
    *, keys: Sequence[str] = (), options: ServeOptions | None = None, parts: Sequence[AppPart] = (), **settings: Any
) -> AsyncGenerator[Service]:
    """The shop alone."""
    async with (
        memory() as index,
        service(catalogue(index, Shop().sources, **settings), keys=keys, options=options, parts=parts) as up,
    ):
        yield up


@contextmanager
def beside(options: ServeOptions | None = None) -> Generator[Service]:
    """The shop alone, without a key, in a thread of its own: for many tests that leave it as it is."""
    up: Future[Service] = Future()
    over = threading.Event()

    async def live() -> None:
        async with shop_service(options=options) as made:
            up.set_result(made)
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(live()))
    thread.start()
    try:
        yield up.result(timeout=30)
    finally:
        over.set()
        thread.join()


@asynccontextmanager
async def asking(up: Service) -> AsyncGenerator[Service]:
    """That service, with a client of this event loop."""
    async with httpx.AsyncClient(base_url=up.root, timeout=20) as client:
        yield replace(up, client=client)
