"""Do episode summaries help a vague request, and leave a clear one alone?

`python -m benchmarks.episodes --data DIR [--models DIR]`
"""

import asyncio
import random
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import rows
from benchmarks.datasets import catalogue
from benchmarks.datasets.base import Dataset
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

DATASETS = ("clinc150-5", "banking77-5")
KEY = ("dataset", "embedder", "seed")
LIMIT = 400
VAGUE = (
    "I need help with that",
    "could you take care of it",
    "yes, let's do that",
    "how would that work",
    "and what now",
    "please go on with it",
    "the thing from before",
    "I still want that",
)


async def share(index: Index, dataset: Dataset, way: str, *, vague: bool, limit: int) -> float:
    """R@1 by one way of using the summary: `none`, `concatenated`, or `weighed`, as a selector does."""
    draw = random.Random(dataset.seed)
    asked, others = draw.sample(list(dataset.requests), limit), draw.sample(list(dataset.requests), limit)
    right = 0
    for request, other in zip(asked, others, strict=True):
        said = draw.choice(VAGUE) if vague else request.text
        summary = f"The user asked earlier: {(request if vague else other).text}"
        query = said if way == "none" else f"{said} {summary}"
        found = await index.memory.recall(query, AGENT, top_k=1, focus=said if way == "weighed" else "")
        right += bool(found) and found[0]["flow_name"] in request.gold
    return right / limit


async def measured(dataset: Dataset, embedder: str, limit: int) -> rows.Row:
    """One row of results."""
    async with indexed(dataset.flows, embedder) as index:
        numbers = {
            f"{kind}, {way}": await share(index, dataset, way, vague=kind == "vague", limit=limit)
            for kind in ("vague", "clear")
            for way in ("none", "concatenated", "weighed")
        }
    return {
        "dataset": dataset.name,
        "embedder": embedder_label(embedder),
        "seed": dataset.seed,
        "data": dataset.sha256,
        "requests": limit,
        "numbers": rows.rounded(numbers),
    }


def main(
    data: DataFolder = None,
    models: ModelsFolder = None,
    embedder: Embedders = None,
    seeds: Seeds = "1,2,3",
    limit: Annotated[int, typer.Option(help="Requests of each kind per data set.")] = LIMIT,
    *,
    unclean: Unclean = False,
) -> None:
    """Measure all ways, and store the rows."""
    folder, console = data_folder(data), Console()
    book = opened_book("episodes", KEY, look=unclean)
    for spec in embedder_specs(embedder, models):
        for dataset in catalogue.each(DATASETS, folder, parsed_seeds(seeds)):
            row = asyncio.run(measured(dataset, spec, limit))
            book.store(row)
            console.print(f"{dataset.name} {embedder_label(spec)} {dataset.seed}: {row['numbers']}")


if __name__ == "__main__":
    typer.run(main)
