"""Running one side: from the book of earlier runs where it is there, and from a process of its own for the rest."""

import asyncio
import hashlib
import json
import os
import pickle
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self, cast

import jazz_select
from jazz_select.errors import ConfigError, FlowLoadError
from jazz_select.evaluation.changes.asking import Question
from jazz_select.evaluation.changes.route_book import Known, RouteBook
from jazz_select.evaluation.changes.side_process import LENGTH, Job, Wanted, crash_message, frame
from jazz_select.evaluation.changes.sides import Side
from jazz_select.evaluation.changes.snapshots import Snapshot, dumps, route_from_dict
from jazz_select.evaluation.index import PREFIX, in_memory
from jazz_select.evaluation.route import Asked
from jazz_select.json_values import plain

_START = (
    "import sys; here = sys.argv[2]; "
    "sys.path[:] = [sys.argv[1], *(each for each in sys.path if each not in ('', '.', here))]; "
    "from jazz_select.evaluation.changes.side_process import main; sys.path.pop(0); main()"
)
"""The library that compares is the one that judges both sides, whatever lies in their trees; they are found later."""
_UNCOUNTED = (
    "an index does not hold the examples that prompts show, so the tokens of its prompts are not known and the gate "
    "max_extra_tokens is not looked at"
)
_LIBRARY = str(Path(jazz_select.__file__).absolute().parents[1])
_LOOK_S, _GRACE_S, _END_S, _STEP_S = 0.2, 1.0, 5.0, 0.005
"""How often it is seen whether a process still runs, how long its pipes are read when it does not, how long one that
is killed may take to end, and how often that is looked at."""
_LAST = 4_000
"""Characters of what a side printed that are kept, to say why it ended."""


class SideRun:
    """One side, for as long as the block runs: what its flows say, then where they lead what it is asked.

    Attributes:
        flows: What each flow says, by its name; known after `open`.
        digest: What its routes are kept under; empty where they are not kept.
    """

    def __init__(self, side: Side, book: RouteBook, job: Job) -> None:
        """Of this side, judged as the job says, wherever its files are."""
        self.side = side
        self.flows: Mapping[str, Mapping[str, Any]] = {}
        self.digest = ""
        self._notes: tuple[str, ...] = ()
        self._book = book
        self._job = job
        self._stack = AsyncExitStack()
        self._process: asyncio.subprocess.Process | None = None
        self._said = bytearray()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def open(self) -> None:
        """Find out what its flows say.

        Raises:
            FlowLoadError: They cannot be loaded; the message names the side and says why.
        """
        source, learned = self.side.source, self._job.learned
        if source and learned is not None:
            source += f" and learned {hashlib.sha256(dumps(learned.model_dump(mode='json'))).hexdigest()}"
        told = self._book.flows(source) if source else None
        if told is None:
            told = await self._started()
            if source and told["flows"]:
                kept = {"flows": told["flows"], "digest": told["digest"], "notes": told.get("notes", [])}
                self._book.keep_flows(source, kept)
        self.flows, self.digest, self._notes = told["flows"], told["digest"], tuple(told.get("notes", ()))

    async def asked(self, questions: Sequence[Question], counted: Sequence[Question]) -> Snapshot:
        """Where it leads these requests, and the tokens of the prompts for some of them.

        Raises:
            FlowLoadError: It can no longer be loaded.
        """
        known = self._book.routes(self.digest)
        unknown = [each for each in questions if each.key not in known.routes]
        uncounted = [each for each in counted if each.key not in known.tokens and self.side.index is None]
        notes = self._notes
        if self.side.index is not None and counted:
            notes += (_UNCOUNTED,)
        if self.flows and (unknown or uncounted):
            again = {each.key: each for each in (*unknown, *uncounted)}
            new = await self._routed(list(again.values()), uncounted)
            self._book.keep_routes(self.digest, new)
            known = Known(routes=known.routes | new.routes, tokens=known.tokens | new.tokens)
        if not self.flows:
            notes += (f"there are no flows at {self.side.flows or self.side.label} in {self.side.label}",)
        return Snapshot(
            label=self.side.label,
            flows=self.flows,
            routes={each.key: known.routes[each.key] for each in questions if each.key in known.routes},
            tokens={each.key: known.tokens[each.key] for each in counted if each.key in known.tokens},
            notes=notes,
        )

    async def _routed(self, unknown: Sequence[Question], uncounted: Sequence[Question]) -> Known:
        if self._process is None:
            await self._started()
        wanted = Wanted(asked=tuple(each.asked for each in unknown), counted=tuple(each.asked for each in uncounted))
        told = await self._exchange(_pickled(wanted))
        routes = {str(key): route_from_dict(each) for key, each in told["routes"].items()}
        return Known(routes=routes, tokens={str(key): int(count) for key, count in told["tokens"].items()})

    async def _started(self) -> dict[str, Any]:
        """The process under way, and the first thing that it says."""
        root = await self._stack.enter_async_context(self.side.files())
        beside = TemporaryDirectory(prefix=PREFIX, dir=in_memory(), ignore_cleanup_errors=True)
        place = Path(self._stack.enter_context(beside))
        self._process = process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-c",
            _START,
            _LIBRARY,
            str(root),
            cwd=root,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # a group of its own, which ends with it
        )
        listening = asyncio.create_task(self._listen(process))
        self._stack.push_async_callback(self._ended, process, listening)
        apart = self.side.commit is not None
        job = replace(self._job, root=root, flows=self.side.flows, apart=apart, index=self.side.index, beside=place)
        return await self._exchange(pickle.dumps(job))

    async def _exchange(self, content: bytes) -> dict[str, Any]:
        """What the process answers.

        Raises:
            FlowLoadError: Its flows cannot be loaded, or it ended.
            ConfigError: What else it said was wrong.
        """
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            msg = "a side is asked that was never started"
            raise AssertionError(msg)
        try:
            process.stdin.write(frame(content))
            await process.stdin.drain()
            told: dict[str, Any] = json.loads(await _answer(process, process.stdout))
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            code = await _exit_code(process)
            await asyncio.sleep(0)
            problem = f"loading it ended the process: {crash_message(code, self._said.decode(errors='replace'))}"
            raise FlowLoadError(self.side.label, problem) from error
        if "error" in told:
            msg = f"{self.side.label}: {told['error']}"
            raise ConfigError(msg)
        return told

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        """What it prints, so that it is never kept waiting; the end of it is kept."""
        while process.stderr is not None and (said := await process.stderr.read(1 << 16)):
            self._said = (self._said + said)[-_LAST:]

    @staticmethod
    async def _ended(process: asyncio.subprocess.Process, listening: "asyncio.Task[None]") -> None:
        """The process and all that it started end; what left its group is not waited for."""
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform != "win32":
                os.killpg(process.pid, signal.SIGKILL)
            elif process.returncode is None:
                process.kill()
        await _exit_code(process)
        await asyncio.wait({listening}, timeout=_GRACE_S)
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        if process.stdin is not None:
            process.stdin.close()
        # Whoever left the group may hold the other ends of the pipes: they are closed on this side.
        transport = cast("asyncio.SubprocessTransport", process._transport)  # noqa: SLF001  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        transport.close()


async def _answer(process: asyncio.subprocess.Process, stream: asyncio.StreamReader) -> bytes:
    """The next frame.

    A program that the process started may hold its pipes open when it has ended: the end of it counts, not of them.

    Raises:
        ConnectionError: The process ended before it was whole.
    """
    reading = asyncio.create_task(_frame_of(stream))
    try:
        while process.returncode is None and not reading.done():
            await asyncio.wait({reading}, timeout=_LOOK_S)
        await asyncio.wait({reading}, timeout=_GRACE_S)
        if not reading.done():
            raise ConnectionResetError
        return reading.result()
    finally:
        reading.cancel()


async def _frame_of(stream: asyncio.StreamReader) -> bytes:
    length = int.from_bytes(await stream.readexactly(LENGTH), "big")
    return await stream.readexactly(length)


async def _exit_code(process: asyncio.subprocess.Process) -> int | None:
    """Once it ended, or None; `wait` may wait for its pipes as well, which others may hold."""
    waited = 0.0
    while process.returncode is None and waited < _END_S:
        await asyncio.sleep(_STEP_S)
        waited += _STEP_S
    return process.returncode


def _pickled(wanted: Wanted) -> bytes:
    try:
        return pickle.dumps(wanted)
    except Exception:  # noqa: BLE001 - a context holds what cannot leave this process: guards see it as JSON
        asked, counted = (
            tuple(Asked(request=each.request, episodes=each.episodes, context=plain(each.context)) for each in some)
            for some in (wanted.asked, wanted.counted)
        )
        return pickle.dumps(Wanted(asked=asked, counted=counted))
