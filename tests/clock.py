"""The clock of the tests: it stands still while something works, and jumps where all that is left is to wait.

Every asynchronous test runs on a `StillLoop`, so that a limit strikes since nothing came, and never since the machine
was busy; and half an hour of waiting takes no time. `tests/conftest.py` puts it in. Where a socket, a program or a
thread may still bring something, that is really waited for, up to the limit.
"""

import asyncio
import selectors
import threading
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any

_STEP_S = 0.001
_OURS = "jazz-select-"
_IDLE = ("asyncio_", "jazz_select, waiting")
"""How threads are called that wait for work, or whose work is counted by the loop."""


class StillLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock adds up only what was waited for.

    Where it is known which threads are `held`, all others are waited for however long they take.
    """

    def __init__(self, held: AbstractSet[threading.Thread] | None = None) -> None:
        self.now_s = 0.0
        self.lent = 0
        super().__init__(_Jumps(self, held))

    def time(self) -> float:
        return self.now_s

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """As ever; who works there is known until it has told what came of it."""
        future = super().run_in_executor(executor, func, *args)
        self.lent += 1
        future.add_done_callback(self._back)
        return future

    def _back(self, _: asyncio.Future[Any]) -> None:
        self.lent -= 1


class _Jumps(selectors.DefaultSelector):
    """Adds up the time for which it should have waited."""

    def __init__(self, loop: StillLoop, held: AbstractSet[threading.Thread] | None) -> None:
        super().__init__()
        self._loop = loop
        self._held = held
        self._before = {each for each in _busy() if not each.name.startswith(_OURS)}  # ours are given new work

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select(None)
        if (found := super().select(0)) or timeout <= 0:
            return found
        if self._held is None:
            found = super().select(timeout if self._may_come() else 0)
        while self._held is not None and not found:
            at_work = any(each.name.startswith(_OURS) for each in _busy() - self._held)
            if (found := super().select(_STEP_S if at_work else 0)) or not at_work:  # what the last of them left
                break
        if not found:
            self._loop.now_s += timeout
        return found

    def _may_come(self) -> bool:
        """Whether anything but the clock could wake the loop, apart from its own wire to itself."""
        return bool(self._loop.lent or len(self.get_map()) > 1 or _busy() - self._before)


def _busy() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if not each.name.startswith(_IDLE)}


async def until(holds: Callable[[], object]) -> None:
    """Wait until something holds that other tasks, threads and programs bring about, however long they take."""
    while not holds():
        await asyncio.sleep(0.01)
