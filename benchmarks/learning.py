"""What corrections are worth: `python -m benchmarks.learning --data DIR`.

The training requests of a data set that no flow has as an example are asked of the catalogue, one after the other,
until so many were led wrongly as there are corrections: a person says of each what was right. What is learned from that
passes the gate, and is measured on the test requests, which nobody learned from.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import typer
from rich.console import Console

from benchmarks import rows
from benchmarks.datasets import catalogue
from benchmarks.datasets.base import Dataset, Entry, Files
from benchmarks.datasets.intents import humanised
from benchmarks.index import registry_of
from benchmarks.metrics import mean, percentile
from benchmarks.options import DataFolder, Seeds, Unclean, data_folder, opened_book, parsed_seeds
from jazz_select import FlowRegistry, FlowSelector
from jazz_select.evaluation import Query, Routed, indexed, learn, routes, taught
from jazz_select.evaluation.index import AGENT
from jazz_select.outcomes import Logged, OutcomeLog
from jazz_select.testing import ListMemory

DATASETS = ("clinc150-5", "banking77-5")
KEY = ("dataset", "seed", "a_flow", "said_of", "wrong")
EMBEDDER = "static"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How much is said, of what, and how much of it is wrong."""

    a_flow: int
    """Corrections, for each flow of the catalogue on the average."""
    said_of: str = "all"
    """`all`: also of requests that were led rightly a person says so; `wrong`: nobody does."""
    wrong: float = 0.0
    """The share of corrections that names some other flow."""


SETTINGS = (Setting(a_flow=5), Setting(a_flow=5, wrong=0.1), Setting(a_flow=5, said_of="wrong"))
CURVE = tuple(Setting(a_flow=each) for each in (1, 2, 3, 10))
"""Measured on the first seed alone."""


def training(name: str, data: Path) -> list[tuple[str, str]]:
    """The training requests and their labels."""
    if name.startswith("clinc150"):
        splits = Files(data, "clinc150").json("data_full.json")
        return [(text.strip(), humanised(label)) for text, label in splits["train"]]
    return [(row["text"].strip(), humanised(row["category"])) for row in Files(data, "banking77").csv("train.csv")]


def said(
    stream: Sequence[tuple[str, str]], led: Sequence[Routed], names: Sequence[str], setting: Setting, seed: int
) -> list[Logged]:
    """The log of the requests up to the last correction, with what was said of them."""
    dice, log, left = random.Random(seed), list[Logged](), setting.a_flow * len(names)
    for number, ((text, label), route) in enumerate(zip(stream, led, strict=True)):
        if not left:
            break
        is_led = route.first == label
        left -= not is_led
        entry = Logged(
            id=str(number), at=float(number), request=text, candidates=route.candidates, chosen=(route.first,)
        )
        if not is_led and dice.random() < setting.wrong:
            label = dice.choice([each for each in names if each != label])  # noqa: PLW2901 - what is said of it
        if not is_led or setting.said_of == "all":
            entry = replace(entry, right=(label,), source="user")
        log.append(entry)
    return log


async def led_by(registry: FlowRegistry, requests: Sequence[str]) -> list[Routed]:
    """Where requests lead, over an index of these flows."""
    async with indexed(registry, embedder=EMBEDDER) as memory:
        return await routes(registry, memory, AGENT, [Query(request=each) for each in requests])


async def measured(dataset: Dataset, data: Path, settings: Sequence[Setting]) -> list[rows.Row]:
    """One row for each setting."""
    known = {text for flow in dataset.flows for text in flow.examples}
    stream = [each for each in training(dataset.name, data) if each[0] not in known]
    random.Random(dataset.seed).shuffle(stream)
    registry, asked = registry_of(dataset.flows), [each.text for each in dataset.requests]
    found = await led_by(registry, [*asked, *(text for text, _ in stream)])
    names = [flow.name for flow in dataset.flows]

    def right(led: Sequence[Routed]) -> float:
        return mean([float(route.first in each.gold) for route, each in zip(led, dataset.requests, strict=True)])

    made: list[rows.Row] = []
    for setting in settings:
        log = said(stream, found[len(asked) :], names, setting, dataset.seed)
        learned = await learn(registry, log, embedder=EMBEDDER)
        after = (
            await led_by(taught(registry, learned.version).registry, asked) if learned.version else found[: len(asked)]
        )
        gain = learned.gain
        numbers = {
            "R@1 before": right(found[: len(asked)]),
            "R@1 after": right(after),
            "gate before": gain.before if gain else 0.0,
            "gate after": gain.after if gain and learned.version else gain.before if gain else 0.0,
        }
        told = [each for each in log if each.right is not None]
        made.append(
            {
                "dataset": dataset.name,
                "seed": dataset.seed,
                "a_flow": setting.a_flow,
                "said_of": setting.said_of,
                "wrong": setting.wrong,
                "data": dataset.sha256,
                "embedder": EMBEDDER,
                "requests": len(asked),
                "stream": len(log),
                "corrections": sum(each.first not in (each.right or ()) for each in told),
                "confirmations": sum(each.first in (each.right or ()) for each in told),
                "examples": len(learned.added),
                "doubted": sum("a person should look" in each.why for each in learned.refused),
                "gate": gain.requests if gain else 0,
                "refits": learned.refits,
                "landed": learned.version is not None,
                "numbers": rows.rounded(numbers),
                "took_s": round(learned.took_s, 1),
            }
        )
    return made


async def log_costs(calls: int = 4_000) -> rows.Row:
    """What a log adds to a selection, in microseconds: calls with one and without take turns."""
    registry = registry_of([Entry(name=f"flow {number}", description=f"about {number}") for number in range(10)])
    offered = [{"flow_id": flow.id, "flow_name": flow.name, "confidence": 0.1} for flow in registry.values()]
    memory = ListMemory(offered)
    with TemporaryDirectory(prefix="jazz-bench-") as folder:
        path = Path(folder) / "outcomes.db"
        plain = FlowSelector(None, registry, memory, AGENT, top_k=10)
        async with FlowSelector(None, registry, memory, AGENT, top_k=10, log=path) as logging:
            times: dict[bool, list[float]] = {False: [], True: []}
            for number in range(calls):
                for is_logged in (False, True):
                    began = perf_counter()
                    await (logging if is_logged else plain).select(f"request number {number} about something")
                    times[is_logged].append(perf_counter() - began)
        kept = OutcomeLog.existing(path)
        began = perf_counter()
        entries = sum(1 for _ in kept.read())
        read_s = perf_counter() - began
        without, added = percentile(times[False], 0.5), percentile(times[True], 0.5)
        return {
            "what": "log",
            "calls": calls,
            "entries": entries,
            "dropped": calls - entries,
            "numbers": rows.rounded(
                {
                    "select p50 us": without * 1e6,
                    "added p50 us": (added - without) * 1e6,
                    "added p99 us": (percentile(times[True], 0.99) - percentile(times[False], 0.99)) * 1e6,
                    "read us an entry": read_s / entries * 1e6,
                },
                1,
            ),
        }


def main(data: DataFolder = None, seeds: Seeds = "1,2,3", *, unclean: Unclean = False) -> None:
    """Measure, and store the rows."""
    folder, console = data_folder(data), Console()
    costs = asyncio.run(log_costs())
    opened_book("outcomes", ("what",), look=unclean).store(costs)
    console.print(costs)
    book = opened_book("learning", KEY, look=unclean)
    first, *others = parsed_seeds(seeds)
    for dataset in catalogue.each(DATASETS, folder, [first, *others]):
        for row in asyncio.run(measured(dataset, folder, SETTINGS + (CURVE if dataset.seed == first else ()))):
            book.store(row)
            shown = {name: row[name] for name in (*KEY, "corrections", "examples", "doubted", "refits", "took_s")}
            console.print(shown, row["numbers"])


if __name__ == "__main__":
    typer.run(main)
