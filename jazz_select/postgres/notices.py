"""Notices between replicas, by PostgreSQL's LISTEN and NOTIFY: whoever hears one looks at the tables."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any, Final, LiteralString, cast

from jazz_select.errors import DatabaseError
from jazz_select.postgres.connection import Database

_CHANNEL: Final = "jazz_select"
_LONGEST_SCOPE: Final = 1_000
"""Characters: PostgreSQL takes 8,000 bytes of a notice. A longer name is cut, and all of that beginning look."""
_AGAIN_S: Final = 0.5
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """That something changed.

    Attributes:
        kind: `catalogue`, `replica` or `document`.
        scope: The agent that it is about.
    """

    kind: str
    scope: str


def notify(notice: Notice) -> tuple[LiteralString, tuple[str, str]]:
    """Return the statement that tells all replicas once its transaction is committed, with its values."""
    text = json.dumps({**asdict(notice), "scope": notice.scope[:_LONGEST_SCOPE]})
    return "SELECT pg_notify(%s, %s)", (_CHANNEL, text)


def concerns(notice: Notice, scope: str) -> bool:
    """Whether a notice may be about this scope."""
    return notice.scope == scope[:_LONGEST_SCOPE]


async def listen(database: Database, hear: Callable[[Notice | None], Awaitable[None]]) -> None:
    """Call `hear` with each notice, until cancelled; with None after a time in which some may have been missed."""
    while True:
        try:
            async with database.connected() as connection:
                await connection.execute("LISTEN jazz_select")
                await hear(None)
                async for each in connection.notifies():
                    notice = _parse_notice(each.payload)
                    if notice is not None:
                        await hear(notice)
        except DatabaseError as error:
            _log.debug("error=<%s> | no notices are heard", error)
        await asyncio.sleep(_AGAIN_S)


def _parse_notice(payload: str) -> Notice | None:
    """Return the notice of a text that whoever may use the database can send; None of any other."""
    try:
        given: Any = json.loads(payload)
    except ValueError:
        return None
    if not isinstance(given, dict):
        return None
    fields = cast("dict[str, object]", given)
    return Notice(kind=str(fields.get("kind")), scope=str(fields.get("scope")))
