"""The schema of an answer: checked, shown to models, and matched against replies."""

import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from jazz_select.chat.json_reader import BROKEN, ends_as_json, find_embedded, parse_whole, repair_value, too_large
from jazz_select.errors import ConfigError
from jazz_select.json_values import is_object, too_much
from jazz_select.routing.schemas.validity import MOST_PROBLEMS, Checker, at_path
from jazz_select.text import LONGEST_PROBLEM, beginning, json_line, problem_of
from jazz_select.threads import in_daemon_thread

if TYPE_CHECKING:
    from pydantic import BaseModel

SchemaLike = Mapping[str, Any] | type[Any]
"""A JSON Schema as a mapping, or a pydantic class."""
_LARGE: Final = 2_000
"""Characters from which on a schema is checked in a thread, because that takes too long for an event loop."""
_ONE_AT_A_TIME: Final = Lock()
_MOST_CHECKED: Final = 64
"""Most JSON values of one reply that are checked; the last ones are."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """The value in a reply and its plain JSON, or what is wrong."""

    value: Any = None
    plain: Any = None
    problem: str = ""


class OutputSchema:
    """A JSON Schema or a pydantic class, checked and ready for use."""

    def __init__(self, schema: SchemaLike) -> None:
        """Check the schema."""
        self.model: type[BaseModel] | None = schema if _is_model(schema) else None
        self._checker = Checker(_of_model(self.model) if self.model else _of_mapping(schema))

    @property
    def json(self) -> dict[str, Any]:
        """The JSON Schema."""
        return self._checker.schema

    @property
    def text(self) -> str:
        """The JSON Schema as text for a model."""
        return json_line(self.json)

    @property
    def has_object(self) -> bool:
        """Whether its root is an object, which providers require."""
        return self.json.get("type") == "object"

    def read(self, text: str | None, *, truncated: bool = False) -> Parsed:
        """Return the value in a reply: the reply itself, else the last valid value in it, else a repaired one.

        A reply that was cut off is not repaired, because half of an answer may be valid, too.
        """
        if text is None or not text.strip():
            return Parsed(problem="the reply is empty")
        if large := too_large(text):
            return Parsed(problem=f"the reply {large}")
        whole = parse_whole(text.strip())
        if whole is not BROKEN:
            return self.check(whole)
        first: Parsed | None = None
        # From the end, where a model's answer stands; of invalid ones the first read is reported.
        for value in islice(reversed(find_embedded(text)), _MOST_CHECKED):
            parsed = self.check(value)
            if not parsed.problem:
                return parsed
            first = first or parsed
        if not truncated and ends_as_json(text):
            mended = repair_value(text)
            if mended is not BROKEN:
                return self.check(mended)
        return first or Parsed(problem="the reply was cut off" if truncated else "the reply is no JSON")

    def check(self, plain: Any) -> Parsed:
        """Validate a JSON value."""
        try:
            text = json.dumps(plain, allow_nan=False)
        except (ValueError, TypeError, RecursionError) as error:
            return Parsed(problem=f"it is no JSON: {problem_of(error)}")
        if self.model is None:
            problem = self._checker.problems(plain)
            if problem:
                return Parsed(problem=problem)
            return Parsed(value=plain, plain=plain)
        from pydantic import ValidationError

        try:
            return Parsed(value=self.model.model_validate_json(text), plain=plain)
        except ValidationError as error:
            errors = error.errors(include_url=False, include_context=False, include_input=False)
            problems: list[str] = []
            for each in errors[:MOST_PROBLEMS]:
                problems.append(f"{at_path(each['loc'])}{beginning(each['msg'], LONGEST_PROBLEM)}")
            return Parsed(problem="; ".join(problems))
        except Exception as error:  # noqa: BLE001 - the class's own validators may fail with anything
            return Parsed(problem=problem_of(error))


async def output_schema(schema: SchemaLike) -> OutputSchema:
    """Return `OutputSchema(schema)`; a large schema is checked in a thread so that the event loop is not blocked."""
    if not too_much(schema, _LARGE):
        return OutputSchema(schema)
    return await in_daemon_thread(partial(_in_turn, schema), name="jazz-select-schemas")


def _in_turn(schema: SchemaLike) -> OutputSchema:
    """Check mappings one at a time, because many threads would starve the event loop."""
    # Pydantic classes are not limited.
    if not isinstance(schema, Mapping):
        return OutputSchema(schema)
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
    if not is_object(schema):
        raise ConfigError(f"schema must be a JSON Schema as a mapping or a pydantic class, got {type(schema).__name__}")
    return schema
