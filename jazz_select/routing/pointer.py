"""JSON Pointer, RFC 6901: which part of a step's output is meant. Pure; what is missing is data, not an exception."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import unquote

_WELL_FORMED = re.compile(r"(?:/(?:[^~/]|~[01])*)*")
_INDEX = re.compile(r"0|[1-9][0-9]{0,17}")
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Missing:
    """The pointer leads nowhere."""

    problem: str


def malformed(pointer: str) -> str:
    """What is wrong with the spelling of a pointer; empty where nothing is."""
    if _WELL_FORMED.fullmatch(pointer):
        return ""
    return (
        "'~' is written '~0', and '/' inside of a name '~1'" if pointer.startswith("/") else "a pointer begins with '/'"
    )


def look_up(value: Any, pointer: str) -> Any:
    """The part of `value` that a well-formed pointer leads to, or Missing.

    Behind a `#` characters may be percent-encoded; a key that is there as written goes first.
    """
    here, way = value, ""
    for token in pointer.split("/")[1:]:
        found = _child(here, token.replace("~1", "/").replace("~0", "~"))
        if isinstance(found, Missing):
            return Missing(f"{way or 'the output'} {found.problem}")
        here, way = found, f"{way}/{token}"
    return here


def _child(value: Any, key: str) -> Any:
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, Any]", value)
        for spelling in (key, unquote(key)):
            if spelling in fields:
                return fields[spelling]
        return Missing(f"has no {_short(key)}; it has {_listed(fields)}")
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        items = cast("Sequence[Any]", value)
        if not _INDEX.fullmatch(key):
            return Missing(f"is a list, and {_short(key)} is no place in it")
        return items[int(key)] if int(key) < len(items) else Missing(f"has {len(items)} items, so none at {key}")
    return Missing(f"is {'null' if value is None else type(value).__name__}, so there is no {_short(key)} in it")


def _short(key: str) -> str:
    return repr(key if len(key) <= 80 else f"{key[:80]}…")  # noqa: PLR2004 - as long as a line


def _listed(fields: Mapping[str, Any]) -> str:
    names = [_short(str(name)) for name in list(fields)[:_SHOWN]]
    more = f" and {len(fields) - _SHOWN} more" if len(fields) > _SHOWN else ""
    return ", ".join(names) + more if names else "nothing"
