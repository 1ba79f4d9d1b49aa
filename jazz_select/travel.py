"""Values that leave the process: as data that anyone can keep, and out of data that anyone may have written.

A result is told as plain JSON values (`as_data`), and read again with every type checked (`value_of`): what comes back
was in somebody else's hands. Errors travel as their class's name, their text and their own fields.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import orjson

from jazz_select import errors
from jazz_select.errors import ConfigError, JazzSelectError, ToldError
from jazz_select.json_values import DEEPEST, as_json, plain, storable
from jazz_select.text import as_text, beginning, describe_error, wrong_fields

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")
LONGEST_READ: Final = 64_000_000
"""Characters of a JSON text that is read."""
NO_ROOM: Final = "no_room"
"""The code by which a service says that it has too much to do, and has done nothing."""
_MOST_ERRORS: Final = 100
_LONGEST_PROBLEM: Final = 300
_OPTIONS: Final = orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS


def as_data(value: object) -> Any:
    """A value as plain JSON values, a copy, whatever is in it: as text where it is none.

    A number that is not finite becomes None, half of a surrogate pair a question mark, and a whole number of more than
    64 bits a text.
    """
    try:
        return orjson.loads(orjson.dumps(value, default=_told, option=_OPTIONS))
    except Exception:  # noqa: BLE001 - whatever a value trips over: it is taken apart instead
        return _stored(value, ())


def data_text(value: object) -> str:
    """What `as_data` gives, as JSON text, without making it in between."""
    try:
        return orjson.dumps(value, default=_told, option=_OPTIONS).decode()
    except Exception:  # noqa: BLE001 - as there
        return json_text(as_data(value))


def _told(value: object) -> object:
    """What stands for a value that is no JSON."""
    if isinstance(value, BaseException):
        return error_data(value)
    if is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, set | frozenset):
        return sorted(cast("set[object]", value), key=as_text)
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    return as_json(value) if isinstance(value, Decimal) else plain(value)


def _stored(value: object, within: tuple[int, ...]) -> Any:
    """A value as it can be stored anywhere, piece by piece; what stands within itself only says so."""
    if isinstance(value, Enum):
        return _stored(cast("object", value.value), within)
    if value is None or isinstance(value, str | int | float):
        return storable(value)
    if id(value) in within or len(within) >= DEEPEST:
        return f"[… a {type(value).__name__} nested too deep, or in itself …]"
    inner = (*within, id(value))
    if isinstance(value, Mapping):
        mapping = cast("Mapping[object, object]", value)
        return {as_text(key): _stored(each, inner) for key, each in mapping.items()}
    if isinstance(value, list | tuple):
        return [_stored(each, inner) for each in cast("list[object]", value)]
    try:
        told = _told(value)
    except Exception:  # noqa: BLE001 - whatever an object fails with where it is asked for its JSON
        told = as_text(value)
    return _stored(told, inner)


def value_of(kind: type[T], data: object, *, sparse: bool = False) -> T:
    """The value of a dataclass, or of another type that pydantic reads, that `as_data` told. Unknown keys are ignored.

    Args:
        kind: The type.
        data: What was told.
        sparse: Whether None, wherever it stands for a field, means what the field is where nobody says.

    Raises:
        ConfigError: It is none.
    """
    from pydantic import ValidationError

    name = kind.__name__
    try:
        return _adapter(kind).validate_python(_said(data) if sparse else data)
    except ValidationError as error:
        count = error.error_count()
        problem = f"{count} things in it are wrong" if count > _MOST_ERRORS else wrong_fields(error, "the whole")[0]
    except JazzSelectError as error:
        problem = str(error)
    except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
        problem = describe_error(error)
    raise unreadable(name, problem)


def _said(value: object) -> Any:
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {key: _said(each) for key, each in items if each is not None}
    return [_said(each) for each in cast("list[object]", value)] if isinstance(value, list) else value


@lru_cache(64)
def _adapter(kind: type[T]) -> "TypeAdapter[T]":
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def unreadable(what: str, problem: str) -> ConfigError:
    """The error of data that is not what it should be; give `from_dict` what `to_dict` told."""
    return ConfigError(f"this is no {what} that to_dict told: {beginning(problem, _LONGEST_PROBLEM)}")


def _kind(data: object) -> str:
    return type(data).__name__


def object_of(data: object, what: str) -> dict[str, Any]:
    """Data that is an object of JSON.

    Raises:
        ConfigError: It is none.
    """
    known = cast("Mapping[Any, Any] | None", data if isinstance(data, Mapping) else None)
    if known is None or not all(isinstance(key, str) for key in known):
        raise unreadable(what, f"it is {_kind(cast('object', data))}, and no object with names")
    return {**known}


def whole_of(data: object, what: str) -> dict[str, Any]:
    """An object of JSON in which everything is JSON: no halves of surrogate pairs, no number beyond 64 bits.

    Raises:
        ConfigError: It is none.
    """
    known = object_of(data, what)
    try:
        orjson.dumps(known)
    except (TypeError, ValueError, RecursionError) as error:
        raise unreadable(what, f"something in it is no JSON: {describe_error(error)}") from error
    return known


def list_of(data: object, what: str) -> list[Any]:
    """Data that is a list of JSON.

    Raises:
        ConfigError: It is none.
    """
    if not isinstance(data, list | tuple):
        raise unreadable(what, f"it is {_kind(data)}, and no list")
    return [*cast("list[Any]", data)]


def text_of(data: object, what: str) -> str:
    """Data that is a text.

    Raises:
        ConfigError: It is none.
    """
    if not isinstance(data, str):
        raise unreadable(what, f"it is {_kind(data)}, and no text")
    return data


def read_json(text: str | bytes, what: str) -> Any:
    """The data of a JSON text.

    Raises:
        ConfigError: It is too long, or no JSON.
    """
    if not isinstance(cast("object", text), str | bytes | bytearray):
        raise unreadable(what, f"it is {_kind(text)}, and no text")
    if len(text) > LONGEST_READ:
        raise unreadable(what, f"it is longer than {LONGEST_READ} characters")
    try:
        return orjson.loads(text)
    except ValueError as error:
        raise unreadable(what, f"it is no JSON: {error}") from error


def json_text(data: object) -> str:
    """Data, as `as_data` gives it, as JSON text."""
    return orjson.dumps(data).decode()


@dataclass(frozen=True, slots=True)
class Read:
    """Marks a field of a dataclass, in `Annotated`, that is read in a way of its own, or is given as it is."""

    by: Callable[[Any], object] = lambda value: value

    def __get_pydantic_core_schema__(self, *_: object) -> Any:
        """As pydantic asks for it."""
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(self.by)


def error_data(error: BaseException) -> dict[str, Any]:
    """An error as data: its class, its text, and, of one of ours, its fields; not its cause, and no chain of calls."""
    known = vars(error) if isinstance(error, JazzSelectError) else {}
    details = {name: value for name, value in known.items() if name[:1] != "_" and name != "chain"}
    if isinstance(error, ToldError):
        return {"code": error.code, "message": error.said, "details": {}}
    return {"code": type(error).__name__, "message": _text_of(error), "details": as_data(details)}


def _text_of(error: BaseException) -> str:
    try:
        return as_text(str(error))
    except Exception:  # noqa: BLE001 - an error whose text fails is still an error
        return ""


def error_of(data: Any) -> JazzSelectError | None:
    """The error that `error_data` told: of its own class where that is one of ours, else a `ToldError`.

    Raises:
        ConfigError: It is none.
    """
    if data is None:
        return None
    known = object_of(data, "error")
    code, message = text_of(known.get("code"), "error"), text_of(known.get("message"), "error")
    details = object_of(known.get("details") or {}, "error")
    kind = getattr(errors, code, None)
    if not isinstance(kind, type) or not issubclass(kind, JazzSelectError):
        return ToldError(code, message)
    # Not called: an error builds its text from its fields, and this one has it already.
    error = kind.__new__(kind, message)
    own = {name: value for name, value in details.items() if name[:1].isalpha() and not hasattr(kind, name)}
    for name, value in own.items():
        vars(error)[name] = tuple(cast("list[Any]", value)) if isinstance(value, list) else value
    return error
