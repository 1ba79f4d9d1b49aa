"""What recall costs beside the bare embedder and engine, in one run; and what the first selection of a process costs.

`python -m benchmarks.latency --data DIR`
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated

import qdrant_edge as qe
import typer
from rich.console import Console
from rich.progress import track

from benchmarks import machine, rows
from benchmarks.datasets import catalogue
from benchmarks.datasets.base import DataMissingError, Dataset, sampled
from benchmarks.engine import BareEmbedder, BareEngine
from benchmarks.index import AGENT, indexed, registry_of
from benchmarks.metrics import percentile
from benchmarks.options import DataFolder, Unclean, data_folder, no_data, opened_book
from jazz_select import FlowRegistry, FlowSelector, ProceduralMemory, sync_registry
from jazz_select.flow.flow_loading import load_flows
from jazz_select.memory.recall import ARM_DEPTH

DATASET = "clinc150-1000-flows"
KEY = ("dataset", "embedder")
REQUEST = "I want my money back for the blender that arrived broken"
_TOP_K, _RRF_K = 3, 10
_WARM_UP = 100


async def beside_the_bare_parts(dataset: Dataset, console: Console) -> rows.Row:
    """Each request through recall, the bare parts, and select; who goes first changes with each request."""
    registry = registry_of(dataset.flows)
    async with indexed(dataset.flows, "static") as index:
        with TemporaryDirectory(prefix="jazz-bench-") as folder:
            cards = [flow.card() for flow in registry.values()]
            points = index.encoder.points(AGENT, cards, index.encoder.rows(cards))
            engine = BareEngine(Path(folder) / "bare", points, depth=ARM_DEPTH)
            embedder = BareEmbedder()
            selector = FlowSelector(
                llm=None, flow_registry=registry, proc_mem=index.memory, agent_id=AGENT, top_k=_TOP_K
            )
            times: dict[str, list[float]] = {name: [] for name in ("recall", "embed", "query", "sum", "select")}

            async def recall(text: str) -> None:
                start = perf_counter()
                await index.memory.recall(text, AGENT, top_k=_TOP_K, rrf_k=_RRF_K)
                times["recall"].append(perf_counter() - start)

            async def bare(text: str) -> None:
                words = index.encoder.lexical.query(text)  # the engine's share is to search for them
                sparse = qe.SparseVector(indices=list(words.indices), values=list(words.values)) if words else None
                start = perf_counter()
                vector = embedder.embed(text)
                embedded = perf_counter()
                if sparse is not None:
                    engine.ask(vector, sparse)
                done = perf_counter()
                times["embed"].append(embedded - start)
                times["query"].append(done - embedded)
                times["sum"].append(done - start)

            async def select(text: str) -> None:
                start = perf_counter()
                await selector.select(text)
                times["select"].append(perf_counter() - start)

            ways = [recall, bare, select]
            for number, request in enumerate(track(dataset.requests, "recall beside bare parts", console=console)):
                for way in ways[number % 3 :] + ways[: number % 3]:
                    await way(request.text)
            engine.close()
    warm = {name: seconds[_WARM_UP:] for name, seconds in times.items()}
    return {
        "dataset": dataset.name,
        "embedder": "static",
        "seed": dataset.seed,
        "data": dataset.sha256,
        "flows": len(dataset.flows),
        "requests": len(warm["recall"]),
        **{f"{name}_ms": _milliseconds(seconds) for name, seconds in warm.items()},
        "ratio": round(percentile(warm["recall"], 0.5) / percentile(warm["sum"], 0.5), 3),
    }


async def first_selects(runs: int, console: Console) -> rows.Row:
    """Fresh interpreters over this repository's flows: until the first choice is there, and for the import alone."""
    flows = machine.ROOT / "flows"
    registry = FlowRegistry()
    load_flows(flows, registry)
    with TemporaryDirectory(prefix="jazz-bench-") as folder:
        index = str(Path(folder) / "index")
        async with await ProceduralMemory.open(index) as memory:
            await sync_registry(memory, AGENT, registry)
        cold = [
            _python("-m", "benchmarks.cold", index, str(flows), REQUEST)
            for _ in track(range(runs), "first select", console=console)
        ]
    timed = "from time import perf_counter as c; s = c(); import jazz_select; print(c() - s)"
    imports = [float(_python("-c", timed)[1]) for _ in track(range(runs), "import", console=console)]
    inside = [json.loads(answer) for _, answer in cold]
    return {
        "cold_flows": len(registry),
        "cold_chosen": inside[0]["chosen"],
        "cold_s": _best([seconds for seconds, _ in cold]),
        "cold_parts_s": {
            part: round(percentile([each[part] for each in inside], 0.5), 3)
            for part in ("import", "load", "open", "select")
        },
        "import_s": _best(imports),
    }


def _python(*arguments: str) -> tuple[float, str]:
    """Run this interpreter anew; seconds from outside, and what it printed."""
    start = perf_counter()
    done = subprocess.run([sys.executable, *arguments], cwd=machine.ROOT, capture_output=True, text=True, check=True)  # noqa: S603 - fixed arguments
    return perf_counter() - start, done.stdout


def _milliseconds(seconds: Sequence[float]) -> dict[str, float]:
    return rows.rounded({f"p{share}": 1000 * percentile(seconds, share / 100) for share in (50, 99)}, 3)


def _best(seconds: Sequence[float]) -> dict[str, float]:
    return rows.rounded({"best": min(seconds), "median": percentile(seconds, 0.5)})


def main(
    data: DataFolder = None,
    requests: Annotated[int, typer.Option(help="How many requests are timed.")] = 3_000,
    runs: Annotated[int, typer.Option(help="How many fresh interpreters are started.")] = 7,
    *,
    unclean: Unclean = False,
) -> None:
    """Measure what recall, select and a cold start cost, and store one row."""
    console, book = Console(), opened_book("latency", KEY, look=unclean)
    try:
        read = catalogue.load(DATASET, data_folder(data), seed=1)
    except DataMissingError as error:
        raise no_data(error) from None
    read = replace(read, requests=sampled(read.requests, requests + _WARM_UP, read.seed))
    row = asyncio.run(beside_the_bare_parts(read, console)) | asyncio.run(first_selects(runs, console))
    book.store(row)
    console.print(
        f"recall p50 {row['recall_ms']['p50']} ms, p99 {row['recall_ms']['p99']} ms at {row['flows']} flows, "
        f"{row['ratio']} times the bare embedding ({row['embed_ms']['p50']} ms) and engine "
        f"({row['query_ms']['p50']} ms); "
        f"select p50 {row['select_ms']['p50']} ms"
    )
    console.print(f"first select {row['cold_s']}, of which {row['cold_parts_s']}; import {row['import_s']}")
    if not unclean:
        console.print("stored; python -m benchmarks.report makes the tables")


if __name__ == "__main__":
    typer.run(main)
