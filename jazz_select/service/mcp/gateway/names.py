"""What tools of several servers are called: `server.tool`, of safe characters, and the same as long as this runs."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final, cast

import orjson

from jazz_select.routing.tools.tool import Tool
from jazz_select.service.mcp.gateway.servers_file import ServerSpec

LONGEST: Final = 128
"""Characters of a tool's name by the protocol."""
_MARK: Final = 8
"""Characters of a hash that tell two names apart which would look the same."""
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

    def reserve(self, names: Iterable[str]) -> None:
        """Names of tools of one's own, which no server's tool is given from now on."""
        for name in names:
            self._holders.setdefault(name.casefold(), ("", name))

    def of(self, spec: ServerSpec, tool: str) -> str:
        """What a server's tool is called here."""
        key = (spec.name, tool)
        if key not in self._given:
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
        if name not in found:
            about, schema = spec.without_secrets(tool.description), _without_secrets(spec, tool.input_schema)
            found[name] = replace(tool, name=name, id="", description=about, title="", input_schema=schema)
    return found


def _without_secrets(spec: ServerSpec, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema in which no secret of its server stands, whoever wrote it there."""
    text = orjson.dumps(schema).decode()
    shown = text
    for secret in spec.secrets:
        shown = shown.replace(orjson.dumps(secret).decode()[1:-1], "[hidden]")
    return schema if shown == text else cast("dict[str, Any]", orjson.loads(shown))
