"""One call for all who ask the same thing at the same time."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Calls that are under way, by what they ask; a second caller of the same joins instead of asking again.

    A call goes on while anyone waits for it: one caller's cancellation is no other's. When the last has gone, the
    call is cancelled too.
    """

    def __init__(self) -> None:
        self._calls: dict[Hashable, tuple[asyncio.Task[T], list[int]]] = {}

    async def join(self, key: Hashable, start: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of the call for `key`, which `start` makes where none is under way."""
        place = (asyncio.get_running_loop(), key)
        known = self._calls.get(place)
        if known is None or known[0].done():
            task = asyncio.ensure_future(start())
            known = self._calls[place] = (task, [0])
            task.add_done_callback(lambda done: self._forget(place, done))
        task, waiting = known
        waiting[0] += 1
        try:
            return await asyncio.shield(task)
        finally:
            waiting[0] -= 1
            if not waiting[0] and not task.done():
                task.cancel()

    def _forget(self, place: Hashable, task: "asyncio.Task[T]") -> None:
        if self._calls.get(place, (None,))[0] is task:
            del self._calls[place]
        if not task.cancelled():
            task.exception()  # whoever still waits gets it; where nobody does, it was looked at
