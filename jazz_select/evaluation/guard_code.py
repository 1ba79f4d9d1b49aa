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
    ahead: list[Any] = [getattr(guard, "__func__", guard)]
    found: list[CodeType] = []
    while ahead and len(found) < _MOST_READ:
        each = ahead.pop(0)
        code = getattr(each, "__code__", None)
        if isinstance(code, CodeType) and code not in found:
            found.append(code)
            ahead += [each.__globals__[name] for name in code.co_names if callable(each.__globals__.get(name))]
    return found


def guard_digest(flow: BaseFlow) -> str:
    """Return a digest of the guard, independent of its file's path; empty without a guard."""
    if not flow.has_guard:
        return ""
    code = "\n".join(map(_render, codes_of(flow)))
    return hashlib.sha256(code.encode(errors="surrogatepass")).hexdigest()[:16]


def _render(code: CodeType) -> str:
    constants = [_render(each) if isinstance(each, CodeType) else _constant(each) for each in code.co_consts]
    return f"{code.co_code.hex()} {constants} {code.co_names} {code.co_varnames}"


def _constant(value: Any) -> str:
    return str(sorted(map(repr, cast("frozenset[Any]", value)))) if isinstance(value, frozenset) else repr(value)
