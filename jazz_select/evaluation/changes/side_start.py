"""Starting the process of a side, and ending it. One may be started ahead, and load beside whoever is to use it."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import cast

import jazz_select

_SELDOM = 50_000
"""Objects made, and not let go of, between two looks for those that hold each other."""
_PROGRAM = (
    f"import gc, sys; gc.set_threshold({_SELDOM}, 50, 50); here = sys.argv[2]; "
    "sys.path[:] = [sys.argv[1], *(each for each in sys.path if each not in ('', '.', here))]; "
    "from jazz_select.evaluation.changes.side_process import main; sys.path.pop(0); main()"
)
"""The library that compares is the one that judges both sides, whatever lies in their trees; they are found later."""
_LIBRARY = str(Path(jazz_select.__file__).absolute().parents[1])
_END_S, _STEP_S = 5.0, 0.005
"""How long a process that is killed may take to end, and how often that is looked at."""
_ahead: ContextVar[list[Process] | None] = ContextVar("jazz_select_started_ahead", default=None)


def usable_cores() -> int:
    """How many processes can work at once."""
    mine = getattr(os, "sched_getaffinity", None)  # of Linux alone
    return len(mine(0)) if mine is not None else os.cpu_count() or 1


@contextmanager
def started_ahead() -> Generator[asyncio.Runner]:
    """A runner, in which the first side that needs a process finds one that is loading since this block began.

    Where that is never needed it ends with the block. With one core there is none: it would take the time of others.
    """
    started: list[Process] = []

    async def start() -> None:
        started.append(await _started(Path.cwd()))
        _ahead.set(started)

    async def end() -> None:
        await ended(started.pop())

    with asyncio.Runner() as runner:
        if usable_cores() > 1:
            runner.run(start())
        try:
            yield runner
        finally:
            if started:
                runner.run(end())


async def process_for(root: Path) -> Process:
    """One that reads a job for a side in this folder."""
    ahead = _ahead.get()
    if ahead and str(root) not in sys.path:  # where it is, the one ahead may have imported something from there
        return ahead.pop()
    return await _started(root)


async def _started(root: Path) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-c",
        _PROGRAM,
        _LIBRARY,
        str(root),
        cwd=root,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        start_new_session=True,  # a group of its own, which ends with it
    )


async def ended(process: Process) -> None:
    """It and all that it started end; what left its group is not waited for."""
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform != "win32":
            os.killpg(process.pid, signal.SIGKILL)
        elif process.returncode is None:
            process.kill()
    await exit_code(process)
    if process.stdin is not None:
        process.stdin.close()
    # Whoever left the group may hold the other ends of the pipes: they are closed on this side.
    transport = cast("asyncio.SubprocessTransport", process._transport)  # noqa: SLF001  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    transport.close()


async def exit_code(process: Process) -> int | None:
    """Once it ended, or None; `wait` may wait for its pipes as well, which others may hold."""
    waited = 0.0
    while process.returncode is None and waited < _END_S:
        await asyncio.sleep(_STEP_S)
        waited += _STEP_S
    return process.returncode
