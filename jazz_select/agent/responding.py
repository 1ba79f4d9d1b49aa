"""An answer to a request, with or without tools, with or without a schema: the one door to all of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from jazz_select.agent.asking import Asker, with_system
from jazz_select.agent.chain import Strategy, run_chain
from jazz_select.agent.events import ChainText, Event, Finished, OnEvent, OutputText, tell
from jazz_select.agent.finalizing import Formatted, Formatter, OnLimit, check_options, finalize
from jazz_select.agent.formatting import MAX_CHARS, FormattingPrompt
from jazz_select.agent.schemas import OutputSchema, SchemaLike
from jazz_select.agent.toolcalls import AfterCall, BeforeCall
from jazz_select.agent.transcript import AssistantText, CallRecord, Chain, summed
from jazz_select.errors import ChainError, ConfigError
from jazz_select.ports import ChatModel
from jazz_select.routing.tool import Tool
from jazz_select.text import as_text
from jazz_select.values import Message, Usage

_IN_SCHEMA: Final = "Answer with one JSON value that is valid against this JSON Schema, and with nothing else: {}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of a request.

    Attributes:
        text: The last text: the formatted one where a schema was asked for, else the chain's own.
        value: The value of the schema; None where none was asked for.
        chain: What led there.
        formatted: How it was put into the schema; None where none was asked for.
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
        """The caller's name for the conversation."""
        return self.chain.conversation_id

    @property
    def records(self) -> tuple[CallRecord, ...]:
        """Every call of the model, those that put the answer into its schema last."""
        return (*self.chain.records, *(self.formatted.records if self.formatted else ()))

    @property
    def usage(self) -> Usage | None:
        """All tokens together; None where nobody counted."""
        return summed(self.records)


async def respond(  # noqa: PLR0913 - options with a name
    model: ChatModel,
    messages: Sequence[Message],
    tools: Iterable[Tool] = (),
    schema: SchemaLike | None = None,
    *,
    strategy: Strategy = "deferred",
    chain_limit: int = 8,
    before_call: BeforeCall | None = None,
    after_call: AfterCall | None = None,
    on_event: OnEvent | None = None,
    conversation_id: str = "",
    tool_timeout_s: float | None = 30.0,
    at_once: int = 1,
    prompt: FormattingPrompt | None = None,
    max_chars: int = MAX_CHARS,
    on_limit: OnLimit = "format",
    max_reasks: int = 1,
    model_timeout_s: float | None = None,
    max_retries: int = 2,
) -> Answer:
    """Answer a request.

    With tools and a schema the chain runs without the schema, and one more call puts what it found into the schema.
    With a schema alone, the only call carries it. Without a schema, the last text is the answer.

    Args:
        model: Whom to ask.
        messages: What it is asked; a system message comes first.
        tools: What it may call.
        schema: What the answer is to be: a JSON Schema or a pydantic class.
        strategy: When the schema comes in, where there are tools.
        chain_limit: How often the model may be asked in the chain; putting the answer into the schema comes on top.
        before_call: Asked before each call of a tool; may say no, and why.
        after_call: Told after each call of a tool; may give another result.
        on_event: Hears of what happens.
        conversation_id: Kept in all records.
        tool_timeout_s: The most that one tool may take.
        at_once: The most calls of one reply that run at one time.
        prompt: What to ask for the schema after a chain, instead of the usual.
        max_chars: The most that the chain may take in that prompt.
        on_limit: What becomes of a chain that was cut short; "raise" goes for answers without a schema, too.
        max_reasks: How often a reply that does not fit the schema is handed back.
        model_timeout_s: The most that one call of the model may take, retries included.
        max_retries: How often a call of the model that failed for a passing reason is made again.

    Raises:
        ConfigError: An argument cannot work; nothing was asked.
        DuplicateToolError: Two tools have one name.
        ChainError: The model failed in the chain, or the chain was cut short and `on_limit` is "raise".
        FormatError: The chain ended, and its answer could not be put into the schema.
    """
    connected = tuple(tools)
    check_options(strategy=strategy, on_limit=on_limit, max_reasks=max_reasks, max_chars=max_chars)
    if schema is not None and not connected:
        asker = Asker(model, conversation_id, timeout_s=model_timeout_s, max_retries=max_retries)
        answer = await _directly(asker, messages, schema, on_event, max_reasks)
    else:
        chain = await run_chain(
            model,
            messages,
            connected,
            chain_limit=chain_limit,
            before_call=before_call,
            after_call=after_call,
            on_event=_as_output(on_event) if schema is None else on_event,
            conversation_id=conversation_id,
            tool_timeout_s=tool_timeout_s,
            at_once=at_once,
            schema=schema,
            strategy=strategy,
            model_timeout_s=model_timeout_s,
            max_retries=max_retries,
        )
        if chain.incomplete and on_limit == "raise":
            raise ChainError(chain, chain.notes[-1])
        if schema is None:
            answer = Answer(text=chain.text, chain=chain)
        else:
            formatted = await finalize(
                model,
                chain,
                schema,
                strategy=strategy,
                prompt=prompt,
                max_chars=max_chars,
                max_reasks=max_reasks,
                on_event=on_event,
                model_timeout_s=model_timeout_s,
                max_retries=max_retries,
            )
            answer = Answer(text=formatted.text, chain=chain, value=formatted.value, formatted=formatted)
    await tell(on_event, Finished(answer=answer))
    return answer


async def _directly(
    asker: Asker, messages: Sequence[Message], schema: SchemaLike, on_event: OnEvent | None, max_reasks: int
) -> Answer:
    """The schema on the only call."""
    if not messages:
        msg = "messages is empty: there is no request"
        raise ConfigError(msg)
    output = OutputSchema(schema)
    given = tuple(replace(each, content=as_text(each.content)) for each in messages)
    chain = Chain(conversation_id=asker.conversation_id, messages=given)
    asked = with_system(given, _IN_SCHEMA.format(output.text))
    formatted = await Formatter(asker, output, chain, on_event, max_reasks).run(asked, "answer")
    said = AssistantText(text=formatted.text)
    chain = replace(chain, entries=(said,), answer=formatted.text)
    return Answer(text=formatted.text, chain=chain, value=formatted.value, formatted=formatted)


def _as_output(listener: OnEvent | None) -> OnEvent | None:
    """Without a schema the chain's own answer is the output, and is told once, as that."""
    if listener is None:
        return None

    def hear(event: Event) -> object:
        if isinstance(event, ChainText) and event.closing:
            return listener(OutputText(delta=event.text))
        return listener(event)

    return hear
