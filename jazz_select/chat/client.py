"""A client that asks a chat model, and asks again if the reply cannot be used; `calls` limits each call."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final, TypeVar

from jazz_select.chat.calls import Call, ModelClient
from jazz_select.chat.incoming import CleanReply, clean_reply, text_of
from jazz_select.chat.json_reader import LONGEST
from jazz_select.chat.models import ModelLike, as_chat_model
from jazz_select.chat.outgoing import shape_messages
from jazz_select.chat.reasoning import ReasoningFilter, Shown
from jazz_select.errors import ConfigError, ModelError, ModelTimeoutError
from jazz_select.ports import ChatModel, StreamingChatModel, streams, takes_schema, takes_tools
from jazz_select.telemetry import Span, span
from jazz_select.text import as_text, cut, describe_error, in_one_line, name_shown
from jazz_select.threads import Deadline, leave
from jazz_select.values import INCOMPLETE, Message, NativeCall, OfferedTool, Reply, Usage

_REPLY_LIMIT: Final = 500


@dataclass(frozen=True, slots=True)
class Inquiry:
    """A request to a model."""

    messages: tuple[Message, ...]
    schema: Mapping[str, Any] | None = None
    reply_form: str = ""
    """What the reply has to be, for the correction of an unusable one."""
    tools: tuple[OfferedTool, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReply:
    """A model's answer, cleaned; `text` is None if it was not text."""

    text: str | None = None
    raw: str | None = None
    """The text as the model wrote it, with its reasoning."""
    usage: Usage | None = None
    model: str = ""
    truncated: bool = False
    cut_off: tuple[str, ...] = ()
    """A note that says how, if the reply was cut off."""
    attempts: int = 0
    """The number of calls."""
    notes: tuple[str, ...] = ()
    degraded: tuple[str, ...] = ()
    """The model's own notes, and what was dropped of its reply."""
    tool_calls: tuple[NativeCall, ...] = ()
    unread: str = ""
    """Why its tool calls are not among `tool_calls`; empty if they are."""
    origin: Any = field(default=None, compare=False, repr=False)


def _chat_reply(cleaned: CleanReply | None, given: object) -> ChatReply:
    """Return what a model answered; an answer that is not text is unreadable, but not an error."""
    if cleaned is None:
        note = f"the model answered {type(given).__name__} without a text"
        return ChatReply(attempts=1, notes=(note,), degraded=(note,))
    reply = cleaned.reply
    degraded = (*reply.notes, *cleaned.notes)
    return ChatReply(
        text=reply.text,
        raw=cleaned.written,
        usage=reply.usage,
        model=reply.model,
        truncated=reply.truncated,
        attempts=1,
        notes=(*_why_cut_off(reply), *degraded),
        cut_off=_why_cut_off(reply),
        degraded=degraded,
        tool_calls=reply.tool_calls,
        unread=cleaned.unread,
        origin=reply.origin,
    )


def _why_cut_off(reply: Reply) -> tuple[str, ...]:
    if not reply.truncated:
        return ()
    if reply.finish_reason == INCOMPLETE:
        return ("the model's reply was cut off: its stream ended without a finish reason",)
    return ("the model's reply was cut off by a limit on its length",)


def total_usage(one: Usage | None, other: Usage | None) -> Usage | None:
    """Add the tokens of two calls; None if neither was counted."""
    if one is None or other is None:
        return one or other
    return Usage(
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        cached_tokens=one.cached_tokens + other.cached_tokens,
    )


def why_unusable(answer: ChatReply, ids: Sequence[str], offered: Collection[str], *, what: str = "ids") -> str:
    """Explain to the model why its reply could not be used; `what` is the noun for an id."""
    if answer.text is None:
        return "it was no text"
    if answer.truncated:
        return "it was cut off before it ended"
    strange = [each for each in ids if each not in offered]
    if strange:
        shown = [name_shown(cut(each, 60)) for each in strange[:3]]
        return f"not among the candidates: {', '.join(shown)}"
    if ids:
        return "what it chose can not be run any more"
    return f"no {what} were found in it"


def correct_inquiry(question: Inquiry, reply: str | None, problem: str) -> Inquiry:
    """Repeat the question with the unusable reply, its problem, and what is wanted instead."""
    # A provider refuses a blank message of the assistant.
    unusable = (reply or "").strip()[:_REPLY_LIMIT] or "(no text)"
    correction = (
        f"That could not be used: {in_one_line(problem)}. Answer again, with nothing but {question.reply_form}."
    )
    more = (Message(role="assistant", content=unusable), Message(role="user", content=correction))
    return replace(question, messages=(*question.messages, *more))


_log = logging.getLogger(__name__)
T = TypeVar("T")


class ChatClient(ModelClient[ChatModel, ChatReply]):
    """A client of one chat model."""

    @property
    def takes_schema(self) -> bool:
        """Whether the model accepts schemas."""
        return takes_schema(self._model)

    @property
    def takes_tools(self) -> bool:
        """Whether the model has native tool calling."""
        return takes_tools(self._model)

    @property
    def streams(self) -> bool:
        """Whether the model can stream."""
        return streams(self._model)

    async def ask(self, question: Callable[[], Inquiry], deadline: Deadline) -> ChatReply:
        """Ask the model within the deadline, queueing and retries included.

        Args:
            question: Builds the request. It is called when its turn comes, so that a thousand waiting requests do not
                build a thousand prompts at once and block the loop.
            deadline: When the answer is due.

        Raises:
            ModelTimeoutError: The deadline passed.
            ModelUnavailableError: The breaker is open after recent failures.

        Other errors of the model pass unchanged once retries are used up or would not help.
        """
        inquiry = cache(question)  # built once, even if it is sent again
        answer, attempts = await self._run(lambda: self._complete_once(inquiry()), deadline)
        return replace(answer, attempts=attempts)

    async def ask_until_usable(
        self,
        question: Callable[[], Inquiry],
        deadline: Deadline,
        *,
        read: Callable[[ChatReply], T],
        problem: Callable[[ChatReply, T], str],
        max_reasks: int,
    ) -> tuple[ChatReply, T]:
        """Ask until the reply can be read, as long as there is time.

        Returns:
            The last reply, with the tokens, calls and notes of all, and what was read from it. If the model fails when
            asked again, that is a note, and the earlier reply stands.

        Raises what `ask` does at the first question.
        """
        first = cache(question)
        answer = await self.ask(first, deadline)
        value = read(answer)
        for _ in range(max_reasks):
            why = problem(answer, value)
            if not why:
                break
            # Start from the first question each time, so that only the last unusable reply is repeated.
            corrected = correct_inquiry(first(), answer.text, why)
            try:
                again = await self.ask(lambda: corrected, deadline)  # noqa: B023 - called before the next iteration
            except Exception as error:  # noqa: BLE001 - any error of a model
                note = f"asked again ({why}), and the model failed: {describe_error(error)}"
                _log.warning("model=<%s>, error=<%s> | asked again, and it failed", self.name, type(error).__name__)
                return replace(answer, notes=(*answer.notes, note)), value
            answer = replace(
                again,
                usage=total_usage(answer.usage, again.usage),
                attempts=answer.attempts + again.attempts,
                notes=(*answer.notes, f"asked again: {why}", *again.notes),
            )
            value = read(answer)
        return answer, value

    async def stream(
        self,
        question: Inquiry,
        deadline: Deadline,
        on_text: Callable[[str], Awaitable[object]],
        on_restart: Callable[[str], Awaitable[object]] | None = None,
    ) -> ChatReply:
        """Stream the answer, passing each piece to `on_text`; reasoning that is written as text is left out.

        If all that was passed turns out to be reasoning, `on_restart` gets a text that says so, and the answer follows.
        No retries after the first piece, since no piece can be taken back. If the call fails before, fall back to `ask`
        and pass its text as one piece. Errors of `on_text` end the call.

        Raises:
            ConfigError: The model cannot stream.
            ModelTimeoutError: The deadline passed.
            ModelUnavailableError: The breaker is open after recent failures.
        """
        model = self._model
        if not streams(model):
            raise ConfigError(f"the model {self.name} has no method 'stream'")
        answer = _StreamedText(on_text, on_restart)
        try:
            async with self._limit_time(deadline) as call:
                task = asyncio.ensure_future(self._read_stream(model, call, question, answer))
                try:
                    # Unlike an await of the task, this leaves in time even if the model ignores cancellation.
                    await asyncio.wait({task})
                    return task.result()
                finally:
                    call.is_abandoned = True
                    await leave(task)
        except ModelError as error:
            if answer.was_shown or not error.retryable or isinstance(error, ModelTimeoutError):
                raise
            again = await self.ask(lambda: question, deadline)
            if again.text:
                await on_text(again.text)
            return replace(again, attempts=again.attempts + 1)
        raise AssertionError  # pragma: no cover - the block above returns or raises

    async def _read_stream(
        self, model: StreamingChatModel, call: Call, question: Inquiry, answer: "_StreamedText"
    ) -> ChatReply:
        whole, length = Reply(text="", model=self.name), 0
        messages = shape_messages(question.messages)
        written: list[str] = []
        async with self._hold_slot(call):
            with span(self.name, "chat") as chat:
                deltas = model.stream(messages, **self._call_options(question))
                try:
                    async for delta in deltas:
                        if call.is_abandoned:
                            break
                        if isinstance(delta, Reply):
                            whole = delta
                            continue
                        piece = self._piece(delta)
                        length = self._add_length(length, piece)
                        written.append(piece)
                        await answer.add(piece)
                finally:
                    close = getattr(deltas, "aclose", None)
                    if close is not None:
                        await close()
                await answer.end(cut_off=whole.truncated)
                given = replace(whole, text="".join(written))
                cleaned = clean_reply(given)
                _note(chat, messages, cleaned)
        return _chat_reply(cleaned, given)

    def _piece(self, delta: object) -> str:
        piece = text_of(delta)
        if piece is None:
            problem = (
                f"its stream gave a {type(delta).__name__}: it has to yield pieces of text, and the Reply at the end"
            )
            raise ModelError(self.name, problem, retryable=False)
        return as_text(piece)

    def _add_length(self, length: int, piece: str) -> int:
        if length + len(piece) > LONGEST:
            raise ModelError(self.name, f"the reply is longer than {LONGEST} characters", retryable=False)
        return length + len(piece)

    def _call_options(self, question: Inquiry) -> dict[str, Any]:
        options: dict[str, Any] = {}
        if question.tools and self.takes_tools:
            options["tools"] = question.tools
        if question.schema is not None and self.takes_schema:
            options["schema"] = question.schema
        return options

    async def _complete_once(self, question: Inquiry) -> ChatReply:
        messages = shape_messages(question.messages)
        with span(self.name, "chat") as chat:
            given = await self._model.complete(messages, **self._call_options(question))
            cleaned = clean_reply(given)
            _note(chat, messages, cleaned)
        return _chat_reply(cleaned, given)


class _StreamedText:
    """Passes on the visible text of a reply while it is written."""

    def __init__(
        self,
        on_text: Callable[[str], Awaitable[object]],
        on_restart: Callable[[str], Awaitable[object]] | None,
    ) -> None:
        self.was_shown = False
        self._on_text, self._on_restart = on_text, on_restart
        self._filter = ReasoningFilter()

    async def add(self, piece: str) -> None:
        await self._pass_on(self._filter.feed(piece))

    async def end(self, *, cut_off: bool) -> None:
        await self._pass_on(self._filter.finish(cut_off=cut_off))

    async def _pass_on(self, shown: Shown) -> None:
        if shown.restarts and self.was_shown and self._on_restart is not None:
            await self._on_restart("what was shown was the model's reasoning")
        if shown.text:
            self.was_shown = True
            await self._on_text(shown.text)


def client_for(
    model: "ModelLike | ChatClient",
    *,
    max_retries: int = 2,
    max_concurrency: int = 64,
    missing: str = "there is no model to ask: it is None",
) -> ChatClient:
    """Return a client for a model; a client is returned as it is, with its own limits."""
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


def _note(chat: Span | None, messages: Sequence[Message], cleaned: CleanReply | None) -> None:
    if chat is None:
        return
    conversation: list[dict[str, Any]] = []
    for message in messages:
        conversation.append({"role": message.role, "content": message.content, **_tool_calls_field(message)})
    # Texts may quote users, so they are recorded as content and not as attributes.
    chat.hold({"messages": conversation})
    if cleaned is None:
        return
    reply = cleaned.reply
    chat.hold({"reply": cleaned.written, **_tool_calls_field(reply)})
    chat.note({"model": reply.model, "finish_reason": reply.finish_reason})
    usage = reply.usage
    if usage is None:
        return
    chat.note({"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens})
    if usage.cached_tokens:
        chat.note({"cached_tokens": usage.cached_tokens})


def _tool_calls_field(message: Message | Reply) -> dict[str, Any]:
    calls = [{"id": each.id, "name": each.name, "arguments": each.arguments} for each in message.tool_calls]
    return {"tool_calls": calls} if calls else {}
