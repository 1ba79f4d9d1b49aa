"""Running one side of a comparison: stored results of earlier runs are used, and a process computes the rest."""

import asyncio
import hashlib
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import jazz_select
from jazz_select.errors import ConfigError, FlowLoadError
from jazz_select.evaluation.changes.route_book import Catalogue, RouteBook, StoredRoutes
from jazz_select.evaluation.changes.sides import Side
from jazz_select.evaluation.changes.snapshots import Probe, SideState, Undone, dumps
from jazz_select.evaluation.index import AGENT
from jazz_select.evaluation.route import Query, Routed, RouteOptions
from jazz_select.json_values import plain
from jazz_select.memory.engines.temporary import TemporaryFolder, shared_memory
from jazz_select.serialization import value_of
from jazz_select.text import describe_error

_UNCOUNTED = (
    "an index does not hold the examples that prompts show, so the tokens of its prompts are not known and the gate "
    "max_extra_tokens is not looked at"
)
_PROGRAM = (
    "import sys; here = sys.argv[2]; "
    "sys.path[:] = [sys.argv[1], *(each for each in sys.path if each not in ('', '.', here))]; "
    "from jazz_select.evaluation.changes.side_program import answer_job; sys.path.pop(0); answer_job()"
)
"""Imports the running library before the judged tree is on the path, so that both sides are judged by the same one."""
_LIBRARY = str(Path(jazz_select.__file__).absolute().parents[1])
_END_S, _GRACE_S = 5.0, 1.0
"""Longest wait for a killed process to end, and for its remaining output, in seconds."""
_LAST = 4_000
"""Bytes of a side's printed output that are kept for an error message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The job of a side's process; the starting process removes `beside`, and `learned` is not used for an index."""

    side: Side
    agent_id: str = AGENT
    routing: RouteOptions
    embedder: str = "auto"
    language: str = "english"
    beside: Path | None = None
    learned: Mapping[str, Any] | None = None


class SideRun:
    """One side of a comparison; its process ends with the given stack."""

    def __init__(self, job: Job, book: RouteBook, stack: AsyncExitStack) -> None:
        self.side = job.side
        self.catalogue = Catalogue(flows={}, digest="")
        self._book = book
        self._job = job
        self._stack = stack
        self._process: _Process | None = None

    async def open(self) -> None:
        """Load the description of the flows."""
        source, learned = self.side.source, self._job.learned
        if source and learned is not None:
            source += f" and learned {hashlib.sha256(dumps(learned)).hexdigest()}"
        catalogue = self._book.load("flows", source, Catalogue) if source else None
        if catalogue is None:
            _, catalogue = await self._start()
            if source and catalogue.flows:
                self._book.keep("flows", source, catalogue)
        self.catalogue = catalogue

    async def route(self, questions: Sequence[Probe], counted: Sequence[Probe]) -> SideState:
        """Return the routes of requests, and the prompt tokens of the `counted` ones."""
        known = self._book.routes(self.catalogue.digest)
        unknown = {each.key: each for each in questions if each.key not in known.routes}
        uncounted: dict[str, Probe] = {}
        notes = self.catalogue.notes
        if self.side.index is None:
            uncounted = {each.key: each for each in counted if each.key not in known.tokens}
        elif counted:
            notes += (_UNCOUNTED,)
        if self.catalogue.flows and (unknown or uncounted):
            new = await self._route_unknown(unknown | uncounted, tuple(uncounted))
            self._book.keep_routes(self.catalogue.digest, new)
            known = StoredRoutes(routes=known.routes | new.routes, tokens=known.tokens | new.tokens)
        if not self.catalogue.flows:
            notes += (f"there are no flows at {self.side.flows or self.side.label} in {self.side.label}",)
        return SideState(
            label=self.side.label,
            flows=self.catalogue.flows,
            routes={each.key: known.routes[each.key] for each in questions if each.key in known.routes},
            tokens={each.key: known.tokens[each.key] for each in counted if each.key in known.tokens},
            notes=notes,
        )

    async def _route_unknown(self, questions: Mapping[str, Probe], counted: Sequence[str]) -> StoredRoutes:
        # A side whose flows came out of the cache has no process yet.
        process = self._process or (await self._start())[0]
        places = {key: place for place, key in enumerate(questions)}
        # The context reaches guards as JSON.
        asked = [replace(each.asked, context=plain(each.asked.context)) for each in questions.values()]
        reply = await process.ask({"asked": asked, "counted": [places[key] for key in counted]})
        return StoredRoutes(
            routes=dict(zip(questions, value_of(list[Routed], reply["routes"]), strict=True)),
            tokens=dict(zip(counted, reply["tokens"], strict=True)),
        )

    async def undone(self, parts: Undone, asked: Sequence[Query], /, *, refit: bool) -> Sequence[str]:
        """Return the first flow for each request with parts of the change undone; empty if nothing can be routed."""
        process = self._process or (await self._start())[0]
        queries = [replace(each, context=plain(each.context)) for each in asked]
        reply = await process.ask({"asked": queries, "undone": parts, "refit": refit})
        return value_of(list[str], reply["firsts"]) or [""] * len(asked)

    async def _start(self) -> "tuple[_Process, Catalogue]":
        root = await self._stack.enter_async_context(self.side.files())
        beside = str(self._stack.enter_context(TemporaryFolder(shared_memory())))
        job = replace(self._job, side=replace(self.side, root=root), beside=Path(beside))
        self._process = process = await _Process.started(self.side.label, root)
        self._stack.push_async_callback(process.end)
        return process, value_of(Catalogue, await process.ask(plain(job)))


class _Process(asyncio.SubprocessProtocol):
    """The process of a side, with a line of JSON for each message.

    Its end is detected by the exit of the process, because a program that it started may hold its pipes open.
    """

    _transport: asyncio.SubprocessTransport

    def __init__(self, label: str) -> None:
        self._label = label
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()
        """Answers; an empty one marks the end."""
        self._parts: list[bytes] = []
        self._printed = b""
        self._exited = asyncio.Event()

    @classmethod
    async def started(cls, label: str, root: Path) -> "_Process":
        """Start the process in a folder from which it imports nothing on its own."""
        _, process = await asyncio.get_running_loop().subprocess_exec(
            lambda: cls(label),
            sys.executable,
            "-P",
            "-c",
            _PROGRAM,
            _LIBRARY,
            str(root),
            cwd=root,
            start_new_session=True,  # a process group of its own, killed at the end
        )
        return process

    async def ask(self, message: object) -> dict[str, Any]:
        stdin = cast("asyncio.WriteTransport", self._transport.get_pipe_transport(0))
        stdin.write(dumps(message) + b"\n")
        line = await self._lines.get()
        if not line:
            await self._end()
            printed = [each for each in self._printed.decode(errors="replace").splitlines() if each.strip()]
            # The last line of a traceback is the error.
            last = printed[-1] if printed else f"exit code {self._transport.get_returncode()}"
            why = describe_error(RuntimeError(last)).removeprefix("RuntimeError: ")
            raise FlowLoadError(self._label, f"loading it ended the process: {why}")
        reply = json.loads(line)
        if "error" in reply:
            raise ConfigError(f"{self._label}: {reply['error']}")
        return reply

    async def end(self) -> None:
        """Kill the process group and wait for the process; programs that left the group are not awaited."""
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform != "win32":
                os.killpg(self._transport.get_pid(), signal.SIGKILL)
            else:
                self._transport.kill()
        await self._end()
        self._transport.close()

    async def _end(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._exited.wait(), _END_S)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Collect answers from stdout and printed output from stderr."""
        if fd != 1:
            self._printed = (self._printed + data)[-_LAST:]
            return
        self._parts.append(data)
        if data.endswith(b"\n"):
            self._lines.put_nowait(b"".join(self._parts))
            self._parts.clear()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's form
        if fd == 1:
            self._lines.put_nowait(b"")

    def process_exited(self) -> None:
        """Mark the end, after a moment in which remaining output may arrive."""
        self._exited.set()
        asyncio.get_running_loop().call_later(_GRACE_S, self._lines.put_nowait, b"")
