"""Answers to requests: a chain of tool calls, then the answer in a schema. Async, streamed or blocking."""

import asyncio
from asyncio import Runner
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from inspect import signature
from threading import Lock, Thread, current_thread
from typing import Any, Final, ParamSpec, TypeVar, cast
from weakref import finalize as finalize_object

from jazz_select.agent.chain.finalizer import Formatted, Formatter, finalize, put_in_schema
from jazz_select.agent.chain.formatting import MAX_CHARS, FormattingPrompt
from jazz_select.agent.chain.loop import run_chain, run_loop
from jazz_select.agent.chain.output_schema import SchemaLike, output_schema
from jazz_select.agent.chain.prompts import Asker, ChainOptions, OnLimit, Strategy, as_messages, with_system
from jazz_select.agent.chain.transcript import (
    AfterCall,
    AssistantText,
    BeforeCall,
    CallRecord,
    Chain,
    ChainText,
    Event,
    Finished,
    OnEvent,
    OutputText,
    tell,
    usage_of_records,
)
from jazz_select.chat.client import ChatClient
from jazz_select.chat.models import ModelLike
from jazz_select.errors import ChainError, ConfigError
from jazz_select.routing.approval import ApprovalPolicy, Approve
from jazz_select.routing.tools.context_inputs import check_context
from jazz_select.routing.tools.sources import ToolsLike, tools_of
from jazz_select.routing.tools.tool import Tool
from jazz_select.values import Message, Usage

_LONGEST_END_S: Final = 1.0
_IN_SCHEMA: Final = "Answer with one JSON value that is valid against this JSON Schema, and with nothing else: {}"
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a request.

    Attributes:
        text: The formatted text if a schema was given, else the chain's last text.
        value: The value of the schema; None without one.
        chain: The chain that led to the answer.
        formatted: How the answer was put into the schema; None without one.
    """

    text: str
    chain: Chain
    value: Any = None
    formatted: Formatted | None = None

    @property
    def incomplete(self) -> bool:
        """Whether the chain was cut short."""
        return self.chain.incomplete

    @property
    def conversation_id(self) -> str:
        """The caller's conversation id."""
        return self.chain.conversation_id

    @property
    def records(self) -> tuple[CallRecord, ...]:
        """All model calls; formatting calls come last."""
        if self.formatted is None:
            return self.chain.records
        return (*self.chain.records, *self.formatted.records)

    @property
    def usage(self) -> Usage | None:
        """The total token usage; None if no call reported it."""
        return usage_of_records(self.records)


async def respond(  # noqa: PLR0913 - options with a name
    model: ModelLike | ChatClient,
    messages: str | Sequence[Message],
    tools: ToolsLike = (),
    schema: SchemaLike | None = None,
    *,
    strategy: Strategy = "deferred",
    chain_limit: int = 8,
    before_call: BeforeCall | None = None,
    approval: ApprovalPolicy = "destructive",
    approve: Approve | None = None,
    after_call: AfterCall | None = None,
    on_event: OnEvent | None = None,
    conversation_id: str = "",
    tool_timeout_s: float | None = 30.0,
    at_once: int = 8,
    prompt: FormattingPrompt | None = None,
    max_chars: int = MAX_CHARS,
    on_limit: OnLimit = "format",
    max_reasks: int = 1,
    model_timeout_s: float | None = None,
    max_retries: int = 2,
    context: Mapping[str, Any] | None = None,
) -> Answer:
    """Answer a request by a chain of tool calls, and put the answer into a schema if one is given.

    With tools and a schema, the chain runs without the schema, and one more model call formats its findings. With a
    schema alone, a single call carries it. Without a schema, the last text is the answer.

    Args:
        model: The model, in any form that `FlowSelector` takes.
        messages: The user's text, or messages; a system message comes first.
        tools: Tools and functions the model may call, or what `load_tools` returns.
        schema: A JSON Schema or a pydantic class for the answer.
        strategy: When the schema applies if there are tools: after the loop (`deferred`), on every model call
            (`native`), or as one more tool (`tool`).
        chain_limit: Most model calls of the chain; formatting calls are extra.
        before_call: Called before each tool call; may refuse it with a reason.
        approval: What needs a yes if `approve` is not given: "destructive" blocks destructive tools, "always" blocks
            every tool, "never" blocks none.
        approve: Called for each call that `before_call` allows; returns `Allow()`, `Deny(reason)` or `Ask(reason)`.
        after_call: Called after each tool call; may replace its result.
        on_event: Receives events.
        conversation_id: Stored in all records.
        tool_timeout_s: Timeout of one tool call, in seconds; None for no limit.
        at_once: Most calls of one reply that run side by side: those of tools that only read (`Tool.reads`). A call
            that may change something runs alone, after all before it and before all after it.
        prompt: The formatting prompt after a chain; None for the default.
        max_chars: Most characters of the chain in that prompt.
        on_limit: What to do with a chain that was cut short: format it, or raise. "raise" applies without a schema,
            too.
        max_reasks: How often a reply that does not fit the schema is returned to the model.
        model_timeout_s: Timeout of one model call, in seconds, retries included; None for no limit.
        max_retries: Retries of a model call after a transient failure.
        context: What only the caller knows, such as who the user is. It fills inputs of tools by name, and those marked
            with `FromContext`. The model is shown neither; a value that it gives all the same is dropped, with a note.

    Raises:
        ConfigError: An argument cannot work; nothing was asked.
        DuplicateToolError: Two tools have one name.
        ChainError: The model failed in the chain, or the chain was cut short and `on_limit` is "raise".
        FormatError: The chain ended, and its answer could not be put into the schema.
    """
    options = ChainOptions.from_arguments(locals())
    check_context(context)
    connected = tools_of(tools)
    if schema is not None and not connected:
        answer = await _directly(model, messages, schema, options)
    else:
        answer = await _by_chain(model, messages, connected, schema, options, context)
    await tell(on_event, Finished(answer=answer))
    return answer


async def _by_chain(
    model: ModelLike | ChatClient,
    messages: str | Sequence[Message],
    tools: Sequence[Tool],
    schema: SchemaLike | None,
    options: ChainOptions,
    context: Mapping[str, Any] | None,
) -> Answer:
    if schema is not None:
        chain = await run_loop(model, messages, tools, schema, options, context=context)
        formatted = await put_in_schema(model, chain, schema, options)
        return Answer(text=formatted.text, chain=chain, value=formatted.value, formatted=formatted)
    in_prose = replace(options, on_event=_as_output(options.on_event))
    chain = await run_loop(model, messages, tools, None, in_prose, in_pieces=True, context=context)
    if chain.incomplete and options.on_limit == "raise":
        raise ChainError(chain, chain.notes[-1])
    return Answer(text=chain.text, chain=chain)


async def _directly(
    model: ModelLike | ChatClient, messages: str | Sequence[Message], schema: SchemaLike, options: ChainOptions
) -> Answer:
    initial = as_messages(messages)
    output = await output_schema(schema)
    prompt = with_system(initial, _IN_SCHEMA.format(output.text))
    async with Asker(model, options) as asker:
        chain = Chain(conversation_id=asker.conversation_id, messages=initial)
        formatted = await Formatter(asker, output, chain, options.on_event, options.max_reasks).run(prompt, "answer")
    chain = replace(chain, entries=(AssistantText(text=formatted.text),), answer=formatted.text)
    return Answer(text=formatted.text, chain=chain, value=formatted.value, formatted=formatted)


def _as_output(listener: OnEvent | None) -> OnEvent | None:
    if listener is None:
        return None

    async def forward(event: Event) -> None:
        if isinstance(event, ChainText) and event.closing:
            event = OutputText(delta=event.text)
        await tell(listener, event)

    return forward


def in_events(
    answering: Callable[P, Coroutine[Any, Any, object]], name: str
) -> Callable[P, AsyncGenerator[Event, None]]:
    """Turn a coroutine function with `on_event` into a generator of events; the caller's `on_event` runs first."""

    @wraps(answering)
    async def events(*args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[Event, None]:
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        own = cast("OnEvent | None", kwargs.get("on_event"))

        async def enqueue(event: Event) -> None:
            await tell(own, event)
            queue.put_nowait(event)

        kwargs["on_event"] = enqueue

        async def work() -> None:
            try:
                await answering(*args, **kwargs)
            finally:
                queue.put_nowait(None)

        task = asyncio.create_task(work())
        try:
            while (event := await queue.get()) is not None:
                yield event
            await task
        finally:
            # Its error is marked as read: nobody waits for a task that was stopped early.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            task.cancel()
            await asyncio.wait({task})

    _set_name(events, name, AsyncGenerator[Event, None])
    return events


class OwnLoop:
    """An event loop in a thread of its own, for blocking callers; started on first use, stopped with its owner.

    All calls share one loop because a model client's connections belong to the loop that opened them. A forked process
    starts a new loop, as the parent's thread does not exist there.
    """

    def __init__(self) -> None:
        """Start nothing yet."""
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None

    def run(self, name: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine in the loop and return its result; thread-safe."""
        with self._lock:
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                self._loop = asyncio.new_event_loop()
                thread = Thread(target=_run_loop_forever, args=(self._loop,), name=f"jazz_select, {name}", daemon=True)
                thread.start()
                self._thread = thread
                finalize_object(self, _stop_loop, self._loop, thread)
        running = asyncio.run_coroutine_threadsafe(work(), self._loop)
        try:
            return running.result()
        finally:
            # The caller may have been interrupted.
            running.cancel()


def _run_loop_forever(loop: asyncio.AbstractEventLoop) -> None:
    with Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop().run_forever()


def _stop_loop(loop: asyncio.AbstractEventLoop, thread: Thread) -> None:
    loop.call_soon_threadsafe(loop.stop)
    if thread is not current_thread():
        thread.join(_LONGEST_END_S)


def in_own_loop(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Return a blocking form of a method, which runs in its object's `own_loop`, or of a function: in a new one."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        _check_no_loop(function.__name__)
        own: OwnLoop | None = getattr(args[0] if args else None, "own_loop", None)
        if own is None:
            return asyncio.run(function(*args, **kwargs))
        return own.run(function.__name__, lambda: function(*args, **kwargs))

    _set_name(call, f"{function.__name__}_sync")
    return call


def _check_no_loop(name: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ConfigError(f"{name}_sync cannot run where an event loop runs already: use 'await {name}(…)' there")


def _set_name(function: Any, name: str, returns: object = None) -> None:
    within, _, _ = str(function.__qualname__).rpartition(".")
    function.__name__ = name
    function.__qualname__ = f"{within}.{name}" if within else name
    if not within:
        function.__module__ = __name__
    if returns is not None:
        function.__annotations__ = {**function.__annotations__, "return": returns}
        function.__signature__ = signature(function).replace(return_annotation=returns)


run_chain_sync = in_own_loop(run_chain)
"""`run_chain`, blocking."""
finalize_sync = in_own_loop(finalize)
"""`finalize`, blocking."""
respond_sync = in_own_loop(respond)
"""`respond`, blocking."""
stream_respond = in_events(respond, "stream_respond")
"""Run `respond` and yield its events; the last one, `Finished`, holds the `Answer`.

Output text comes only as `OutputText`, each piece once. A model with a `stream` method is read while it writes, unless
it calls tools in its text, where a reply may turn out to be a call only at its end. If streamed text turns out invalid,
or a call follows it, `FormatRestarted` withdraws it. Other models yield the text in one piece, once it is valid.

Close the generator (`contextlib.aclosing`) to stop early; the work is cancelled. Arguments and errors are those of
`respond`.
"""
