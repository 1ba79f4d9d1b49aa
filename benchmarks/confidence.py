"""Is confidence true, and what is it good for? `python -m benchmarks.confidence --data DIR [--models DIR]`."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import rows, sureness
from benchmarks.datasets import catalogue
from benchmarks.datasets.base import Dataset, sampled
from benchmarks.index import AGENT, indexed
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

DATASETS = ("clinc150-5", "clinc150-10", "banking77-5", "banking77-10")
KEY = ("dataset", "embedder", "seed")
PLOTS = Path(__file__).parent / "plots"
LIMIT = 1_500
"""Requests asked per data set, drawn with the seed."""


async def asked(dataset: Dataset, embedder: str) -> tuple[list[float], list[bool]]:
    """The confidence in each top candidate, and whether it was right."""
    chances: list[float] = []
    right: list[bool] = []
    async with indexed(dataset.flows, embedder) as index:
        for request in dataset.requests:
            found = await index.memory.recall(request.text, AGENT, top_k=1)
            if found:
                chances.append(found[0]["confidence"])
                right.append(found[0]["flow_name"] in request.gold)
    return chances, right


def row_of(dataset: Dataset, embedder: str, chances: list[float], right: list[bool]) -> rows.Row:
    """One row of results."""
    wrong = [chance for chance, is_right in zip(chances, right, strict=True) if not is_right]
    good = [chance for chance, is_right in zip(chances, right, strict=True) if is_right]
    return {
        "dataset": dataset.name,
        "embedder": embedder_label(embedder),
        "seed": dataset.seed,
        "data": dataset.sha256,
        "requests": len(chances),
        "numbers": rows.rounded(
            {
                "accuracy": sum(right) / len(right),
                "ECE": sureness.ece(chances, right),
                "AUROC": sureness.auroc(good, wrong),
                "saved@98": sureness.coverage_at(chances, right, 0.98),
                "saved@99": sureness.coverage_at(chances, right, 0.99),
                **{
                    f"{what} p>={threshold}": value
                    for threshold in (0.95, 0.98)
                    for what, value in sureness.frozen(chances, right, threshold).items()
                },
            }
        ),
    }


def main(
    data: DataFolder = None,
    models: ModelsFolder = None,
    embedder: Embedders = None,
    seeds: Annotated[str, typer.Option(help="Seeds of the reported mean.")] = "1,2,3",
    limit: Annotated[int, typer.Option(help="Requests per data set.")] = LIMIT,
    *,
    unclean: Unclean = False,
) -> None:
    """Measure confidence, store the rows, draw the plots of the first seed."""
    folder, console = data_folder(data), Console()
    book = opened_book("confidence", KEY, look=unclean)
    calibration: dict[str, list[tuple[float, float]]] = {}
    coverage: dict[str, list[tuple[float, float]]] = {}
    for spec in embedder_specs(embedder, models):
        for name in DATASETS:
            for seed in parsed_seeds(seeds):
                whole = catalogue.load(name, folder, seed)
                dataset = Dataset(
                    name=whole.name,
                    flows=whole.flows,
                    requests=sampled(whole.requests, limit, seed),
                    seed=seed,
                    sha256=whole.sha256,
                )
                chances, right = asyncio.run(asked(dataset, spec))
                row = row_of(dataset, spec, chances, right)
                book.store(row)
                console.print(f"{name} {embedder_label(spec)} {seed}: {row['numbers']}")
                label = f"{name}, {embedder_label(spec)}"
                if label not in calibration:
                    bins = sureness.reliability(chances, right)
                    calibration[label] = [(claimed, actual) for claimed, actual, share in bins if share > 0.01]  # noqa: PLR2004
                    coverage[label] = sureness.curve(chances, right)
    if unclean:
        return
    sureness.plot(PLOTS / "reliability.png", calibration, x="claimed", y="right", diagonal=True)
    sureness.plot(PLOTS / "coverage.png", coverage, x="share of requests, surest first", y="accuracy")


if __name__ == "__main__":
    typer.run(main)
