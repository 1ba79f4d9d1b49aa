"""Recalls that wait at the same moment are looked up together, which takes far less than one after the other."""

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final, Literal, TypeVar

from jazz_select.errors import StoreError, StoreUnavailableError
from jazz_select.memory.procedural import ProceduralMemory
from jazz_select.threads import ThreadShare, current_share, sharing_threads
from jazz_select.values import COVERAGE, RecallResult

T = TypeVar("T")
MOST: Final = 32
"""Recalls that are looked up at once: the loop does nothing else meanwhile."""


_log = logging.getLogger(__name__)
_Scope = tuple[str, tuple[tuple[str, Any], ...]]
"""What has to be the same for requests to be looked up together: whose they are; agent_id and options, by name."""
_Waiting = tuple[str, str, ThreadShare | None, "asyncio.Future[RecallResult]"]
"""Who waits: a query, its focus, whose threads it takes, and where the answer goes."""


class BatchedRecall:
    """A memory that answers as the one behind it does.

    A recall that is alone never waits; those that come while one is looked up wait for it, and are then looked up
    together.
    """

    capabilities = ProceduralMemory.capabilities

    def __init__(
        self,
        memory: ProceduralMemory,
        *,
        failed: Callable[[StoreError], object] = lambda _: None,
        limit_s: Callable[[], float | None] = lambda: None,
        place: str = "",
    ) -> None:
        """Answer from this memory.

        Args:
            memory: Where flows are found.
            failed: Called for each recall that the index did not answer.
            limit_s: Returns how long an answer of the index may take now; None for as long as the memory waits itself.
            place: Where the index is, for the error of one that took longer.
        """
        self._memory = memory
        self._failed = failed
        self._limit_s = limit_s
        self._place = place
        self._waiting: dict[_Scope, list[_Waiting]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: set[asyncio.Task[None]] = set()

    async def recall(  # noqa: PLR0913 - the port's options
        self,
        query: str,
        agent_id: str,
        top_k: int | Literal["auto"] = 3,
        rrf_k: int = 10,
        *,
        exclude: Collection[str] = (),
        focus: str = "",
        coverage: float = COVERAGE,
    ) -> RecallResult:
        """Recall as `ProceduralMemory.recall` does, with its arguments and its errors."""
        loop = asyncio.get_running_loop()
        options = {"top_k": top_k, "rrf_k": rrf_k, "exclude": frozenset(exclude), "coverage": coverage}
        share = current_share()
        # Apart by key: who asks little does not wait for the long requests of another.
        scope: _Scope = ("" if share is None else share.whose, (("agent_id", agent_id), *options.items()))
        if self._loop is None or self._loop.is_closed():
            self._loop, self._waiting = loop, {}
        if loop is not self._loop:
            return await self._recall(scope, query, focus)
        waiting = self._waiting.get(scope)
        if waiting is not None:
            answer: asyncio.Future[RecallResult] = loop.create_future()
            waiting.append((query, focus, share and share.detach(), answer))
            return await answer
        self._waiting[scope] = []
        try:
            return await self._recall(scope, query, focus)
        finally:
            self._go_on(scope)

    async def recall_many(self, queries: Any, agent_id: str, *given: Any, **options: Any) -> list[RecallResult]:
        """Recall as `ProceduralMemory.recall_many` does: its queries are one batch already."""
        return await self._memory.recall_many(queries, agent_id, *given, **options)

    def _go_on(self, scope: _Scope) -> None:
        """Recall for all waiting requests at once, and repeat while there are new ones."""
        waiting = [each for each in self._waiting[scope] if not each[-1].done()]
        if not waiting:
            del self._waiting[scope]
            return
        now, self._waiting[scope] = waiting[:MOST], waiting[MOST:]
        # Of nobody's context: a trace, or a time that is over, of one of them binds none of the others.
        task = asyncio.get_running_loop().create_task(self._look_up(scope, now), context=contextvars.Context())
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _look_up(self, scope: _Scope, waiting: list[_Waiting]) -> None:
        try:
            with sharing_threads(waiting[0][2]):
                found = await self._recall_batch(scope, waiting)
        except asyncio.CancelledError:
            for *_, answer in waiting:  # nobody cancelled these
                if not answer.done():
                    answer.set_exception(StoreError("the index was not asked to the end: ask again"))
            raise
        else:
            for (*_, answer), result in zip(waiting, found, strict=True):
                if answer.done():
                    continue
                if isinstance(result, BaseException):
                    answer.set_exception(result)
                else:
                    answer.set_result(result)
        finally:
            self._go_on(scope)

    async def _recall_batch(self, scope: _Scope, waiting: list[_Waiting]) -> "list[RecallResult | BaseException]":
        """Recall for a batch; if that fails, for each request alone, so that one cannot fail the others."""
        if len(waiting) > 1:
            queries, focuses = [each[0] for each in waiting], [each[1] for each in waiting]
            try:
                together = self._memory.recall_many(queries, focuses=focuses, **dict(scope[1]))
                return [*await self._within_limit(together)]
            except StoreUnavailableError as error:
                # Who asks a server that hangs for one after the other keeps the last of them waiting for minutes.
                self._failed(error)
                return [error] * len(waiting)
            except Exception:  # noqa: BLE001 - whatever it is, each is told its own
                _log.debug("requests=<%d> | each is recalled alone", len(waiting), exc_info=True)
        found: list[RecallResult | BaseException] = []
        for query, focus, *_ in waiting:
            try:
                found.append(await self._recall(scope, query, focus))
            except Exception as error:  # noqa: BLE001 - whatever it is, each is told its own
                found.append(error)
        return found

    async def _recall(self, scope: _Scope, query: str, focus: str) -> RecallResult:
        try:
            return await self._within_limit(self._memory.recall(query, focus=focus, **dict(scope[1])))
        except StoreError as error:
            self._failed(error)
            raise

    async def _within_limit(self, work: Awaitable[T]) -> T:
        """Wait for the index, and no longer than it may take now."""
        limit_s = self._limit_s()
        limit = asyncio.timeout(limit_s)
        try:
            async with limit:
                return await work
        except TimeoutError:
            if not limit.expired():
                raise
            raise StoreUnavailableError(self._place, f"it did not answer within {limit_s:g} s") from None
