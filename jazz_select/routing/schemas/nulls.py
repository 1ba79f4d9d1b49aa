"""Nulls for optional inputs, where the schema of a tool takes none: they mean that nothing is given.

Models fill every input that they are shown, and write null for those that they leave out.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from jazz_select.json_values import is_array
from jazz_select.routing.schemas.fields import Alternative, Cursor, Schema, alternatives, item_at, mapping, names
from jazz_select.routing.schemas.validity import verdicts

_DEEPEST: Final = 20
_MOST_STEPS: Final = 20_000
"""Parts of schemas that are looked at for one call; beyond them a null stays, and the check says what is wrong."""


def without_nulls(schema: Schema, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments without the nulls that stand for "not given".

    That is a null for a declared and optional property that takes none, in objects at any depth. One that the schema
    allows stays, as does one for a required property, which the check of the arguments reports.
    """
    given = dict(arguments)
    if not _holds_null(given, 0):
        return given
    return cast("dict[str, Any]", _drop_nulls(given, schema, Cursor(schema, _MOST_STEPS), 0))


def _holds_null(value: object, depth: int) -> bool:
    if value is None:
        return True
    if depth > _DEEPEST:
        return False
    if isinstance(value, dict):
        return any(_holds_null(each, depth + 1) for each in cast("dict[object, object]", value).values())
    return is_array(value) and any(_holds_null(each, depth + 1) for each in value)


def _drop_nulls(value: object, part: object, reading: Cursor, depth: int) -> object:
    if not isinstance(value, dict | list) or reading.left < 0 or not _holds_null(cast("object", value), depth):
        return cast("object", value)
    kinds = alternatives(part, reading.root, reading)
    if isinstance(value, list):
        return _drop_nulls_of_items(cast("list[object]", value), kinds, reading, depth)
    given = cast("dict[str, object]", value)
    kinds = _possible_kinds(given, [each for each in kinds if each.type in {"object", ""}], reading)
    kept: dict[str, object] = {}
    for name, each in given.items():
        declaring = [kind for kind in kinds if name in _properties(kind)]
        parts = [_properties(kind)[name] for kind in declaring]
        if each is not None:
            kept[name] = _drop_nulls(each, _any_of(parts), reading, depth + 1)
            continue
        # Models write null for an optional value that they leave out; one that may be null means it.
        is_optional = any(name not in names(kind.schema.get("required")) for kind in declaring)
        if not is_optional or any(_takes_null(own, reading) for own in parts):
            kept[name] = None
    return kept


def _drop_nulls_of_items(
    values: list[object], kinds: Sequence[Alternative], reading: Cursor, depth: int
) -> list[object]:
    schemas = [kind.schema for kind in kinds if kind.type in {"array", ""}]
    kept: list[object] = []
    for place, value in enumerate(values):
        part = _any_of([item_at(schema, place) for schema in schemas])
        kept.append(_drop_nulls(value, part, reading, depth + 1))
    return kept


def _takes_null(part: object, reading: Cursor) -> bool:
    kinds = alternatives(part, reading.root, reading)
    if all(kind.sure_type not in {"null", ""} for kind in kinds):
        return False
    return verdicts([None], part, reading) != [False]


def _possible_kinds(given: Mapping[str, object], kinds: list[Alternative], reading: Cursor) -> list[Alternative]:
    """Return those of several kinds of object that this one may be; all of them if it is none."""
    if len(kinds) == 1:
        return kinds
    plain = {name: each for name, each in given.items() if isinstance(each, str | int | float)}
    fitting = [kind for kind in kinds if _may_be(plain, _properties(kind), reading)]
    return fitting or kinds


def _may_be(plain: Mapping[str, object], properties: Schema, reading: Cursor) -> bool:
    told = [(plain[name], own) for name, own in properties.items() if name in plain]
    return all(verdicts([each], own, reading) != [False] for each, own in told)


def _properties(kind: Alternative) -> Schema:
    return mapping(kind.schema.get("properties"))


def _any_of(parts: Sequence[object]) -> object:
    if len(parts) == 1:
        return parts[0]
    return {"anyOf": list(parts)} if parts else True
