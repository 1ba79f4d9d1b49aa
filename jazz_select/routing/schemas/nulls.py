"""Nulls for optional inputs, where the schema of a tool takes none: they mean that nothing is given.

Models fill every input that they are shown, and write null for those that they leave out.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from jazz_select.json_values import is_array, is_object
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
    copied = dict(arguments)
    if not _holds_null(copied, 0):  # as in most calls, which need no look at the schema then
        return copied
    reading = Cursor(schema, _MOST_STEPS)
    return _drop_nulls_of_fields(copied, alternatives(schema, schema, reading), reading, 0)


def _holds_null(value: object, depth: int) -> bool:
    if value is None:
        return True
    if isinstance(value, str | int | float) or depth > _DEEPEST:
        return False
    if is_object(value):
        return any(_holds_null(each, depth + 1) for each in value.values())
    return is_array(value) and any(_holds_null(each, depth + 1) for each in value)


def _drop_nulls(value: object, part: object, reading: Cursor, depth: int) -> object:
    if reading.left < 0 or not _holds_null(value, depth):
        return value
    if is_array(value):
        return _drop_nulls_of_items(value, alternatives(part, reading.root, reading), reading, depth)
    if is_object(value):
        return _drop_nulls_of_fields(value, alternatives(part, reading.root, reading), reading, depth)
    return value


def _drop_nulls_of_fields(
    fields: Mapping[str, object], kinds: Sequence[Alternative], reading: Cursor, depth: int
) -> dict[str, Any]:
    objects = [kind for kind in kinds if kind.type in {"object", ""}]
    possible = _possible_kinds(fields, objects, reading)
    kept: dict[str, Any] = {}
    for name, value in fields.items():
        parts: list[object] = []
        is_optional = False
        for kind in possible:
            properties = _properties(kind)
            if name in properties:
                parts.append(properties[name])
                is_optional |= name not in names(kind.schema.get("required"))
        if value is not None:
            kept[name] = _drop_nulls(value, _any_of(parts), reading, depth + 1)
        elif not is_optional or any(_takes_null(part, reading) for part in parts):
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
    # Texts and numbers tell kinds apart, as a tag does; what is nested is about to change.
    plain = {name: each for name, each in given.items() if isinstance(each, str | int | float)}
    fitting = [kind for kind in kinds if _may_be(plain, _properties(kind), reading)]
    return fitting or kinds


def _may_be(plain: Mapping[str, object], properties: Schema, reading: Cursor) -> bool:
    for name, part in properties.items():
        if name in plain and verdicts([plain[name]], part, reading) == [False]:
            return False
    return True


def _properties(kind: Alternative) -> Schema:
    return mapping(kind.schema.get("properties"))


def _any_of(parts: Sequence[object]) -> object:
    if not parts:
        return True
    return parts[0] if len(parts) == 1 else {"anyOf": list(parts)}
