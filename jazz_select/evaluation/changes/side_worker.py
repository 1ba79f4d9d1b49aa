"""A process that judges one side: given its job, and asked frame by frame."""

import asyncio
import json
import pickle
from asyncio.subprocess import Process
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import orjson

from jazz_select.errors import ConfigError, FlowLoadError
from jazz_select.evaluation.changes.route_book import Known
from jazz_select.evaluation.changes.side_process import LENGTH, Job, Wanted, crash_message, frame
from jazz_select.evaluation.changes.side_start import ended, exit_code, process_for
from jazz_select.evaluation.changes.snapshots import route_from_dict
from jazz_select.evaluation.index import PREFIX, in_memory
from jazz_select.evaluation.route import Asked
from jazz_select.json_values import plain

_LOOK_S, _GRACE_S = 0.2, 1.0
"""How often it is seen whether a process still runs, and how long its pipes are read when it does not."""
_LAST = 4_000
"""Characters of what a side printed that are kept, to say why it ended."""


class SideWorker:
    """One process, for as long as the block runs.

    Attributes:
        job: What it was told to do; its `beside` and, where nothing is to be kept, its `cache` are gone with it.
    """

    def __init__(self, label: str, job: Job) -> None:
        """For the side of this label."""
        self.job = job
        self._label = label
        self._stack = AsyncExitStack()
        self._process: Process | None = None
        self._said = bytearray()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def start(self) -> dict[str, Any]:
        """The process under way, and the first thing that it says.

        Raises:
            FlowLoadError: Its flows cannot be loaded; the message names the side and says why.
            ConfigError: What else it said was wrong.
        """
        beside = TemporaryDirectory(prefix=PREFIX, dir=in_memory(), ignore_cleanup_errors=True)
        place = Path(self._stack.enter_context(beside))
        self.job = replace(self.job, beside=place, cache=self.job.cache or place / "cache")
        self._process = process = await process_for(self.job.root)
        listening = asyncio.create_task(self._listen(process))
        self._stack.push_async_callback(self._ended, process, listening)
        return await self._exchange(pickle.dumps(self.job))

    async def take_over(self, label: str, job: Job) -> dict[str, Any]:
        """Another job, in the process of this one: it says what `start` would.

        Raises:
            FlowLoadError: As for `start`.
            ConfigError: Likewise.
        """
        self._label = label
        self.job = replace(job, beside=self.job.beside)
        return await self._exchange(pickle.dumps(self.job))

    async def routed(self, asked: Sequence[Asked], counted: Sequence[Asked] = ()) -> Known:
        """Where it leads these requests, and the tokens of the prompts for some of them; of none, once it could tell.

        Raises:
            FlowLoadError: The process ended.
            ConfigError: It said what is wrong.
        """
        told = await self._exchange(_pickled(Wanted(asked=tuple(asked), counted=tuple(counted))))
        routes = {str(key): route_from_dict(each) for key, each in told["routes"].items()}
        return Known(routes=routes, tokens={str(key): int(count) for key, count in told["tokens"].items()})

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
            told = _read(await _answer(process, process.stdout))
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            code = await exit_code(process)
            await asyncio.sleep(0)
            problem = f"loading it ended the process: {crash_message(code, self._said.decode(errors='replace'))}"
            raise FlowLoadError(self._label, problem) from error
        if "error" in told:
            msg = f"{self._label}: {told['error']}"
            raise ConfigError(msg)
        return told

    async def _listen(self, process: Process) -> None:
        """What it prints, so that it is never kept waiting; the end of it is kept."""
        while process.stderr is not None and (said := await process.stderr.read(1 << 16)):
            self._said = (self._said + said)[-_LAST:]

    @staticmethod
    async def _ended(process: Process, listening: "asyncio.Task[None]") -> None:
        await ended(process)
        await asyncio.wait({listening}, timeout=_GRACE_S)
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


async def _answer(process: Process, stream: asyncio.StreamReader) -> bytes:
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


def _read(content: bytes) -> dict[str, Any]:
    try:
        return orjson.loads(content)
    except ValueError:  # halves of surrogate pairs, which a flow or a request may have
        return json.loads(content)


def _pickled(wanted: Wanted) -> bytes:
    try:
        return pickle.dumps(wanted)
    except Exception:  # noqa: BLE001 - a context holds what cannot leave this process: guards see it as JSON
        asked, counted = (
            tuple(Asked(request=each.request, episodes=each.episodes, context=plain(each.context)) for each in some)
            for some in (wanted.asked, wanted.counted)
        )
        return pickle.dumps(Wanted(asked=asked, counted=counted))
