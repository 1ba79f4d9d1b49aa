"""Several intents in one request: what taking it apart gives, and costs elsewhere.

`python -m benchmarks.intents --data DIR [--models DIR]`
"""

import asyncio
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console

import jazz_select.memory.recall as product
from benchmarks import metrics, rows
from benchmarks.datasets import catalogue
from benchmarks.datasets.base import Request, sampled
from benchmarks.index import AGENT, Index, indexed
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

DATASETS = (
    "metatool-multi",
    "nlupp-banking-5",
    "nlupp-hotels-5",
    "sealtools",
    "clinc150-5",
    "metatool-single",
    "bfcl-live",
)
KEY = ("dataset", "embedder", "seed")
LIMIT = 500


async def summary(index: Index, requests: Sequence[Request], weight: float) -> dict[str, float]:
    """Every metric, with clauses counting so much."""
    shipped = product.CLAUSE_WEIGHT
    product.CLAUSE_WEIGHT = weight
    try:
        lists = [
            [each["flow_name"] for each in await index.memory.recall(request.text, AGENT, top_k=10)]
            for request in requests
        ]
    finally:
        product.CLAUSE_WEIGHT = shipped
    return rows.rounded(metrics.summary(lists, [request.gold for request in requests]))


async def measured(name: str, embedder: str, seed: int, limit: int, data: DataFolder) -> rows.Row:
    """One row of results."""
    dataset = catalogue.load(name, data_folder(data), seed)
    requests = sampled(dataset.requests, limit, seed)
    async with indexed(dataset.flows, embedder) as index:
        return {
            "dataset": name,
            "embedder": embedder_label(embedder),
            "seed": seed,
            "data": dataset.sha256,
            "requests": len(requests),
            "whole": await summary(index, requests, 0.0),
            "clauses": await summary(index, requests, product.CLAUSE_WEIGHT),
        }


def main(
    data: DataFolder = None,
    models: ModelsFolder = None,
    embedder: Embedders = None,
    seeds: Seeds = "1,2,3",
    limit: Annotated[int, typer.Option(help="Requests per data set.")] = LIMIT,
    *,
    unclean: Unclean = False,
) -> None:
    """Measure both ways, and store the rows."""
    console, book = Console(), opened_book("intents", KEY, look=unclean)
    for spec in embedder_specs(embedder, models):
        for name in DATASETS:
            for seed in parsed_seeds(seeds):
                row = asyncio.run(measured(name, spec, seed, limit, data))
                book.store(row)
                console.print(
                    f"{name} {embedder_label(spec)} {seed}: R@5 {row['whole']['R@5']} -> {row['clauses']['R@5']}"
                )


if __name__ == "__main__":
    typer.run(main)
