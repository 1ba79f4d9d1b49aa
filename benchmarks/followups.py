"""Requests as people write them: follow-ups, denials, long mails and typing errors.

`python -m benchmarks.followups --data DIR [--models DIR]`

Public requests are put into a mail, or mistyped, or stand in the summary that a vague request comes with; what was
said of the flows in `flows/` was written for this project (`data/people.yaml`).
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console

from benchmarks import rows
from benchmarks.datasets import catalogue
from benchmarks.datasets.base import Dataset
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
from jazz_select import FlowRegistry, ProceduralMemory, load_flows, sync_registry
from jazz_select.ports import Embedder

DATASETS = ("clinc150-5", "banking77-5", "bfcl-live")
OWN = "flows/ (written for this project)"
WRITTEN = Path(__file__).parent / "data" / "people.yaml"
FLOWS = Path(__file__).parents[1] / "flows"
KEY = ("dataset", "kind", "embedder", "seed")
LIMIT = 400
MAIL_WORDS = 230
_CUTS = (1, 3, 5, 8)
_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_TIMED = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request, what was said before it, and what is right."""

    said: str
    gold: frozenset[str]
    after: str = ""

    def query(self, way: str) -> tuple[str, str]:
        """Query and focus by one way of using what was said before: `none`, `concatenated` or `weighed`."""
        if way == "none" or not self.after:
            return self.said, ""
        return f"{self.said} {self.after}", self.said if way == "weighed" else ""


def mistyped(text: str, draw: random.Random, errors: int) -> str:
    """The text with so many slips: a neighbour's key, a letter too few or twice, two letters in the wrong order."""
    letters = list(text)
    for _ in range(errors):
        places = [place for place, letter in enumerate(letters[1:-1], start=1) if letter.isalpha()]
        if not places:
            break
        place = draw.choice(places)
        slip = draw.choice(("neighbour", "missing", "twice", "swapped"))
        if slip == "neighbour":
            letters[place] = _neighbour(letters[place], draw)
        elif slip == "missing":
            del letters[place]
        elif slip == "twice":
            letters.insert(place, letters[place])
        else:
            letters[place], letters[place - 1] = letters[place - 1], letters[place]
    return "".join(letters)


def _neighbour(letter: str, draw: random.Random) -> str:
    row = next((row for row in _KEYS if letter.lower() in row), "")
    place = row.find(letter.lower())
    near = [row[each] for each in (place - 1, place + 1) if 0 <= each < len(row)] if row else []
    return draw.choice(near) if near else letter


def mail(text: str, others: Sequence[str], draw: random.Random, words: int = MAIL_WORDS) -> str:
    """The text somewhere in a mail of other sentences, at least so many words of them."""
    body: list[str] = []
    for sentence in draw.sample(list(others), len(others)):
        if sum(len(each.split()) for each in body) >= words:
            break
        body.append(sentence)
    ended = text if text[-1:] in ".?!" else f"{text}."
    body.insert(draw.randrange(1, len(body)), ended[:1].upper() + ended[1:])
    return " ".join(body)


def kinds(dataset: Dataset, written: dict[str, Any], limit: int) -> dict[str, list[Asked]]:
    """Every kind of request that is made of the requests of a public set."""
    draw = random.Random(dataset.seed)
    asked, others = (draw.sample(list(dataset.requests), min(limit, len(dataset.requests))) for _ in range(2))

    def each(change: Callable[[str], str]) -> list[Asked]:
        return [Asked(said=change(one.text), gold=frozenset(one.gold)) for one in asked]

    def before(text: str) -> str:
        return f"The user asked earlier: {text}"

    made = {
        "as it is": each(str),
        "mistyped once": each(lambda text: mistyped(text, draw, 1)),
        "mistyped twice": each(lambda text: mistyped(text, draw, 2)),
        "in a mail": each(lambda text: mail(text, written["mail"], draw)),
    }
    if any(flow.examples for flow in dataset.flows):
        made["vague"] = [
            Asked(said=draw.choice(written["vague"]), after=before(one.text), gold=frozenset(one.gold)) for one in asked
        ]
        made["clear"] = [
            Asked(said=one.text, after=before(other.text), gold=frozenset(one.gold))
            for one, other in zip(asked, others, strict=True)
        ]
    return made


def own_kinds(written: dict[str, Any]) -> dict[str, list[Asked]]:
    """What was written for this project."""
    return {
        kind: [
            Asked(said=one["said"], after=one.get("after", ""), gold=frozenset(one["gold"])) for one in written[kind]
        ]
        for kind in ("follow_ups", "negations")
    }


@asynccontextmanager
async def own_flows(embedder: str | Embedder, language: str = "english") -> AsyncGenerator[ProceduralMemory]:
    """The flows of this repository in an index of their own."""
    registry = FlowRegistry()
    load_flows(FLOWS, registry)
    async with await ProceduralMemory.open(":memory:", embedder=embedder, language=language) as memory:
        await sync_registry(memory, AGENT, registry)
        yield memory


async def shares(memory: ProceduralMemory, asked: Sequence[Asked], way: str) -> dict[str, float]:
    """R@k: the share of requests with a right flow among the first k."""
    pairs = [one.query(way) for one in asked]
    found = await memory.recall_many(
        [query for query, _ in pairs], AGENT, top_k=max(_CUTS), focuses=[focus for _, focus in pairs]
    )
    names = [[each["flow_name"] for each in result] for result in found]
    return {
        f"R@{k}": sum(bool(one.gold & set(its[:k])) for one, its in zip(asked, names, strict=True)) / len(asked)
        for k in _CUTS
    }


async def median_ms(memory: ProceduralMemory, asked: Iterable[Asked]) -> float:
    """What one recall takes."""
    took: list[float] = []
    for one in asked:
        begun = perf_counter()
        await memory.recall(one.said, AGENT)
        took.append(1_000 * (perf_counter() - begun))
    return median(took)


async def measured(
    memory: ProceduralMemory, dataset: str, made: dict[str, list[Asked]], *, embedder: str, seed: int
) -> list[rows.Row]:
    """One row for each kind of request."""
    found: list[rows.Row] = []
    for kind, asked in made.items():
        ways = ("none", "concatenated", "weighed") if any(one.after for one in asked) else ("none",)
        numbers = {way: rows.rounded(await shares(memory, asked, way)) for way in ways}
        took = round(await median_ms(memory, asked[:_TIMED]), 3)
        row = {"dataset": dataset, "kind": kind, "embedder": embedder_label(embedder), "seed": seed}
        found.append({**row, "requests": len(asked), "numbers": numbers, "ms": took})
    return found


async def public(dataset: Dataset, embedder: str, written: dict[str, Any], limit: int) -> list[rows.Row]:
    """The rows of a public set."""
    async with indexed(dataset.flows, embedder) as index:
        made = kinds(dataset, written, limit)
        found = await measured(index.memory, dataset.name, made, embedder=embedder, seed=dataset.seed)
        return [{**row, "data": dataset.sha256} for row in found]


async def own(embedder: str, written: dict[str, Any]) -> list[rows.Row]:
    """The rows of what was written for this project."""
    async with own_flows(embedder) as memory:
        return await measured(memory, OWN, own_kinds(written), embedder=embedder, seed=0)


def main(
    data: DataFolder = None,
    models: ModelsFolder = None,
    embedder: Embedders = None,
    seeds: Seeds = "1,2,3",
    limit: Annotated[int, typer.Option(help="Requests of each kind per data set.")] = LIMIT,
    *,
    unclean: Unclean = False,
) -> None:
    """Measure all kinds, and store the rows."""
    folder, console = data_folder(data), Console()
    written = yaml.safe_load(WRITTEN.read_text(encoding="utf-8"))
    book = opened_book("followups", KEY, look=unclean)
    for spec in embedder_specs(embedder, models):
        found = asyncio.run(own(spec, written))
        for dataset in catalogue.each(DATASETS, folder, parsed_seeds(seeds)):
            found += asyncio.run(public(dataset, spec, written, limit))
        book.store(*found)
        for row in found:
            console.print(
                f"{row['dataset']} {row['kind']} {row['embedder']} {row['seed']}: {row['numbers']} {row['ms']} ms"
            )


if __name__ == "__main__":
    typer.run(main)
