"""Events of a turn as a name and JSON values, and back.

A `ToolCalled` is named `tool_called` and carries its fields; `Finished` is `finished` and carries its `TurnResult`.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, cast, get_args

from jazz_select.agent.chain.transcript import Event, Finished
from jazz_select.agent.turn_result import TurnResult
from jazz_select.errors import ConfigError
from jazz_select.flow.base import BaseFlow
from jazz_select.json_values import Secret, plain
from jazz_select.travel import unreadable, value_of

_WORD: Final = re.compile(r"(?<!^)(?=[A-Z])")
_KINDS: Final[Mapping[str, type[Event]]] = {_WORD.sub("_", kind.__name__).lower(): kind for kind in get_args(Event)}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}
FINISHED: Final = _NAMES[Finished]
"""Name of a turn's last event."""


def event_name(event: Event) -> str:
    """Return an event's name."""
    return _NAMES[type(event)]


def event_data(event: Event, *, secret: Secret | None = None) -> dict[str, Any]:
    """Return an event as plain JSON values; a result's conversation is signed with the secret."""
    if not isinstance(event, Finished):
        return cast("dict[str, Any]", plain(event))
    if not isinstance(event.answer, TurnResult):
        msg = f"the events of an agent's turn travel, and this is the end of something else: {event.answer!r:.80}"
        raise ConfigError(msg)
    return event.answer.to_dict(secret=secret)


def event_of(
    name: str, data: object, *, registry: Mapping[str, BaseFlow] | None = None, secret: Secret | None = None
) -> Event | None:
    """Return the event of this name and data; None for an event that only a newer version knows."""
    kind = _KINDS.get(name)
    if kind is None:
        return None
    known = value_of(dict[str, Any], data, kind.__name__)
    if kind is Finished:
        return Finished(answer=TurnResult.from_dict(known, registry=registry, secret=secret))
    found: Event = value_of(kind, known)
    if type(found) is not kind:
        raise unreadable(kind.__name__, "it is of another kind")
    return found
