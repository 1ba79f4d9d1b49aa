"""What others wrote, as data: bounded, without what cannot be seen, and told whose words it is."""

from collections.abc import Mapping
from typing import Any, Final, cast

import orjson

from jazz_select.json_values import is_array, is_object, with_texts
from jazz_select.routing.question import JOINERS, is_visible
from jazz_select.routing.schemas.fields import inner
from jazz_select.text import at_word, cut, json_line

LONGEST_DESCRIPTION: Final = 1_000
"""Characters of a tool's description that are shown."""
_LONGEST_PARAMETER: Final = 300
LARGEST_SCHEMA: Final = 20_000
"""Bytes of a schema that is shown with all that it says of its parts."""
_DEEPEST: Final = 40
_WORDS = frozenset(("description", "title"))
_UNSAID = frozenset(("$comment", "examples", "deprecated", "x-mcp-header"))
BY_NAME = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))
"""Where a schema has names of its writer's own."""
_AS_IT_IS = frozenset(("enum", "const", "default", "pattern", "required", "$ref", "dependentRequired"))


def plain_text(text: str) -> str:
    """Put a text on one line, and remove invisible characters."""
    return " ".join("".join(char for char in text if char.isspace() or _is_seen(char)).split())


def _is_seen(char: str) -> bool:
    if char.isascii():
        return char.isprintable()
    return char in JOINERS or is_visible(char)


def description_of(text: str) -> str:
    """Cut a tool's description to one line of bounded length."""
    return at_word(plain_text(text), LONGEST_DESCRIPTION)


def in_its_words(server: str, text: str) -> str:
    """Quote a description for a list that a model reads, with the server it is from; it cannot close the quotes."""
    description = description_of(text)
    whose = f"A tool of the MCP server {json_line(server)}"
    return (
        f"{whose}, which says of it: {json_line(description)}" if description else f"{whose}, which says nothing of it."
    )


def plain_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema of the same meaning whose texts are bounded and visible.

    A large one says nothing in words; one that is still too large says only what it requires.
    """
    shown = cast("dict[str, Any]", _part(schema, described=True, depth=0))
    if len(orjson.dumps(shown, default=str)) > LARGEST_SCHEMA:
        shown = cast("dict[str, Any]", _part(schema, described=False, depth=0))
    if len(orjson.dumps(shown, default=str)) > LARGEST_SCHEMA:
        properties = shown.get("properties")
        names = list(cast("dict[str, Any]", properties))[:200] if isinstance(properties, dict) else []
        left: dict[str, Any] = dict.fromkeys(names, True)
        shown = {
            "type": "object",
            "properties": left,
            "required": [name for name in cast("list[object]", shown.get("required", [])) if name in names],
            "description": "Cut: its schema is too large to be shown.",
        }
    shown.setdefault("type", "object")
    return shown


def _part(schema: object, *, described: bool, depth: int) -> object:
    if is_array(schema):
        return [_part(each, described=described, depth=depth + 1) for each in schema]
    if not is_object(schema) or depth > _DEEPEST:
        return with_texts(schema, _seen_text, depth=depth) if not isinstance(schema, Mapping | list) else {}
    shown: dict[str, object] = {}
    for key, value in schema.items():
        if key in _UNSAID:
            continue
        if key in _WORDS and isinstance(value, str):
            if described:
                shown[key] = cut(plain_text(value), _LONGEST_PARAMETER)
        elif key in _AS_IT_IS:
            shown[key] = with_texts(value, _seen_text, depth=depth)
        elif key in BY_NAME and is_object(value):
            named = value
            shown[key] = {name: _part(each, described=described, depth=depth + 1) for name, each in named.items()}
        else:
            shown[_seen_text(key)] = _part(value, described=described, depth=depth + 1)
    return shown


def _seen_text(text: str) -> str:
    """Return the text without invisible characters, except line ends and tabs."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char for char in text if char in "\t\n\r" or _is_seen(char))


def has_unseen_names(schema: object) -> bool:
    """Tell whether the name of a property has invisible characters; a call could not leave them out."""
    properties = (part.get("properties") for part in inner(schema))
    names = (name for each in properties if is_object(each) for name in each)
    return any(not all(map(_is_seen, name)) for name in names)
