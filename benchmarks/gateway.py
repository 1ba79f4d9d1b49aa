"""What a gateway before MCP servers spares, and whether it finds the tool: `python -m benchmarks.gateway --data DIR`.

The tools are listed by a real server in a process of its own, the gateway stands before it, and the official client
asks for what each request needs. Tokens are estimates, of the JSON that a client hands to its model.
"""

import asyncio
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Annotated, Any, Final

import orjson
import typer
from mcp import Client, types
from rich.console import Console

from benchmarks import rows
from benchmarks.datasets import schemas
from benchmarks.datasets.base import DataMissingError, Dataset, Request, sampled
from benchmarks.datasets.tools import bfcl_live, metatool_multi, metatool_single
from benchmarks.metrics import mean, percentile
from benchmarks.options import DataFolder, Embedders, Unclean, data_folder, embedder_label, no_data, opened_book
from jazz_select import FlowRegistry, ProceduralMemory
from jazz_select.routing.tools.tool import Tool, Toolbox
from jazz_select.service.mcp.agent_server import AgentServer
from jazz_select.service.mcp.gateway import Gateway
from jazz_select.service.mcp.servers_file import servers_of
from jazz_select.service.running import RunningCatalogue, Sources
from jazz_select.settings import Settings
from jazz_select.text import estimate_tokens

KEY: Final = ("dataset", "embedder")
SHOWN: Final = (3, 5, 10)
"""How many tools a search shows."""
LIMIT: Final = 1_000
SEED: Final = 1
SERVER: Final = "pool"


def tools_of(dataset: Dataset, data: Path) -> list[dict[str, Any]]:
    """The tools as a server lists them; those of BFCL with their schemas, MetaTool publishes none."""
    known: Mapping[str, Tool] = schemas.bfcl(data, seed=SEED).by_name if dataset.name.startswith("bfcl") else {}
    return [
        {
            "name": each.name,
            "description": each.description,
            "inputSchema": dict(known[each.name].input_schema) if each.name in known else {"type": "object"},
        }
        for each in dataset.flows
    ]


def as_sent(tools: Sequence[types.Tool]) -> str:
    """A list as a client has it."""
    return orjson.dumps([each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in tools]).decode()


@asynccontextmanager
async def client_of(tools: list[dict[str, Any]], embedder: str) -> AsyncGenerator[tuple[Client, Gateway]]:
    """The official client of a gateway in front of a server with these tools."""
    with tempfile.TemporaryDirectory() as folder:
        listing = Path(folder) / "tools.json"
        listing.write_bytes(orjson.dumps(tools))
        root = str(Path(__file__).parents[1])
        entry = {
            "command": sys.executable,
            "args": ["-m", "benchmarks.listed_server", str(listing)],
            "cwd": root,
            "env": {"PYTHONPATH": root},
        }
        gateway = Gateway(servers_of({"mcpServers": {SERVER: entry}}))
        index = Path(folder) / "index"
        async with await ProceduralMemory.open(index, embedder=embedder) as memory, gateway.running():
            found = Sources(registry=FlowRegistry(), tools=Toolbox())
            running = RunningCatalogue(Settings(agent_id="bench"), memory, lambda: found)
            await running.reload()
            served = AgentServer(running, gateway)
            async with served.running(), Client(served.server) as client:
                await gateway.wait_until_tried(60)
                await client.call_tool("search_tools", {"request": "anything"})  # which indexes them
                yield client, gateway


async def asked(client: Client, requests: Sequence[Request], names: dict[str, str], limit: int) -> dict[str, float]:
    """What a search shows for each request: whether the right tools are among it, what it takes, and how long."""
    recalls: list[float] = []
    tokens: list[float] = []
    took: list[float] = []
    for request in requests:
        began = perf_counter()
        result = await client.call_tool("search_tools", {"request": request.text, "limit": limit})
        took.append(1e3 * (perf_counter() - began))
        shown: dict[str, Any] = result.structured_content or {}
        found = {each["name"] for each in shown["tools"]}
        gold = {names[name] for name in request.gold if name in names}
        recalls.append(len(gold & found) / len(request.gold))
        tokens.append(estimate_tokens("".join(each.text for each in result.content if each.type == "text")))
    return {
        "recall": mean(recalls),
        "tokens": median(tokens),
        "p50": percentile(took, 0.5),
        "p99": percentile(took, 0.99),
    }


async def measured(dataset: Dataset, data: Path, embedder: str, limit: int) -> dict[str, Any]:
    """The row of a data set, without where it was measured."""
    tools = tools_of(dataset, data)
    requests = sampled([each for each in dataset.requests if each.gold and each.text.strip()], limit, SEED)
    whole = [types.Tool.model_validate(each) for each in tools]
    async with client_of(tools, embedder) as (client, gateway):
        names = {tool.operation: name for name, tool in gateway.tools.items()}
        listed = (await client.list_tools()).tools
        searches = {str(shown): await asked(client, requests, names, shown) for shown in SHOWN}
    return {
        "dataset": dataset.name,
        "embedder": embedder_label(embedder),
        "data": dataset.sha256,
        "tools": len(tools),
        "listed": len(listed),
        "requests": len(requests),
        "before": estimate_tokens(as_sent(whole)),
        "after": estimate_tokens(as_sent(listed)),
        "searches": {shown: rows.rounded(numbers) for shown, numbers in searches.items()},
    }


def main(
    data: DataFolder = None,
    embedder: Embedders = None,
    limit: Annotated[int, typer.Option(help="Requests per data set.")] = LIMIT,
    *,
    unclean: Unclean = False,
) -> None:
    """Measure every data set, and store the rows."""
    console, book, folder = Console(), opened_book("gateway", KEY, look=unclean), data_folder(data)
    try:
        sets = [read(folder, seed=SEED) for read in (bfcl_live, metatool_single, metatool_multi)]
    except DataMissingError as error:
        raise no_data(error) from None
    for spec in embedder or ["static", "minilm"]:
        for dataset in sets:
            row = asyncio.run(measured(dataset, folder, spec, limit))
            book.store(row)
            console.print(f"{row['dataset']} {row['embedder']}: {row}")


if __name__ == "__main__":
    typer.run(main)
