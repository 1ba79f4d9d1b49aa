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
from jazz_select.agent.chain.told_results import refers_to_results, text_with_results
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
        how = "in plain text" if self.output is None else "in the schema" if self.wire else f"by {FINAL}"
        return _LAST.format(how)

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
            return None, f"not run: {FINAL} is called alone, when the results of all other calls are known"
        arguments = dict(finals[0].arguments)
        problem = finals[0].problem or self.output.check(arguments).problem
        return (None, f"the answer is not valid: {problem}") if problem else (json_line(arguments), "")


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
        calls = [
            ToolCall(tool=call.tool, arguments=call.arguments, door="chain", identity=call.identity) for call in waiting
        ]
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
        given=messages if callable(messages) else as_messages(messages),
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


@dataclass(slots=True)
class _Loop:
    asker: Asker
    runner: ToolRunner
    options: ChainOptions
    toolbox: Toolbox
    output: OutputSchema | None
    given: Sequence[Message] | Callable[[bool], Sequence[Message]]
    begin_with: Sequence[PlanStep]
    until_asked: bool
    in_pieces: bool
    ends_with: Mapping[str, bool]
    tools_described: bool
    opening: str = ""
    closing: str = ""
    ending: SchemaInLoop = field(init=False)
    messages: tuple[Message, ...] = ()
    """The initial messages."""
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
    def own_names(self) -> Mapping[str, str] | None:
        """Native names by tool name; None if tools are called in the text form."""
        return {own: name for name, own in self.names.items()} if self.names else None

    def composed(self) -> list[Message]:
        """Return the messages so far, in the form in which this model calls tools now."""
        client = self.asker.client
        ending = schema_in_loop(client, self.output, self.options.strategy, self.toolbox)
        self.ending = ending
        native = client.takes_tools and bool(ending.offered)
        self.names = {}
        if native:
            self.names = {name: tool.name for name, tool in shown_names(ending.offered).items()}
        given = self.given(native) if callable(self.given) else self.given
        self.messages = tuple(given)
        more = ending.instructions
        if self.options.chain_limit == 1:
            more = f"{more} {ending.last}"
        if not self.tools_described:
            first = opening(self.messages, ending.offered, more, native=native)
        elif more:
            first = with_system(self.messages, more)
        else:
            first = list(self.messages)
        return first + replay_messages(self.entries, self.own_names)

    def resume(self, after: Chain) -> None:
        """Continue a chain: take over its entries, but for the calls that wait."""
        waiting = {(each.round, each.id) for each in after.asked}
        self.entries += [
            entry
            for entry in after.entries
            if isinstance(entry, AssistantText) or (entry.round, entry.id) not in waiting
        ]
        self.asker.records += after.records
        self.notes += after.notes
        rounds = [each.round for each in after.entries if not isinstance(each, AssistantText)]
        self.first = max(rounds, default=0) + 2

    async def run(self, after: Chain | None) -> Chain:
        if after is not None:
            self.resume(after)
        messages = self.composed()
        self.notes += self.ending.notes
        for begin in (self._make_approved, self._open):
            ended, following = await begin()
            if ended is not None:
                return ended
            messages += following
        for number in range(self.first, self.last + 1):
            try:
                reply = await self._ask(messages, number)
            except ChainError:
                if number > self.first or not self.names or self.asker.client.takes_tools:
                    raise
                self.notes.append("the provider refuses these tools: they are described in the text")
                messages = self.composed()
                self.notes += [note for note in self.ending.notes if note not in self.notes]
                reply = await self._ask(messages, number)
            ended, following = await self._step(reply, number)
            if ended is not None:
                return ended
            await self._withdraw()
            if self._needs_approval(number):
                return self._chain("asked")
            messages += following
        self.notes.append(f"the chain was cut short by its limit of {self.options.chain_limit} model calls")
        return self._chain("limit")

    async def _make_approved(self) -> tuple[Chain | None, list[Message]]:
        """Make the calls that the user approved; return the finished chain, or the messages that follow."""
        if not self.begin_with:
            return None, []
        made = self._record(await self.runner.run(self.begin_with, self.first - 1))
        if self._needs_approval(self.first - 1):
            return self._chain("asked"), []
        told = text_with_results(self.closing, made) if all(each.ok for each in made) else ""
        if told:
            return await self._finish(told), []
        return None, exchange("", self.begin_with, made, self.own_names)

    async def _open(self) -> tuple[Chain | None, list[Message]]:
        """Take up the reply that was given before the loop; return the finished chain, or the messages that follow."""
        read = self._parse_reply(self.opening) if self.opening else None
        if read is None or read.kind == "unreadable":
            return None, []
        if not read.calls:
            return await self._finish(read.text), []
        number = self.first - 1
        results, said, is_answer = await self._call_and_say(read, "", number)
        if is_answer or self._ends(results, said):
            return self._chain("answered", answer=as_text(said)), []
        if self._needs_approval(number):
            return self._chain("asked"), []
        return None, exchange(read.text, read.calls, results, self.own_names)

    async def _ask(self, messages: list[Message], number: int) -> ChatReply:
        await tell(self.options.on_event, ModelCalled(purpose="chain", number=number))
        try:
            streams = self.in_pieces and self.ending.output is None and (self.names or not self.ending.offered)
            on_text = self._stream if streams else None
            tools = {each.name: each for each in self.ending.offered}
            offers = [offered_tool(name, tools[own]) for name, own in self.names.items()]
            reply = await self.asker.ask(messages, "chain", self.ending.wire, offers, on_text, self._withdraw)
        except Exception as error:
            raise ChainError(self._chain("failed"), describe_error(error)) from error
        self.notes += [note for note in reply.degraded if note not in self.notes]
        self.notes += [f"reply {number}: {note}" for note in reply.cut_off]
        return reply

    async def _stream(self, piece: str) -> None:
        self.was_streamed = True
        await tell(self.options.on_event, OutputText(delta=piece))

    async def _withdraw(self, problem: str = "what was said is not the answer") -> None:
        if self.was_streamed:
            self.was_streamed = False
            await tell(self.options.on_event, FormatRestarted(problem=problem))

    async def _step(self, reply: ChatReply, number: int) -> tuple[Chain | None, list[Message]]:  # noqa: PLR0911 - one for each reply
        """Return the finished chain, or the reply and what follows it as messages."""
        text = reply.text or ""
        if not self.ending.offered:
            return await self._finish(text), []
        if self.ending.wire and not reply.tool_calls and self.ending.is_final(text):
            return await self._finish(text.strip(), final=text.strip()), []
        is_native = bool((reply.tool_calls or reply.unread) and self.names)
        read = self._read_native(reply) if is_native else self._parse_reply(text)
        if read.kind == "unreadable":
            return await self._report_unreadable(text, read, number)
        if not read.calls:
            return await self._finish(read.text), []
        if read.note:
            self.notes.append(f"reply {number}: {read.note}")
        final, problem = self.ending.end_of(read.calls)
        if final is not None:
            await self._say(read.text)
            return await self._finish(final, final=final), []
        results, said, is_answer = await self._call_and_say(read, problem, number)
        if is_answer or self._ends(results, said):
            if not self.ends_with.get(results[-1].tool, True):
                await self._withdraw()
            return self._chain("answered", answer=as_text(said)), []
        more = self.ending.last if number + 1 >= self.last else ""
        if is_native:
            called = Message(
                role="assistant", content=cut(text, LONGEST_REPLY), tool_calls=reply.tool_calls, origin=reply.origin
            )
            return None, [called, *native_results(reply.tool_calls, results, more)]
        return None, [_assistant_message(text), results_message(results, more)]

    async def _call_and_say(self, read: ToolReply, problem: str, number: int) -> tuple[list[ToolResult], str, bool]:
        """Run the calls of a reply and say its text. Return the results, what was said, and whether that is the answer.

        A text that refers to the results is said once they are there, and is then the answer; it is not said if a
        value is missing.
        """
        if not refers_to_results(read.text):
            await self._say(read.text)
            results = self._record(await self._run_calls(read.calls, problem, number))
            closing = self._closing_text(read.calls, results)
            await self._say(closing)
            return results, closing or read.text, False
        place = len(self.entries)
        results = self._record(await self._run_calls(read.calls, problem, number))
        said = text_with_results(read.text, results)
        await self._say(said, place)
        return results, said, bool(said) and self.ending.output is None and all(each.ok for each in results)

    def _closing_text(self, calls: Sequence[PlanStep], results: Sequence[ToolResult]) -> str:
        """Return what the call that ends the chain has to tell, if all calls beside it were made."""
        last = calls[-1] if calls else None
        own = last.arguments.get("text") if last is not None and last.tool in self.ends_with else None
        return text_with_results(own, results) if isinstance(own, str) and all(each.ok for each in results) else ""

    async def _run_calls(self, calls: Sequence[PlanStep], problem: str, number: int) -> list[Made]:
        if not problem and number >= self.last:
            problem = f"not run: the limit of {self.options.chain_limit} model calls was reached"
        if problem:
            return await self.runner.refuse(calls, number, problem)
        return await self.runner.run(calls, number)

    def _ends(self, results: Sequence[ToolResult], text: str) -> bool:
        last = results[-1].tool if results else ""
        is_answered = bool(text.strip()) or not self.ends_with.get(last, True)
        return last in self.ends_with and is_answered and all(each.ok for each in results)

    def _read_native(self, reply: ChatReply) -> ToolReply:
        """Read a reply with native calls. If it was cut off, none of its calls is run."""
        if reply.unread:
            return ToolReply(note=reply.unread)
        steps = [
            step_of(
                {
                    "id": each.id,
                    "tool": self.names.get(each.name, each.name),
                    "arguments": each.arguments,
                }
            )
            for each in reply.tool_calls[: MOST_STEPS + 1]  # with one too many, none is run
        ]
        if reply.truncated:
            steps = [replace(each, problem="not run: the reply was cut off") for each in steps]
        return ToolReply(text=as_text(reply.text or ""), calls=tuple(steps)).drop_doubtful_calls(
            self.runner.is_destructive
        )

    def _parse_reply(self, text: str) -> ToolReply:
        """Read a reply in the text form.

        JSON that is no call counts as the answer, with two exceptions: the schema has its own way to answer in JSON, or
        the JSON names a tool and may be a call in an unknown shape.
        """
        read = read_tool_reply(text).drop_doubtful_calls(self.runner.is_destructive)
        if read.is_data and self.ending.output is not None:
            return ToolReply(note="the reply is JSON, but none of the three shapes")
        named = self._tool_named_in(parse_whole(read.text)) if read.is_data else ""
        if named:
            return ToolReply(note=f"the reply is JSON that names {named}, but no call of it")
        return read

    def _tool_named_in(self, value: object) -> str:
        objects = value if is_array(value) else [value]
        for each in islice(objects, MOST_STEPS):
            if is_object(each):
                fields = each
                texts = {text for text in (*fields, *fields.values()) if isinstance(text, str)}
                found = next((tool.name for tool in self.ending.offered if tool.name in texts), "")
                if found:
                    return found
        return ""

    def _record(self, made: Iterable[Made]) -> list[ToolResult]:
        results: list[ToolResult] = []
        for call, result in made:
            self.entries += [call, result]
            results.append(result)
            if result.dropped:
                note = describe_dropped(result.tool, result.dropped)
                self.notes += [note] if note not in self.notes else []
        return results

    def _needs_approval(self, number: int) -> bool:
        """Whether the chain ends after this reply because a call needs approval."""
        results = (each for each in self.entries if isinstance(each, ToolResult) and each.round == number)
        return self.until_asked and any(each.fault == "asked" for each in results)

    async def _report_unreadable(self, text: str, read: ToolReply, number: int) -> tuple[Chain | None, list[Message]]:
        """Report an unreadable reply to the model once; accept a second JSON reply as the answer."""
        if self.ending.is_final(text):
            return await self._finish(text.strip(), final=text.strip()), []
        value = parse_whole(text.strip())
        if self.was_unreadable and value is not BROKEN and value is not None:
            return await self._finish(text), []
        self.was_unreadable = True
        self.notes.append(f"reply {number} could not be read: {read.note}")
        await self._say(cut(text, LONGEST_REPLY))
        return None, [_assistant_message(text), Message(role="user", content=UNREADABLE.format(in_one_line(read.note)))]

    async def _say(self, text: str, place: int | None = None) -> None:
        """Record and tell a text; at its `place` among the entries if calls have been made since."""
        if text.strip():
            self.entries.insert(len(self.entries) if place is None else place, AssistantText(text=as_text(text)))
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
