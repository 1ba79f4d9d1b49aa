"""The service as an ASGI app: what is mounted, and what stands before it."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from jazz_select.errors import JazzSelectError
from jazz_select.service.access import Door
from jazz_select.service.agents import ServedAgents
from jazz_select.service.api.openapi import openapi_routes
from jazz_select.service.api.operations import OPERATIONS
from jazz_select.service.http.bodies import Bodies
from jazz_select.service.http.life import Life
from jazz_select.service.http.limits import Limits
from jazz_select.service.http.metrics import ServiceMetrics
from jazz_select.service.http.watching import Watched
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
    life: Life | None = None,
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
    life = life or Life()

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
