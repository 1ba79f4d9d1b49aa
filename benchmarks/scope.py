"""Does recall know when nothing fits? `python -m benchmarks.scope --data DIR [--models DIR]`."""

import asyncio
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import rows, sureness
from benchmarks.datasets import catalogue
from benchmarks.datasets.base import Dataset, sampled
from benchmarks.index import AGENT, Index, indexed
from benchmarks.options import (
    DataFolder,
    Embedders,
    ModelsFolder,
    Unclean,
    data_folder,
    embedder_label,
    embedder_specs,
    opened_book,
    parsed_seeds,
)

DATASETS = ("clinc150-5", "clinc150-10", "bfcl-live")
KEY = ("dataset", "embedder", "seed")
LIMIT = 1_000
THRESHOLD = 0.5
"""Frozen before any test request was seen: below it, nothing more likely fits than fits."""


async def signals(index: Index, texts: list[str], golds: list[frozenset[str]]) -> tuple[list[float], list[bool]]:
    """How likely something fits, and whether the top candidate was right.

    Where the catalogue has no examples, P(in scope) is not known; the best cosine stands in for it.
    """
    chances: list[float] = []
    right: list[bool] = []
    for text, gold in zip(texts, golds, strict=True):
        found = await index.memory.recall(text, AGENT, top_k=3)
        best = max((each["scores"].get("dense", 0.0) for each in found), default=0.0)
        chances.append(best if found.in_scope is None else found.in_scope)
        right.append(bool(found) and found[0]["flow_name"] in gold)
    return chances, right


async def measured(dataset: Dataset, embedder: str, limit: int) -> rows.Row:
    """One row of results."""
    inside = sampled(dataset.requests, limit, dataset.seed)
    outside = list(sampled(dataset.outside, limit, dataset.seed))
    async with indexed(dataset.flows, embedder) as index:
        known = index.model.scope is not None
        chances, right = await signals(index, [each.text for each in inside], [each.gold for each in inside])
        beyond, _ = await signals(index, outside, [frozenset[str]()] * len(outside))
    kept = [chance >= THRESHOLD for chance in chances]
    numbers = {"AUROC": sureness.auroc(chances, beyond), "FPR@95": sureness.fpr_at(chances, beyond)}
    if known:
        numbers["in-scope accuracy"] = sum(a and b for a, b in zip(kept, right, strict=True)) / len(right)
        numbers["OOS recall"] = sum(chance < THRESHOLD for chance in beyond) / len(beyond)
    return {
        "dataset": dataset.name,
        "embedder": embedder_label(embedder),
        "seed": dataset.seed,
        "data": dataset.sha256,
        "signal": "P(in scope)" if known else "best cosine",
        "requests": len(inside) + len(outside),
        "numbers": rows.rounded(numbers),
    }


def main(
    data: DataFolder = None,
    models: ModelsFolder = None,
    embedder: Embedders = None,
    seeds: Annotated[str, typer.Option(help="Seeds of the reported mean.")] = "1,2,3",
    limit: Annotated[int, typer.Option(help="Requests in and out of scope per data set.")] = LIMIT,
    *,
    unclean: Unclean = False,
) -> None:
    """Measure scope, and store the rows."""
    folder, console = data_folder(data), Console()
    book = opened_book("scope", KEY, look=unclean)
    for spec in embedder_specs(embedder, models):
        for name in DATASETS:
            for seed in parsed_seeds(seeds):
                row = asyncio.run(measured(catalogue.load(name, folder, seed), spec, limit))
                book.store(row)
                console.print(f"{name} {embedder_label(spec)} {seed}: {row['signal']} {row['numbers']}")


if __name__ == "__main__":
    typer.run(main)
