"""A small API with its document, in OpenAPI 3.0 and 3.1, and a server on loopback that writes down what it is asked."""

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.unit.client.serving import listening

PET: dict[str, Any] = {
    "type": "object",
    "required": ["id", "name"],
    "properties": {
        "id": {"type": "integer", "readOnly": True},
        "name": {"type": "string", "description": "What it is called"},
        "parent": {"$ref": "#/components/schemas/Pet"},
        "friends": {"type": "array", "items": {"$ref": "#/components/schemas/Pet"}},
    },
}


def document(version: str = "3.1.0", **changes: Any) -> dict[str, Any]:
    """The document of the API; `changes` replace parts of it."""
    nickname = {"type": ["string", "null"]} if version.startswith("3.1") else {"type": "string", "nullable": True}
    pet = {**PET, "properties": {**PET["properties"], "nickname": nickname}}
    return {
        "openapi": version,
        "info": {"title": "Pet Shop", "version": "1"},
        "servers": [{"url": "http://localhost:1/v1"}],
        "paths": {
            "/pets": {
                "get": {
                    "operationId": "listPets",
                    "summary": "List the pets",
                    "tags": ["pets"],
                    "parameters": [
                        {"name": "limit", "in": "query", "schema": {"type": "integer", "maximum": 100}},
                        {"name": "tag", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                        {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
                        {"name": "shop", "in": "cookie", "schema": {"type": "string"}},
                    ],
                    "responses": {"200": {"description": "ok", "content": {"application/json": {"schema": {
                        "type": "array", "items": {"$ref": "#/components/schemas/Pet"}}}}}},
                },
                "post": {
                    "operationId": "createPet",
                    "tags": ["pets"],
                    "parameters": [{"name": "Idempotency-Key", "in": "header", "schema": {"type": "string"}}],
                    "requestBody": {"required": True, "content": {"application/json": {"schema": {
                        "$ref": "#/components/schemas/Pet"}}}},
                    "responses": {"201": {"description": "made"}},
                },
            },
            "/pets/{petId}": {
                "parameters": [{"name": "petId", "in": "path", "required": True, "schema": {"type": "string"}}],
                "get": {"operationId": "showPet", "responses": {"200": {"description": "ok"}}},
                "delete": {"responses": {"204": {"description": "gone"}}},
                "put": {
                    "operationId": "replacePet",
                    "requestBody": {"content": {"application/json": {"schema": {"allOf": [
                        {"$ref": "#/components/schemas/Pet"}, {"required": ["name"]}]}}}},
                    "responses": {"200": {"description": "ok"}},
                },
            },
        },
        "components": {
            "schemas": {"Pet": pet},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "login": {"type": "http", "scheme": "basic"},
                "key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
                "asked": {"type": "apiKey", "in": "query", "name": "api_key"},
                "baked": {"type": "apiKey", "in": "cookie", "name": "session"},
                "signed": {"type": "http", "scheme": "digest"},
            },
        },
        **changes,
    }  # fmt: skip


def with_operation(path: str, verb: str, operation: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """The document with one more operation."""
    made = document(**changes)
    made["paths"].setdefault(path, {})[verb] = {"responses": {"200": {"description": "ok"}}, **operation}
    return made


def secured(*schemes: str) -> dict[str, Any]:
    """The document of which every operation needs one of these schemes; several joined by + are needed together."""
    return document(security=[{each: [] for each in scheme.split("+")} if scheme else {} for scheme in schemes])


@dataclass
class Api:
    """The server: where it is, what it was asked, and what it answers next."""

    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    answer: Callable[[Request], Response] = lambda _: JSONResponse({"ok": True})
    documents: dict[str, Any] = field(default_factory=dict[str, Any])
    """What is there to be fetched, by path; a callable makes the response."""

    @property
    def last(self) -> dict[str, Any]:
        """The last request."""
        return self.requests[-1]


@asynccontextmanager
async def pet_api() -> AsyncGenerator[Api]:
    """Serve it."""
    api = Api()

    async def endpoint(request: Request) -> Response:
        found = api.documents.get(request.url.path)
        if found is not None:
            if isinstance(found, dict):
                return Response(json.dumps(found), media_type="application/json")
            return found()
        body = await request.body()
        api.requests.append(
            {
                "verb": request.method,
                "path": request.scope["raw_path"].decode(),
                "query": request.url.query,
                "headers": dict(request.headers),
                "body": body.decode(),
            }
        )
        return api.answer(request)

    verbs = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
    async with listening(Starlette(routes=[Route("/{rest:path}", endpoint, methods=verbs)])) as url:
        api.url = url
        yield api
