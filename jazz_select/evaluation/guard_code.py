"""The code of guards, whose digest tells whether a guard was edited."""

import hashlib
from types import CodeType
from typing import Any, Final, cast

from jazz_select.flow.base import BaseFlow

_MOST_READ: Final = 12


def codes_of(flow: BaseFlow) -> list[CodeType]:
    """Return the code of a flow's guard and of functions that it calls by name; none without a guard or code."""
    if not flow.has_guard:
        return []
    guard: Any = flow.available
    queue: list[Any] = [getattr(guard, "__func__", guard)]
    found: list[CodeType] = []
    while queue and len(found) < _MOST_READ:
        function = queue.pop(0)
        code = getattr(function, "__code__", None)
        if not isinstance(code, CodeType) or code in found:
            continue
        found.append(code)
        for name in code.co_names:
            called = function.__globals__.get(name)
            if callable(called):
                queue.append(called)
    return found


def guard_digest(flow: BaseFlow) -> str:
    """Return a digest of the guard, independent of its file's path; empty without a guard."""
    if not flow.has_guard:
        return ""
    code = "\n".join(map(_render, codes_of(flow)))
    return hashlib.sha256(code.encode(errors="surrogatepass")).hexdigest()[:16]


def _render(code: CodeType) -> str:
    constants = [_constant(each) for each in code.co_consts]
    return f"{code.co_code.hex()} {constants} {code.co_names} {code.co_varnames}"


def _constant(value: Any) -> str:
    if isinstance(value, CodeType):  # its `repr` has an address and the path of its file
        return _render(value)
    if isinstance(value, frozenset):  # its order differs from one process to the next
        return str(sorted(map(repr, cast("frozenset[Any]", value))))
    return repr(value)
