"""JSON Schema, as far as it says what a value may be: in today's words, references followed, alternatives spread out.

Pure, bounded.
"""

import marshal
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations, islice, product
from typing import Any, Final, TypeAlias, cast
from urllib.parse import unquote

import orjson

from jazz_select.json_values import is_array, is_object
from jazz_select.values import is_number

Schema = Mapping[str, Any]

TYPES: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
MOST_ALTERNATIVES: Final = 64
MOST_PARTS: Final = 2_000
"""References and alternatives that are followed for one question: circles of alternatives grow without end."""
_MOST_HOPS: Final = 32
_MOST_SETS: Final = 8
_ELSEWHERE: Final = frozenset(("$dynamicRef", "$recursiveRef"))
_OPEN: Final = _ELSEWHERE | {"patternProperties"}
_NAMING: Final = frozenset(("additionalProperties", "unevaluatedProperties", "patternProperties"))
_ITEMS: Final = frozenset(("items", "prefixItems"))
_SPREADING: Final = ("anyOf", "oneOf")
_BESIDE: Final = ("$ref", "allOf", "if", "dependentSchemas", *_SPREADING)
ANNOTATIONS: Final = frozenset(
    (
        *("title", "description", "default", "examples", "$defs", "definitions", "$schema", "$id", "id", "$comment"),
        *("deprecated", "readOnly", "writeOnly", "$anchor"),
    )
)
_NAMED: Final = frozenset(("properties", "$defs", "definitions", "patternProperties", "dependentSchemas"))
_VALUES: Final = frozenset(("const", "default", "enum", "examples"))
_DEEPEST_TOLD: Final = 20
UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")
_BESIDE_A_REFERENCE: Final = ("$ref", "$defs", "definitions")
_MOST_SEARCHED: Final = 5_000
_LONGEST_PLACE: Final = 6
_OLDER: Final = frozenset(
    (
        *("nullable", "additionalItems", "dependencies", "divisibleBy", "extends", "disallow"),
        *("items", "exclusiveMinimum", "exclusiveMaximum", "required", "properties"),
    )
)
"""Keywords that are no more, or were said in other ways."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """One of the kinds of value that a schema admits. Every admitted value belongs to at least one alternative.

    Attributes:
        type: A JSON type, or "" for any.
        schema: Its keywords in draft 2020-12; `const` as an `enum` of one.
        certain: False if it may admit more than the schema, which uses keywords that are not interpreted here.
        guessed: Whether the type was inferred from keywords, since the schema names none.
    """

    type: str
    schema: Schema
    certain: bool = True
    guessed: bool = False

    @property
    def sure_type(self) -> str:
        """The type that the schema names; "" where a value of another one is admitted, too."""
        return "" if self.guessed else self.type


ANYTHING: Final = Alternative("", {})
_WHO_KNOWS: Final = Alternative("", {}, certain=False)


class Cursor:
    """A schema being read: where its references point, and how much of it may still be looked at."""

    __slots__ = ("dialect", "left", "root")

    def __init__(self, root: Schema, left: int = MOST_PARTS) -> None:
        said = root.get("$schema")
        self.dialect = said if isinstance(said, str) else ""
        self.root = root
        self.left = left

    def is_elsewhere(self, schema: Schema) -> bool:
        """Tell whether a schema is an embedded document with its own references, which are not followed."""
        own = schema.get("$id", schema.get("id"))
        if schema is self.root or not isinstance(own, str) or own.startswith("#"):
            return False
        return next((True for each in inner(schema) if "$ref" in each), False)


def alternatives(schema: object, root: Schema, reading: Cursor | None = None) -> list[Alternative]:
    """List the kinds of value that a schema admits; none for `false`, one unknown kind if it cannot be read."""
    reading = reading or Cursor(root)
    found: list[Alternative] = []
    try:
        for alternative in _spread(schema, reading, 0):
            if len(found) >= MOST_ALTERNATIVES or reading.left < 0:
                return [_WHO_KNOWS]
            found.append(alternative)
    except (TypeError, ValueError, ArithmeticError, RecursionError):  # a schema may be any JSON at all
        return [_WHO_KNOWS]
    return [_WHO_KNOWS] if reading.left < 0 else found


# --- spreading -----------------------------------------------------------------


def _spread(schema: object, reading: Cursor, hops: int) -> Iterator[Alternative]:
    if schema is True or schema == {}:
        yield ANYTHING
        return
    if schema is False:
        return
    reading.left -= 1
    unread = not isinstance(schema, Mapping) or hops > _MOST_HOPS or reading.left < 0
    if unread or reading.is_elsewhere(cast("Schema", schema)):
        yield _WHO_KNOWS
        return
    known = node_in_todays_words(cast("Schema", schema), reading.dialect)
    if known.get("nullable") is True:
        # Without a type beside it: its standard says that this means nothing, who writes it means null.
        yield from _spread(_drop_keywords(known, "nullable"), reading, hops + 1)
        yield Alternative("null", {}, certain=False)
    elif known.get("unevaluatedProperties") is False and any(each in known for each in _BESIDE):
        yield from _closed_alternatives(known, reading, hops)
    elif "$ref" in known:
        target = resolve_reference(known["$ref"], reading.root)
        yield from _merge_parts([target, _drop_keywords(known, "$ref")], reading, hops)
    elif isinstance(known.get("allOf"), list):
        yield from _merge_parts([*known["allOf"], _drop_keywords(known, "allOf")], reading, hops)
    elif keyword := next((each for each in _SPREADING if isinstance(known.get(each), list) and known[each]), ""):
        yield from _spread_options(known, keyword, reading, hops)
    elif "if" in known:
        yield from _conditional(known, reading, hops)
    else:
        yield from _plain(known, reading, hops)


def _closed_alternatives(schema: Schema, reading: Cursor, hops: int) -> Iterator[Alternative]:
    """Yield the alternatives of `unevaluatedProperties: false`, without those that require an undeclared property."""
    ways = list(
        islice(_spread(_drop_keywords(schema, "unevaluatedProperties"), reading, hops + 1), MOST_ALTERNATIVES + 1)
    )
    named = {name for each in ways for name in mapping(each.schema.get("properties"))}
    is_told = all(each.certain and _NAMING.isdisjoint(each.schema) for each in ways)
    for each in ways:
        strange = dict.fromkeys(names(each.schema.get("required")) - named, False) if is_told else {}
        known = {**each.schema, "properties": {**mapping(each.schema.get("properties")), **strange}}
        if not is_impossible(closed := replace(each, schema=known if strange else each.schema, certain=False)):
            yield closed


_DEPENDENT: Final = ("dependentSchemas", "dependentRequired")


def _plain(schema: Schema, reading: Cursor, hops: int) -> Iterator[Alternative]:
    if keyword := next((each for each in _DEPENDENT if isinstance(schema.get(each), Mapping)), ""):
        yield from _dependent(schema, keyword, reading, hops)
    else:
        yield from (each for each in _spread_types(schema) if not is_impossible(each))


def _drop_keywords(schema: Schema, *keywords: str) -> Schema:
    return {key: value for key, value in schema.items() if key not in keywords and key not in ANNOTATIONS}


def _spread_options(schema: Schema, keyword: str, reading: Cursor, hops: int) -> Iterator[Alternative]:
    """Yield the alternatives of `anyOf` or `oneOf`; of `oneOf` only those that exclude the others are certain."""
    rest = _drop_keywords(schema, keyword)
    options = cast("list[object]", schema[keyword])
    if keyword == "anyOf" or len(options) == 1:
        for option in options:
            yield from _merge_parts([option, rest], reading, hops)
        return
    spread = [list(_merge_parts([option, rest], reading, hops)) for option in options]
    if sum(map(len, spread)) > MOST_ALTERNATIVES:
        yield _WHO_KNOWS
        return
    reading.left -= sum(map(len, spread)) ** 2 // 2
    pairs = (pair for mine, others in combinations(spread, 2) for pair in product(mine, others))
    alone = reading.left >= 0 and all(_are_disjoint(*pair) for pair in pairs)
    for each in (one for group in spread for one in group):
        yield each if alone else replace(each, certain=False)


def _conditional(schema: Schema, reading: Cursor, hops: int) -> Iterator[Alternative]:
    rest = _drop_keywords(schema, "if", "then", "else")
    if "then" not in schema and "else" not in schema:
        # It admits all that the rest does, and still names what may be there.
        yield from _merge_parts([rest], reading, hops)
        yield from _merge_parts([rest, schema["if"]], reading, hops)
        return
    yield from _merge_parts([rest, schema["if"], schema.get("then", True)], reading, hops)
    yield from _merge_parts([rest, schema.get("else", True), {"not": schema["if"]}], reading, hops)


def _dependent(schema: Schema, keyword: str, reading: Cursor, hops: int) -> Iterator[Alternative]:
    """Yield, for each name in turn, the case with it and what it requires, and the case without it."""
    given = dict(cast("Schema", schema[keyword]))
    rest = _drop_keywords(schema, keyword)
    if not given:
        yield from _merge_parts([rest], reading, hops)
        return
    name = next(iter(given))
    needed = given.pop(name)
    brought = {"required": needed} if keyword == "dependentRequired" else needed
    rest = {**rest, keyword: given} if given else rest
    yield from _merge_parts([rest, {"type": "object", "required": [name]}, brought], reading, hops)
    yield from _merge_parts([rest, {"properties": {name: False}}], reading, hops)


def _spread_types(schema: Schema) -> Iterator[Alternative]:
    given = schema.get("enum")
    values = given if is_array(given) else None
    if "const" in schema:
        const = schema["const"]
        # A constant that is none of the members leaves nothing.
        values = [const] if values is None or any(equal(const, each) for each in values) else []
        schema = {key: value for key, value in schema.items() if key != "const"}
    said = schema.get("type")
    named: list[Any] = said if is_array(said) else [said]
    if said is None:
        named = []
    types = [each for each in named if isinstance(each, str) and each in TYPES]
    if len(types) < len(named) or (said is not None and not named):
        # A type that no draft knows: it may be any.
        yield Alternative("object" if "properties" in schema else "", schema, certain=False, guessed=True)
        return
    certain = _ELSEWHERE.isdisjoint(schema)
    if values is None:
        for each in types:
            yield Alternative(each, schema, certain=certain)
        if not types:
            guessed = _guessed_type(schema)
            yield Alternative(guessed, schema, certain=certain, guessed=bool(guessed))
        return
    for each in types or dict.fromkeys(map(type_of, values)):
        fitting = [value for value in values if is_a(value, each)]
        if fitting:
            yield Alternative(each, {**schema, "enum": fitting}, certain=certain)


def _guessed_type(schema: Schema) -> str:
    """Return the type that the keywords of a schema without a type are for; empty if for none."""
    if "properties" in schema:
        return "object"
    return "" if _ITEMS.isdisjoint(schema) else "array"


# --- joining -------------------------------------------------------------------


def _merge_parts(parts: Sequence[object], reading: Cursor, hops: int) -> Iterator[Alternative]:
    told = [part for part in parts if part is not True and part != {}]
    if len(told) < 2:  # noqa: PLR2004 - with one part there is nothing to join
        yield from _spread(told[0] if told else True, reading, hops + 1)
        return
    whole = [ANYTHING]
    for part in told:
        spread = list(_spread(part, reading, hops + 1))
        if len(whole) * len(spread) > MOST_ALTERNATIVES:
            yield _WHO_KNOWS
            return
        reading.left -= len(whole) * len(spread)
        pairs = [_merge_alternatives(one, other) for one in whole for other in spread]
        whole = [each for each in pairs if each is not None and not is_impossible(each)]
    yield from whole


def _merge_alternatives(one: Alternative, other: Alternative) -> Alternative | None:
    if one is ANYTHING or other is ANYTHING:
        return other if one is ANYTHING else one
    types = {one.sure_type, other.sure_type} - {""}
    if types == {"number", "integer"}:
        types = {"integer"}
    if len(types) > 1:
        return None
    guess = "" if types else one.type or other.type
    a, b = _apply_undeclared(one.schema, other.schema), _apply_undeclared(other.schema, one.schema)
    exact = a is not None and b is not None
    whole: dict[str, Any] = {}
    for keyword in dict.fromkeys((*one.schema, *other.schema)):
        left, right = (a or one.schema).get(keyword, _NONE), (b or other.schema).get(keyword, _NONE)
        if keyword in UNEVALUATED or (keyword == "additionalProperties" and not exact):
            # What it says depends on the part that it stands in: it is left out, and an object is as open as it was.
            exact = exact and keyword not in UNEVALUATED
            if False not in (left, right):
                whole.setdefault("patternProperties", {})
        elif left is _NONE or right is _NONE:
            whole[keyword] = right if left is _NONE else left
        else:
            whole[keyword], same = merge_keyword(keyword, left, right)
            exact = exact and same
    if not _ITEMS.isdisjoint(one.schema) and not _ITEMS.isdisjoint(other.schema):
        whole |= items_of_both(one.schema, other.schema)
    return Alternative(
        next(iter(types), guess), whole, certain=exact and one.certain and other.certain, guessed=bool(guess)
    )


_NONE: Final = object()


def _apply_undeclared(own: Schema, other: Schema) -> Schema | None:
    """Apply the rule for undeclared properties to the other schema's properties; None if patterns decide."""
    if "additionalProperties" not in own and "patternProperties" not in own:
        return own
    if "patternProperties" in own or "patternProperties" in other:
        return own if own.get("patternProperties") == other.get("patternProperties") is None else None
    properties = mapping(own.get("properties"))
    more = own["additionalProperties"]
    strange = {name: more for name in mapping(other.get("properties")) if name not in properties}
    return {**own, "properties": {**properties, **strange}} if strange else own


def _are_disjoint(one: Alternative, other: Alternative) -> bool:
    """Tell whether certainly no value satisfies both: by type, listed values, or a required property."""
    types = {one.sure_type, other.sure_type}
    if "" not in types and len(types) == 2 and types != {"number", "integer"}:  # noqa: PLR2004 - both, and not the same
        return True
    if _lists_apart(one.schema, other.schema):
        return True
    if types != {"object"}:
        return False
    ours, theirs = mapping(one.schema.get("properties")), mapping(other.schema.get("properties"))
    needed = names(one.schema.get("required")) | names(other.schema.get("required"))
    return any(
        isinstance(ours[name], Mapping)
        and isinstance(theirs[name], Mapping)
        and _lists_apart(cast("Schema", ours[name]), cast("Schema", theirs[name]))
        for name in needed & ours.keys() & theirs.keys()
    )


def _lists_apart(one: Schema, other: Schema) -> bool:
    ours, theirs = _listed_values(one), _listed_values(other)
    if ours is None or theirs is None or len(ours) + len(theirs) > MOST_PARTS:
        return False
    known = set(map(known_by, ours))
    return not any(known_by(each) in known for each in theirs)


def _listed_values(schema: Schema) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    return cast("list[Any]", schema["enum"]) if isinstance(schema.get("enum"), list) else None


def is_impossible(each: Alternative) -> bool:
    """Tell whether certainly no value is of this alternative; its parts are not examined."""
    own = each.schema
    if own.get("enum") == [] or own.get("not") in (True, {}):
        return True
    refused = own.get("not")
    if isinstance(refused, Mapping) and [*cast("Schema", refused)] == ["type"] and each.sure_type:
        kinds: Any = cast("Schema", refused)["type"]
        if each.sure_type in ([kinds] if isinstance(kinds, str) else kinds):
            return True
    if not LIMITING.isdisjoint(own) and is_empty_range(own, each.sure_type):
        return True
    if each.sure_type == "array":
        least = own.get("minItems") or 0
        return own.get("items") is False and is_number(least) and least > len(prefix(own))
    if each.sure_type != "object":
        return False
    properties = mapping(own.get("properties"))
    more = own.get("additionalProperties", own.get("unevaluatedProperties", True))
    more = more if _OPEN.isdisjoint(own) else True
    return any(properties.get(name, more) is False for name in names(own.get("required")))


def type_of(value: object) -> str:
    """Return the JSON type of a value."""
    return "null" if value is None else _JSON_TYPES.get(type(value), "object")


_JSON_TYPES: Final[Mapping[type, str]] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
}


def is_a(value: object, kind: str) -> bool:
    """Tell whether a value is of a type; integers are numbers too, and 1.0 is an integer."""
    own = type_of(value)
    return (
        own == kind
        or (own, kind) == ("integer", "number")
        or (kind == "integer" and isinstance(value, float) and value.is_integer())
    )


def mapping(value: object) -> Mapping[str, object]:
    """Return a mapping as it is, and an empty one for any other value."""
    return value if is_object(value) else {}


def declares(schema: Schema) -> bool:
    """Tell whether a schema names properties of an object; without names, any is allowed."""
    return any(part is not False for part in mapping(schema.get("properties")).values())


def names(value: object) -> set[str]:
    """Return the strings in a list; none if the value is no list."""
    return {each for each in value if isinstance(each, str)} if is_array(value) else set()


# --- fields --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shape:
    """The objects that a schema admits.

    Attributes:
        fields: Their properties, with whether every object has it.
        needed: The required properties, one set for each way to be valid.
        others: Whatever else the schema admits.
        complete: Whether all property names are known.
    """

    fields: Mapping[str, tuple[object, bool]]
    needed: tuple[frozenset[str], ...] = (frozenset(),)
    others: tuple[Alternative, ...] = ()
    complete: bool = True


def shape(schema: object) -> Shape | None:
    """Return the shape of the objects that a schema admits; None if it admits none."""
    if not isinstance(schema, Mapping):
        return Shape({}, complete=False)
    known = cast("Any", schema)
    try:
        content = marshal.dumps(known, _WITHOUT_REFERENCES)
    except ValueError:  # too deep, or not of plain values
        return _shape(known)
    return _shape_of(content) if len(content) <= _LONGEST_KEPT else _shape(known)


_WITHOUT_REFERENCES: Final = 2
"""The version of `marshal` in which equal values have equal bytes; unlike JSON it tells a tuple from a list."""
_LONGEST_KEPT: Final = 16_384
_MOST_KEPT: Final = 1_024


@lru_cache(_MOST_KEPT)
def _shape_of(content: bytes) -> Shape | None:
    """Read a schema once for all turns: by its content, since whoever holds the schema may change it."""
    return _shape(marshal.loads(content))  # noqa: S302 - written above


def _shape(schema: Schema) -> Shape | None:
    objects: list[Schema] = []
    others: list[Alternative] = []
    for found in alternatives(schema, schema):
        if found.type in ("object", ""):
            objects.append(found.schema)
        else:
            others.append(found)
    if not objects:
        return None
    parts: dict[str, list[object]] = {}
    keys: dict[int, object] = {}

    def key(part: object) -> object:
        if id(part) not in keys:  # the same part stands in many alternatives
            keys[id(part)] = known_by(part)
        return keys[id(part)]

    for each in objects:
        for name, part in mapping(each.get("properties")).items():
            some = parts.setdefault(str(name), [])
            if part is not False and not any(part is one or key(part) == key(one) for one in some):
                some.append(part)
    needed = [frozenset(names(each.get("required"))) for each in objects]
    always = frozenset[str].intersection(*needed)
    # A set that holds another one is no way of its own: whatever meets it meets the smaller one.
    least = [each for each in dict.fromkeys(needed) if not any(other < each for other in needed)]
    return Shape(
        {name: (_any_of(some), name in always) for name, some in parts.items() if some},
        tuple(least) if len(least) <= _MOST_SETS else (always,),
        tuple(others),
        all(declares(each) for each in objects),
    )


def _any_of(parts: list[object]) -> object:
    return parts[0] if len(parts) == 1 else {"anyOf": parts}


def fields(schema: object) -> dict[str, tuple[object, bool]]:
    """Return the properties of an object and whether each is required; other values are one field, `result`."""
    found = shape(schema)
    if found is None:
        known = cast("Schema", schema)
        return {RESULT: (known, True)} if alternatives(known, known) else {}
    return dict(found.fields)


RESULT: Final = "result"
"""What a value that is no object is called among the fields of a context."""


def told_schema(schema: object, depth: int = 0) -> Any:
    """Return a schema for a prompt, without what says nothing to a caller.

    It lacks generated titles, empty defaults and `additionalProperties: false`; calls are checked against the whole
    schema.
    """
    if depth > _DEEPEST_TOLD:
        return schema
    if is_array(schema):
        return [told_schema(each, depth + 1) for each in schema]
    if not is_object(schema):
        return schema
    told: dict[str, Any] = {}
    for key, part in schema.items():
        if key in _NAMED and is_object(part):
            parts = part
            told[key] = {name: told_schema(each, depth + 1) for name, each in parts.items()}
        elif not _says_nothing(key, part):
            told[key] = part if key in _VALUES else told_schema(part, depth + 1)
    return told


def _says_nothing(key: str, part: object) -> bool:
    return (
        (key == "title" and isinstance(part, str))
        or (key == "default" and part in (None, "", [], {}))
        or (key == "additionalProperties" and part is False)
    )


def type_text(schema: object, root: Schema, reading: Cursor | None = None) -> str:
    """Describe a type in a few words: `string`, `integer or null`, `array of string`, `"a" or "b"`."""
    found = alternatives(schema, root, reading)[:4]
    return " or ".join(dict.fromkeys(map(_in_words, found))) or "nothing"


def _in_words(alternative: Alternative) -> str:
    values = alternative.schema.get("enum")
    if is_array(values):
        shown = [f'"{value}"' if isinstance(value, str) else str(value) for value in values[:4]]
        return " or ".join(each[:40] for each in shown)
    items = alternative.schema.get("items")
    if alternative.type == "array" and isinstance(items, Mapping):
        inner = cast("Schema", items).get("type")
        return f"array of {inner}" if isinstance(inner, str) else "array"
    return alternative.type or "anything"


# --- in today's words -----------------------------------------------------------


def node_in_todays_words(schema: Schema, dialect: str) -> dict[str, Any]:
    """Return one schema node, without its parts, in the keywords of draft 2020-12.

    Keywords of older drafts are recognized by their form. OpenAPI's `nullable` is a keyword of no draft; without a
    `type` beside it, it stays: its standard does not define that case.
    """
    own = dict(schema)
    if any(f"draft-0{number}" in dialect for number in (3, 4, 5, 6, 7)):
        # Until draft 7 nothing counts beside a reference, and nothing is unevaluated.
        kept = _BESIDE_A_REFERENCE if "$ref" in own else own.keys() - UNEVALUATED
        own = {key: value for key, value in own.items() if key in kept}
    if _OLDER.isdisjoint(own) and not isinstance(own.get("type"), list):
        return own
    _bounds(own)
    _convert_tuples(own)
    _convert_dependencies(own)
    _draft_3(own)
    _convert_required(own)
    if dialect or own.get("nullable") is not True:
        own.pop("nullable", None)
    elif isinstance(own.get("type"), str | list):
        del own["nullable"]
        own["type"] = [*_as_list(own["type"]), *(() if "null" in own["type"] else ("null",))]
    return own


def _bounds(own: dict[str, Any]) -> None:
    """Draft 4 and OpenAPI 3.0: a bound with a separate flag for exclusion."""
    for bound, excluded in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        said = own.get(excluded)
        if isinstance(said, bool):
            del own[excluded]
            if said and bound in own:
                own[excluded] = own.pop(bound)
    if "divisibleBy" in own:
        own.setdefault("multipleOf", own.pop("divisibleBy"))


def _convert_tuples(own: dict[str, Any]) -> None:
    """Convert lists of item schemas, as drafts before 2020-12 have them."""
    behind = own.pop("additionalItems", None)
    if isinstance(own.get("items"), list):
        first = own.pop("items")
        if first:  # an empty list is none today
            own["prefixItems"] = first
        if behind is not None:
            own["items"] = behind


def _convert_dependencies(own: dict[str, Any]) -> None:
    """Convert `dependencies`, which until draft 7 held both dependent names and dependent schemas."""
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
        own["allOf"] = [*_as_list(own.get("allOf", [])), *_as_list(extended)]
    refused = own.pop("disallow", None)
    if refused is not None:
        more = _as_schemas(refused)
        own["not"] = {"anyOf": [own["not"], *more] if "not" in own else more}
    types = own.get("type")
    if is_array(types) and any(isinstance(each, Mapping) for each in types):
        del own["type"]
        own["allOf"] = [*_as_list(own.get("allOf", [])), {"anyOf": _as_schemas(cast("object", types))}]


def _convert_required(own: dict[str, Any]) -> None:
    """Draft 3: each property says whether it is required."""
    if "required" in own and not isinstance(own["required"], list):
        del own["required"]
    properties = own.get("properties")
    if isinstance(properties, Mapping):
        needed = [name for name, part in cast("Schema", properties).items() if mapping(part).get("required") is True]
        if needed:
            own["required"] = list(dict.fromkeys([*own.get("required", []), *needed]))


def _as_schemas(types: object) -> list[Any]:
    """Return a mixed list of types and schemas (draft 3) as schemas."""
    return [each if isinstance(each, Mapping) else {"type": each} for each in _as_list(types)]


def _as_list(value: object) -> list[Any]:
    return list(cast("Sequence[Any]", value)) if isinstance(value, list | tuple) else [value]


# --- two schemas ----------------------------------------------------------------


def merge_keyword(keyword: str, one: Any, other: Any) -> tuple[Any, bool]:
    """Merge one keyword that two schemas have; return what holds for both, and whether that is complete."""
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


def _in_both(one: Sequence[object], other: Sequence[object]) -> list[object]:
    known = set(map(known_by, other))
    return [each for each in one if known_by(each) in known]


def all_of(one: object, other: object) -> object:
    """Build a schema of what both admit."""
    if one is False or other is False:
        return False
    if one is True or one == {}:
        return other
    return one if other is True or other == {} or one is other else {"allOf": [one, other]}


_Joined: TypeAlias = Callable[[Any, Any], Any]
_JOINED: Final[Mapping[str, _Joined]] = {
    "required": lambda one, other: list(dict.fromkeys(map(str, [*one, *other]))),
    "enum": _in_both,
}
_EACH: Final[Mapping[str, _Joined]] = {
    **dict.fromkeys(("additionalProperties", "propertyNames", "items"), all_of),
    "not": lambda one, other: {"anyOf": [one, other]},
    "uniqueItems": lambda one, other: one is True or other is True,
}
_MERGED: Final = ("properties", "patternProperties")
_BOUNDS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}
LIMITING: Final = frozenset(_BOUNDS)
_SAID_ONCE: Final = ANNOTATIONS | {"type", "prefixItems"}


def items_of_both(one: Schema, other: Schema) -> dict[str, Any]:
    """Combine what two schemas say of the items of an array."""
    longest = max(len(prefix(one)), len(prefix(other)))
    found: dict[str, Any] = {"items": all_of(one.get("items", True), other.get("items", True))}
    if longest:
        found["prefixItems"] = [all_of(item_at(one, place), item_at(other, place)) for place in range(longest)]
    return found


def prefix(schema: Schema) -> list[Any]:
    """Return the schemas of the first items of an array, one each."""
    return cast("list[Any]", schema["prefixItems"]) if isinstance(schema.get("prefixItems"), list) else []


def item_at(schema: Schema, place: int) -> object:
    """Return the schema of one item of an array."""
    first = prefix(schema)
    return first[place] if place < len(first) else schema.get("items", True)


def equal(one: object, other: object) -> bool:
    """Compare two values as JSON: 1 and 1.0 are equal, 1 and true are not."""
    return one is other or known_by(one) == known_by(other)


def known_by(value: object) -> object:
    """Build a hashable key that is the same for values that are equal in JSON."""
    if isinstance(value, bool | None):
        return ("is", value)
    if isinstance(value, Mapping):
        return frozenset((key, known_by(each)) for key, each in cast("Schema", value).items())
    if isinstance(value, list | tuple):
        return tuple(known_by(each) for each in cast("Sequence[object]", value))
    return value


def canonical_json(value: object) -> bytes:
    """Serialise a value with sorted keys, its numbers as written; empty if it is no JSON."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (TypeError, orjson.JSONEncodeError):
        return b""


def refers(schema: bytes) -> bool:
    """Tell whether a serialised schema has references; its meaning then depends on its root."""
    return any(each in schema for each in _REFERRING)


_REFERRING: Final = (b'"$ref"', b'"$dynamicRef"', b'"$recursiveRef"')


COUNTED: Final[Mapping[str, tuple[str, str]]] = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}
"""What counts the characters, items or properties of a type."""


def number_range(schema: Schema) -> tuple[tuple[float, int], tuple[float, int]]:
    """Return the minimum and the maximum of a number, each with a shift of +1 or -1 if it is exclusive."""
    low = max(_limit_of(schema, "minimum", -math.inf, 0), _limit_of(schema, "exclusiveMinimum", -math.inf, 1))
    high = min(_limit_of(schema, "maximum", math.inf, 0), _limit_of(schema, "exclusiveMaximum", math.inf, -1))
    return low, high


def _limit_of(schema: Schema, keyword: str, otherwise: float, excluded: int) -> tuple[float, int]:
    limit: Any = schema.get(keyword)
    return (limit, excluded) if is_number(limit) else (otherwise, 0)


def is_empty_range(schema: Schema, kind: str) -> bool:
    """Tell whether the minimum of a type exceeds its maximum, so that no value is valid."""
    if kind in ("integer", "number"):
        low, high = number_range(schema)
        return low > high
    counted = COUNTED.get(kind)
    if counted is None:
        return False
    least, most = schema.get(counted[0]), schema.get(counted[1])
    return is_number(least) and is_number(most) and least > most


# --- references -----------------------------------------------------------------


def resolve_reference(reference: object, root: Schema) -> object:
    """Follow a local reference; return an unknown schema if it points nowhere."""
    here: object = root
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    if reference not in ("#", "") and not reference.startswith("#/"):
        return next((each for each in inner(root) if _is_called(each, reference)), None)
    for name in pointer_names(reference):
        here = _step_into(here, name)
    return here


def pointer_names(reference: str) -> list[str]:
    """Return the names that a local reference such as `#/$defs/a~1b` leads through (RFC 6901, section 6)."""
    return [unquote(each).replace("~1", "/").replace("~0", "~") for each in reference[1:].split("/")[1:]]


def _is_called(schema: Schema, reference: str) -> bool:
    return schema.get("$anchor") == reference[1:] or reference in (schema.get("$id"), schema.get("id"))


def inner(schema: object) -> Iterator[Schema]:
    """Yield every mapping in a schema that may be a schema, up to a bound."""
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
        elif is_array(here):
            stack += here


def _step_into(schema: object, step: str) -> object:
    if is_array(schema) and step.isdecimal() and len(step) <= _LONGEST_PLACE:
        several = schema
        return several[int(step)] if int(step) < len(several) else None
    return schema.get(step) if is_object(schema) else None
