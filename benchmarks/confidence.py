"""Is confidence true, and what is it good for? `python -m benchmarks.confidence --data DIR [--models DIR]`."""

import asyncio
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from benchmarks import rows, sureness
from benchmarks.datasets import catalogue
from benchmarks.datasets.base import Dataset, Entry, Request, sampled, shuffled
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
from jazz_select.memory.embedders.known_embedders import open_embedder
from jazz_select.ports import Embedder, Vectors
from jazz_select.stages import confidence_if_some

DATASETS = ("clinc150-5", "clinc150-10", "banking77-5", "banking77-10")
KEY = ("dataset", "embedder", "seed")
PLOTS = Path(__file__).parent / "plots"
LIMIT = 1_500
"""Requests asked per data set, drawn with the seed."""
SMALL, SMALL_OF = (8, 16, 24, 40), ("clinc150-5", "banking77-5")
DRAWS, CASES, SMALL_LIMIT = 4, 32, 400
"""Small catalogues of each size and seed, labelled requests that they are given, and requests asked of each."""
_TWINS = 3
"""How many are drawn with each, where near twins are drawn."""


async def asked(
    dataset: Dataset, embedder: str | Embedder, cases: Sequence[Request] = ()
) -> tuple[list[float], list[bool]]:
    """P(the first candidate is right) of each request, and whether it was right.

    All requests are for some flow, so that is known: the confidence is divided by P(some flow is right).
    """
    chances: list[float] = []
    right: list[bool] = []
    labelled = [(each.text, min(each.gold)) for each in cases]
    async with indexed(dataset.flows, embedder, cases=labelled) as index:
        for request in dataset.requests:
            found = await index.memory.recall(request.text, AGENT, top_k=1)
            if found:
                chances.append(confidence_if_some(found[0]["confidence"], found.p_none))
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
                "AUROC": sureness.auroc(good, wrong) if good and wrong else 1.0,
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


def small(dataset: Dataset, flows: int, draw: int) -> Dataset:
    """A small catalogue of the same kind: every other draw is of near twins, four and four.

    Twins are the entries whose examples share most words.
    """
    rng = random.Random(f"{dataset.seed}:{flows}:{draw}")
    left = sorted(dataset.flows, key=lambda entry: entry.name)
    rng.shuffle(left)
    if draw % 2:
        taken: list[Entry] = []
        while len(taken) < flows:
            first = left.pop()
            left.sort(key=lambda entry: _alike(first, entry))
            taken += [first, *(left.pop() for _ in range(_TWINS))]
            rng.shuffle(left)
        left = taken
    kept = {entry.name for entry in left[:flows]}
    return replace(
        dataset,
        flows=tuple(entry for entry in dataset.flows if entry.name in kept),
        requests=shuffled((each for each in dataset.requests if each.gold <= kept), dataset.seed),
    )


def _alike(one: Entry, other: Entry) -> float:
    mine, others = (set(" ".join((each.name, *each.examples)).lower().split()) for each in (one, other))
    return len(mine & others) / len(mine | others)


def small_rows(dataset: Dataset, embedder: str) -> Iterator[rows.Row]:
    """The means over several small catalogues, each without and with labelled requests.

    Both are asked the same requests, which are others than those.
    """
    opened = Remembering(open_embedder(embedder))
    for flows in SMALL:
        for count in (0, CASES):
            found: list[rows.Row] = []
            for draw in range(DRAWS):
                drawn = small(dataset, flows, draw)
                cases, requests = drawn.requests[:CASES], drawn.requests[CASES : CASES + SMALL_LIMIT]
                drawn = replace(drawn, requests=requests)
                found.append(row_of(drawn, embedder, *asyncio.run(asked(drawn, opened, cases[:count]))))
            numbers = {name: fmean(row["numbers"][name] for row in found) for name in found[0]["numbers"]}
            numbers["worst ECE"] = max(row["numbers"]["ECE"] for row in found)
            label = f"{dataset.name}, {flows} flows{f', {count} cases' if count else ''}"
            yield {
                **found[0],
                "dataset": label,
                "requests": sum(row["requests"] for row in found),
                "numbers": rows.rounded(numbers),
            }


class Remembering:
    """An embedder that is asked each text once: small catalogues share theirs."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self._seen: dict[str, Vectors] = {}
        self.identity, self.dim, self.offload = inner.identity, inner.dim, inner.offload

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row per text."""
        new = [text for text in dict.fromkeys(texts) if text not in self._seen]
        self._seen |= zip(new, self._inner.embed(new), strict=True) if new else ()
        return np.stack([self._seen[text] for text in texts]) if texts else self._inner.embed([])

    def embed_query(self, text: str) -> Vectors:
        """The vector of a request."""
        if text not in self._seen:
            self._seen[text] = self._inner.embed_query(text)
        return self._seen[text]


def main(
    data: DataFolder = None,
    models: ModelsFolder = None,
    embedder: Embedders = None,
    seeds: Seeds = "1,2,3",
    limit: Annotated[int, typer.Option(help="Requests per data set.")] = LIMIT,
    *,
    unclean: Unclean = False,
) -> None:
    """Measure confidence, store the rows, draw the plots of the first seed."""
    folder, console = data_folder(data), Console()
    book = opened_book("confidence", KEY, look=unclean)
    calibration: dict[str, list[tuple[float, float]]] = {}
    coverage: dict[str, list[tuple[float, float]]] = {}
    specs = embedder_specs(embedder, models)
    for spec in specs:
        for whole in catalogue.each(SMALL_OF, folder, parsed_seeds(seeds)):
            for row in small_rows(whole, spec):
                book.store(row)
                console.print(f"{row['dataset']} {embedder_label(spec)} {whole.seed}: {row['numbers']}")
    for spec in specs:
        for whole in catalogue.each(DATASETS, folder, parsed_seeds(seeds)):
            dataset = replace(whole, requests=sampled(whole.requests, limit, whole.seed))
            chances, right = asyncio.run(asked(dataset, spec))
            row = row_of(dataset, spec, chances, right)
            book.store(row)
            console.print(f"{dataset.name} {embedder_label(spec)} {dataset.seed}: {row['numbers']}")
            label = f"{dataset.name}, {embedder_label(spec)}"
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
