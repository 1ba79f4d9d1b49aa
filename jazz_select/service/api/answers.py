"""What is answered: results as JSON."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from jazz_select.json_values import json_bytes
from jazz_select.service.http.metrics import ServiceMetrics


def answer(value: Any, status: int = 200) -> Response:
    """A value as JSON."""
    return Response(json_bytes(value), status, {"Cache-Control": "no-store"}, "application/json")


def metrics_of(request: Request) -> ServiceMetrics:
    """Where what happens is counted."""
    metrics: ServiceMetrics = request.scope["state"]["metrics"]
    return metrics
