"""How well, and how fast, recall finds the right flow: both legs alone, and fused.

`python -m benchmarks.recall --data DIR [--models DIR]`
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks import metrics, rows
from benchmarks.datasets import catalogue
from benchmarks.datasets.base import DataMissingError, Dataset, sampled
from benchmarks.index import AGENT, Index, indexed
from benchmarks.options import (
    DataFolder,
    Embedders,
    ModelsFolder,
    Unclean,
    data_folder,
    embedder_label,
    embedder_specs,
    no_data,
    opened_book,
    parsed_seeds,
)
from jazz_select.errors import ConfigError

LEGS = ("dense", "bm25")
TOP = 10
KEY = ("dataset", "embedder", "seed")
_WARM_UP = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What recall answered to each request, by names, best first."""

    ranked: Mapping[str, Sequence[Sequence[str]]]
    """"fused", "dense", "bm25": one list per request."""
    seconds: Sequence[float]
    """Per request, for the recall that gave the fused list."""


async def measure(index: Index, dataset: Dataset, progress: Progress) -> Measured:
    """Ask all requests twice: as an agent would, with the clock on; then each leg alone.

    A flow that a leg did not find has no rank in it, and is not listed.
    """
    task = progress.add_task(dataset.name, total=2 * len(dataset.requests))
    ranked: dict[str, list[list[str]]] = {leg: [] for leg in ("fused", *LEGS)}
    seconds: list[float] = []
    for request in dataset.requests[:_WARM_UP]:
        await index.memory.recall(request.text, AGENT, top_k=TOP)
    for request in dataset.requests:
        start = perf_counter()
        found = await index.memory.recall(request.text, AGENT, top_k=TOP)
        seconds.append(perf_counter() - start)
        ranked["fused"].append([candidate["flow_name"] for candidate in found])
        progress.advance(task)
    for request in dataset.requests:
        for leg in LEGS:
            ranked[leg].append(await index.leg(request.text, leg, TOP))
        progress.advance(task)
    progress.remove_task(task)
    return Measured(ranked=ranked, seconds=seconds)


def row_of(measured: Measured, dataset: Dataset, embedder: str) -> rows.Row:
    """One row of results."""
    golds = [request.gold for request in dataset.requests]
    return {
        "dataset": dataset.name,
        "embedder": embedder_label(embedder),
        "seed": dataset.seed,
        "data": dataset.sha256,
        "flows": len(dataset.flows),
        "requests": len(dataset.requests),
        "notes": dict(dataset.notes),
        **{leg: rows.rounded(metrics.summary(lists, golds)) for leg, lists in measured.ranked.items()},
        "recall_ms": rows.rounded(
            {f"p{share}": 1000 * metrics.percentile(measured.seconds, share / 100) for share in (50, 99)}, 3
        ),
    }


async def run(
    datasets: Sequence[Dataset], embedders: Sequence[str], progress: Progress, keep: Callable[[rows.Row], object]
) -> list[rows.Row]:
    """Every data set with every embedder; each row is kept as soon as it is there."""
    found: list[rows.Row] = []
    overall = progress.add_task("all", total=len(datasets) * len(embedders))
    for embedder in embedders:
        for dataset in datasets:
            progress.update(overall, description=f"{embedder_label(embedder)} · seed {dataset.seed}")
            async with indexed(dataset.flows, embedder) as index:
                row = row_of(await measure(index, dataset, progress), dataset, embedder)
            keep(row)
            found.append(row)
            progress.advance(overall)
    return found


def shown(found: Sequence[rows.Row]) -> Table:
    """The rows as a table for the terminal: R@1 / R@5 per leg, and time."""
    table = Table(box=box.SIMPLE, title="R@1 / R@5, and milliseconds per recall (p50 / p99)")
    table.add_column("data set, embedder, seed", ratio=1)
    for name in ("dense", "BM25", "fused", "ms"):
        table.add_column(name, no_wrap=True, justify="right")
    for row in found:
        shares = [f"{100 * row[leg]['R@1']:.1f} / {100 * row[leg]['R@5']:.1f}" for leg in (*LEGS, "fused")]
        times = f"{row['recall_ms']['p50']:.2f} / {row['recall_ms']['p99']:.2f}"
        table.add_row(f"{row['dataset']}, {row['embedder']}, {row['seed']}", *shares, times)
    return table


def main(  # noqa: PLR0913 - one parameter per option
    data: DataFolder = None,
    models: ModelsFolder = None,
    embedder: Embedders = None,
    dataset: Annotated[list[str] | None, typer.Option(help="A data set by name; may be repeated.")] = None,
    seeds: Annotated[str, typer.Option(help="Seeds of the reported mean; 0 is for development.")] = "1,2,3",
    limit: Annotated[
        int | None, typer.Option(help="At most so many requests per data set: a quick look, not stored.")
    ] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="All 20,614 single-tool requests of MetaTool.")] = False,
    unclean: Unclean = False,
) -> None:
    """Measure recall quality and latency, and store one row per data set, embedder and seed."""
    console = Console()
    folder = data_folder(data)
    names = dataset or [
        f"{name}-all" if everything and name == "metatool-single" else name for name in catalogue.RECALL
    ]
    try:
        read = [catalogue.load(name, folder, seed) for name in names for seed in parsed_seeds(seeds)]
    except DataMissingError as error:
        raise no_data(error) from None
    except KeyError as error:
        msg = f"no data set {error}; there are {', '.join(catalogue.DATASETS)}"
        raise typer.BadParameter(msg) from None
    if limit is not None:
        read = [replace(each, requests=sampled(each.requests, limit, each.seed)) for each in read]
    look = unclean or limit is not None
    book = opened_book("recall", KEY, look=look)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    try:
        with Progress(*columns, console=console) as progress:
            found = asyncio.run(run(read, embedder_specs(embedder, models), progress, book.store))
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from None
    console.print(shown(found))
    if not look:
        console.print(f"{len(found)} rows stored; python -m benchmarks.report makes the tables")


if __name__ == "__main__":
    typer.run(main)
