"""Flows for requests: select, select_many, recall, and what was right."""

import asyncio
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from jazz_select.selector.result import FlowSelectionResult
from jazz_select.selector.retrieval import Request as Query
from jazz_select.selector.retrieval import SelectRequest
from jazz_select.service.access import catalogue_of
from jazz_select.service.api.answered import answer, answer_json, metrics_of
from jazz_select.service.api.asked import FeedbackBody, OneOfMany, RecallBody, SelectBody, SelectManyBody, asked

_AT_ONCE: Final = 32
"""Requests of one body that are looked at before others have their turn."""


def selecting_routes() -> list[BaseRoute]:
    """All of them."""
    return [
        Route("/v1/select", select, methods=["POST"]),
        Route("/v1/select_many", select_many, methods=["POST"]),
        Route("/v1/recall", recall, methods=["POST"]),
        Route("/v1/feedback", feedback, methods=["POST"]),
    ]


async def select(request: Request) -> Response:
    """The flows for one request."""
    catalogue = catalogue_of(request)
    body = await asked(request, SelectBody)
    question = None if body.asked is None else body.asked.as_question()
    result = await catalogue.live.selector.select(
        body.request, body.candidates, body.episode_summaries, context=body.context, only=body.only, asked=question
    )
    metrics_of(request).selected(catalogue.agent_id, (result,))
    return answer_json(result.to_json())


async def select_many(request: Request) -> Response:
    """Those of several, each by itself."""
    catalogue = catalogue_of(request)
    body = await asked(request, SelectManyBody)
    selector, results = catalogue.live.selector, list[FlowSelectionResult]()
    for at in range(0, len(body.requests), _AT_ONCE):
        some = [_one(each) for each in body.requests[at : at + _AT_ONCE]]
        results += await selector.select_many(some, context=body.context, ask=body.ask)
        await asyncio.sleep(0)  # others are answered in between
    metrics_of(request).selected(catalogue.agent_id, results)
    return answer({"results": [each.to_dict() for each in results]})


async def recall(request: Request) -> Response:
    """Candidates alone."""
    catalogue = catalogue_of(request)
    body = await asked(request, RecallBody)
    settings, query = catalogue.settings, Query.of(body.request, body.episode_summaries)
    options: dict[str, Any] = {
        "top_k": settings.top_k if body.top_k is None else body.top_k,
        "rrf_k": settings.rrf_k if body.rrf_k is None else body.rrf_k,
        "coverage": settings.coverage if body.coverage is None else body.coverage,
        "focus": body.request if query.summaries else "",
        "exclude": body.exclude,
    }
    found = await catalogue.recalls.recall(query.text, catalogue.agent_id, **options)
    return answer(found.to_dict())


async def feedback(request: Request) -> Response:
    """Keep what was right for a selection."""
    catalogue = catalogue_of(request)
    body = await asked(request, FeedbackBody)
    await catalogue.live.selector.feedback(body.selection, right=body.right, note=body.note)
    return answer({"kept": True})


def _one(given: str | OneOfMany) -> SelectRequest:
    if isinstance(given, str):
        return SelectRequest(given)
    question = None if given.asked is None else given.asked.as_question()
    return SelectRequest(given.request, given.candidates, given.episode_summaries, given.only, question)
