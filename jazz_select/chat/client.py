"""Asking a chat model so that its faults stay bounded: retries, a deadline, a breaker, so many calls at a time."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Final
from weakref import WeakKeyDictionary

import orjson
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, wait_random_exponential

from jazz_select.chat.breaker import Breaker
from jazz_select.chat.single_flight import SingleFlight
from jazz_select.errors import ModelError, ModelTimeoutError
from jazz_select.ports import ChatModel, takes_schema
from jazz_select.telemetry import complete
from jazz_select.text import cut
from jazz_select.values import Message, Reply, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReply:
    """What a model answered; `text` is None where it was no text."""

    text: str | None = None
    usage: Usage | None = None
    model: str = ""
    truncated: bool = False
    attempts: int = 0
    """Calls that it took."""
    notes: tuple[str, ...] = ()


def chat_reply_of(reply: object) -> ChatReply:
    """A model of somebody's own may answer anything; what is no text is not an error, but unreadable."""
    if isinstance(reply, Reply) and isinstance(reply.text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        notes = ("the model's reply was cut off by a limit on its length",) if reply.truncated else ()
        return ChatReply(
            text=reply.text, usage=reply.usage, model=reply.model, truncated=reply.truncated, attempts=1, notes=notes
        )
    if isinstance(reply, str):
        return ChatReply(text=reply, attempts=1)
    return ChatReply(attempts=1, notes=(f"the model answered {type(reply).__name__} without a text",))


def total_usage(one: Usage | None, other: Usage | None) -> Usage | None:
    """The tokens of two calls; None where neither was counted."""
    if one is None or other is None:
        return one or other
    return Usage(
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        cached_tokens=one.cached_tokens + other.cached_tokens,
    )


_REPLY_LIMIT: Final = 500


def why_unusable(answer: ChatReply, ids: Sequence[str], offered: Collection[str], *, what: str = "ids") -> str:
    """Why a reply could not be used, as its writer is told.

    Args:
        answer: The reply.
        ids: What was read from it.
        offered: What might have been.
        what: What was to be found in it.
    """
    if answer.text is None:
        return "it was no text"
    if answer.truncated:
        return "it was cut off before it ended"
    strange = [each for each in ids if each not in offered]
    if strange:
        return f"not among the candidates: {', '.join(cut(each, 60) for each in strange[:3])}"
    if ids:
        return "what it chose can not be run any more"
    return f"no {what} were found in it"


def asked_again(messages: Sequence[Message], reply: str | None, problem: str, *, wanted: str) -> tuple[Message, ...]:
    """The same question once more, with the reply that could not be used, why, and what is wanted instead."""
    said = (reply or "").strip()[:_REPLY_LIMIT] or "(no text)"
    correction = f"That could not be used: {problem}. Answer again, with nothing but {wanted}."
    return (*messages, Message(role="assistant", content=said), Message(role="user", content=correction))


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


_log = logging.getLogger(__name__)
_BACKOFF = wait_random_exponential(multiplier=0.2, max=10.0)
"""Full jitter, a random time up to .2, .4, .8 … seconds: those who failed together do not come back together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """A moment on the clock by which the model has to have answered; `limit_s` is None where it may take for ever."""

    limit_s: float | None
    at: float | None

    @classmethod
    def after(cls, limit_s: float | None) -> "Deadline":
        """That many seconds from now."""
        return cls(limit_s=limit_s, at=None if limit_s is None else monotonic() + limit_s)

    @property
    def left_s(self) -> float | None:
        """Seconds until then; below 0 afterwards."""
        return None if self.at is None else self.at - monotonic()


@dataclass(frozen=True, slots=True)
class Question:
    """What a model is asked, and the JSON schema of its answer, if it is to have one."""

    messages: tuple[Message, ...]
    schema: Mapping[str, Any] | None

    @property
    def key(self) -> tuple[object, ...]:
        """The same for those who ask the same."""
        return (self.messages, orjson.dumps(self.schema))


class ChatClient:
    """Asks one model for one selector.

    Each call has a task of its own, so that a caller leaves in time even where the model's code turns a deaf ear to
    being cancelled; the call's place is free again when it has really ended.
    """

    def __init__(self, model: ChatModel, *, max_retries: int, max_concurrency: int, share_identical: bool) -> None:
        """Set the bounds.

        Args:
            model: Whom to ask.
            max_retries: How often a call that failed for a passing reason is made again.
            max_concurrency: How many calls may be in flight at once; more wait in order of arrival.
            share_identical: Whether those who ask word for word the same at the same time share one call.
        """
        self._model = model
        self._name = str(getattr(model, "name", type(model).__name__))
        self._max_retries = max_retries
        self._gate = Limiter(max_concurrency)
        self._breaker = Breaker()
        self._share_identical = share_identical
        self._in_flight: SingleFlight[ChatReply] = SingleFlight()

    @property
    def takes_schema(self) -> bool:
        """Whether replies are held to a schema, or by the prompt alone."""
        return takes_schema(self._model)

    async def ask(self, question: Callable[[], Question], deadline: Deadline) -> ChatReply:
        """What the model answers, within the deadline, queueing and retries included.

        `question` is made when its turn comes: a thousand requests at once must not make a thousand prompts at once,
        while those who have been asked wait for the loop to hear their answers.

        Raises:
            ModelTimeoutError: The deadline passed.
            ModelUnavailableError: The model failed lately, and is left alone for a while.

        Whatever else a model raises passes as it is, once retries are used up or make no sense.
        """
        key = question().key if self._share_identical else object()
        call = _Call()
        limit = asyncio.timeout(deadline.left_s)
        try:
            async with limit:
                return await self._in_flight.join(key, lambda: self._guarded(call, question, deadline))
        except TimeoutError as error:
            if not limit.expired():
                raise
            if call.made:
                self._breaker.failed(lost_deadline=True)
            raise ModelTimeoutError(self._name, timeout_s=deadline.limit_s or 0.0) from error

    async def _guarded(self, call: "_Call", question: Callable[[], Question], deadline: Deadline) -> ChatReply:
        """Through the gate and past the breaker, which hears what became of it."""
        self._breaker.check(self._name)
        async with self._gate.entered():
            self._breaker.admit(self._name)
            call.made = True
            try:
                answer = await self._retried(question(), deadline)
            except BaseException as error:
                if _is_passing(error):
                    self._breaker.failed(lost_deadline=False)
                else:
                    self._breaker.gave_up()
                raise
            self._breaker.succeeded()
            return answer

    async def _retried(self, question: Question, deadline: Deadline) -> ChatReply:
        attempts = AsyncRetrying(
            retry=retry_if_exception(_is_passing),
            wait=_wait,
            stop=stop_after_attempt(1 + self._max_retries) | _too_late(deadline),
            before_sleep=self._log_retry,
            reraise=True,
        )
        async for attempt in attempts:
            with attempt:
                answer = await self._once(question)
                return replace(answer, attempts=attempt.retry_state.attempt_number)
        raise AssertionError  # pragma: no cover - reraise=True leaves the loop by an answer or by the last error

    async def _once(self, question: Question) -> ChatReply:
        return chat_reply_of(await complete(self._model, question.messages, schema=question.schema))

    def _log_retry(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        _log.info("model=<%s>, attempt=<%d>, error=<%r> | asking again", self._name, state.attempt_number, error)


@dataclass(slots=True)
class _Call:
    made: bool = False
    """Whether it came through the gate: only then is a lost deadline the model's."""


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
        left_s = deadline.left_s
        return left_s is not None and state.upcoming_sleep >= left_s

    return stop
