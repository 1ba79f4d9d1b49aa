"""Values that leave the process: as data that anyone can keep, and out of data that anyone may have written.

A result is told as plain JSON values, and read again with every type checked (`value_of`): what comes back
was in somebody else's hands. Errors travel as their class's name, their text and their own fields.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar, cast

import orjson

from jazz_select import errors
from jazz_select.arguments import adapter_of
from jazz_select.errors import ConfigError, JazzSelectError, ToldError
from jazz_select.json_values import plain
from jazz_select.text import beginning, describe_error, wrong_fields

T = TypeVar("T")
LONGEST_READ: Final = 64_000_000
"""Characters of a JSON text that is read."""
NO_ROOM: Final = "no_room"
"""The code by which a service says that it has too much to do, and has done nothing."""
_MOST_ERRORS: Final = 100
_LONGEST_PROBLEM: Final = 300


def value_of(kind: type[T], data: object, what: str = "", *, sparse: bool = False) -> T:
    """The value of a dataclass, or of another type that pydantic reads, that `to_dict` told. Unknown keys are ignored.

    Args:
        kind: The type.
        data: What was told.
        what: What a message calls it, where that is not its name.
        sparse: Whether None, wherever it stands for a field, means what the field is where nobody says.

    Raises:
        ConfigError: It is none.
    """
    from pydantic import ValidationError

    try:
        return adapter_of(kind).validate_python(_said(data) if sparse else data)
    except ValidationError as error:
        count = error.error_count()
        problem = f"{count} things in it are wrong" if count > _MOST_ERRORS else wrong_fields(error, "the whole")[0]
    except JazzSelectError as error:
        problem = str(error)
    except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
        problem = describe_error(error)
    raise unreadable(what or kind.__name__, problem)


def _said(value: object) -> Any:
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {key: _said(each) for key, each in items if each is not None}
    return [_said(each) for each in cast("list[object]", value)] if isinstance(value, list) else value


def unreadable(what: str, problem: str) -> ConfigError:
    """The error of data that is not what it should be; give `from_dict` what `to_dict` told."""
    return ConfigError(f"this is no {what} that to_dict told: {beginning(problem, _LONGEST_PROBLEM)}")


def whole_of(data: object, what: str) -> dict[str, Any]:
    """An object of JSON in which everything is JSON: no halves of surrogate pairs, no number beyond 64 bits.

    Raises:
        ConfigError: It is none.
    """
    known = value_of(dict[str, Any], data, what)
    try:
        orjson.dumps(known)
    except (TypeError, ValueError, RecursionError) as error:
        raise unreadable(what, f"something in it is no JSON: {describe_error(error)}") from error
    return known


def read_json(text: str | bytes, what: str) -> Any:
    """The data of a JSON text.

    Raises:
        ConfigError: It is too long, or no JSON.
    """
    if not isinstance(cast("object", text), str | bytes | bytearray):
        raise unreadable(what, f"it is {type(text).__name__}, and no text")
    if len(text) > LONGEST_READ:
        raise unreadable(what, f"it is longer than {LONGEST_READ} characters")
    try:
        return orjson.loads(text)
    except ValueError as error:
        raise unreadable(what, f"it is no JSON: {error}") from error


class JsonData:
    """A dataclass that is told as plain JSON values, keys always all of them and in the order of its fields."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values; None stands for what is not known."""
        return cast("dict[str, Any]", plain(self))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """What `to_dict` told, every type checked.

        Raises:
            ConfigError: It is none.
        """
        return value_of(cls, whole_of(data, cls.__name__), sparse=True)


@dataclass(frozen=True, slots=True)
class Read:
    """Marks a field of a dataclass, in `Annotated`, that is read in a way of its own, or is given as it is."""

    by: Callable[[Any], object] = lambda value: value

    def __get_pydantic_core_schema__(self, *_: object) -> Any:
        """As pydantic asks for it."""
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(self.by)


@dataclass(frozen=True, slots=True)
class _Error:
    """An error as `error_data` tells it."""

    code: str
    message: str
    details: dict[str, Any] | None = None


def error_of(data: Any) -> JazzSelectError | None:
    """The error that `error_data` told: of its own class where that is one of ours, else a `ToldError`.

    Raises:
        ConfigError: It is none.
    """
    if data is None:
        return None
    told = value_of(_Error, data, "error")
    kind = getattr(errors, told.code, None)
    if not isinstance(kind, type) or not issubclass(kind, JazzSelectError):
        return ToldError(told.code, told.message)
    # Not called: an error builds its text from its fields, and this one has it already.
    error = kind.__new__(kind, told.message)
    for name, value in (told.details or {}).items():
        if name[:1].isalpha() and not hasattr(kind, name):
            vars(error)[name] = tuple(cast("list[Any]", value)) if isinstance(value, list) else value
    return error
