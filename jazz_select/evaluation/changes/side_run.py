"""Running one side: from the book of earlier runs where it is there, and by a process of its own for the rest."""

import asyncio
import hashlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import jazz_select
from jazz_select.errors import ConfigError, FlowLoadError
from jazz_select.evaluation.changes.route_book import Catalogue, Known, RouteBook
from jazz_select.evaluation.changes.sides import Side
from jazz_select.evaluation.changes.snapshots import Probe, SideState, dumps, loads
from jazz_select.evaluation.changes.undoing import Undone
from jazz_select.evaluation.index import AGENT, PREFIX, in_memory
from jazz_select.evaluation.route import Policy, Query, Routed
from jazz_select.json_values import plain
from jazz_select.text import describe_error
from jazz_select.travel import value_of

_UNCOUNTED = (
    "an index does not hold the examples that prompts show, so the tokens of its prompts are not known and the gate "
    "max_extra_tokens is not looked at"
)
_PROGRAM = (
    "import sys; here = sys.argv[2]; "
    "sys.path[:] = [sys.argv[1], *(each for each in sys.path if each not in ('', '.', here))]; "
    "from jazz_select.evaluation.changes.side_program import answer_job; sys.path.pop(0); answer_job()"
)
"""The library that compares is the one that judges both sides, whatever lies in their trees; they are found later."""
_LIBRARY = str(Path(jazz_select.__file__).absolute().parents[1])
_END_S, _GRACE_S = 5.0, 1.0
"""How long a process that is killed may take to end, and what it said before is waited for."""
_LAST = 4_000
"""Bytes of what a side printed that are kept, to say why it ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a side is made of, as its process is told: places are texts, since it travels as JSON.

    Attributes:
        root: The folder that is to be the working directory.
        flows: What to load, seen from there; a name where it is a package.
        apart: Whether every flow has to come from below `root`.
        index: The folder of a deployed index instead, whose flows are taken as they lie there.
        agent_id: Whose flows of it.
        policy: How the deployment selects.
        embedder: As for `ProceduralMemory.open`.
        language: Likewise.
        cache: Where indexes are kept; None for nowhere.
        beside: As for `indexed`: who starts a side sees to what is left when it ends.
        learned: What flows that are files are taught before they are judged: a version, as JSON.
    """

    root: str = "."
    flows: str = ""
    apart: bool = False
    index: str | None = None
    agent_id: str = AGENT
    policy: Policy
    embedder: str = "auto"
    language: str = "english"
    cache: str | None = None
    beside: str | None = None
    learned: Mapping[str, Any] | None = None


class SideRun:
    """One side, for as long as the stack stands: what its flows say, then where they lead what it is asked."""

    def __init__(self, side: Side, book: RouteBook, job: Job, stack: AsyncExitStack) -> None:
        """Of this side, judged as the job says, wherever its files are; its process ends with the stack."""
        self.side = side
        self.catalogue = Catalogue(flows={}, digest="")
        self._book = book
        self._job = job
        self._stack = stack
        self._process: _Process | None = None

    async def open(self) -> None:
        """Find out what its flows say."""
        source, learned = self.side.source, self._job.learned
        if source and learned is not None:
            source += f" and learned {hashlib.sha256(dumps(learned)).hexdigest()}"
        told = self._book.flows(source) if source else None
        if told is None:
            _, told = await self._started()
            if source and told.flows:
                self._book.keep_flows(source, told)
        self.catalogue = told

    async def asked(self, questions: Sequence[Probe], counted: Sequence[Probe]) -> SideState:
        """Where it leads these requests, and the tokens of the prompts for some of them."""
        known = self._book.routes(self.catalogue.digest)
        unknown = {each.key: each for each in questions if each.key not in known.routes}
        uncounted = {each.key: each for each in counted if each.key not in known.tokens and self.side.index is None}
        notes = self.catalogue.notes
        if self.side.index is not None and counted:
            notes += (_UNCOUNTED,)
        if self.catalogue.flows and (unknown or uncounted):
            new = await self._routed(unknown | uncounted, tuple(uncounted))
            self._book.keep_routes(self.catalogue.digest, new)
            known = Known(routes=known.routes | new.routes, tokens=known.tokens | new.tokens)
        if not self.catalogue.flows:
            notes += (f"there are no flows at {self.side.flows or self.side.label} in {self.side.label}",)
        return SideState(
            label=self.side.label,
            flows=self.catalogue.flows,
            routes={each.key: known.routes[each.key] for each in questions if each.key in known.routes},
            tokens={each.key: known.tokens[each.key] for each in counted if each.key in known.tokens},
            notes=notes,
        )

    async def _routed(self, questions: Mapping[str, Probe], counted: Sequence[str]) -> Known:
        """Where it leads these requests, by their keys, and the tokens of the prompts for some of them."""
        process = self._process or (await self._started())[0]
        places = {key: place for place, key in enumerate(questions)}
        # Guards see a context as JSON: nothing else leaves this process.
        asked = [replace(each.asked, context=plain(each.asked.context)) for each in questions.values()]
        told = await process.asked({"asked": asked, "counted": [places[key] for key in counted]})
        return Known(
            routes=dict(zip(questions, value_of(list[Routed], told["routes"]), strict=True)),
            tokens=dict(zip(counted, told["tokens"], strict=True)),
        )

    async def undone(self, parts: Undone, asked: Sequence[Query]) -> Sequence[str]:
        """The first flow for each of these requests, with parts of the change undone; empty where none can be told."""
        process = self._process or (await self._started())[0]
        plainly = [replace(each, context=plain(each.context)) for each in asked]
        told = await process.asked({"asked": plainly, "undone": parts})
        return value_of(list[str], told["firsts"]) or [""] * len(asked)

    async def _started(self) -> "tuple[_Process, Catalogue]":
        """The process under way, and the first thing that it says."""
        root = await self._stack.enter_async_context(self.side.files())
        passing = TemporaryDirectory(prefix=PREFIX, dir=in_memory(), ignore_cleanup_errors=True)
        beside = self._stack.enter_context(passing)
        job = replace(
            self._job,
            root=str(root),
            flows=self.side.flows,
            apart=self.side.commit is not None,
            index=None if self.side.index is None else str(self.side.index),
            beside=beside,
        )
        self._process = process = await _Process.started(self.side.label, root)
        self._stack.push_async_callback(process.end)
        return process, value_of(Catalogue, await process.asked(job))


class _Process(asyncio.SubprocessProtocol):
    """The process of a side: a line of JSON in, a line of JSON out.

    A program that it started may hold its pipes open when it has ended: the end of it counts, not of them.
    """

    _transport: asyncio.SubprocessTransport

    def __init__(self, label: str) -> None:
        self._label = label
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()
        """What it answered; an empty one where nothing comes any more."""
        self._parts: list[bytes] = []
        self._said = b""
        self._exited = asyncio.Event()

    @classmethod
    async def started(cls, label: str, root: Path) -> "_Process":
        """One for the side of this label, in this folder, which it imports nothing from by itself."""
        _, process = await asyncio.get_running_loop().subprocess_exec(
            lambda: cls(label),
            sys.executable,
            "-P",
            "-c",
            _PROGRAM,
            _LIBRARY,
            str(root),
            cwd=root,
            start_new_session=True,  # a group of its own, which ends with it
        )
        return process

    async def asked(self, message: object) -> dict[str, Any]:
        """What it answers."""
        stdin = cast("asyncio.WriteTransport", self._transport.get_pipe_transport(0))
        stdin.write(dumps(message) + b"\n")
        line = await self._lines.get()
        if not line:
            await self._ended()
            said = [each for each in self._said.decode(errors="replace").splitlines() if each.strip()]
            last = said[-1] if said else f"exit code {self._transport.get_returncode()}"
            why = describe_error(RuntimeError(last)).removeprefix("RuntimeError: ")
            raise FlowLoadError(self._label, f"loading it ended the process: {why}")
        told = loads(line)
        if "error" in told:
            raise ConfigError(f"{self._label}: {told['error']}")
        return told

    async def end(self) -> None:
        """It and all that it started end; what left its group is not waited for."""
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform != "win32":
                os.killpg(self._transport.get_pid(), signal.SIGKILL)
            else:
                self._transport.kill()
        await self._ended()
        self._transport.close()

    async def _ended(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._exited.wait(), _END_S)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As asyncio says it."""
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """As asyncio says it: an answer, or what its flows print."""
        if fd != 1:
            self._said = (self._said + data)[-_LAST:]
            return
        self._parts.append(data)
        if data.endswith(b"\n"):
            self._lines.put_nowait(b"".join(self._parts))
            self._parts.clear()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's form
        """As asyncio says it."""
        if fd == 1:
            self._lines.put_nowait(b"")

    def process_exited(self) -> None:
        """As asyncio says it; what it said before may yet come."""
        self._exited.set()
        asyncio.get_running_loop().call_later(_GRACE_S, self._lines.put_nowait, b"")
