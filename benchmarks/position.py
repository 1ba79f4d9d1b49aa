"""Does it matter where a candidate stands? A model that goes by position, asked in several ways.

`python -m benchmarks.position --data DIR`. The model is scripted: on a share of requests it takes
whatever stands first in the prompt, on the others it is right wherever the right flow is offered. So
the figures say what an order and a second reading do to such a bias, not how biased any model is.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Annotated, Any
from xml.etree import ElementTree as ET

import typer
from rich.console import Console

from benchmarks import rows
from benchmarks.datasets import catalogue
from benchmarks.datasets.base import Dataset, sampled
from benchmarks.index import AGENT, indexed, registry_of
from benchmarks.options import DataFolder, Unclean, data_folder, opened_book, parsed_seeds
from jazz_select import FlowSelector
from jazz_select.values import Message, Reply

DATASETS = ("clinc150-5", "banking77-5")
KEY = ("dataset", "bias", "way", "seed")
BIASES = (0.0, 0.25, 0.5)
TOP_K = 5
LIMIT = 1_000
WAYS: dict[str, dict[str, Any]] = {
    "rank": {"candidate_order": "rank"},
    "rank, second reading": {"candidate_order": "rank", "second_read": True},
    "stable": {"candidate_order": "stable"},
    "shuffled": {"candidate_order": "shuffled"},
    "shuffled, second reading": {"candidate_order": "shuffled", "second_read": True},
}


class Biased:
    """Takes the first candidate on so many requests, chosen by their hash; the right one on the others."""

    name = "biased"

    def __init__(self, bias: float, right: dict[str, str]) -> None:
        self._bias = bias
        self._right = right
        self.calls = 0

    async def complete(self, messages: Sequence[Message]) -> Reply:
        """An array with one id, or none where the right flow is not offered."""
        self.calls += 1
        root = ET.fromstring(messages[1].content)  # noqa: S314 - our own text
        flows = [(node.get("id", ""), node.get("name", "")) for node in root.iter("flow")]
        request = root.findtext("request") or ""
        if int(hashlib.sha256(request.encode()).hexdigest()[:8], 16) / 2**32 < self._bias:
            return Reply(text=f'["{flows[0][0]}"]')
        chosen = [number for number, name in flows if name == self._right.get(request)]
        return Reply(text=f'["{chosen[0]}"]' if chosen else "[]")


async def measured(dataset: Dataset, limit: int) -> list[rows.Row]:
    """One row for each bias and way."""
    asked = sampled(dataset.requests, limit, dataset.seed)
    right = {request.text: next(iter(request.gold)) for request in asked}
    found: list[rows.Row] = []
    async with indexed(dataset.flows, "static") as index:
        candidates = [await index.memory.recall(request.text, AGENT, top_k=TOP_K) for request in asked]
        registry = registry_of(dataset.flows)
        for bias in BIASES:
            for way, options in WAYS.items():
                model = Biased(bias, right)
                selector = FlowSelector(model, registry, **options)
                results = [
                    await selector.select(request.text, recalled)
                    for request, recalled in zip(asked, candidates, strict=True)
                ]
                hits = sum(
                    result.names == [right[request.text]] for request, result in zip(asked, results, strict=True)
                )
                found.append(
                    {
                        "dataset": dataset.name,
                        "bias": bias,
                        "way": way,
                        "seed": dataset.seed,
                        "data": dataset.sha256,
                        "requests": len(asked),
                        "numbers": rows.rounded({"accuracy": hits / len(asked), "calls": model.calls / len(asked)}),
                    }
                )
    return found


def main(
    data: DataFolder = None,
    seeds: Annotated[str, typer.Option(help="Seeds of the reported mean.")] = "1,2,3",
    limit: Annotated[int, typer.Option(help="Requests per data set.")] = LIMIT,
    *,
    unclean: Unclean = False,
) -> None:
    """Measure every way at every bias, and store the rows."""
    folder, console = data_folder(data), Console()
    book = opened_book("position", KEY, look=unclean)
    for name in DATASETS:
        for seed in parsed_seeds(seeds):
            found = asyncio.run(measured(catalogue.load(name, folder, seed), limit))
            book.store(*found)
            console.print(f"{name} {seed}: {len(found)} rows")


if __name__ == "__main__":
    typer.run(main)
