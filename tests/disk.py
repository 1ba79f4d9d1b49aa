"""An embedded index on a disk that fills up, many times over: `python -m tests.disk` (Linux).

A trial is a small file system in memory, in a mount namespace of its own, and a process that syncs larger and larger
catalogues until there is no room. It has to end by itself with a `DiskFullError`; then room is made, the index opens
again, holds each batch that was acknowledged, and a sync finishes. In every fifth trial another program takes all the
room there is while the process writes: then, and only then, it may be ended by SIGBUS, as SECURITY.md says, and what
was acknowledged still has to be there.
"""

import argparse
import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

from jazz_select import ProceduralMemory
from jazz_select.errors import DiskFullError
from jazz_select.testing import HashEmbedder
from tests.unit.memory.cards import card

FULL: Final = 28
_GROWTH: Final = 700
_MOST: Final = 100_000


async def fill(index: Path, dim: int, about: int) -> int:
    """Sync more and more flows, say how many are there after each batch, and how it ended by the exit code."""
    try:
        async with await ProceduralMemory.open(index, embedder=HashEmbedder(dim)) as memory:
            for count in range(_GROWTH, _MOST, _GROWTH):
                flows = [card(f"flow_{number}", f"about {number} {'x' * about}") for number in range(count)]
                before = count - _GROWTH

                def told(done: int, _: int, before: int = before) -> None:
                    _say(before + done)

                await memory.sync("a", flows, progress=told)
    except DiskFullError as error:
        sys.stderr.write(f"{error}\n")
        return FULL
    return 0


async def reopen(index: Path, dim: int, about: int, acknowledged: int) -> None:
    """What was acknowledged is there, and a sync finishes."""
    async with await ProceduralMemory.open(index, embedder=HashEmbedder(dim)) as memory:
        names = [each["flow_name"] for each in await memory.list_flows("a")]
        assert len(set(names)) == len(names) >= acknowledged, f"{len(names)} of {acknowledged} flows are left"
        flows = [card(f"flow_{number}", f"about {number} {'x' * about}") for number in range(acknowledged + 10)]
        await memory.sync("a", flows, allow_delete=True)
        assert (await memory.recall("flow_3", "a", top_k=10))[0]["flow_name"]
        assert len(await memory.list_flows("a")) == acknowledged + 10


def trial(seed: int) -> str:
    """One trial, in a mount namespace of its own; returns how the writing process ended."""
    dice = random.Random(seed)
    size, dim, about = dice.randint(20, 60), dice.choice([32, 256, 384]), dice.choice([0, 200, 2_000])
    greedy = seed % 5 == 4
    place = Path(tempfile.mkdtemp(prefix="jazz-disk-"))
    _run("mount", "-t", "tmpfs", "-o", f"size={size}m", "tmpfs", str(place))
    try:
        index = place / "index"
        arguments = [str(index), str(dim), str(about)]
        writer = subprocess.Popen([sys.executable, "-m", "tests.disk", "--fill", *arguments], stdout=subprocess.PIPE)
        if greedy:
            _take_all(place, after=dice.uniform(0.5, 4.0))
        said, _ = writer.communicate(timeout=300)
        acknowledged = max((int(line) for line in said.split()), default=0)
        (place / "greedy").unlink(missing_ok=True)
        _run("mount", "-o", f"remount,size={size + 200}m", str(place))
        asyncio.run(reopen(index, dim, about, acknowledged))
        allowed = {FULL, -signal.SIGBUS} if greedy else {FULL}
        assert writer.returncode in allowed, f"seed {seed}: it ended with {writer.returncode}"
        return "greedy neighbour: " * greedy + ("DiskFullError" if writer.returncode == FULL else "SIGBUS")
    finally:
        _run("umount", str(place))
        place.rmdir()


_OWN: Final = ["unshare", *(() if os.geteuid() == 0 else ("--user", "--map-root-user")), "--mount"]
"""Runs a command in a mount namespace of its own."""


def _what_is_lacking() -> str:
    """Why no disk can be made here; empty where one can."""
    lacking = [program for program in ("unshare", "mount", "umount") if not shutil.which(program)]
    if lacking:
        return f"this machine has no {', '.join(lacking)}"
    with tempfile.TemporaryDirectory() as place:
        tried = [*_OWN, "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place]
        done = subprocess.run(tried, capture_output=True, text=True, check=False)
    return f"this machine does not let us mount a disk in memory ({done.stderr.strip()})" if done.returncode else ""


def _say(line: object) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _run(program: str, *arguments: str) -> None:
    subprocess.run([shutil.which(program) or program, *arguments], check=True)


def _take_all(place: Path, *, after: float) -> None:
    time.sleep(after)
    with (place / "greedy").open("wb", buffering=0) as file:
        try:
            while shutil.disk_usage(place).free:
                file.write(bytes(1 << 16))
        except OSError:
            pass


def main() -> int:
    """Run trials and count how they ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="seed of the first trial")
    parser.add_argument("--fill", nargs=3, metavar=("INDEX", "DIM", "ABOUT"), help=argparse.SUPPRESS)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fill:
        index, dim, about = options.fill
        return asyncio.run(fill(Path(index), int(dim), int(about)))
    if not options.inside:
        if lacks := _what_is_lacking():
            _say(f"not checked: {lacks}")
            return 0
        again = [*_OWN, sys.executable, "-m", "tests.disk", "--inside", "--trials", str(options.trials)]
        return subprocess.run([*again, "--first", str(options.first)], check=False).returncode
    ended = Counter(trial(seed) for seed in range(options.first, options.first + options.trials))
    for how, times in sorted(ended.items()):
        _say(f"{times:>4}  {how}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
