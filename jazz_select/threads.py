"""Functions that may block or hang: within limits, in threads, left behind if they do not end. Tasks beside a block."""

import asyncio
import contextvars
import inspect
import logging
import os
import threading
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, ClassVar, Final, ParamSpec, Protocol, TypeVar, cast

from jazz_select.errors import HungError
from jazz_select.text import describe_error

_log = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])
_GRACE_S: Final = 0.2
"""How long a cancelled task has to end."""
_LATE_S: Final = 0.03
"""How long after the end of a budget its last task is abandoned."""
_OUTER_S: Final = 0.01
"""How much longer a whole waits than its parts, so that each part can report its own timeout."""
_TICK_S: Final = 0.001
"""Nothing starts with less time left."""
_ENDS: Final = "self_bounded"
_NAMED: Final = "jazz-select-"
_WAITING: Final = "jazz_select, waiting"
_IDLE_S: Final = 10.0
_MOST_IDLE: Final = 32
_AT_ONCE: Final = (list, deque, set, asyncio.Queue, asyncio.Event, asyncio.Future)
"""Types whose methods never block, such as `events.append`; asyncio's must be called on their loop anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """A moment on the loop's clock; `limit_s` is the original limit, None for no deadline."""

    limit_s: float | None
    at: float | None

    @classmethod
    def after(cls, limit_s: float | None) -> "Deadline":
        """Return the deadline in that many seconds."""
        return cls(limit_s=limit_s, at=None if limit_s is None else _clock_time() + limit_s)

    @property
    def left_s(self) -> float | None:
        """Seconds left; negative afterwards."""
        return None if self.at is None else self.at - _clock_time()

    def earlier(self, other: "Deadline") -> "Deadline":
        """Return the earlier of the two."""
        if other.at is None:
            return self
        return other if self.at is None or other.at < self.at else self


class TimeBudget:
    """A time limit for everything in a block, including the tasks and threads it starts.

    Every wait ends with it, and nothing new starts after it. A nested budget does not exceed its outer one. Work that
    outlives the block is unbound: a worker started by a tool must not stop because one turn took too long.

    Attributes:
        deadline: When it ends.
        waited_for: What the first interrupted waiter waited for, in words; empty if none was interrupted.
        over: Whether its block has ended.
    """

    def __init__(self, deadline: Deadline) -> None:
        self.deadline = deadline
        self.waited_for = ""
        self.over = False

    @property
    def limit(self) -> str:
        """The limit as text."""
        return f"{self.deadline.limit_s or 0.0:g} s"

    @property
    def is_spent(self) -> bool:
        """Whether no time is left."""
        left_s = self.deadline.left_s
        return left_s is not None and left_s < _TICK_S

    def rest_s(self, late_s: float = 0.0) -> float | None:
        """Seconds that a wait may take; after the end, what is left of the grace period."""
        left_s = self.deadline.left_s
        if left_s is None:
            return None
        return max(left_s + (late_s if left_s >= _TICK_S else _LATE_S), 0.0)

    def stopped(self, waiting_for: str) -> None:
        """Record what was waited for; the first record stays."""
        self.waited_for = self.waited_for or waiting_for


_budget: contextvars.ContextVar[TimeBudget | None] = contextvars.ContextVar("jazz_select_budget", default=None)


def current_budget() -> TimeBudget | None:
    """Return the current budget, if any."""
    budget = _budget.get()
    return None if budget is None or budget.over else budget


def spent_budget() -> TimeBudget | None:
    """Return the current budget if no time is left."""
    budget = current_budget()
    if budget is None or not budget.is_spent:
        return None
    return budget


@contextmanager
def set_in(variable: contextvars.ContextVar[T], value: T) -> Generator[None]:
    """Give a context variable a value in the block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


@contextmanager
def time_budget(limit_s: float | None) -> Generator[TimeBudget]:
    """Limit the block to so many seconds; None for no limit."""
    outer, deadline = current_budget(), Deadline.after(limit_s)
    budget = TimeBudget(deadline if outer is None else deadline.earlier(outer.deadline))
    try:
        with set_in(_budget, None if budget.deadline.at is None else budget):
            yield budget
    finally:
        budget.over = True


def _clock_time() -> float:
    """The running loop's clock, or the machine's without a loop."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return monotonic()


class ThreadShare(Protocol):
    """Who is counted for the threads that work is done in, where several tenants share a process."""

    @property
    def whose(self) -> str:
        """The tenant."""
        ...

    async def acquire(self) -> None:
        """Wait until this tenant may use one more thread."""
        ...

    def release(self) -> None:
        """Give back a thread. It is called in the event loop."""
        ...

    async def resume(self) -> None:
        """Wait until this tenant may go on in the event loop, after work in a thread."""
        ...

    def detach(self) -> "ThreadShare":
        """Return the tenant's share without the request: for work that may outlive it."""
        ...


_share: contextvars.ContextVar[ThreadShare | None] = contextvars.ContextVar("jazz_select_threads", default=None)


def current_share() -> ThreadShare | None:
    """Return whose threads are used now; None where a process has one tenant."""
    return _share.get()


@contextmanager
def sharing_threads(share: ThreadShare | None) -> Generator[None]:
    """Count the threads of the block for a tenant."""
    with set_in(_share, share):
        yield


async def give_way() -> None:
    """Let others have the event loop between two pieces of work; wait for a turn, where the tenant's is over."""
    await asyncio.sleep(0)
    share = current_share()
    if share is not None:
        await share.resume()


async def _begin(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> "asyncio.Task[T]":
    """Start a function in a thread once its tenant may use one; the thread counts until it has ended."""
    share = current_share()
    if share is not None:
        await share.acquire()
    running = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    if share is not None:
        running.add_done_callback(lambda _: share.release())
    return running


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Like `asyncio.to_thread`, but a cancellation takes effect only when the thread is done.

    Otherwise the caller would release its lock while the thread still writes, and the next writer would be overwritten.
    """
    running = await _begin(function, *args, **kwargs)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # retrieved, so that asyncio does not warn of it
        raise


async def compute(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Like `asyncio.to_thread`, for work that keeps a processor busy: it counts as work of its tenant.

    A cancelled caller leaves at once; the thread counts until it has ended. Hold no lock that other tenants wait for.
    """
    running = await _begin(function, *args, **kwargs)
    try:
        result = await asyncio.shield(running)
    except asyncio.CancelledError:
        running.add_done_callback(lambda done: done.cancelled() or done.exception())
        raise
    share = current_share()
    if share is not None:
        await share.resume()
    return result


MOST_HUNG: Final = 8
"""The most abandoned calls of one plain function that have not returned; then no more begin."""
MOST_RUNNING: Final = 256
"""The most concurrent calls of one plain function, each in its own thread."""


class Threaded:
    """A call of a plain function in a thread, tracked until it returns.

    A thread cannot be stopped, so a function with too many hung calls is not called again.
    """

    _lock: ClassVar[threading.Lock] = threading.Lock()
    _calls: ClassVar[dict[tuple[int, ...], set["Threaded"]]] = {}
    """By the identity of their function."""

    def __init__(self, function: Callable[[], object], of: object) -> None:
        """Take the function to call once, and the function or object that it is a call of."""
        self._function, self._of, self._key = function, of, _identity(of)
        self.is_left = False
        """Whether its caller has left."""
        with self._lock:
            self._calls.setdefault(self._key, set()).add(self)

    @classmethod
    def refused(cls, of: object, most_running: int | None = None) -> str:
        """Return why no further call may begin, or ""."""
        with cls._lock:
            calls = cls._calls.get(_identity(of), set())
            running, hung = len(calls), sum(each.is_left for each in calls)
        if hung >= MOST_HUNG:
            return f"{hung} earlier calls of it hang; it can be called again when one of them has come back"
        if most_running is not None and running >= most_running:
            return f"{running} calls of it are running already; it can be called again when one of them has come back"
        return ""

    def __call__(self) -> object:
        """Run the function and stop tracking."""
        try:
            return self._function()
        finally:
            self.forget()

    def forget(self) -> None:
        """Stop tracking a call that has returned or was never started."""
        with self._lock:
            calls = self._calls.get(self._key, set())
            calls.discard(self)
            if not calls:
                self._calls.pop(self._key, None)


def _identity(of: object) -> tuple[int, ...]:
    """Return a key of a function: bound methods are new objects at each access."""
    inner = unbound(of)
    return (id(inner.__self__), id(inner.__func__)) if inspect.ismethod(inner) else (id(inner),)


async def in_daemon_thread(function: Callable[[], T], *, name: str, context: contextvars.Context | None = None) -> T:
    """Return `function`'s result from a daemon thread that may be abandoned.

    A cancelled caller leaves at once, and the result is discarded. `SystemExit` and `KeyboardInterrupt` in the function
    come back as a RuntimeError, so that they do not end the caller.
    """
    here = contextvars.copy_context() if context is None else context
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # a thread cannot be stopped, so from now on this cannot be cancelled

    def work() -> None:
        try:
            result = here.run(function)
        except BaseException as raised:  # noqa: BLE001 - the caller gets all of it
            own = isinstance(raised, Exception) and not isinstance(raised, StopIteration)
            future.set_exception(raised if own else RuntimeError(describe_error(raised)))
        else:
            future.set_result(result)

    _Worker.does(work, name)
    return await asyncio.wrap_future(future)


class _Worker(threading.Thread):
    """A thread that is reused for a while, because starting one blocks the loop until it runs.

    A thread for each call made a selection with one guard a third slower (.60 → .80 ms), and each of twenty at once on
    a busy machine up to four times as slow (.6–1.1 → 1.7–4.4 ms). Threads of anyio and of `concurrent.futures` would
    keep a process from ending while a call hangs.
    """

    idle: ClassVar["deque[_Worker]"] = deque()

    @classmethod
    def does(cls, work: Callable[[], None], name: str) -> None:
        """Run the work in an idle worker, else in a new one."""
        try:
            worker, is_new = cls.idle.pop(), False
        except IndexError:
            worker, is_new = cls(daemon=True), True
        worker.name = name  # marks it as busy
        worker.given.put(work)
        if is_new:
            worker.start()

    def __init__(self, *, daemon: bool) -> None:
        super().__init__(daemon=daemon)
        self.given: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def run(self) -> None:
        """Run work until none arrives for a while."""
        while True:
            try:
                work = self.given.get(timeout=_IDLE_S)
            except Empty:
                with suppress(ValueError):  # another call has just taken it
                    self.idle.remove(self)
                    return
                continue
            work()
            del work  # release what it refers to
            self.name = _WAITING
            if len(self.idle) >= _MOST_IDLE:
                return
            self.idle.append(self)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Worker.idle.clear)  # a fork has no threads of its parent


def self_bounded(function: F) -> F:
    """Mark an async function of ours whose waits are all bounded, so that it needs no limit of its own."""
    vars(function)[_ENDS] = True
    return function


async def run_with_timeout(
    function: Callable[..., object], *args: object, limit_s: float | None, name: str, of: object = None
) -> object:
    """Call a caller's function, async or plain, within a time limit and the remaining budget.

    A plain function runs in its own thread, as it may block; a late result is discarded. Context variables that it sets
    are visible to its caller.

    Args:
        function: The function.
        args: Its arguments.
        limit_s: In seconds; None for no limit.
        name: The name of the thread.
        of: The object to count hung calls by, if the function was made for this one call.

    Raises:
        TimeoutError: It did not return in time.
        HungError: It was not called because too many earlier calls hang.
        RuntimeError: It was cancelled from within. Only a cancellation of the caller passes as one.
    """
    try:
        if limit_s is None and (current_budget() is None or getattr(unbound(function), _ENDS, False)):
            return await run_unbounded(function, *args, name=name, of=of)
        return await _run_within(
            run_unbounded(function, *args, name=name, of=of), limit_s, what=name.removeprefix(_NAMED)
        )
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        raise RuntimeError(f"{name.removeprefix(_NAMED)} was cancelled from within") from error


async def run_unbounded(
    function: Callable[..., object], *args: object, name: str, of: object = None, most_running: int | None = None
) -> object:
    """Call a caller's function like `run_with_timeout`, without a limit."""
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
        call.forget()  # if no thread could be started
        raise
    _take_over(context)
    return given


def _take_over(context: contextvars.Context) -> None:
    """Copy changed variables from a copy of this context in which a function has run."""
    for variable, value in context.items():
        if variable.get(None) is not value:
            variable.set(value)


def _too_late(limit_s: float | None) -> str:
    spent = spent_budget()
    if spent is not None:
        return f"it gave no answer before the {spent.limit} of the whole were over"
    return f"it gave no answer within {limit_s or 0.0:g} s"


async def run_within_budget(work: Coroutine[Any, Any, T], *, what: str) -> T:
    """Await work whose parts are each bounded, and abandon it if it exceeds the current budget.

    Raises:
        TimeoutError: It exceeds the budget.
    """
    if current_budget() is None:
        return await work
    return await _run_within(work, None, what=what, late_s=_OUTER_S)


async def _run_within(work: Coroutine[Any, Any, T], limit_s: float | None, *, what: str, late_s: float = 0.0) -> T:
    context = contextvars.copy_context()
    task = asyncio.get_running_loop().create_task(work, context=context)
    if not await wait_or_abandon(task, limit_s, what=what, late_s=late_s):
        raise TimeoutError(_too_late(limit_s))
    _take_over(context)
    return task.result()


async def wait_or_abandon(
    task: "asyncio.Task[Any]", limit_s: float | None, *, what: str = "", late_s: float = 0.0
) -> bool:
    """Wait for a task within its limit and the current budget; abandon it if it is late or the caller is cancelled.

    Args:
        task: The task.
        limit_s: In seconds; None for no limit beside the budget.
        what: The task in words, for when the budget ends here.
        late_s: Seconds that it may exceed the budget.

    Returns:
        Whether it ended. One that did not is cancelled, and may run on.
    """
    deadline = Deadline.after(limit_s)
    try:
        while True:
            budget = current_budget()
            timeout_s = deadline.left_s
            rest_s = None if budget is None else budget.rest_s(late_s)
            if rest_s is not None and (timeout_s is None or rest_s < timeout_s):
                timeout_s = rest_s
            done, _ = await asyncio.wait({task}, timeout=timeout_s)
            if done or budget is None or not budget.over:
                break  # else the budget's block has ended, so wait without it
    except asyncio.CancelledError:
        await leave(task)
        raise
    if not done:
        spent = spent_budget()
        if spent is not None:
            spent.stopped(f"while it waited for {what}")
        await leave(task)
    return bool(done)


def is_cancelled() -> bool:
    """Whether somebody cancels the running task; else a `CancelledError` in it comes from within, and may be caught."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


async def leave(task: "asyncio.Task[Any]") -> None:
    """Cancel the task and wait briefly. Abandon it if it ignores cancellation, and discard its result."""
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    task.cancel()
    budget = current_budget()
    rest_s = None if budget is None else budget.rest_s(_LATE_S)
    await asyncio.wait({task}, timeout=_GRACE_S if rest_s is None else min(rest_s, _GRACE_S))


@asynccontextmanager
async def beside(*works: Coroutine[Any, Any, object]) -> AsyncGenerator[None]:
    """Run these beside a block, and cancel them at its end. One that fails is logged, and ends nothing else."""
    tasks = [asyncio.create_task(each, name=getattr(each, "__qualname__", None)) for each in works]
    for task in tasks:
        task.add_done_callback(_log_failure)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _log_failure(task: "asyncio.Task[object]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("task=<%s> | what runs beside others has failed", task.get_name(), exc_info=error)


def is_async(function: object) -> bool:
    """Whether a call returns an awaitable: a coroutine function, or an object with an async `__call__`."""
    inner = unbound(function)
    own = getattr(type(inner), "__call__", None)  # noqa: B004 - needs the method, not whether there is one
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(own)


def unbound(function: object) -> object:
    """Return the function of a partial, and any other one as it is."""
    return unbound(cast("object", function.func)) if isinstance(function, partial) else function
