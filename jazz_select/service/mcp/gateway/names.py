"""What tools of several servers are called: `server.tool`, of safe characters, and the same as long as this runs."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final, cast

from jazz_select.routing.tools.tool import Tool
from jazz_select.service.mcp.gateway.servers_file import ServerSpec

LONGEST: Final = 128
"""Characters of a tool's name by the protocol."""
MOST_NAMES: Final = 20_000
"""Names that one server may be given as long as this runs: one that invents new ones without end gets no more."""
_MARK: Final = 8
"""Characters of a hash that tell two names apart which would look the same."""
_SAID: Final = frozenset(("title", "description", "default", "enum", "const", "examples", "$comment"))
"""Parts of a schema whose texts a server may write a secret into."""
_BY_NAME: Final = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))
_DEEPEST: Final = 200
_APART = re.compile(r"[^A-Za-z0-9_.-]+")


class GivenNames:
    """Names that are given once: whatever a server lists later, a name that was given stands for what it stood for.

    A name that had to be changed has a hash of its own in it, so that no server can choose to be called as another's
    tool, or as one of ours.
    """

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        """Take the names that nobody else may have."""
        self._holders: dict[str, tuple[str, str]] = {name.casefold(): ("", name) for name in reserved}
        self._given: dict[tuple[str, str], str] = {}
        self._count: Counter[str] = Counter()

    def reserve(self, names: Iterable[str]) -> None:
        """Names of tools of one's own, which no server's tool is given from now on."""
        for name in names:
            self._holders.setdefault(name.casefold(), ("", name))

    def of(self, spec: ServerSpec, tool: str) -> str:
        """What a server's tool is called here; empty where the server has been given more names than any needs."""
        key = (spec.name, tool)
        if key not in self._given:
            self._count[spec.name] += 1
            if self._count[spec.name] > MOST_NAMES:
                return ""
            name = self._free(spec, tool)
            self._holders[name.casefold()] = key
            self._given[key] = name
        return self._given[key]

    def _free(self, spec: ServerSpec, tool: str) -> str:
        plain = _APART.sub("_", spec.without_secrets(tool))
        name = f"{spec.prefix}{plain}"
        if plain == tool and len(name) <= LONGEST and name.casefold() not in self._holders:
            return name
        mark = sha256(f"{spec.name}\n{tool}".encode(errors="replace")).hexdigest()
        width = _MARK
        while True:
            found = f"{name[: LONGEST - width - 1]}-{mark[:width]}"
            if found.casefold() not in self._holders:
                return found
            width += 1


def named(spec: ServerSpec, tools: Iterable[Tool], names: GivenNames) -> Mapping[str, Tool]:
    """A server's tools by what they are called here; of two that it lists by one name, the first."""
    found: dict[str, Tool] = {}
    for tool in tools:
        name = names.of(spec, tool.name)
        if name and name not in found:
            about, schema = spec.without_secrets(tool.description), _without_secrets(spec, tool.input_schema)
            found[name] = replace(tool, name=name, id="", description=about, title="", input_schema=schema)
    return found


def _without_secrets(spec: ServerSpec, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema in which no secret of its server stands, whoever wrote it there."""
    return cast("dict[str, Any]", _hidden(spec, schema, 0)) if spec.secrets else schema


def _hidden(spec: ServerSpec, part: object, depth: int) -> object:
    """What is said in a part of a schema, without secrets; what it means stays, whatever the secrets are."""
    if depth > _DEEPEST:
        return True
    if isinstance(part, list):
        return [_hidden(spec, each, depth + 1) for each in cast("list[object]", part)]
    if not isinstance(part, Mapping):
        return part
    shown: dict[str, object] = {}
    for key, value in cast("Mapping[str, object]", part).items():
        if key in _BY_NAME and isinstance(value, Mapping):
            named_parts = cast("Mapping[str, object]", value)
            shown[key] = {name: _hidden(spec, each, depth + 2) for name, each in named_parts.items()}
        else:
            shown[key] = (_all_hidden if key in _SAID else _hidden)(spec, value, depth + 1)
    return shown


def _all_hidden(spec: ServerSpec, value: object, depth: int) -> object:
    """A value in which no text holds a secret."""
    if isinstance(value, str):
        return spec.without_secrets(value)
    if depth > _DEEPEST:
        return None
    if isinstance(value, list):
        return [_all_hidden(spec, each, depth + 1) for each in cast("list[object]", value)]
    if isinstance(value, Mapping):
        known = cast("Mapping[str, object]", value)
        return {spec.without_secrets(name): _all_hidden(spec, each, depth + 1) for name, each in known.items()}
    return value
