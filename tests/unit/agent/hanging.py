"""Ways to hang, and how long whoever waits for them has waited, by a clock that no load can slow down."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from jazz_select.threads import in_thread
from tests.clock import StillLoop

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


def timed(hang: Hang, work: Callable[[], Coroutine[Any, Any, T]]) -> tuple[T, float]:
    """What comes of it, and how many seconds it took by a clock that no load can slow down."""
    loop = hang.loop = StillLoop(hang.held)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        result = runner.run(work())
        took_s = loop.now_s
        hang.mend()
        return result, took_s


def timed_alone(work: Coroutine[Any, Any, T]) -> tuple[T, float]:
    """The same of what hangs by itself, so that nothing has to be mended."""
    return timed(Hang(), lambda: work)
