"""Calls of one model whose faults stay bounded: retries, a deadline, a breaker, so many at a time."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any, Generic, TypeVar, cast
from weakref import WeakKeyDictionary

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, wait_random_exponential

from jazz_select.errors import ModelError, ModelTimeoutError, ModelUnavailableError
from jazz_select.threads import Deadline, TimeBudget, current_budget

FAILURES = 3
"""Requests in a row that may fail before the model is left alone; one is enough where it cost a whole deadline."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
"""How long it is left alone: twice as long after each probe that fails."""


class Breaker:
    """Counts requests that failed for the provider's sake, and stops asking for a while.

    After the pause one request goes through as a probe; the others are still refused until it has an answer.
    Used from one thread; a selector on several event loops may let one more request through, no harm done.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        """Start closed; `clock` gives seconds."""
        self._clock = clock
        self._failures = 0
        self._pause_s = 0.0
        self._closed_until = 0.0
        self._probing = False

    def check(self, model: str) -> None:
        """Refuse a request that would be refused anyway, before it waits for its turn."""
        wait = self._closed_until - self._clock()
        if self._pause_s and (wait > 0 or self._probing):
            raise ModelUnavailableError(model, failures=self._failures, wait_s=max(wait, 0.0))

    def admit(self, model: str) -> None:
        """Let a request through, as a probe where the pause has just ended; or refuse it."""
        self.check(model)
        self._probing = bool(self._pause_s)

    def succeeded(self) -> None:
        """An answer came, whatever it said."""
        self._failures = 0
        self._pause_s = 0.0
        self._probing = False

    def failed(self, *, lost_deadline: bool) -> None:
        """No answer came, and the provider is to blame: after all retries, or after the whole time there was."""
        self._failures += 1
        was_probe, self._probing = self._probing, False
        if was_probe or lost_deadline or self._failures >= FAILURES:
            self._pause_s = min(max(2 * self._pause_s, FIRST_PAUSE_S), LONGEST_PAUSE_S)
            self._closed_until = self._clock() + self._pause_s

    def gave_up(self) -> None:
        """The request ended without telling anything of the provider: cancelled, or refused for what it asked."""
        self._probing = False


_log = logging.getLogger(__name__)
_PASSING = (asyncio.CancelledError, KeyboardInterrupt, SystemExit)
"""What is no failure of a model, whoever raises it: somebody wants a task, or the program, to end."""
_WHOLE = 0.9
"""Which share of the time that it would have had at most a model is blamed for."""
_BACKOFF = wait_random_exponential(multiplier=0.2, max=10.0)
"""Full jitter, a random time up to .2, .4, .8 … seconds: those who failed together do not come back together."""
T = TypeVar("T")


class Limiter:
    """Lets so many through at a time, on each event loop; the others wait in order of arrival."""

    def __init__(self, limit: int) -> None:
        """Open for `limit` calls."""
        self._limit = limit
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    @asynccontextmanager
    async def entered(self) -> AsyncGenerator[None]:
        """Wait for a place, and leave it at the end, however that comes."""
        loop = asyncio.get_running_loop()
        places = self._loops.get(loop)
        if places is None:
            places = self._loops[loop] = asyncio.Semaphore(self._limit)
        async with places:
            yield


class BoundedCalls(Generic[T]):
    """The calls of one model for those who share it: its breaker and its places are theirs together.

    Each call has a task of its own, so that a caller leaves in time even where the model's code ignores being
    cancelled; the call's place is free again when it has really ended.
    """

    def __init__(self, name: str, *, max_retries: int, max_concurrency: int) -> None:
        """Set the bounds."""
        self.name = name
        self._max_retries = max_retries
        self._limiter = Limiter(max_concurrency)
        self._breaker = Breaker()

    async def run(self, once: Callable[[], Awaitable[T]], deadline: Deadline) -> tuple[T, int]:
        """What one call gives within the deadline, queueing and retries included, and how many calls it took.

        Args:
            once: Makes one call; called when its turn comes, and again where it failed for a passing reason.
            deadline: When the answer has to be there.

        Raises:
            ModelTimeoutError: The deadline passed.
            ModelUnavailableError: The model failed lately, and is left alone for a while.

        Whatever else a call raises passes as it is, once retries are used up or make no sense; what is no `Exception`
        comes as a ModelError, but for what has to end a task, a program or a process.
        """
        async with self.within(deadline) as call:
            task = asyncio.ensure_future(self._admitted_and_retried(call, once, deadline))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())  # where nobody waits any more
            try:
                return await asyncio.shield(task)
            finally:
                task.cancel()
        raise AssertionError  # pragma: no cover - the block above returns or raises

    @asynccontextmanager
    async def within(self, deadline: Deadline) -> AsyncGenerator["Call"]:
        """Until the deadline, or until a turn has no time left; the breaker hears of one that the model let pass."""
        call = Call()
        budget = current_budget()
        if budget is not None and budget.is_spent:
            budget.stopped(f"before the model {self.name} was asked")
            raise ModelTimeoutError(self.name, timeout_s=0.0, rest=True)
        short = budget is not None and deadline.earlier(budget.deadline) is not deadline
        left_s = budget.deadline.left_s if budget is not None and short else deadline.left_s
        limit = asyncio.timeout(left_s)
        try:
            async with limit:
                yield call
        except TimeoutError as error:
            if not limit.expired():
                raise
            if budget is not None and short:
                budget.stopped(f"while it waited for the model {self.name}")
            if call.made and (not short or _had_its_time(left_s, deadline, budget)):
                self._breaker.failed(lost_deadline=True)
            elif call.made:
                self._breaker.gave_up()
            given_s = left_s if short else deadline.limit_s
            raise ModelTimeoutError(self.name, timeout_s=given_s or 0.0, rest=short) from error

    @asynccontextmanager
    async def admitted(self, call: "Call") -> AsyncGenerator[None]:
        """At a place of its own and past the breaker, which hears what becomes of the call."""
        self._breaker.check(self.name)
        async with self._limiter.entered():
            self._breaker.admit(self.name)
            call.made = True
            try:
                yield
            except BaseException as error:
                if _is_passing(error):
                    self._breaker.failed(lost_deadline=False)
                else:
                    self._breaker.gave_up()
                raise
            self._breaker.succeeded()

    async def _admitted_and_retried(
        self, call: "Call", once: Callable[[], Awaitable[T]], deadline: Deadline
    ) -> tuple[T, int]:
        async with self.admitted(call):
            return await self._retried(once, deadline)
        raise AssertionError  # pragma: no cover - the block above returns or raises

    async def _retried(self, once: Callable[[], Awaitable[T]], deadline: Deadline) -> tuple[T, int]:
        attempts = AsyncRetrying(
            retry=retry_if_exception(_is_passing),
            wait=_wait,
            stop=stop_after_attempt(1 + self._max_retries) | _too_late(deadline),
            before_sleep=self._log_retry,
            reraise=True,
        )
        async for attempt in attempts:
            with attempt:
                return await _ended(once(), self.name), attempt.retry_state.attempt_number
        raise AssertionError  # pragma: no cover - reraise=True leaves the loop by an answer or by the last error

    def _log_retry(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        kind = type(error).__name__  # its text may quote what was said
        _log.info("model=<%s>, attempt=<%d>, error=<%s> | asking again", self.name, state.attempt_number, kind)


async def _ended(call: Awaitable[T], model: str) -> T:
    """What a call gives. What it raises that is no `Exception` is the model's failure like any other."""
    own = asyncio.current_task()
    try:
        return await call
    except (Exception, *_PASSING):
        raise
    except BaseException as error:
        # This coroutine itself is being closed, or somebody's wish to end all is among others.
        if _task() is not own or _has_to_pass(error):
            raise
        raise ModelError(model, f"it raised {type(error).__name__}, which is no Exception", retryable=False) from error


def _has_to_pass(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return cast("BaseExceptionGroup[BaseException]", error).subgroup(_PASSING) is not None
    return isinstance(error, _PASSING)


def _task() -> "asyncio.Task[Any] | None":
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


@dataclass(slots=True)
class Call:
    """One call, as those who wait for it and those who make it see it."""

    made: bool = False
    """Whether it got a place: only then is a lost deadline the model's."""
    left: bool = False
    """Whether nobody waits for it any more."""


def _had_its_time(left_s: float | None, deadline: Deadline, budget: TimeBudget | None) -> bool:
    """Whether a call that ended with a turn had about all of what it may have at most: its limit, or the whole turn."""
    limits = [deadline.limit_s, None if budget is None else budget.deadline.limit_s]
    most_s = min((each for each in limits if each is not None), default=0.0)
    return left_s is not None and left_s >= _WHOLE * most_s


def _is_passing(error: BaseException) -> bool:
    """Whether the same call may go through later. Only what is known to pass is: most errors of code do not."""
    if isinstance(error, ModelError):
        return error.retryable
    return isinstance(error, TimeoutError | ConnectionError)


def _wait(state: RetryCallState) -> float:
    """What the provider asks for, else a random time that grows."""
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after if isinstance(error, ModelError) else None
    return _BACKOFF(state) if asked is None else max(asked, 0.0)


def _too_late(deadline: Deadline) -> Any:
    """Stop where the next attempt would begin after the deadline: waiting for it would help no one."""

    def stop(state: RetryCallState) -> bool:
        budget = current_budget()
        left_s = (deadline if budget is None else deadline.earlier(budget.deadline)).left_s
        return left_s is not None and state.upcoming_sleep >= left_s

    return stop
