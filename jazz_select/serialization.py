"""Convert values to portable data, and untrusted data back to values.

Results are plain JSON values; reading them back checks every type (`value_of`). Errors travel as class name, text and
fields.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, cast

import orjson

from jazz_select import errors
from jazz_select.arguments import adapter_of
from jazz_select.errors import ConfigError, JazzSelectError, RemoteError, SnapshotError
from jazz_select.json_values import is_array, plain
from jazz_select.text import beginning, describe_error, wrong_fields

if TYPE_CHECKING:
    from pydantic import ValidationError

T = TypeVar("T")
LONGEST_READ: Final = 64_000_000
"""The most characters of a JSON text."""
NO_ROOM: Final = "no_room"
"""The code by which a service says that it is overloaded and did nothing."""
MAY_NOT_TEACH: Final = "may_not_teach"
"""The code by which a service says that a key is known, and may not correct what was asked with others."""
_MOST_ERRORS: Final = 100
_LONGEST_PROBLEM: Final = 300


def value_of(kind: type[T], data: object, what: str = "", *, sparse: bool = False) -> T:
    """Read a value of a dataclass, or another type that pydantic reads, from `to_dict`. Unknown keys are ignored.

    Args:
        kind: The type.
        data: The data.
        what: Its name in messages; by default that of the type.
        sparse: Whether None for a field means its default.

    Raises:
        ConfigError: The data is not valid.
    """
    from pydantic import ValidationError

    try:
        return adapter_of(kind).validate_python(_plain_value(data) if sparse else data)
    except ValidationError as error:
        count = error.error_count()
        problem = f"{count} things in it are wrong" if count > _MOST_ERRORS else wrong_fields(error, "the whole")[0]
    except JazzSelectError as error:
        problem = str(error)
    except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
        problem = describe_error(error)
    raise unreadable(what or kind.__name__, problem)


def _plain_value(value: object) -> Any:
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {key: _plain_value(each) for key, each in items if each is not None}
    return [_plain_value(each) for each in value] if is_array(value) else value


def unreadable(what: str, problem: str) -> ConfigError:
    """Return the error for invalid data; its advice is to give `from_dict` the output of `to_dict`."""
    return ConfigError(f"this is no {what} that to_dict told: {beginning(problem, _LONGEST_PROBLEM)}")


def whole_of(data: object, what: str) -> dict[str, Any]:
    """Return a JSON object after checking that all in it is JSON: no lone surrogates, no number beyond 64 bits.

    Raises:
        ConfigError: It is not.
    """
    known = value_of(dict[str, Any], data, what)
    try:
        orjson.dumps(known)
    except (TypeError, ValueError, RecursionError) as error:
        raise unreadable(what, f"something in it is no JSON: {describe_error(error)}") from error
    return known


def read_json(text: str | bytes, what: str) -> Any:
    """Parse a JSON text.

    Raises:
        ConfigError: It is too long or invalid.
    """
    if not isinstance(cast("object", text), str | bytes | bytearray):
        raise unreadable(what, f"it is {type(text).__name__}, and no text")
    if len(text) > LONGEST_READ:
        raise unreadable(what, f"it is longer than {LONGEST_READ} characters")
    try:
        return orjson.loads(text)
    except ValueError as error:
        raise unreadable(what, f"it is no JSON: {error}") from error


@dataclass(frozen=True, slots=True)
class _Versioned:
    version: int


def saved_value(kind: type[T], text: str | bytes, version: int) -> T:
    """Read what another process saved as JSON; first its version, as all else may differ in another one.

    Raises:
        SnapshotError: It is of another version, or not valid.
    """
    from pydantic import ValidationError

    try:
        check_version(cast("_Versioned", adapter_of(_Versioned).validate_json(text)).version, version)
        return adapter_of(kind).validate_json(text)
    except ValidationError as error:
        raise not_saved(error) from (error if error.error_count() <= _MOST_ERRORS else None)


def check_version(found: int, version: int) -> None:
    """Raise a SnapshotError unless a saved value is of this version."""
    if found != version:
        raise SnapshotError(f"it is of version {found}, and this is version {version}")


def not_saved(error: "ValidationError") -> SnapshotError:
    """Return the error for a saved value that is not valid, with the names of missing fields."""
    count = error.error_count()
    if count > _MOST_ERRORS:
        return SnapshotError(f"{count} things in it are wrong")
    lacks = [each["loc"] for each in error.errors(include_url=False) if each["type"] == "missing"]
    missing = tuple(".".join(map(str, each)) for each in lacks)
    return SnapshotError(wrong_fields(error, "the text")[0], missing=missing)


class JsonData:
    """Base of dataclasses that convert to plain JSON values, with all keys in the order of the fields."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; None stands for unknown."""
        return cast("dict[str, Any]", plain(self))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read the output of `to_dict`, checking every type.

        Raises:
            ConfigError: The data is not valid.
        """
        return value_of(cls, whole_of(data, cls.__name__), sparse=True)


@dataclass(frozen=True, slots=True)
class Read:
    """In `Annotated`, gives a dataclass field its own reader, or keeps its value as given."""

    by: Callable[[Any], object] = lambda value: value

    def __get_pydantic_core_schema__(self, *_: object) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(self.by)


@dataclass(frozen=True, slots=True)
class _Error:
    code: str
    message: str
    details: dict[str, Any] | None = None


def error_of(data: Any) -> JazzSelectError | None:
    """Rebuild the error of `error_data`: of its own class if that is one of ours, else a `RemoteError`.

    Raises:
        ConfigError: The data is not valid.
    """
    if data is None:
        return None
    stored = value_of(_Error, data, "error")
    kind = getattr(errors, stored.code, None)
    if not isinstance(kind, type) or not issubclass(kind, JazzSelectError):
        return RemoteError(stored.code, stored.message)
    # Skip the constructor: it would build the text from the fields, and the text is given.
    error = kind.__new__(kind, stored.message)
    for name, value in (stored.details or {}).items():
        if name[:1].isalpha() and not hasattr(kind, name):
            vars(error)[name] = tuple(value) if is_array(value) else value
    return error
