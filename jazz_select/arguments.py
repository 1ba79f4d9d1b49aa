"""Check callers' arguments and files against annotations; errors name the place and what to give.

A constraint stands where the argument is declared: `timeout_s: Seconds | None = 20.0`, in a function or dataclass of
options that is `@checked`. Pydantic does the checking; it is loaded at the first check.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, wraps
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, TypeVar, Union, cast, get_args, get_origin

from jazz_select.errors import ConfigError
from jazz_select.text import as_text, beginning, describe_value, in_one_line, unknown_field

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import CoreSchema, ErrorDetails

T = TypeVar("T")
C = TypeVar("C", bound=Callable[..., Any])
_LONGEST_VALUE: Final = 80
_LONGEST_PLACE: Final = 120
_MOST_PROBLEMS: Final = 3
_PLAIN: Final = {str: "a string", bool: "True or False", int: "a whole number", float: "a number", NoneType: "None"}
_VOWELS: Final = "AEIOU"
_QUOTES: Final = "; put quotes around it (unquoted, YAML reads yes, no, on, off, numbers and dates as something else)"
_BRACES: Final = "; if it is one, put quotes around it (unquoted, YAML reads braces and `a: b` as a mapping)"
_DASH: Final = "; put each entry on a line of its own, after a dash"


class Constraint:
    """A requirement beyond the type, in an `Annotated`, with the words for error messages.

    Around a union, `Annotated[Seconds | None, Constraint("seconds, or None for ever")]`, it only provides the words.
    """

    def __init__(self, words: str, **bounds: object) -> None:
        """Take the words, and the bounds as pydantic's `Field` names them, such as `ge` or `min_length`."""
        self.words = words
        self._bounds = bounds

    def __get_pydantic_core_schema__(self, source: object, handler: Callable[[object], "CoreSchema"]) -> "CoreSchema":
        from pydantic import Field

        # `Field` itself cannot stand in an annotation here: that would load pydantic with each module.
        bounds: Any = self._bounds
        return handler(Annotated[source, Field(**bounds)] if bounds else source)


class Methods(Constraint):
    """The methods that a value must have, in an `Annotated`; a class itself does not count as a value."""

    def __init__(self, words: str, *names: str) -> None:
        """Take the words, and the names of the methods: `__call__` for a function."""
        super().__init__(words)
        self._names = names

    def __get_pydantic_core_schema__(self, source: object, handler: Callable[[object], "CoreSchema"]) -> "CoreSchema":
        from pydantic_core.core_schema import no_info_plain_validator_function

        return no_info_plain_validator_function(self._with_methods)

    def _with_methods(self, value: object) -> object:
        if isinstance(value, type) or not all(callable(getattr(value, each, None)) for each in self._names):
            raise ValueError(self.words)
        return value


Count: TypeAlias = Annotated[int, Constraint("a whole number from 0", ge=0)]
Positive: TypeAlias = Annotated[int, Constraint("a whole number from 1", ge=1, lt=1 << 31)]
Probability: TypeAlias = Annotated[float, Constraint("a probability from 0 to 1", ge=0, le=1)]
Seconds: TypeAlias = Annotated[float, Constraint("a number of seconds above 0", gt=0, allow_inf_nan=False)]


def checked(callee: C) -> C:
    """Check a function's arguments, or a dataclass's fields, by their annotations before it runs.

    Checks the kind of value and its `Constraint`; of the contents, only sequences of plain values. Quoted annotations
    and protocols are left to the function.

    Raises:
        ConfigError: At the call: an argument does not fit its annotation.
    """
    if isinstance(callee, type):
        made = cast("Any", callee)
        made.__init__ = checked(made.__init__)
        return made
    parameters = inspect.signature(callee).parameters.values()
    kinds = {each.name: each.annotation for each in parameters if each.annotation is not each.empty}
    names = [each.name for each in parameters if each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD}]
    checks: dict[str, Callable[[object], object]] = {}

    def check(args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
        for name, value in (*zip(names, args, strict=False), *kwargs.items()):
            if name in kinds:
                if name not in checks:
                    checks[name] = _check_of(name, kinds[name])
                checks[name](value)

    if inspect.iscoroutinefunction(callee):

        @wraps(callee)
        async def awaited(*args: object, **kwargs: object) -> object:
            check(args, kwargs)
            return await callee(*args, **kwargs)

        return cast("C", awaited)

    @wraps(callee)
    def called(*args: object, **kwargs: object) -> object:
        check(args, kwargs)
        return callee(*args, **kwargs)

    return cast("C", called)


def check_argument(name: str, value: object, kind: object) -> None:
    """Check that a value is of a kind, such as `Seconds | None`, as far as `checked` does.

    Raises:
        ConfigError: It is not.
    """
    _check_of(name, kind)(value)


@lru_cache(256)
def _check_of(name: str, kind: Any) -> Callable[[object], object]:
    from pydantic import TypeAdapter, ValidationError

    validate = TypeAdapter(_checkable(kind)).validator.validate_python

    def check(value: object) -> None:
        try:
            validate(value, strict=True)
        except ValidationError as error:
            given = error.errors(include_url=False, include_context=False)[0]["input"]
            raise ConfigError(f"{name} must be {_words(kind)}, got {value_shown(given)}") from error

    return check


def takes(function: Callable[..., object], name: str) -> bool:
    """Whether a function takes an argument of this name; False for built-ins, which do not tell."""
    try:
        parameter = inspect.signature(function).parameters.get(name)
    except (TypeError, ValueError):
        return False
    return parameter is not None and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)


def value_shown(value: object) -> str:
    """Return the beginning of any value as one line, for a message."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - any error of an object's own code
        text = as_text(value)
    return in_one_line(beginning(text, _LONGEST_VALUE))


def _checkable(kind: Any) -> Any:
    """Return the part of an annotation that is checked; `Any` if nothing is."""
    from pydantic import InstanceOf

    origin, inner = get_origin(kind), get_args(kind)
    if kind in _PLAIN or origin is Literal or (origin is Sequence and inner[0] in _PLAIN):
        return kind
    if origin is Annotated:
        return Annotated[_checkable(inner[0]), *inner[1:]]
    if origin in {Union, UnionType}:
        several = [_checkable(each) for each in inner]
        return Any if Any in several else Union[tuple(several)]  # noqa: UP007 - they are known only here
    found: Any = origin or kind
    if found is Iterable or (found is Sequence and inner[0] is Any):
        return Any  # left to the reader of the value, who can name what is wrong
    if found is Any or not isinstance(found, type) or getattr(cast("Any", found), "_is_protocol", False):
        return Any
    return cast("Any", InstanceOf[found])


def _words(kind: Any) -> str:
    origin, inner = get_origin(kind), get_args(kind)
    if kind in _PLAIN:
        return _PLAIN[kind]
    if origin is Annotated:
        constraints = [each for each in inner if isinstance(each, Constraint)]
        return constraints[0].words if constraints else _words(inner[0])
    if origin in {Union, UnionType}:
        return ", or ".join(map(_words, inner))
    if origin is Literal:
        *most, last = (f'"{each}"' if isinstance(each, str) else repr(each) for each in inner)
        return f"{', '.join(most)} or {last}" if most else last
    if origin is Sequence and inner[0] is str:
        return "a list of strings"
    name = (origin or kind).__name__
    article = "an" if name[0] in _VOWELS else "a"
    return f"{article} {name}"


def read_as(kind: type[T], data: object, place: str) -> T:
    """Read data of a user's file as a pydantic model or another type that pydantic reads.

    Args:
        kind: The type. Messages about a model with `hide_input_in_errors` show no values, as some are secrets.
        data: The data.
        place: The file, with the entry if it has several.

    Raises:
        ConfigError: It is not valid; the message has the first problems, each with its place and what to write.
    """
    from pydantic import ValidationError

    try:
        return adapter_of(kind).validate_python(data)
    except ValidationError as error:
        config = cast("Mapping[str, object]", getattr(kind, "model_config", {}))
        is_secret = bool(config.get("hide_input_in_errors"))
        found = error.errors(include_url=False, include_input=not is_secret)
        problem = "; ".join(_describe_place(each, kind) for each in found[:_MOST_PROBLEMS])
        if len(found) > _MOST_PROBLEMS:
            problem += f" (and {len(found) - _MOST_PROBLEMS} more)"
        raise ConfigError(f"{place}: {problem}") from (None if is_secret else error)  # the cause shows the values


@lru_cache(64)
def adapter_of(kind: type[T]) -> "TypeAdapter[T]":
    """Return the cached pydantic adapter of a type."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _describe_place(error: "ErrorDetails", kind: type) -> str:
    """Return one problem with its place: field names, and list positions from 1."""
    loc = error["loc"]
    known = tuple(getattr(kind, "model_fields", ())) if len(loc) == 1 else ()
    problem = problem_in(error, known)
    place = ".".join(f"{each + 1}" if isinstance(each, int) else each for each in loc)
    if not place:
        return problem
    return f"{in_one_line(beginning(place, _LONGEST_PLACE))}: {problem}"


def _quoting_hint(value: object) -> str:
    """Return what may have gone wrong with a text that YAML reads as something else."""
    if isinstance(value, dict):
        return _BRACES
    return "" if value is None or isinstance(value, list) else _QUOTES


def problem_in(error: "ErrorDetails", known: Sequence[str] = (), *, of: str = "mapping") -> str:
    """Return pydantic's error about one field in words for the author of a file.

    Args:
        error: Pydantic's error; without an input, the value is not shown.
        known: The valid fields at that place.
        of: What they are the fields of, in words.
    """
    value: object = error.get("input")
    given = f", got {describe_value(value)}" if "input" in error else ""
    match error["type"]:
        case "missing":
            problem = "is missing"
        case "extra_forbidden":
            problem = unknown_field(str(error["loc"][-1]), known, of=of) if known else "there is no such field here"
        case "value_error":
            problem = error["msg"].removeprefix("Value error, ")
        case "string_type":
            problem = f"must be a text{given}{_quoting_hint(value)}"
        case "list_type" | "tuple_type" if value is None and given:
            problem = "must be a list, got nothing; write [] or take the line out"
        case "list_type" | "tuple_type":
            problem = f"must be a list{given}{_DASH}"
        case "dict_type" | "mapping_type" | "model_type" | "model_attributes_type":
            problem = f"must be a mapping of names to values{given}"
        case _:
            problem = f"{error['msg'][:1].lower()}{error['msg'][1:]}{given}"
    return problem
