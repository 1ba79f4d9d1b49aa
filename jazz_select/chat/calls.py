"""Calls of one model with retries, a deadline, a circuit breaker and a concurrency limit."""

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
"""Failed requests in a row that open the breaker; one is enough if it used up a whole deadline."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
"""How long the breaker stays open; doubled after each failed probe."""


class Breaker:
    """A circuit breaker for failures of the provider.

    After the pause one request goes through as a probe; others are refused until it is answered. Use it from one
    thread. A selector on several event loops may let one more request through, which is harmless.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        """Start closed; `clock` returns seconds."""
        self._clock = clock
        self._failures = 0
        self._pause_s = 0.0
        self._closed_until = 0.0
        self._probing = False

    def check(self, model: str) -> None:
        """Raise at once if the breaker is open, before the request queues."""
        wait = self._closed_until - self._clock()
        if self._pause_s and (wait > 0 or self._probing):
            raise ModelUnavailableError(model, failures=self._failures, wait_s=max(wait, 0.0))

    def admit(self, model: str) -> None:
        """Let a request through, as a probe if the pause has just ended, or raise."""
        self.check(model)
        self._probing = bool(self._pause_s)

    def succeeded(self) -> None:
        """Record an answer of any content."""
        self._failures = 0
        self._pause_s = 0.0
        self._probing = False

    def failed(self, *, lost_deadline: bool) -> None:
        """Record a failure of the provider, after all retries or after the whole deadline."""
        self._failures += 1
        was_probe, self._probing = self._probing, False
        if was_probe or lost_deadline or self._failures >= FAILURES:
            self._pause_s = min(max(2 * self._pause_s, FIRST_PAUSE_S), LONGEST_PAUSE_S)
            self._closed_until = self._clock() + self._pause_s

    def gave_up(self) -> None:
        """Record an end that says nothing about the provider: a cancellation, or a refusal of this request."""
        self._probing = False


_log = logging.getLogger(__name__)
_PASSING = (asyncio.CancelledError, KeyboardInterrupt, SystemExit)
"""Requests to end a task or the program: not failures of a model, whoever raises them."""
_WHOLE = 0.9
"""The share of its full time that a model must have had to be blamed for a timeout."""
_BACKOFF = wait_random_exponential(multiplier=0.2, max=10.0)
"""Full jitter, up to .2, .4, .8 … seconds, so that calls that failed together do not retry together."""
M = TypeVar("M")
T = TypeVar("T")


class ModelClient(Generic[M, T]):
    """A client of one model, shared by all its callers, with one breaker and one limit on concurrent calls.

    Each call runs in its own task, so a caller leaves in time even if the model ignores cancellation. The call's slot
    is free only when it has really ended.

    Attributes:
        name: The model's name.
        max_concurrency: The most calls in flight; more wait in order of arrival.
    """

    def __init__(self, model: M, *, max_retries: int = 2, max_concurrency: int = 64, owned: bool = False) -> None:
        """Create a client with these limits; with `owned`, the model was made for it, so `aclose` closes it."""
        self.name = str(getattr(model, "name", "") or type(model).__name__)
        self.max_concurrency = max_concurrency
        self._model = model
        self._max_retries = max_retries
        self._owned = owned
        self._slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
        self._breaker = Breaker()

    async def _run(self, once: Callable[[], Awaitable[T]], deadline: Deadline) -> tuple[T, int]:
        """Return the result of a call within the deadline, queueing and retries included, and the number of calls.

        `once` makes one call. It is called when its turn comes, and again after a transient failure. Errors pass
        unchanged once retries are used up or would not help. A `BaseException` becomes a ModelError unless it has to
        end a task, a program or a process.
        """
        async with self._limit_time(deadline) as call:
            task = asyncio.ensure_future(self._retry(call, once, deadline))
            # Retrieve the error even if the caller has left; otherwise asyncio warns that it was never retrieved.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            try:
                # Without the shield, the end of the limit would wait for a model that ignores cancellation.
                return await asyncio.shield(task)
            finally:
                task.cancel()
        raise AssertionError  # pragma: no cover - the block above returns or raises

    @asynccontextmanager
    async def _limit_time(self, deadline: Deadline) -> AsyncGenerator["Call"]:
        """Limit a call by the deadline and the turn's time budget; the breaker records a timeout of the model."""
        call = Call()
        budget = current_budget()
        if budget is not None and budget.is_spent:
            budget.stopped(f"before the model {self.name} was asked")
            raise ModelTimeoutError(self.name, timeout_s=0.0, rest=True)
        short = budget is not None and deadline.earlier(budget.deadline) is not deadline
        left_s = deadline.left_s
        if budget is not None and short:
            left_s = budget.deadline.left_s
        limit = asyncio.timeout(left_s)
        try:
            async with limit:
                yield call
        except TimeoutError as error:
            if not limit.expired():
                raise  # the model's own timeout
            if budget is not None and short:
                budget.stopped(f"while it waited for the model {self.name}")
            # A timeout of a turn that had little time left says nothing about the provider.
            if call.made and (not short or _had_its_time(left_s, deadline, budget)):
                self._breaker.failed(lost_deadline=True)
            elif call.made:
                self._breaker.gave_up()
            given_s = left_s if short else deadline.limit_s
            raise ModelTimeoutError(self.name, timeout_s=given_s or 0.0, rest=short) from error

    @asynccontextmanager
    async def _hold_slot(self, call: "Call") -> AsyncGenerator[None]:
        """Hold a slot of this event loop, in order of arrival, and pass the breaker, which records the outcome."""
        # Check before queueing, so that callers fail at once; `admit` checks again, as it may open in the meantime.
        self._breaker.check(self.name)
        async with self._slots.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(self.max_concurrency)):
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

    async def _retry(self, call: "Call", once: Callable[[], Awaitable[T]], deadline: Deadline) -> tuple[T, int]:
        attempts = AsyncRetrying(
            retry=retry_if_exception(_is_passing),
            wait=_wait,
            stop=stop_after_attempt(1 + self._max_retries) | _too_late(deadline),
            before_sleep=self._log_retry,
            reraise=True,
        )
        async with self._hold_slot(call):
            async for attempt in attempts:
                with attempt:
                    return await _await_call(once(), self.name), attempt.retry_state.attempt_number
        raise AssertionError  # pragma: no cover - reraise=True leaves the loop by an answer or by the last error

    async def aclose(self) -> None:
        """Close the model's connections if the model was made for this client."""
        close = getattr(self._model, "aclose", None)
        if self._owned and close is not None:
            await close()

    def _log_retry(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        kind = type(error).__name__  # not its text, which may quote users
        _log.info("model=<%s>, attempt=<%d>, error=<%s> | asking again", self.name, state.attempt_number, kind)


async def _await_call(call: Awaitable[T], model: str) -> T:
    """Await a call. A `BaseException` that it raises is a failure of the model."""
    own = asyncio.current_task()
    try:
        return await call
    except (Exception, *_PASSING):
        raise
    except BaseException as error:
        # This coroutine is being closed, or a group contains a request to end the task or program.
        if _task() is not own or _holds_passing(error):
            raise
        raise ModelError(model, f"it raised {type(error).__name__}, which is no Exception", retryable=False) from error


def _holds_passing(error: BaseException) -> bool:
    if not isinstance(error, BaseExceptionGroup):
        return False
    return cast("BaseExceptionGroup[BaseException]", error).subgroup(_PASSING) is not None


def _task() -> "asyncio.Task[Any] | None":
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


@dataclass(slots=True)
class Call:
    """The state of a call, shared by its caller and its task."""

    made: bool = False
    """Whether it got a slot: only then is a timeout the model's fault."""
    is_abandoned: bool = False
    """Whether its caller has left."""


def _had_its_time(left_s: float | None, deadline: Deadline, budget: TimeBudget | None) -> bool:
    """Whether a call that ended with its turn had nearly all the time possible: its limit, or the whole turn."""
    limits_s = [deadline.limit_s]
    if budget is not None:
        limits_s.append(budget.deadline.limit_s)
    most_s = min((each for each in limits_s if each is not None), default=0.0)
    return left_s is not None and left_s >= _WHOLE * most_s


def _is_passing(error: BaseException) -> bool:
    """Whether an error is known to be transient; most errors of code are not."""
    if isinstance(error, ModelError):
        return error.retryable
    return isinstance(error, TimeoutError | ConnectionError)


def _wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    retry_after = error.retry_after if isinstance(error, ModelError) else None
    return _BACKOFF(state) if retry_after is None else max(retry_after, 0.0)


def _too_late(deadline: Deadline) -> Any:
    def stop(state: RetryCallState) -> bool:
        budget = current_budget()
        earliest = deadline if budget is None else deadline.earlier(budget.deadline)
        left_s = earliest.left_s
        return left_s is not None and state.upcoming_sleep >= left_s

    return stop
