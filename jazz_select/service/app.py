"""The service as an ASGI app: what is mounted, some of it once the service answers, and what stands before it."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from importlib import import_module
from importlib.resources import files
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic.json_schema import GenerateJsonSchema, models_json_schema
from pydantic_core import core_schema
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Match, Route, Router
from starlette.types import Receive, Scope, Send

from jazz_select import __version__
from jazz_select.errors import JazzSelectError
from jazz_select.service.agents import ServedAgents
from jazz_select.service.api.models import ProblemAnswer, json_answer
from jazz_select.service.api.operations import OPERATIONS, Operation
from jazz_select.service.database_watch import DatabaseWatch
from jazz_select.service.http.limits import AdmissionMiddleware, Lifecycle
from jazz_select.service.http.observation import AgentMetrics, ObservationMiddleware
from jazz_select.service.index_watch import IndexWatch
from jazz_select.service.problems import answer_problem
from jazz_select.service.service_options import ServeOptions
from jazz_select.threads import beside

_SECURE: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_Field = core_schema.ModelField | core_schema.DataclassField | core_schema.TypedDictField
_PROBLEMS: Final = {
    400: "The body, or something in it, is not what is taken; `detail` says what is.",
    401: "A key is needed, or opens nothing here.",
    403: "The key may not do that.",
    404: "There is no such flow.",
    408: "The body did not come in time.",
    409: "The files cannot be used; what answered before still does.",
    413: "The body is too large.",
    415: "The body is not said to be JSON.",
    429: "Too many requests with this key; `Retry-After` says when to come again.",
    503: "There is no room for one more now, or what it needs cannot be reached; likewise.",
}


async def document(_: Request) -> Response:
    """Return the OpenAPI document."""
    return json_answer(openapi())


async def page(_: Request) -> Response:
    """Return the page that shows the API."""
    return Response(_html(), headers=_SECURE, media_type="text/html")


class _Schemas(GenerateJsonSchema):
    """Generates the schemas; in those of answers every field is required."""

    def field_is_required(self, field: _Field, total: bool) -> bool:  # noqa: FBT001 - as it is called
        return field["type"] == "dataclass-field" or super().field_is_required(field, total)


@lru_cache(1)
def openapi() -> dict[str, Any]:
    """Build the OpenAPI document, once."""
    models = [each for operation in OPERATIONS for each in (operation.body, operation.gives) if each is not None]
    _, made = models_json_schema(
        [(each, "validation") for each in dict.fromkeys((*models, ProblemAnswer))],
        ref_template="#/components/schemas/{model}",
        schema_generator=_Schemas,
    )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "jazz-select",
            "version": __version__,
            "description": "Finds the right flow for a request. What goes wrong is told as problem details (RFC 9457).",
        },
        "paths": {_path(each): {each.method.lower(): _operation(each)} for each in OPERATIONS},
        "components": {
            "schemas": made["$defs"],
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
    }


def _path(operation: Operation) -> str:
    return operation.path.replace(":path}", "}")


def _ref(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def _operation(operation: Operation) -> dict[str, Any]:
    content: dict[str, Any] = {"text/plain": {"schema": {"type": "string"}}}
    if operation.gives is not None:
        content = {"application/json": {"schema": _ref(operation.gives)}}
    if operation.name == "turn":
        content["text/event-stream"] = {"schema": {"type": "string"}}
    responses: dict[str, Any] = {"200": {"description": "Done.", "content": content}}
    if operation.name == "readyz":
        responses["503"] = {"description": "Not now.", "content": content}
    problem = {"application/problem+json": {"schema": _ref(ProblemAnswer)}}
    responses |= {str(each): {"description": _PROBLEMS[each], "content": problem} for each in operation.statuses}
    made: dict[str, Any] = {"operationId": operation.name, "summary": operation.summary, "responses": responses}
    if operation.public:
        made["security"] = []
    if "{name" in operation.path:
        made["parameters"] = [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}]
    if operation.body is not None:
        made["requestBody"] = {
            "required": any(field.is_required() for field in operation.body.model_fields.values()),
            "content": {"application/json": {"schema": _ref(operation.body), "example": operation.example}},
        }
    return made


@lru_cache(1)
def _html() -> bytes:
    sections = "\n".join(part for each in OPERATIONS for part in _section(each))
    links = " ".join(f'<a href="#{each.name}">{escape(_path(each))}</a>' for each in OPERATIONS)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>jazz-select API</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="stylesheet" href="/docs/style.css"></head><body>'
        f"<header><h1>jazz-select <small>{escape(__version__)}</small></h1>"
        '<p>The API of this service. As a document: <a href="/openapi.json">/openapi.json</a>.</p>'
        f"<nav>{links}</nav></header><main>{sections}</main></body></html>"
    ).encode()


def _section(operation: Operation) -> Iterator[str]:
    yield f'<section id="{operation.name}"><h2><b>{operation.method}</b> {escape(_path(operation))}</h2>'
    yield f"<p>{escape(operation.summary).replace('`', '')}</p>"
    if operation.body is not None:
        schema = operation.body.model_json_schema()
        yield "<table><thead><tr><th>field</th><th>what</th></tr></thead><tbody>"
        for name, field in schema["properties"].items():
            needed = "" if name in schema.get("required", ()) else " <i>optional</i>"
            what = escape(field.get("description", ""))
            yield f"<tr><td><code>{escape(name)}</code>{needed}</td><td>{what}</td></tr>"
        yield "</tbody></table>"
    yield f"<pre>{escape(_call(operation))}</pre>"
    gives = "" if operation.gives is None else f": {operation.gives.__name__}"
    others = ", ".join(f"<span title='{escape(_PROBLEMS[each])}'>{each}</span>" for each in operation.statuses)
    yield f"<p>200{gives}{f'; else {others}' if others else ''}</p></section>"


def _call(operation: Operation) -> str:
    key = "" if operation.public else " -H 'Authorization: Bearer KEY'"
    path = _path(operation).replace("{name}", "refund_order")
    body = f" -H 'Content-Type: application/json' \\\n  -d '{json.dumps(operation.example)}' \\\n "
    return f"curl{key}{body if operation.body else ''} http://127.0.0.1:8420{path}"


@dataclass(frozen=True, slots=True)
class AppPart:
    """Something that is mounted beside the API."""

    routes: Sequence[BaseRoute]
    lifespan: Callable[[], AbstractAsyncContextManager[object]] = nullcontext


def make_app(
    served: ServedAgents,
    options: ServeOptions | None = None,
    *,
    life: Lifecycle | None = None,
    parts: Sequence[AppPart] = (),
) -> Starlette:
    """Put the service together; what it serves has been loaded before, and is closed by whoever opened it."""
    wanted = options or ServeOptions()
    life = life or Lifecycle()
    index = IndexWatch(served.values())
    database = None if served.shared is None else DatabaseWatch(served.shared.database)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(beside(index.run()))
            if database is not None:
                await stack.enter_async_context(beside(database.run()))
            for part in parts:
                await stack.enter_async_context(part.lifespan())
            yield

    style = files("jazz_select.service.api").joinpath("docs.css").read_bytes()
    routes = [
        *(Route(each.path, each.endpoint, methods=[each.method]) for each in OPERATIONS),
        Route("/openapi.json", document, methods=["GET"]),
        Route("/docs", page, methods=["GET"]),
        Route("/docs/style.css", Response(style, headers=_SECURE, media_type="text/css"), methods=["GET"]),
        *(route for part in parts for route in part.routes),
        # Where a browser that was given the bare address is sent.
        Route("/", RedirectResponse("/panel/" if wanted.panel else "/docs", 307), methods=["GET"]),
    ]
    metrics = {agent_id: AgentMetrics(each, life) for agent_id, each in served.items()}
    middleware = [
        Middleware(ObservationMiddleware, metrics=metrics, send_timeout_s=wanted.send_timeout_s),
        Middleware(AdmissionMiddleware, served=served, options=wanted, life=life),
    ]
    handled = dict.fromkeys((HTTPException, JazzSelectError, ValidationError), answer_problem)
    app = Starlette(routes=routes, middleware=middleware, exception_handlers=handled, lifespan=lifespan)
    app.router.redirect_slashes = False
    app.state.served, app.state.options, app.state.life, app.state.index = served, wanted, life, index
    app.state.database = database
    return app


_log: Final = logging.getLogger(__name__)
_AFTER_S: Final = 0.3
"""How long the first requests have for themselves: loading takes time from what is answered meanwhile."""


def defer_part(paths: Sequence[str], modules: Sequence[str], make: Callable[[], AppPart]) -> AppPart:
    """Load a part soon after the service has started, or at once when a request for it comes, which then waits.

    What cannot be loaded is said in the log, and to whoever asks.

    Args:
        paths: All of its routes are there or below: `/panel` stands for `/panel/flows` as well.
        modules: What it needs that takes long to import; imported in a thread.
        make: Makes it, then; in the event loop.
    """
    place = _Place(tuple(paths), modules, make)
    return AppPart([place], place.lifespan)


class _Place(BaseRoute):
    """A placeholder for the routes of a part, which is loaded on its first request."""

    def __init__(self, paths: tuple[str, ...], modules: Sequence[str], make: Callable[[], AppPart]) -> None:
        self._paths, self._modules, self._make = paths, modules, make
        self._wanted, self._over, self._tried = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._router = Router()
        self._error: Exception | None = None

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        path: str = scope.get("path", "")
        below = scope["type"] == "http" and any(path == each or path.startswith(f"{each}/") for each in self._paths)
        return (Match.FULL if below else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._wanted.set()
        await self._tried.wait()
        if self._error is not None:
            raise self._error.with_traceback(None)  # else it grows with each request
        await self._router(scope, receive, send)

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None]:
        holding = asyncio.create_task(self._hold(), name="part")
        try:
            yield
        finally:
            self._over.set()
            self._wanted.set()
            await holding

    async def _hold(self) -> None:
        """Load the app and keep it open; one task opens and closes it, as task groups require."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wanted.wait(), _AFTER_S)
        try:
            if self._over.is_set():
                return
            for module in self._modules:
                await asyncio.to_thread(import_module, module)
            part = self._make()
            async with part.lifespan():
                self._router = Router(part.routes, redirect_slashes=False)
                self._tried.set()
                await self._over.wait()
        except Exception as error:
            if self._tried.is_set():
                raise
            self._error = error
            _log.exception("paths=<%s> | this part of the service could not be loaded", ", ".join(self._paths))
        finally:
            self._tried.set()
