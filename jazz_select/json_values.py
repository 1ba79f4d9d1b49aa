"""Values of any type as JSON: copies that can be stored anywhere, bounded in depth and size.

Which function to take:

| For | Copy | Text |
|---|---|---|
| data; raises for what has no JSON form | `as_json` | `as_bytes` |
| any value; a text stands for what has no JSON form | `plain` | `json_bytes`, `json_text`, `indented_json` |
| comparing, digests | | `canonical_bytes` |
| what is kept or shown to a model: also bounded | `storable`, `storable_fields` | `storable_text`, `shorter_text` |

`text.json_line` writes one line for a prompt.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, time
from decimal import Decimal
from enum import Enum
from hashlib import sha256
from hmac import compare_digest
from hmac import digest as hmac
from typing import Any, Final, TypeGuard, cast

import orjson

from jazz_select.errors import ConfigError, JazzSelectError, RemoteError, SnapshotError
from jazz_select.text import as_text, beginning, describe_error, whole_characters

Secret = str | bytes | Sequence[str | bytes]
"""A signing secret, or several: the first signs, and each verifies."""

DEEPEST: Final = 64
"""The most levels of nesting."""
MOST_VALUES: Final = 10_000
MOST_LETTERS: Final = 4_000_000
"""Limits of a tool's output and of a context: the number of values of any kind, and of characters."""
_SIGNATURE: Final = "signature"
_LEAST_SECRET: Final = 16
"""In bytes."""
_LARGEST: Final = 2**63
_ENDLESS: Final = 10**4_300
"""Python converts no integer of more digits to text."""
_OPTIONS: Final = orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS
_MOST_DIGITS: Final = 18
_MOST_BITS: Final = 1_023
"""Integers of so many bits are surely within the range of a float."""
_HALF_ESCAPED: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPES: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
"""An escape in JSON text: of a whole pair, of half a pair alone, or any other."""
_HALF_ENCODED: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
"""A surrogate encoded as if it were a character, which UTF-8 forbids; nothing else in UTF-8 has these bytes."""
_REPLACEMENT: Final = "\ufffd".encode()
_LARGEST_FACT: Final = 100_000
_MOST_FACTS: Final = 100
_LONGEST_MESSAGE: Final = 10_000
"""The most characters of the text of an error that is not ours."""
_FEWER: Final = (10, 5, 3, 2)
"""How many entries of a list to show, tried in turn until the text fits."""
_NO_MARKS: Final = bytes({*range(256)} - {*b',:[{"'})
_LETTERS_A_VALUE: Final = 40
"""The least characters per value, for what is stored between two turns at its maximum length."""
_BUDGET: Final = 150_000
"""The most bytes of JSON stored between two turns: of one fact, and of all together."""


def too_much(value: object, most_letters: int = MOST_LETTERS) -> str:
    """Return what a value has too much of, to follow "it holds"; empty if it is within the limits.

    Count before serialising, because serialising blocks everything else. Objects count as one value; shared values
    count at each place.
    """
    values = letters = 0
    holders: set[int] = set()
    again = 0
    left: list[object] = [value]
    while left:
        each = left.pop()
        values += 1
        if isinstance(each, str | bytes):
            letters += len(each)
        elif isinstance(each, dict | list | tuple | set | frozenset):
            again += id(cast("object", each)) in holders
            holders.add(id(cast("object", each)))
            if isinstance(each, dict):
                mapping = cast("dict[object, object]", each)
                letters += sum(len(key) for key in mapping if isinstance(key, str))
                left += mapping.values()
            else:
                left += cast("list[object]", each)
        if values + len(left) > MOST_VALUES:
            if again > len(holders):
                return "what is no JSON: it holds itself, or one part of it over and over"
            return f"more than {MOST_VALUES} values"
        if letters > most_letters:
            return f"more than {most_letters} characters"
    return ""


def has_more_values(text: bytes | bytearray, most: int) -> bool:
    """Whether JSON text has more than `most` values and names, counted without parsing.

    Each but the first follows a comma, a colon or a bracket. Invalid JSON may give any count.
    """
    if len(text) < most:
        return False
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = text.translate(None, _NO_MARKS)
    if len(marks) < most:
        return False
    return marks.count(b'"') > 2 * most + 1 or sum(map(len, marks.split(b'"')[::2])) >= most


def as_json(value: object) -> Any:
    """Return a copy as plain JSON values. Understands dataclasses, pydantic models, decimals, dates and the like.

    Integers may be of any size. A lone surrogate, which JSON cannot hold, becomes U+FFFD.

    Raises:
        TypeError: The value has no JSON form.
    """
    try:
        return orjson.loads(orjson.dumps(value, default=_foreign, option=orjson.OPT_NON_STR_KEYS))
    except TypeError as error:
        if "surrogates" not in str(error) and "64-bit" not in str(error):
            raise
        text = json.dumps(value, default=_foreign_of_any, ensure_ascii=False)
        return json.loads(whole_characters(text), parse_constant=lambda _: None)


def with_whole_characters(text: bytes) -> bytes:
    """Return JSON text with U+FFFD for each lone surrogate in it, escaped or not; the length stays the same.

    Browsers and Node write half of an emoji as an escape of one UTF-16 unit, which RFC 8259 allows and parsers refuse.
    """
    if _HALF_ESCAPED.search(text):
        text = _ESCAPES.sub(_whole_escape, text)
    if b"\xed" in text:  # seldom, and looked for far faster than by the pattern
        text = _HALF_ENCODED.sub(_REPLACEMENT, text)
    return text


def _whole_escape(found: re.Match[bytes]) -> bytes:
    return rb"\ufffd" if found["half"] else found[0]


def json_object(text: str | bytes) -> dict[str, Any] | None:
    """Read a JSON object; None if the text is anything else."""
    try:
        found = orjson.loads(with_whole_characters(text) if isinstance(text, bytes) else text)
    except orjson.JSONDecodeError:
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def plain(value: object) -> Any:
    """Return a copy as plain JSON values, with the text of what has no JSON form; the same in each process.

    A number that is not finite becomes None, a lone surrogate U+FFFD, and an integer of more than 64 bits a
    text.
    """
    return orjson.loads(json_bytes(value))


def as_bytes(value: object) -> bytes:
    """Return the JSON text of `as_json`.

    Raises:
        TypeError: The value has no JSON form.
    """
    try:
        return orjson.dumps(value, default=_foreign, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:
        return json.dumps(as_json(value)).encode()


def json_bytes(value: object) -> bytes:
    """Return the JSON text of `plain`, in one step."""
    return _text_of_any(value)


def json_text(value: object) -> str:
    """Return the JSON text of `plain` as a string."""
    return json_bytes(value).decode()


def indented_json(value: object) -> str:
    """Return the JSON text of `plain` for people to read, indented by two blanks."""
    return _text_of_any(value, orjson.OPT_INDENT_2).decode()


def _text_of_any(value: object, option: int = 0) -> bytes:
    try:
        return orjson.dumps(value, default=_substitute, option=_OPTIONS | option)
    except Exception:  # noqa: BLE001 - any error of a value; convert it piece by piece
        return orjson.dumps(storable(value), option=option)


def canonical_bytes(value: object) -> bytes:
    """Return JSON text with sorted keys: equal for equal values, and for no others."""
    try:
        text = orjson.dumps(value, default=exactly, option=_OPTIONS | orjson.OPT_SORT_KEYS)
        if b"null" not in text:
            return text
    except Exception:  # noqa: BLE001, S110 - any error of a value: large numbers, lone surrogates
        pass
    try:  # distinguishes a number that is not finite from None
        return json.dumps(value, default=exactly, sort_keys=True).encode()
    except Exception:  # noqa: BLE001 - nested too deep, or names of several kinds
        return sha256(as_text(value).encode()).hexdigest().encode()


def exactly(value: object) -> object:
    """Replace a value that has no JSON form by one with all its data, including fields its text hides."""
    if isinstance(value, Decimal):
        number = _number(value)
        if number is not None and Decimal(str(number)) == value:
            return number
        return str(value)
    if hasattr(value, "model_dump") and not isinstance(value, type):
        return {**vars(value), **cast("dict[str, Any]", getattr(value, "model_extra", None) or {})}
    return cast("object", value.value) if isinstance(value, Enum) else _substitute(value)


def has_fields(value: object) -> bool:
    """Whether a value is data with named fields, which `plain` reads: a dataclass or a model, and no type."""
    return not isinstance(value, type) and (is_dataclass(value) or hasattr(value, "model_dump"))


def json_or_same(value: object) -> object:
    """Return the value as JSON, or itself if it has no JSON form."""
    try:
        return as_json(value)
    except Exception:  # noqa: BLE001 - any error of a value
        return value


def is_json(value: object) -> bool:
    """Whether a value is pure JSON: nothing that JSON only describes, or that parsers read differently.

    An integer beyond the range of a float is not: some parsers read it as infinite.
    """
    left, seen = [value], set[int]()
    while left:
        each = left.pop()
        if type(each) not in {dict, list}:
            if not _is_leaf(each):
                return False
        elif id(each) not in seen:  # a value may contain itself
            seen.add(id(each))
            left.extend(cast("Iterable[object]", each))
            if isinstance(each, dict):
                values = cast("dict[object, object]", each)
                left.extend(values.values())
                if not all(isinstance(key, str) for key in values):
                    return False
    return True


def _is_leaf(value: object) -> bool:
    kind = type(value)
    if kind is str:
        return whole_characters(cast("str", value)) == value
    if kind is int:
        return cast("int", value).bit_length() <= _MOST_BITS
    return value is None or kind in {float, bool}


def signed(text: str, secret: Secret | None, kind: str) -> str:
    """Return a JSON object with its signature in it: HMAC-SHA-256 (RFC 2104) of its kind and canonical form.

    The signature survives stores that change blanks or the order of keys. Without a secret, return the text.

    Raises:
        ConfigError: The secret is too short, or not one.
        SnapshotError: The text is not a JSON object.
    """
    if secret is None:
        return text
    from pydantic_core import to_json

    first, *_ = _keys(secret)
    fields = _parse_object(text)
    return to_json({**fields, _SIGNATURE: _mac(fields, first, kind)}).decode()


def unsigned(text: str | bytes, secret: Secret | None, kind: str, *, longest: int) -> str | bytes:
    """Verify a JSON object's signature and return it without it. Without a secret, return the text unchecked.

    Raises:
        ConfigError: The secret is empty, or not one.
        SnapshotError: It is too long, not a JSON object, or not signed for this kind with this secret.
    """
    given = cast("object", text)  # callers without a type checker
    if not isinstance(given, str | bytes | bytearray):
        raise SnapshotError(f"the text: it is {type(given).__name__}, and no text")
    if len(text) > longest:
        raise SnapshotError(f"it is longer than {longest} characters, which no {kind} is")
    content = text.encode(errors="replace") if isinstance(text, str) else text
    values = longest // _LETTERS_A_VALUE
    if has_more_values(content, values):
        raise SnapshotError(f"it holds more than {values} values, which no {kind} does")
    if secret is None and _SIGNATURE.encode() not in content:
        return text
    from pydantic_core import to_json

    keys = _keys(secret) if secret is not None else []
    fields = _parse_object(text)
    found = str(fields.pop(_SIGNATURE, "")).encode(errors="replace")
    # Compare all, in constant time each: the timing must reveal neither which secret matched nor how near one came.
    right = [compare_digest(found, _mac(fields, key, kind).encode()) for key in keys]
    if secret is not None and not any(right):
        problem = "it is not signed with this secret, or was changed since: do not go on with it"
        raise SnapshotError(problem, missing=(_SIGNATURE,))
    return to_json(fields)


def _parse_object(text: str | bytes) -> dict[str, Any]:
    """Parse a JSON object, keeping numbers of any size."""
    from pydantic_core import from_json

    try:
        value: Any = from_json(text, allow_inf_nan=False)
    except (ValueError, TypeError) as error:  # TypeError: lone surrogates
        raise SnapshotError(f"the text: it is no JSON: {describe_error(error)}") from error
    if not is_object(value):
        raise SnapshotError("the text: it is no JSON object")
    return dict(value)


def _keys(secret: Secret) -> list[bytes]:
    """Return the secrets as bytes, the signing one first."""
    keys: list[bytes] = []
    for each in cast("list[object]", [*secret] if isinstance(secret, list | tuple) else [secret]):
        if isinstance(each, str):
            keys.append(each.encode(errors="surrogatepass"))
        elif isinstance(each, bytes):
            keys.append(each)
        else:
            kind = type(each).__name__
            raise ConfigError(f"secret must be a text, bytes, or a list of these, the newest first, got {kind}")
    if not keys or min(map(len, keys)) < _LEAST_SECRET:
        problem = f"secret must have at least {_LEAST_SECRET} bytes, got fewer, which can be guessed"
        raise ConfigError(f"{problem}; take random ones, such as secrets.token_bytes(32)")
    return keys


def _mac(fields: dict[str, Any], key: bytes, kind: str) -> str:
    try:
        # Write out numbers of any size: a change to a rounded or cut number would go unnoticed.
        canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise SnapshotError(f"the text: it is no JSON that can be signed: {describe_error(error)}") from error
    return hmac(key, f"jazz_select {kind}\n{canonical}".encode(), "sha256").hex()


def is_object(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Tell whether a value of JSON is an object. Its keys are taken to be texts, as JSON knows no others."""
    return isinstance(value, (dict, Mapping))  # a `dict` is found without asking the slower abstract class


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Tell whether a value of JSON is an array."""
    return isinstance(value, list)


def storable(value: object, within: tuple[int, ...] = ()) -> Any:
    """Return JSON that any store can hold: Unicode text, finite numbers of 64 bits.

    Values nested too deep, or in themselves, become a text that says so.
    """
    if isinstance(value, Enum):
        value = cast("object", value.value)
    if value is None or isinstance(value, str | int | float):
        return _storable_leaf(value)
    if id(value) in within or len(within) >= DEEPEST:
        return f"[… nested deeper than {DEEPEST} levels …]"
    inner = (*within, id(value))
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {as_text(key): storable(each, inner) for key, each in items}
    if isinstance(value, list | tuple):
        return [storable(each, inner) for each in cast("list[object]", value)]
    return storable(_substitute(value), inner)


def _storable_leaf(value: str | float | None) -> str | float | None:
    if isinstance(value, str):
        return as_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or -_LARGEST <= value < _LARGEST:
        return value
    return str(value) if abs(value) < _ENDLESS else "a number beyond all bounds"


def storable_fields(facts: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the storable facts, each within its limits, and the names of the others: too large, too many, no JSON."""
    kept: dict[str, Any] = {}
    left = _BUDGET
    for name, value in list(facts.items())[-_MOST_FACTS:]:
        try:
            stored = storable(as_json(value))
            size = len(orjson.dumps(stored))
        except (TypeError, ValueError, RecursionError):
            continue
        if size <= min(_LARGEST_FACT, left):
            kept[name] = stored
            left -= size
    return kept, tuple(name for name in facts if name not in kept)


def storable_text(value: object) -> str:
    """Return the JSON text of a value, or a text that says what it is."""
    try:
        return orjson.dumps(storable(as_json(value))).decode()
    except (TypeError, ValueError, RecursionError):
        return f"[a {type(value).__name__} that is no JSON]"


def shorter_text(value: object, limit: int) -> str:
    """Return a value as text within a limit, with long lists and texts shortened."""
    text = storable_text(value)
    if len(text) <= limit:
        return text
    shortened = shortened_json(value, limit)
    return beginning(text, limit) if shortened is None else shortened


def shortened_json(value: object, limit: int) -> str | None:
    """Return a value as JSON text within a limit, with lists and texts shortened; None if that does not suffice."""
    for most in _FEWER:
        text = storable_text(_keep_fewer(storable(value), most))
        if len(text) <= limit:
            return text
    return None


def json_container(text: str) -> dict[str, Any] | list[Any] | None:
    """Read a JSON object or list; None if the text is anything else."""
    if text.lstrip()[:1] not in {"{", "["}:
        return None
    try:
        found: object = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return cast("dict[str, Any] | list[Any]", found) if isinstance(found, dict | list) else None


def unquoted_json(value: object) -> Any:
    """Return the object or list that a text holds as JSON; anything else as it is."""
    if not isinstance(value, str):
        return value
    found = json_container(value)
    return value if found is None else found


def with_texts(value: object, change: Callable[[str], str], *, deepest: int = 40, depth: int = 0) -> object:
    """Return a JSON value with every text in it changed, names among them; None for what lies deeper than that."""
    if isinstance(value, str):
        return change(value)
    if not isinstance(value, list | Mapping):
        return value
    if depth > deepest:
        return None
    if isinstance(value, list):
        listed = cast("list[object]", value)
        return [with_texts(each, change, deepest=deepest, depth=depth + 1) for each in listed]
    known = cast("Mapping[str, object]", value)
    return {change(name): with_texts(each, change, deepest=deepest, depth=depth + 1) for name, each in known.items()}


def _keep_fewer(value: Any, most: int) -> Any:
    """Keep the first `most` entries of each list, and thirty characters of each text for each."""
    if isinstance(value, list):
        entries = cast("list[Any]", value)
        kept = [_keep_fewer(each, most) for each in entries[:most]]
        if len(entries) > most:
            kept.append(f"… {len(entries) - most} more")
        return kept
    if is_object(value):
        return {name: _keep_fewer(each, most) for name, each in value.items()}
    if isinstance(value, str):
        return beginning(value, 30 * most)
    return value


def _foreign(value: object) -> object:
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    if isinstance(value, Decimal):
        return _number(value)
    raise TypeError(type(value).__name__)


def _foreign_of_any(value: object) -> object:
    """Likewise, if orjson cannot write its contents."""
    if isinstance(value, Enum):
        return cast("object", value.value)
    if is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in fields(value) if each.name[:1] != "_"}
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump()
    return orjson.loads(orjson.dumps(value, default=_foreign))


def _substitute(value: object) -> object:
    """Replace a value without a JSON form, equally in every process: no memory address, sets in order."""
    try:
        if isinstance(value, BaseException):
            return error_data(value)
        if isinstance(value, date | time):
            return value.isoformat()
        if isinstance(value, set | frozenset):
            return sorted(cast("set[object]", value), key=as_text)
        if is_dataclass(value):
            return {each.name: getattr(value, each.name) for each in fields(value)}
        return _foreign(value)
    except Exception:  # noqa: BLE001 - any error of an object's own JSON
        kind = type(cast("object", value))
        # Such a text contains a memory address, which differs in each process.
        is_bare = kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__
        return f"[a {kind.__name__}]" if is_bare else as_text(cast("object", value))


def _number(value: Decimal) -> float | None:
    """Return an integer of at most 64 bits as an int, else the nearest float; None if not a number."""
    if not value.is_finite():
        return None
    if value.adjusted() < _MOST_DIGITS and value == value.to_integral_value():
        return int(value)
    return float(value)


def error_data(error: BaseException) -> dict[str, Any]:
    """Return an error's class and text, and the fields of our own errors; without cause or chain of calls."""
    if isinstance(error, RemoteError):
        return {"code": error.code, "message": error.text, "details": {}}
    known: dict[str, Any] = {}
    if isinstance(error, JazzSelectError):
        known, message = vars(error), as_text(error)
    else:  # of others neither the length of the text nor what the fields hold is known
        message = beginning(as_text(error, _LONGEST_MESSAGE + 1), _LONGEST_MESSAGE)
    details = {name: value for name, value in known.items() if name[:1] != "_" and name != "chain"}
    return {"code": type(error).__name__, "message": message, "details": plain(details)}
