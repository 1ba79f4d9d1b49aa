"""How long does judging take? `python -m benchmarks.judging_speed --data DIR`.

`check`, `eval` and `diff` as a user runs them, the start of Python included: 500 flows with five examples each, made of
the intents of CLINC150, and 2,000 labelled requests. The change that `diff` sees is one more example.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks import rows
from benchmarks.datasets.intents import clinc150_pieces
from benchmarks.machine import ROOT
from benchmarks.options import DataFolder, Unclean, data_folder, opened_book

KEY = ("command", "flows", "requests", "embedder", "state")
FLOWS, EXAMPLES, REQUESTS, SEED = 500, 5, 2_000, 1
EMBEDDER = "static"
_RUN = "import sys; sys.path.insert(0, sys.argv.pop(1)); from jazz_select.cli import app; app()"
_FILES = 10
_NOT_GOOD_ENOUGH = 1


def written(data: Path, folder: Path) -> None:
    """The catalogue as files in a repository, and the requests as cases."""
    pieces = clinc150_pieces(data, flows=FLOWS, examples=EXAMPLES, seed=SEED)
    flows = [
        {
            "name": entry.name,
            "description": entry.description or entry.name,
            "condition": f"The user wants {entry.name}.",
            "desired_effects": [f"{entry.name} is done"],
            "examples": list(entry.examples),
        }
        for entry in pieces.flows
    ]
    (folder / "flows").mkdir()
    share = len(flows) // _FILES
    for number in range(_FILES):
        some = flows[number * share : (number + 1) * share]
        (folder / "flows" / f"part{number}.json").write_text(json.dumps(some, indent=1), "utf-8")
    cases = [{"request": each.text, "expect": sorted(each.gold)} for each in pieces.requests[:REQUESTS]]
    (folder / "cases.json").write_text(json.dumps(cases), "utf-8")
    (folder / ".gitignore").write_text(".jazz/\n", "utf-8")
    identity = ["-c", "user.name=bench", "-c", "user.email=bench@example.org", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=folder, check=True)  # noqa: S603, S607 - whichever git there is


def edited(folder: Path, words: str) -> None:
    """One more example for the first flow."""
    file = folder / "flows" / "part0.json"
    flows: list[dict[str, Any]] = json.loads(file.read_text("utf-8"))
    flows[0]["examples"].append(words)
    file.write_text(json.dumps(flows, indent=1), "utf-8")


def timed(folder: Path, words: Sequence[str]) -> tuple[float, float]:
    """Wall and processor seconds of a command, that of its processes included.

    Raises:
        RuntimeError: It did not do its work.
    """
    began, before = perf_counter(), os.times()
    command = [sys.executable, "-c", _RUN, str(ROOT), *words, "--embedder", EMBEDDER, "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)  # noqa: S603 - a list, no shell
    took, after = perf_counter() - began, os.times()
    if done.returncode not in {0, _NOT_GOOD_ENOUGH}:
        raise RuntimeError(done.stderr.decode(errors="replace")[-500:])
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return took, used


def measured(data: Path, command: str, times: int) -> list[rows.Row]:
    """A row for each state of the cache."""
    words = [command, *{"check": (), "eval": ("cases.json",), "diff": ("--cases", "cases.json")}[command]]
    states: dict[str, list[tuple[float, float]]] = {}
    for _ in range(times):
        with TemporaryDirectory(prefix="jazz-judging-") as made:
            folder = Path(made)
            written(data, folder)
            edited(folder, "please see to this as soon as you can")
            states.setdefault("nothing cached", []).append(timed(folder, words))
            if command == "diff":
                edited(folder, "could you do that for me again")
                states.setdefault("one side cached", []).append(timed(folder, words))
            states.setdefault("all cached", []).append(timed(folder, words))
    return [
        {
            "command": command,
            "flows": FLOWS,
            "requests": REQUESTS,
            "embedder": EMBEDDER,
            "state": state,
            "runs": times,
            "numbers": rows.rounded(
                {"wall_s": median(wall for wall, _ in taken), "cpu_s": median(used for _, used in taken)}
            ),
        }
        for state, taken in states.items()
    ]


def main(
    data: DataFolder = None,
    command: Annotated[list[str] | None, typer.Option(help="check, eval or diff; all where none is named.")] = None,
    times: Annotated[int, typer.Option(help="Runs of each, of which the median counts.")] = 3,
    *,
    unclean: Unclean = False,
) -> None:
    """Measure the commands, and store the rows."""
    folder, console = data_folder(data).resolve(), Console()
    book = opened_book("judging_speed", KEY, look=unclean)
    for each in command or ("check", "eval", "diff"):
        for row in measured(folder, each, times):
            book.store(row)
            console.print(f"{each}, {row['state']}: {row['numbers']}")


if __name__ == "__main__":
    typer.run(main)
