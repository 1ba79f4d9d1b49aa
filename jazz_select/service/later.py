"""Parts that are loaded once the service answers, so that nobody waits for them who does not ask for them."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from importlib import import_module
from typing import Final

from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from jazz_select.service.app import Part

_log: Final = logging.getLogger(__name__)
_AFTER_S: Final = 0.3
"""How long the first requests have for themselves: loading takes time from what is answered meanwhile."""


def later(paths: Sequence[str], modules: Sequence[str], make: Callable[[], Part]) -> Part:
    """A part that is loaded soon after the service has started, or as soon as somebody asks for it, who then waits.

    What cannot be loaded is said in the log, and to whoever asks.

    Args:
        paths: All of its routes are there or below: `/panel` stands for `/panel/flows` as well.
        modules: What it needs that takes long to import; imported in a thread.
        make: Makes it, then; in the event loop.
    """
    place = _Place(tuple(paths), tuple(modules), make)
    return Part([place], place.lifespan)


class _Place(BaseRoute):
    """Stands where the routes of a part will stand."""

    def __init__(self, paths: tuple[str, ...], modules: tuple[str, ...], make: Callable[[], Part]) -> None:
        self._paths, self._modules, self._make = paths, modules, make
        self._wanted, self._settled, self._over = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._routes: list[BaseRoute] = []
        self._error: Exception | None = None

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether this is for the part."""
        path: str = scope.get("path", "")
        below = scope["type"] == "http" and any(path == each or path.startswith(f"{each}/") for each in self._paths)
        return (Match.FULL if below else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Wait for the part, have its routes in place of this one, and the request answered by them.

        Raises:
            Exception: It cannot be loaded.
        """
        self._wanted.set()
        await self._settled.wait()
        if self._error is not None:
            raise self._error
        router = scope["app"].router
        if self in router.routes:
            at = router.routes.index(self)
            router.routes[at : at + 1] = self._routes
        await router(scope, receive, send)

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None]:
        """Have it open until the service stops."""
        holding = asyncio.create_task(self._hold(), name="part")
        try:
            yield
        finally:
            self._over.set()
            self._wanted.set()
            await holding

    async def _hold(self) -> None:
        """Load it, and hold it open: in one task, since whoever opens a group of tasks has to close it."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wanted.wait(), _AFTER_S)
        try:
            if self._over.is_set():
                return
            await asyncio.to_thread(self._load)
            part = self._make()
            async with nullcontext() if part.lifespan is None else part.lifespan():
                self._routes = list(part.routes)
                self._settled.set()
                await self._over.wait()
        except Exception as error:
            if self._settled.is_set():
                raise
            self._error = error
            _log.exception("paths=<%s> | this part of the service could not be loaded", ", ".join(self._paths))
        finally:
            self._settled.set()

    def _load(self) -> None:
        for module in self._modules:
            import_module(module)
