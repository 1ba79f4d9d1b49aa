"""Tools for the tests of names and plans."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    name: str
    id: str = ""
    provider: str = ""
    operation: str = ""
    capabilities: tuple[str, ...] = ()
    input_schema: dict[str, Any] = field(default_factory=dict[str, Any])
    destructive: bool = False
    function: Callable[..., object] | None = None


def listed(*names: str) -> list[Listed]:
    """Tools of these names; a name that ends in `!` destroys something."""
    return [Listed(name=name.removesuffix("!"), destructive=name.endswith("!")) for name in names]


def needing(*required: str, optional: Iterable[str] = ()) -> dict[str, Any]:
    """A schema of inputs."""
    return {"type": "object", "properties": {name: {} for name in (*required, *optional)}, "required": list(required)}
