"""What the answers of a turn are read by: the language of the conversation, today, and the time zone."""

from datetime import date, datetime, tzinfo
from itertools import chain
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from jazz_select.agent.reading.expressions.reader import ReadingContext, read_expression
from jazz_select.agent.turn import TurnRequest
from jazz_select.errors import ConfigError
from jazz_select.texts import conversation_language

TODAY: Final = "today"
"""The fact that relative days count from."""
ZONE: Final = "time_zone"
"""The fact that names the zone of a day with a time."""
_IN_ENGLISH: Final = ReadingContext(language="en")


def reading_context(request: TurnRequest) -> ReadingContext:
    """Return what the answers of a turn are read by.

    Today is the day of `now`, else the fact `today`: a date, or a text with its year.
    """
    # The newest first: the language is that of the last message that tells one.
    users = (stored.content for stored in reversed(request.conversation.messages) if stored.role == "user")
    language = conversation_language(chain((request.message,), users))
    if request.now is not None:
        return ReadingContext(language=language, today=request.now.date(), zone=request.now.tzinfo)
    zone = _zone(request.facts.get(ZONE))
    return ReadingContext(language=language, today=_today(request.facts.get(TODAY), zone), zone=zone)


def check_now(now: object) -> None:
    """Refuse a time without a time zone.

    Raises:
        ConfigError: It is none, or has none.
    """
    if now is None or (isinstance(now, datetime) and now.tzinfo is not None):
        return
    example = 'datetime.now(ZoneInfo("Europe/Berlin"))'
    raise ConfigError(f"now must be a time with its time zone, such as {example}, got {now!r:.80}")


def checked_fact(name: str, value: object) -> object:
    """Return a fact, if answers can be read by it: a time zone has to be a known one.

    Raises:
        ConfigError: There is no such zone.
    """
    if name == ZONE and value not in (None, "") and _zone(value) is None:
        example = "'Europe/Berlin'"
        raise ConfigError(
            f"the fact {ZONE!r} must be a time zone of the IANA database, such as {example}, got {value!r:.80}"
        )
    return value


def _zone(given: object) -> tzinfo | None:
    if isinstance(given, tzinfo):
        return given
    if not isinstance(given, str) or not given:
        return None
    try:
        return ZoneInfo(given)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _today(given: object, zone: tzinfo | None) -> date | None:
    if isinstance(given, datetime):
        if zone is not None and given.tzinfo is not None:
            given = given.astimezone(zone)
        return given.date()
    if isinstance(given, date):
        return given
    if not isinstance(given, str):
        return None
    found = read_expression(given, "date", _IN_ENGLISH).value
    return found if isinstance(found, date) else None
