"""Waiting for what may block or hang: within limits, in threads, and leaving behind what does not end."""

import asyncio
import contextvars
import inspect
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, ClassVar, Final, ParamSpec, TypeVar, cast

from jazz_select.errors import HungError
from jazz_select.text import describe_error

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])
_GRACE_S: Final = 0.2
"""How long what was cancelled has to end."""
_LATE_S: Final = 0.03
"""How long after a budget is spent the last of what it was for is left behind."""
_OUTER_S: Final = 0.01
"""How much longer than what it is made of a whole waits, so that each part can say itself that it was late."""
_TICK_S: Final = 0.001
"""Nobody starts anything in less than this."""
_ENDS: Final = "self_bounded"
_NAMED: Final = "jazz-select-"
_WAITING: Final = "jazz_select, waiting"
_IDLE_S: Final = 10.0
_MOST_IDLE: Final = 32
_AT_ONCE: Final = (list, deque, set, asyncio.Queue, asyncio.Event, asyncio.Future)
"""Whose methods never block, such as `events.append`; those of asyncio must be called on their loop anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """A moment on the loop's clock by which something is to be there; `limit_s` is None where it may take for ever."""

    limit_s: float | None
    at: float | None

    @classmethod
    def after(cls, limit_s: float | None) -> "Deadline":
        """That many seconds from now."""
        return cls(limit_s=limit_s, at=None if limit_s is None else _now() + limit_s)

    @property
    def left_s(self) -> float | None:
        """Seconds until then; below 0 afterwards."""
        return None if self.at is None else self.at - _now()

    def earlier(self, other: "Deadline") -> "Deadline":
        """Whichever comes first."""
        return other if other.at is not None and (self.at is None or other.at < self.at) else self


class TimeBudget:
    """The time for all that is done in a block, and in the tasks and threads that are started there.

    Whoever waits, waits no longer than it lasts, and begins nothing once it is spent. One within another lasts no
    longer than that one. What was started in a block and outlives it is bound no more: a worker that somebody's tool
    starts must not stop for ever since one turn took too long.

    Attributes:
        deadline: When it is spent.
        waited_for: What was being waited for then, or not begun any more, in words; empty where nobody had to stop.
        over: Whether its block has ended.
    """

    def __init__(self, deadline: Deadline) -> None:
        """Take when it is spent."""
        self.deadline = deadline
        self.waited_for = ""
        self.over = False

    @property
    def limit(self) -> str:
        """How long it is, as people write it."""
        return f"{self.deadline.limit_s or 0.0:g} s"

    @property
    def is_spent(self) -> bool:
        """Whether there is no time left."""
        left_s = self.deadline.left_s
        return left_s is not None and left_s < _TICK_S

    def rest_s(self, late_s: float = 0.0) -> float | None:
        """How long may be waited; once it is spent, what is left of the moment in which all is left behind."""
        left_s = self.deadline.left_s
        if left_s is None:
            return None
        return max(left_s + (late_s if left_s >= _TICK_S else _LATE_S), 0.0)

    def stopped(self, waiting_for: str) -> None:
        """Somebody had to stop: the first of them is what the time was spent on."""
        self.waited_for = self.waited_for or waiting_for


_budget: contextvars.ContextVar[TimeBudget | None] = contextvars.ContextVar("jazz_select_budget", default=None)


def current_budget() -> TimeBudget | None:
    """The budget of whatever is going on, if it has one."""
    budget = _budget.get()
    return None if budget is None or budget.over else budget


def spent_budget() -> TimeBudget | None:
    """The budget of whatever is going on, where there is no time left."""
    budget = current_budget()
    return budget if budget is not None and budget.is_spent else None


@contextmanager
def time_budget(limit_s: float | None) -> Generator[TimeBudget]:
    """All that is done in this block takes no longer than that; None for as long as it likes."""
    outer, deadline = current_budget(), Deadline.after(limit_s)
    budget = TimeBudget(deadline if outer is None else deadline.earlier(outer.deadline))
    token = _budget.set(None if budget.deadline.at is None else budget)
    try:
        yield budget
    finally:
        _budget.reset(token)
        budget.over = True


def _now() -> float:
    """The running loop's clock, by which it waits; without a loop, that of the machine."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return monotonic()


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
    """Calls of plain functions, each known from when it is made until its thread has come back.

    Nothing can end a thread. What hangs may only hang so often: then no further call of the function is begun.
    """

    _lock: ClassVar[threading.Lock] = threading.Lock()
    _calls: ClassVar[dict[tuple[int, ...], set["Threaded"]]] = {}
    """By what they are calls of."""

    def __init__(self, function: Callable[[], object], of: object) -> None:
        """Take what to call, once and in a thread, and what it is a call of."""
        self._function, self._of, self._key = function, of, _identity(of)
        self.is_left = False
        """Whether nobody waits for it any more."""
        with self._lock:
            self._calls.setdefault(self._key, set()).add(self)

    @classmethod
    def refused(cls, of: object, most_running: int | None = None) -> str:
        """Why no further call of it is begun; empty where one may be."""
        with cls._lock:
            calls = cls._calls.get(_identity(of), set())
            running, hung = len(calls), sum(each.is_left for each in calls)
        if hung >= MOST_HUNG:
            return f"{hung} earlier calls of it hang; it can be called again when one of them has come back"
        if most_running is not None and running >= most_running:
            return f"{running} calls of it are running already; it can be called again when one of them has come back"
        return ""

    def __call__(self) -> object:
        """What it returns."""
        try:
            return self._function()
        finally:
            self.forget()

    def forget(self) -> None:
        """It has come back, or was never begun."""
        with self._lock:
            calls = self._calls.get(self._key, set())
            calls.discard(self)
            if not calls:
                self._calls.pop(self._key, None)


def _identity(of: object) -> tuple[int, ...]:
    """Equal for what is the same function: a method is made anew each time that somebody looks for it."""
    inner = _inner(of)
    return (id(inner.__self__), id(inner.__func__)) if inspect.ismethod(inner) else (id(inner),)


async def in_daemon_thread(function: Callable[[], T], *, name: str, context: contextvars.Context | None = None) -> T:
    """What `function` returns in a thread of its own, which keeps no process alive and may be left behind.

    A cancelled caller leaves at once; what the thread returns then is heard by nobody. A function that exits ends
    itself, not its caller: `SystemExit` and `KeyboardInterrupt` come back as a RuntimeError.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    here = contextvars.copy_context() if context is None else context

    def fail(error: BaseException) -> None:
        if not future.done():
            future.set_exception(error)

    def succeed(result: T) -> None:
        if not future.done():
            future.set_result(result)

    def work() -> None:
        # The loop may be closed meanwhile: then nobody waits.
        try:
            result = here.run(function)
        except BaseException as raised:  # noqa: BLE001 - all of it is told to the caller
            own = isinstance(raised, Exception) and not isinstance(raised, StopIteration)
            error = raised if own else RuntimeError(describe_error(raised))
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(fail, error)
        else:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(succeed, result)

    _Worker.does(work, name)
    return await future


class _Worker(threading.Thread):
    """A thread that waits a while for more once it has come back: to start one holds the loop up until it runs.

    A thread for each call made a selection with one guard a third slower (.60 → .80 ms), and more on a busy machine.
    """

    idle: ClassVar["deque[_Worker]"] = deque()

    @classmethod
    def does(cls, work: Callable[[], None], name: str) -> None:
        """Have it done by one that waits, else by a new one."""
        try:
            worker, is_new = cls.idle.pop(), False
        except IndexError:
            worker, is_new = cls(daemon=True), True
        worker.name = name  # from now on it is at work
        worker.given.put(work)
        if is_new:
            worker.start()

    def __init__(self, *, daemon: bool) -> None:
        super().__init__(daemon=daemon)
        self.given: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def run(self) -> None:
        """Do what is given, until for a while nothing is."""
        while True:
            try:
                work = self.given.get(timeout=_IDLE_S)
            except Empty:
                with suppress(ValueError):  # it has just been taken for something
                    self.idle.remove(self)
                    return
                continue
            work()
            del work  # and all that it holds
            self.name = _WAITING
            if len(self.idle) >= _MOST_IDLE:
                return
            self.idle.append(self)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Worker.idle.clear)  # a fork has none of the threads


def self_bounded(function: F) -> F:
    """Mark an async function of our own: all that it waits for ends in time, and so it does."""
    vars(function)[_ENDS] = True
    return function


async def run_with_timeout(
    function: Callable[..., object], *args: object, limit_s: float | None, name: str, of: object = None
) -> object:
    """What a caller's own function gives, async or plain, within a time limit, and within what is left of a budget.

    A plain one runs in a thread of its own, as it may block; what it gives after the limit is heard by nobody. What it
    sets in context variables its caller finds there, as if it had been called right here.

    Args:
        function: The function.
        args: What it is given.
        limit_s: Seconds that it may take; None for any time.
        name: The name of its thread.
        of: What it is a call of, where it was made for this one call: of this so many may hang.

    Raises:
        TimeoutError: It gave nothing in time.
        HungError: So many earlier calls of it hang that it was not called.
        RuntimeError: It was cancelled from within: only a cancellation of the caller passes as one.
    """
    try:
        if limit_s is None and (current_budget() is None or getattr(_inner(function), _ENDS, False)):
            return await run_unbounded(function, *args, name=name, of=of)
        return await _within(run_unbounded(function, *args, name=name, of=of), limit_s, what=name.removeprefix(_NAMED))
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RuntimeError(f"{name.removeprefix(_NAMED)} was cancelled from within") from error


async def run_unbounded(
    function: Callable[..., object], *args: object, name: str, of: object = None, most_running: int | None = None
) -> object:
    """What a caller's own function gives, as `run_with_timeout` does, for as long as it takes."""
    if is_async(function) or isinstance(getattr(function, "__self__", None), _AT_ONCE):
        given = function(*args)
    else:
        given = await _in_own_thread(partial(function, *args), name, function if of is None else of, most_running)
    return await cast("Awaitable[object]", given) if inspect.isawaitable(given) else given


async def _in_own_thread(function: Callable[[], object], name: str, of: object, most_running: int | None) -> object:
    if refusal := Threaded.refused(of, most_running):
        raise HungError(refusal)
    context, call = contextvars.copy_context(), Threaded(function, of)
    try:
        given = await in_daemon_thread(call, name=name, context=context)
    except asyncio.CancelledError:
        call.is_left = True
        raise
    except Exception:
        call.forget()  # where no thread could be started for it
        raise
    _take_over(context)
    return given


def _take_over(context: contextvars.Context) -> None:
    """Set what was set there: a copy of this context in which a function has run."""
    for variable, value in context.items():
        if variable.get(None) is not value:
            variable.set(value)


def _too_late(limit_s: float | None) -> str:
    """Why somebody was not heard out."""
    spent = spent_budget()
    if spent is not None:
        return f"it gave no answer before the {spent.limit} of the whole were over"
    return f"it gave no answer within {limit_s or 0.0:g} s"


async def run_within_budget(work: Coroutine[Any, Any, T], *, what: str) -> T:
    """What comes of something made of several parts, each of which ends in time; it is left if one does not.

    Raises:
        TimeoutError: It did not end within the budget of what is going on.
    """
    if current_budget() is None:
        return await work
    return await _within(work, None, what=what, late_s=_OUTER_S)


async def _within(work: Coroutine[Any, Any, T], limit_s: float | None, *, what: str, late_s: float = 0.0) -> T:
    context = contextvars.copy_context()
    task = asyncio.get_running_loop().create_task(work, context=context)
    if not await wait_or_abandon(task, limit_s, what=what, late_s=late_s):
        raise TimeoutError(_too_late(limit_s))
    _take_over(context)
    return task.result()


async def wait_or_abandon(
    task: "asyncio.Task[Any]", limit_s: float | None, *, what: str = "", late_s: float = 0.0
) -> bool:
    """Wait for a task as long as it may take; one that takes longer, or whose caller is cancelled, is left.

    Args:
        task: What is waited for.
        limit_s: How long it may take, where the budget of what is going on does not end before; None for any time.
        what: What it is, in words, in case that the budget ends here.
        late_s: How much longer than the budget it may take.

    Returns:
        Whether it ended; one that did not is cancelled, and may run on.
    """
    deadline = Deadline.after(limit_s)
    try:
        while True:
            budget = current_budget()
            waits = [deadline.left_s, None if budget is None else budget.rest_s(late_s)]
            done, _ = await asyncio.wait(
                {task}, timeout=min((each for each in waits if each is not None), default=None)
            )
            if done or budget is None or not budget.over:
                break  # else that budget binds nobody any more, and the wait goes on
    except asyncio.CancelledError:
        await leave(task)
        raise
    if not done:
        spent = spent_budget()
        if spent is not None:
            spent.stopped(f"while it waited for {what}")
        await leave(task)
    return bool(done)


async def leave(task: "asyncio.Task[Any]") -> None:
    """Cancel, and wait a moment: one that swallows it is left behind, and what it says later is nobody's."""
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    task.cancel()
    budget = current_budget()
    rest_s = None if budget is None else budget.rest_s(_LATE_S)
    await asyncio.wait({task}, timeout=_GRACE_S if rest_s is None else min(rest_s, _GRACE_S))


def is_async(function: object) -> bool:
    """Whether a call of it waits for something: a coroutine function, or an object whose call is one."""
    inner = _inner(function)
    own = getattr(type(inner), "__call__", None)  # noqa: B004 - not whether it can be called, but how
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(own)


def _inner(function: object) -> object:
    return function.func if isinstance(function, partial) else function
