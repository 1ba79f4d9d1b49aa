"""Translate pydantic-ai's errors to ours. Pure; pydantic-ai is imported by then, since it raised the error."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite

from jazz_select.errors import ConfigError, ModelError, ModelTimeoutError

FORM = 'a model string is "provider:model", such as "openai:gpt-5-mini", or as a decider "system-one:clm-latest"'
_TRANSIENT_STATUS = frozenset({408, 409, 425, 429})
_REFUSED_STATUS = frozenset({400, 422})
_ABOUT_THE_SCHEMA = re.compile(
    r"schema|response_format|output_config|output_format|text\.format|structured.output", re.IGNORECASE
)
"""Vendors' words for a refused schema; they have no code for it."""
_TIMEOUT_ERRORS = ("ModelTimeoutError", "ModelRequestTimeout")
_UNREADABLE = (LookupError, TypeError, AttributeError, ValueError)
"""What pydantic-ai's own translation raises for an answer of unexpected shape."""
_LONGEST_PROBLEM = 500
_UNSET = re.compile(r"Set the ((?:`\w+`(?:,? or )?)+) environment variable")


def seconds_to_wait(headers: Mapping[str, str]) -> float | None:
    """Return the seconds in `Retry-After`, a number or a date; None if it is missing or invalid.

    The names of `headers` are in lower case.
    """
    value = headers.get("retry-after", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        return seconds_until(value)
    if isfinite(seconds) and seconds >= 0:  # "nan" and "inf" are floats too
        return seconds
    return None


def seconds_until(date: str) -> float | None:
    """Return the seconds until an HTTP date, 0 if it is over; None if it is none."""
    try:
        then = parsedate_to_datetime(date)
    except (ValueError, TypeError, OverflowError):
        return None
    if then.tzinfo is None:  # one form of HTTP date has no zone; all are UTC
        then = then.replace(tzinfo=UTC)
    return max(0.0, (then - datetime.now(UTC)).total_seconds())


def to_model_error(error: Exception, *, model: str, timeout_s: float | None = None, mended: bool = False) -> ModelError:
    """Translate an error to ours, to be raised `from error`.

    `timeout_s` is the time limit, if known. With `mended`, what the provider refused will not be sent again.
    """
    if timeout_s is not None and _is_a(error, *_TIMEOUT_ERRORS):
        return ModelTimeoutError(model, timeout_s=timeout_s)
    text = " ".join(str(error).split()) or "no message"
    problem = f"{type(error).__name__}: {text}"
    if isinstance(error, _UNREADABLE):
        problem = f"its answer cannot be read ({problem})"
    retryable = mended or any(map(_is_transient, _each_model(error)))
    return ModelError(
        model,
        problem[:_LONGEST_PROBLEM],
        retryable=retryable,
        retry_after=_retry_after(error) if retryable else None,
    )


def to_config_error(error: Exception, *, model: str) -> ConfigError:
    """Return the error of a model that cannot be used at all, with the fix if known; to be raised `from error`."""
    problem = " ".join(str(error).split())
    if unset := _UNSET.match(problem):  # drop the advice to pass arguments, which a model string cannot have
        problem = f"set the environment variable {unset[1].replace('`', '')}"
    elif problem.startswith("Unknown model"):
        problem += f" ({FORM})"
    return ConfigError(f"the model {model!r} cannot be used: {problem}")


def refuses_schema(error: BaseException) -> bool:
    """Whether the provider refuses a schema: servers with its protocol may be older than schemas."""
    return any(is_refused(each) and _ABOUT_THE_SCHEMA.search(str(each)) for each in _each_model(error))


def is_refused(error: BaseException) -> bool:
    """Whether the content of a request was refused, by one of several models if there are several."""
    return any(map(_refuses_content, _each_model(error)))


def _refuses_content(error: BaseException) -> bool:
    from pydantic_ai.exceptions import ModelHTTPError, UserError

    if isinstance(error, ModelHTTPError):
        return error.status_code in _REFUSED_STATUS
    return isinstance(error, UserError) or _is_a(error, "ModelRequestRejectedError")


def _each_model(error: BaseException) -> Iterator[BaseException]:
    from pydantic_ai.exceptions import FallbackExceptionGroup

    if isinstance(error, FallbackExceptionGroup):
        for each in error.exceptions:
            yield from _each_model(each)
    else:
        yield error


def _is_transient(error: BaseException) -> bool:
    from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError

    if _is_a(error, "ModelQuotaExceededError"):  # an exhausted quota is a 429 too
        return False
    if isinstance(error, ModelHTTPError):
        return error.status_code in _TRANSIENT_STATUS or error.status_code >= 500  # noqa: PLR2004  (HTTP's own number)
    if _is_a(error, "ModelRequestRejectedError"):
        return False
    # API errors without a status are about the transport; TransportError is httpx's.
    return isinstance(error, ModelAPIError | OSError | TimeoutError) or _is_a(error, "TransportError")


def _retry_after(error: BaseException) -> float | None:
    """Return the earliest retry time of several failed models."""
    waits: list[float] = []
    for each in _each_model(error):
        if not _is_transient(each):
            continue
        wait = _wait_of(each)
        if wait is None:
            return None  # this one may be tried at any time
        waits.append(wait)
    return min(waits, default=None)


def _wait_of(error: BaseException) -> float | None:
    theirs = getattr(error, "retry_after", None)  # from the body, for some providers
    if isinstance(theirs, float):
        return theirs
    # The first versions of pydantic-ai 2 leave the headers to the vendor's error.
    response = getattr(error.__cause__, "response", None)
    return seconds_to_wait(getattr(error, "headers", None) or getattr(response, "headers", None) or {})


def _is_a(error: BaseException, *names: str) -> bool:
    """Whether one of its classes has such a name; not every pydantic-ai 2 has them all to import."""
    return any(kind.__name__ in names for kind in type(error).__mro__)
