"""Running one side: from the book of earlier runs where it is there, and from processes of its own for the rest."""

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from jazz_select.errors import JazzSelectError
from jazz_select.evaluation.changes.asking import Question
from jazz_select.evaluation.changes.route_book import Known, RouteBook
from jazz_select.evaluation.changes.side_process import Job
from jazz_select.evaluation.changes.side_start import usable_cores
from jazz_select.evaluation.changes.side_worker import SideWorker
from jazz_select.evaluation.changes.sides import Side
from jazz_select.evaluation.changes.snapshots import Snapshot, dumps
from jazz_select.text import in_log

_UNCOUNTED = (
    "an index does not hold the examples that prompts show, so the tokens of its prompts are not known and the gate "
    "max_extra_tokens is not looked at"
)
_SHARE = 256
"""Requests that a process is asked at once, as many as are selected for in one go."""
_WORTH_ANOTHER = 4 * _SHARE
"""Requests that are left from which on a second process is started for them: it takes half a second to be of use."""
_log = logging.getLogger(__name__)


class Cores:
    """How many processes can work at once, of both sides together.

    The first of each side does so in any case; a further one waits until there is a core for it.
    """

    def __init__(self) -> None:
        """As many as this process may use."""
        self._free = usable_cores()
        self._freed = asyncio.Event()
        self.idle: list[SideWorker] = []
        """Processes that are done with their side, and can do another's as well."""

    @contextmanager
    def one(self) -> Generator[None]:
        """One is used in this block, whether it is free or not."""
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1
            self._freed.set()

    async def spare(self) -> None:
        """Wait until one is free."""
        while self._free <= 0:
            self._freed.clear()
            await self._freed.wait()


@dataclass(kw_only=True)
class _Work:
    """Shares of what is asked of one side, and what came of them."""

    waiting: deque[Sequence[Question]]
    uncounted: frozenset[str]
    done: list[Known] = field(default_factory=list[Known])
    lent: int = 0
    """Shares that the second process is at."""
    is_indexed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def left(self) -> int:
        """Requests that nobody is at."""
        return sum(map(len, self.waiting))

    async def by(self, worker: SideWorker, share: Sequence[Question]) -> None:
        """Have this one do a share."""
        counted = [each.asked for each in share if each.key in self.uncounted]
        self.done.append(await worker.routed([each.asked for each in share], counted))

    async def all_by(self, worker: SideWorker) -> None:
        """Have this one do what is left."""
        while self.waiting:
            await self.by(worker, self.waiting.popleft())


class SideRun:
    """One side, for as long as the block runs: what its flows say, then where they lead what it is asked.

    Attributes:
        flows: What each flow says, by its name; known after `open`.
        digest: What its routes are kept under; empty where they are not kept.
    """

    def __init__(self, side: Side, book: RouteBook, job: Job, cores: Cores) -> None:
        """Of this side, judged as the job says, wherever its files are."""
        self.side = side
        self.flows: Mapping[str, Mapping[str, Any]] = {}
        self.digest = ""
        self._notes: tuple[str, ...] = ()
        self._book = book
        self._job = job
        self._cores = cores
        self._stack = AsyncExitStack()
        self._worker: SideWorker | None = None

    @classmethod
    def of(cls, sides: Iterable[Side], book: RouteBook, job: Job) -> "list[SideRun]":
        """Of all sides of a comparison, which share the cores of this machine."""
        cores = Cores()
        return [cls(side, book, job, cores) for side in sides]

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
            with self._cores.one():
                _, told = await self._started()
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
        """By one process, and by a second one where a core is free for it and there is much to do."""
        shares = (unknown[start : start + _SHARE] for start in range(0, len(unknown), _SHARE))
        work = _Work(waiting=deque(shares), uncounted=frozenset(each.key for each in uncounted))
        helping: asyncio.Task[None] | None = None
        try:
            with self._cores.one():
                worker = self._worker or (await self._started())[0]
                if self.side.index is None and work.left >= _WORTH_ANOTHER:
                    helping = asyncio.create_task(self._helped(work, worker.job))
                    await worker.routed(())  # when it answers, the index is kept, and another can read it
                    work.is_indexed.set()
                await work.all_by(worker)
                if self.side.is_data and not work.lent:
                    self._cores.idle.append(worker)
            if helping is not None and work.lent:
                await helping
                await work.all_by(worker)  # what came back
        finally:
            if helping is not None:
                helping.cancel()
                await asyncio.gather(helping, return_exceptions=True)
        routes = {key: route for each in work.done for key, route in each.routes.items()}
        return Known(routes=routes, tokens={key: count for each in work.done for key, count in each.tokens.items()})

    async def _helped(self, work: _Work, job: Job) -> None:
        """A second process does what it can. Where it cannot the first does it all, and says what is wrong."""
        await self._cores.spare()
        if work.left < _WORTH_ANOTHER:
            return
        try:
            with self._cores.one():
                await self._lent(work, job)
        except JazzSelectError as error:
            _log.warning("side=<%s>, error=<%s> | one process does it alone", self.side.label, in_log(error))

    async def _lent(self, work: _Work, job: Job) -> None:
        async with AsyncExitStack() as stack:
            if self.side.is_data and self._cores.idle:
                worker = self._cores.idle.pop()
                await worker.take_over(self.side.label, job)
            else:
                worker = await stack.enter_async_context(SideWorker(self.side.label, job))
                await worker.start()
            await work.is_indexed.wait()
            while work.waiting:
                share = work.waiting.popleft()
                work.lent += 1
                try:
                    await work.by(worker, share)
                except BaseException:
                    work.waiting.append(share)
                    raise
                finally:
                    work.lent -= 1

    async def _started(self) -> tuple[SideWorker, dict[str, Any]]:
        """The process under way, and the first thing that it says."""
        root: Path = await self._stack.enter_async_context(self.side.files())
        job = replace(
            self._job,
            root=root,
            flows=self.side.flows,
            apart=self.side.commit is not None,
            index=self.side.index,
        )
        worker = await self._stack.enter_async_context(SideWorker(self.side.label, job))
        self._worker = worker
        return worker, await worker.start()
