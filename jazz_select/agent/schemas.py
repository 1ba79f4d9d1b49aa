"""The schema that an answer is to have: checked first, described, and held against what a model says. Pure, bounded."""

import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeGuard, cast

from jazz_select.errors import ConfigError
from jazz_select.routing.call import as_json
from jazz_select.selector.fragments import BROKEN, decoded, embedded, repaired
from jazz_select.telemetry import described

if TYPE_CHECKING:
    from pydantic import BaseModel

SchemaLike = Mapping[str, Any] | type[Any]
"""A JSON Schema as a mapping, or a pydantic class."""
LONGEST: Final = 1_048_576
"""A longer reply is not read."""
_MOST_PROBLEMS: Final = 5
_LONGEST_PROBLEM: Final = 300
_MATCHING: Final = ("pattern", "patternProperties", "unevaluatedProperties")
"""The keywords that match regular expressions, beside `additionalProperties` where there are `patternProperties`."""


class Checker:
    """Holds values against a JSON Schema, and never fetches one that it refers to."""

    def __init__(self, schema: Mapping[str, Any], *, patterns: bool = True) -> None:
        """Take a schema.

        Args:
            schema: A JSON Schema.
            patterns: Whether to check regular expressions. One that somebody else wrote can be made to take hours on
                what a model says, so those of tools are left to the tools.

        Raises:
            ConfigError: It is no JSON Schema, or refers to what is not there.
        """
        from jsonschema import Draft202012Validator
        from jsonschema.validators import validator_for
        from jsonschema_specifications import REGISTRY

        try:
            self.schema: dict[str, Any] = as_json(dict(schema))
            kind: Any = validator_for(self.schema, default=Draft202012Validator)
            kind.check_schema(self.schema)
            # A registry of its own: the default one would fetch what a schema refers to.
            self._validator: Any = (kind if patterns else _without_patterns(kind))(self.schema, registry=REGISTRY)
            self._check_references()
        except Exception as error:
            msg = f"the schema is no JSON Schema that can be used: {_problem(error)}"
            raise ConfigError(msg) from error

    def problems(self, value: object) -> str:
        """What is wrong with a value, in words; empty where nothing is."""
        try:
            errors: list[Any] = list(islice(self._validator.iter_errors(value), _MOST_PROBLEMS))
        except Exception as error:  # noqa: BLE001 - too deep, or a part of the schema that cannot be used
            return f"it could not be checked: {_problem(error)}"
        return "; ".join(f"{_place(error.absolute_path)}{_short(error.message)}" for error in errors)

    def _check_references(self) -> None:
        from jsonschema_specifications import REGISTRY
        from referencing import Resource
        from referencing.jsonschema import DRAFT202012

        stack: list[Any] = [self.schema]
        root: Any = Resource[Any].from_contents(self.schema, default_specification=DRAFT202012)
        resolver: Any = REGISTRY.resolver_with_root(root)
        while stack:
            value = stack.pop()
            if isinstance(value, Mapping):
                fields = cast("Mapping[str, Any]", value)
                reference = fields.get("$ref")
                if isinstance(reference, str) and reference.startswith("#"):
                    resolver.lookup(reference)
                stack.extend(fields.values())
            elif isinstance(value, list):
                stack.extend(cast("list[Any]", value))


@dataclass(frozen=True, slots=True)
class Read:
    """What was made of a reply: the value and its plain JSON, or what is wrong."""

    value: Any = None
    plain: Any = None
    problem: str = ""


class OutputSchema:
    """A JSON Schema or a pydantic class, ready to be sent, shown and held against replies."""

    def __init__(self, schema: SchemaLike) -> None:
        """Take either.

        Raises:
            ConfigError: It is neither, or cannot be used.
        """
        self.model: type[BaseModel] | None = schema if _is_model(schema) else None
        self._checker = Checker(_of_model(self.model) if self.model else _of_mapping(schema))

    @property
    def json(self) -> dict[str, Any]:
        """The JSON Schema."""
        return self._checker.schema

    @property
    def text(self) -> str:
        """The JSON Schema, as a model is shown it."""
        return json.dumps(self.json, ensure_ascii=False)

    @property
    def has_object(self) -> bool:
        """Whether its root is an object, as providers want it."""
        return self.json.get("type") == "object"

    def read(self, text: str | None, *, truncated: bool = False) -> Read:
        """The value in a reply: the reply itself, else the last value in it that is valid, else what a repair makes.

        A reply that was cut off is not repaired: half of an answer may be valid, too.
        """
        if text is None or not text.strip():
            return Read(problem="the reply is empty")
        if len(text) > LONGEST:
            return Read(problem=f"the reply is longer than {LONGEST} characters")
        whole = decoded(text.strip())
        if whole is not BROKEN:
            return self.check(whole)
        inner = embedded(text)
        found = [self.check(each) for each in reversed(inner)]
        finished = not truncated and text.strip().rstrip("`").rstrip().endswith(("}", "]"))
        if finished and not any(not each.problem for each in found) and (mended := repaired(text)) is not BROKEN:
            found.insert(0, self.check(mended))
        cut_off = "the reply was cut off" if truncated else "the reply is no JSON"
        return next((each for each in found if not each.problem), found[0] if found else Read(problem=cut_off))

    def check(self, plain: Any) -> Read:
        """Hold JSON values against it."""
        try:
            text = json.dumps(plain, allow_nan=False)
        except (ValueError, TypeError, RecursionError) as error:
            return Read(problem=f"it is no JSON: {_problem(error)}")
        if self.model is None:
            problem = self._checker.problems(plain)
            return Read(problem=problem) if problem else Read(value=plain, plain=plain)
        from pydantic import ValidationError

        try:
            return Read(value=self.model.model_validate_json(text), plain=plain)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[:_MOST_PROBLEMS]
            return Read(problem="; ".join(f"{_place(each['loc'])}{_short(each['msg'])}" for each in first))
        except Exception as error:  # noqa: BLE001 - a validator of the class's own may fail with anything
            return Read(problem=_problem(error))


def _without_patterns(kind: Any) -> Any:
    """A validator that matches no regular expression, and says nothing where one would decide."""
    additional: Any = kind.VALIDATORS.get("additionalProperties")

    def unchecked(*_: object) -> Iterator[Any]:
        yield from ()

    def plain(validator: Any, keyword: Any, instance: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
        if "patternProperties" not in schema and additional is not None:
            yield from additional(validator, keyword, instance, schema) or ()

    from jsonschema import validators

    untyped: Any = validators
    return untyped.extend(kind, {**dict.fromkeys(_MATCHING, unchecked), "additionalProperties": plain})


def _is_model(schema: object) -> "TypeGuard[type[BaseModel]]":
    if not inspect.isclass(schema):
        return False
    from pydantic import BaseModel

    return issubclass(schema, BaseModel)


def _of_model(model: "type[BaseModel]") -> Mapping[str, Any]:
    try:
        return model.model_json_schema()
    except Exception as error:
        msg = f"{model.__name__} has no JSON Schema: {_problem(error)}"
        raise ConfigError(msg) from error


def _of_mapping(schema: object) -> Mapping[str, Any]:
    if not isinstance(schema, Mapping):
        msg = f"schema is a JSON Schema as a mapping or a pydantic class, not {type(schema).__name__}"
        raise ConfigError(msg)
    return cast("Mapping[str, Any]", schema)


def _place(path: Any) -> str:
    where = "/".join(str(part)[:40] for part in islice(path, 8))
    return f"{where}: " if where else ""


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_PROBLEM else f"{text[:_LONGEST_PROBLEM]}…"


def _problem(error: BaseException) -> str:
    return _short(described(error))
