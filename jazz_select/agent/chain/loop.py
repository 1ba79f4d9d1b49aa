"""The tool loop of a chain: the model calls tools, reads their results, and repeats until it answers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final

from jazz_select.agent.chain.output_schema import OutputSchema, SchemaLike, output_schema
from jazz_select.agent.chain.prompts import (
    LONGEST_REPLY,
    UNREADABLE,
    Asker,
    ChainOptions,
    Strategy,
    as_messages,
    exchange,
    native_results,
    offered_tool,
    opening,
    replay_messages,
    results_message,
    with_system,
)
from jazz_select.agent.chain.result_references import refers_to_results, text_with_results
from jazz_select.agent.chain.tool_calls import Announce, Made, Returned, ToolRunner
from jazz_select.agent.chain.transcript import (
    AfterCall,
    AssistantText,
    BeforeCall,
    Chain,
    ChainStatus,
    ChainText,
    Entry,
    FormatRestarted,
    ModelCalled,
    OnEvent,
    OutputText,
    ToolResult,
    tell,
)
from jazz_select.chat.call_reader import folded_key
from jazz_select.chat.client import ChatClient, ChatReply
from jazz_select.chat.json_reader import BROKEN, parse_whole
from jazz_select.chat.models import ModelLike
from jazz_select.errors import ChainError, ConfigError
from jazz_select.json_values import is_array, is_object
from jazz_select.ports import ClaimStore
from jazz_select.routing.approval import Answer, ApprovalPolicy, Approve, answered_approver, engine_approver
from jazz_select.routing.names.resolution import NameIndex
from jazz_select.routing.plans.plan import MOST_STEPS, PlanStep
from jazz_select.routing.plans.replies import ToolReply, read_tool_reply, step_of
from jazz_select.routing.records import ToolCall
from jazz_select.routing.tools.context_inputs import bind_tools, check_context, describe_dropped
from jazz_select.routing.tools.showing import shown_names
from jazz_select.routing.tools.sources import ToolsLike, toolbox_of
from jazz_select.routing.tools.tool import Tool, Toolbox
from jazz_select.telemetry import span
from jazz_select.text import as_text, cut, describe_error, in_one_line, json_line
from jazz_select.values import Message

FINAL: Final = "final_answer"
"""Name of the tool that takes the answer."""
_LAST: Final = "No further call will be run: answer now, {}, with what there is."
_AS_TOOL: Final = f" When you know the answer, call the tool {FINAL} with it, and nothing else."
_BESIDE_TOOLS: Final = " When you know the answer, give it as JSON that is valid against this JSON Schema: {schema}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaInLoop:
    """How the answer's schema takes part in the loop; by default it does not.

    Attributes:
        offered: Tools offered to the model.
        output: The schema, if the loop enforces it.
        wire: JSON Schema of the answer, sent with every model call beside the tools in the provider's native form.
        instructions: Text about the schema for the system message.
        notes: Degradations.
    """

    offered: tuple[Tool, ...]
    output: OutputSchema | None = None
    wire: Mapping[str, Any] | None = None
    instructions: str = ""
    notes: tuple[str, ...] = field(default=())

    @property
    def last(self) -> str:
        """Instruction for the last model call."""
        if self.output is None:
            return _LAST.format("in plain text")
        return _LAST.format("in the schema" if self.wire else f"by {FINAL}")

    def is_final(self, text: str) -> bool:
        """Whether a JSON reply without calls is a valid answer."""
        value = parse_whole(text.strip())
        return self.output is not None and value is not BROKEN and not self.output.check(value).problem

    def end_of(self, calls: Sequence[PlanStep]) -> tuple[str | None, str]:
        """Return the answer's JSON text if one of these calls gives it, and what is wrong with that call."""
        finals = [call for call in calls if folded_key(call.tool) == folded_key(FINAL)]
        if self.output is None or self.wire is not None or not finals:
            return None, ""
        if len(calls) > 1:
            # The answer was written before the results of the other calls were known.
            return None, f"not run: {FINAL} is called alone, when the results of all other calls are known"
        arguments = dict(finals[0].arguments)
        problem = finals[0].problem or self.output.check(arguments).problem
        if problem:
            return None, f"the answer is not valid: {problem}"
        return json_line(arguments), ""


def schema_in_loop(client: ChatClient, output: OutputSchema | None, strategy: str, tools: Toolbox) -> SchemaInLoop:
    """Return how the schema takes part in the loop with these tools."""
    plain = SchemaInLoop(offered=tuple(tools.values()))
    if output is None or strategy == "deferred" or not plain.offered:
        return plain
    if not output.has_object:
        return replace(plain, notes=("the schema is no object, so it is left to the end",))
    if strategy == "native" and not (client.takes_schema and client.takes_tools):
        return replace(plain, notes=("the model takes no schema beside tools, so it is left to the end",))
    if strategy == "native":
        instructions = _BESIDE_TOOLS.format(schema=output.text)
        return replace(plain, output=output, wire=output.json, instructions=instructions)
    if FINAL in tools:
        msg = f"strategy 'tool' offers a tool named {FINAL!r}, and there is one; rename it, or choose another strategy"
        raise ConfigError(msg)
    final = Tool(name=FINAL, description="Gives the final answer.", input_schema=output.json)
    return SchemaInLoop(offered=(*plain.offered, final), output=output, instructions=_AS_TOOL)


async def run_chain(  # noqa: PLR0913 - options with a name
    model: ModelLike | ChatClient,
    messages: str | Sequence[Message],
    tools: ToolsLike = (),
    *,
    chain_limit: int = 8,
    before_call: BeforeCall | None = None,
    approval: ApprovalPolicy = "destructive",
    approve: Approve | None = None,
    after_call: AfterCall | None = None,
    on_event: OnEvent | None = None,
    conversation_id: str = "",
    tool_timeout_s: float | None = 30.0,
    at_once: int = 8,
    schema: SchemaLike | None = None,
    strategy: Strategy = "deferred",
    model_timeout_s: float | None = None,
    max_retries: int = 2,
    until_asked: bool = False,
    after: Chain | None = None,
    answer: Answer | None = None,
    context: Mapping[str, Any] | None = None,
) -> Chain:
    """Ask a model, run the tools it calls, return their results to it, and repeat until it answers in prose.

    Any failure of a call (name, arguments, tool or output) becomes that call's result, which the model reads. Calls in
    the last reply that `chain_limit` allows are not run, because the model would not see their results. Without tools
    the model is asked once.

    `respond` explains the options that both functions take. Here the `schema` is the one for `finalize`: it is checked
    before the first model call, and takes part in the loop if `strategy` says so. The others continue an approval:

    - With `until_asked`, a call that needs approval ends the chain with status `asked`. Otherwise the model is told.
    - `after` is such a chain to continue, without asking the model for the same calls again.
    - `answer` is `Allow()` or `Deny(reason)` for the calls it waits for; it applies once per call, to that exact call.

    Raises:
        ConfigError: An argument cannot work.
        DuplicateToolError: Two tools have one name.
        ChainError: The model failed; `.chain` holds the chain so far.
        CancelledError: The caller was cancelled; the model and the tools are cancelled too.
    """
    options = ChainOptions.from_arguments(locals())
    waiting = after.asked if after is not None else ()
    if answer is not None:
        calls: list[ToolCall] = []
        for call in waiting:
            calls.append(ToolCall(tool=call.tool, arguments=call.arguments, door="chain", identity=call.identity))
        approve = engine_approver(approval, approve, by_model=True)
        options = replace(options, approve=answered_approver(calls, answer, approve))
    begin_with = [PlanStep(id=call.id, tool=call.tool, arguments=call.arguments) for call in waiting]
    return await run_loop(
        model,
        messages,
        tools,
        schema,
        options,
        begin_with=begin_with,
        until_asked=until_asked,
        after=after,
        context=context,
    )


async def run_loop(  # noqa: PLR0913 - what `run_chain` takes, and how it begins and ends
    model: ModelLike | ChatClient,
    messages: str | Sequence[Message] | Callable[[bool], Sequence[Message]],
    tools: ToolsLike,
    schema: SchemaLike | None,
    options: ChainOptions,
    *,
    begin_with: Sequence[PlanStep] = (),
    until_asked: bool = False,
    after: Chain | None = None,
    claims: ClaimStore | None = None,
    call_id: Callable[[str, Mapping[str, Any]], str] | None = None,
    announce: Announce | None = None,
    returned: Returned | None = None,
    in_pieces: bool = False,
    ends_with: Mapping[str, bool] | None = None,
    tools_described: bool = False,
    opening: str = "",
    closing: str = "",
    context: Mapping[str, Any] | None = None,
) -> Chain:
    """Run `run_chain` with its options as one value, and with options for callers inside the package.

    - `messages` may be a function, called with whether tools are called in native form.
    - `begin_with` holds approved calls to make before the model is asked.
    - `claims` is the store in which destructive calls are claimed before they are made.
    - `call_id` returns a stable id for the next call of a tool with these arguments; by default each call has a new id.
    - `announce` is asked about a call that uses the output of one that waits for approval.
    - `returned` is told what each call returned.
    - `in_pieces` streams the answer as `OutputText`. This needs a model that streams, and no tools or native tools. If
      a call follows after all, `FormatRestarted` withdraws the text.
    - `ends_with` names tools whose successful call ends the chain; True if only together with an answer's text.
    - `tools_described` says that the messages already describe the tools and how to call them.
    - `opening` is the model's first reply in the text form, which it gave when it read the message; it is not asked for
      that. One that cannot be read is passed over.
    - `closing` is what it tells once all of `begin_with` is made; it is not asked for that either.
    - `context` is what fills inputs of the tools and no model sees; None if the tools are bound already.
    """
    check_context(context)
    toolbox, asker = toolbox_of(tools), Asker(model, options)
    if context is not None:
        toolbox = Toolbox(bind_tools(toolbox.values(), context))
    options = replace(options, approve=engine_approver(options.approval, options.approve, by_model=True))
    loop = _Loop(
        asker,
        ToolRunner(
            index=NameIndex(toolbox.values()),
            options=options,
            claims=claims,
            call_id=call_id,
            announce=announce,
            returned=returned,
        ),
        options,
        toolbox,
        output=await output_schema(schema) if schema is not None else None,
        initial=messages if callable(messages) else as_messages(messages),
        begin_with=begin_with,
        until_asked=until_asked,
        in_pieces=in_pieces and options.on_event is not None and asker.client.streams,
        ends_with=ends_with or {},
        tools_described=tools_described,
        opening=opening,
        closing=closing,
    )
    async with asker:
        with span("chain", "node") as traced:
            chain = await loop.run(after)
            if traced is not None:
                traced.note({"status": chain.status, "model_calls": chain.model_calls, "strategy": options.strategy})
    return chain


@dataclass(frozen=True, slots=True)
class _CalledReply:
    """The results of a reply's calls, the text that was said beside them, and whether that is the answer."""

    results: Sequence[ToolResult]
    text: str
    is_answer: bool = False


@dataclass(slots=True)
class _Loop:
    asker: Asker
    runner: ToolRunner
    options: ChainOptions
    toolbox: Toolbox
    output: OutputSchema | None
    initial: Sequence[Message] | Callable[[bool], Sequence[Message]]
    begin_with: Sequence[PlanStep]
    until_asked: bool
    in_pieces: bool
    ends_with: Mapping[str, bool]
    tools_described: bool
    opening: str = ""
    closing: str = ""
    schema_part: SchemaInLoop = field(init=False)
    messages: tuple[Message, ...] = ()
    """The initial messages, in the form for this model."""
    entries: list[Entry] = field(default_factory=list[Entry])
    notes: list[str] = field(default_factory=list[str])
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    """Tool names by their native names; empty if tools are called in the text form."""
    was_unreadable: bool = False
    was_streamed: bool = False
    """Whether the last reply was streamed as `OutputText`."""
    first: int = 1
    """Number of the first reply. Calls made before it belong to the round before."""

    @property
    def last(self) -> int:
        """Number of the last reply that the limit allows."""
        return self.first + self.options.chain_limit - 1

    @property
    def native_names(self) -> Mapping[str, str] | None:
        """Native names by tool name; None if tools are called in the text form."""
        if not self.names:
            return None
        return {tool: name for name, tool in self.names.items()}

    def compose(self) -> list[Message]:
        """Return the messages so far, in the form in which this model calls tools now."""
        client = self.asker.client
        schema_part = schema_in_loop(client, self.output, self.options.strategy, self.toolbox)
        self.schema_part = schema_part
        native = client.takes_tools and bool(schema_part.offered)
        self.names = {}
        if native:
            self.names = {name: tool.name for name, tool in shown_names(schema_part.offered).items()}
        messages = self.initial(native) if callable(self.initial) else self.initial
        self.messages = tuple(messages)
        instructions = schema_part.instructions
        if self.options.chain_limit == 1:
            instructions = f"{instructions} {schema_part.last}"
        if not self.tools_described:
            first = opening(self.messages, schema_part.offered, instructions, native=native)
        elif instructions:
            first = with_system(self.messages, instructions)
        else:
            first = list(self.messages)
        return first + replay_messages(self.entries, self.native_names)

    def resume(self, after: Chain) -> None:
        """Continue a chain: take over its entries, but for the calls that wait."""
        waiting = {(request.round, request.id) for request in after.asked}
        for entry in after.entries:
            if isinstance(entry, AssistantText) or (entry.round, entry.id) not in waiting:
                self.entries.append(entry)
        self.asker.records += after.records
        self.notes += after.notes
        rounds = [entry.round for entry in after.entries if not isinstance(entry, AssistantText)]
        # The round between is that of the approved calls, which no reply asks for.
        self.first = max(rounds, default=0) + 2

    async def run(self, after: Chain | None) -> Chain:
        if after is not None:
            self.resume(after)
        messages = self.compose()
        self.notes += self.schema_part.notes
        # First what the user approved, then what the reader of the message has begun.
        for begin in (self._make_approved, self._open):
            following = await begin()
            if isinstance(following, Chain):
                return following
            messages += following
        for number in range(self.first, self.last + 1):
            try:
                reply = await self._ask(messages, number)
            except ChainError:
                # A provider that refuses these tools is asked once more, in the text form, before anything was run.
                if number > self.first or not self.names or self.asker.client.takes_tools:
                    raise
                self.notes.append("the provider refuses these tools: they are described in the text")
                messages = self.compose()
                self._add_notes(self.schema_part.notes)
                reply = await self._ask(messages, number)
            following = await self._step(reply, number)
            if isinstance(following, Chain):
                return following
            await self._withdraw()
            if self._needs_approval(number):
                return self._chain("asked")
            messages += following
        self.notes.append(f"the chain was cut short by its limit of {self.options.chain_limit} model calls")
        return self._chain("limit")

    async def _make_approved(self) -> Chain | list[Message]:
        """Make the calls that the user approved; return the finished chain, or the messages that follow."""
        if not self.begin_with:
            return []
        results = self._record(await self.runner.run(self.begin_with, self.first - 1))
        if self._needs_approval(self.first - 1):
            return self._chain("asked")
        if all(result.ok for result in results):
            closing = text_with_results(self.closing, results)
            if closing:
                return await self._finish(closing)
        return exchange("", self.begin_with, results, self.native_names)

    async def _open(self) -> Chain | list[Message]:
        """Take up the reply that was given before the loop; return the finished chain, or the messages that follow."""
        if not self.opening:
            return []
        read = self._parse_reply(self.opening)
        if read.kind == "unreadable":
            return []
        if not read.calls:
            return await self._finish(read.text)
        number = self.first - 1
        called = await self._call_and_say(read, "", number)
        if self._is_end(called):
            return self._chain("answered", answer=as_text(called.text))
        if self._needs_approval(number):
            return self._chain("asked")
        return exchange(read.text, read.calls, called.results, self.native_names)

    async def _ask(self, messages: list[Message], number: int) -> ChatReply:
        await tell(self.options.on_event, ModelCalled(purpose="chain", number=number))
        part = self.schema_part
        # A text that may turn out to be a call, or an answer that is not valid, is not shown while it comes.
        can_stream = self.in_pieces and part.output is None and (self.names or not part.offered)
        on_text = self._stream if can_stream else None
        tools = {tool.name: tool for tool in part.offered}
        try:
            offers = [offered_tool(name, tools[own]) for name, own in self.names.items()]
            reply = await self.asker.ask(messages, "chain", part.wire, offers, on_text, self._withdraw)
        except Exception as error:
            raise ChainError(self._chain("failed"), describe_error(error)) from error
        self._add_notes(reply.degraded)
        self.notes += [f"reply {number}: {note}" for note in reply.cut_off]
        return reply

    def _add_notes(self, notes: Iterable[str]) -> None:
        self.notes += [note for note in notes if note not in self.notes]

    async def _stream(self, piece: str) -> None:
        self.was_streamed = True
        await tell(self.options.on_event, OutputText(delta=piece))

    async def _withdraw(self, problem: str = "what was said is not the answer") -> None:
        if self.was_streamed:
            self.was_streamed = False
            await tell(self.options.on_event, FormatRestarted(problem=problem))

    async def _step(self, reply: ChatReply, number: int) -> Chain | list[Message]:  # noqa: PLR0911 - one for each reply
        """Return the finished chain, or the reply and what follows it as messages."""
        text = reply.text or ""
        if not self.schema_part.offered:
            return await self._finish(text)
        if self.schema_part.wire and not reply.tool_calls and self.schema_part.is_final(text):
            return await self._finish(text.strip(), final=text.strip())
        is_native = bool((reply.tool_calls or reply.unread) and self.names)
        read = self._read_native(reply) if is_native else self._parse_reply(text)
        if read.kind == "unreadable":
            return await self._report_unreadable(text, read, number)
        if not read.calls:
            return await self._finish(read.text)
        if read.note:
            self.notes.append(f"reply {number}: {read.note}")
        final, problem = self.schema_part.end_of(read.calls)
        if final is not None:
            await self._say(read.text)
            return await self._finish(final, final=final)
        called = await self._call_and_say(read, problem, number)
        if self._is_end(called):
            if not self.ends_with.get(called.results[-1].tool, True):
                await self._withdraw()
            return self._chain("answered", answer=as_text(called.text))
        more = self.schema_part.last if number + 1 >= self.last else ""
        if is_native:
            request = Message(
                role="assistant", content=cut(text, LONGEST_REPLY), tool_calls=reply.tool_calls, origin=reply.origin
            )
            return [request, *native_results(reply.tool_calls, called.results, more)]
        return [_assistant_message(text), results_message(called.results, more)]

    async def _call_and_say(self, read: ToolReply, problem: str, number: int) -> _CalledReply:
        """Run the calls of a reply and say its text.

        A text that refers to the results is said once they are there, and is then the answer; it is not said if a
        value is missing.
        """
        if not refers_to_results(read.text):
            await self._say(read.text)
            results = self._record(await self._run_calls(read.calls, problem, number))
            closing = self._closing_text(read.calls, results)
            await self._say(closing)
            return _CalledReply(results, closing or read.text)
        # The model wrote the text before the calls: it is recorded there, and filled now.
        place = len(self.entries)
        results = self._record(await self._run_calls(read.calls, problem, number))
        text = text_with_results(read.text, results)
        await self._say(text, place)
        is_answer = bool(text) and self.schema_part.output is None and all(result.ok for result in results)
        return _CalledReply(results, text, is_answer=is_answer)

    def _closing_text(self, calls: Sequence[PlanStep], results: Sequence[ToolResult]) -> str:
        """Return what the call that ends the chain has to tell, if all calls beside it were made."""
        if not calls or calls[-1].tool not in self.ends_with:
            return ""
        text = calls[-1].arguments.get("text")
        if not isinstance(text, str) or not all(result.ok for result in results):
            return ""
        return text_with_results(text, results)

    async def _run_calls(self, calls: Sequence[PlanStep], problem: str, number: int) -> list[Made]:
        if not problem and number >= self.last:
            problem = f"not run: the limit of {self.options.chain_limit} model calls was reached"
        if problem:
            return await self.runner.refuse(calls, number, problem)
        return await self.runner.run(calls, number)

    def _is_end(self, called: _CalledReply) -> bool:
        """Whether a reply ends the chain: its text is the answer, or its last call is one that ends it."""
        if called.is_answer:
            return True
        last = called.results[-1].tool if called.results else ""
        if last not in self.ends_with or not all(result.ok for result in called.results):
            return False
        needs_text = self.ends_with[last]
        return bool(called.text.strip()) or not needs_text

    def _read_native(self, reply: ChatReply) -> ToolReply:
        """Read a reply with native calls. If it was cut off, none of its calls is run."""
        if reply.unread:
            return ToolReply(note=reply.unread)
        steps: list[PlanStep] = []
        # One more than is allowed: with one too many, none is run.
        for call in reply.tool_calls[: MOST_STEPS + 1]:
            tool = self.names.get(call.name, call.name)
            step = step_of({"id": call.id, "tool": tool, "arguments": call.arguments})
            if reply.truncated:
                step = replace(step, problem="not run: the reply was cut off")
            steps.append(step)
        read = ToolReply(text=as_text(reply.text or ""), calls=tuple(steps))
        return read.drop_doubtful_calls(self.runner.is_destructive)

    def _parse_reply(self, text: str) -> ToolReply:
        """Read a reply in the text form.

        JSON that is no call counts as the answer, with two exceptions: the schema has its own way to answer in JSON, or
        the JSON names a tool and may be a call in an unknown shape.
        """
        read = read_tool_reply(text).drop_doubtful_calls(self.runner.is_destructive)
        if not read.is_data:
            return read
        if self.schema_part.output is not None:
            return ToolReply(note="the reply is JSON, but none of the three shapes")
        tool = self._tool_named_in(parse_whole(read.text))
        if tool:
            return ToolReply(note=f"the reply is JSON that names {tool}, but no call of it")
        return read

    def _tool_named_in(self, value: object) -> str:
        objects = value if is_array(value) else [value]
        for each in islice(objects, MOST_STEPS):
            if not is_object(each):
                continue
            texts = {text for text in (*each, *each.values()) if isinstance(text, str)}
            for tool in self.schema_part.offered:
                if tool.name in texts:
                    return tool.name
        return ""

    def _record(self, made: Iterable[Made]) -> list[ToolResult]:
        results: list[ToolResult] = []
        for call, result in made:
            self.entries += [call, result]
            results.append(result)
            if result.dropped:
                self._add_notes([describe_dropped(result.tool, result.dropped)])
        return results

    def _needs_approval(self, number: int) -> bool:
        """Whether the chain ends after this reply because a call needs approval."""
        if not self.until_asked:
            return False
        for entry in self.entries:
            if isinstance(entry, ToolResult) and entry.round == number and entry.fault == "asked":
                return True
        return False

    async def _report_unreadable(self, text: str, read: ToolReply, number: int) -> Chain | list[Message]:
        """Report an unreadable reply to the model once; accept a second JSON reply as the answer."""
        if self.schema_part.is_final(text):
            return await self._finish(text.strip(), final=text.strip())
        value = parse_whole(text.strip())
        if self.was_unreadable and value is not BROKEN and value is not None:
            return await self._finish(text)
        self.was_unreadable = True
        self.notes.append(f"reply {number} could not be read: {read.note}")
        await self._say(cut(text, LONGEST_REPLY))
        return [_assistant_message(text), Message(role="user", content=UNREADABLE.format(in_one_line(read.note)))]

    async def _say(self, text: str, place: int | None = None) -> None:
        """Record and tell a text; at its `place` among the entries if calls have been made since."""
        if not text.strip():
            return
        if place is None:
            place = len(self.entries)
        self.entries.insert(place, AssistantText(text=as_text(text)))
        await tell(self.options.on_event, ChainText(text=as_text(text)))

    async def _finish(self, text: str, *, final: str | None = None) -> Chain:
        answer = as_text(text)
        if final is None:
            self.entries.append(AssistantText(text=answer))
            if not self.was_streamed:
                await tell(self.options.on_event, ChainText(text=answer, closing=True))
        return self._chain("answered", answer=answer, final=final)

    def _chain(self, status: ChainStatus, *, answer: str = "", final: str | None = None) -> Chain:
        return Chain(
            conversation_id=self.asker.conversation_id,
            messages=self.messages,
            entries=tuple(self.entries),
            answer=answer,
            status=status,
            final=final,
            records=tuple(self.asker.records),
            notes=tuple(self.notes),
        )


def _assistant_message(text: str) -> Message:
    return Message(role="assistant", content=cut(text, LONGEST_REPLY) or "(nothing)")
