"""Is a service of one process as fast as it was? `python -m benchmarks.beside --commit COMMIT`. Needs no data.

The service of an earlier commit and that of this one run side by side, each with a log and claims in files of its own.
They are asked in turn: a block of selects, then dialogues whose last turn makes a call that must not be repeated. Who
is asked first changes with each round, so that what else the machine does meets both.
"""

import asyncio
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated, Any, Final

import httpx
import typer
from rich.console import Console

from benchmarks import machine, rows
from benchmarks.metrics import percentile
from benchmarks.options import Unclean, opened_book
from tests.replicas import Cluster

KEY: Final = ("question", "before")
_RUN: Final = "from jazz_select.cli import app; app()"
_SELECTS, _DIALOGUES = 100, 30
_Times = dict[str, list[float]]


@contextmanager
def checked_out(commit: str, folder: Path) -> Generator[Path]:
    """Check a commit out beside this one."""
    git = ["git", "-C", str(machine.ROOT), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(folder), commit], check=True)  # noqa: S603 - a commit of ours
    try:
        yield folder
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True)  # noqa: S603 - likewise


@contextmanager
def served(source: Path, flows: Path, folder: Path) -> Generator[str]:
    """Serve the flows by the code of a folder; give the address."""
    folder.mkdir()
    arguments = [
        *("serve", "--flows", str(flows), "--index", str(folder / "index")),
        *("--port", "0", "--log", str(folder / "outcomes.db")),
    ]
    variables = {
        "PYTHONPATH": str(source),
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "JAZZ_EMBEDDER": "static",
    }
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(  # noqa: S603 - our own code
            [sys.executable, "-c", _RUN, *arguments],
            cwd=folder,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    try:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        root = process.stdout.readline().strip()
        if not root:
            raise SystemExit((folder / "log").read_text())
        yield root
    finally:
        process.terminate()
        process.wait(30)


async def ask(client: httpx.AsyncClient, took_ms: _Times, dialogue: str) -> None:
    """Ask one service for a round."""

    async def post(path: str, body: dict[str, Any], kind: str = "") -> Any:
        began = perf_counter()
        answer = await client.post(path, json=body)
        if kind:
            took_ms[kind].append((perf_counter() - began) * 1_000)
        return answer.raise_for_status().json()

    for _ in range(_SELECTS):
        await post("/v1/select", {"request": "where is my parcel"}, "selects")
    for number in range(_DIALOGUES):
        said = {"message": "close my account", "context": {"email": f"{dialogue}-{number}@example.org"}}
        begun = await post("/v1/turn", said)
        answer = await post("/v1/turn", {**said, "message": "yes", "history": begun["conversation"]}, "claimed turns")
        if answer["status"] != "done":
            raise SystemExit(answer)


async def asked(roots: list[str], rounds: int) -> list[_Times]:
    """Ask both services in turn; return the milliseconds of each answer of each."""
    took_ms: list[_Times] = [{"selects": [], "claimed turns": []} for _ in roots]
    clients = [httpx.AsyncClient(base_url=root, timeout=60) for root in roots]
    try:
        warm: _Times = {"selects": [], "claimed turns": []}
        for client in clients:
            await ask(client, warm, "warm")
        for number in range(rounds):
            order = (0, 1) if number % 2 else (1, 0)
            for each in order:
                await ask(clients[each], took_ms[each], f"{number}")
    finally:
        for client in clients:
            await client.aclose()
    return took_ms


def row_of(question: str, before: str, times: list[_Times], size: int) -> rows.Row:
    """Compare the answers of one kind: medians, and the median of the ratios of all rounds."""
    old, new = (each[question] for each in times)
    ratios = [median(new[at : at + size]) / median(old[at : at + size]) for at in range(0, len(new) - size + 1, size)]
    return {
        "question": question,
        "before": before,
        "answers": len(new),
        "before_ms": rows.rounded({f"p{p}": percentile(old, p / 100) for p in (50, 99)}, 2),
        "now_ms": rows.rounded({f"p{p}": percentile(new, p / 100) for p in (50, 99)}, 2),
        "ratio": round(median(ratios), 3),
        "least_ratio": round(min(ratios), 3),
        "most_ratio": round(max(ratios), 3),
    }


def main(
    *,
    commit: Annotated[str, typer.Option(help="The earlier commit.")],
    rounds: Annotated[int, typer.Option(help="How often each is asked.")] = 20,
    unclean: Unclean = False,
) -> None:
    """Measure both, and store the rows."""
    console, book = Console(), opened_book("beside", KEY, look=unclean)
    with TemporaryDirectory() as name:
        folder = Path(name)
        flows = Cluster(folder).write_flows(folder / "flows")
        with (
            checked_out(commit, folder / "before") as before,
            served(before, flows, folder / "old") as old,
            served(machine.ROOT, flows, folder / "new") as new,
        ):
            times = asyncio.run(asked([old, new], rounds))
    sizes = {"selects": _SELECTS, "claimed turns": _DIALOGUES}
    found = [row_of(question, commit, times, size) for question, size in sizes.items()]
    book.store(*found)
    for row in found:
        console.print(row)


if __name__ == "__main__":
    typer.run(main)
