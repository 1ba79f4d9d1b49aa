"""The keywords of JSON Schema: older ones in today's words, two as one, and what references point at. Pure, bounded."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial
from operator import ge, gt, le, lt
from typing import Any, Final, cast
from urllib.parse import unquote

Schema = Mapping[str, Any]

MOST_NODES: Final = 50_000
"""Parts of a schema that are put in today's words; of a larger one nothing is said."""
ANNOTATIONS: Final = frozenset(
    (
        *("title", "description", "default", "examples", "$defs", "definitions", "$schema", "$id", "id", "$comment"),
        *("deprecated", "readOnly", "writeOnly", "$anchor"),
    )
)
_MOST_SEARCHED: Final = 5_000
_LONGEST_PLACE: Final = 6
_PARTS_OF_A_STEP: Final = 4
_PARTS: Final = frozenset(
    (
        *("items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else"),
        *("unevaluatedItems", "unevaluatedProperties", "contentSchema"),
    )
)
_LISTS: Final = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_MAPS: Final = frozenset(("properties", "patternProperties", "dependentSchemas", "$defs", "definitions"))


def node_in_todays_words(schema: Schema, *, nullable: bool = True) -> dict[str, Any]:
    """One schema, without what is inside its parts, in the keywords of draft 2020-12.

    Args:
        schema: In whatever dialect; a keyword of an older one is known by its form.
        nullable: Whether OpenAPI's `nullable` is a keyword. It stays where there is no `type` beside it: whether it
            says anything there, its standard leaves open.
    """
    own = dict(schema)
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


def in_todays_words(schema: object) -> Any:
    """A whole schema in the keywords of draft 2020-12, a copy.

    Raises:
        ValueError: It has too many parts.
    """
    said = cast("Schema", schema).get("$schema") if isinstance(schema, Mapping) else None
    dialect = said if isinstance(said, str) else ""
    return _rewritten(cast("object", schema), [MOST_NODES], dialect)


def refers_alone(dialect: str) -> bool:
    """Whether nothing counts beside a reference: so until draft 7."""
    return any(f"draft-0{number}" in dialect for number in (3, 4, 5, 6, 7))


def _rewritten(schema: object, left: list[int], dialect: str) -> Any:
    left[0] -= 1
    if left[0] < 0:
        msg = f"it has more than {MOST_NODES} parts"
        raise ValueError(msg)
    if not isinstance(schema, Mapping):
        return schema
    own = node_in_todays_words(cast("Schema", schema), nullable=not dialect)
    own.pop("$schema", None)
    if "$ref" in own and refers_alone(dialect):
        own = {key: value for key, value in own.items() if key in ("$ref", "$defs", "definitions")}
    _named(own, dialect)
    may_be_null = own.pop("nullable", False)
    for key, value in own.items():
        if key in _PARTS:
            own[key] = _rewritten(value, left, dialect)
        elif key in _LISTS and isinstance(value, list):
            own[key] = [_rewritten(each, left, dialect) for each in cast("list[object]", value)]
        elif key in _MAPS and isinstance(value, Mapping):
            own[key] = {name: _rewritten(each, left, dialect) for name, each in cast("Schema", value).items()}
    if own.get("type") == "any":
        del own["type"]
    return {"anyOf": [own, {"type": "null"}]} if may_be_null and own.keys() - {"$defs", "definitions"} else own


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


def is_number(value: object) -> bool:
    """Whether it is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_multiple(value: float, of: float) -> bool:
    """Whether a number is a multiple of another, as both are written: .3 of .1 is, and 1/3 of 1/3."""
    if isinstance(value, int) and isinstance(of, int):
        return value % of == 0
    return Fraction(Decimal(repr(value))) % Fraction(Decimal(repr(of))) == 0


def crossed(schema: Schema, kind: str) -> bool:
    """Whether the least of a type is more than the most, so that there is none."""
    for least, most, fits in _LIMITS.get(kind, ()):
        low, high = schema.get(least), schema.get(most)
        if is_number(low) and is_number(high) and not fits(high, low):
            return True
    return False


_NUMERIC: Final = (
    ("minimum", "maximum", ge),
    ("exclusiveMinimum", "maximum", gt),
    ("minimum", "exclusiveMaximum", gt),
    ("exclusiveMinimum", "exclusiveMaximum", gt),
)
_LIMITS: Final[Mapping[str, tuple[tuple[str, str, Callable[[Any, Any], bool]], ...]]] = {
    "number": _NUMERIC,
    "integer": _NUMERIC,
    "string": (("minLength", "maxLength", ge),),
    "array": (("minItems", "maxItems", ge),),
    "object": (("minProperties", "maxProperties", ge),),
}


def size_of(value: object) -> int:
    """How much there is to compare in a value, in steps: a few parts of it are one."""
    parts: object = cast("Schema", value).values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list):
        return 1
    return 1 + sum(map(size_of, cast("Iterable[object]", parts))) // _PARTS_OF_A_STEP


# --- a value, where no other schema is needed -----------------------------------


def _number(value: Any) -> Any:
    return value if is_number(value) else None


def _length(kind: type, value: Any) -> int | None:
    return len(value) if isinstance(value, kind) else None


def _bounded(counted: Callable[[Any], Any], fits: Callable[[Any, Any], bool], said: Any, value: Any) -> bool:
    number = counted(value)
    return number is None or fits(number, said)


def _multiple(said: Any, value: Any) -> bool:
    return not is_number(value) or is_multiple(value, said)


def _needing(said: Any, value: Any) -> bool:
    if not isinstance(value, dict):
        return True
    return all(name in value for given, needed in said.items() if given in value for name in needed)


_COUNTED: Final = (("Length", str), ("Items", list), ("Properties", dict))
SIMPLE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "minimum": partial(_bounded, _number, ge),
    "maximum": partial(_bounded, _number, le),
    "exclusiveMinimum": partial(_bounded, _number, gt),
    "exclusiveMaximum": partial(_bounded, _number, lt),
    **{f"min{name}": partial(_bounded, partial(_length, kind), ge) for name, kind in _COUNTED},
    **{f"max{name}": partial(_bounded, partial(_length, kind), le) for name, kind in _COUNTED},
    "multipleOf": _multiple,
    "dependentRequired": _needing,
}
"""Whether a value is as a keyword says: what it says, and the value."""


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


def check_references(schema: dict[str, Any]) -> None:
    """Look up whatever validation may look up, in a schema of today; the library's error where there is none."""
    from jsonschema_specifications import REGISTRY
    from referencing import Resource
    from referencing.jsonschema import DRAFT202012

    root: Any = Resource[Any].from_contents(schema, default_specification=DRAFT202012)
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
                target: object = found.contents
                if not isinstance(target, Mapping | bool):
                    msg = f"{reference:.300} is no schema"
                    raise TypeError(msg)
                next_one: Any = Resource[Any].from_contents(cast("Any", target), default_specification=DRAFT202012)
                stack.append((found.resolver, next_one))
        stack += [(resolver.in_subresource(each), each) for each in resource.subresources()]


def _inside(schema: object, step: str) -> object:
    if isinstance(schema, list) and step.isdecimal() and len(step) <= _LONGEST_PLACE:
        several = cast("list[object]", schema)
        return several[int(step)] if int(step) < len(several) else None
    return cast("Mapping[str, object]", schema).get(step) if isinstance(schema, Mapping) else None


# --- what is looked at ----------------------------------------------------------


class Looked:
    """What the keywords of a schema look at in a value: the rest is for `unevaluatedProperties`, `unevaluatedItems`.

    Attributes:
        steps: How much was read for it.
    """

    def __init__(self, schema: Schema, root: Schema, *, surely: bool) -> None:
        """Read a schema, and what applies to the same value.

        Args:
            schema: In today's words.
            root: Where its references point.
            surely: Whether to count only what is looked at in any value that is valid; else all that may be.
        """
        self._names: set[str] = set()
        self._places = 0.0
        self._all_names = False
        left, seen = [cast("object", {key: schema[key] for key in schema if key not in UNEVALUATED})], set[int]()
        while left:
            here = left.pop()
            if id(here) in seen or isinstance(here, bool):
                continue
            seen.add(id(here))
            if isinstance(here, Mapping) and len(seen) <= _MOST_LOOKED and _UNREAD.isdisjoint(cast("Schema", here)):
                left += self._read(cast("Schema", here), root, surely=surely)
            elif not surely:
                self._all_names, self._places = True, math.inf
        self.steps = len(seen)

    def __call__(self, where: object) -> bool:
        """Whether the property of that name, or the item in that place, is looked at."""
        if isinstance(where, int):
            return where < self._places
        return self._all_names or where in self._names

    def _read(self, here: Schema, root: Schema, *, surely: bool) -> Iterator[object]:
        """What else applies to the same value."""
        names, items = here.get("properties"), here.get("items")
        if isinstance(names, Mapping):
            self._names.update(cast("Schema", names))
        rest = ("additionalProperties", "unevaluatedProperties", *(() if surely else ("patternProperties",)))
        self._all_names = self._all_names or any(each in here for each in rest)
        first = len(cast("list[Any]", items)) if isinstance(items, list) else math.inf if "items" in here else 0
        rest = ("additionalItems", "unevaluatedItems", *(() if surely else ("contains",)))
        self._places = max(
            self._places, first, len(prefix(here)), math.inf if any(each in here for each in rest) else 0
        )
        if "$ref" in here:
            yield referred(here["$ref"], root)
        for keyword in ("allOf",) if surely else ("allOf", "anyOf", "oneOf"):
            yield from _listed(here.get(keyword, []))
        if not surely:
            yield from (here[each] for each in ("if", "then", "else") if each in here)
            brought = here.get("dependentSchemas")
            yield from cast("Schema", brought).values() if isinstance(brought, Mapping) else ()


UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")
_MOST_LOOKED: Final = 200
_UNREAD: Final = frozenset(("$dynamicRef", "$recursiveRef", "$id", "id", "dependencies", "extends"))
