"""The service as an ASGI app: what is mounted, some of it once the service answers, and what stands before it."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Final

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Receive, Scope, Send

from jazz_select.errors import JazzSelectError
from jazz_select.service.access import Door
from jazz_select.service.agents import ServedAgents
from jazz_select.service.api.openapi import openapi_routes
from jazz_select.service.api.operations import OPERATIONS
from jazz_select.service.http.limits import Bodies, Lifecycle, Limits
from jazz_select.service.http.observation import ServiceMetrics, Watched
from jazz_select.service.options import ServeOptions
from jazz_select.service.problems import answer_problem


@dataclass(frozen=True, slots=True)
class Part:
    """Something that is mounted beside the API.

    Attributes:
        routes: Where it answers.
        lifespan: What is open while the service runs, if anything.
    """

    routes: Sequence[BaseRoute]
    lifespan: Callable[[], AbstractAsyncContextManager[object]] | None = None


def make_app(
    served: ServedAgents,
    options: ServeOptions | None = None,
    *,
    life: Lifecycle | None = None,
    parts: Sequence[Part] = (),
) -> Starlette:
    """Put the service together; what it serves has been loaded before, and is closed by whoever opened it.

    Args:
        served: Who is served.
        options: Limits.
        life: Told when it is about to stop.
        parts: What else is mounted, such as the panel.
    """
    wanted = options or ServeOptions()
    life = life or Lifecycle()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            for part in parts:
                if part.lifespan is not None:
                    await stack.enter_async_context(part.lifespan())
            yield

    routes = [
        *(Route(each.path, each.endpoint, methods=[each.method]) for each in OPERATIONS),
        *openapi_routes(),
        *(route for part in parts for route in part.routes),
        Route("/", _front(panel=wanted.panel), methods=["GET"]),
    ]
    middleware = [
        Middleware(Watched, metrics=ServiceMetrics(served, life), send_timeout_s=wanted.send_timeout_s),
        Middleware(Door, served=served),
        Middleware(Limits, options=wanted, life=life, agents=len(served)),
        Middleware(Bodies, most=wanted.max_body, timeout_s=wanted.body_timeout_s),
    ]
    handled = dict.fromkeys((HTTPException, JazzSelectError, ValidationError), answer_problem)
    app = Starlette(routes=routes, middleware=middleware, exception_handlers=handled, lifespan=lifespan)
    app.router.redirect_slashes = False
    app.state.served, app.state.options, app.state.life = served, wanted, life
    return app


def _front(*, panel: bool) -> Callable[[Request], Response]:
    """Where a browser that was given the bare address is sent."""
    to = "/panel/" if panel else "/docs"

    def front(_: Request) -> Response:
        return RedirectResponse(to, 307)

    return front


_log: Final = logging.getLogger(__name__)
_AFTER_S: Final = 0.3
"""How long the first requests have for themselves: loading takes time from what is answered meanwhile."""


def deferred(paths: Sequence[str], modules: Sequence[str], make: Callable[[], Part]) -> Part:
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
