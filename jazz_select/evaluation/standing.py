"""An index that stands while other things go on: for callers without async that ask for one route after another."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from jazz_select.evaluation.index import AGENT, indexed
from jazz_select.evaluation.route import Asked, Policy, Route, routes

if TYPE_CHECKING:
    from jazz_select.flow.base import FlowRegistry
    from jazz_select.memory.procedural import ProceduralMemory
    from jazz_select.ports import Embedder

T = TypeVar("T")


class Standing:
    """Gives routes over one catalogue; its index is opened by the first, and closed with this.

    All of it happens in a thread of its own, so that it works where an event loop runs as well.
    """

    def __init__(
        self,
        registry: "FlowRegistry",
        *,
        policy: Policy | None = None,
        embedder: "str | Embedder" = "auto",
        language: str = "english",
        cache: Path | None = None,
    ) -> None:
        """Open nothing yet.

        Args:
            registry: The flows.
            policy: How the deployment selects; the recommended way where None.
            embedder: As for `indexed`.
            language: Likewise.
            cache: Likewise.
        """
        self.registry = registry
        self._policy = policy
        self._how: dict[str, Any] = {"embedder": embedder, "language": language, "cache": cache}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="jazz-select-standing")
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self._memory: ProceduralMemory | None = None

    def route(self, asked: Asked) -> Route:
        """The route of a request.

        Raises:
            EmbeddingError: The embedder failed.
            ConfigError: There is no such embedder or language.
            StoreError: The index failed.
        """
        return self._run(lambda: self._route(asked))

    async def _route(self, asked: Asked) -> Route:
        if self._memory is None:
            self._memory = await self._stack.enter_async_context(indexed(self.registry, **self._how))
        return (await routes(self.registry, self._memory, AGENT, [asked], self._policy))[0]

    def close(self) -> None:
        """Close the index; no route is given any more."""
        self._run(self._stack.aclose)
        self._thread.submit(self._runner.close).result()
        self._thread.shutdown()

    def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self._thread.submit(lambda: self._runner.run(work())).result()
