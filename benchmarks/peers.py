"""What a reader would otherwise pick, in one run: `python -m benchmarks.peers --data DIR [--models DIR]`.

The same flows, requests, seeds and embedder for all; per request, embedding included, one at a time.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks import metrics, rows
from benchmarks.datasets import catalogue
from benchmarks.datasets.base import Dataset, Request, sampled
from benchmarks.index import AGENT, described, indexed
from benchmarks.options import (
    DataFolder,
    Embedders,
    ModelsFolder,
    Unclean,
    data_folder,
    embedder_label,
    embedder_specs,
    opened_book,
    parsed_seeds,
)
from benchmarks.peer_recipe import CommonRecipe
from benchmarks.peer_systems import SYSTEMS, WARM_UP
from jazz_select.memory.encoder import spoken_name

HERE = Path(__file__).parent
ENVIRONMENT = HERE.parent / ".venv-peers"
REQUIREMENTS = HERE / "requirements-peers.txt"
DATASETS = ("clinc150-5", "banking77-5", "bfcl-live", "metatool-single", "livemcpbench")
KEY = ("dataset", "embedder", "seed", "system")
LIMIT = 1_000
TOP = 5
OURS, RECIPE = "jazz_select", "the common recipe"


class PeersMissingError(Exception):
    """The other routers cannot be installed here."""


def peers_python() -> Path:
    """The interpreter of the environment that holds the other routers; made at the first call.

    Raises:
        PeersMissingError: It cannot be made.
    """
    python = ENVIRONMENT / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    done = ENVIRONMENT / ".done"
    wanted = REQUIREMENTS.read_text(encoding="utf-8")
    if not done.is_file() or done.read_text(encoding="utf-8") != wanted:
        for command in (
            [sys.executable, "-m", "venv", str(ENVIRONMENT)],
            [str(python), "-m", "pip", "install", "--quiet", "-r", str(REQUIREMENTS)],
        ):
            ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
            if ran.returncode:
                msg = f"{' '.join(command[1:4])} failed: {ran.stderr.strip()[-300:]}"
                raise PeersMissingError(msg)
        done.write_text(wanted, encoding="utf-8")
    return python


def asked_peer(
    python: Path, system: str, dataset: Dataset, embedder: str, labelled: Sequence[Request] = ()
) -> dict[str, Any]:
    """What another router answers, from its own environment; its confidence is fitted to labelled requests, if any."""
    task: dict[str, Any] = {
        "system": system,
        "embedder": embedder,
        "flows": [
            {"name": flow.name, "text": f"{spoken_name(flow.name)}: {described(flow)}", "examples": flow.examples}
            for flow in dataset.flows
        ],
        "requests": [request.text for request in dataset.requests],
        "top": TOP,
        "root": str(HERE.parent),
        **({"labelled": [(each.text, min(each.gold)) for each in labelled]} if labelled else {}),
    }
    ran = subprocess.run(  # noqa: S603 - our own script
        [str(python), str(HERE / "peer_systems.py")],
        input=json.dumps(task) + "\n",
        capture_output=True,
        text=True,
        check=False,
    )
    last = ran.stdout.strip().rpartition("\n")[2]
    return json.loads(last) if last.startswith("{") else {"error": ran.stderr.strip()[-300:]}


async def timed(ask: Callable[[str], Awaitable[list[str]]], dataset: Dataset, build_s: float) -> dict[str, Any]:
    """Ask all requests, one at a time."""
    ranked: list[list[str]] = []
    seconds: list[float] = []
    for request in dataset.requests[:WARM_UP]:
        await ask(request.text)
    for request in dataset.requests:
        start = perf_counter()
        found = await ask(request.text)
        seconds.append(perf_counter() - start)
        ranked.append(found)
    return {"build_s": build_s, "ranked": ranked, "seconds": seconds}


async def asked_ours(dataset: Dataset, embedder: str) -> dict[str, Any]:
    """What recall answers by default."""
    start = perf_counter()
    async with indexed(dataset.flows, embedder) as index:
        build_s = perf_counter() - start

        async def ask(request: str) -> list[str]:
            return [found["flow_name"] for found in await index.memory.recall(request, AGENT, top_k=TOP)]

        return await timed(ask, dataset, build_s)


async def asked_recipe(dataset: Dataset, embedder: str) -> dict[str, Any]:
    """What the common recipe answers."""
    start = perf_counter()
    recipe = CommonRecipe(embedder, TOP)
    await recipe.build(dataset.flows)
    try:
        return await timed(recipe.ask, dataset, perf_counter() - start)
    finally:
        await recipe.close()


def row_of(answer: dict[str, Any], dataset: Dataset, embedder: str, system: str) -> rows.Row:
    """One row of results."""
    golds = [request.gold for request in dataset.requests]
    ranked: Sequence[Sequence[str]] = answer["ranked"]
    shares = {
        f"R@{k}": metrics.mean([metrics.recall_at(*pair, k) for pair in zip(ranked, golds, strict=True)])
        for k in (1, 3, 5)
    }
    times = {f"p{share}": 1000 * metrics.percentile(answer["seconds"], share / 100) for share in (50, 99)}
    return {
        "dataset": dataset.name,
        "embedder": embedder_label(embedder),
        "seed": dataset.seed,
        "system": system,
        "data": dataset.sha256,
        "flows": len(dataset.flows),
        "requests": len(dataset.requests),
        "shares": rows.rounded(shares),
        "ms": rows.rounded(times, 3),
        "build_s": round(answer["build_s"], 3),
    }


def answers(python: Path | None, dataset: Dataset, embedder: str) -> Sequence[tuple[str, Callable[[], dict[str, Any]]]]:
    """Every system, and how it is asked; those of others only where they could be installed."""

    def asking(system: str, interpreter: Path) -> Callable[[], dict[str, Any]]:
        return lambda: asked_peer(interpreter, system, dataset, embedder)

    theirs = [] if python is None else [(system, asking(system, python)) for system in SYSTEMS]
    return (
        (OURS, lambda: asyncio.run(asked_ours(dataset, embedder))),
        (RECIPE, lambda: asyncio.run(asked_recipe(dataset, embedder))),
        *theirs,
    )


def main(  # noqa: PLR0913 - one parameter per option
    data: DataFolder = None,
    models: ModelsFolder = None,
    embedder: Embedders = None,
    dataset: Annotated[list[str] | None, typer.Option(help="A data set by name; may be repeated.")] = None,
    seeds: Annotated[str, typer.Option(help="Seeds of the reported mean; 0 is for development.")] = "1,2,3",
    limit: Annotated[int, typer.Option(help="Requests per data set, the same ones for every system.")] = LIMIT,
    *,
    only: Annotated[list[str] | None, typer.Option("--system", help="A system by name; may be repeated.")] = None,
    unclean: Unclean = False,
) -> None:
    """Ask every system the same, and store one row for each."""
    folder, console = data_folder(data), Console()
    book = opened_book("peers", KEY, look=unclean)
    try:
        python = peers_python()
    except PeersMissingError as error:
        console.print(f"other routers are left out: {error}", style="yellow")
        python = None
    for spec in embedder_specs(embedder, models):
        for name in dataset or DATASETS:
            for seed in parsed_seeds(seeds):
                whole = catalogue.load(name, folder, seed)
                part = replace(whole, requests=sampled(whole.requests, limit, seed))
                for system, ask in answers(python, part, spec):
                    if only and system not in only:
                        continue
                    answer = ask()
                    if "error" in answer:
                        console.print(f"{name}, {system}: {answer['error']}", style="yellow")
                        continue
                    row = row_of(answer, part, spec, system)
                    book.store(row)
                    console.print(f"{name} {seed} {embedder_label(spec)} {system}: {row['shares']} {row['ms']}")


if __name__ == "__main__":
    typer.run(main)
