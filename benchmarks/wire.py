"""What a recall from a server costs over gRPC and REST, beside the bare embedder and the bare batch query, in one run.

`python -m benchmarks.wire --data DIR [--url http://127.0.0.1:6333 --api-key …]`; without a url, a server on loopback
that is started for it, in a process of its own (`benchmarks.edge_server`). One request at a time, then 32 at once.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Annotated, Any

import grpc.aio
import typer
from qdrant_client import grpc as qg
from rich.console import Console

from benchmarks import rows
from benchmarks.edge_server import Server, loopback
from benchmarks.engine import BareEmbedder
from benchmarks.index import AGENT, registry_of
from benchmarks.metrics import percentile
from benchmarks.options import DataFolder, Unclean, data_folder, opened_book
from benchmarks.scale import catalogue
from jazz_select import ProceduralMemory, sync_registry
from jazz_select.memory.embedders.known_embedders import open_embedder
from jazz_select.memory.encoder import Encoder, Lexical
from jazz_select.memory.engines.server_address import ServerAddress, own_certificates
from jazz_select.memory.recall import ARM_DEPTH
from jazz_select.ports import SparseVector

KEY = ("flows", "server")
SIZES = (100, 1_000)
LOOPBACK = "loopback"
_WARM_UP = 100
AT_ONCE = 32
_ROUNDS = 5
Way = Callable[[str], Awaitable[float]]


class BareServer:
    """Both arms in one batch over gRPC, and nothing done with the answer."""

    def __init__(self, server: Server, collection: str) -> None:
        address = ServerAddress.parse(server.url, server.api_key)
        place = f"{address.host}:{server.grpc_port}"
        if address.is_encrypted:
            self._channel = grpc.aio.secure_channel(place, grpc.ssl_channel_credentials(own_certificates()))
        else:
            self._channel = grpc.aio.insecure_channel(place)
        self._metadata = tuple(address.headers.items())
        self._ask: Any = qg.PointsStub(self._channel)
        self._collection = collection
        own = qg.FieldCondition(key="agent_id", match=qg.Match(keyword=AGENT))
        self._mine = qg.Filter(must=[qg.Condition(field=own)])

    async def ask(self, dense: list[float], words: SparseVector) -> Any:
        """As recall asks, at least."""
        sparse = qg.SparseVector(values=words.values, indices=words.indices)
        arms = (("flow", qg.VectorInput(dense=qg.DenseVector(data=dense))), ("bm25", qg.VectorInput(sparse=sparse)))
        queries = [
            qg.QueryPoints(
                collection_name=self._collection,
                query=qg.Query(nearest=vector),
                using=name,
                filter=self._mine,
                limit=ARM_DEPTH,
            )
            for name, vector in arms
        ]
        batch = qg.QueryBatchPoints(collection_name=self._collection, query_points=queries)
        return await self._ask.QueryBatch(batch, metadata=self._metadata)

    async def close(self) -> None:
        """Hang up."""
        await self._channel.close()


@asynccontextmanager
async def ways(server: Server, entries: Sequence[Any]) -> AsyncGenerator[dict[str, Way]]:
    """Each way of asking, which gives its own seconds."""
    encoder = Encoder(open_embedder("static"), Lexical())
    embedder = BareEmbedder()
    async with AsyncExitStack() as stack:
        memories = {
            name: await stack.enter_async_context(
                await ProceduralMemory.open(url=server.url, api_key=server.api_key, grpc_port=port, embedder="static")
            )
            for name, port in (("grpc", server.grpc_port), ("rest", 0))
        }
        await sync_registry(memories["grpc"], AGENT, registry_of(entries))
        bare = BareServer(server, f"jazz_flows_{encoder.layout.key}")
        stack.push_async_callback(bare.close)

        def recall(memory: ProceduralMemory) -> Way:
            async def timed(text: str) -> float:
                start = perf_counter()
                await memory.recall(text, AGENT)
                return perf_counter() - start

            return timed

        async def sum_of_parts(text: str) -> float:
            words = encoder.lexical.query(text) or SparseVector(indices=(), values=())
            start = perf_counter()
            await bare.ask(embedder.embed(text), words)
            return perf_counter() - start

        yield {**{name: recall(memory) for name, memory in memories.items()}, "bare": sum_of_parts}


async def under_load(ask: Way, requests: Sequence[str]) -> float:
    """Answers in a second, `AT_ONCE` requests at a time."""
    waiting = iter(requests)

    async def one_after_the_other() -> None:
        for text in waiting:
            await ask(text)

    start = perf_counter()
    await asyncio.gather(*(one_after_the_other() for _ in range(AT_ONCE)))
    return len(requests) / (perf_counter() - start)


async def measured(server: Server, name: str, data: Path, size: int) -> rows.Row:
    """Each request in each way, one at a time and then many at once; who goes first changes with each."""
    entries, requests, sha256 = catalogue(data, size)
    times: dict[str, list[float]] = {"grpc": [], "rest": [], "bare": []}
    async with ways(server, entries) as asked:
        order = list(asked)
        for number, text in enumerate(requests):
            for way in order[number % 3 :] + order[: number % 3]:
                times[way].append(await asked[way](text))
        rates: dict[str, list[float]] = {"grpc": [], "rest": [], "bare": []}
        for number in range(_ROUNDS):
            for way in order[number % 3 :] + order[: number % 3]:
                rates[way].append(await under_load(asked[way], requests))
    warm = {way: seconds[_WARM_UP:] for way, seconds in times.items()}
    middle = {way: percentile(seconds, 0.5) for way, seconds in warm.items()}
    return {
        "flows": size,
        "server": name,
        "embedder": "static",
        "data": sha256,
        "requests": len(warm["grpc"]),
        **{
            f"{way}_ms": rows.rounded({f"p{share}": 1e3 * percentile(each, share / 100) for share in (50, 99)}, 3)
            for way, each in warm.items()
        },
        "ratio": round(middle["grpc"] / middle["bare"], 3),
        "per_s_at_once": {way: round(median(each)) for way, each in rates.items()},
        "ratio_at_once": round(median(rates["bare"]) / median(rates["grpc"]), 3),
    }


def main(
    data: DataFolder = None,
    url: Annotated[str | None, typer.Option(help="A Qdrant server; its agent 'bench' is written.")] = None,
    grpc_port: Annotated[int, typer.Option(help="Where it speaks gRPC.")] = 6334,
    api_key: Annotated[str | None, typer.Option(help="Its key.", envvar="JAZZ_API_KEY", show_envvar=True)] = None,
    *,
    unclean: Unclean = False,
) -> None:
    """Measure each size, and store the rows."""
    folder = data_folder(data)
    console, book = Console(), opened_book("wire", KEY, look=unclean)
    for size in SIZES:
        if url:
            server = Server(url=url, grpc_port=grpc_port, api_key=api_key)
            row = asyncio.run(measured(server, "qdrant", folder, size))
        else:
            with loopback() as server:
                row = asyncio.run(measured(server, LOOPBACK, folder, size))
        book.store(row)
        console.print(row)


if __name__ == "__main__":
    typer.run(main)
