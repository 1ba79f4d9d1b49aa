"""`jazz-select serve` as a process: where it answers, what it says, and how it ends."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from typer.testing import CliRunner

from jazz_select.cli import app

_PATIENCE_S = 40.0
_OWN = 3
_RUN = "from jazz_select.cli import app; app()"


def arguments(folder: Path, *options: str) -> list[str]:
    """Serve the flows of a folder, from an index beside them."""
    flows = [] if "--agents" in options else ["--flows", str(folder / "flows")]
    given = [*flows, "--index", str(folder / "index"), "--config", "embedder=static"]
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
    """What is said on stderr, asked in this process, where it does not even begin."""
    result = CliRunner().invoke(app, arguments(folder, *options)[_OWN:])
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    return result.stderr


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
