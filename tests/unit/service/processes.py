"""`jazz-select serve` as a process: where it answers, what it says, and how it ends."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

_PATIENCE_S = 40.0
_RUN = "from jazz_select.cli import app; app()"


def arguments(folder: Path, *options: str) -> list[str]:
    """Serve the flows of a folder, from an index beside them."""
    given = ["--flows", str(folder / "flows"), "--index", str(folder / "index"), "--embedder", "static"]
    return [sys.executable, "-c", _RUN, "serve", *given, *options]


@dataclass
class Process:
    """One that answers."""

    popen: "subprocess.Popen[str]"
    root: str
    said: list[str] = field(default_factory=list[str])

    def post(self, path: str, body: object, **headers: str) -> httpx.Response:
        """Ask once, over a connection of its own."""
        return httpx.post(f"{self.root}{path}", json=body, headers=headers, timeout=_PATIENCE_S)

    def ends(self) -> int:
        """Wait until it has ended, and say with what."""
        return self.popen.wait(_PATIENCE_S)


def refused(folder: Path, *options: str) -> str:
    """What it says on stderr where it does not even begin."""
    done = subprocess.run(
        arguments(folder, *options),
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    return done.stderr


@contextmanager
def running(folder: Path, *options: str, log: Path | None = None) -> Generator[Process]:
    """One that has said where it answers; killed at the end where it still runs."""
    with (log or folder / "stderr").open("a") as stderr:
        popen = subprocess.Popen(
            arguments(folder, *(options or ("--port", "0"))),
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    try:
        assert popen.stdout is not None
        root = popen.stdout.readline().strip()
        assert root, (folder / "stderr").read_text()
        yield Process(popen, root)
    finally:
        popen.kill()
        popen.wait()
        if popen.stdout is not None:
            popen.stdout.close()
