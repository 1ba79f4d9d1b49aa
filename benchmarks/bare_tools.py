"""Is it known that no tool fits, where tools have no examples? `python -m benchmarks.bare_tools --data DIR`.

`--decider NAME` asks a decision model about what each search found. `--decider simulated` is none: it is told the right
answer and errs by a seeded draw in one of five requests, which shows what becomes of such answers, and proves nothing.

Tools are indexed as connected ones are, by what they say of themselves; those of MetaTool also with requests that a
model wrote for each. Asked are the data set's own requests from outside, where it has any, and near misses: requests
for a third of the tools with that third not there. BFCL says which functions fit among those offered *there*; that
nothing in the pool of all fits is likely, not sure: in many requests from outside, the function lacks an argument.
"""

import asyncio
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks import rows, sureness
from benchmarks.datasets import catalogue
from benchmarks.datasets.base import Dataset, Entry, sampled
from benchmarks.metrics import mean
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
from benchmarks.scope import near
from benchmarks.simulated import Now, SimulatedDecider
from jazz_select import ProceduralMemory
from jazz_select.routing import Tool, ToolRecall, sync_tools
from jazz_select.routing.tools.tool_memory import NOTHING_FITS, RecalledTools
from jazz_select.selector.decision_stage import NONE

DATASETS = ("bfcl-live", "metatool-single", "metatool-single-3", "metatool-single-6", "sealtools-dev")
KEY = ("dataset", "embedder", "seed", "decider")
LIMIT = 1_000
AGENT = "bench"
SHOWN = 5
"""Tools that a search shows."""
SIMULATED = "simulated"
SIMULATED_RIGHT = 0.8
"""How often the simulated decision model says what is right of the tools that it is shown, or that none is."""


def asked(dataset: Dataset) -> Iterator[Dataset]:
    """The data set with each kind of requests that nothing answers."""
    if dataset.outside:
        yield dataset
    yield near(dataset)


def tool_of(entry: Entry) -> Tool:
    """An entry as a connected tool."""
    properties = {name: {"description": text} for name, text in entry.parameters}
    schema = {"type": "object", "properties": properties}
    return Tool(
        name=entry.name,
        description=entry.description,
        input_schema=schema,
        provider=entry.provider,
        provider_title=entry.provider_title,
    )


class Searches:
    """Searches of one catalogue, with a decision model if one is named."""

    def __init__(self, memory: ProceduralMemory, tools: Sequence[Tool], decider: str, seed: int) -> None:
        """Take the index and the tools."""
        self._tools, self._now, self._is_simulated = tools, Now(), decider == SIMULATED
        simulated = SimulatedDecider(self._now, accuracy=SIMULATED_RIGHT, recall_right=1.0, seed=seed, knows_none=True)
        self._recall = ToolRecall(memory, AGENT, top_k=SHOWN)
        asked = simulated if self._is_simulated else decider or None
        self._deciding = ToolRecall(memory, AGENT, top_k=SHOWN, decider=asked)

    async def search(self, text: str, right: Collection[str] = ()) -> RecalledTools:
        """Return what is found for a request; only the simulated model is told which tools are right."""
        if self._is_simulated:
            found = await self._recall.search(text, self._tools)
            shown = [name for name in found.confidences if name in right]
            self._now.text, self._now.right = text, shown[0] if shown else NONE
            self._now.first = self._now.right  # its errors are drawn without a look at recall's
        return await self._deciding.search(text, self._tools)


def _some(found: RecalledTools) -> float:
    """P(some tool is right); of a request without words, of which nothing is known, whether any was found."""
    return float(bool(found)) if found.p_none is None else 1 - found.p_none


async def measured(dataset: Dataset, embedder: str, limit: int, decider: str = "") -> rows.Row:
    """One row of results."""
    inside = sampled(dataset.requests, limit, dataset.seed)
    outside = sampled([text for text in dataset.outside if text.strip()], limit, dataset.seed)
    tools = [tool_of(entry) for entry in dataset.flows]
    examples = {entry.name: entry.examples for entry in dataset.flows if entry.examples}
    with TemporaryDirectory(prefix="jazz-bench-") as folder:
        async with await ProceduralMemory.open(Path(folder) / "index", embedder=embedder) as memory:
            await sync_tools(memory, AGENT, tools, examples=examples)
            searches = Searches(memory, tools, decider, dataset.seed)
            found = [await searches.search(each.text, each.gold) for each in inside]
            beyond = [await searches.search(text) for text in outside]
    firsts: list[tuple[float, bool]] = []
    for each, request in zip(found, inside, strict=True):
        name, sure = max(each.confidences.items(), key=lambda pair: pair[1], default=("", 0.0))
        firsts.append((sure, name in request.gold))
    there = [bool(each.confidences.keys() & request.gold) for each, request in zip(found, inside, strict=True)]
    kept = [bool({tool.name for tool in each} & request.gold) for each, request in zip(found, inside, strict=True)]
    firsts += [(max(each.confidences.values(), default=0.0), False) for each in beyond]
    some, none = ([_some(each) for each in group] for group in (found, beyond))
    numbers = {
        "AUROC": sureness.auroc(some, none),
        "FPR@95": sureness.fpr_at(some, none),
        "recalled": mean(there),
        "lost": mean([was and not stayed for was, stayed in zip(there, kept, strict=True)]) / max(mean(there), 1e-9),
        "nothing shown": mean([not each for each in beyond]),
        "P(none) inside": 1 - mean(some),
        "P(none) outside": 1 - mean(none),
        "ECE": sureness.ece([sure for sure, _ in firsts], [right for _, right in firsts]),
    }
    return {
        "dataset": dataset.name,
        "embedder": embedder_label(embedder),
        "seed": dataset.seed,
        "decider": decider,
        "data": dataset.sha256,
        "tools": len(tools),
        "examples": sum(map(len, examples.values())),
        "requests": len(inside) + len(outside),
        "threshold": NOTHING_FITS,
        "numbers": rows.rounded(numbers),
    }


def main(  # noqa: PLR0913 - one parameter per option
    data: DataFolder = None,
    embedder: Embedders = None,
    seeds: Seeds = "1,2,3",
    limit: Annotated[int, typer.Option(help="Requests that a tool fits, and that none does, per data set.")] = LIMIT,
    dataset: Annotated[list[str] | None, typer.Option(help="Data sets; may be repeated.")] = None,
    decider: Annotated[str, typer.Option(help="A decision model, or `simulated`; none by default.")] = "",
    *,
    unclean: Unclean = False,
) -> None:
    """Measure what is known without examples, and store the rows."""
    folder, console = data_folder(data), Console()
    book = opened_book("bare_tools", KEY, look=unclean)
    for spec in embedder or ["static", "minilm"]:
        for whole in catalogue.each(dataset or DATASETS, folder, parsed_seeds(seeds)):
            for each in asked(whole):
                row: dict[str, Any] = asyncio.run(measured(each, spec, limit, decider))
                book.store(row)
                console.print(f"{each.name} {embedder_label(spec)} {whole.seed}: {row['numbers']}")


if __name__ == "__main__":
    typer.run(main)
