"""Runs the blocks of many pages, each page in a process of its own.

    python -m tests.doc_pages

reads orders, a line of JSON each, and answers each with the exit status of its page. What most pages import is imported
once, and a page's process is a fork of that: it has what a new interpreter has, and nothing of the pages before it.
Where a fork is not safe, a new interpreter is started for each.
"""

import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.doc_blocks import run

ROOT = Path(__file__).parents[1]
SHARED = ("httpx", "numpy", "jazz_select.agent", "jazz_select.build", "jazz_select.testing", "qdrant_client")
ALONE = "OPENBLAS_NUM_THREADS"
"""Set while modules are imported: a process that has threads cannot be forked safely."""


class Pages:
    """The process that runs pages; started with the first, and anew where it was interrupted."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def run(self, page: Path, name: str, *, folder: Path, environment: Mapping[str, str]) -> tuple[int, str]:
        """Run a page in a folder as `python -W error -m tests.doc_blocks` does: the exit status, and what it said."""
        said = folder.with_name(f"{folder.name}.said")
        order = {
            "page": str(page),
            "name": name,
            "folder": str(folder),
            "said": str(said),
            "environment": {**environment, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])},
        }
        process = self._process = self._process or _started(environment)
        assert process.stdin
        assert process.stdout
        try:
            process.stdin.write(f"{json.dumps(order)}\n")
            process.stdin.flush()
            status = int(process.stdout.readline())
        except BaseException:
            self.close()
            raise
        return status, said.read_text("utf-8", "replace")

    def close(self) -> None:
        """End it, with the page that it runs."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL) if os.name == "posix" else process.kill()
            process.communicate()


def _started(environment: Mapping[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "tests.doc_pages"],
        cwd=ROOT,
        env={**environment, "PYTHONPATH": str(ROOT), ALONE: "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def served() -> dict[str, Any] | None:
    """Have a process run each page that is ordered; gives the order to the process that is to run it."""
    forks = sys.platform == "linux" and shared()
    for line in sys.stdin:
        order = json.loads(line)
        if forks:
            page = os.fork()
            if page == 0:
                return order
            status = os.waitstatus_to_exitcode(os.waitpid(page, 0)[1])
        else:
            command = [sys.executable, "-W", "error", "-m", "tests.doc_blocks", order["page"], order["name"]]
            with Path(order["said"]).open("wb") as said:
                status = subprocess.call(
                    command,
                    cwd=order["folder"],
                    env=order["environment"],
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                )
        sys.stdout.write(f"{status}\n")
        sys.stdout.flush()
    return None


def shared() -> bool:
    """Import what most pages do; False where that has started a thread."""
    modules: dict[str, Any] = sys.modules
    modules["fastembed"] = None  # qdrant_client imports it where it is there, and ONNX, which starts a thread
    for module in SHARED:
        import_module(module)
    del modules["fastembed"]
    gc.collect()
    gc.freeze()
    return len(list(Path("/proc/self/task").iterdir())) == 1


def become(order: Mapping[str, Any]) -> None:
    """Be what a new interpreter in that folder and environment would be."""
    os.chdir(order["folder"])
    os.environ.clear()  # noqa: TID251
    os.environ.update(order["environment"])  # noqa: TID251
    sys.path[0:1] = [order["folder"], order["folder"]]
    sys.argv[1:] = [order["page"], order["name"]]
    said = os.open(order["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for place, file in enumerate((os.open(os.devnull, os.O_RDONLY), said, said)):
        os.dup2(file, place)


if __name__ == "__main__" and (order := served()) is not None:
    become(order)
    run(Path(order["page"]).read_text("utf-8"), order["name"])
