"""The same without async, for code that has no event loop: what they return and raise is the same."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from jazz_select.agent.chain import run_chain
from jazz_select.agent.finalizing import finalize
from jazz_select.agent.responding import respond
from jazz_select.errors import ConfigError

P = ParamSpec("P")
T = TypeVar("T")


def in_a_loop(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """`function` as one that runs in an event loop of its own, and so must not be called in one.

    Raises:
        ConfigError: When called where an event loop runs.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(function(*args, **kwargs))
        name = function.__name__
        msg = f"{name}_sync cannot run where an event loop runs already: use 'await {name}(…)' there"
        raise ConfigError(msg)

    return call


run_chain_sync = in_a_loop(run_chain)
"""`run_chain`, without async."""
finalize_sync = in_a_loop(finalize)
"""`finalize`, without async."""
respond_sync = in_a_loop(respond)
"""`respond`, without async."""
