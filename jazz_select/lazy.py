"""Load a package's public names on first use, so that importing the package is nearly free.

The names stand once, in the package's `__init__.pyi`, which type checkers and documentation read: one line each, `from
home import name as name`. Everyone pays for this module's imports, so it imports only `sys`.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def front(package: str) -> "tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]":
    """Return a package's `__getattr__`, `__dir__` and sorted `__all__` for the names in its stub."""
    module = sys.modules[package]
    with open(f"{module.__path__[0]}/__init__.pyi", encoding="utf-8") as stub:  # noqa: PTH123 - pathlib takes 10 ms
        homes = stub_names(stub.read())

    def load(name: str) -> "Any":
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(homes[name]), name)
        setattr(module, name, value)
        return value

    return load, lambda: sorted({*vars(module), *homes}), sorted(homes, key=lambda name: (name.casefold(), name))


def stub_names(stub: str) -> "Mapping[str, str]":
    """Return each name and its module from a stub of `from home import name as name` lines."""
    words = [line.split() for line in stub.splitlines() if line.startswith("from ")]
    return {line[3]: line[1] for line in words if line[2:3] == ["import"] and line[4:5] == ["as"]}
