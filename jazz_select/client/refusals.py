"""What a service says when it does not do what it was asked, as the error that it is here.

An error that the same call would raise in this process is raised as itself; all others are `ServiceError`s. Nothing
that a service says is believed to be more than a text.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from math import isfinite
from typing import Any, Final, cast

import orjson

from jazz_select.errors import (
    ConfigError,
    JazzSelectError,
    OutcomeLogError,
    ServiceBusyError,
    ServiceError,
    ServiceKeyError,
    ServiceReplyError,
    ServiceUnavailableError,
    SnapshotError,
    UnknownFlowError,
)
from jazz_select.text import beginning
from jazz_select.travel import NO_ROOM, error_of

_SAME: Final = frozenset(
    kind.__name__ for kind in (ConfigError, JazzSelectError, OutcomeLogError, SnapshotError, UnknownFlowError)
)
"""Errors of a call that mean the same wherever it is answered."""
_OF_A_BODY: Final = frozenset({"invalid_body", "not_json"})
"""What was sent is nothing that is taken: here it is an argument that cannot work."""
_LONGEST: Final = 1_000
_LONGEST_WAIT_S: Final = 86_400.0
_KEY: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why there is no answer.

    Attributes:
        error: As it is raised.
        undone: Whether nothing was done, so that even what is not to be done twice may be asked again.
    """

    error: JazzSelectError
    undone: bool = False

    @property
    def passing(self) -> bool:
        """Whether the same may go through in a moment."""
        return isinstance(self.error, ServiceBusyError | ServiceUnavailableError)


def refusal(url: str, status: int, headers: Mapping[str, str], body: bytes, *, has_key: bool = True) -> Refusal:
    """What an answer means that is no success; `has_key` says whether a key was sent."""
    problem = _problem(body)
    if status in _KEY:
        return Refusal(ServiceKeyError(url, given=has_key), undone=True)
    wait_s = retry_after(headers.get("retry-after", ""))
    if status == HTTPStatus.TOO_MANY_REQUESTS or problem.get("code") == NO_ROOM:
        return Refusal(ServiceBusyError(url, retry_after=wait_s), undone=True)
    if not problem:
        if status in {HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT}:
            said = f"HTTP {status}, from something that stands before it"
            return Refusal(ServiceUnavailableError(url, said, retry_after=wait_s))
        return Refusal(ServiceReplyError(url, f"HTTP {status}, without a word of why"))
    return Refusal(_told(url, status, problem, wait_s))


def problem_error(url: str, problem: object, *, has_key: bool = True) -> JazzSelectError:
    """The error of problem details that came as the last event of a stream."""
    known = cast("dict[str, Any]", problem if isinstance(problem, dict) else {})
    status = known.get("status")
    return refusal(url, status if isinstance(status, int) else 500, {}, orjson.dumps(problem), has_key=has_key).error


def _told(url: str, status: int, problem: Mapping[str, Any], wait_s: float | None) -> JazzSelectError:
    """The error of problem details as this library writes them."""
    detail, code, request = (one_line_of(problem.get(name)) for name in ("detail", "code", "request_id"))
    if status < HTTPStatus.INTERNAL_SERVER_ERROR:
        if code in _OF_A_BODY:
            return ConfigError(detail)
        if code in _SAME:
            same = error_of({"code": code, "message": detail, "details": {"problem": detail, "missing": []}})
            return cast("JazzSelectError", same)
        return ServiceError(url, detail)
    known = ", ".join(each for each in (code, f"request {request}" if request else "") if each)
    said = f"{detail} ({known})" if known else detail
    passing = {HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT}
    if status in passing:
        return ServiceUnavailableError(url, said, retry_after=wait_s)
    return ServiceError(url, said)


def _problem(body: bytes) -> dict[str, Any]:
    """Problem details (RFC 9457) with a `detail` and a `code`; empty where it is something else."""
    try:
        found = orjson.loads(body)
    except ValueError:
        return {}
    known = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    return known if isinstance(known.get("detail"), str) and isinstance(known.get("code"), str) else {}


def one_line_of(value: object) -> str:
    """Foreign text in one line, and not all of it; empty where it is none."""
    return beginning(" ".join(value.split()), _LONGEST) if isinstance(value, str) else ""


def retry_after(value: str) -> float | None:
    """Seconds of a Retry-After header, which may be a date; None where it says nothing that can be obeyed."""
    try:
        wait_s = float(value)
    except ValueError:
        try:
            at = parsedate_to_datetime(value)
        except (ValueError, TypeError, OverflowError):
            return None
        wait_s = ((at if at.tzinfo else at.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds()
    return min(max(wait_s, 0.0), _LONGEST_WAIT_S) if isfinite(wait_s) else None
