"""What a fast embedder before a better one saves, and what it costs: `python -m benchmarks.cascade --data DIR`.

Each request is asked of three indexes of the same flows, one after the other, in an order that changes with every
request: static vectors, the transformer, and both as a cascade.
"""

import asyncio
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from benchmarks import rows
from benchmarks.datasets import catalogue
from benchmarks.datasets.base import DataMissingError, Dataset, sampled
from benchmarks.index import AGENT, registry_of
from benchmarks.metrics import mean, percentile, recall_at
from benchmarks.options import DataFolder, Unclean, data_folder, no_data, opened_book, parsed_seeds
from jazz_select import ProceduralMemory, sync_registry
from jazz_select.memory.embedders.known_embedders import CascadeEmbedder, open_embedder
from jazz_select.memory.fit.model import RecallModel
from jazz_select.ports import Embedder

DATASETS = ("clinc150-5", "clinc150-10", "banking77-5", "banking77-10")
KEY = ("dataset", "seed")
WAYS = ("static", "minilm", "cascade")
_TOP_K = 5
_WARM_UP = 50


class Way:
    """One index of the flows, what it answered and how long that took."""

    def __init__(self, name: str, memory: ProceduralMemory) -> None:
        self.name = name
        self.memory = memory
        self.seconds: list[float] = []
        self.ranked: list[list[str]] = []
        self.stages: list[str] = []

    async def ask(self, text: str) -> None:
        """Recall, with the time that it takes."""
        start = perf_counter()
        found = await self.memory.recall(text, AGENT, top_k=_TOP_K)
        self.seconds.append(perf_counter() - start)
        self.ranked.append([each["flow_name"] for each in found])
        self.stages.append(found.stage)

    def numbers(self, golds: list[frozenset[str]]) -> dict[str, float]:
        """Recall, and milliseconds a request."""
        warm = [1000 * each for each in self.seconds[_WARM_UP:]]
        return rows.rounded(
            {f"R@{k}": mean([recall_at(*pair, k) for pair in zip(self.ranked, golds, strict=True)]) for k in (1, 5)}
            | {"mean_ms": mean(warm), "p50_ms": percentile(warm, 0.5), "p99_ms": percentile(warm, 0.99)}
        )


async def measured(dataset: Dataset, embedders: dict[str, Embedder], console: Console) -> rows.Row:
    """One row of results."""
    with TemporaryDirectory(prefix="jazz-bench-") as folder:
        ways = [Way(name, await ProceduralMemory.open(Path(folder) / name, embedder=embedders[name])) for name in WAYS]
        for way in ways:
            await sync_registry(way.memory, AGENT, registry_of(dataset.flows))
        for number, request in enumerate(track(dataset.requests, dataset.name, console=console)):
            for place in range(len(ways)):
                await ways[(number + place) % len(ways)].ask(request.text)
        sure = await _sure(ways[-1].memory)
        for way in ways:
            await way.memory.close()
    golds = [each.gold for each in dataset.requests]
    return {
        "dataset": dataset.name,
        "seed": dataset.seed,
        "data": dataset.sha256,
        "flows": len(dataset.flows),
        "requests": len(golds),
        "sure": None if sure is None else round(sure, 4),
        "by_static": round(mean([float(stage == "static") for stage in ways[-1].stages]), 4),
        **{way.name: way.numbers(golds) for way in ways},
    }


async def _sure(memory: ProceduralMemory) -> float | None:
    """The confidence from which on static vectors answer alone."""
    store = memory._store  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - a note is no caller's business
    return RecallModel.from_note(await store.read_note(AGENT)).sure


def main(
    data: DataFolder = None,
    seeds: Annotated[str, typer.Option(help="Seeds of the reported mean; 0 is for development.")] = "1,2,3",
    dataset: Annotated[list[str] | None, typer.Option(help="Data set; may be repeated. Default: all.")] = None,
    limit: Annotated[int, typer.Option(help="Requests of each data set and seed.")] = 5_000,
    *,
    unclean: Unclean = False,
) -> None:
    """Measure the three beside each other, and store the rows."""
    folder, console, book = data_folder(data), Console(), opened_book("cascade", KEY, look=unclean)
    static, minilm = open_embedder("static"), open_embedder("minilm")
    embedders = {"static": static, "minilm": minilm, "cascade": CascadeEmbedder(static, minilm)}
    for name in dataset or DATASETS:
        for seed in parsed_seeds(seeds):
            try:
                read = catalogue.load(name, folder, seed)
            except DataMissingError as error:
                raise no_data(error) from None
            asked = replace(read, requests=sampled(read.requests, limit, seed))
            row = asyncio.run(measured(asked, embedders, console))
            book.store(row)
            console.print(f"{name} {seed}: from {row['sure']} on, {100 * row['by_static']:.1f} % by static")
            for way in WAYS:
                console.print(f"  {way} {row[way]}")


if __name__ == "__main__":
    typer.run(main)
