"""Public names of a package that are loaded on first use, so that importing the package costs next to nothing."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's `__getattr__` for these names.

    Args:
        package: The module's own name.
        homes: Name to the module that has it, seen from the package: `flow.base`, or `.errors` for its neighbour.
    """

    def load(name: str) -> Any:
        if name not in homes:
            msg = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(msg)
        value = getattr(import_module(f".{homes[name]}", package), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
