"""What can be kept between turns: JSON values, storable anywhere, and no books. Pure."""

from collections.abc import Mapping
from typing import Any, Final

import orjson

from jazz_select.agent.transcript import storable
from jazz_select.routing.call import as_json

_LARGEST: Final = 20_000
_MOST: Final = 100
_BUDGET: Final = 60_000


def storable_fields(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Those of these that can be kept, each on its own: what is too large or no JSON is left out."""
    kept: dict[str, Any] = {}
    left = _BUDGET
    for name, value in list(facts.items())[-_MOST:]:
        try:
            plain = storable(as_json(value))
            size = len(orjson.dumps(plain))
        except (TypeError, ValueError, RecursionError):
            continue
        if size <= min(_LARGEST, left):
            kept[name] = plain
            left -= size
    return kept


def storable_text(value: object) -> str:
    """A value as JSON text; what cannot be put so says what it is."""
    try:
        return orjson.dumps(storable(as_json(value))).decode()
    except (TypeError, ValueError, RecursionError):
        return f"[a {type(value).__name__} that is no JSON]"
