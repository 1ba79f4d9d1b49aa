"""Is another router's fitted confidence truer than ours? `python -m benchmarks.peer_confidence --data DIR`.

semantic-router 1.1 fits its confidence to labelled requests (`fit`). Recall fits its own to the flows' examples, and
may get labelled requests beside. Both have the same flows, and are asked the same other requests.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Final

import typer
from rich.console import Console

from benchmarks import confidence, rows, sureness
from benchmarks.datasets import catalogue
from benchmarks.datasets.base import Dataset, Request, sampled, shuffled
from benchmarks.options import (
    DataFolder,
    Embedders,
    Seeds,
    Unclean,
    data_folder,
    embedder_label,
    opened_book,
    parsed_seeds,
)
from benchmarks.peers import OURS, asked_peer, peers_python

DATASETS: Final = ("clinc150-5", "banking77-5")
KEY: Final = ("dataset", "embedder", "seed", "system", "labels")
LABELS: Final = (0, 100, 500)
"""How many labelled requests there are to fit to."""
LIMIT: Final = 1_000
"""Requests that are asked."""
FITTED: Final = "semantic-router, hybrid, fitted"


def row_of(
    dataset: Dataset, embedder: str, system: str, labels: int, chances: list[float], right: list[bool]
) -> rows.Row:
    """One row of results."""
    good = [chance for chance, is_right in zip(chances, right, strict=True) if is_right]
    wrong = [chance for chance, is_right in zip(chances, right, strict=True) if not is_right]
    numbers = {
        "accuracy": len(good) / len(right),
        "ECE": sureness.ece(chances, right),
        "AUROC": sureness.auroc(good, wrong) if good and wrong else 1.0,
        "alone@99": sureness.coverage_at(chances, right, 0.99),
    }
    return {
        "dataset": dataset.name,
        "embedder": embedder_label(embedder),
        "seed": dataset.seed,
        "system": system,
        "labels": labels,
        "data": dataset.sha256,
        "requests": len(right),
        "numbers": rows.rounded(numbers),
    }


def theirs(dataset: Dataset, embedder: str, labelled: Sequence[Request]) -> tuple[list[float], list[bool]]:
    """How sure semantic-router is of its first route, and whether that is right, after `fit`.

    Raises:
        PeersMissingError: It cannot be installed here.
        RuntimeError: It failed.
    """
    answer = asked_peer(peers_python(), FITTED, dataset, embedder, labelled)
    if "error" in answer:
        raise RuntimeError(answer["error"])
    pairs = [(float(sure), name) for name, sure in answer["ranked"]]
    right = [name in request.gold for (_, name), request in zip(pairs, dataset.requests, strict=True)]
    return [sure for sure, _ in pairs], right


def main(
    data: DataFolder = None,
    embedder: Embedders = None,
    seeds: Seeds = "1,2,3",
    limit: Annotated[int, typer.Option(help="Requests that are asked, per data set.")] = LIMIT,
    dataset: Annotated[list[str] | None, typer.Option(help="Data sets; may be repeated.")] = None,
    *,
    unclean: Unclean = False,
) -> None:
    """Measure both, and store the rows."""
    folder, console = data_folder(data), Console()
    book = opened_book("peer_confidence", KEY, look=unclean)
    for spec in embedder or ["static"]:
        for whole in catalogue.each(dataset or DATASETS, folder, parsed_seeds(seeds)):
            mixed = shuffled(whole.requests, whole.seed)
            pool, others = mixed[: max(LABELS)], mixed[max(LABELS) :]
            part = replace(whole, requests=sampled(others, limit, whole.seed))
            for labels in LABELS:
                given = pool[:labels]
                found = {OURS: asyncio.run(confidence.asked(part, spec, given))}
                if labels:
                    found[FITTED] = theirs(part, spec, given)
                for system, (chances, right) in found.items():
                    row = row_of(part, spec, system, labels, chances, right)
                    book.store(row)
                    console.print(f"{part.name} {part.seed} {system} {labels}: {row['numbers']}")


if __name__ == "__main__":
    typer.run(main)
