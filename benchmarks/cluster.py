"""What replicas bring: selects and turns a second, p50 and p99 at 1, 2 and 3 replicas; and tenants by flows.

`python -m benchmarks.cluster` starts a local cluster anew for each number of replicas, and asks it.
`--tenants` asks one process instead: what a sync, a recall and memory cost as tenants and flows grow.
"""

import asyncio
import random
import resource
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated, Any, Final

import httpx
import typer
from rich.console import Console

from benchmarks import rows
from benchmarks.local_cluster import index_server
from benchmarks.options import Unclean, opened_book
from jazz_select import Flow, FlowRegistry, ProceduralMemory, sync_registry
from jazz_select.testing import HashEmbedder
from tests.postgres_server import why_not
from tests.replicas import Cluster

KEY: Final = ("question", "replicas", "tenants", "flows")
_SELECT: Final = {"request": "where is my parcel"}
_TURN: Final = {"message": "where is my parcel", "context": {"email": "ada@example.org"}}
_RECALLS: Final = 300
_WORDS: Final = ("order", "parcel", "account", "refund", "invoice", "address", "visit", "doctor", "seat", "ticket")


async def asked(roots: list[str], path: str, body: dict[str, Any], *, clients: int, seconds: float) -> rows.Row:
    """Ask the replicas in turn, each client without a pause; return rate and times."""
    took_ms: list[float] = []
    failures: list[str] = []
    end = perf_counter() + seconds

    async def ask(number: int) -> None:
        async with httpx.AsyncClient(base_url=roots[number % len(roots)], timeout=30) as client:
            while perf_counter() < end:
                began = perf_counter()
                answer = await client.post(path, json=body)
                took_ms.append((perf_counter() - began) * 1_000)
                if not answer.is_success:
                    failures.append(str(answer.status_code))

    began = perf_counter()
    await asyncio.gather(*(ask(number) for number in range(clients)))
    passed_s = perf_counter() - began
    return {
        "requests": len(took_ms),
        "failures": len(failures),
        "clients": clients,
        "rate": round(len(took_ms) / passed_s, 1),
        "p50_ms": round(median(took_ms), 2),
        "p99_ms": round(quantiles(took_ms, n=100)[98], 2),
    }


def replicas_measured(counts: list[int], *, clients: int, seconds: float) -> list[rows.Row]:
    """Rows of a cluster of each size."""
    found: list[rows.Row] = []
    for count in counts:
        with TemporaryDirectory() as name, Cluster(Path(name), qdrant=index_server(Path(name))) as cluster:
            roots = [each.root for each in cluster.start(count)]
            for question, path, body in (("selects", "/v1/select", _SELECT), ("turns", "/v1/turn", _TURN)):
                asyncio.run(asked(roots, path, body, clients=clients, seconds=min(seconds, 1.0)))  # warm
                told = asyncio.run(asked(roots, path, body, clients=clients, seconds=seconds))
                found.append({"question": question, "replicas": count, "tenants": 1, "flows": 2, **told})
    return found


def registry_of(tenant: int, flows: int) -> FlowRegistry:
    """Flows of one tenant, of words that all tenants share."""
    chance, registry = random.Random(tenant), FlowRegistry(min_examples=0)
    for number in range(flows):
        first, second, third = chance.sample(_WORDS, 3)
        Flow(
            name=f"flow_{number}",
            description=f"Handles {first} and {second}, case {number}",
            examples=[f"{first} {second} {number}", f"my {third} {number}"],
            registry=registry,
        )
    return registry


async def tenants_measured(tenants: int, flows: int) -> rows.Row:
    """Sync so many tenants of so many flows into one index, and recall from it."""
    with TemporaryDirectory() as name, index_server(Path(name)) as server:
        opening = ProceduralMemory.open(url=server.url, grpc_port=server.grpc_port, embedder=HashEmbedder())
        async with await opening as memory:
            before = _rss_mb()
            synced_s = await _timed(lambda: _synced(memory, tenants, flows))
            chance = random.Random(7)
            took_ms: list[float] = []
            foreign = 0
            await memory.recall("my order 1", "tenant-0")
            for _ in range(_RECALLS):
                agent, number = f"tenant-{chance.randrange(tenants)}", chance.randrange(flows)
                began = perf_counter()
                recalled = await memory.recall(f"my order {number}", agent)
                took_ms.append((perf_counter() - began) * 1_000)
                foreign += sum(int(str(each["flow_name"]).rpartition("_")[2]) >= flows for each in recalled)
            return {
                "question": "tenants",
                "replicas": 0,
                "tenants": tenants,
                "flows": flows,
                "sync_s": round(synced_s, 2),
                "sync_ms_of_a_flow": round(synced_s / tenants / flows * 1_000, 2),
                "p50_ms": round(median(took_ms), 2),
                "p99_ms": round(quantiles(took_ms, n=100)[98], 2),
                "memory_mb": round(_rss_mb() - before, 1),
                "foreign": foreign,
            }


async def _synced(memory: ProceduralMemory, tenants: int, flows: int) -> None:
    for tenant in range(tenants):
        await sync_registry(memory, f"tenant-{tenant}", registry_of(tenant, flows))


async def _timed(work: Callable[[], Awaitable[None]]) -> float:
    began = perf_counter()
    await work()
    return perf_counter() - began


def _rss_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024


def main(
    *,
    replicas: Annotated[list[int], typer.Option(help="Sizes of the cluster.")] = [1, 2, 3],  # noqa: B006 - as typer takes it
    clients: Annotated[int, typer.Option(help="Who ask at once.")] = 16,
    seconds: Annotated[float, typer.Option(help="How long each is asked.")] = 10.0,
    tenants: Annotated[str, typer.Option(help="Tenants x flows instead, such as 10x100,100x100.")] = "",
    unclean: Unclean = False,
) -> None:
    """Measure, and store the rows."""
    console = Console()
    if not tenants and (reason := why_not()):
        console.print(f"nothing is measured: {reason}")
        raise typer.Exit(1)
    book = opened_book("cluster", KEY, look=unclean)
    if tenants:
        sizes = [tuple(map(int, each.split("x"))) for each in tenants.split(",")]
        found = [asyncio.run(tenants_measured(many, flows)) for many, flows in sizes]
    else:
        found = replicas_measured(replicas, clients=clients, seconds=seconds)
    book.store(*found)
    for row in found:
        console.print(row)


if __name__ == "__main__":
    typer.run(main)
