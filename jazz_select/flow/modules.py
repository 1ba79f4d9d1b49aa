"""Which module defined which flows, so that a module that was imported long ago can be loaded again."""

import sys
from types import ModuleType
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from jazz_select.flow.base import BaseFlow

_flows: WeakKeyDictionary[ModuleType, "list[BaseFlow]"] = WeakKeyDictionary()


def remember(flow: "BaseFlow") -> None:
    """Note that the module being executed defined `flow`. A later flow of the same name takes its place."""
    name = flow.origin.module
    # Everything a script does happens while `__main__` is executed, and nobody loads it.
    if not name or name == "__main__":
        return
    flows = _flows.setdefault(sys.modules[name], [])
    flows[:] = [earlier for earlier in flows if not _supersedes(flow, earlier)]
    flows.append(flow)


def defined_in(module: ModuleType) -> list["BaseFlow"]:
    """The flows that executing `module` defined, in order."""
    return list(_flows.get(module, ()))


def _supersedes(flow: "BaseFlow", earlier: "BaseFlow") -> bool:
    return flow.name == earlier.name and flow.home is earlier.home
