"""What is a model offered to choose from, and what does that take?

`python -m benchmarks.offered [--data DIR]`: the catalogues of this repository, and the public sets where DIR has them,
with the options of the bare signature and with those recommended. The model is a recorder that answers "none". Of what
is answered without it, the share that is right is told as well, and the most that one threshold on recall's confidence,
chosen with all labels known, could have answered with one in a hundred wrong.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks import metrics, rows
from benchmarks.budget import MAX_ERROR, best_share
from benchmarks.datasets import catalogue
from benchmarks.datasets.base import sampled
from benchmarks.index import registry_of
from benchmarks.options import DataFolder, Embedders, Seeds, Unclean, embedder_label, opened_book, parsed_seeds
from jazz_select import RECOMMENDED, BaseFlow, FlowSelector, ProceduralMemory, sync_registry
from jazz_select.build import load_registry
from jazz_select.evaluation.cases import load_cases
from jazz_select.selector.policy import Policy
from jazz_select.text import estimate_tokens
from jazz_select.values import Message

ROOT = Path(__file__).parent.parent
KEY = ("dataset", "embedder", "seed", "options")
AGENT = "bench"
OWN: Mapping[str, tuple[str, str]] = {
    "shop": ("flows", "examples/eval.yaml"),
    "clinic": ("examples/clinic/flows.yaml", "examples/clinic/cases.yaml"),
}
"""The catalogues of this repository: flows, and requests that none of them has among its examples."""
PUBLIC = ("clinc150-5", "banking77-5", "bfcl-live", "metatool-single")
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "bare": {},
    "eight": {"top_k": 8, "policy": Policy(on_empty="none")},
    "recommended": RECOMMENDED,
}
LIMIT = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request, what was said before, what guards look at, and the names of the flows that are right."""

    text: str
    gold: frozenset[str]
    episodes: tuple[str, ...] = ()
    context: Mapping[str, Any] | None = None


class Recorder:
    """A model that answers "none", and counts what it is sent."""

    def __init__(self) -> None:
        self.tokens: list[int] = []

    async def __call__(self, messages: Sequence[Message]) -> str:
        self.tokens.append(sum(estimate_tokens(each.content) for each in messages))
        return "[]"


async def measured(flows: Mapping[str, BaseFlow], asked: Sequence[Asked], embedder: str) -> dict[str, dict[str, float]]:
    """Options to what they gave."""
    async with await ProceduralMemory.open(":memory:", embedder=embedder) as memory:
        await sync_registry(memory, AGENT, flows)
        return {name: await _offered(flows, memory, asked, options) for name, options in OPTIONS.items()}


async def _offered(
    flows: Mapping[str, BaseFlow],
    memory: ProceduralMemory,
    asked: Sequence[Asked],
    options: Mapping[str, Any],
) -> dict[str, float]:
    model = Recorder()
    selector = FlowSelector(model, flows, memory, AGENT, **options)
    offered: list[float] = []
    first: list[float] = []
    sizes: list[int] = []
    decided: list[bool] = []
    sure: list[float] = []
    right: list[bool] = []
    for each in asked:
        calls = len(model.tokens)
        result = await selector.select(each.text, episode_summaries=each.episodes, context=each.context)
        found = result.decision.candidates
        names = [candidate.flow_name for candidate in found]
        sizes.append(len(names))
        if len(model.tokens) == calls:
            decided.append(frozenset(result.names) == each.gold)
        sure.append((found[0].confidence or 0.0) if found else 0.0)
        right.append(frozenset(names[:1]) == each.gold)
        if each.gold:
            offered.append(float(each.gold <= set(names)))
            first.append(float(bool(names) and names[0] in each.gold))
    tokens = [float(each) for each in model.tokens] or [0.0]
    return rows.rounded(
        {
            "first": metrics.mean(first),
            "offered": metrics.mean(offered),
            "candidates": metrics.mean([float(size) for size in sizes]),
            "asked": len(model.tokens) / len(asked),
            "decided": len(decided) / len(asked),
            "decided right": metrics.mean([float(each) for each in decided]) if decided else 1.0,
            "best": best_share(sure, right, MAX_ERROR),
            "tokens p50": metrics.percentile(tokens, 0.5),
            "tokens p90": metrics.percentile(tokens, 0.9),
        }
    )


def own(name: str) -> tuple[Mapping[str, BaseFlow], list[Asked]]:
    """A catalogue of this repository with its requests."""
    flows, file = (ROOT / part for part in OWN[name])
    registry = load_registry(flows)
    cases = load_cases(file, registry, flows=str(flows))
    return registry, [
        Asked(text=case.request, gold=frozenset(case.expect), episodes=case.episodes, context=case.context)
        for case in cases
    ]


def main(
    data: DataFolder = None,
    embedder: Embedders = None,
    seeds: Seeds = "1,2,3",
    limit: Annotated[int, typer.Option(help="Requests per public data set.")] = LIMIT,
    *,
    unclean: Unclean = False,
) -> None:
    """Measure what is offered, and store the rows."""
    console = Console()
    book = opened_book("offered", KEY, look=unclean)
    sets: list[tuple[str, int, str, Mapping[str, BaseFlow], list[Asked]]] = [(name, 0, "", *own(name)) for name in OWN]
    if data is not None:
        for name in PUBLIC:
            for seed in parsed_seeds(seeds):
                dataset = catalogue.load(name, data, seed)
                asked = [
                    Asked(text=each.text, gold=each.gold) for each in sampled(dataset.requests, limit, dataset.seed)
                ]
                sets.append((name, seed, dataset.sha256, registry_of(dataset.flows), asked))
    for spec in embedder or ["static", "minilm"]:
        for name, seed, sha256, flows, asked in sets:
            for options, numbers in asyncio.run(measured(flows, asked, spec)).items():
                row = {
                    "dataset": name,
                    "embedder": embedder_label(spec),
                    "seed": seed,
                    "options": options,
                    "data": sha256,
                    "flows": len(flows),
                    "requests": len(asked),
                    "numbers": numbers,
                }
                book.store(row)
                console.print(f"{name} {embedder_label(spec)} {seed} {options}: {numbers}")


if __name__ == "__main__":
    typer.run(main)
