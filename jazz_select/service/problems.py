"""What went wrong, as an answer: RFC 9457 problem details, of our own errors and of HTTP's."""

import logging
from collections.abc import Mapping
from http import HTTPStatus
from math import ceil
from typing import Final, Literal

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from jazz_select.errors import (
    AgentError,
    ConfigError,
    JazzSelectError,
    MissingExtraError,
    NotLoadedError,
    OutcomeQuotaError,
    ToolError,
    UnknownFlowError,
)
from jazz_select.json_values import json_bytes
from jazz_select.text import describe_error, wrong_fields

MEDIA_TYPE: Final = "application/problem+json"
_log = logging.getLogger(__name__)
_LONGEST: Final = 2_000
_MOST_WRONG: Final = 5
_STATUS: Final[Mapping[type, int]] = {
    MissingExtraError: 501,
    ConfigError: 400,
    UnknownFlowError: 404,
    AgentError: 400,
    ToolError: 400,
    OutcomeQuotaError: 429,
}
"""Of the nearest kind; 503 of any other: what is not the client's doing, who may come again; the log says more."""
_AGAIN_S: Final = "1"
_TOLD_BELOW: Final = 500


Rest = Literal["skip", "close", "none"]
"""What to do with what there still is of a refused body: read and forget it, close the connection; or there is none."""


def refusal(
    status: int, detail: str, *, code: str = "", headers: dict[str, str] | None = None, rest: Rest = "skip"
) -> HTTPException:
    """Build the exception that refuses a request, for a reason that its sender can do something about."""
    made = HTTPException(status, detail, headers)
    vars(made).update(code=code, rest=rest)
    return made


def problem(
    status: int, detail: str, *, code: str = "", request_id: str = "", headers: dict[str, str] | None = None
) -> Response:
    """Answer with a problem: `title` is the kind of error, `detail` what to do, `code` is for programs.

    A code is the name of one of our errors, or in snake_case what HTTP calls it, or something nearer to the point.
    """
    title = HTTPStatus(status).phrase
    return Response(
        json_bytes(
            {
                "type": "about:blank",
                "title": title,
                "status": status,
                "detail": detail[:_LONGEST],
                "code": code or title.lower().replace(" ", "_"),
                "request_id": request_id,
            }
        ),
        status,
        headers,
        MEDIA_TYPE,
    )


def problem_response(error: BaseException, scope: Scope) -> Response:
    """Answer a request that ended with an error; the service's own problems are not disclosed."""
    request_id: str = scope.get("state", {}).get("request_id", "")
    if isinstance(error, HTTPException):
        code = getattr(error, "code", "")
        headers = dict(error.headers) if error.headers else None
        return problem(error.status_code, _detail(error), code=code, request_id=request_id, headers=headers)
    if isinstance(error, ValidationError):
        wrong = wrong_fields(error, "the body")  # without its content
        more = f"; and {len(wrong) - _MOST_WRONG} more" if len(wrong) > _MOST_WRONG else ""
        detail = f"{'; '.join(wrong[:_MOST_WRONG])}{more}; /openapi.json says what is taken"
        return problem(400, detail, code="invalid_body", request_id=request_id)
    if isinstance(error, JazzSelectError):
        status = next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), 503)
        detail, code = str(error), type(error).__name__
        headers = {"Retry-After": _AGAIN_S} if status >= _TOLD_BELOW else None
        if isinstance(error, OutcomeQuotaError):
            headers = {"Retry-After": str(ceil(error.retry_after))}
        # What is wrong with the agent's own files is told, to who has its key.
        if status >= _TOLD_BELOW and not isinstance(error, NotLoadedError):
            words = describe_error(error)
            _log.error("request_id=<%s>, error=<%s> | a request could not be answered", request_id, words)
            detail = "the service cannot answer now; its log says why, under this request_id"
        return problem(status, detail, code=code, request_id=request_id, headers=headers)
    _log.error("request_id=<%s> | a request failed", request_id, exc_info=error)
    detail = "the service failed; its log says why, under this request_id"
    return problem(500, detail, code="internal_server_error", request_id=request_id)


async def answer_problem(request: Request, error: Exception) -> Response:
    """Answer with `problem_response`, as Starlette calls it."""
    return problem_response(error, request.scope)


def _detail(error: HTTPException) -> str:
    """Return what to do about an error; if nothing specific is known, where to look."""
    if error.detail != HTTPStatus(error.status_code).phrase:
        return error.detail
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED and (allowed := dict(error.headers or {}).get("Allow")):
        return f"this path takes {allowed}; /docs lists what may be asked"
    if error.status_code == HTTPStatus.NOT_FOUND:
        return "there is nothing at this path; /docs lists what may be asked"
    return error.detail
