"""What libraries make anew at each call, and these tests need once a process: it costs more than what is tested.

Certificates are read from a file of many for each client, and no client of a test speaks TLS; the command line's parser
is built for each command; the engine in memory copies what is plain JSON as if it could be anything, and looks for the
words that two texts share one after the other.
"""

import copy
import ssl
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

_PLAIN = frozenset({str, int, float, bool, type(None)})


def copied(value: Any) -> Any:
    """A deep copy, quick for what is plain JSON."""
    kind: Any = value.__class__
    if kind in _PLAIN:
        return value
    if kind is dict:
        return {key: each if type(each) in _PLAIN else copied(each) for key, each in value.items()}
    if kind is list:
        return [each if type(each) in _PLAIN else copied(each) for each in value]
    return copy.deepcopy(value)


def sparse_dot(query: Any, vector: Any) -> Any:
    """The product of two sparse vectors whose places are in order; None where they share no place."""
    own = dict(zip(query.indices, query.values, strict=True))
    if own.keys().isdisjoint(vector.indices):
        return None
    total = 0.0
    for place, value in zip(vector.indices, vector.values, strict=True):
        if place in own:
            total += own[place] * value
    return total


_OF: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "typer.testing": ("_get_command", cache),
    "qdrant_client.local.local_collection": ("deepcopy", lambda _: copied),
    "qdrant_client.local.sparse_distances": ("sparse_dot_product", lambda _: sparse_dot),
    "qdrant_client.embed.schema_parser": ("deepcopy", lambda _: copied),
}
"""The name to replace in each module that may be loaded, and what makes the other out of it."""


class Once:
    """What was replaced, to be put back."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []
        self._left = dict(_OF)

    def install(self) -> None:
        """From now on certificates are read once."""
        self._replace(ssl, "create_default_context", cache)

    def look(self) -> None:
        """Replace what stands in modules that were loaded since."""
        for module in [each for each in self._left if each in sys.modules]:
            self._replace(sys.modules[module], *self._left.pop(module))

    def remove(self) -> None:
        """As it was."""
        while self._undo:
            setattr(*self._undo.pop())

    def _replace(self, module: Any, name: str, other: Any) -> None:
        was = getattr(module, name)
        self._undo.append((module, name, was))
        setattr(module, name, other(was))
