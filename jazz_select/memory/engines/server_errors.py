"""What a Qdrant server's refusals mean: whether to try again, in its own words, and what to do about them."""

import json
from collections.abc import Collection
from typing import Any, cast

import grpc
import grpc.aio
import httpx
from pydantic import ValidationError
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from jazz_select.memory.engines.server_address import hide_credentials
from jazz_select.text import as_text, beginning, describe_error, in_one_line

_NOT_FOUND = 404
_TOO_LARGE = 413
_TOO_MANY = 429
_SERVER_FAULT = 500
_NO_ROOM = 507
_PASSING = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "ABORTED", "INTERNAL", "UNKNOWN"})
"""gRPC codes of errors worth a retry."""
_STATUS_OF = {
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "INVALID_ARGUMENT": 400,
    "NOT_FOUND": _NOT_FOUND,
    "RESOURCE_EXHAUSTED": _TOO_MANY,
    "INTERNAL": _SERVER_FAULT,
    "UNKNOWN": _SERVER_FAULT,
}
"""What REST would answer instead of a code of gRPC."""
_LONGEST_ANSWER, _LONGEST_WORDS = 65_536, 300
_FULL = (
    "no space left",
    "not enough space",
    "enough disk space",
    "out of disk",
    "disk full",
    "os error 28",
    "quota exceeded",
)
_SHAPE = ("dimension", "vector name", "vector params", "vector with name", "existing vector")
AWAY = "Is it running, and are url and api_key right?"
_NO_QDRANT = "Is it running, and is url that of a Qdrant server, with its port and path?"
_ADVICE = {
    400: "It refuses the request as it is; its own words say why.",
    401: "Is api_key (JAZZ_API_KEY) the right one?",
    403: "api_key (JAZZ_API_KEY) does not allow this: recall needs a key that may read, a sync one that may write.",
    _NOT_FOUND: _NO_QDRANT,
    _TOO_LARGE: (
        "Let the server take more (service.max_request_size_mb) or the proxy before it, or shorten this flow."
    ),
    _TOO_MANY: "It is busy, or limits what a caller may ask: try again later, or raise its limits.",
    _NO_ROOM: "Its disk is full: make room there, and run the sync again.",
}
_OTHER_SHAPE = (
    "The collection was made for other vectors than these: delete it, or name the embedder that it was made with, and "
    "run sync_registry (jazz-select sync)."
)
_CERTIFICATE = "Where its certificate is of your own authority, SSL_CERT_FILE names the file with that authority's."
_NO_TLS = "It does not speak TLS there: begin the url with http://, or give the server a certificate."


def is_gone(error: BaseException | None) -> bool:
    """Whether the collection does not exist."""
    if isinstance(error, grpc.aio.AioRpcError):
        return error.code() is grpc.StatusCode.NOT_FOUND
    if isinstance(error, UnexpectedResponse):
        return error.status_code == _NOT_FOUND
    return isinstance(error, ValueError) and "not found" in str(error)  # the client's engine in this process


def is_too_large(error: BaseException | None) -> bool:
    """Whether the request is larger than what the server, or a proxy before it, takes."""
    return isinstance(error, UnexpectedResponse) and error.status_code == _TOO_LARGE


def is_passing(error: BaseException) -> bool:
    """Whether the same request may succeed in a moment."""
    if isinstance(error, grpc.aio.AioRpcError):
        return error.code().name in _PASSING
    if isinstance(error, UnexpectedResponse):
        status = error.status_code
        return status is None or status == _TOO_MANY or (status >= _SERVER_FAULT and status != _NO_ROOM)
    return isinstance(error, ResponseHandlingException | ResourceExhaustedResponse | httpx.TransportError)


def is_of_grpc_alone(error: BaseException | None) -> bool:
    """Whether gRPC failed in a way in which REST need not fail too."""
    if isinstance(error, grpc.aio.AioRpcError):
        return error.code().name in _PASSING or error.code() is grpc.StatusCode.UNIMPLEMENTED
    return error is not None


def describe_refusal(error: Exception, *, secrets: Collection[str] = ()) -> tuple[str, str]:
    """Return what went wrong, with the server's own words, and what to do about it; neither holds a secret."""
    if isinstance(error, UnexpectedResponse):
        words = _words_of(error.content, secrets)
        problem = f"it answered {error.status_code} {error.reason_phrase}".rstrip() + (f": {words}" if words else "")
        advice = _advice(error.status_code or 0, words)
    elif isinstance(error, grpc.aio.AioRpcError):
        words = _words(error.details() or "", secrets)
        problem = f"it answered {error.code().name} over gRPC: {words}"
        advice = _advice(_STATUS_OF.get(error.code().name, 0), words)
    else:
        source = error.source if isinstance(error, ResponseHandlingException) else error
        problem, advice = _of_connection(source)
    return hide_credentials(_without_secrets(problem, secrets)), advice


def _of_connection(error: Exception) -> tuple[str, str]:
    if isinstance(error, ValidationError | ValueError) and not isinstance(error, httpx.TransportError):
        kind = "what is no JSON" if not isinstance(error, ValidationError) else "what Qdrant does not answer"
        return f"it answered {kind}", _NO_QDRANT
    problem = describe_error(error)
    if "CERTIFICATE_VERIFY_FAILED" in problem:
        return problem, _CERTIFICATE
    if "WRONG_VERSION_NUMBER" in problem or "RECORD_LAYER_FAILURE" in problem:
        return problem, _NO_TLS
    return problem, AWAY


def _advice(status: int, words: str) -> str:
    folded = words.casefold()
    if any(sign in folded for sign in _FULL):
        return _ADVICE[_NO_ROOM]
    if _SERVER_FAULT > status >= 400 and any(sign in folded for sign in _SHAPE):  # noqa: PLR2004 - refusals
        return _OTHER_SHAPE
    if status in _ADVICE:
        return _ADVICE[status]
    return f"{_NO_QDRANT} Its log may say more." if status >= _SERVER_FAULT else AWAY


def _words_of(content: bytes, secrets: Collection[str]) -> str:
    """Return what an answer says in words: Qdrant's error, what a proxy says, or the text of a page."""
    text = content[:_LONGEST_ANSWER].decode(errors="replace")
    try:
        answer: object = json.loads(text)
    except (ValueError, RecursionError):
        return _words(text, secrets)
    for name in ("status", "error", "message", "detail"):
        if isinstance(answer, dict) and name in answer:
            answer = cast("dict[str, Any]", answer)[name]
    return _words(answer, secrets) if isinstance(answer, str) else ""


def _words(text: str, secrets: Collection[str]) -> str:
    # Secrets go first: of one that stands where the text is cut, the beginning would stay.
    whole = _without_secrets(as_text(text), secrets)
    return beginning(in_one_line(" ".join(whole.split())), _LONGEST_WORDS)


def _without_secrets(text: str, secrets: Collection[str]) -> str:
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "…")
    return text
