"""A guard over streamable HTTP: behind keys, within the limits of the service, and nothing else beside it."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, cast

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from jazz_select.flow.base import FlowRegistry
from jazz_select.routing.tools.tool import Toolbox
from jazz_select.service.agents import ServedAgents
from jazz_select.service.http.limits import AdmissionMiddleware, Lifecycle, caller_of
from jazz_select.service.http.shares import Places
from jazz_select.service.mcp.guard import Guard
from jazz_select.service.mcp.key_sessions import KeySessions
from jazz_select.service.problems import answer_problem
from jazz_select.service.running import RunningCatalogue, Sources
from jazz_select.service.service_options import ServeOptions
from jazz_select.settings import Settings

_ID: Final = "guard"


def client_of(request: object) -> str:
    """Return the name of a request's key; empty where no key is needed."""
    return caller_of(cast("Request", request)).key if isinstance(request, Request) else ""


def guard_keys(keys: Mapping[str, str]) -> ServedAgents:
    """Admit the keys whose SHA-256 is given, by name; without keys, admit whoever is on this machine."""
    # Keys open agents. The only one here has no flows and no index, and is never loaded.
    catalogue = RunningCatalogue(Settings(agent_id=_ID), cast("Any", None), _empty_sources)
    return ServedAgents({_ID: catalogue}, dict.fromkeys(keys, _ID), is_open=not keys, names=keys)


def _empty_sources() -> Sources:
    return Sources(registry=FlowRegistry(min_examples=0), tools=Toolbox())


def guard_app(guard: Guard, keys: ServedAgents, *, options: ServeOptions, life: Lifecycle) -> Starlette:
    """Build the app, with `/mcp` for those with a key and `/healthz` for everybody."""
    manager = StreamableHTTPSessionManager(
        guard.server,
        max_sessions=2 * options.max_sessions,
        session_idle_timeout=options.session_idle_s,
        max_request_body_size=options.max_body,
    )
    places = Places(
        options.max_sessions,
        keys.keys_known,
        "MCP sessions",
        "open",
        most_of_one=options.max_sessions_of_one,
    )
    sessions = KeySessions(places, options.session_idle_s)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with manager.run(), guard.running():
            yield

    async def health(_: Request) -> Response:
        return PlainTextResponse("ok")

    handled: Any = {HTTPException: answer_problem}
    endpoint = _Endpoint(manager, sessions)
    app = Starlette(
        routes=[
            Route("/mcp", endpoint=endpoint),
            Route("/mcp/", endpoint=endpoint),
            Route("/healthz", health, methods=["GET"]),
        ],
        middleware=[Middleware(AdmissionMiddleware, served=keys, options=options, life=life)],
        exception_handlers=handled,
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return app


class _Endpoint:
    def __init__(self, manager: StreamableHTTPSessionManager, sessions: KeySessions) -> None:
        self._manager, self._sessions = manager, sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Blanks around a value are no part of it (RFC 9110, 5.5), and not every parser takes them off.
        scope = {**scope, "headers": [(name, value.strip(b" \t")) for name, value in scope["headers"]]}
        await self._sessions.answer(self._manager.handle_request, scope, receive, send)
