"""Formatting: puts a finished chain into a schema by one more model call without tools."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from jazz_select.agent.chain.formatting import MAX_CHARS, FormattingPrompt, formatting_messages_async
from jazz_select.agent.chain.output_schema import OutputSchema, SchemaLike, output_schema
from jazz_select.agent.chain.prompts import LONGEST_REPLY, Asker, ChainOptions, OnLimit, Strategy, as_messages
from jazz_select.agent.chain.transcript import (
    CallRecord,
    Chain,
    FormatRestarted,
    FormatStarted,
    ModelCalled,
    OnEvent,
    OutputText,
    Purpose,
    tell,
)
from jazz_select.chat.client import ChatClient, ChatReply
from jazz_select.chat.models import ModelLike
from jazz_select.errors import ChainError, ConfigError, FormatError
from jazz_select.telemetry import span
from jazz_select.text import as_text, cut, describe_error, in_one_line
from jazz_select.values import Message

AGAIN: Final = "That is not valid: {}. Give the whole JSON value again, corrected, and nothing else."


@dataclass(frozen=True, slots=True, kw_only=True)
class Formatted:
    """An answer in the requested schema.

    Attributes:
        value: A JSON value, or an instance of the pydantic class.
        text: The model's reply that holds it.
        incomplete: Whether the chain was cut short.
        context: The messages sent to the model; empty if the loop itself gave the answer.
        records: The formatting calls, one per attempt.
    """

    value: Any
    text: str
    incomplete: bool = False
    context: tuple[Message, ...] = ()
    records: tuple[CallRecord, ...] = ()

    @property
    def attempts(self) -> int:
        """Number of model calls."""
        return len(self.records)


async def finalize(  # noqa: PLR0913 - options with a name
    model: ModelLike | ChatClient,
    chain: Chain | str,
    schema: SchemaLike,
    *,
    strategy: Strategy = "deferred",
    prompt: FormattingPrompt | None = None,
    max_chars: int = MAX_CHARS,
    on_limit: OnLimit = "format",
    max_reasks: int = 1,
    on_event: OnEvent | None = None,
    model_timeout_s: float | None = None,
    max_retries: int = 2,
) -> Formatted:
    """Put what a chain found into a schema.

    `chain` is the result of `run_chain`, or `FormatError.chain`; or a text that the user says. `model` and `strategy`
    are those of the chain: if its loop gave the answer itself, no call is made, except for `deferred`. `respond`
    explains the other arguments; a call that streams is not retried.

    Raises:
        ConfigError: The schema or an option cannot work; nothing was asked.
        ChainError: The chain was cut short, and `on_limit` is "raise".
        FormatError: The model failed, or gave nothing valid; it keeps the chain.
    """
    options = ChainOptions.from_arguments(locals())
    return await put_in_schema(model, as_chain(chain), schema, options)


def as_chain(given: object) -> Chain:
    """Return a chain, or a user's text as one."""
    if isinstance(given, Chain):
        return given
    if isinstance(given, str):
        return Chain(messages=as_messages(given))
    raise ConfigError(f"chain must be a Chain, as run_chain returns it, or a text, got {given!r:.80}")


async def put_in_schema(
    model: ModelLike | ChatClient, chain: Chain, schema: SchemaLike, options: ChainOptions
) -> Formatted:
    """Run `finalize` with its options as one value.

    Raises:
        ConfigError: The schema or the prompt cannot work.
        ChainError: The chain was cut short, and `on_limit` is "raise".
        FormatError: The model failed, or gave nothing valid.
    """
    output = await output_schema(schema)
    options = replace(options, conversation_id=chain.conversation_id)
    messages = await formatting_messages_async(chain, output, prompt=options.prompt, max_chars=options.max_chars)
    if chain.incomplete and options.on_limit == "raise":
        raise ChainError(chain, chain.notes[-1] if chain.notes else "it was cut short")
    # The loop may have checked the answer against another schema, so it is read against this one.
    if chain.final is not None and options.strategy != "deferred":
        read = output.read(chain.final)
        if not read.problem:
            await tell(options.on_event, OutputText(delta=chain.final))
            return Formatted(value=read.value, text=chain.final, incomplete=chain.incomplete)
    await tell(options.on_event, FormatStarted(incomplete=chain.incomplete))
    async with Asker(model, options) as asker:
        return await Formatter(asker, output, chain, options.on_event, options.max_reasks).run(messages, "format")


@dataclass(slots=True)
class Formatter:
    """Asks for a value of a schema until one is valid or `max_reasks` is used up."""

    asker: Asker
    output: OutputSchema
    chain: Chain
    on_event: OnEvent | None
    max_reasks: int
    last_text: str = ""

    async def run(self, messages: Sequence[Message], purpose: Purpose) -> Formatted:
        """Ask, read the reply, and ask again if it is invalid."""
        context = tuple(messages)
        problem = ""
        with span(purpose, "node") as traced:
            for number in range(1, self.max_reasks + 2):
                await tell(self.on_event, ModelCalled(purpose=purpose, number=number))
                streamed = self.on_event is not None and self.asker.client.streams
                reply = await self._ask(context, purpose, streamed=streamed)
                self.last_text = as_text(reply.text or "")
                read = self.output.read(reply.text, truncated=reply.truncated)
                if traced is not None:
                    traced.note({"attempts": number, "valid": not read.problem})
                if not read.problem:
                    if not streamed:
                        await tell(self.on_event, OutputText(delta=self.last_text))
                    return Formatted(
                        value=read.value,
                        text=self.last_text,
                        incomplete=self.chain.incomplete,
                        context=context,
                        records=tuple(self.asker.records),
                    )
                problem = read.problem
                if number <= self.max_reasks:
                    if streamed:
                        await tell(self.on_event, FormatRestarted(problem=problem))
                    # Only the last attempt is shown: the prompt does not grow with each of them.
                    attempt = Message(role="assistant", content=cut(self.last_text, LONGEST_REPLY) or "(nothing)")
                    again = Message(role="user", content=AGAIN.format(in_one_line(problem)))
                    context = (*messages, attempt, again)
        raise self._error(problem, "reply", context)

    async def _ask(self, context: tuple[Message, ...], purpose: Purpose, *, streamed: bool) -> ChatReply:
        wire = self.output.json if self.output.has_object else None
        pieces: list[str] = []

        async def forward(piece: str) -> None:
            pieces.append(piece)
            await tell(self.on_event, OutputText(delta=piece))

        async def restart(problem: str) -> None:
            pieces.clear()
            await tell(self.on_event, FormatRestarted(problem=problem))

        on_text = forward if streamed else None
        try:
            return await self.asker.ask(context, purpose, wire, on_text=on_text, on_restart=restart)
        except Exception as error:
            if streamed:
                self.last_text = "".join(pieces)
            raise self._error(describe_error(error), "call", context) from error

    def _error(self, problem: str, phase: Literal["call", "reply"], context: tuple[Message, ...]) -> FormatError:
        chain = replace(self.chain, records=(*self.chain.records, *self.asker.records))
        attempts = len(self.asker.records)
        if phase == "call":
            attempts += 1  # a call that failed has no record
        return FormatError(
            problem,
            phase=phase,
            prompt="\n\n".join(message.content for message in context),
            attempts=attempts,
            last_text=self.last_text,
            schema=self.output.json,
            chain=chain,
        )
