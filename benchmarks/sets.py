"""How few candidates hold the right one? `python -m benchmarks.sets --data DIR [--models DIR]`."""

import asyncio
from statistics import fmean, median
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import rows
from benchmarks.datasets import catalogue
from benchmarks.datasets.base import Dataset, sampled
from benchmarks.index import AGENT, indexed
from benchmarks.options import (
    DataFolder,
    Embedders,
    ModelsFolder,
    Seeds,
    Unclean,
    data_folder,
    embedder_label,
    embedder_specs,
    opened_book,
    parsed_seeds,
)
from jazz_select.memory.fit.model import MOST_SIZED

DATASETS = ("clinc150-5", "clinc150-10", "banking77-5", "banking77-10")
KEY = ("dataset", "embedder", "seed", "wished")
WISHED = (0.9, 0.95, 0.98, 0.99)
LIMIT = 1_500
"""Requests asked per data set, drawn with the seed."""
_AT_ONCE = 64


async def measured(dataset: Dataset, embedder: str, limit: int) -> list[rows.Row]:
    """One row for each wished coverage."""
    requests = sampled(dataset.requests, limit, dataset.seed)
    found_rows: list[rows.Row] = []
    async with indexed(dataset.flows, embedder) as index:
        for wished in WISHED:
            sizes: list[int] = []
            held: list[bool] = []
            for start in range(0, len(requests), _AT_ONCE):
                part = requests[start : start + _AT_ONCE]
                texts = [each.text for each in part]
                for each, found in zip(
                    part, await index.memory.recall_many(texts, AGENT, "auto", coverage=wished), strict=True
                ):
                    sizes.append(len(found))
                    held.append(any(one["flow_name"] in each.gold for one in found))
            numbers = {
                "coverage": fmean(held),
                "mean size": fmean(sizes),
                "median size": float(median(sizes)),
                "share of one": fmean(size == 1 for size in sizes),
                "share of ten": fmean(size == MOST_SIZED for size in sizes),
            }
            found_rows.append(
                {
                    "dataset": dataset.name,
                    "embedder": embedder_label(embedder),
                    "seed": dataset.seed,
                    "wished": wished,
                    "data": dataset.sha256,
                    "requests": len(requests),
                    "numbers": rows.rounded(numbers),
                }
            )
    return found_rows


def main(
    data: DataFolder = None,
    models: ModelsFolder = None,
    embedder: Embedders = None,
    seeds: Seeds = "1,2,3",
    limit: Annotated[int, typer.Option(help="Requests per data set.")] = LIMIT,
    *,
    unclean: Unclean = False,
) -> None:
    """Measure candidate sets, and store the rows."""
    folder, console = data_folder(data), Console()
    book = opened_book("sets", KEY, look=unclean)
    for spec in embedder_specs(embedder, models):
        for dataset in catalogue.each(DATASETS, folder, parsed_seeds(seeds)):
            found = asyncio.run(measured(dataset, spec, limit))
            book.store(*found)
            for row in found:
                console.print(f"{dataset.name} {embedder_label(spec)} {dataset.seed} {row['wished']}: {row['numbers']}")


if __name__ == "__main__":
    typer.run(main)
