"""Does recall know when nothing fits? `python -m benchmarks.scope --data DIR [--models DIR]`.

Asked of each data set: its own requests from outside, where it has any; near misses, which are requests for a third of
its entries with that third not in the catalogue; and requests of another data set, which lie far away.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from benchmarks import rows, sureness
from benchmarks.datasets import catalogue
from benchmarks.datasets.base import Dataset, sampled, shuffled
from benchmarks.index import AGENT, Index, indexed, registry_of
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
from jazz_select.memory.encoder import indexable
from jazz_select.stages import OUTSIDE, confidence_if_some

DATASETS = ("clinc150-5", "clinc150-10", "banking77-5", "banking77-10", "bfcl-live", "metatool-single")
OTHER = {"clinc150": "banking77-5", "banking77": "clinc150-5"}
BANKING = frozenset(
    name.strip()
    for name in """transfer, transactions, balance, freeze account, pay bill, bill balance, bill due, interest rate,
    routing, min payment, order checks, pin change, report fraud, account blocked, spending history, replacement card
    duration, expiration date, damaged card, improve credit score, report lost card, card declined, credit limit change,
    apr, redeem rewards, credit limit, rewards balance, application status, credit score, new card, international fees,
    exchange rate""".replace("\n", " ").split(",")
)
"""Intents of CLINC150 that BANKING77 knows too: its domains of banks and cards, and one of travel."""
KEY = ("dataset", "embedder", "seed")
LIMIT = 1_000
THRESHOLD = 1 - OUTSIDE
"""Frozen before any test request was seen: below it, the request speaks against a flow."""
DEPTH = 10


def asked(dataset: Dataset, folder: Path) -> Iterator[Dataset]:
    """The data set with each kind of requests that nothing answers."""
    if dataset.outside:
        yield dataset
    yield near(dataset)
    family = dataset.name.partition("-")[0]
    if family in OTHER:
        yield far(dataset, catalogue.load(OTHER[family], folder, dataset.seed))


def near(dataset: Dataset) -> Dataset:
    """Without a third of its entries, which the seed draws, and with their requests as those from outside."""
    names = shuffled(sorted(entry.name for entry in dataset.flows), dataset.seed)
    gone = frozenset(names[: len(names) // 3])
    return replace(
        _without(dataset, gone),
        name=f"{dataset.name} near",
        outside=tuple(each.text for each in dataset.requests if each.gold <= gone),
    )


def far(dataset: Dataset, other: Dataset) -> Dataset:
    """With the requests of another data set as those from outside, and without what both know."""
    left = _without(dataset, BANKING)
    outside = tuple(each.text for each in other.requests if not each.gold & BANKING)
    return replace(left, name=f"{dataset.name} far", outside=outside)


def _without(dataset: Dataset, gone: frozenset[str]) -> Dataset:
    return replace(
        dataset,
        flows=tuple(entry for entry in dataset.flows if entry.name not in gone),
        requests=tuple(each for each in dataset.requests if not each.gold & gone),
    )


async def signals(index: Index, prototypes: Any, texts: list[str]) -> tuple[dict[str, list[float]], list[str]]:
    """What each signal says of each request (more is more likely inside), and the first candidate."""
    told: dict[str, list[float]] = {}
    first: list[str] = []
    for text in texts:
        found = await index.memory.recall(text, AGENT, top_k=DEPTH)
        words = index.encoder.lexical.query(indexable(text))
        terms = max(1, len(words.indices) if words else 0)
        vector = index.encoder.requests([indexable(text)])[0]
        cosines = [each["scores"].get("dense", 0.0) for each in found] or [0.0]
        matched = [each["scores"].get("bm25", 0.0) for each in found] or [0.0]
        scores = [*(each["score"] for each in found), 0.0, 0.0]
        best = max(cosines)
        confidence = found[0]["confidence"] if found else 0.0
        row = {
            "best cosine": best,
            "best cosine, not aimed": 0.0 if vector is None else float((prototypes @ vector).max()),
            "share of words": max(matched) / terms,
            "lead of the first": scores[0] - scores[1],
            "agreement": matched[cosines.index(best)] / max(*matched, 1e-9),
        }
        if confidence is not None:
            row["confidence of the first"] = confidence_if_some(confidence, found.p_none)
        if found.p_none is not None:
            row["P(none)"] = 1 - found.p_none
        for name, value in row.items():
            told.setdefault(name, []).append(value)
        first.append(found[0]["flow_name"] if found else "")
    return told, first


async def measured(dataset: Dataset, embedder: str, limit: int) -> rows.Row:
    """One row of results. Where P(none) is not known, the best cosine stands in for it."""
    inside = sampled(dataset.requests, limit, dataset.seed)
    outside = list(sampled(dataset.outside, limit, dataset.seed))
    async with indexed(dataset.flows, embedder) as index:
        vectors = index.encoder.rows([flow.card() for flow in registry_of(dataset.flows).values()])
        sums = np.stack([each.sum(axis=0) for each in vectors.values()])
        prototypes = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9)
        told, first = await signals(index, prototypes, [each.text for each in inside])
        beyond, _ = await signals(index, prototypes, outside)
    signal = "P(none)" if "P(none)" in told else "best cosine"
    chances, foreign = told[signal], beyond[signal]
    numbers = {"AUROC": sureness.auroc(chances, foreign), "FPR@95": sureness.fpr_at(chances, foreign)}
    if signal == "P(none)":
        kept = [chance >= THRESHOLD for chance in chances]
        right = [name in each.gold for name, each in zip(first, inside, strict=True)]
        numbers["in-scope accuracy"] = sum(a and b for a, b in zip(kept, right, strict=True)) / len(right)
        numbers["OOS recall"] = sum(chance < THRESHOLD for chance in foreign) / len(foreign)
    return {
        "dataset": dataset.name,
        "embedder": embedder_label(embedder),
        "seed": dataset.seed,
        "data": dataset.sha256,
        "signal": signal,
        "requests": len(inside) + len(outside),
        "numbers": rows.rounded(numbers),
        "singles": rows.rounded({name: sureness.auroc(told[name], beyond[name]) for name in told if name != "P(none)"}),
    }


def main(
    data: DataFolder = None,
    models: ModelsFolder = None,
    embedder: Embedders = None,
    seeds: Seeds = "1,2,3",
    limit: Annotated[int, typer.Option(help="Requests in and out of scope per data set.")] = LIMIT,
    *,
    unclean: Unclean = False,
) -> None:
    """Measure scope, and store the rows."""
    folder, console = data_folder(data), Console()
    book = opened_book("scope", KEY, look=unclean)
    for spec in embedder_specs(embedder, models):
        for whole in catalogue.each(DATASETS, folder, parsed_seeds(seeds)):
            for dataset in asked(whole, folder):
                row = asyncio.run(measured(dataset, spec, limit))
                book.store(row)
                console.print(f"{dataset.name} {embedder_label(spec)} {whole.seed}: {row['numbers']} {row['singles']}")


if __name__ == "__main__":
    typer.run(main)
