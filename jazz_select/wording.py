"""Values and errors as text and JSON that can be written anywhere. None of it fails, whatever it is given."""

from typing import Any

import orjson

_LONGEST = 120


def described(error: BaseException) -> str:
    """An exception in one line, even where its own text cannot be had."""
    try:
        said = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - an error whose text fails is still an error
        said = ""
    return f"{type(error).__name__}: {said[:500]}".removesuffix(": ")


def plain(value: object) -> Any:
    """A value as JSON values, whatever it is; as text where it is none."""
    try:
        return orjson.loads(orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS))
    except Exception:  # noqa: BLE001 - whatever a value trips over, its own text included
        return written(value)[:1_000]


def short(value: object) -> str:
    """A value as at most 120 characters in one line."""
    text = f"{value:.3g}" if isinstance(value, float) else " ".join(written(value).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def written(value: object) -> str:
    """A value as text in Unicode, without halves of surrogate pairs, whatever it is."""
    try:
        return str(value).encode(errors="replace").decode()
    except Exception:  # noqa: BLE001 - too deep, too large, or its own text fails
        return type(value).__name__
