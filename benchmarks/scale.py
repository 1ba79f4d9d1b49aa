"""What size costs: sync, recall, memory and disk. `python -m benchmarks.scale --data DIR [--large]`."""

import asyncio
import json
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import rows
from benchmarks.datasets.base import Entry
from benchmarks.datasets.intents import clinc150_pieces
from benchmarks.engine import BareEmbedder, BareEngine
from benchmarks.index import AGENT, registry_of
from benchmarks.metrics import percentile
from benchmarks.options import DataFolder, Unclean, data_folder, opened_book
from jazz_select import ProceduralMemory, sync_registry
from jazz_select.memory.embedders.known_embedders import open_embedder
from jazz_select.memory.encoder import Encoder, Lexical
from jazz_select.memory.recall import ARM_DEPTH

KEY = ("flows", "embedder")
SIZES = ((100, "static"), (1_000, "static"), (1_000, "minilm"), (10_000, "static"))
LARGE = (100_000, "static")
_ASKED = 500


def catalogue(data: Path, size: int) -> tuple[list[Entry], list[str], str]:
    """So many flows, requests for them, and the fingerprint of the file; beyond 3,000 they repeat in other words."""
    pieces = clinc150_pieces(data, flows=3_000, examples=5, seed=1)
    entries: list[Entry] = []
    for number in range(size):
        entry, turn = pieces.flows[number % len(pieces.flows)], number // len(pieces.flows)
        if turn:
            words = f"case {turn} of branch {number % 97}"
            examples = tuple(f"{text} {words}" for text in entry.examples)
            entry = replace(entry, name=f"{entry.name} {words}", examples=examples)
        entries.append(entry)
    return entries, [request.text for request in pieces.requests[:_ASKED]], pieces.sha256


async def measured(data: Path, size: int, embedder: str) -> rows.Row:
    """One size, in this process: `main` gives each a fresh one."""
    entries, requests, sha256 = catalogue(data, size)
    registry = registry_of(entries)
    before = _resident()
    with TemporaryDirectory(prefix="jazz-bench-") as folder:
        index = Path(folder) / "index"
        async with await ProceduralMemory.open(index, embedder=embedder) as memory:
            cold = await _seconds(memory, registry)
            unchanged = await _seconds(memory, registry)
            recall: list[float] = []
            for text in requests:
                start = perf_counter()
                await memory.recall(text, AGENT)
                recall.append(perf_counter() - start)
            used = _resident() - before
            disk = _on_disk(folder)
        changed = _in_a_process(data, size, embedder, "--index", str(index))
    bare = _bare(entries, requests) if embedder == "static" else []
    return {
        "flows": size,
        "embedder": embedder,
        "dataset": "clinc150 pieces",
        "data": sha256,
        "requests": len(requests),
        "cold_s": round(cold, 2),
        "unchanged_s": round(unchanged, 3),
        "changed_s": changed["changed_s"],
        "recall_ms": rows.rounded({f"p{share}": 1e3 * percentile(recall, share / 100) for share in (50, 99)}, 3),
        "bare_ms": rows.rounded({"p50": 1e3 * percentile(bare, 0.5)}, 3) if bare else None,
        "memory_mb": round(used / 1e6),
        "disk_mb": round(disk / 1e6),
    }


async def changed(data: Path, size: int, embedder: str, index: Path) -> rows.Row:
    """What the sync of a process that begins with it takes, where one flow of this index has changed."""
    first, *others = catalogue(data, size)[0]
    registry = registry_of([replace(first, examples=(*first.examples, "something else")), *others])
    async with await ProceduralMemory.open(index, embedder=embedder) as memory:
        return {"changed_s": round(await _seconds(memory, registry), 3)}


def _in_a_process(data: Path, size: int, embedder: str, *more: str) -> rows.Row:
    given = ["--data", str(data), "--one", str(size), "--embedder", embedder, *more]
    command = [sys.executable, "-m", "benchmarks.scale", *given]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)  # noqa: S603


async def _seconds(memory: ProceduralMemory, registry: object) -> float:
    start = perf_counter()
    await sync_registry(memory, AGENT, registry)  # pyright: ignore[reportArgumentType]
    return perf_counter() - start


def _bare(entries: list[Entry], requests: list[str]) -> list[float]:
    """Bare embedding and engine, over the same points."""
    encoder = Encoder(open_embedder("static"), Lexical())
    cards = [flow.card() for flow in registry_of(entries).values()]
    embedder = BareEmbedder()
    seconds: list[float] = []
    with TemporaryDirectory(prefix="jazz-bench-") as folder:
        engine = BareEngine(Path(folder) / "bare", encoder.points(AGENT, cards, encoder.rows(cards)), depth=ARM_DEPTH)
        for text in requests:
            words = encoder.lexical.query(text)
            if words is not None:
                start = perf_counter()
                engine.ask_words(embedder.embed(text), words)
                seconds.append(perf_counter() - start)
        engine.close()
    return seconds


def _on_disk(folder: str) -> int:
    """Bytes that are really taken; an engine's files have holes."""
    return sum(file.stat().st_blocks * 512 for file in Path(folder).rglob("*") if file.is_file())


def _resident() -> int:
    """Bytes of this process at its peak."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(
    data: DataFolder = None,
    *,
    large: Annotated[bool, typer.Option("--large", help="100,000 flows as well.")] = False,
    one: Annotated[int, typer.Option(hidden=True)] = 0,
    embedder: Annotated[str, typer.Option(hidden=True)] = "static",
    index: Annotated[Path | None, typer.Option(hidden=True)] = None,
    unclean: Unclean = False,
) -> None:
    """Measure each size in a process of its own, and store the rows."""
    folder = data_folder(data)
    if one:
        run = measured(folder, one, embedder) if index is None else changed(folder, one, embedder, index)
        typer.echo(json.dumps(asyncio.run(run)))
        return
    console, book = Console(), opened_book("scale", KEY, look=unclean)
    for size, each in (*SIZES, *((LARGE,) if large else ())):
        row = _in_a_process(folder, size, each)
        book.store(row)
        console.print(row)


if __name__ == "__main__":
    typer.run(main)
