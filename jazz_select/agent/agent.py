"""The agent: a message passes the guards, its flows are selected and run, and an answer is returned."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from itertools import chain
from typing import Any, Final, Literal, Self, cast

from jazz_select.agent.agenda import Agenda
from jazz_select.agent.agent_options import Approval, CallOptions, Facts, PromptOptions, TraceOptions
from jazz_select.agent.answer import AnswerWriter, blocked_text, contact_of, with_timeout_text
from jazz_select.agent.chain.output_schema import OutputSchema, SchemaLike, output_schema
from jazz_select.agent.chain.prompts import ChainOptions
from jazz_select.agent.chain.responder import OwnLoop, in_events, in_own_loop
from jazz_select.agent.chain.transcript import Event, Finished, OnEvent, ToolCalled, tell
from jazz_select.agent.conversation import Conversation, normalized_message
from jazz_select.agent.conversation_view import forget_closed
from jazz_select.agent.decide import decide
from jazz_select.agent.flows.free_answer import FreeAnswer
from jazz_select.agent.flows.one_flow import OneFlow
from jazz_select.agent.flows.open_flows import OpenFlows
from jazz_select.agent.flows.turn_flows import TurnFlows
from jazz_select.agent.gate import AgentApproval, DestructionGate
from jazz_select.agent.graph.guards import CONTINUE, FINISH, GUARD_FAILED, Guard, through_in_time
from jazz_select.agent.graph.router import PRE_CHECK
from jazz_select.agent.graph.topology import NodeExit, Topology, mermaid, walk
from jazz_select.agent.handover import Handover
from jazz_select.agent.known_flows import KnownFlows
from jazz_select.agent.part_checks import check_agent_parts, checked_facts, resolve_facts
from jazz_select.agent.reading.message_reader import MessageReader
from jazz_select.agent.reading.reading_context import TODAY, check_now
from jazz_select.agent.reading.selection_reader import SelectionReader
from jazz_select.agent.reading.value_checks import unusable_checks
from jazz_select.agent.run import ActionRunner, with_reading
from jazz_select.agent.titles import Titles, titles_of
from jazz_select.agent.turn import ASK, TurnInput, TurnRequest, TurnResult, TurnState, checked_input
from jazz_select.agent.turn_events import listening, tell_of_step
from jazz_select.arguments import Positive, check_argument
from jazz_select.chat.client import ChatClient, client_for
from jazz_select.chat.decisions import Decider, DeciderLike, decider_of
from jazz_select.chat.models import ModelLike
from jazz_select.errors import CannotDo, ConfigError, raise_all
from jazz_select.flow.base import BaseFlow, check_calls, check_connected
from jazz_select.json_values import storable_text
from jazz_select.outcomes.callers import in_conversation
from jazz_select.ports import ClaimStore
from jazz_select.routing.approval import ApprovalPolicy, Deny, Verdict
from jazz_select.routing.decisions.decision_points import Chooser, DecisionCallback
from jazz_select.routing.decisions.model_decision import ModelDecision
from jazz_select.routing.executor import FlowExecutor
from jazz_select.routing.flow_inputs import input_faults
from jazz_select.routing.records import ToolCall
from jazz_select.routing.tools.sources import ToolsLike, toolbox_of
from jazz_select.routing.tools.tool import Toolbox
from jazz_select.selector.prompt import PromptHistoryRecorder
from jazz_select.selector.result import prompt_of
from jazz_select.selector.select import FlowSelector
from jazz_select.selector.selector_options import TimeLimit
from jazz_select.telemetry import Trace, span
from jazz_select.text import join_paragraphs
from jazz_select.texts import Texts, say, speaking
from jazz_select.threads import Deadline, run_within_budget, spent_budget, time_budget
from jazz_select.values import Message

_SELECT, _RUN, _CONVERSE, _ANSWER = "select", "run_flows", "converse", "answer"
_EDGES: Final[Mapping[str, Mapping[str, str]]] = {
    PRE_CHECK: {CONTINUE: _SELECT, "blocked": FINISH},
    _SELECT: {"run": _RUN, "open": _CONVERSE, "ask": _ANSWER},
    _RUN: {"": _ANSWER, "back": _SELECT},
    _CONVERSE: {"": _ANSWER},
    _ANSWER: {"": FINISH},
}
_TOPOLOGY: Final = Topology((PRE_CHECK, _SELECT, _RUN, _CONVERSE, _ANSWER, FINISH), _EDGES)


class Agent:
    """Answers messages with flows and their tools. It is stateless: the conversation is a value.

    Attributes:
        selector: Finds its flows.
    """

    def __init__(  # noqa: PLR0913 - what an agent is made of
        self,
        selector: FlowSelector,
        tools: ToolsLike = (),
        model: ModelLike | ChatClient | None = None,
        guards: Sequence[Guard[TurnInput]] = (),
        *,
        decision_callback: DecisionCallback | None = None,
        facts: Facts | None = None,
        prompt: PromptOptions = PromptOptions(),  # noqa: B008 - it is frozen
        calls: CallOptions = CallOptions(),  # noqa: B008 - likewise
        approval: ApprovalPolicy | Approval = "destructive",
        timeout_s: float | None = 60.0,
        tracing: TraceOptions = TraceOptions(),  # noqa: B008 - likewise
        decider: DeciderLike | Decider | None = None,
        texts: Mapping[str, Any] | None = None,
        handover_after: int | None = None,
    ) -> None:
        """Create an agent.

        Args:
            selector: Selects flows, with or without a model of its own. Its policy says how sure recall must be to
                begin a flow that no chat model chose: with `max_error=0` it begins only what is known word for word,
                with `max_error=1` the nearest one. Without a budget, or if no stage is left that could be surer, a
                flow begins that is likely.
            tools: The connected tools: `Tool`s, functions (see `tool_from_function`), or the result of `load_tools`.
                They include every tool that a flow requires. Without any tools, the caller runs the flows.
            model: Continues open flows, chooses between tools, reads facts from messages, and formats answers; as for
                `FlowSelector`. Without one, all of that is left to the caller.
            guards: Run first, in this order, without a model. A guard that answers with a tag ends the turn. Its
                changes to message, context or conversation are what all later stages see, and they are kept.
            decision_callback: Chooses between tools at guided steps in place of the model: a function, or an object
                with a method `decide`.
            facts: Facts that hold in every conversation, shown to models, such as
                `{"today": lambda: date.today().isoformat(), "company": "Fjord", "support": "help@fjord.example"}`.
                A function is called in each turn. Users are referred to `support` if a flow cannot be done. By the
                fact `today`, a date with its year, "tomorrow" and "Friday" are read; without it users are asked which
                day they mean. The fact `time_zone` names the zone of a day with a time.
            prompt: The system text, the tools where no flow fits, append-only prompts, and the schema of answers.
            calls: How models call tools: limits of a chain, hooks, timeouts, and the threshold of a decision model.
            approval: Which calls the user has to confirm: those of "destructive" tools, "always" or "never"; or an
                `Approval` with a hook or a store of claims. "never" does without any yes: destructive calls run as they
                come, and without a chat model whatever flow recall is sure of is begun, even if it changes something.
                Only a message that denies it ("don't cancel my order") is still asked about.
            timeout_s: The longest that a turn may take in all. It then ends with what is done, and says so. None for
                no limit.
            tracing: The hooks for spans, and the agent's name in them.
            decider: A decision model (see `as_decision_model`) that is asked before the model between tools, and where
                the phrase table does not decide whether a message answers a yes/no question or approves a call. If it
                fails or is unsure, the turn continues without it, with a note.
            texts: Replacements of the agent's own sentences: by key, such as `{"done": "{title}: all done!"}`, or by
                language and key; a new language has to be complete. The keys are in `jazz_select/texts.toml`. A turn
                is answered in the user's language if it is one of these, else in English.
            handover_after: Number of turns in a row in which nothing was understood or a value was refused, with or
                without a flow, after which a turn ends as `handed_over`, by a flow with `handover=True` if there is
                one. A question that is answered does not count. Failed flows are then handed over as well. None for
                never.

        Raises:
            ConfigError: An argument is invalid.
            UnconnectedToolsError: A flow that is not `manual` names a tool that is neither connected nor among its
                `optional_tools`.
            DuplicateToolError: Two tools have one name.
        """
        self.name = tracing.name
        self._texts = Texts(texts)
        check_argument("handover_after", handover_after, Positive | None)
        self.own_loop = OwnLoop()  # where `turn_sync` runs
        self._tools = toolbox_of(tools)
        check_agent_parts(selector, self._tools, guards)
        self._guards = tuple(guards)
        check_argument("timeout_s", timeout_s, TimeLimit)
        self._timeout_s = timeout_s
        self.selector = selector
        check_argument("decision_callback", decision_callback, Chooser | None)
        for flow in selector.flow_registry.values():
            check_calls(flow)
        if self._tools:  # without tools, the caller runs the flows
            check_connected(selector.flow_registry.values(), self._tools)
        if self._tools and (problem := unusable_checks(selector.flow_registry.values(), self._tools)):
            raise ConfigError(problem)
        if self._tools:
            raise_all([each.error() for each in input_faults(selector.flow_registry.values(), self._tools)])
        self._facts = checked_facts(facts)
        self._grows = prompt.narrowing == "growing"
        self._schema = OutputSchema(prompt.schema) if prompt.schema is not None else None
        self._hooks, self._redact = tuple(tracing.hooks), tracing.redact
        # All parts share one client, with its circuit breaker and its limit of concurrent requests.
        chat = None if model is None else client_for(model)
        self._own = chat if isinstance(model, str) else None
        decides = decider_of(decider, above=calls.decider_above)
        self._own_decider = decides if isinstance(decider, str) else None
        if decision_callback is None and (chat is not None or decides is not None):
            decision_callback = ModelDecision(chat, decider=decides)
        if not isinstance(approval, Approval):
            check_argument("approval", approval, ApprovalPolicy)
            approval = Approval(policy=approval)
        executor = self._executor = FlowExecutor(
            self._tools.values(), decision_callback, calls.open_router, claims=approval.claims, on_call=tell_of_step
        )
        options = ChainOptions.from_arguments({each.name: getattr(calls, each.name) for each in fields(calls)})
        flows = self._flows = KnownFlows(selector.flow_registry, executor.tools)
        self._titles = Titles(flows)
        loops = None
        if chat is not None:
            loops = OpenFlows(
                model=chat,
                tools=self._tools,
                system=prompt.system,
                options=options,
                open_tools=prompt.open_tools,
                find=flows.find,
                offers=lambda: titles_of(selector.flow_registry.values()),
            )
        self._approval = AgentApproval(approval)
        gate = DestructionGate(flows)
        one = OneFlow(
            selector=selector,
            executor=executor,
            flows=flows,
            titles=self._titles,
            gate=gate,
            loops=loops,
            decision=decision_callback if isinstance(decision_callback, ModelDecision) else None,
            keeps_failed=handover_after is not None,
        )
        self._free = FreeAnswer(flows=flows, titles=self._titles, loops=loops, approval=self._approval)
        self._running = TurnFlows(one=one, answers=self._free, approval=self._approval)
        self._handover = Handover(flows=flows, running=self._running, after=handover_after)
        self._reader = MessageReader(
            selections=SelectionReader(
                selector=selector,
                flows=flows,
                titles=self._titles,
                decider=decides,
                asks_to_begin=self._approval.asks_to_begin,
                model=chat,
                speaks="" if chat is None else prompt.system,
                procedures=None if loops is None else loops.procedures_for,
            )
        )
        self._runner = ActionRunner(
            flows=flows, titles=self._titles, gate=gate, approval=self._approval, selector=selector
        )
        self._answers = AnswerWriter(
            chat, self._titles, calls.model_timeout_s, offers=lambda: titles_of(selector.flow_registry.values())
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections of models that were given as strings. The selector is not closed."""
        if self._own is not None:
            await self._own.aclose()
        if self._own_decider is not None:
            await self._own_decider.aclose()

    @property
    def tools(self) -> Toolbox:
        """The connected tools, by name."""
        return self._tools

    def with_claims(self, claims: ClaimStore) -> Self:
        """Return this agent with a store of claims, unless it has one."""
        if self._approval.claims is None:
            self._approval.claims = self._executor.claims = claims
        return self

    async def verdict(self, call: ToolCall) -> Verdict:
        """Return the verdict on a call from outside a turn, such as one by an MCP client.

        The guards see the call as a message, with tool and arguments as context. Then the hook or the policy decides.
        """
        if self._guards:
            context = {**call.arguments, "tool": call.tool}
            message = f"{call.tool} {storable_text(dict(call.arguments))}"
            state = TurnInput(message=message, conversation=Conversation(), context=context)
            route = await through_in_time(self._guards, state)
            if route.tag != CONTINUE:
                reason = route.decision.reason if route.decision else ""
                return Deny(reason or f"a guard of the agent says {route.tag}")
        try:
            return await self._approval.verdict(call)
        except CannotDo as error:
            return Deny(error.message)

    def mermaid(self) -> str:
        """Return the stages of a turn as a mermaid flowchart."""
        return mermaid(_TOPOLOGY)

    async def turn(  # noqa: PLR0913 - options with a name
        self,
        message: str,
        history: Conversation | Sequence[Message] | None = None,
        *,
        context: Mapping[str, Any] | None = None,
        facts: Facts | None = None,
        schema: SchemaLike | None = None,
        conversation_id: str = "",
        timeout_s: float | Literal["agent"] | None = "agent",
        on_event: OnEvent | None = None,
        now: datetime | None = None,
    ) -> TurnResult:
        """Answer one message.

        Args:
            message: The user's message.
            history: The last result's `conversation`, or messages.
            context: What the caller knows and no model may write, such as who the user is. Guards look at it, and it
                fills inputs of tools by name. Models are shown neither these names nor the values, only what tools
                return of them; a value that a model gives for one is dropped, with a note. It is not kept, so pass it
                with each turn. A value of None counts as unknown.
            facts: Facts of this conversation beside the agent's own, such as who is signed in. Models see them, tools
                do not. They are not kept either.
            schema: The schema of the answer, in place of the agent's own.
            conversation_id: A unique id for a new conversation; by default a random one. The conversation keeps it.
            timeout_s: The longest that this turn may take; None for no limit. By default the agent's own limit.
            on_event: Called with each event of `stream`.
            now: The time for this user, with their time zone. "Tomorrow" and "Friday" count from its day, and a day
                with a time is in its zone. The fact `today` then holds its date, unless it is given.

        Returns:
            The text to say and the conversation to pass next. Failures and timeouts are data in it.

        Raises:
            ConfigError: An argument or the schema is invalid, or the conversation has another id; nothing was done.
            CancelledError: The caller was cancelled.
        """
        values = checked_input(message, context)
        if timeout_s == "agent":
            timeout_s = self._timeout_s
        else:
            check_argument("timeout_s", timeout_s, TimeLimit)
        deadline = Deadline.after(timeout_s)
        with time_budget(timeout_s):
            answer_schema = self._schema if schema is None else await _prepare_schema(schema)
        check_now(now)
        conversation = Conversation.from_history(history).with_id(conversation_id)
        message = normalized_message(message)
        turn_facts = {**self._facts, **checked_facts(facts)} if self._facts or facts is not None else {}
        if now is not None:
            turn_facts = {TODAY: now.date().isoformat(), **turn_facts}
        request = TurnRequest(
            message=message,
            conversation=conversation,
            context=values,
            schema=answer_schema,
            key=conversation.next_turn(self.selector.agent_id, message),
            ledger=PromptHistoryRecorder(conversation.turns + 1, conversation.shown) if self._grows else None,
            now=now,
        )
        user_messages = (each.content for each in reversed(conversation.messages) if each.role == "user")
        with (
            in_conversation(conversation.id),
            speaking(self._texts.in_language_of(chain((message,), user_messages))),
            listening(self._with_call_texts(on_event)),
            Trace(self._hooks, redact=self._redact) as trace,
            span(self.name, "turn") as traced,
            time_budget(deadline.left_s) as budget,
        ):
            if turn_facts:
                request = replace(request, facts=await resolve_facts(turn_facts))
            if request.ledger is not None:
                await forget_closed(request.ledger, self._flows.find, values)
            _, ended = await walk(_TOPOLOGY, PRE_CHECK, cast("Any", request), self._run_node)
            state: TurnState = ended
            if traced is not None:
                traced.note({"status": state.status, "flows": [run.flow for run in state.runs]})
                traced.hold({"message": state.request.message, "text": state.text, "reason": state.reason})
            prompt = await self._prompts(state.agenda)
        result = state.result(prompt=prompt, trace=trace)
        if on_event is not None:
            with time_budget(budget.deadline.left_s):  # a listener shares the turn's time, so it cannot block it
                await tell(on_event, Finished(answer=result))
        return result

    def _with_call_texts(self, on_event: OnEvent | None) -> OnEvent | None:
        """Return the listener, with a text for the user added to each call."""

        async def forward(event: Event) -> None:
            if isinstance(event, ToolCalled) and event.call.tool in self._tools:
                event = replace(event, text=say("at_work", tool=self._titles.tool(event.call.tool)))
            await tell(on_event, event)

        return forward if on_event is not None else None

    turn_sync = in_own_loop(turn)
    """`turn` for synchronous code, in an event loop that the agent owns."""
    stream = in_events(turn, "stream")
    """`turn` as a stream of events; the last one, `Finished`, holds the `TurnResult`.

    `FlowChosen` names the flow that runs, `ToolCalled` and `ToolReturned` are calls and their outcomes, `OutputText`
    and `ChainText` are texts of a model in pieces or whole. The text for the user is the result's `text`.

    To stop early, close the generator (`contextlib.aclosing`): the turn is cancelled. Arguments and errors are those of
    `turn`.
    """

    async def _run_node(self, node: str, value: Any) -> NodeExit[Any]:
        """Run one node of the graph; its edges give each stage the output of the one before."""
        with span(node, "node") as traced:
            left: NodeExit[Any] = NodeExit(value)
            if node == PRE_CHECK:
                left = await self._run_guards(value)
            elif node == _SELECT:
                left = await self._read_and_decide(value)
            elif node == _RUN:
                state = await self._running.run(value)
                left = NodeExit(state, "back" if state.handed_back else "")
            elif node == _CONVERSE:
                left = NodeExit(await self._free.answer(value))
            elif node == _ANSWER:
                left = NodeExit(await self._answers.write(await self._handover.hand_over(value)))
            if traced is not None and left.tag:
                traced.note({"route": left.tag})
        return left

    async def _run_guards(self, request: TurnRequest) -> NodeExit[TurnRequest | TurnState]:
        if not self._guards:
            return NodeExit(request, CONTINUE)
        state = TurnInput(message=request.message, conversation=request.conversation, context=request.context)
        route = await through_in_time(self._guards, state)
        request = request.guarded(route.updates, withheld=route.tag == GUARD_FAILED)
        if route.tag == CONTINUE:
            return NodeExit(request, CONTINUE)
        decision = route.decision
        guard_text = decision.arguments.get("text", "") if decision else ""
        reason = (decision.reason if decision else "") or route.tag
        if isinstance(guard_text, str) and guard_text.strip():
            text = guard_text
        else:
            text = blocked_text(contact_of(request.facts))
        ended = replace(TurnState.from_request(request), status="blocked", text=text, reason=reason)
        return NodeExit(with_timeout_text(ended, self._titles), "blocked")

    async def _read_and_decide(self, given: TurnRequest | TurnState) -> NodeExit[TurnState]:
        """Read the message, or a part that a model at work on a flow handed back, decide, and carry it out."""
        if isinstance(given, TurnState):
            state = given.for_part()
            reading = await self._reader.read_part(state)
        else:
            state = TurnState.from_request(given).with_live_flows(lambda name: self._flows.find(name) is not None)
            reading = await self._reader.read(state)
        actions = decide(state, reading, self._reader.selections.able)
        selected = await self._runner.carry_out(with_reading(state, reading), actions)
        if isinstance(given, TurnState):
            selected = replace(selected, request=given.request)
        spent = spent_budget()
        if spent is not None:
            spent.stopped("before anything was run")
            selected = replace(selected, way=ASK, pending=selected.pending or selected.granted)
        way = selected.way.to
        return NodeExit(selected.with_status_before() if way == "ask" else selected, way)

    async def _prompts(self, agenda: Agenda) -> str:
        """Return the prompts of the open flows, the active one first, without those that fail to render."""
        return join_paragraphs(*[await _prompt(self._flows.find(each.name)) for each in reversed(agenda.flows)])


async def _prompt(flow: BaseFlow | None) -> str:
    try:
        return await prompt_of(flow) if flow is not None else ""
    except Exception:  # noqa: BLE001 - an author's prompt may raise anything; the turn's result must not be lost
        return ""


async def _prepare_schema(schema: SchemaLike) -> OutputSchema:
    try:
        return await run_within_budget(output_schema(schema), what="its schema")
    except TimeoutError as error:
        msg = "the schema could not be checked within the turn's timeout_s: give a smaller one, or more time"
        raise ConfigError(msg) from error
