"""Waiting for what may block or hang: functions in threads, and tasks that are left behind where they do not end."""

import asyncio
import contextvars
import inspect
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, Final, ParamSpec, TypeVar, cast

from jazz_select.text import describe_error

P = ParamSpec("P")
T = TypeVar("T")
_GRACE_S = 0.2
"""How long what was cancelled has to end."""


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Like `asyncio.to_thread`, but a cancellation takes effect only when the thread is done.

    A thread cannot be stopped. Were it left running, a lock that the caller holds would be released while the
    thread still writes, and the next writer would be overwritten by the one before.
    """
    running = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # looked at, so that nobody is told that it was not
        raise


MOST_HUNG: Final = 8
"""Calls of one plain function that may be left behind and not have come back; more are not begun."""
MOST_RUNNING: Final = 256
"""Calls of one plain function that may run at once: each has a thread of its own."""


class Threaded:
    """A call of a plain function, counted from when it begins in its thread until it comes back.

    Nothing can end a thread. What hangs may only hang so often: then no further call of the function is begun.
    """

    _lock = threading.RLock()
    _running: ClassVar[Counter[int]] = Counter()
    _hung: ClassVar[Counter[int]] = Counter()
    """By the function's id, as long as a thread holds it."""

    def __init__(self, function: Callable[..., object], given: Mapping[str, object]) -> None:
        """Take the function and its arguments by name; whoever makes one says `leave` in the end."""
        self._function, self._given = function, given
        self._begun = self._left = self._ended = False
        self._count(running=1)

    @classmethod
    def refused(cls, function: Callable[..., object]) -> str:
        """Why no further call of it is begun; empty where one may be."""
        with cls._lock:
            running, hung = cls._running[id(function)], cls._hung[id(function)]
        if hung >= MOST_HUNG:
            return f"{hung} earlier calls of it hang; it can be called again when one of them has come back"
        if running >= MOST_RUNNING:
            return f"{running} calls of it are running already; it can be called again when one of them has come back"
        return ""

    def __call__(self) -> object:
        """What it returns, in the thread that this is called in."""
        with self._lock:
            self._begun = True
            if self._left:
                self._count(running=1, hung=1)
        try:
            return self._function(**self._given)
        finally:
            with self._lock:
                self._begun = False
                self._count(running=-1, hung=-self._left)
                self._ended = True

    def leave(self) -> None:
        """Nobody waits for it any more."""
        with self._lock:
            self._left = True
            if self._begun:
                self._count(hung=1)
            elif not self._ended:
                self._count(running=-1)

    def _count(self, *, running: int = 0, hung: int = 0) -> None:
        own = id(self._function)
        with self._lock:
            for counter, more in ((self._running, running), (self._hung, hung)):
                counter[own] += more
                if counter[own] <= 0:
                    del counter[own]


async def in_daemon_thread(function: Callable[[], T], *, name: str) -> T:
    """What `function` returns in a thread of its own, which keeps no process alive and whose caller may leave it.

    A cancelled caller leaves at once; what the thread returns then is heard by nobody. A function that exits ends
    itself, not its caller: `SystemExit` and `KeyboardInterrupt` come back as a RuntimeError.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def fail(error: BaseException) -> None:
        if not future.done():
            future.set_exception(error)

    def succeed(result: T) -> None:
        if not future.done():
            future.set_result(result)

    def work() -> None:
        # The loop may be closed meanwhile: then nobody waits.
        try:
            result = context.run(function)
        except BaseException as raised:  # noqa: BLE001 - all of it is told to the caller
            own = isinstance(raised, Exception) and not isinstance(raised, StopIteration)
            error = raised if own else RuntimeError(describe_error(raised))
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(fail, error)
        else:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(succeed, result)

    threading.Thread(target=work, name=name, daemon=True).start()
    return await future


async def called_within(function: Callable[..., object], *args: object, limit_s: float | None, name: str) -> object:
    """What a caller's own function gives, async or plain, within a time limit.

    A plain one runs in a thread of its own, as it may block; what it gives after the limit is heard by nobody.

    Raises:
        TimeoutError: It gave nothing in time.
    """
    if limit_s is None:
        return await _called(function, args, name)
    task = asyncio.ensure_future(_called(function, args, name))
    if not await ends_within(task, limit_s):
        raise TimeoutError
    return task.result()


async def _called(function: Callable[..., object], args: tuple[object, ...], name: str) -> object:
    given = function(*args) if is_async(function) else await in_daemon_thread(partial(function, *args), name=name)
    return await cast("Awaitable[object]", given) if inspect.isawaitable(given) else given


async def ends_within(task: "asyncio.Task[Any]", limit_s: float | None) -> bool:
    """Wait for a task as long as it may take; one that takes longer, or whose caller is cancelled, is left."""
    try:
        done, _ = await asyncio.wait({task}, timeout=limit_s)
    except asyncio.CancelledError:
        await leave(task)
        raise
    if not done:
        await leave(task)
    return bool(done)


async def leave(task: "asyncio.Task[Any]") -> None:
    """Cancel, and wait a moment: one that swallows it is left behind, and what it says later is nobody's."""
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    task.cancel()
    await asyncio.wait({task}, timeout=_GRACE_S)


def is_async(function: object) -> bool:
    """Whether a call of it waits for something: a coroutine function, or an object whose call is one."""
    inner = function.func if isinstance(function, partial) else function
    own = getattr(type(inner), "__call__", None)  # noqa: B004 - not whether it can be called, but how
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(own)
