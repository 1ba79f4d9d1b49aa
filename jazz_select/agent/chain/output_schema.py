"""The schema that an answer is to have: checked first, described, and held against what a model says. Pure, bounded."""

import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeGuard, cast

from jazz_select.chat.json_reader import BROKEN, decoded, embedded, ends_as_json, repaired, too_large
from jazz_select.errors import ConfigError
from jazz_select.json_values import too_much
from jazz_select.routing.schemas.validity import MOST_PROBLEMS, Checker, at_path
from jazz_select.text import LONGEST_PROBLEM, beginning, json_line, problem_of
from jazz_select.threads import in_daemon_thread

if TYPE_CHECKING:
    from pydantic import BaseModel

SchemaLike = Mapping[str, Any] | type[Any]
"""A JSON Schema as a mapping, or a pydantic class."""
_LARGE: Final = 2_000
"""Characters of a schema from which on it takes longer to see that it is one than a loop should wait."""
_ONE_AT_A_TIME: Final = Lock()
_MOST_CHECKED: Final = 64
"""How many of the values that stand in a reply are held against a schema; the last ones are."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """What was made of a reply: the value and its plain JSON, or what is wrong."""

    value: Any = None
    plain: Any = None
    problem: str = ""


class OutputSchema:
    """A JSON Schema or a pydantic class, ready to be sent, shown and held against replies."""

    def __init__(self, schema: SchemaLike) -> None:
        """Take either."""
        self.model: type[BaseModel] | None = schema if _is_model(schema) else None
        self._checker = Checker(_of_model(self.model) if self.model else _of_mapping(schema))

    @property
    def json(self) -> dict[str, Any]:
        """The JSON Schema."""
        return self._checker.schema

    @property
    def text(self) -> str:
        """The JSON Schema, as a model is shown it."""
        return json_line(self.json)

    @property
    def has_object(self) -> bool:
        """Whether its root is an object, as providers want it."""
        return self.json.get("type") == "object"

    def read(self, text: str | None, *, truncated: bool = False) -> Parsed:
        """The value in a reply: the reply itself, else the last value in it that is valid, else what a repair makes.

        A reply that was cut off is not repaired: half of an answer may be valid, too.
        """
        if text is None or not text.strip():
            return Parsed(problem="the reply is empty")
        if large := too_large(text):
            return Parsed(problem=f"the reply {large}")
        whole = decoded(text.strip())
        if whole is not BROKEN:
            return self.check(whole)
        first: Parsed | None = None
        for each in islice(reversed(embedded(text)), _MOST_CHECKED):
            read = self.check(each)
            if not read.problem:
                return read
            first = first or read
        if not truncated and ends_as_json(text) and (mended := repaired(text)) is not BROKEN:
            return self.check(mended)
        return first or Parsed(problem="the reply was cut off" if truncated else "the reply is no JSON")

    def check(self, plain: Any) -> Parsed:
        """Hold JSON values against it."""
        try:
            text = json.dumps(plain, allow_nan=False)
        except (ValueError, TypeError, RecursionError) as error:
            return Parsed(problem=f"it is no JSON: {problem_of(error)}")
        if self.model is None:
            problem = self._checker.problems(plain)
            return Parsed(problem=problem) if problem else Parsed(value=plain, plain=plain)
        from pydantic import ValidationError

        try:
            return Parsed(value=self.model.model_validate_json(text), plain=plain)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[:MOST_PROBLEMS]
            return Parsed(
                problem="; ".join(f"{at_path(each['loc'])}{beginning(each['msg'], LONGEST_PROBLEM)}" for each in first)
            )
        except Exception as error:  # noqa: BLE001 - a validator of the class's own may fail with anything
            return Parsed(problem=problem_of(error))


async def output_schema(schema: SchemaLike) -> OutputSchema:
    """`OutputSchema(schema)`, in a thread where it is so large that a loop would have to wait for it."""
    if not too_much(schema, _LARGE):
        return OutputSchema(schema)
    return await in_daemon_thread(partial(_in_turn, schema), name="jazz-select-schemas")


def _in_turn(schema: SchemaLike) -> OutputSchema:
    """One mapping after the other: many at once would leave a loop little of the time that they share with it."""
    if not isinstance(schema, Mapping):
        return OutputSchema(schema)  # an author's class may take as long as it likes, and is nobody else's concern
    with _ONE_AT_A_TIME:
        return OutputSchema(schema)


def _is_model(schema: object) -> "TypeGuard[type[BaseModel]]":
    if not inspect.isclass(schema):
        return False
    from pydantic import BaseModel

    return issubclass(schema, BaseModel)


def _of_model(model: "type[BaseModel]") -> Mapping[str, Any]:
    try:
        return model.model_json_schema()
    except Exception as error:
        raise ConfigError(f"{model.__name__} has no JSON Schema: {problem_of(error)}") from error


def _of_mapping(schema: object) -> Mapping[str, Any]:
    if not isinstance(schema, Mapping):
        raise ConfigError(f"schema is a JSON Schema as a mapping or a pydantic class, not {type(schema).__name__}")
    return cast("Mapping[str, Any]", schema)
