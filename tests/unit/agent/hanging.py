"""Ways to hang, and a clock that shows how long whoever waits has waited: it stands still but where all wait for it."""

import asyncio
import selectors
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from jazz_select.threads import in_thread

T = TypeVar("T")
_PATIENCE_S = 30.0
"""How long a thread is really held at most, where a test breaks off."""


class Hang:
    """What hangs until it is `mended`; then it gives `value`, or what that makes of what it is called with."""

    def __init__(self, value: Any = None) -> None:
        self.value = value
        self.begun = 0
        self.mended = False
        self.held: set[threading.Thread] = set()
        self.loop: StillLoop | None = None
        self._mended = threading.Event()

    def mend(self) -> None:
        """Let go, and hang no more."""
        self.mended = True
        self._mended.set()

    async def hangs(self, *given: Any, **named: Any) -> Any:
        """Until it is cancelled."""
        self.begun += 1
        if not self.mended:
            await asyncio.sleep(1_000_000)
        return self._given(*given, **named)

    async def ignores(self, *given: Any, **named: Any) -> Any:
        """Even if it is cancelled, some times."""
        self.begun += 1
        for _ in range(0 if self.mended else 3):
            try:
                await asyncio.sleep(1_000)
            except asyncio.CancelledError:
                continue
        return self._given(*given, **named)

    def blocks(self, *given: Any, **named: Any) -> Any:
        """The thread that it is called in."""
        self.begun += 1
        self.held.add(threading.current_thread())
        self._mended.wait(_PATIENCE_S)
        self.held.discard(threading.current_thread())
        return self._given(*given, **named)

    async def blocks_a_thread(self, *given: Any, **named: Any) -> Any:
        """A thread of the pool, which whoever is cancelled waits for."""
        return await in_thread(self.blocks, *given, **named)

    def pass_time(self, seconds: float) -> None:
        """Let the clock of a run go on while it works."""
        if self.loop is not None:
            self.loop.now_s += seconds

    def _given(self, *given: Any, **named: Any) -> Any:
        return self.value(*given, **named) if callable(self.value) else self.value


class StillLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to what is due next, where nobody works, and stands still otherwise."""

    def __init__(self, hang: Hang) -> None:
        self.now_s = 0.0
        super().__init__(_Jumps(self, hang))

    def time(self) -> float:
        return self.now_s


class _Jumps(selectors.DefaultSelector):
    """Adds up the time for which it should have waited, once no thread of ours works that is not held."""

    def __init__(self, loop: StillLoop, hang: Hang) -> None:
        super().__init__()
        self._loop = loop
        self._hang = hang

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select(None)
        while not (found := super().select(0)) and timeout > 0:
            at_work = self._is_at_work()
            if (found := super().select(0.001 if at_work else 0)) or not at_work:  # what the last of them left
                break
        if not found:
            self._loop.now_s += max(timeout, 0.0)
        return found

    def _is_at_work(self) -> bool:
        ours = {each for each in threading.enumerate() if each.name.startswith("jazz-select-")}
        return bool(ours - self._hang.held)


def timed(hang: Hang, work: Callable[[], Coroutine[Any, Any, T]]) -> tuple[T, float]:
    """What comes of it, and how many seconds it took by a clock that no load can slow down."""
    loop = hang.loop = StillLoop(hang)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        result = runner.run(work())
        took_s = loop.now_s
        hang.mend()
        return result, took_s


def timed_alone(work: Coroutine[Any, Any, T]) -> tuple[T, float]:
    """The same of what hangs by itself, so that nothing has to be mended."""
    return timed(Hang(), lambda: work)
