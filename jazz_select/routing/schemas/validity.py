"""Whether a value is valid by a JSON Schema that somebody else wrote: what is wrong with it, in words. Bounded."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, Final, cast

import orjson

from jazz_select.errors import ConfigError
from jazz_select.json_values import as_json
from jazz_select.text import beginning, describe_error

MOST_PROBLEMS: Final = 5
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
            msg = f"the schema is no JSON Schema that can be used: {problem_of(error)}"
            raise ConfigError(msg) from error

    def problems(self, value: object) -> str:
        """What is wrong with a value, in words; empty where nothing is."""
        try:
            errors: list[Any] = list(islice(self._validator.iter_errors(value), MOST_PROBLEMS))
        except Exception as error:  # noqa: BLE001 - too deep, or a part of the schema that cannot be used
            return f"it could not be checked: {problem_of(error)}"
        return "; ".join(f"{place(error.absolute_path)}{short(error.message)}" for error in errors)

    def _check_references(self) -> None:
        """Look up whatever validation may look up, by the rules of the schema's own dialect."""
        from jsonschema_specifications import REGISTRY
        from referencing import Resource
        from referencing.jsonschema import DRAFT202012

        root: Any = Resource[Any].from_contents(self.schema, default_specification=DRAFT202012)
        untyped: Any = REGISTRY
        stack: list[tuple[Any, Any]] = [(untyped.resolver_with_root(root), root)]
        seen: set[int] = set()
        while stack:
            resolver, resource = stack.pop()
            contents: object = resource.contents
            known = id(contents)
            if known in seen or not isinstance(contents, Mapping):
                continue
            seen.add(known)
            fields = cast("Mapping[str, Any]", contents)
            for reference in (fields.get("$ref"), fields.get("$dynamicRef")):
                if isinstance(reference, str):
                    found = resolver.lookup(reference)
                    referred: object = found.contents
                    if not isinstance(referred, Mapping | bool):
                        msg = f"{short(reference)} is no schema"
                        raise TypeError(msg)
                    target: Any = Resource[Any].from_contents(cast("Any", referred), default_specification=DRAFT202012)
                    stack.append((found.resolver, target))
            stack += [(resolver.in_subresource(each), each) for each in resource.subresources()]


def invalid(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
    """What is wrong with the arguments of a tool that has this input schema; empty where nothing is."""
    if not schema:
        return ""
    try:
        checker = _checker(orjson.dumps(as_json(dict(schema))))
    except (ConfigError, TypeError, ValueError) as error:
        return f"its input_schema cannot be used: {problem_of(error)}"
    problems = checker.problems({name: _as_sent(value) for name, value in arguments.items()})
    return f"the arguments are not valid: {problems}" if problems else ""


@lru_cache(256)
def _checker(schema: bytes) -> Checker:
    """By the schema's text, since the same tools are called again and again."""
    return Checker(orjson.loads(schema), patterns=False)


def _as_sent(value: object) -> object:
    """A value as JSON, in which it is described; one that is none is held against the schema as it is."""
    try:
        return as_json(value)
    except Exception:  # noqa: BLE001 - whatever a value trips over
        return value


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


def place(path: Any) -> str:
    """Where in a value, as the beginning of a sentence."""
    where = "/".join(str(part)[:40] for part in islice(path, 8))
    return f"{where}: " if where else ""


def short(text: str) -> str:
    """As much of a text as a problem may take."""
    return beginning(text, _LONGEST_PROBLEM)


def problem_of(error: BaseException) -> str:
    """An exception as a problem."""
    return short(describe_error(error))
