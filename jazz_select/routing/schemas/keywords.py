"""The keywords of JSON Schema: older ones in today's words, two as one, and what references point at. Pure, bounded."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeGuard, cast
from urllib.parse import unquote

import orjson

Schema = Mapping[str, Any]

MOST_NODES: Final = 13_000
"""Parts of a schema that are put in today's words; of a larger one nothing is said. An engine takes 2 µs for each."""
ANNOTATIONS: Final = frozenset(
    (
        *("title", "description", "default", "examples", "$defs", "definitions", "$schema", "$id", "id", "$comment"),
        *("deprecated", "readOnly", "writeOnly", "$anchor"),
    )
)
UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")
_MOST_SEARCHED: Final = 5_000
_LONGEST_PLACE: Final = 6
_PARTS_OF_A_STEP: Final = 4
_PARTS: Final = frozenset(
    (
        *("items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else"),
        *("unevaluatedItems", "unevaluatedProperties"),
    )
)
_LISTS: Final = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_MAPS: Final = frozenset(("properties", "patternProperties", "dependentSchemas", "$defs", "definitions"))
_OLDER: Final = frozenset(
    (
        *("nullable", "additionalItems", "dependencies", "divisibleBy", "extends", "disallow"),
        *("items", "exclusiveMinimum", "exclusiveMaximum", "required", "properties"),
    )
)
"""Keywords that are no more, or were said in other ways."""
_TURNING: Final = ("not", "oneOf", "if")
PATTERNS: Final = ("pattern", "patternProperties")
THE_PART: Final = "#/$defs/jazz-select:part"
"""Where a part of a schema stands in the document that is made of both, however deep its references point."""
DEEPEST_LED: Final = 100
"""Levels of schemas in schemas: far fewer than fill the stack of a thread, which ends a process."""
_LEADING: Final = ("$ref", "$dynamicRef", "$anchor", "$dynamicAnchor", "$id")
_PARTS_OF_A_NAME: Final = 10
_PARTS_OF_A_PATTERN: Final = 200
"""What takes as long as so many parts to be made ready."""
_SAID_TO_PEOPLE: Final = frozenset(
    (
        *("title", "description", "default", "examples", "$schema", "$comment", "deprecated", "readOnly", "writeOnly"),
        *("contentEncoding", "contentMediaType", "contentSchema", "discriminator", "xml", "externalDocs", "example"),
    )
)
_PLAIN: Final = _SAID_TO_PEOPLE | {"type"}


def node_in_todays_words(schema: Schema, *, nullable: bool = True) -> dict[str, Any]:
    """One schema, without what is inside its parts, in the keywords of draft 2020-12.

    Args:
        schema: In whatever dialect; a keyword of an older one is known by its form.
        nullable: Whether OpenAPI's `nullable` is a keyword. It stays where there is no `type` beside it: whether it
            says anything there, its standard leaves open.
    """
    own = dict(schema)
    if _OLDER.isdisjoint(own) and not isinstance(own.get("type"), list):
        return own
    _bounds(own)
    _tuples(own)
    _dependencies(own)
    _draft_3(own)
    _required(own)
    if not nullable or own.get("nullable") is not True:
        own.pop("nullable", None)
    elif isinstance(own.get("type"), str | list):
        del own["nullable"]
        own["type"] = [*_listed(own["type"]), *(() if "null" in own["type"] else ("null",))]
    return own


def in_todays_words(
    schema: object,
    *,
    unread: frozenset[str] = frozenset(),
    reads: Callable[[str], bool] = bool,
    sure: bool = False,
    base: str = "#",
) -> Any:
    """A whole schema in the keywords of draft 2020-12, a copy without annotations, and without what is not to be read.

    Args:
        schema: In whatever dialect.
        unread: Keywords about texts that are not to be read; what depends on them holds.
        reads: Whether a pattern can be read.
        sure: Whether what depends on what is not read is to fail instead.
        base: Where in the document that is to be made the schema will stand.

    Raises:
        ValueError: It has too many parts.
    """
    said = cast("Schema", schema).get("$schema") if isinstance(schema, Mapping) else None
    dialect = said if isinstance(said, str) else ""
    made = _Rewriting(dialect=dialect, unread=unread, reads=reads, sure=sure, base=base)
    found = made.of(cast("object", schema))
    if not made.doubts:
        return found
    made.left, made.is_doubtful = MOST_NODES, True
    return made.of(cast("object", schema))


def refers_alone(dialect: str) -> bool:
    """Whether nothing counts beside a reference: so until draft 7."""
    return any(f"draft-0{number}" in dialect for number in (3, 4, 5, 6, 7))


@dataclass(slots=True, kw_only=True)
class _Rewriting:
    """A schema being written in today's words."""

    dialect: str
    unread: frozenset[str]
    reads: Callable[[str], bool]
    sure: bool
    base: str
    left: int = MOST_NODES
    depth: int = 0
    is_doubtful: bool = False
    """Whether there is anything in the whole of it that is not read: then a reference may lead there."""
    doubts: int = 0
    """How many keywords there were so far that are not read, or lead to where some may be."""

    def of(self, schema: object) -> Any:
        """One schema, and what is in it."""
        self._spend(1)
        if not isinstance(schema, Mapping):
            return schema
        given = cast("Schema", schema)
        if given.keys() <= _PLAIN and isinstance(given.get("type"), str) and given["type"] != "any":
            return {"type": given["type"]}
        doubts = self.doubts
        known = node_in_todays_words(given, nullable=not self.dialect)
        own = {key: value for key, value in known.items() if key not in _SAID_TO_PEOPLE}
        if "$ref" in own and refers_alone(self.dialect):
            own = {key: value for key, value in own.items() if key in ("$ref", "$defs", "definitions")}
        if refers_alone(self.dialect):
            own = {key: value for key, value in own.items() if key not in UNEVALUATED}  # of no draft that old
        _named(own, self.dialect)
        self._refer(own)
        may_be_null = own.pop("nullable", False)
        self._leave_out(own)
        turning = self._parts(own)
        if own.get("type") == "any":
            del own["type"]
        if turning and self.sure:
            return False
        _generously(own, turning)
        if self.doubts > doubts and not self.sure:
            own = {key: value for key, value in own.items() if key not in UNEVALUATED}
        return {"anyOf": [own, {"type": "null"}]} if may_be_null and own.keys() - {"$defs", "definitions"} else own

    def _parts(self, own: dict[str, Any]) -> list[str]:
        """Rewrite what is in a schema; the keywords that may fail because something in them holds, and are in doubt."""
        self.depth += 1
        if self.depth > DEEPEST_LED:
            msg = f"its parts lead more than {DEEPEST_LED} levels deep"
            raise ValueError(msg)
        turning: list[str] = []
        for key, value in own.items():
            doubts = self.doubts
            if key in _PARTS:
                own[key] = self.of(value)
            elif key in _LISTS and isinstance(value, list):
                own[key] = [self.of(each) for each in cast("list[object]", value)]
            elif key in _MAPS and isinstance(value, Mapping):
                own[key] = {name: self.of(each) for name, each in cast("Schema", value).items()}
            elif key in ("enum", "const"):
                self._spend(size_of(value))
            if self.doubts > doubts and (key in _TURNING or (key == "contains" and "maxContains" in own)):
                turning.append(key)
        self.depth -= 1
        return turning

    def _refer(self, own: dict[str, Any]) -> None:
        reference = own.get("$ref")
        if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")) and reference != THE_PART:
            own["$ref"] = self.base + reference[1:]
        if not own.keys().isdisjoint(_LEADING):
            self._spend(_PARTS_OF_A_NAME)
            self.doubts += self.is_doubtful

    def _leave_out(self, own: dict[str, Any]) -> None:
        for keyword in ("format", "pattern"):
            if keyword in own and self._is_unread(keyword, [own[keyword]]):
                del own[keyword]
                if self.sure:
                    own["allOf"] = [*own.get("allOf", []), {"not": {"type": "string"}}]
        named = own.get("patternProperties")
        if isinstance(named, Mapping) and self._is_unread("patternProperties", cast("Schema", named)):
            own["patternProperties"] = {"": not self.sure}

    def _is_unread(self, keyword: str, said: Iterable[object]) -> bool:
        if keyword not in self.unread:
            patterns = [each for each in said if isinstance(each, str) and keyword in PATTERNS]
            self._spend(_PARTS_OF_A_PATTERN * len(patterns))
            if all(map(self.reads, patterns)):
                return False
        self.doubts += 1
        return True

    def _spend(self, parts: int) -> None:
        self.left -= parts
        if self.left < 0:
            msg = f"it has more than {MOST_NODES} parts"
            raise ValueError(msg)


def _generously(own: dict[str, Any], turning: Sequence[str]) -> None:
    """Let what is in doubt hold: one at least of what should be exactly one, and anything for the rest."""
    for keyword in turning:
        said = own.pop(keyword)
        if keyword == "oneOf":
            own["allOf"] = [*own.get("allOf", []), {"anyOf": said}]


def _named(own: dict[str, Any], dialect: str) -> None:
    """Until draft 7: an `$id` that is an anchor; until draft 4: `id`."""
    if isinstance(own.get("id"), str) and ("draft-03" in dialect or "draft-04" in dialect):
        own["$id"] = own.pop("id")
    name = own.get("$id")
    if isinstance(name, str) and name.startswith("#"):
        del own["$id"]
        if name[1:].isidentifier():
            own["$anchor"] = name[1:]
    if own.get("$recursiveRef") == "#":
        own.setdefault("$ref", own.pop("$recursiveRef"))


def _bounds(own: dict[str, Any]) -> None:
    """Draft 4 and OpenAPI 3.0: a bound, and beside it whether it is excluded."""
    for bound, excluded in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        said = own.get(excluded)
        if isinstance(said, bool):
            del own[excluded]
            if said and bound in own:
                own[excluded] = own.pop(bound)
    if "divisibleBy" in own:
        own.setdefault("multipleOf", own.pop("divisibleBy"))


def _tuples(own: dict[str, Any]) -> None:
    """Until draft 2019-09: a list of items, and what comes behind them."""
    behind = own.pop("additionalItems", None)
    if isinstance(own.get("items"), list):
        own["prefixItems"] = own.pop("items")
        if behind is not None:
            own["items"] = behind


def _dependencies(own: dict[str, Any]) -> None:
    """Until draft 7: names that need other names, and names that bring a schema with them, under one keyword."""
    given = own.pop("dependencies", None)
    if not isinstance(given, Mapping):
        return
    for name, needed in cast("Schema", given).items():
        key = "dependentRequired" if isinstance(needed, str | list) else "dependentSchemas"
        said = own.get(key)
        more: Schema = cast("Schema", said) if isinstance(said, Mapping) else {}
        own[key] = {**more, name: [needed] if isinstance(needed, str) else needed}


def _draft_3(own: dict[str, Any]) -> None:
    extended = own.pop("extends", None)
    if extended is not None:
        own["allOf"] = [*_listed(own.get("allOf", [])), *_listed(extended)]
    refused = own.pop("disallow", None)
    if refused is not None:
        more = _as_schemas(refused)
        own["not"] = {"anyOf": [own["not"], *more] if "not" in own else more}
    types = own.get("type")
    if isinstance(types, list) and any(isinstance(each, Mapping) for each in cast("list[Any]", types)):
        del own["type"]
        own["allOf"] = [*_listed(own.get("allOf", [])), {"anyOf": _as_schemas(cast("object", types))}]


def _required(own: dict[str, Any]) -> None:
    """Draft 3: a property says of itself that it is required."""
    if "required" in own and not isinstance(own["required"], list):
        del own["required"]
    properties = own.get("properties")
    if isinstance(properties, Mapping):
        needed = [name for name, part in cast("Schema", properties).items() if _says_required(part)]
        if needed:
            own["required"] = list(dict.fromkeys([*own.get("required", []), *needed]))


def _says_required(part: object) -> bool:
    """Whether a property says of itself that it is required, as in draft 3."""
    return isinstance(part, Mapping) and cast("Schema", part).get("required") is True


def _as_schemas(types: object) -> list[Any]:
    """Types and schemas, mixed as draft 3 has them, as schemas."""
    return [each if isinstance(each, Mapping) else {"type": each} for each in _listed(types)]


def _listed(value: object) -> list[Any]:
    return list(cast("Sequence[Any]", value)) if isinstance(value, list | tuple) else [value]


# --- two schemas ----------------------------------------------------------------


def both(keyword: str, one: Any, other: Any) -> tuple[Any, bool]:
    """One keyword that two parts have: what holds for both, and whether that says all of it."""
    kinds: set[Any] = {type(one), type(other)}
    if kinds == {dict} and keyword in _MERGED:
        ours, theirs = cast("Schema", one), cast("Schema", other)
        shared = {name: all_of(part, theirs[name]) for name, part in ours.items() if name in theirs}
        return {**ours, **theirs, **shared}, True
    if kinds == {list} and keyword in _JOINED:
        return _JOINED[keyword](one, other), True
    if keyword in _BOUNDS and is_number(one) and is_number(other):
        return _BOUNDS[keyword](one, other), True
    if keyword in _EACH:
        return _EACH[keyword](one, other), True
    return one, keyword in _SAID_ONCE or equal(one, other)


def _required_by_both(one: list[Any], other: list[Any]) -> list[str]:
    return list(dict.fromkeys(map(str, [*one, *other])))


def _listed_by_both(one: list[Any], other: list[Any]) -> list[Any]:
    return [each for each in one if any(equal(each, value) for value in other)]


def all_of(one: object, other: object) -> object:
    """A schema of what both admit."""
    if one is False or other is False:
        return False
    if one is True or one == {}:
        return other
    return one if other is True or other == {} or one is other else {"allOf": [one, other]}


def _either(one: object, other: object) -> object:
    return {"anyOf": [one, other]}


def _one_of(one: object, other: object) -> object:
    return one is True or other is True


_JOINED: Final[Mapping[str, Any]] = {"required": _required_by_both, "enum": _listed_by_both}
_EACH: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("additionalProperties", "propertyNames", "items"), all_of),
    "not": _either,
    "uniqueItems": _one_of,
}
_MERGED: Final = ("properties", "patternProperties")
_BOUNDS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}
LIMITING: Final = frozenset(_BOUNDS)
_SAID_ONCE: Final = ANNOTATIONS | {"type", "prefixItems"}


def items_of_both(one: Schema, other: Schema) -> dict[str, Any]:
    """What two schemas say together of the items of an array."""
    longest = max(len(prefix(one)), len(prefix(other)))
    found: dict[str, Any] = {"items": all_of(one.get("items", True), other.get("items", True))}
    if longest:
        found["prefixItems"] = [all_of(item_at(one, place), item_at(other, place)) for place in range(longest)]
    return found


def prefix(schema: Schema) -> list[Any]:
    """The schemas of the first items of an array, one each."""
    return cast("list[Any]", schema["prefixItems"]) if isinstance(schema.get("prefixItems"), list) else []


def item_at(schema: Schema, place: int) -> object:
    """The schema of one item of an array."""
    first = prefix(schema)
    return first[place] if place < len(first) else schema.get("items", True)


def equal(one: object, other: object) -> bool:
    """Whether two values are the same in JSON: 1 and 1.0 are, 1 and true are not."""
    return one is other or known_by(one) == known_by(other)


def known_by(value: object) -> object:
    """Hashable, and the same for values that are the same in JSON."""
    if isinstance(value, bool | None):
        return ("is", value)
    if isinstance(value, Mapping):
        return frozenset((key, known_by(each)) for key, each in cast("Schema", value).items())
    if isinstance(value, list | tuple):
        return tuple(known_by(each) for each in cast("Sequence[object]", value))
    return value


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def written(value: object) -> bytes:
    """The same for values that are the same, each number as it is written; nothing of what is no JSON."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (TypeError, orjson.JSONEncodeError):
        return b""


def refers(schema: bytes) -> bool:
    """Whether a schema, as it is written, points somewhere: then it means what its root says."""
    return any(each in schema for each in _REFERRING)


_REFERRING: Final = (b'"$ref"', b'"$dynamicRef"', b'"$recursiveRef"')


COUNTED: Final[Mapping[str, tuple[str, str]]] = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}
"""What counts the characters, items or properties of a type."""


def number_range(schema: Schema) -> tuple[tuple[float, int], tuple[float, int]]:
    """The least and the most that a number may be, each with whether it is excluded: then a bit more, or less."""
    low = max(_bound(schema, "minimum", -math.inf, 0), _bound(schema, "exclusiveMinimum", -math.inf, 1))
    high = min(_bound(schema, "maximum", math.inf, 0), _bound(schema, "exclusiveMaximum", math.inf, -1))
    return low, high


def _bound(schema: Schema, keyword: str, otherwise: float, excluded: int) -> tuple[float, int]:
    limit: Any = schema.get(keyword)
    return (limit, excluded) if is_number(limit) else (otherwise, 0)


def crossed(schema: Schema, kind: str) -> bool:
    """Whether the least of a type is more than the most, so that there is none."""
    if kind in ("integer", "number"):
        low, high = number_range(schema)
        return low > high
    counted = COUNTED.get(kind)
    if counted is None:
        return False
    least, most = schema.get(counted[0]), schema.get(counted[1])
    return is_number(least) and is_number(most) and least > most


def size_of(value: object) -> int:
    """How much there is to compare in a value, in steps: a few parts of it are one."""
    parts: object = cast("Schema", value).values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list):
        return 1
    return 1 + sum(map(size_of, cast("Iterable[object]", parts))) // _PARTS_OF_A_STEP


# --- references -----------------------------------------------------------------


def referred(reference: object, root: Schema) -> object:
    """What a local reference points at; something of which nothing is known where it points nowhere."""
    here: object = root
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    if reference not in ("#", "") and not reference.startswith("#/"):
        return next((each for each in inner(root) if _is_called(each, reference)), None)
    for part in reference[1:].split("/")[1:]:
        here = _inside(here, unquote(part).replace("~1", "/").replace("~0", "~"))
    return here


def _is_called(schema: Schema, reference: str) -> bool:
    return schema.get("$anchor") == reference[1:] or reference in (schema.get("$id"), schema.get("id"))


def inner(schema: object) -> Iterator[Schema]:
    """Every mapping in a schema that may be one, as far as that is looked for."""
    stack, left = [schema], _MOST_SEARCHED
    while stack and left:
        here, left = stack.pop(), left - 1
        if isinstance(here, Mapping):
            yield cast("Schema", here)
            stack += [
                value
                for key, value in cast("Schema", here).items()
                if key not in ("enum", "const", "default", "examples")
            ]
        elif isinstance(here, list):
            stack += cast("list[object]", here)


def _inside(schema: object, step: str) -> object:
    if isinstance(schema, list) and step.isdecimal() and len(step) <= _LONGEST_PLACE:
        several = cast("list[object]", schema)
        return several[int(step)] if int(step) < len(several) else None
    return cast("Mapping[str, object]", schema).get(step) if isinstance(schema, Mapping) else None
