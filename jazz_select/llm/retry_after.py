"""How long a provider asks to wait, as HTTP says it. Pure, but for the clock that a date is counted from."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite


def seconds_to_wait(headers: Mapping[str, str]) -> float | None:
    """The seconds that `Retry-After` names, as a number or as a date; None without it, or where it makes no sense.

    Args:
        headers: Of the response, their names in lower case.
    """
    said = headers.get("retry-after", "").strip()
    try:
        seconds = float(said)
    except ValueError:
        return _seconds_until(said)
    return seconds if isfinite(seconds) and seconds >= 0 else None


def _seconds_until(date: str) -> float | None:
    try:
        then = parsedate_to_datetime(date)
    except (ValueError, TypeError, OverflowError):
        return None
    if then.tzinfo is None:  # one of the three forms of an HTTP date names no zone; all mean UTC
        then = then.replace(tzinfo=UTC)
    return max(0.0, (then - datetime.now(UTC)).total_seconds())
