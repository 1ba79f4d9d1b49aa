"""What may be asked, as an OpenAPI 3.1 document, and as a page that shows it without anything from elsewhere."""

import json
from collections.abc import Iterator
from functools import lru_cache
from html import escape
from importlib.resources import files
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema
from pydantic_core import core_schema
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from jazz_select import __version__
from jazz_select.service.api.answers import ProblemAnswer, answer
from jazz_select.service.api.operations import OPERATIONS, Operation

_SECURE: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_Field = core_schema.ModelField | core_schema.DataclassField | core_schema.TypedDictField
_PROBLEMS: Final = {
    400: "The body, or something in it, is not what is taken; `detail` says what is.",
    401: "A key is needed, or opens nothing here.",
    404: "There is no such flow.",
    408: "The body did not come in time.",
    409: "The files cannot be used; what answered before still does.",
    413: "The body is too large.",
    415: "The body is not said to be JSON.",
    429: "Too many requests with this key; `Retry-After` says when to come again.",
    503: "There is no room for one more now, or what it needs cannot be reached; likewise.",
}


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


class _Schemas(GenerateJsonSchema):
    """Schemas of models, and of the values that are answered: of these every field is there."""

    def field_is_required(self, field: _Field, total: bool) -> bool:  # noqa: FBT001 - as it is called
        return field["type"] == "dataclass-field" or super().field_is_required(field, total)


@lru_cache(1)
def openapi() -> dict[str, Any]:
    """The document, made once."""
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


def _operation(told: Operation) -> dict[str, Any]:
    content: dict[str, Any] = {"text/plain": {"schema": {"type": "string"}}}
    if told.gives is not None:
        content = {"application/json": {"schema": _ref(told.gives)}}
    if told.name == "turn":
        content["text/event-stream"] = {"schema": {"type": "string"}}
    responses: dict[str, Any] = {"200": {"description": "Done.", "content": content}}
    if told.name == "readyz":
        responses["503"] = {"description": "Not now.", "content": content}
    problem = {"application/problem+json": {"schema": _ref(ProblemAnswer)}}
    responses |= {str(each): {"description": _PROBLEMS[each], "content": problem} for each in told.statuses}
    made: dict[str, Any] = {"operationId": told.name, "summary": told.told, "responses": responses}
    if told.public:
        made["security"] = []
    if "{name" in told.path:
        made["parameters"] = [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}]
    if told.body is not None:
        made["requestBody"] = {
            "required": any(field.is_required() for field in told.body.model_fields.values()),
            "content": {"application/json": {"schema": _ref(told.body), "example": told.example}},
        }
    return made


@lru_cache(1)
def _style() -> bytes:
    return files("jazz_select.service.api").joinpath("docs.css").read_bytes()


@lru_cache(1)
def _html() -> bytes:
    """The page: each operation with what it takes and gives, and a call to copy."""
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


def _section(told: Operation) -> Iterator[str]:
    yield f'<section id="{told.name}"><h2><b>{told.method}</b> {escape(_path(told))}</h2>'
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
    gives = "" if told.gives is None else f": {told.gives.__name__}"
    others = ", ".join(f"<span title='{escape(_PROBLEMS[each])}'>{each}</span>" for each in told.statuses)
    yield f"<p>200{gives}{f'; else {others}' if others else ''}</p></section>"


def _call(told: Operation) -> str:
    key = "" if told.public else " -H 'Authorization: Bearer KEY'"
    path = _path(told).replace("{name}", "refund_order")
    if told.body is None:
        return f"curl{key} http://127.0.0.1:8420{path}"
    body = json.dumps(told.example)
    return f"curl{key} -H 'Content-Type: application/json' \\\n  -d '{body}' \\\n  http://127.0.0.1:8420{path}"
