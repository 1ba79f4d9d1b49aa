"""What corrections are worth: `python -m benchmarks.learning --data DIR`.

The training requests of a data set that no flow has as an example are asked of the catalogue, one after the other,
until so many were led wrongly as there are corrections: a person says of each what was right. What is learned from that
is measured on the test requests, which nobody learned from.

A second question: fifty corrections by a person, and ten lies by one client, in a small and thin catalogue whose users
speak of some flows in words of their own. `--only topics` asks that one alone.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import rows
from benchmarks.datasets import catalogue
from benchmarks.datasets.base import Dataset, Entry, Files
from benchmarks.datasets.intents import humanised
from benchmarks.index import registry_of
from benchmarks.metrics import mean, percentile
from benchmarks.options import DataFolder, Embedders, Seeds, Unclean, data_folder, opened_book, parsed_seeds
from jazz_select import FlowRegistry, FlowSelector
from jazz_select.evaluation import Case, Query, Routed, indexed, learn, routes, taught
from jazz_select.evaluation.checks.wording import content
from jazz_select.evaluation.index import AGENT
from jazz_select.outcomes import Logged, OutcomeLog, Source
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
            entry = replace(entry, right=(label,), corrected_by=PERSON)
        log.append(entry)
    return log


async def led_by(registry: FlowRegistry, requests: Sequence[str], embedder: str = EMBEDDER) -> list[Routed]:
    """Where requests lead, over an index of these flows."""
    async with indexed(registry, embedder=embedder) as memory:
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
        gain = learned.cost.gain if learned.cost else None
        numbers = {
            "R@1 before": right(found[: len(asked)]),
            "R@1 after": right(after),
            "gate before": gain.before if gain else 0.0,
            "gate after": gain.after if gain else 0.0,
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
                "gate": gain.requests if gain else 0,
                "lost": len(learned.cost.lost) if learned.cost else 0,
                "numbers": rows.rounded(numbers),
                "took_s": round(learned.took_s, 1),
            }
        )
    return made


FLOWS, TOPICS, EXAMPLES, CASES = 60, 20, 3, 100
RIGHT, WRONG, CONFIRMED = 50, 10, 0.2
"""Corrections by a person, lies by a client, and the share of rightly led requests of which the person says so."""
PERSON, CLIENT = Source(kind="person", name="reviewer"), Source(kind="user", key="client")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A thin catalogue, what was said of requests, and requests to judge by."""

    registry: FlowRegistry
    log: list[Logged]
    wrong: frozenset[str]
    """Texts that were corrected wrongly, by one client."""
    parts: dict[str, list[tuple[str, str]]]
    """`held`: unseen requests for the topics in their users' words. `gate`: the labelled requests that learning is
    given; `apart`: as many that it is not; both in the words of the catalogue. `all`: every test request for any flow.
    """


def parted(texts: Sequence[str], known: frozenset[str], dice: random.Random) -> tuple[list[str], list[str]]:
    """The third that shares the fewest words with what a flow says of itself, and the rest, each shuffled."""

    def shared(text: str) -> float:
        words = content(text)
        return len(words & known) / len(words) if words else 1.0

    ranked = sorted(texts, key=lambda text: (shared(text), text))
    own, plain = ranked[: len(ranked) // 3], ranked[len(ranked) // 3 :]
    dice.shuffle(own)
    dice.shuffle(plain)
    return own, plain


async def scene(dataset: Dataset, data: Path, embedder: str) -> Scene:  # noqa: PLR0914 - what a scene is drawn from
    """Draw a scene: of two requests in the stream one is for a topic, in words that the catalogue does not have."""
    dice, of_flow, asked = (
        random.Random(dataset.seed),
        defaultdict[str, list[str]](list),
        defaultdict[str, list[str]](list),
    )
    for text, label in dict(training(dataset.name, data)).items():
        of_flow[label].append(text)
    for request in dataset.requests:
        asked[next(iter(request.gold))].append(request.text)
    names = dice.sample(sorted(of_flow), FLOWS)
    topics = sorted(dice.sample(names, TOPICS))
    shots = {name: dice.sample(of_flow[name], EXAMPLES) for name in names}
    known = {name: frozenset[str]().union(content(name), *map(content, shots[name])) for name in names}
    texts = {
        name: parted([text for text in of_flow[name] if text not in shots[name]], known[name], dice) for name in names
    }
    cases = [(text, name) for name in names for text in texts[name][1][:4]]
    dice.shuffle(cases)
    cases = cases[: 2 * CASES]
    plain = [each for name in names for text in texts[name][1] if (each := (text, name)) not in cases]
    own = [(text, name) for name in topics for text in texts[name][0]]
    dice.shuffle(plain)
    dice.shuffle(own)
    stream = [each for pair in zip(own, plain, strict=False) for each in pair]
    registry = registry_of([Entry(name=name, description=name, examples=tuple(shots[name])) for name in names])
    log, wrong = told(stream, await led_by(registry, [text for text, _ in stream], embedder), names, dice)
    held = [(text, name) for name in topics for text in parted(asked[name], known[name], dice)[0]]
    every = [(text, name) for name in names for text in asked[name]]
    parts = {"held": held, "gate": cases[:CASES], "apart": cases[CASES:], "all": every}
    return Scene(registry=registry, log=log, wrong=wrong, parts=parts)


def told(
    stream: Sequence[tuple[str, str]], led: Sequence[Routed], names: Sequence[str], dice: random.Random
) -> tuple[list[Logged], frozenset[str]]:
    """The log up to the last correction, and the texts that were corrected wrongly.

    Every second wrong one names any flow, the others the candidate that comes next.
    """
    log, right, wrong = list[Logged](), 0, list[str]()
    for number, ((text, label), route) in enumerate(zip(stream, led, strict=True)):
        said = ""
        if right == RIGHT and len(wrong) == WRONG:
            break
        if len(wrong) < WRONG and dice.random() < WRONG / (RIGHT + WRONG) / (1 + (route.first == label)):
            others = [each for each in (names, route.ranking)[len(wrong) % 2] if each not in {label, route.first}]
            said = others[0] if len(wrong) % 2 else dice.choice(others)
            wrong.append(text)
        elif route.first != label and right < RIGHT:
            said, right = label, right + 1
        elif route.first == label and dice.random() < CONFIRMED:
            said = label
        entry = Logged(
            id=str(number), at=float(number), request=text, candidates=route.candidates, chosen=(route.first,)
        )
        by = CLIENT if text in wrong else PERSON
        log.append(replace(entry, right=(said,), corrected_by=by) if said else entry)
    return log, frozenset(wrong)


async def topics_measured(dataset: Dataset, data: Path, embedder: str) -> rows.Row:
    """What is right first before and after learning, in each part, and which corrections became examples."""
    drawn = await scene(dataset, data, embedder)
    asked = [each for part in drawn.parts.values() for each in part]
    cases = [Case(request=text, expect=(name,)) for text, name in drawn.parts["gate"]]

    async def right(registry: FlowRegistry, when: str) -> dict[str, float]:
        led = iter(await led_by(registry, [text for text, _ in asked], embedder))
        return {
            f"{name} {when}": mean([float(next(led).first == label) for _, label in part])
            for name, part in drawn.parts.items()
        }

    learned = await learn(drawn.registry, drawn.log, gate_cases=cases, embedder=embedder)
    after = taught(drawn.registry, learned.version).registry
    texts = {each.request for each in learned.added if each.first != each.flow}
    numbers = await right(drawn.registry, "before") | await right(after, "after")
    return {
        "dataset": dataset.name,
        "seed": dataset.seed,
        "embedder": embedder,
        "data": dataset.sha256,
        "requests": {name: len(part) for name, part in drawn.parts.items()},
        "confirmations": sum(each.right == (each.first,) for each in drawn.log),
        "learned": len(learned.added),
        "right learned": len(texts - drawn.wrong),
        "wrong learned": len({each.request for each in learned.added} & drawn.wrong),
        "lost": len(learned.cost.lost) if learned.cost else 0,
        "numbers": rows.rounded(numbers),
        "took_s": round(learned.took_s, 1),
    }


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


def main(
    data: DataFolder = None,
    embedders: Embedders = None,
    seeds: Seeds = "1,2,3",
    *,
    only: Annotated[str, typer.Option(help="`topics`: the second question alone.")] = "",
    unclean: Unclean = False,
) -> None:
    """Measure, and store the rows; the second question by each embedder, the first by static vectors."""
    folder, console = data_folder(data), Console()
    book = opened_book("learning_topics", ("dataset", "seed", "embedder"), look=unclean)
    for dataset in catalogue.each(DATASETS, folder, parsed_seeds(seeds)):
        for embedder in embedders or ["static", "minilm"]:
            row = asyncio.run(topics_measured(dataset, folder, embedder))
            book.store(row)
            console.print(row)
    if only != "topics":
        _corrections_of_all(folder, seeds, console, unclean=unclean)


def _corrections_of_all(folder: Path, seeds: str, console: Console, *, unclean: bool) -> None:
    costs = asyncio.run(log_costs())
    opened_book("outcomes", ("what",), look=unclean).store(costs)
    console.print(costs)
    book = opened_book("learning", KEY, look=unclean)
    first, *others = parsed_seeds(seeds)
    for dataset in catalogue.each(DATASETS, folder, [first, *others]):
        for row in asyncio.run(measured(dataset, folder, SETTINGS + (CURVE if dataset.seed == first else ()))):
            book.store(row)
            shown = {name: row[name] for name in (*KEY, "corrections", "examples", "lost", "took_s")}
            console.print(shown, row["numbers"])


if __name__ == "__main__":
    typer.run(main)
