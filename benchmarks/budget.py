"""Does an error budget hold, and what does a cascade save? `python -m benchmarks.budget --data DIR`.

First recall alone decides what it is sure enough of: how many of its answers are wrong, and how many it gives beside
the best threshold that could have been chosen with all labels known. Then the whole cascade with simulated models,
beside the best threshold on how sure recall and decision model are together, each request asked of both.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from time import perf_counter
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from benchmarks import rows
from benchmarks.budget_plot import drawn
from benchmarks.datasets import catalogue
from benchmarks.datasets.base import Dataset, sampled
from benchmarks.index import AGENT, indexed, registry_of
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
from benchmarks.simulated import PUBLISHED, Now, SimulatedChat, SimulatedDecider, Spent
from jazz_select import FlowRegistry, FlowSelector
from jazz_select.memory.embedders.known_embedders import open_embedder
from jazz_select.ports import Embedder
from jazz_select.selector.policy import Policy
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.values import Message, Reason, RecallResult, Reply

DATASETS = ("clinc150-5", "clinc150-10", "banking77-5")
KEY = ("dataset", "embedder", "seed", "question")
PLOT = Path(__file__).parent / "plots" / "budget.svg"
MAX_ERROR = 0.01
BUDGETS = (0.005, 0.01, 0.02, 0.05)
LIMIT = 5_000
"""Requests of each set and seed that the whole cascade is asked: all. One in a hundred is wrong, and of fewer requests
it would be chance how many."""
ALWAYS = "decision model always"
WAYS: Mapping[str, Mapping[str, Any]] = {
    "recall alone": {},
    ALWAYS: {"decider": True},
    "chat model always": {"llm": True},
    "cascade": {"llm": True, "decider": True, "policy": Policy(max_error=MAX_ERROR)},
    "cascade without a decision model": {"llm": True, "policy": Policy(max_error=MAX_ERROR)},
}
PRICES = {"decider": (0.05, 0.0), "chat": (0.25, 2.0)}
"""Dollars a million tokens, in and out, as small models cost."""
TAKES_MS = {"decider": 80.0, "chat": 900.0}
"""What one call is taken to last."""
_AT_ONCE = 64
_TOP_K = 5


@dataclass(slots=True)
class Recalled:
    """A memory that has been asked already: every way of choosing is given the same candidates."""

    found: dict[str, RecallResult] = field(default_factory=dict[str, RecallResult])
    ms: float = 0.0
    """What recall took for each."""

    async def recall(
        self,
        query: str,
        agent_id: str,  # noqa: ARG002 - likewise
        top_k: int | Literal["auto"] = 3,  # noqa: ARG002 - likewise
        rrf_k: int = 10,  # noqa: ARG002 - likewise
        *,
        exclude: Collection[str] = (),  # noqa: ARG002 - likewise
    ) -> RecallResult:
        """What was found for it."""
        return self.found[query]


async def recalled(dataset: Dataset, embedder: str | Embedder) -> Recalled:
    """What recall finds for every request, in scope or not."""
    made = Recalled()
    texts = list(dict.fromkeys((*(each.text for each in dataset.requests), *dataset.outside)))
    async with indexed(dataset.flows, embedder) as index:
        began = perf_counter()
        for start in range(0, len(texts), _AT_ONCE):
            some = texts[start : start + _AT_ONCE]
            made.found |= zip(some, await index.memory.recall_many(some, AGENT, top_k=_TOP_K), strict=True)
        made.ms = 1e3 * (perf_counter() - began) / len(texts)
    return made


async def _never(messages: Sequence[Message]) -> Reply:
    msg = f"nobody is to be asked, and {len(messages)} messages came"
    raise AssertionError(msg)


async def _decided(
    registry: FlowRegistry, memory: Recalled, texts: Sequence[str], policy: Policy
) -> list[FlowSelectionResult]:
    selector = FlowSelector(_never, registry, memory, AGENT, _TOP_K, policy=policy)
    return await selector.select_many(texts, ask=False)


def _by_recall(result: FlowSelectionResult) -> bool:
    return result.decision.reason in {Reason.CONFIDENT, Reason.EXAMPLE}


async def budgeted(dataset: Dataset, embedder: str, memory: Recalled) -> rows.Row:
    """One row: what recall decides by itself within each budget."""
    registry, numbers = registry_of(dataset.flows), dict[str, float]()
    texts, gold = [each.text for each in dataset.requests], [each.gold for each in dataset.requests]
    tops = [memory.found[text][:1] for text in texts]
    sure = [top[0]["confidence"] if top else 0.0 for top in tops]
    right = [bool(top) and top[0]["flow_name"] in own for top, own in zip(tops, gold, strict=True)]
    for budget in BUDGETS:
        found = await _decided(registry, memory, texts, Policy(max_error=budget))
        decided = [each.names[0] in own for each, own in zip(found, gold, strict=True) if _by_recall(each)]
        numbers |= {
            f"share {budget:g}": len(decided) / len(found),
            f"error {budget:g}": 1 - fmean(decided) if decided else 0.0,
            f"best {budget:g}": best_share(sure, right, budget),
        }
    numbers |= await _scoped(dataset, registry, memory)
    return {
        "dataset": dataset.name,
        "embedder": embedder_label(embedder),
        "seed": dataset.seed,
        "question": "budget",
        "data": dataset.sha256,
        "requests": len(dataset.requests),
        "numbers": rows.rounded(numbers),
    }


def best_share(sure: Sequence[float], right: Sequence[bool], budget: float) -> float:
    """The largest share that one threshold answers within the budget, chosen with all labels known."""
    order = sorted(zip(sure, right, strict=True), key=lambda pair: -pair[0])
    wrong = best = 0
    for count, (at, is_right) in enumerate(order, start=1):
        wrong += not is_right
        last = count == len(order) or order[count][0] < at
        if last and wrong <= budget * count:
            best = count
    return best / len(order)


async def _scoped(dataset: Dataset, registry: FlowRegistry, memory: Recalled) -> dict[str, float]:
    """The same where "none" is an answer, with the requests that nothing answers beside the others."""
    if not dataset.outside:
        return {}
    texts = [*(each.text for each in dataset.requests), *dataset.outside]
    gold = [*(each.gold for each in dataset.requests), *(frozenset[str]() for _ in dataset.outside)]
    found = await _decided(registry, memory, texts, Policy(max_error=MAX_ERROR, on_empty="none"))
    decided = [each.names[0] in own for each, own in zip(found, gold, strict=True) if _by_recall(each)]
    inside = sum(_by_recall(each) for each in found[: len(dataset.requests)])
    return {
        "scoped share": inside / len(dataset.requests),
        "scoped error": 1 - fmean(decided) if decided else 0.0,
    }


async def simulated(dataset: Dataset, embedder: str, memory: Recalled) -> rows.Row:
    """One row: the cascade beside each of its stages alone, with models that err as published ones do."""
    registry = registry_of(dataset.flows)
    tops = [memory.found[each.text][0]["flow_name"] for each in dataset.requests]
    recall_right = fmean(top in each.gold for top, each in zip(tops, dataset.requests, strict=True))
    numbers = {way: await _chosen(way, dataset, registry, memory, tops, recall_right) for way in WAYS}
    sure = [memory.found[each.text][0]["confidence"] for each in dataset.requests]
    right = [top in each.gold for top, each in zip(tops, dataset.requests, strict=True)]
    numbers["cascade without a decision model"]["best"] = best_share(sure, right, MAX_ERROR)
    numbers["cascade"]["best"] = best_share(*await _together(dataset, registry, memory, tops, recall_right), MAX_ERROR)
    return {
        "dataset": dataset.name,
        "embedder": embedder_label(embedder),
        "seed": dataset.seed,
        "question": "simulated",
        "data": dataset.sha256,
        "requests": len(dataset.requests),
        "ways": {way: rows.rounded(found) for way, found in numbers.items()},
    }


async def _chosen(
    way: str,
    dataset: Dataset,
    registry: FlowRegistry,
    memory: Recalled,
    tops: Sequence[str],
    recall_right: float,
) -> dict[str, float]:
    """What comes of one way of choosing."""
    now = Now()
    decider = _decider(now, dataset, recall_right)
    chat = SimulatedChat(now, recall_right=recall_right, seed=dataset.seed)
    options: dict[str, Any] = dict(WAYS[way]) | ({"decider": decider} if "decider" in WAYS[way] else {})
    llm = chat if options.pop("llm", False) else None
    selector = FlowSelector(llm, registry, memory, AGENT, _TOP_K, **options)
    right: list[bool] = []
    early: list[bool] = []
    for request, top in zip(dataset.requests, tops, strict=True):
        now.text, now.right, now.first = request.text, min(request.gold), top
        # By itself a decision model does not know how sure recall was.
        bare = [{**each, "confidence": None} for each in memory.found[request.text]] if way == ALWAYS else None
        result = await selector.select(request.text, bare)
        right.append(result.names[:1] == [now.right])
        if result.decision.reason in {Reason.CONFIDENT, Reason.DECIDER, Reason.EXAMPLE}:
            early.append(right[-1])
    return _counted(right, early, memory.ms, decider.spent, chat.spent)


def _decider(now: Now, dataset: Dataset, recall_right: float) -> SimulatedDecider:
    accuracy = PUBLISHED[dataset.name.partition("-")[0]]
    return SimulatedDecider(now, accuracy=accuracy, recall_right=recall_right, seed=dataset.seed)


async def _together(
    dataset: Dataset, registry: FlowRegistry, memory: Recalled, tops: Sequence[str], recall_right: float
) -> tuple[list[float], list[bool]]:
    """How sure recall and decision model are together of each request, and whether that is right.

    Nothing is sure enough for a budget of 0, so both are asked about each; "none", which nobody may say here, is no
    answer.
    """
    now = Now()
    decider = _decider(now, dataset, recall_right)
    selector = FlowSelector(None, registry, memory, AGENT, _TOP_K, decider=decider, policy=Policy(max_error=0.0))
    sure: list[float] = []
    right: list[bool] = []
    for request, top in zip(dataset.requests, tops, strict=True):
        now.text, now.right, now.first = request.text, min(request.gold), top
        decision = (result := await selector.select(request.text)).decision
        said = decision.stages[-1].confidence or 0.0
        sure.append(said if decision.reason in {Reason.CONFIDENT, Reason.DECIDER} else 0.0)
        right.append(result.names[:1] == [now.right])
    return sure, right


def _counted(
    right: Sequence[bool], early: Sequence[bool], recall_ms: float, decider: Spent, chat: Spent
) -> dict[str, float]:
    """Accuracy, cost in dollars a thousand requests, and milliseconds a request."""
    count = len(right)
    dollars = sum(
        (spent.input_tokens * PRICES[name][0] + spent.output_tokens * PRICES[name][1]) / 1e6
        for name, spent in (("decider", decider), ("chat", chat))
    )
    return {
        "accuracy": fmean(right),
        "dollars": 1_000 * dollars / count,
        "ms": recall_ms + (decider.calls * TAKES_MS["decider"] + chat.calls * TAKES_MS["chat"]) / count,
        "without chat": 1 - chat.calls / count,
        "error without chat": 1 - fmean(early) if early else 0.0,
        "asked decider": decider.calls / count,
    }


def main(
    data: DataFolder = None,
    embedder: Embedders = None,
    seeds: Seeds = "1,2,3",
    limit: Annotated[int, typer.Option(help="Requests of each set that the whole cascade is asked.")] = LIMIT,
    *,
    unclean: Unclean = False,
) -> None:
    """Measure the budget and the cascade, store the rows, draw cost against accuracy."""
    folder, console, book = data_folder(data), Console(), opened_book("budget", KEY, look=unclean)
    for spec in embedder or ["static", "minilm"]:
        opened = open_embedder(spec)
        for dataset in catalogue.each(DATASETS, folder, parsed_seeds(seeds)):
            memory = asyncio.run(recalled(dataset, opened))
            asked = replace(dataset, requests=sampled(dataset.requests, limit, dataset.seed))
            both = (asyncio.run(budgeted(dataset, spec, memory)), asyncio.run(simulated(asked, spec, memory)))
            book.store(*both)
            console.print(f"{dataset.name} {embedder_label(spec)} {dataset.seed}: {both[0]['numbers']}")
            for way, numbers in both[1]["ways"].items():
                console.print(f"  {way}: {numbers}")
    if not unclean:
        drawn(PLOT, rows.read("budget"))


if __name__ == "__main__":
    typer.run(main)
