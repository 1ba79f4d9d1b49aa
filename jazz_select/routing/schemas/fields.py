"""JSON Schema, as far as it says what a value may be: references followed, alternatives spread out. Pure, bounded."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

Schema = Mapping[str, Any]

TYPES: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
MOST_ALTERNATIVES: Final = 64
_MOST_HOPS: Final = 32
_MOST_PARTS: Final = 2_000
"""References and alternatives that are followed for one question: circles of alternatives grow without end."""
_ELSEWHERE: Final = frozenset(("$dynamicRef", "$recursiveRef"))
_SPREADING: Final = ("anyOf", "oneOf")


@dataclass(frozen=True, slots=True)
class Alternative:
    """One of the kinds of value that a schema admits.

    Attributes:
        type: A JSON type, or "" for any.
        schema: The keywords that hold for it.
        certain: False where the schema says more than is understood here.
    """

    type: str
    schema: Schema
    certain: bool = True


ANYTHING: Final = Alternative("", {})


def alternatives(schema: object, root: Schema) -> list[Alternative]:
    """The kinds of value that a schema admits; none for `false`. What is no schema admits who knows what."""
    found: list[Alternative] = []
    for alternative in _spread(schema, _Root(root), 0):
        found.append(alternative)
        if len(found) > MOST_ALTERNATIVES:
            return [Alternative("", {}, certain=False)]
    return found


@dataclass(slots=True)
class _Root:
    """Where references point, and how many parts may still be looked at."""

    schema: Schema
    left: int = _MOST_PARTS


def _spread(schema: object, root: _Root, hops: int) -> Iterator[Alternative]:
    if schema is True or schema == {}:
        yield ANYTHING
        return
    if schema is False:
        return
    root.left -= 1
    if not isinstance(schema, Mapping) or hops > _MOST_HOPS or root.left < 0:
        yield Alternative("", {}, certain=False)
        return
    known = cast("Schema", schema)
    if "$ref" in known:
        target = referred(known["$ref"], root.schema)
        rest = {key: value for key, value in known.items() if key != "$ref"}
        yield from _merged([target, rest] if _says_more(rest) else [target], root, hops)
        return
    if isinstance(known.get("allOf"), Sequence):
        rest = {key: value for key, value in known.items() if key != "allOf"}
        yield from _merged([*known["allOf"], rest], root, hops)
        return
    for keyword in _SPREADING:
        if isinstance(known.get(keyword), Sequence) and known[keyword]:
            rest = {key: value for key, value in known.items() if key != keyword}
            for option in known[keyword]:
                yield from _merged([option, rest] if _says_more(rest) else [option], root, hops)
            return
    yield from _typed(known)


def _typed(schema: Schema) -> Iterator[Alternative]:
    """By the types it names, or by the values it lists."""
    values = schema["enum"] if isinstance(schema.get("enum"), list) else None
    if "const" in schema:
        values = [schema["const"]]
    said = schema.get("type")
    named = [said] if isinstance(said, str) else list(cast("Sequence[Any]", said)) if isinstance(said, list) else []
    types = [each for each in named if each in TYPES]
    if values is not None and not types:
        types = list(dict.fromkeys(map(type_of, values)))
    if schema.get("nullable") is True and types:
        types.append("null")
    if not types:
        guessed = "object" if "properties" in schema else "array" if "items" in schema else ""
        yield Alternative(guessed, schema, certain=said is None and not _ELSEWHERE & schema.keys())
    for each in types:
        if values is None:
            yield Alternative(each, schema)
        elif fitting := [value for value in values if is_a(value, each)]:
            yield Alternative(each, {**schema, "enum": fitting})


def _merged(parts: Sequence[object], root: _Root, hops: int) -> Iterator[Alternative]:
    """What all parts admit together: keywords joined, where that is plain; else the first part, not for certain."""
    spread = [list(_spread(part, root, hops + 1)) for part in parts]
    if any(not part for part in spread):
        return
    if all(len(part) == 1 for part in spread):
        types = {part[0].type for part in spread} - {""}
        if len(types) > 1:
            types -= {"number"} if types == {"number", "integer"} else set()
        if len(types) > 1:
            return
        yield Alternative(next(iter(types), ""), _joined([part[0].schema for part in spread]), _all_certain(spread))
        return
    several = max(spread, key=len)
    for alternative in several:
        others = [part[0] for part in spread if part is not several and len(part) == 1]
        fitting = all(other.type in ("", alternative.type) for other in others)
        if fitting:
            joined = _joined([alternative.schema, *(other.schema for other in others)])
            certain = alternative.certain and len(others) == len(spread) - 1 and all(each.certain for each in others)
            yield Alternative(alternative.type, joined, certain)


def _all_certain(spread: Sequence[Sequence[Alternative]]) -> bool:
    return all(each.certain for part in spread for each in part)


def _joined(schemas: Sequence[Schema]) -> Schema:
    whole: dict[str, Any] = {}
    for schema in schemas:
        for key, value in schema.items():
            if key == "properties" and isinstance(value, Mapping):
                whole[key] = {**whole.get(key, {}), **cast("Schema", value)}
            elif key == "required" and isinstance(value, list):
                whole[key] = [*whole.get(key, []), *cast("list[Any]", value)]
            else:
                whole[key] = value
    return whole


_ANNOTATIONS: Final = frozenset(
    ("title", "description", "default", "examples", "$defs", "definitions", "$schema", "$id", "$comment", "deprecated")
)


def _says_more(schema: Schema) -> bool:
    return not schema.keys() <= _ANNOTATIONS


def referred(reference: object, root: Schema) -> object:
    """What a local reference points at; something of which nothing is known where it points nowhere."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    here: object = root
    for part in reference[1:].split("/")[1:]:
        here = _inside(here, part.replace("~1", "/").replace("~0", "~"))
    return here


def _inside(schema: object, step: str) -> object:
    return cast("Mapping[str, object]", schema).get(step) if isinstance(schema, Mapping) else None


def type_of(value: object) -> str:
    """The JSON type of a value."""
    return "null" if value is None else _JSON_TYPES.get(type(value), "object")


_JSON_TYPES: Final[Mapping[type, str]] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
}


def is_a(value: object, kind: str) -> bool:
    """Whether a value is of a type; whole numbers are numbers too, and 1.0 is a whole number."""
    own = type_of(value)
    return (
        own == kind
        or (own, kind) == ("integer", "number")
        or (kind == "integer" and isinstance(value, float) and value.is_integer())
    )


def fields(schema: object) -> dict[str, tuple[object, bool]]:
    """An object's properties with whether each is required; what is no object is one field, `result`."""
    if not isinstance(schema, Mapping):
        return {}
    known = cast("Schema", schema)
    found = alternatives(known, known)
    if len(found) != 1 or found[0].type not in ("object", ""):
        return {RESULT: (known, True)} if found else {}
    own = found[0].schema
    properties = own.get("properties")
    if not isinstance(properties, Mapping):
        return {}  # an object of fields that are not told: what it holds is known when it is there
    required = own.get("required")
    needed = (
        {each for each in cast("list[Any]", required) if isinstance(each, str)}
        if isinstance(required, list)
        else set[str]()
    )
    return {str(name): (part, name in needed) for name, part in cast("Mapping[Any, object]", properties).items()}


RESULT: Final = "result"
"""What a value that is no object is called among the fields of a context."""


def type_text(schema: object, root: Schema) -> str:
    """A type in a few words, for people and models: `string`, `integer or null`, `array of string`, `"a" or "b"`."""
    found = alternatives(schema, root)[:4]
    return " or ".join(dict.fromkeys(map(_in_words, found))) or "nothing"


def _in_words(alternative: Alternative) -> str:
    values = alternative.schema.get("enum")
    if isinstance(values, list):
        shown = [f'"{value}"' if isinstance(value, str) else str(value) for value in cast("list[Any]", values)[:4]]
        return " or ".join(each[:40] for each in shown)
    items = alternative.schema.get("items")
    if alternative.type == "array" and isinstance(items, Mapping):
        inner = cast("Schema", items).get("type")
        return f"array of {inner}" if isinstance(inner, str) else "array"
    return alternative.type or "anything"
