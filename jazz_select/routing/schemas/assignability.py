"""May a value of one JSON Schema go where another is wanted? Surely, perhaps, or never. Pure, bounded, never raises."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from jazz_select.routing.schemas.fields import Alternative, Schema, alternatives, is_a

SURELY, PERHAPS, NEVER = 1.0, 0.5, 0.0
DEEPEST: Final = 24
MOST_STEPS: Final = 5_000

_LOWER, _UPPER = (
    ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"),
    (
        "maximum",
        "exclusiveMaximum",
        "maxLength",
        "maxItems",
        "maxProperties",
    ),
)
_STRICT: Final = (
    *("multipleOf", "pattern", "format", "uniqueItems", "contains", "propertyNames", "patternProperties", "not", "if"),
    *("dependentRequired", "dependentSchemas", "dependencies", "prefixItems", "unevaluatedProperties"),
    *("unevaluatedItems", "contentEncoding"),
)


def assignable(
    out_schema: object, in_schema: object, *, out_root: Schema | None = None, in_root: Schema | None = None
) -> float:
    """Whether what `out_schema` describes may go where `in_schema` is wanted.

    Args:
        out_schema: Of the value that is there.
        in_schema: Of the value that is wanted.
        out_root: The schema that `out_schema` is a part of, where its references point; itself by default.
        in_root: Likewise.

    Returns:
        1.0 where every value fits; 0.0 where none does; 0.5 where that shows at run time. Objects are taken at
        their word: a property that is not declared is not there. Where a schema is too deep, too large or not
        understood, 0.5.
    """
    try:
        return _Comparison(_root(out_root, out_schema), _root(in_root, in_schema)).score(out_schema, in_schema, 0)
    except Exception:  # noqa: BLE001 - a schema may be any JSON at all; what cannot be read may fit or not
        return PERHAPS


def _root(given: Schema | None, schema: object) -> Schema:
    if given is not None:
        return given
    return cast("Schema", schema) if isinstance(schema, Mapping) else {}


class _Comparison:
    """One question, with what has been found on the way."""

    def __init__(self, out_root: Schema, in_root: Schema) -> None:
        self._out_root, self._in_root = out_root, in_root
        self._known: dict[tuple[int, int], float] = {}
        self._steps = 0

    def score(self, out: object, wanted: object, depth: int) -> float:
        self._steps += 1
        if depth > DEEPEST or self._steps > MOST_STEPS:
            return PERHAPS
        pair = (id(out), id(wanted))
        if pair not in self._known:
            self._known[pair] = SURELY  # a circle of references holds if nothing in it fails
            self._known[pair] = self._fresh(out, wanted, depth)
        return self._known[pair]

    def _fresh(self, out: object, wanted: object, depth: int) -> float:
        theirs = alternatives(wanted, self._in_root)
        ours = alternatives(out, self._out_root)
        if not ours or not theirs:
            return NEVER
        if any(other.type == "" and other.certain and not _limits(other.schema) for other in theirs):
            return SURELY
        return _all_of([max(self._one(own, other, depth) for other in theirs) for own in ours])

    def _one(self, own: Alternative, other: Alternative, depth: int) -> float:
        self._steps += 1
        values = own.schema.get("enum")
        if isinstance(values, list) and own.certain:
            return _all_of([self._value(value, other) for value in cast("list[Any]", values)])
        if own.type == "" or other.type == "":
            return PERHAPS
        found = _by_type(own.type, other.type)
        if found == NEVER:
            return NEVER
        if isinstance(other.schema.get("enum"), list) or not (own.certain and other.certain):
            found = min(found, PERHAPS)
        found = min(found, _by_limits(own.schema, other.schema))
        if found > NEVER and own.type == "array" == other.type:
            found = min(found, self._items(own.schema, other.schema, depth))
        elif found > NEVER and own.type == "object" == other.type:
            found = min(found, self._properties(own.schema, other.schema, depth))
        return found

    def _value(self, value: object, other: Alternative) -> float:
        """One value that is known, where the other is wanted."""
        if other.type and not is_a(value, other.type):
            return NEVER
        allowed = other.schema.get("enum")
        if isinstance(allowed, list):
            fits = any(value == each and type(value) is type(each) for each in cast("list[Any]", allowed))
            return SURELY if fits else NEVER
        if isinstance(value, list | dict) or not other.certain or not other.type:
            return PERHAPS
        return PERHAPS if _limits(other.schema) else SURELY

    def _items(self, own: Schema, other: Schema, depth: int) -> float:
        if "items" not in other:
            return SURELY
        return self.score(own.get("items", True), other["items"], depth + 1)

    def _properties(self, own: Schema, other: Schema, depth: int) -> float:
        ours, theirs = _mapping(own.get("properties")), _mapping(other.get("properties"))
        given, needed = _names(own.get("required")), _names(other.get("required"))
        open_ended = not ours and own.get("additionalProperties") is not False
        found = [SURELY]
        for name in needed - ours.keys():
            if not open_ended:
                return NEVER
            found.append(self._extra(own, theirs.get(name, True), depth))
        for name, wanted in theirs.items():
            if name not in ours:
                if open_ended and name not in needed:
                    found.append(PERHAPS if own.get("additionalProperties", True) is not False else SURELY)
                continue
            score = self.score(ours[name], wanted, depth + 1)
            certain = name in given
            if score == NEVER and (name in needed or certain):
                return NEVER
            found.append(score if certain or (score == SURELY and name not in needed) else PERHAPS)
        found += self._surplus(own, other, depth)
        return min(found)

    def _extra(self, own: Schema, wanted: object, depth: int) -> float:
        """A property that an open-ended object may have."""
        return min(PERHAPS, self.score(own.get("additionalProperties", True), wanted, depth + 1))

    def _surplus(self, own: Schema, other: Schema, depth: int) -> list[float]:
        """Properties that the other does not name, where it says what those may be."""
        allowed = other.get("additionalProperties", True)
        if allowed is True or allowed == {}:
            return []
        ours, theirs = _mapping(own.get("properties")), _mapping(other.get("properties"))
        given = _names(own.get("required"))
        found: list[float] = []
        for name in ours.keys() - theirs.keys():
            score = self.score(ours[name], allowed, depth + 1)
            found.append(score if name in given else max(score, PERHAPS))
        more = own.get("additionalProperties", bool(not ours))
        if more is not False:
            found.append(max(self.score(more, allowed, depth + 1), PERHAPS))
        return found


def _by_type(own: str, other: str) -> float:
    if own == other or (own, other) == ("integer", "number"):
        return SURELY
    return PERHAPS if (own, other) == ("number", "integer") else NEVER


def _by_limits(own: Schema, other: Schema) -> float:
    for keyword in _STRICT:
        if keyword in other and other[keyword] is not False and own.get(keyword) != other[keyword]:
            return PERHAPS
    for keywords, tighter in ((_LOWER, 1), (_UPPER, -1)):
        for keyword in keywords:
            limit, ours = other.get(keyword), own.get(keyword)
            if limit is None:
                continue
            if not _number(limit) or not _number(ours) or (ours - limit) * tighter < 0:
                return PERHAPS
    return SURELY


def _limits(schema: Schema) -> bool:
    limited = (*_STRICT, *_LOWER, *_UPPER, "enum", "properties", "required", "items", "additionalProperties")
    return any(keyword in schema for keyword in limited)


def _all_of(scores: Sequence[float]) -> float:
    """All fit, none does, or that depends."""
    if all(score == SURELY for score in scores):
        return SURELY
    return NEVER if all(score == NEVER for score in scores) else PERHAPS


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def _names(value: object) -> set[str]:
    return {each for each in cast("list[Any]", value) if isinstance(each, str)} if isinstance(value, list) else set()


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
