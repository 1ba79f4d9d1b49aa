"""Tools for the tests of names and plans."""

from collections.abc import Iterable
from typing import Any

from jazz_select.routing.tools.tool import Tool


def listed(*names: str) -> list[Tool]:
    """Tools of these names; a name that ends in `!` destroys something."""
    return [Tool(name=name.removesuffix("!"), destructive=name.endswith("!")) for name in names]


def needing(*required: str, optional: Iterable[str] = ()) -> dict[str, Any]:
    """A schema of inputs."""
    return {"type": "object", "properties": {name: {} for name in (*required, *optional)}, "required": list(required)}
