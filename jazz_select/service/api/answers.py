"""What is answered: results as JSON."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from jazz_select.json_values import json_bytes, plain
from jazz_select.service.http.metrics import ServiceMetrics


def answer(value: Any, status: int = 200) -> Response:
    """A value as JSON."""
    return Response(json_bytes(value), status, {"Cache-Control": "no-store"}, "application/json")


def as_dict(result: Any) -> dict[str, Any]:
    """A result as it travels."""
    told: Callable[[], dict[str, Any]] | None = getattr(result, "to_dict", None)
    if told is not None:
        return told()
    return {each.name: plain(getattr(result, each.name)) for each in fields(result)}


def metrics_of(request: Request) -> ServiceMetrics:
    """Where what happens is counted."""
    metrics: ServiceMetrics = request.scope["state"]["metrics"]
    return metrics
