"""Tool search beside BM25 and regular expressions on two catalogues: `python -m benchmarks.tool_search --data DIR`.

The catalogues are the functions of BFCL, and the tools of LiveMCPBench's servers, whose tasks need up to six of them.
Each way is given the request as it is, and shows five tools at most. BM25 and the expression are FastMCP's own search
transforms. A model would write the expression: here it matches any word of the request that has four letters or more.
Tokens are estimates, of the JSON that a model is shown.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Annotated, Any, Final

import orjson
import typer
from fastmcp.server.transforms.search import BM25SearchTransform, RegexSearchTransform
from fastmcp.tools import Tool as ServerTool
from rich.console import Console

from benchmarks import rows
from benchmarks.datasets import schemas
from benchmarks.datasets.base import DataMissingError, Dataset, Request, sampled
from benchmarks.datasets.tools import bfcl_live, livemcpbench
from benchmarks.metrics import mean, percentile
from benchmarks.options import DataFolder, Embedders, Unclean, data_folder, no_data, opened_book
from jazz_select.integrations.anthropic_messages import MessagesToolSearch
from jazz_select.integrations.tool_search import ToolSearcher
from jazz_select.routing import Tool, tool_schemas
from jazz_select.text import estimate_tokens

DATASETS: Final = ("bfcl-live", "livemcpbench")
KEY: Final = ("dataset", "way")
SHOWN: Final = 5
LIMIT: Final = 1_000
SEED: Final = 1
_WORD: Final = re.compile(r"\w{4,}")
Search = Callable[[str], Awaitable[Collection[str]]]
"""Takes a request and returns the names of the tools to show."""


class Bm25(BM25SearchTransform):
    """FastMCP's BM25, asked without a server around it."""

    async def names(self, tools: Sequence[ServerTool], request: str) -> list[str]:
        """Return the names of what it finds."""
        return [tool.name for tool in await self._search(tools, request)]


class Regex(RegexSearchTransform):
    """FastMCP's regular expressions, asked without a server around them."""

    async def names(self, tools: Sequence[ServerTool], request: str) -> list[str]:
        """Return the names of what matches any longer word of the request."""
        words = dict.fromkeys(map(re.escape, _WORD.findall(request)))
        if not words:
            return []
        return [tool.name for tool in await self._search(tools, "|".join(words))]


def server_tools(tools: Sequence[Tool]) -> list[ServerTool]:
    """The tools as a FastMCP server has them."""
    return [
        ServerTool(name=tool.name, description=tool.description, parameters=dict(tool.input_schema)) for tool in tools
    ]


async def ways(tools: Sequence[Tool], embedders: Sequence[str], stack: AsyncExitStack) -> dict[str, Search]:
    """The ways to search, each with a name."""
    theirs, bm25, regex = server_tools(tools), Bm25(max_results=SHOWN), Regex(max_results=SHOWN)
    found: dict[str, Search] = {
        "regex": lambda request: regex.names(theirs, request),
        "BM25": lambda request: bm25.names(theirs, request),
    }
    for embedder in embedders:
        searcher = await stack.enter_async_context(ToolSearcher(tools, embedder=embedder, top_k=SHOWN))
        found[f"jazz_select, {embedder}"] = _search_of(searcher)
    return found


def _search_of(searcher: ToolSearcher) -> Search:
    async def search(request: str) -> Collection[str]:
        return (await searcher.search(request)).names

    return search


def tokens_of(schemas_shown: Sequence[dict[str, Any]]) -> int:
    """What these schemas take in a prompt."""
    return estimate_tokens(orjson.dumps(schemas_shown).decode())


async def measured(
    search: Search, tools: Sequence[Tool], inside: Sequence[Request], outside: Sequence[str]
) -> dict[str, Any]:
    """What one way finds of the requests that a tool is for, and what it shows for those that none is for."""
    by_name = {tool.name: tool for tool in tools}
    search_tool = MessagesToolSearch(tools).schemas[:1]
    await search("anything")  # builds the index
    right: list[bool] = []
    tokens: list[float] = []
    took: list[float] = []
    for request in inside:
        began = perf_counter()
        names = await search(request.text)
        took.append(1e3 * (perf_counter() - began))
        right.append(bool(request.gold & {*names}))
        tokens.append(tokens_of([*search_tool, *tool_schemas([by_name[name] for name in names], "anthropic")]))
    beyond = [await search(text) for text in outside]
    return {
        "found": sum(right),
        "lost": len(right) - sum(right),
        "nothing shown": sum(not names for names in beyond),
        "tokens": median(tokens),
        "numbers": rows.rounded(
            {"R@5": mean(right), "p50": percentile(took, 0.5), "p99": percentile(took, 0.99)},
        ),
    }


async def rows_of(
    dataset: Dataset, tools: Sequence[Tool], limit: int, embedders: Sequence[str]
) -> AsyncGenerator[rows.Row]:
    """A row for each way."""
    inside = sampled([each for each in dataset.requests if each.text.strip()], limit, SEED)
    outside = sampled([text for text in dataset.outside if text.strip()], limit, SEED)
    about = {
        "dataset": dataset.name,
        "data": dataset.sha256,
        "tools": len(tools),
        "requests": len(inside),
        "outside": len(outside),
        "all tokens": tokens_of(tool_schemas(tools, "anthropic")),
    }
    async with AsyncExitStack() as stack:
        for way, search in (await ways(tools, embedders, stack)).items():
            yield {**about, "way": way, **(await measured(search, tools, inside, outside))}


def connected(name: str, data: Path) -> tuple[Dataset, list[Tool]]:
    """A data set, and its tools with their schemas."""
    if name == "livemcpbench":
        return livemcpbench(data, seed=SEED), list(schemas.livemcpbench(data, seed=SEED).tools)
    dataset, known = bfcl_live(data, seed=SEED), schemas.bfcl(data, seed=SEED).by_name
    tools = [
        Tool(name=each.name, description=each.description, input_schema=known[each.name].input_schema)
        for each in dataset.flows
    ]
    return dataset, tools


async def stored(name: str, data: Path, limit: int, embedders: Sequence[str], book: rows.Book) -> None:
    """Measure each way, and store its row."""
    dataset, tools = connected(name, data)
    async for row in rows_of(dataset, tools, limit, embedders):
        book.store(row)
        Console().print(f"{row['way']}: {row}")


def main(
    data: DataFolder = None,
    embedder: Embedders = None,
    dataset: Annotated[list[str] | None, typer.Option(help="Data sets; may be repeated.")] = None,
    limit: Annotated[int, typer.Option(help="Requests that a tool is for, and that none is for.")] = LIMIT,
    *,
    unclean: Unclean = False,
) -> None:
    """Measure each way."""
    folder, book = data_folder(data), opened_book("tool_search", KEY, look=unclean)
    try:
        for name in dataset or DATASETS:
            asyncio.run(stored(name, folder, limit, embedder or ["static", "minilm"], book))
    except DataMissingError as error:
        raise no_data(error) from None


if __name__ == "__main__":
    typer.run(main)
