"""Public names of a package that are loaded on first use, so that importing the package costs next to nothing.

The names stand once, in the package's `__init__.pyi`, where type checkers and documentation find them too: one line
each, `from home import name as name`.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple


class Front(NamedTuple):
    """What a package's `__init__` takes from its list of names."""

    getattr: Callable[[str], Any]
    """The module's `__getattr__`: loads a name from its home, once."""
    dir: Callable[[], list[str]]
    """The module's `__dir__`."""
    all: list[str]
    """The module's `__all__`, sorted without regard to case."""


def front(package: str) -> Front:
    """The names that the stub beside a package's `__init__.py` lists."""
    module = sys.modules[package]
    homes = listed(Path(str(module.__file__)).with_name("__init__.pyi").read_text("utf-8"))

    def load(name: str) -> Any:
        if name not in homes:
            msg = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(msg)
        value = getattr(import_module(homes[name]), name)
        setattr(module, name, value)
        return value

    return Front(load, lambda: sorted({*vars(module), *homes}), sorted(homes, key=lambda name: (name.casefold(), name)))


def listed(stub: str) -> Mapping[str, str]:
    """Name to the module that has it, of a stub of `from home import name as name` lines."""
    words = [line.split() for line in stub.splitlines() if line.startswith("from ")]
    return {line[3]: line[1] for line in words if line[2:3] == ["import"] and line[4:5] == ["as"]}
