"""Requests in other languages than the flows: which embedder finds them?

`python -m benchmarks.languages`

The requests were written for this project (`data/languages.yaml`), since no public set of them is at hand; they are
asked of the flows in `flows/`, which are in English.
"""

import asyncio
from pathlib import Path
from typing import Any

import typer
import yaml
from rich.console import Console

from benchmarks import rows
from benchmarks.followups import Asked, median_ms, own_flows, shares
from benchmarks.options import Embedders, Unclean, embedder_label, opened_book

WRITTEN = Path(__file__).parent / "data" / "languages.yaml"
KEY = ("language", "embedder")
EMBEDDERS = ("static", "minilm", "multilingual", "auto")


async def measured(embedder: str, written: dict[str, Any]) -> list[rows.Row]:
    """One row for each language."""
    found: list[rows.Row] = []
    async with own_flows(embedder, language="english" if embedder == "auto" else "none") as memory:
        for language, told in written.items():
            asked = [Asked(said=said, gold=frozenset({flow})) for flow, said in told["requests"]]
            numbers = rows.rounded(await shares(memory, asked, "none"))
            took = round(await median_ms(memory, asked), 3)
            row = {"language": language, "embedder": embedder_label(embedder), "requests": len(asked)}
            found.append({**row, "numbers": numbers, "ms": took})
    return found


def main(embedder: Embedders = None, *, unclean: Unclean = False) -> None:
    """Measure every language, and store the rows."""
    written = yaml.safe_load(WRITTEN.read_text(encoding="utf-8"))
    book, console = opened_book("languages", KEY, look=unclean), Console()
    for spec in embedder or EMBEDDERS:
        found = asyncio.run(measured(spec, written))
        book.store(*found)
        for row in found:
            console.print(f"{row['language']} {row['embedder']}: {row['numbers']} {row['ms']} ms")


if __name__ == "__main__":
    typer.run(main)
