"""Asking a chat model so that its faults stay bounded: retries, a deadline, a breaker, so many calls at a time."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, wait_random_exponential

from jazz_select.chat.breaker import Breaker
from jazz_select.chat.exchange import ChatReply, Question, asked_again, chat_reply_of, total_usage
from jazz_select.chat.models import ModelLike, as_chat_model
from jazz_select.errors import ConfigError, ModelError, ModelTimeoutError
from jazz_select.ports import ChatModel, StreamingChatModel, streams, takes_schema
from jazz_select.telemetry import Span, span
from jazz_select.text import as_text, describe_error
from jazz_select.threads import Deadline, TimeBudget, current_budget, leave
from jazz_select.values import Message, Reply

_log = logging.getLogger(__name__)
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


class _SingleFlight(Generic[T]):
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


class ChatClient:
    """Asks one model for those who share it: its breaker and its places are theirs together.

    Each call has a task of its own, so that a caller leaves in time even where the model's code ignores being
    cancelled; the call's place is free again when it has really ended.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        max_retries: int = 2,
        max_concurrency: int = 64,
        share_identical: bool = False,
        owned: bool = False,
    ) -> None:
        """Set the bounds.

        Args:
            model: Whom to ask.
            max_retries: How often a call that failed for a passing reason is made again.
            max_concurrency: How many calls may be in flight at once; more wait in order of arrival.
            share_identical: Whether those who ask word for word the same at the same time share one call.
            owned: Whether nobody else has the model, so that `aclose` closes it.
        """
        self.name = str(getattr(model, "name", "") or type(model).__name__)
        self._model = model
        self._max_retries = max_retries
        self._limiter = Limiter(max_concurrency)
        self._breaker = Breaker()
        self._share_identical = share_identical
        self._owned = owned
        self._in_flight: _SingleFlight[ChatReply] = _SingleFlight()

    @property
    def takes_schema(self) -> bool:
        """Whether replies are held to a schema, or by the prompt alone."""
        return takes_schema(self._model)

    @property
    def streams(self) -> bool:
        """Whether a reply can be had while it is written."""
        return streams(self._model)

    async def ask(self, question: Callable[[], Question], deadline: Deadline, *, traced: bool = True) -> ChatReply:
        """What the model answers, within the deadline, queueing and retries included.

        Args:
            question: What to ask. It is made when its turn comes: a thousand requests at once must not make a
                thousand prompts at once, while those who have been asked wait for the loop to hear their answers.
            deadline: When the answer has to be there.
            traced: Whether each call is a span; not where the caller tells of it, and may leave out what was said.

        Raises:
            ModelTimeoutError: The deadline passed.
            ModelUnavailableError: The model failed lately, and is left alone for a while.

        Whatever else a model raises passes as it is, once retries are used up or make no sense.
        """
        key = question().key if self._share_identical else object()
        async with self._within(deadline) as call:
            return await self._in_flight.join(key, lambda: self._asked(call, question, deadline, traced=traced))
        raise AssertionError  # pragma: no cover - the block above returns or raises

    async def ask_until_usable(
        self,
        question: Callable[[], Question],
        deadline: Deadline,
        *,
        read: Callable[[ChatReply], T],
        problem: Callable[[ChatReply, T], str],
        max_reasks: int,
    ) -> tuple[ChatReply, T]:
        """Ask, read, and ask again while what was read is no use and there is time.

        Args:
            question: What to ask, made when its turn comes.
            deadline: When all of it has to be done.
            read: What a reply says; never raises.
            problem: Why that cannot be used, as the model is told; empty where it can.
            max_reasks: How often the model is told so.

        Returns:
            The last reply, with the tokens, calls and notes of all of them, and what was read from it. Where the
            model fails on being asked again, that is a note, and what was there before stands.

        Raises what `ask` does at the first question.
        """
        first = cache(question)
        answer = await self.ask(first, deadline)
        said = read(answer)
        for _ in range(max_reasks):
            why = problem(answer, said)
            if not why:
                break
            more = asked_again(first(), answer.text, why)
            try:
                again = await self.ask(lambda: more, deadline)  # noqa: B023 - asked before the next round
            except Exception as error:  # noqa: BLE001 - whatever a model fails with
                note = f"asked again ({why}), and the model failed: {describe_error(error)}"
                _log.warning("model=<%s>, error=<%s> | asked again, and it failed", self.name, type(error).__name__)
                return replace(answer, notes=(*answer.notes, note)), said
            answer = replace(
                again,
                usage=total_usage(answer.usage, again.usage),
                attempts=answer.attempts + again.attempts,
                notes=(*answer.notes, f"asked again: {why}", *again.notes),
            )
            said = read(answer)
        return answer, said

    async def stream(
        self, question: Question, deadline: Deadline, on_text: Callable[[str], Awaitable[object]]
    ) -> ChatReply:
        """What the model answers, each piece of it told while it writes; one call, since none can be taken back.

        What `on_text` raises ends the call.

        Raises:
            ConfigError: The model cannot be read while it writes.
            ModelTimeoutError: The deadline passed.
            ModelUnavailableError: The model failed lately, and is left alone for a while.
        """
        model = self._model
        if not streams(model):
            msg = f"the model {self.name} has no method 'stream'"
            raise ConfigError(msg)
        async with self._within(deadline) as call:
            task = asyncio.ensure_future(self._read(model, call, question, on_text))
            try:
                await asyncio.wait({task})
                return task.result()
            finally:
                call.left = True
                await leave(task)
        raise AssertionError  # pragma: no cover - the block above returns or raises

    async def _read(
        self,
        model: StreamingChatModel,
        call: "_Call",
        question: Question,
        on_text: Callable[[str], Awaitable[object]],
    ) -> ChatReply:
        pieces: list[str] = []
        async with self._admitted(call):
            with span(self.name, "chat") as chat:
                deltas = model.stream(question.messages, schema=question.schema if self.takes_schema else None)
                try:
                    async for delta in deltas:
                        if call.left:
                            break
                        if piece := as_text(delta):
                            pieces.append(piece)
                            await on_text(piece)
                finally:
                    close = getattr(deltas, "aclose", None)
                    if close is not None:
                        await close()
                reply = Reply(text="".join(pieces), model=self.name)
                _note(chat, question.messages, reply)
        return chat_reply_of(reply)

    async def aclose(self) -> None:
        """Close the connections of a model that was made for this client alone; any other stays as it is."""
        close = getattr(self._model, "aclose", None)
        if self._owned and close is not None:
            await close()

    @asynccontextmanager
    async def _within(self, deadline: Deadline) -> AsyncGenerator["_Call"]:
        """Until the deadline, or until a turn has no time left; the breaker hears of one that the model let pass."""
        call = _Call()
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
    async def _admitted(self, call: "_Call") -> AsyncGenerator[None]:
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

    async def _asked(
        self, call: "_Call", question: Callable[[], Question], deadline: Deadline, *, traced: bool
    ) -> ChatReply:
        async with self._admitted(call):
            return await self._retried(question(), deadline, traced=traced)
        raise AssertionError  # pragma: no cover - the block above returns or raises

    async def _retried(self, question: Question, deadline: Deadline, *, traced: bool) -> ChatReply:
        attempts = AsyncRetrying(
            retry=retry_if_exception(_is_passing),
            wait=_wait,
            stop=stop_after_attempt(1 + self._max_retries) | _too_late(deadline),
            before_sleep=self._log_retry,
            reraise=True,
        )
        async for attempt in attempts:
            with attempt:
                answer = await self._once(question.messages, question.schema, traced=traced)
                return replace(answer, attempts=attempt.retry_state.attempt_number)
        raise AssertionError  # pragma: no cover - reraise=True leaves the loop by an answer or by the last error

    async def _once(self, messages: Sequence[Message], schema: Mapping[str, Any] | None, *, traced: bool) -> ChatReply:
        """One call. The schema goes along where the model takes one."""
        model = self._model
        with span(self.name, "chat") if traced else nullcontext() as chat:
            if schema is not None and takes_schema(model):
                reply = await model.complete(messages, schema=schema)
            else:
                reply = await model.complete(messages)
            _note(chat, messages, reply)
        return chat_reply_of(reply)

    def _log_retry(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        kind = type(error).__name__  # its text may quote what was said
        _log.info("model=<%s>, attempt=<%d>, error=<%s> | asking again", self.name, state.attempt_number, kind)


def client_for(
    model: "ModelLike | ChatClient",
    *,
    max_retries: int = 2,
    max_concurrency: int = 64,
    missing: str = "there is no model to ask: it is None",
) -> ChatClient:
    """A client for whatever a caller has as a model; one that is a client already is itself, with its own bounds.

    Raises:
        ConfigError: It is no model; `missing` is what is said where there is none.
    """
    if isinstance(model, ChatClient):
        return model
    adapted = as_chat_model(model, argument="model")
    if adapted is None:
        raise ConfigError(missing)
    return ChatClient(
        adapted,
        max_retries=max_retries,
        max_concurrency=max_concurrency,
        owned=isinstance(model, str),
    )


@dataclass(slots=True)
class _Call:
    made: bool = False
    """Whether it got a place: only then is a lost deadline the model's."""
    left: bool = False
    """Whether nobody waits for it any more."""


def _had_its_time(left_s: float | None, deadline: Deadline, budget: TimeBudget | None) -> bool:
    """Whether a call that ended with a turn had about all of what it may have at most: its limit, or the whole turn."""
    limits = [deadline.limit_s, None if budget is None else budget.deadline.limit_s]
    most_s = min((each for each in limits if each is not None), default=0.0)
    return left_s is not None and left_s >= _WHOLE * most_s


def _note(chat: Span | None, messages: Sequence[Message], reply: object) -> None:
    """What was asked and answered; a model may answer with anything."""
    if chat is None:
        return
    chat.hold({"messages": [{"role": each.role, "content": each.content} for each in messages]})
    if isinstance(reply, Reply):
        chat.hold({"reply": reply.text})
        chat.note({"model": reply.model, "finish_reason": reply.finish_reason})
        if reply.usage is not None:
            chat.note({"input_tokens": reply.usage.input_tokens, "output_tokens": reply.usage.output_tokens})
            chat.note({"cached_tokens": reply.usage.cached_tokens} if reply.usage.cached_tokens else {})


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
