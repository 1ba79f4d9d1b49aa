"""What replicas bring: selects and turns a second, p50 and p99 at 1, 2 and 3 replicas; and tenants by flows.

`python -m benchmarks.cluster` starts a local cluster anew for each number of replicas, and asks it. All processes share
the cores of this machine, and so does the one that asks.
`--tenants` and `--simulated` ask for tenants by flows instead, each size in a process of its own: `benchmarks.tenants`.
"""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated, Any, Final

import httpx
import typer
from rich.console import Console

from benchmarks import machine, rows, tenants
from benchmarks.local_cluster import index_server
from benchmarks.options import Unclean, opened_book
from tests.postgres_server import why_not
from tests.replicas import Cluster

KEY: Final = ("question", "replicas", "tenants", "flows")
_SELECT: Final = {"request": "where is my parcel"}
_TURN: Final = {"message": "where is my parcel", "context": {"email": "ada@example.org"}}


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


def tenants_measured(sizes: str, *, how: str) -> list[rows.Row]:
    """Rows of tenants by flows, such as 10x100: each in a new process, whose memory is that of one size alone."""
    found: list[rows.Row] = []
    for size in filter(None, sizes.split(",")):
        command = [sys.executable, "-m", "benchmarks.cluster", "--one", size, "--how", how]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=machine.ROOT)  # noqa: S603 - fixed arguments
        found.append(json.loads(done.stdout))
    return found


def measure_one(size: str, how: str) -> rows.Row:
    """Measure one size in this process."""
    many, flows = map(int, size.split("x"))
    work = tenants.synced if how == "synced" else tenants.simulated
    return asyncio.run(work(many, flows))


def main(  # noqa: PLR0913 - options of a command
    *,
    replicas: Annotated[list[int], typer.Option(help="Sizes of the cluster.")] = [1, 2, 3],  # noqa: B006 - as typer takes it
    clients: Annotated[int, typer.Option(help="Who ask at once.")] = 16,
    seconds: Annotated[float, typer.Option(help="How long each is asked.")] = 10.0,
    synced: Annotated[str, typer.Option("--tenants", help="Tenants x flows that are synced: 1x1000,10x1000.")] = "",
    simulated: Annotated[str, typer.Option(help="Tenants x flows that are written without a sync.")] = "",
    one: Annotated[str, typer.Option(hidden=True)] = "",
    how: Annotated[str, typer.Option(hidden=True)] = "synced",
    unclean: Unclean = False,
) -> None:
    """Measure, and store the rows."""
    if one:
        typer.echo(json.dumps(measure_one(one, how)))
        return
    console = Console()
    if not (synced or simulated) and (reason := why_not()):
        console.print(f"nothing is measured: {reason}")
        raise typer.Exit(1)
    book = opened_book("cluster", KEY, look=unclean)
    if synced or simulated:
        found = [*tenants_measured(synced, how="synced"), *tenants_measured(simulated, how="simulated")]
    else:
        found = replicas_measured(replicas, clients=clients, seconds=seconds)
    book.store(*found)
    for row in found:
        console.print(row)


if __name__ == "__main__":
    typer.run(main)
