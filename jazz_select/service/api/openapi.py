"""What may be asked, as an OpenAPI 3.1 document, and as a page that shows it without anything from elsewhere."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from importlib.resources import files
from typing import Any, Final, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from jazz_select import __version__
from jazz_select.service.api.answered import SCHEMAS, answer, ref
from jazz_select.service.api.asked import FeedbackBody, RecallBody, ReloadBody, SelectBody, SelectManyBody, TurnBody

_SECURE: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_BAD, _UNKNOWN, _STALE, _AWAY = "400", "404", "409", "503"
_PROBLEMS: Final = {
    _BAD: "The body, or something in it, is not what is taken; `detail` says what is.",
    "401": "A key is needed, or opens nothing here.",
    _UNKNOWN: "There is no such flow.",
    "408": "The body did not come in time.",
    _STALE: "The files cannot be used; what answered before still does.",
    "413": "The body is too large.",
    "415": "The body is not said to be JSON.",
    "429": "Too many requests with this key; `Retry-After` says when to come again.",
    _AWAY: "There is no room for one more now, or what it needs cannot be reached; likewise.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Operation:
    """One thing that may be asked."""

    path: str
    name: str
    told: str
    gives: str = ""
    body: type[BaseModel] | None = None
    example: Any = None
    problems: tuple[str, ...] = ()
    public: bool = False

    @property
    def method(self) -> Literal["get", "post"]:
        """What has a body is posted, and nothing else."""
        return "get" if self.body is None else "post"

    @property
    def statuses(self) -> list[str]:
        """Of the problems that it may answer with."""
        usual = [] if self.public else ["401", "429", _AWAY]
        of_bodies = [_BAD, "408", "413", "415"] if self.body is not None else []
        return sorted({*usual, *of_bodies, *self.problems})


_ASKED: Final = {"request": "I want my money back for order A-1042"}
OPERATIONS: Final = (
    _Operation(
        path="/v1/select",
        name="select",
        told="The flows for a request, and why these.",
        gives="Selection",
        body=SelectBody,
        example=_ASKED,
    ),
    _Operation(
        path="/v1/select_many",
        name="select_many",
        told="The flows for several requests, each by itself, in their order.",
        gives="Selections",
        body=SelectManyBody,
        example={"requests": ["I want my money back", {"request": "and that?", "episode_summaries": ["The lamp."]}]},
    ),
    _Operation(
        path="/v1/recall",
        name="recall",
        told="Candidates alone, best first: nobody chooses.",
        gives="Recall",
        body=RecallBody,
        example={**_ASKED, "top_k": 5},
    ),
    _Operation(
        path="/v1/turn",
        name="turn",
        told="One message to the agent. With `Accept: text/event-stream` each thing that happens is an event, and the "
        "last one, `finished`, is what is answered otherwise; what goes wrong meanwhile is the event `problem`. Send "
        "`conversation` back as `history`: it is signed, and no other is gone on with.",
        gives="Turn",
        body=TurnBody,
        example={"message": "Where is my order? I am ada@example.org"},
    ),
    _Operation(
        path="/v1/feedback",
        name="feedback",
        told="What was right for a selection, where the service keeps a log.",
        gives="Kept",
        body=FeedbackBody,
        example={"selection": "the `logged` of a selection", "right": ["refund_order"]},
    ),
    _Operation(path="/v1/agent", name="agent", told="Whom the key opens, and how many flows.", gives="Served"),
    _Operation(path="/v1/flows", name="flows", told="All flows, in short.", gives="Flows"),
    _Operation(
        path="/v1/flows/{name}",
        name="flow",
        told="One flow, with its prompt; by its name, or its id.",
        gives="Chosen",
        problems=(_UNKNOWN,),
    ),
    _Operation(
        path="/v1/reload",
        name="reload",
        told="Read flows and tools anew, and put them in place of what answers; requests go on meanwhile. "
        "It needs no body.",
        gives="Reloaded",
        body=ReloadBody,
        example={"allow_delete": False},
        problems=(_STALE,),
    ),
    _Operation(path="/healthz", name="healthz", told="Whether the process lives.", gives="Health", public=True),
    _Operation(
        path="/readyz",
        name="readyz",
        told="Whether requests may be sent here: 503 before flows are loaded, and before the service stops.",
        gives="Health",
        public=True,
    ),
    _Operation(path="/metrics", name="metrics", told="What there is to count, for Prometheus."),
)


def openapi_routes() -> list[BaseRoute]:
    """The document and the page."""
    return [
        Route("/openapi.json", document, methods=["GET"]),
        Route("/docs", page, methods=["GET"]),
        Route("/docs/style.css", style, methods=["GET"]),
    ]


async def document(_: Request) -> Response:
    """The document."""
    return answer(openapi())


async def page(_: Request) -> Response:
    """The page."""
    return Response(_html(), headers=_SECURE, media_type="text/html")


async def style(_: Request) -> Response:
    """How the page looks."""
    return Response(_style(), headers=_SECURE, media_type="text/css")


@lru_cache(1)
def openapi() -> dict[str, Any]:
    """The document, made once."""
    bodies = [each.body for each in OPERATIONS if each.body is not None]
    _, made = models_json_schema([(body, "validation") for body in bodies], ref_template="#/components/schemas/{model}")
    paths: dict[str, dict[str, Any]] = {}
    for each in OPERATIONS:
        paths.setdefault(each.path, {})[each.method] = _operation(each)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "jazz-select",
            "version": __version__,
            "description": "Finds the right flow for a request. What goes wrong is told as problem details (RFC 9457).",
        },
        "paths": paths,
        "components": {
            "schemas": {**SCHEMAS, **made.get("$defs", {})},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
    }


def _operation(told: _Operation) -> dict[str, Any]:
    content: dict[str, Any] = {"text/plain": {"schema": {"type": "string"}}}
    if told.gives:
        content = {"application/json": {"schema": ref(told.gives)}}
    if told.name == "turn":
        content["text/event-stream"] = {"schema": {"type": "string"}}
    responses: dict[str, Any] = {"200": {"description": "Done.", "content": content}}
    if told.name == "readyz":
        responses[_AWAY] = {"description": "Not now.", "content": content}
    problem = {"application/problem+json": {"schema": ref("Problem")}}
    responses |= {each: {"description": _PROBLEMS[each], "content": problem} for each in told.statuses}
    made: dict[str, Any] = {"operationId": told.name, "summary": told.told, "responses": responses}
    if told.public:
        made["security"] = []
    if "{name}" in told.path:
        made["parameters"] = [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}]
    if told.body is not None:
        schema = ref(told.body.__name__)
        made["requestBody"] = {
            "required": any(field.is_required() for field in told.body.model_fields.values()),
            "content": {"application/json": {"schema": schema, "example": told.example}},
        }
    return made


@lru_cache(1)
def _style() -> bytes:
    return files("jazz_select.service.api").joinpath("docs.css").read_bytes()


@lru_cache(1)
def _html() -> bytes:
    """The page: each operation with what it takes and gives, and a call to copy."""
    sections = "\n".join(part for each in OPERATIONS for part in _section(each))
    links = " ".join(f'<a href="#{each.name}">{escape(each.path)}</a>' for each in OPERATIONS)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>jazz-select API</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="stylesheet" href="/docs/style.css"></head><body>'
        f"<header><h1>jazz-select <small>{escape(__version__)}</small></h1>"
        '<p>The API of this service. As a document: <a href="/openapi.json">/openapi.json</a>.</p>'
        f"<nav>{links}</nav></header><main>{sections}</main></body></html>"
    ).encode()


def _section(told: _Operation) -> Iterator[str]:
    yield f'<section id="{told.name}"><h2><b>{told.method.upper()}</b> {escape(told.path)}</h2>'
    yield f"<p>{escape(told.told).replace('`', '')}</p>"
    if told.body is not None:
        schema = told.body.model_json_schema()
        yield "<table><thead><tr><th>field</th><th>what</th></tr></thead><tbody>"
        for name, field in schema["properties"].items():
            needed = "" if name in schema.get("required", ()) else " <i>optional</i>"
            what = escape(field.get("description", ""))
            yield f"<tr><td><code>{escape(name)}</code>{needed}</td><td>{what}</td></tr>"
        yield "</tbody></table>"
    yield f"<pre>{escape(_call(told))}</pre>"
    answers = ", ".join(f"<span title='{escape(_PROBLEMS[each])}'>{each}</span>" for each in told.statuses)
    yield f"<p>200{': ' + told.gives if told.gives else ''}{'; else ' + answers if answers else ''}</p></section>"


def _call(told: _Operation) -> str:
    key = "" if told.public else " -H 'Authorization: Bearer KEY'"
    path = told.path.replace("{name}", "refund_order")
    if told.body is None:
        return f"curl{key} http://127.0.0.1:8420{path}"
    body = json.dumps(told.example)
    return f"curl{key} -H 'Content-Type: application/json' \\\n  -d '{body}' \\\n  http://127.0.0.1:8420{path}"
