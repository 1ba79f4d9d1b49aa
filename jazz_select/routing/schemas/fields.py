"""JSON Schema, as far as it says what a value may be: as draft 2020-12, references followed, alternatives spread out.

Pure, bounded.
"""

import marshal
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, combinations, islice, product, starmap
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
_BESIDE: Final = frozenset(("$ref", "allOf", "if", "dependentSchemas", "anyOf", "oneOf"))
ANNOTATIONS: Final = frozenset(
    (
        *("title", "description", "default", "examples", "$defs", "definitions", "$schema", "$id", "id", "$comment"),
        *("deprecated", "readOnly", "writeOnly", "$anchor"),
    )
)
_NAMED: Final = frozenset(("properties", "$defs", "definitions", "patternProperties", "dependentSchemas"))
_VALUES: Final = frozenset(("const", "default", "enum", "examples"))
_DEEPEST_SHOWN: Final = 20
UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")
_BESIDE_A_REFERENCE: Final = ("$ref", "$defs", "definitions")
_MOST_SEARCHED: Final = 5_000
_LONGEST_PLACE: Final = 6
_BEFORE_2019: Final = re.compile(r"draft-0[3-7]")
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
_UNKNOWN: Final = Alternative("", {}, certain=False)


class Cursor:
    """A schema being read: where its references point, and how much of it may still be looked at."""

    __slots__ = ("dialect", "left", "root")

    def __init__(self, root: Schema, left: int = MOST_PARTS) -> None:
        self.dialect = dialect_of(root)
        self.root = root
        self.left = left

    def is_elsewhere(self, schema: Schema) -> bool:
        """Tell whether a schema is an embedded document with its own references, which are not followed."""
        own = schema.get("$id", schema.get("id"))
        if schema is self.root or not isinstance(own, str) or own.startswith("#"):
            return False
        return any("$ref" in each for each in inner(schema))


def dialect_of(root: Schema) -> str:
    """Return the dialect that a schema declares; "" if it declares none."""
    declared: object = root.get("$schema")
    return declared if isinstance(declared, str) else ""


def alternatives(schema: object, root: Schema, reading: Cursor | None = None) -> list[Alternative]:
    """List the kinds of value that a schema admits; none for `false`, one unknown kind if it cannot be read."""
    reading = reading or Cursor(root)
    found: list[Alternative] = []
    try:
        for alternative in _spread(schema, reading, 0):
            if len(found) >= MOST_ALTERNATIVES or reading.left < 0:
                return [_UNKNOWN]
            found.append(alternative)
    except (TypeError, ValueError, ArithmeticError, RecursionError):  # a schema may be any JSON at all
        return [_UNKNOWN]
    return [_UNKNOWN] if reading.left < 0 else found


# --- spreading -----------------------------------------------------------------


def _spread(schema: object, reading: Cursor, hops: int) -> Iterator[Alternative]:
    if schema is True or schema == {}:
        yield ANYTHING
        return
    if schema is False:
        return
    reading.left -= 1
    if not is_object(schema) or hops > _MOST_HOPS or reading.left < 0 or reading.is_elsewhere(schema):
        yield _UNKNOWN
        return
    yield from _spread_node(normalize_node(schema, reading.dialect), reading, hops)


def _spread_node(known: Schema, reading: Cursor, hops: int) -> Iterator[Alternative]:
    """Yield the alternatives of a schema by the first of these keywords in it; what is left is read again."""
    if known.get("nullable") is True:
        # Without a type beside it: its standard says that this means nothing, who writes it means null.
        yield from _spread(_drop_keywords(known, "nullable"), reading, hops + 1)
        yield Alternative("null", {}, certain=False)
    elif known.get("unevaluatedProperties") is False and not _BESIDE.isdisjoint(known):
        # Before the keywords beside it are joined: which properties count as evaluated depends on them.
        yield from _closed_alternatives(known, reading, hops)
    elif "$ref" in known:
        target = resolve_reference(known["$ref"], reading.root)
        yield from _merge_parts([target, _drop_keywords(known, "$ref")], reading, hops)
    elif isinstance(known.get("allOf"), list):
        yield from _merge_parts([*known["allOf"], _drop_keywords(known, "allOf")], reading, hops)
    elif is_array(known.get("anyOf")) and known["anyOf"]:
        yield from _spread_options(known, "anyOf", reading, hops)
    elif is_array(known.get("oneOf")) and known["oneOf"]:
        yield from _spread_options(known, "oneOf", reading, hops)
    elif "if" in known:
        yield from _conditional(known, reading, hops)
    else:
        yield from _plain(known, reading, hops)


def _closed_alternatives(schema: Schema, reading: Cursor, hops: int) -> Iterator[Alternative]:
    """Yield the alternatives of `unevaluatedProperties: false`, without those that require an undeclared property."""
    rest = _drop_keywords(schema, "unevaluatedProperties")
    # One more than is admitted, so that the caller sees that there are too many.
    found = list(islice(_spread(rest, reading, hops + 1), MOST_ALTERNATIVES + 1))
    declared: set[str] = set()
    are_all_declared = True
    for each in found:
        declared.update(mapping(each.schema.get("properties")))
        are_all_declared &= each.certain and _NAMING.isdisjoint(each.schema)
    for each in found:
        closed = replace(each, certain=False)
        undeclared = names(each.schema.get("required")) - declared if are_all_declared else ()
        if undeclared:
            properties = {**mapping(each.schema.get("properties")), **dict.fromkeys(undeclared, False)}
            closed = replace(closed, schema={**each.schema, "properties": properties})
        if not is_impossible(closed):
            yield closed


_DEPENDENT: Final = ("dependentSchemas", "dependentRequired")


def _plain(schema: Schema, reading: Cursor, hops: int) -> Iterator[Alternative]:
    for keyword in _DEPENDENT:
        if is_object(schema.get(keyword)):
            yield from _dependent(schema, keyword, reading, hops)
            return
    for each in _spread_types(schema):
        if not is_impossible(each):
            yield each


def _drop_keywords(schema: Schema, *keywords: str) -> Schema:
    return {key: value for key, value in schema.items() if key not in keywords and key not in ANNOTATIONS}


def _spread_options(schema: Schema, keyword: str, reading: Cursor, hops: int) -> Iterator[Alternative]:
    """Yield the alternatives of `anyOf` or `oneOf`; of `oneOf` only those that exclude the others are certain."""
    rest = _drop_keywords(schema, keyword)
    options: list[object] = schema[keyword]
    if keyword == "anyOf" or len(options) == 1:
        for option in options:
            yield from _merge_parts([option, rest], reading, hops)
        return
    spread = [list(_merge_parts([option, rest], reading, hops)) for option in options]
    total = sum(map(len, spread))
    if total > MOST_ALTERNATIVES:
        yield _UNKNOWN
        return
    # Every pair of alternatives is compared, so the work is paid for before it is done.
    reading.left -= total**2 // 2
    are_exclusive = reading.left >= 0 and _exclude_each_other(spread)
    for group in spread:
        for each in group:
            yield each if are_exclusive else replace(each, certain=False)


def _exclude_each_other(groups: Sequence[Sequence[Alternative]]) -> bool:
    """Tell whether certainly no value satisfies alternatives of two groups."""
    pairs = chain.from_iterable(product(one, other) for one, other in combinations(groups, 2))
    return all(starmap(_are_disjoint, pairs))


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
    dependents = dict(mapping(schema[keyword]))
    rest = dict(_drop_keywords(schema, keyword))
    if not dependents:
        yield from _merge_parts([rest], reading, hops)
        return
    name = next(iter(dependents))
    required = dependents.pop(name)
    consequence = {"required": required} if keyword == "dependentRequired" else required
    if dependents:
        rest[keyword] = dependents
    yield from _merge_parts([rest, {"type": "object", "required": [name]}, consequence], reading, hops)
    yield from _merge_parts([rest, {"properties": {name: False}}], reading, hops)


def _spread_types(schema: Schema) -> Iterator[Alternative]:
    members: object = schema.get("enum")
    values = members if is_array(members) else None
    if "const" in schema:
        const = schema["const"]
        if values is None or any(equal(const, each) for each in values):
            values = [const]
        else:
            values = []  # a constant that is none of the members leaves nothing
        schema = {key: value for key, value in schema.items() if key != "const"}
    declared: object = schema.get("type")
    named: list[Any] = []
    if declared is not None:
        named = declared if is_array(declared) else [declared]
    types = [each for each in named if isinstance(each, str) and each in TYPES]
    if len(types) < len(named) or (declared is not None and not named):
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
    limiting = [part for part in parts if part is not True and part != {}]
    if len(limiting) < 2:  # noqa: PLR2004 - with one part there is nothing to join
        yield from _spread(limiting[0] if limiting else True, reading, hops + 1)
        return
    merged = [ANYTHING]
    for part in limiting:
        spread = list(_spread(part, reading, hops + 1))
        # Before they are multiplied: a few parts with a few alternatives each would otherwise become millions.
        if len(merged) * len(spread) > MOST_ALTERNATIVES:
            yield _UNKNOWN
            return
        reading.left -= len(merged) * len(spread)
        possible: list[Alternative] = []
        for one, other in product(merged, spread):
            both = _merge_alternatives(one, other)
            if both is not None and not is_impossible(both):
                possible.append(both)
        merged = possible
    yield from merged


def _merge_alternatives(one: Alternative, other: Alternative) -> Alternative | None:
    if one is ANYTHING:
        return other
    if other is ANYTHING:
        return one
    types = {one.sure_type, other.sure_type} - {""}
    if types == {"number", "integer"}:
        types = {"integer"}
    if len(types) > 1:
        return None
    guess = "" if types else one.type or other.type
    a, b = _apply_undeclared(one.schema, other.schema), _apply_undeclared(other.schema, one.schema)
    exact = a is not None and b is not None
    ours, theirs = a or one.schema, b or other.schema
    whole: dict[str, Any] = {}
    for keyword in dict.fromkeys((*one.schema, *other.schema)):
        left, right = ours.get(keyword, _NONE), theirs.get(keyword, _NONE)
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
    kind = next(iter(types), guess)
    return Alternative(kind, whole, certain=exact and one.certain and other.certain, guessed=bool(guess))


_NONE: Final = object()


def _apply_undeclared(own: Schema, other: Schema) -> Schema | None:
    """Apply the rule for undeclared properties to the other schema's properties; None if patterns decide."""
    if "additionalProperties" not in own and "patternProperties" not in own:
        return own
    if "patternProperties" in own or "patternProperties" in other:
        return None if own.get("patternProperties") is not None or other.get("patternProperties") is not None else own
    properties = mapping(own.get("properties"))
    undeclared = [name for name in mapping(other.get("properties")) if name not in properties]
    if not undeclared:
        return own
    return {**own, "properties": {**properties, **dict.fromkeys(undeclared, own["additionalProperties"])}}


def _are_disjoint(one: Alternative, other: Alternative) -> bool:
    """Tell whether certainly no value satisfies both: by type, listed values, or a required property."""
    types = {one.sure_type, other.sure_type}
    if "" not in types and len(types) == 2 and types != {"number", "integer"}:  # noqa: PLR2004 - both, and not the same
        return True
    if _lists_apart(one.schema, other.schema):
        return True
    if types != {"object"}:
        return False
    # Such as a union's tag: at least one side requires it, and the two sides share no value for it.
    ours, theirs = mapping(one.schema.get("properties")), mapping(other.schema.get("properties"))
    required = names(one.schema.get("required")) | names(other.schema.get("required"))
    for name in required & ours.keys() & theirs.keys():
        part, other_part = ours[name], theirs[name]
        if is_object(part) and is_object(other_part) and _lists_apart(part, other_part):
            return True
    return False


def _lists_apart(one: Schema, other: Schema) -> bool:
    ours, theirs = _listed_values(one), _listed_values(other)
    if ours is None or theirs is None or len(ours) + len(theirs) > MOST_PARTS:
        return False
    known = set(map(known_by, ours))
    return not any(known_by(each) in known for each in theirs)


def _listed_values(schema: Schema) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    members: object = schema.get("enum")
    return members if is_array(members) else None


def is_impossible(each: Alternative) -> bool:
    """Tell whether certainly no value is of this alternative; its parts are not examined."""
    own = each.schema
    refused: object = own.get("not")
    if own.get("enum") == [] or refused in (True, {}):
        return True
    if is_object(refused) and list(refused) == ["type"] and each.sure_type:
        refused_types = _as_list(refused["type"])
        if each.sure_type in refused_types:
            return True
    if not LIMITING.isdisjoint(own) and is_empty_range(own, each.sure_type):
        return True
    if each.sure_type == "array":
        least = own.get("minItems") or 0
        return own.get("items") is False and is_number(least) and least > len(prefix(own))
    if each.sure_type != "object":
        return False
    properties = mapping(own.get("properties"))
    undeclared = True
    if _OPEN.isdisjoint(own):
        undeclared = own.get("additionalProperties", own.get("unevaluatedProperties", True))
    return any(properties.get(name, undeclared) is False for name in names(own.get("required")))


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
    if own == kind or (own, kind) == ("integer", "number"):
        return True
    return kind == "integer" and isinstance(value, float) and value.is_integer()


def mapping(value: object) -> Mapping[str, object]:
    """Return a mapping as it is, and an empty one for any other value."""
    return value if is_object(value) else {}


def declares(schema: Schema) -> bool:
    """Tell whether a schema names properties of an object; without names, any is allowed."""
    return any(part is not False for part in mapping(schema.get("properties")).values())


def names(value: object) -> set[str]:
    """Return the strings in a list; none if the value is no list."""
    if not is_array(value):
        return set()
    return {each for each in value if isinstance(each, str)}


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
    if not is_object(schema):
        return Shape({}, complete=False)
    plain: Any = schema
    try:
        content = marshal.dumps(plain, _WITHOUT_REFERENCES)
    except ValueError:  # too deep, or not of plain values
        return _shape(schema)
    if len(content) > _LONGEST_KEPT:
        return _shape(schema)
    return _shape_of(content)


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
    needed = [frozenset(names(each.get("required"))) for each in objects]
    always = frozenset[str].intersection(*needed)
    # Drop a set that contains another one: whatever satisfies it satisfies the smaller set too.
    least = [each for each in dict.fromkeys(needed) if not any(other < each for other in needed)]
    fields: dict[str, tuple[object, bool]] = {}
    for name, different in _parts_by_name(objects).items():
        if different:
            fields[name] = _any_of(different), name in always
    return Shape(
        fields=fields,
        needed=tuple(least) if len(least) <= _MOST_SETS else (always,),
        others=tuple(others),
        complete=all(map(declares, objects)),
    )


def _parts_by_name(objects: Sequence[Schema]) -> dict[str, list[object]]:
    """Return the different schemas of each property; none for one that no object may have."""
    parts: dict[str, list[object]] = {}
    keys: dict[int, object] = {}

    def key(part: object) -> object:
        if id(part) not in keys:  # the same part stands in many alternatives
            keys[id(part)] = known_by(part)
        return keys[id(part)]

    def is_among(part: object, others: list[object]) -> bool:
        return any(part is other or key(part) == key(other) for other in others)

    for each in objects:
        for name, part in mapping(each.get("properties")).items():
            different = parts.setdefault(str(name), [])
            if part is not False and not is_among(part, different):
                different.append(part)
    return parts


def _any_of(parts: list[object]) -> object:
    return parts[0] if len(parts) == 1 else {"anyOf": parts}


def fields(schema: object) -> dict[str, tuple[object, bool]]:
    """Return the properties of an object and whether each is required; other values are one field, `result`."""
    found = shape(schema)
    if found is not None:
        return dict(found.fields)
    if not alternatives(schema, mapping(schema)):
        return {}  # no value at all
    return {RESULT: (schema, True)}


RESULT: Final = "result"
"""What a value that is no object is called among the fields of a context."""


def prompt_schema(schema: object, depth: int = 0) -> Any:
    """Return a schema for a prompt, without what says nothing to a caller.

    It lacks generated titles, empty defaults and `additionalProperties: false`; calls are checked against the whole
    schema.
    """
    if depth > _DEEPEST_SHOWN:
        return schema
    if is_array(schema):
        return [prompt_schema(each, depth + 1) for each in schema]
    if not is_object(schema):
        return schema
    shown: dict[str, Any] = {}
    for key, part in schema.items():
        if key in _NAMED and is_object(part):
            # Its keys are names of fields, which may be called "title" or "default".
            shown[key] = {name: prompt_schema(each, depth + 1) for name, each in part.items()}
        elif not _says_nothing(key, part):
            shown[key] = part if key in _VALUES else prompt_schema(part, depth + 1)
    return shown


def _says_nothing(key: str, part: object) -> bool:
    if key == "title":
        return isinstance(part, str)
    if key == "default":
        return part in (None, "", [], {})
    return key == "additionalProperties" and part is False


def type_text(schema: object, root: Schema, reading: Cursor | None = None) -> str:
    """Describe a type in a few words: `string`, `integer or null`, `array of string`, `"a" or "b"`."""
    found = alternatives(schema, root, reading)[:4]
    return " or ".join(dict.fromkeys(map(_in_words, found))) or "nothing"


def _in_words(alternative: Alternative) -> str:
    values = alternative.schema.get("enum")
    if is_array(values):
        shown: list[str] = []
        for value in values[:4]:
            text = f'"{value}"' if isinstance(value, str) else str(value)
            shown.append(text[:40])
        return " or ".join(shown)
    items: object = alternative.schema.get("items")
    if alternative.type == "array" and is_object(items):
        inner: object = items.get("type")
        return f"array of {inner}" if isinstance(inner, str) else "array"
    return alternative.type or "anything"


# --- older drafts in the keywords of draft 2020-12 -------------------------------


def normalize_node(schema: Schema, dialect: str) -> dict[str, Any]:
    """Return one schema node, without its parts, in the keywords of draft 2020-12.

    Keywords of older drafts are recognized by their form. OpenAPI's `nullable` is a keyword of no draft; without a
    `type` beside it, it stays: its standard does not define that case.
    """
    own = dict(schema)
    if _BEFORE_2019.search(dialect):
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
        types = _as_list(own["type"])
        own["type"] = types if "null" in types else [*types, "null"]
    return own


def _bounds(own: dict[str, Any]) -> None:
    """Draft 4 and OpenAPI 3.0: a bound with a separate flag for exclusion."""
    for bound, excluded in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        is_excluded: object = own.get(excluded)
        if isinstance(is_excluded, bool):
            del own[excluded]
            if is_excluded and bound in own:
                own[excluded] = own.pop(bound)
    if "divisibleBy" in own:
        own.setdefault("multipleOf", own.pop("divisibleBy"))


def _convert_tuples(own: dict[str, Any]) -> None:
    """Convert lists of item schemas, as drafts before 2020-12 have them."""
    rest = own.pop("additionalItems", None)
    if isinstance(own.get("items"), list):
        first = own.pop("items")
        if first:  # draft 2020-12 admits no empty list of items
            own["prefixItems"] = first
        if rest is not None:
            own["items"] = rest


def _convert_dependencies(own: dict[str, Any]) -> None:
    """Convert `dependencies`, which until draft 7 held both dependent names and dependent schemas."""
    dependencies = own.pop("dependencies", None)
    for name, dependent in mapping(dependencies).items():
        required = [dependent] if isinstance(dependent, str) else dependent  # draft 3 allowed a single name
        keyword = "dependentRequired" if is_array(required) else "dependentSchemas"
        own[keyword] = {**mapping(own.get(keyword)), name: required}


def _draft_3(own: dict[str, Any]) -> None:
    extended = own.pop("extends", None)
    if extended is not None:
        own["allOf"] = [*_as_list(own.get("allOf", [])), *_as_list(extended)]
    refused = own.pop("disallow", None)
    if refused is not None:
        refusals = _as_schemas(refused)
        if "not" in own:
            refusals.insert(0, own["not"])
        own["not"] = {"anyOf": refusals}
    types: object = own.get("type")
    if is_array(types) and any(map(is_object, types)):
        del own["type"]
        own["allOf"] = [*_as_list(own.get("allOf", [])), {"anyOf": _as_schemas(types)}]


def _convert_required(own: dict[str, Any]) -> None:
    """Draft 3: each property says whether it is required."""
    if "required" in own and not isinstance(own["required"], list):
        del own["required"]
    required: list[str] = []
    for name, part in mapping(own.get("properties")).items():
        if is_object(part) and part.get("required") is True:
            required.append(name)
    if required:
        own["required"] = list(dict.fromkeys([*own.get("required", []), *required]))


def _as_schemas(types: object) -> list[Any]:
    """Return a mixed list of types and schemas (draft 3) as schemas."""
    schemas: list[Any] = []
    for each in _as_list(types):
        schemas.append(each if is_object(each) else {"type": each})
    return schemas


def _as_list(value: object) -> list[Any]:
    return list(cast("Sequence[Any]", value)) if isinstance(value, list | tuple) else [value]


# --- two schemas ----------------------------------------------------------------


def merge_keyword(keyword: str, one: Any, other: Any) -> tuple[Any, bool]:
    """Merge one keyword that two schemas have; return what holds for both, and whether that is complete."""
    if keyword in _MERGED and is_object(one) and is_object(other):
        merged: dict[str, Any] = {**one, **other}
        for name in one.keys() & other.keys():
            merged[name] = all_of(one[name], other[name])
        return merged, True
    if keyword in _JOINED and is_array(one) and is_array(other):
        return _JOINED[keyword](one, other), True
    if keyword in _BOUNDS and is_number(one) and is_number(other):
        return _BOUNDS[keyword](one, other), True
    if keyword in _EACH:
        return _EACH[keyword](one, other), True
    return one, keyword in _NOT_MERGED or equal(one, other)


def _in_both(one: Sequence[object], other: Sequence[object]) -> list[object]:
    known = set(map(known_by, other))
    return [each for each in one if known_by(each) in known]


def all_of(one: object, other: object) -> object:
    """Build a schema of what both admit."""
    if one is False or other is False:
        return False
    if one is True or one == {}:
        return other
    if other is True or other == {} or one is other:
        return one
    return {"allOf": [one, other]}


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
_NOT_MERGED: Final = ANNOTATIONS | {"type", "prefixItems"}


def items_of_both(one: Schema, other: Schema) -> dict[str, Any]:
    """Combine what two schemas say of the items of an array."""
    longest = max(len(prefix(one)), len(prefix(other)))
    found: dict[str, Any] = {"items": all_of(one.get("items", True), other.get("items", True))}
    if longest:
        found["prefixItems"] = [all_of(item_at(one, place), item_at(other, place)) for place in range(longest)]
    return found


def prefix(schema: Schema) -> list[Any]:
    """Return the schemas of the first items of an array, one each."""
    first: object = schema.get("prefixItems")
    return first if is_array(first) else []


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
        return ("is", value)  # Python takes true for 1
    if is_object(value):
        return frozenset((key, known_by(each)) for key, each in value.items())
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
    low: tuple[float, int] = (-math.inf, 0)
    high: tuple[float, int] = (math.inf, 0)
    # The shift makes tuples comparable: of two equal bounds the exclusive one is stricter.
    for keyword, shift in (("minimum", 0), ("exclusiveMinimum", 1)):
        limit: Any = schema.get(keyword)
        if is_number(limit):
            low = max(low, (limit, shift))
    for keyword, shift in (("maximum", 0), ("exclusiveMaximum", -1)):
        limit = schema.get(keyword)
        if is_number(limit):
            high = min(high, (limit, shift))
    return low, high


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
    if reference not in ("#", "") and not reference.startswith("#/"):  # an anchor, which may stand anywhere
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
        if is_object(here):
            yield here
            stack += [value for key, value in here.items() if key not in _VALUES]
        elif is_array(here):
            stack += here


def _step_into(schema: object, step: str) -> object:
    if is_array(schema) and step.isdecimal() and len(step) <= _LONGEST_PLACE:
        place = int(step)
        return schema[place] if place < len(schema) else None
    return schema.get(step) if is_object(schema) else None
