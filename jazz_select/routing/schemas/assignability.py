"""May a value of one JSON Schema go where another is wanted, and is there any? Pure, bounded, never raises."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from jazz_select.json_values import is_array
from jazz_select.routing.schemas.fields import (
    COUNTED,
    Alternative,
    Cursor,
    Schema,
    alternatives,
    canonical_json,
    declares,
    is_impossible,
    item_at,
    mapping,
    names,
    number_range,
    prefix,
    refers,
)
from jazz_select.routing.schemas.validity import verdicts
from jazz_select.values import is_number

SURELY, PERHAPS, NEVER = 1.0, 0.5, 0.0
DEEPEST: Final = 24
MOST_STEPS: Final = 3_000
"""Pairs of schemas that are compared, and parts of each that are read, for one question."""
_LARGEST_COMPARED: Final = 2_000_000

_ABOUT: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("integer", "number"), ("multipleOf",)),
    "string": ("pattern", "format", "contentEncoding", "contentMediaType", "contentSchema"),
    "array": ("uniqueItems", "contains", "minContains", "maxContains", "unevaluatedItems"),
    "object": ("propertyNames", "patternProperties", "unevaluatedProperties", "dependentRequired", "dependentSchemas"),
}
"""What limits values of a type, and is only known to hold where it is said of both."""
_ALWAYS: Final = ("not", "if", "then", "else", "allOf", "anyOf", "oneOf", "$ref", "$dynamicRef", "$recursiveRef")


NOT_FINITE: Final[Schema] = {"type": "number", "not": {"type": "integer"}}
"""What is known of an infinite number, or of one that is not a number."""


class Effort:
    """How much may still be done, by all questions that share it."""

    def __init__(self, left: int) -> None:
        self.left = left


def assignable(
    out_schema: object,
    in_schema: object,
    *,
    out_root: Schema | None = None,
    in_root: Schema | None = None,
    effort: Effort | None = None,
) -> float:
    """Return whether a value of `out_schema` may be used where `in_schema` is required.

    Args:
        out_schema: Schema of the given value.
        in_schema: Schema of the required value.
        out_root: The schema that contains `out_schema`, for its references; by default itself.
        in_root: As `out_root`, for `in_schema`.
        effort: Shared limit on work; by default enough for one question.

    Returns:
        1.0 if every value fits; 0.0 if none does; 0.5 if that depends on the value, or the schema is too deep, too
            large or not understood. Undeclared properties are taken as absent unless they are required, and arrays as
            not empty.
    """
    steps = MOST_STEPS
    if effort is not None:
        steps = max(0, min(MOST_STEPS, effort.left))
    if out_root is None:
        out_root = mapping(out_schema)
    if in_root is None:
        in_root = mapping(in_schema)
    question = _Comparison(out_root, in_root, steps)
    try:
        return question.score(out_schema, in_schema, 0)
    except Exception:  # noqa: BLE001 - a schema may be any JSON at all; what cannot be read may fit or not
        return PERHAPS
    finally:
        if effort is not None:
            effort.left -= question.spent


class _Comparison:
    def __init__(self, out_root: Schema, in_root: Schema, steps: int) -> None:
        self._out, self._in = Cursor(out_root, steps), Cursor(in_root, steps)
        self._steps, self._left = steps, steps
        # The schemas are kept beside what is known of them: another one might get the identity of one that is gone.
        self._known: dict[tuple[int, int], tuple[object, object, float]] = {}
        self._spread: dict[tuple[int, bool], tuple[object, list[Alternative]]] = {}
        self._open: set[tuple[int, int]] = set()
        self._assumed: set[tuple[int, int]] = set()
        self._compared = 0
        self._roots_alike: bool | None = None

    @property
    def spent(self) -> int:
        unspent = max(self._left, 0) + max(self._out.left, 0) + max(self._in.left, 0)
        return 3 * self._steps - unspent

    def score(self, out: object, wanted: object, depth: int) -> float:
        self._left -= 1
        if depth > DEEPEST or self._left < 0:
            return PERHAPS
        pair = (id(out), id(wanted))
        if pair in self._known:
            return self._known[pair][2]
        if pair in self._open:
            # A circle of references holds if nothing in it fails; what rests on that is not kept before it is shown.
            self._assumed.add(pair)
            return SURELY
        self._open.add(pair)
        found = self._fresh(out, wanted, depth)
        self._open.discard(pair)
        self._assumed.discard(pair)
        if found != SURELY or not self._assumed:
            self._known[pair] = (out, wanted, found)
        return found

    def _fresh(self, out: object, wanted: object, depth: int) -> float:
        ours, theirs = self._alternatives(out, self._out), self._alternatives(wanted, self._in)
        if not ours or not theirs:
            return NEVER
        if any(other.type == "" and other.certain and not other.schema for other in theirs):
            return SURELY
        found = _combine_scores(self._compare_alternative(own, theirs, wanted, depth) for own in ours)
        # What is not understood, such as a `not`, fits itself word for word.
        if found == PERHAPS and self._is_same(out, wanted):
            return SURELY
        return found

    def _alternatives(self, schema: object, reading: Cursor) -> list[Alternative]:
        key = (id(schema), reading is self._out)
        if key not in self._spread:
            self._spread[key] = (schema, alternatives(schema, reading.root, reading))
        return self._spread[key][1]

    def _is_same(self, out: object, wanted: object) -> bool:
        """Tell whether both schemas are equal, and mean the same where they stand."""
        if self._compared > _LARGEST_COMPARED:
            return False
        ours, theirs = canonical_json(out), canonical_json(wanted)
        self._compared += len(ours) + len(theirs)
        if not ours or ours != theirs:
            return False
        if self._out.root is self._in.root or not refers(ours):
            return True
        if self._roots_alike is None:
            self._roots_alike = canonical_json(self._out.root) == canonical_json(self._in.root) != b""
        return self._roots_alike

    def _compare_alternative(
        self, own: Alternative, theirs: Sequence[Alternative], wanted: object, depth: int
    ) -> float:
        """Compare one alternative of the output, by its listed values or else by its type."""
        values = own.schema.get("enum")
        if not is_array(values):
            return max(self._compare_types(own, other, depth) for other in theirs)
        answers = verdicts(self._possible(own, values), wanted, self._in)
        if not answers:
            return NEVER
        return _combine_scores(PERHAPS if each is None else float(each) for each in answers)

    def _possible(self, own: Alternative, values: Sequence[Any]) -> list[Any]:
        """Return the values that an alternative may admit."""
        schema = own.schema
        if schema.keys() <= {"enum", "type"}:
            # It says the same of values of its own enum, and takes less time.
            schema = {"type": own.sure_type} if own.sure_type else {}
        answers = verdicts(values, schema, self._out)
        return [each for each, answer in zip(values, answers, strict=True) if answer is not False]

    def _compare_types(self, own: Alternative, other: Alternative, depth: int) -> float:
        self._left -= 1
        kind, wanted = own.sure_type, other.sure_type
        if not kind:
            return PERHAPS
        if wanted not in ("", kind) and (kind, wanted) != ("integer", "number"):
            may_be_whole = own.schema.get("not") != NOT_FINITE["not"]
            return PERHAPS if (kind, wanted) == ("number", "integer") and may_be_whole else NEVER
        found = SURELY if other.certain else PERHAPS
        allowed = other.schema.get("enum")
        if is_array(allowed):
            if not self._possible(own, allowed):
                return NEVER
            found = PERHAPS
        found = min(found, self._limits(own, other, kind))
        for keyword in (*_ALWAYS, *_ABOUT.get(kind, ())):
            if keyword in other.schema and not self._has_same(own.schema, other.schema, keyword):
                found = min(found, PERHAPS)
        if found > NEVER and kind == "array":
            found = min(found, self._items(own.schema, other.schema, depth))
        elif found > NEVER and kind == "object":
            found = min(found, self._properties(own.schema, other.schema, depth))
        return found

    def _has_same(self, own: Schema, other: Schema, keyword: str) -> bool:
        """Tell whether a keyword of the wanted schema asks nothing, or means the same in the given one."""
        if keyword == "uniqueItems" and other[keyword] is False:
            return True
        if keyword.startswith("unevaluated"):
            return False  # it says nothing without all that stands beside it
        group = _GROUP_OF.get(keyword, (keyword,))
        return keyword in own and all(self._is_same(own.get(each), other.get(each)) for each in group)

    def _limits(self, own: Alternative, other: Alternative, kind: str) -> float:
        if kind in ("integer", "number"):
            ours, theirs = number_range(own.schema), number_range(other.schema)
        elif kind in COUNTED:
            ours, theirs = _count(own.schema, kind), _count(other.schema, kind, at_word=False)
        else:
            return SURELY
        return _compare_ranges(*ours, *theirs)

    def _items(self, own: Schema, other: Schema, depth: int) -> float:
        low, high = _count(own, "array")
        least, _ = _count(other, "array")
        first = max(len(prefix(own)), len(prefix(other)))
        found = [SURELY]
        for place in range(first + 1):
            if high <= place:
                break
            score = self.score(item_at(own, place), item_at(other, place), depth + 1)
            if score == NEVER and low <= place and not self._is_possible(item_at(own, place)):
                return min(found) if least <= place else NEVER  # every array ends before this item
            is_there = first == 0 or max(low, least) > place
            found.append(score if is_there else max(score, PERHAPS))
        return min(found)

    def _is_possible(self, own: object) -> bool:
        return _Search(self._out).finds(own, 0)

    def _properties(self, own: Schema, other: Schema, depth: int) -> float:
        ours, theirs = mapping(own.get("properties")), mapping(other.get("properties"))
        given, needed = names(own.get("required")), names(other.get("required"))
        if len(ours) + len(theirs) > self._left:
            return PERHAPS
        more = _more(own)
        found = [SURELY]
        for name in dict.fromkeys((*ours, *theirs, *given, *needed)):
            part = ours.get(name, more)
            if name not in ours and more is False and name in given:
                part = True  # it is required, so it is there, though nothing is known of it
            if part is False:
                if name in needed:
                    return NEVER
                continue
            score = self.score(part, _property_schema(other, name, theirs), depth + 1)
            if score == NEVER and (name in given or name in needed):
                return NEVER
            certain = name in given or (score == SURELY and name not in needed)
            found.append(score if certain else PERHAPS)
        rest = _property_schema(other, None, theirs)
        if more is not False and rest is not True:
            # Never worse than perhaps: an object without undeclared properties fits whatever is said of them.
            found.append(max(self.score(more, rest, depth + 1), PERHAPS))
        return min(found)


_GROUP_OF: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("if", "then", "else"), ("if", "then", "else")),
    **dict.fromkeys(("contains", "minContains", "maxContains"), ("contains", "minContains", "maxContains")),
}
"""Keywords that only mean something together."""


def _more(own: Schema) -> object:
    """Return the schema of undeclared properties: the declared one, or none if the schema names properties."""
    if "patternProperties" in own or "dependentSchemas" in own or "if" in own:
        return True
    for keyword in ("additionalProperties", "unevaluatedProperties"):
        if keyword in own:
            return own[keyword]
    return not declares(own)


def _property_schema(other: Schema, name: str | None, properties: Mapping[str, object]) -> object:
    if name is not None and name in properties:
        return properties[name]
    return True if "patternProperties" in other else other.get("additionalProperties", True)


def _count(schema: Schema, kind: str, *, at_word: bool = True) -> tuple[float, float]:
    """Return the least and the greatest length of a text, an array or an object.

    With `at_word`, an object has no undeclared properties.
    """
    minimum, maximum = COUNTED[kind]
    least, most = schema.get(minimum), schema.get(maximum)
    low = float(least) if is_number(least) else 0.0
    high = float(most) if is_number(most) else math.inf
    if kind == "array":
        for place in range(len(prefix(schema)) + 1):
            if item_at(schema, place) is False:
                high = min(high, place)
                break
    if kind == "object":
        possible = names(schema.get("required"))
        low = max(low, len(possible))
        rest = _more(schema) if at_word else _property_schema(schema, None, {})
        if rest is False:
            possible.update(name for name, part in mapping(schema.get("properties")).items() if part is not False)
            high = min(high, len(possible))
    return low, high


def _compare_ranges(low: Any, high: Any, least: Any, most: Any) -> float:
    if low > most or high < least:
        return NEVER
    return SURELY if low >= least and high <= most else PERHAPS


def _combine_scores(scores: Iterable[float]) -> float:
    """Combine scores: all fit, none fits, or it depends."""
    found = set(scores)
    return found.pop() if len(found) == 1 else PERHAPS


# --- whether there is any value ------------------------------------------------


def is_possible(schema: object, root: Schema | None = None, *, kind: str = "") -> bool:
    """Tell whether a value may be valid by a schema; False only if certainly none is."""
    return _Search(Cursor(mapping(schema) if root is None else root)).finds(schema, 0, kind)


class _Search:
    def __init__(self, reading: Cursor) -> None:
        self._reading = reading
        self._found: list[object] = []
        self._open: list[object] = []

    def finds(self, schema: object, depth: int, kind: str = "") -> bool:
        if depth > DEEPEST or self._reading.left < 0 or any(schema is each for each in self._found):
            return True
        if any(schema is each for each in self._open):
            return False  # it would have to hold itself
        self._open.append(schema)
        some = alternatives(schema, self._reading.root, self._reading)
        if kind:
            typed = [replace(each, type=each.sure_type or kind, guessed=False) for each in some]
            some = [each for each in typed if each.type == kind and not is_impossible(each)]
        found = any(self._has_value(each, depth) for each in some)
        self._open.pop()
        if found:
            self._found.append(schema)
        return found

    def _has_value(self, each: Alternative, depth: int) -> bool:
        own = each.schema
        if each.sure_type == "object" and "enum" not in own:
            properties, needed = mapping(own.get("properties")), names(own.get("required"))
            return all(self.finds(properties[name], depth + 1) for name in needed & properties.keys())
        least = own.get("minItems")
        if each.sure_type == "array" and "enum" not in own and isinstance(least, int):
            # Behind the first items all others have one schema, so one of them stands for the rest.
            places = range(min(least, len(prefix(own)) + 1))
            return all(self.finds(item_at(own, place), depth + 1) for place in places)
        return True
