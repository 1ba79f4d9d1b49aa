"""When a flow is withheld: the few facts about a conversation that the guards ask for.

One rule for all of them: a guard closes a flow only on what is *known*. A context
without the fact leaves the flow open, and its first step finds the fact out. So a
caller may send everything, something or nothing.

The facts, all optional:

- `authenticated` (bool): whether the customer is signed in.
- `region` (str): two-letter country code of the delivery address.
- `now` (datetime, or ISO 8601 text): the time at the support desk.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

RESCHEDULE_REGIONS = frozenset({"AT", "BE", "CA", "DE", "FR", "GB", "NL", "US"})
"""Where our carriers let the recipient choose another day."""

DESK_OPENS, DESK_CLOSES = 8, 20
"""Hours of the support desk, Monday to Saturday."""

_SUNDAY = 6


def is_guest(context: Mapping[str, Any]) -> bool:
    """Known not to be signed in."""
    return context.get("authenticated") is False


def is_signed_in(context: Mapping[str, Any]) -> bool:
    """Known to be signed in."""
    return context.get("authenticated") is True


def is_outside(context: Mapping[str, Any], regions: frozenset[str]) -> bool:
    """Known to live in none of these regions."""
    region = context.get("region")
    return isinstance(region, str) and bool(region.strip()) and region.strip().upper() not in regions


def is_desk_closed(context: Mapping[str, Any]) -> bool:
    """Known that nobody is at the support desk now."""
    now = _moment(context.get("now"))
    return now is not None and (now.weekday() == _SUNDAY or not DESK_OPENS <= now.hour < DESK_CLOSES)


def _moment(value: object) -> datetime | None:
    if isinstance(value, datetime):
        return value
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            return None
    return None
