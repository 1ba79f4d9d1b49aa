"""Say why a tool's type refuses a value, in the language of the conversation."""

from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, Final, get_args

from jazz_select.days import in_full
from jazz_select.errors import ToolArgumentsError
from jazz_select.text import beginning
from jazz_select.texts import ENGLISH, current_language, say

_LONGEST: Final = 200
_OF_VALIDATORS: Final = frozenset({"value_error", "assertion_error"})
"""The kinds of pydantic's errors that an author's validator raises, in its own words."""
_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "must_whole": ("int_parsing", "int_type", "int_from_float", "int_parsing_size"),
    "must_number": ("float_parsing", "float_type", "decimal_parsing", "decimal_type", "finite_number"),
    "must_match": ("string_pattern_mismatch",),
    "must_yes_no": ("bool_parsing", "bool_type"),
    "must_date": ("date_parsing", "date_type", "date_from_datetime_parsing", "date_from_datetime_inexact"),
    "must_time": ("time_parsing", "time_type"),
    "must_moment": ("datetime_parsing", "datetime_type", "datetime_from_date_parsing", "datetime_object_invalid"),
    "must_duration": ("time_delta_parsing", "time_delta_type"),
    "must_future": ("date_future", "datetime_future"),
    "must_past": ("date_past", "datetime_past"),
    "must_url": ("url_parsing", "url_scheme", "url_syntax_violation", "url_too_long", "url_type"),
    "must_uuid": ("uuid_parsing", "uuid_type", "uuid_version"),
    "must_ip": ("ip_v4_address", "ip_v6_address", "ip_any_address"),
}
"""The keys of texts without a limit, with pydantic's kinds of errors."""
_LIMITS: Final[Mapping[str, tuple[str, str]]] = {
    "greater_than": ("must_more", "gt"),
    "greater_than_equal": ("must_at_least", "ge"),
    "less_than": ("must_less", "lt"),
    "less_than_equal": ("must_at_most", "le"),
    "multiple_of": ("must_multiple", "multiple_of"),
    "decimal_max_places": ("must_decimals", "decimal_places"),
    "string_too_short": ("must_longer", "min_length"),
    "string_too_long": ("must_shorter", "max_length"),
}
"""The keys of texts with a limit, and where pydantic says it, by its kinds of errors."""
_KEYS: Final = {kind: key for key, kinds in _KINDS.items() for kind in kinds}


def reason_of(error: ToolArgumentsError) -> str:
    """Return why a value is refused, in words for the user; "" where nothing can be said in the language.

    The words of an author's own validator stay as they are. For pydantic's own kinds of errors there is a text; for a
    rare kind without one, pydantic's English words are said in an English conversation only.
    """
    from pydantic import ValidationError

    cause = error.__cause__
    if not isinstance(cause, ValidationError):
        return ""
    first = cause.errors(include_url=False, include_input=False)[0]
    kind, context = first["type"], first.get("ctx", {})
    if kind in _OF_VALIDATORS:
        return _of_validator(first["msg"], context)
    text = _text_of(kind, context)
    if text or (kind in _kinds_of_pydantic() and current_language() != ENGLISH):
        return text
    message = first["msg"].partition(",")[0]
    return beginning(message.replace("Input should be", "it must be"), _LONGEST)


def _text_of(kind: str, context: Mapping[str, Any]) -> str:
    """Return the text for a kind of pydantic's errors; "" if there is none."""
    if kind in _KEYS:
        return say(_KEYS[kind])
    if kind in _LIMITS:
        key, name = _LIMITS[kind]
        return say(key, limit=_limit(context.get(name)))
    if kind in {"enum", "literal_error"}:
        return say("must_one_of", values=_members(str(context.get("expected", ""))))
    return ""


def _of_validator(message: str, context: Mapping[str, Any]) -> str:
    own = context.get("error")
    if own is not None:
        return beginning(str(own), _LONGEST)
    # The validator of an email address says why in English.
    return say("must_email") if "email address" in message else ""


def _limit(value: object) -> str:
    known = value.value if isinstance(value, Enum) else value
    if isinstance(known, float) and known.is_integer():
        known = int(known)
    return beginning(in_full(known, current_language()), _LONGEST)


def _members(expected: str) -> str:
    """Return the members as pydantic lists them, "'a', 'b' or 'c'", without quotes and in the language."""
    others, _, last = expected.rpartition(" or ")
    members = f"{others} {say('or')} {last}" if others else last
    return beginning(members.replace("'", ""), _LONGEST)


@cache
def _kinds_of_pydantic() -> frozenset[str]:
    from pydantic_core import core_schema

    return frozenset(get_args(core_schema.ErrorType))
