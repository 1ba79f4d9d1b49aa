"""Does it help to say whose a tool is, where tools of many MCP servers lie together?

`python -m benchmarks.live_tools --data DIR`: LiveMCPBench's tools are indexed as connected ones are, once by what they
say of themselves, once also with the key and the title of their server. Asked are its tasks, each of which needs up to
six tools, and the annotated steps of tasks, each of which needs one.
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import typer
from rich.console import Console

from benchmarks import metrics, rows
from benchmarks.bare_tools import AGENT, tool_of
from benchmarks.datasets import catalogue
from benchmarks.datasets.base import Dataset
from benchmarks.options import (
    DataFolder,
    Embedders,
    Unclean,
    data_folder,
    embedder_label,
    opened_book,
)
from jazz_select import ProceduralMemory
from jazz_select.routing import sync_tools
from jazz_select.routing.tools.tool_memory import tool_id, tools_scope

DATASETS: Final = ("livemcpbench-alone", "livemcpbench", "livemcpbench-steps-alone", "livemcpbench-steps")
KEY: Final = ("dataset", "embedder")
TOP: Final = 10
SEED: Final = 1
"""Orders the tools, and nothing else: nothing is drawn, and nothing is learned."""


async def measured(dataset: Dataset, embedder: str) -> rows.Row:
    """One row of results."""
    tools = [tool_of(entry) for entry in dataset.flows]
    names = {tool_id(tool.name): tool.name for tool in tools}
    ranked: list[list[str]] = []
    with TemporaryDirectory(prefix="jazz-bench-") as folder:
        async with await ProceduralMemory.open(Path(folder) / "index", embedder=embedder) as memory:
            await sync_tools(memory, AGENT, tools)
            for request in dataset.requests:
                hits = await memory.recall(request.text, tools_scope(AGENT), top_k=TOP)
                ranked.append([names[str(hit["flow_id"])] for hit in hits])
    golds = [request.gold for request in dataset.requests]
    hits_at_1 = [float(bool(set(found[:1]) & gold)) for found, gold in zip(ranked, golds, strict=True)]
    return {
        "dataset": dataset.name,
        "embedder": embedder_label(embedder),
        "data": dataset.sha256,
        "tools": len(tools),
        "requests": len(dataset.requests),
        "notes": dict(dataset.notes),
        "shares": rows.rounded({**metrics.summary(ranked, golds), "first is right": metrics.mean(hits_at_1)}),
    }


def main(
    data: DataFolder = None,
    embedder: Embedders = None,
    dataset: Annotated[list[str] | None, typer.Option(help="Data sets; may be repeated.")] = None,
    *,
    unclean: Unclean = False,
) -> None:
    """Measure recall with and without the owners, and store the rows."""
    folder, console = data_folder(data), Console()
    book = opened_book("live_tools", KEY, look=unclean)
    for spec in embedder or ["static", "minilm"]:
        for name in dataset or DATASETS:
            row = asyncio.run(measured(catalogue.load(name, folder, SEED), spec))
            book.store(row)
            console.print(f"{name} {embedder_label(spec)}: {row['shares']}")


if __name__ == "__main__":
    typer.run(main)
