"""JSON Schemas out of an OpenAPI document: of OpenAPI 3.0 or 3.1 in, of draft 2020-12 out, each whole by itself.

A reference becomes one into `$defs`, which holds all that is referred to once. So a recursive schema stays finite, and
one whose references fan out does not grow by being written out.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from jazz_select.json_values import is_array, is_object
from jazz_select.routing.tools.openapi.document import ApiDocument, is_seen, seen_text
from jazz_select.text import cut

_MOST_PARTS: Final = 20_000
"""The most schemas in one operation's schema, all that it refers to included."""
_DEEPEST: Final = 60
_LONGEST_DESCRIPTION: Final = 1_000
_BY_NAME: Final = ("properties", "patternProperties", "dependentSchemas")
_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLE: Final = (
    *("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"),
    *("unevaluatedItems", "unevaluatedProperties", "contentSchema"),
)
_LEFT_OUT: Final = frozenset(
    (
        *("discriminator", "xml", "externalDocs", "example", "examples"),
        *("deprecated", "readOnly", "writeOnly", "nullable"),
        *("$schema", "$id", "$anchor", "$dynamicAnchor", "$comment", "$vocabulary", "$defs", "definitions"),
    )
)
"""What says nothing of a value, names other places, or is read elsewhere."""
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_.-]")
_UNREADABLE: Final = ("$dynamicRef", "$recursiveRef")
_BOUNDS: Final = (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum"))


class SchemaReader:
    """Reads the schemas of one operation's input, or of its output, and keeps what they refer to."""

    def __init__(self, document: ApiDocument, *, hidden: str) -> None:
        """Take the document, and the mark of properties that are left out: `readOnly` of an input."""
        self.definitions: dict[str, Any] = {}
        """All that was referred to, by its name in `$defs`."""
        self._document, self._hidden = document, hidden
        self._names: dict[str, str] = {}
        self._waiting: list[tuple[str, object]] = []
        self._parts = 0

    def read(self, schema: object) -> Any:
        """Return a schema as draft 2020-12 has it; what it refers to is in `definitions` then.

        Raises:
            ValueError: It is too large or too deep, or has a reference that cannot be followed.
        """
        read = self._read_part(schema, 0)
        while self._waiting:
            name, part = self._waiting.pop()
            self.definitions[name] = self._read_part(part, 0)
        return read

    def whole(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return a schema that was read, with all that it refers to."""
        if not self.definitions:
            return dict(schema)
        return {**schema, "$defs": dict(sorted(self.definitions.items()))}

    def _read_part(self, schema: object, depth: int) -> Any:
        if isinstance(schema, bool):
            return schema
        if not is_object(schema):
            raise ValueError(f"a schema must be a mapping, got {str(schema)[:60]!r}")
        self._parts += 1
        if depth > _DEEPEST:
            raise ValueError(f"its schema must be nested at most {_DEEPEST} levels deep, got more")
        if self._parts > _MOST_PARTS:
            raise ValueError(f"its schema must have at most {_MOST_PARTS} parts, got more")
        return self._read_object(schema, depth)

    def _read_object(self, own: Mapping[str, Any], depth: int) -> dict[str, Any]:
        for keyword in _UNREADABLE:
            if keyword in own:
                raise ValueError(f"its schema uses {keyword}, which is not followed")
        read: dict[str, Any] = {}
        if "$ref" in own:
            read["$ref"] = self._definition_for(own["$ref"])
            if self._document.version == "3.0":
                return read  # whatever stands beside it is ignored there
        for keyword, value in own.items():
            if keyword == "$ref" or keyword in _LEFT_OUT or keyword.startswith("x-"):
                continue
            read[keyword] = self._value_of(keyword, value, depth)
        if self._document.version == "3.0":
            read = _since_3_0(read, nullable=own.get("nullable") is True)
        self._without_hidden(own, read)
        return read

    def _value_of(self, keyword: str, value: Any, depth: int) -> Any:
        if keyword in _BY_NAME and is_object(value):
            unseen = [name for name in value if not is_seen(name)]
            if unseen:
                raise ValueError(f"its schema has a name with characters that cannot be seen: {unseen[0]!a:.80}")
            return {name: self._read_part(each, depth + 1) for name, each in value.items()}
        if keyword in _LISTS and is_array(value):
            return [self._read_part(each, depth + 1) for each in value]
        if keyword in _SINGLE:
            return self._read_part(cast("object", value), depth + 1)
        if keyword in {"description", "title"} and isinstance(value, str):
            return cut(seen_text(value), _LONGEST_DESCRIPTION)
        return value

    def _definition_for(self, reference: object) -> str:
        key = str(reference)
        if key not in self._names:
            part = self._document.resolve_reference(reference)
            name = _definition_name(key, self._names.values())
            self._names[key] = name
            self._waiting.append((name, part))
        return f"#/$defs/{self._names[key]}"

    def _without_hidden(self, own: Mapping[str, Any], read: dict[str, Any]) -> None:
        """Leave out properties that the other side alone writes, such as an id in what is sent."""
        properties = own.get("properties")
        if not is_object(properties):
            return
        hidden = [name for name, part in properties.items() if is_object(part) and part.get(self._hidden) is True]
        for name in hidden:
            del read["properties"][name]
        if hidden and isinstance(read.get("required"), list):
            read["required"] = [name for name in read["required"] if name not in hidden]


def _since_3_0(read: dict[str, Any], *, nullable: bool) -> dict[str, Any]:
    """Return a schema of OpenAPI 3.0 in the keywords of 2020-12: null as a type, and bounds that exclude as numbers."""
    for flag, bound in _BOUNDS:
        is_exclusive = read.get(flag)
        if isinstance(is_exclusive, bool):
            del read[flag]
            if is_exclusive and bound in read:
                read[flag] = read.pop(bound)
    if not nullable:
        return read
    if isinstance(read.get("type"), str):
        read["type"] = [read["type"], "null"]
        if isinstance(read.get("enum"), list) and None not in read["enum"]:
            read["enum"] = [*read["enum"], None]
        return read
    described = {name: read.pop(name) for name in ("title", "description", "default") if name in read}
    if not read:
        return described  # it admits anything, and so null
    return {**described, "anyOf": [read, {"type": "null"}]}


def _definition_name(reference: str, taken: Sequence[str] | Any) -> str:
    last = reference.rpartition("/")[2]
    plain = _UNFIT.sub("_", last)[:60] or "part"
    known, name, number = set(taken), plain, 1
    while name in known:
        number += 1
        name = f"{plain}_{number}"
    return name
