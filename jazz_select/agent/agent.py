"""An agent: a message comes in, guards look at it, flows are found and run, and an answer leaves."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final, Literal, Self, cast

from jazz_select.agent.agent_options import Approval, CallOptions, Facts, PromptOptions, TraceOptions
from jazz_select.agent.answer import AnswerWriter, Titles, cut_short, titles_of
from jazz_select.agent.chain.chain_options import ChainOptions
from jazz_select.agent.chain.output_schema import OutputSchema, SchemaLike, output_schema
from jazz_select.agent.chain.responder import OwnLoop, in_events, in_own_loop
from jazz_select.agent.chain.transcript import Event, Finished, OnEvent, ToolCalled, tell
from jazz_select.agent.conversation import Conversation, normalized_message
from jazz_select.agent.flows.open_flows import OpenFlows
from jazz_select.agent.flows.turn_flows import TurnFlows
from jazz_select.agent.gate import AgentApproval, DestructionGate
from jazz_select.agent.graph.actions import PRE_CHECK
from jazz_select.agent.graph.guards import CONTINUE, GUARD_FAILED, Guard, through_in_time
from jazz_select.agent.graph.state import FINISH
from jazz_select.agent.graph.topology import NodeExit, Topology, mermaid, walk
from jazz_select.agent.input_checks import unusable_checks
from jazz_select.agent.part_checks import check_agent_parts, checked_facts, note_flows, resolve_facts, unconnected
from jazz_select.agent.turn import (
    SelectedFlows,
    TurnInput,
    TurnOutcome,
    TurnRequest,
    TurnResult,
    TurnWork,
    checked_input,
    listening,
    tell_of_step,
)
from jazz_select.agent.turn_selector import MIN_CONFIDENCE, TurnSelector
from jazz_select.agent.view import forget_closed
from jazz_select.arguments import Positive, check_argument
from jazz_select.chat.client import ChatClient, client_for
from jazz_select.chat.decisions import Decider, DeciderLike, decider_of
from jazz_select.chat.models import ModelLike
from jazz_select.errors import ConfigError
from jazz_select.flow.base import check_calls, check_connected
from jazz_select.json_values import storable_text
from jazz_select.ports import ClaimStore
from jazz_select.routing.approval import ApprovalPolicy, Deny, Verdict
from jazz_select.routing.decisions.decision_points import Decide, DecisionCallback, as_callback
from jazz_select.routing.decisions.model_decision import ModelDecision
from jazz_select.routing.executor import FlowExecutor
from jazz_select.routing.records import ToolCall
from jazz_select.routing.tools.sources import ToolsLike, toolbox_of
from jazz_select.routing.tools.tool import Toolbox
from jazz_select.selector.growing import Ledger
from jazz_select.selector.select import FlowSelector
from jazz_select.selector.selector_options import TimeLimit
from jazz_select.telemetry import Trace, span
from jazz_select.texts import Texts, say, speaking
from jazz_select.threads import Deadline, run_within_budget, spent_budget, time_budget
from jazz_select.values import Message, flow_id

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
    """Answers messages with flows and their tools. It keeps nothing between turns: the conversation is a value.

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
        decision_callback: DecisionCallback | Decide | None = None,
        facts: Facts | None = None,
        prompt: PromptOptions = PromptOptions(),  # noqa: B008 - it is frozen
        calls: CallOptions = CallOptions(),  # noqa: B008 - likewise
        approval: ApprovalPolicy | Approval = "destructive",
        min_confidence: float = MIN_CONFIDENCE,
        timeout_s: float | None = 60.0,
        tracing: TraceOptions = TraceOptions(),  # noqa: B008 - likewise
        decider: DeciderLike | Decider | None = None,
        texts: Mapping[str, Any] | None = None,
        handover_after: int | None = None,
    ) -> None:
        """Put an agent together.

        Args:
            selector: Finds flows, with a model of its own or without one.
            tools: What is connected: tools, functions, of each of which a tool is made (`tool_from_function`), or what
                `load_tools` returns. Every tool that a flow cannot do without has to be among them; with none at all,
                flows are the caller's to run.
            model: Goes on where flows are open, chooses between tools, finds facts in what the user says, and puts
                answers into a schema; as `FlowSelector` takes it. Without one, all of that is the caller's.
            guards: Checked first, in this order, without a model; whatever tag one answers with ends the turn. What
                one changes in message, context or conversation is all that anything after it sees, and that is kept.
            decision_callback: Who chooses between tools at guided steps, instead of the model: an object with a
                `decide`, or a function that does what it does.
            facts: What holds in every conversation and models are told of, such as
                `{"today": lambda: date.today().isoformat(), "company": "Fjord", "support": "help@fjord.example"}`;
                a function is called in each turn. `support` is whom users are told of where a flow cannot be done.
            prompt: Who the model is told to be, which tools it gets where no flow fits, whether prompts only grow, and
                the schema of answers.
            calls: How models call tools: how often in a chain, who hears of a call, how long a model may take, and how
                sure a decision model has to be.
            approval: Which calls the user is asked to confirm: of tools that destroy something, "always", or "never";
                or an `Approval`, with a hook that is asked about each call, or with a store of claims.
            min_confidence: How sure recall has to be, where no chat model chose, that some flow is meant, and that it
                is this one, for it to be run; `math.inf` for never. 0, for tests, runs the nearest flow whatever is
                said, but for what may change something and is denied, supposed, only asked about, or told of as done.
            timeout_s: The most that a whole turn may take, whatever it waits for: models, tools, guards, hooks, recall.
                Then it ends with what was done until then, and says so; None for no limit.
            tracing: Who hears of spans, and what the agent is called in them.
            decider: A decision model, as `as_decision_model` takes it, that is asked before the model where that
                chooses between tools, and where the lists of words leave open whether a message answers a yes/no
                question or approves a call. Where it fails, or is not sure, it goes on as without it, with a note.
            texts: Sentences that the agent says by itself, in the place of its own: by key, such as
                `{"done": "{title}: all done!"}`, or by language and key; a language of your own comes whole. The keys
                are in `jazz_select/texts.toml`. A turn is answered in the user's language where that is one of these,
                else in English.
            handover_after: After how many questions in a row that led nowhere a turn ends as `handed_over`, as it does
                then where a flow fails; by a flow that says `handover=True`, if there is one. None for never.

        Raises:
            ConfigError: An argument cannot work.
            UnconnectedToolsError: A flow names a tool that is not connected, which is not among its `optional_tools`,
                and is not `manual`.
            DuplicateToolError: Two tools have one name.
        """
        self.name = tracing.name
        self._texts = Texts(texts)
        check_argument("handover_after", handover_after, Positive | None)
        self.own_loop = OwnLoop()  # where `turn_sync` runs
        self._tools = toolbox_of(tools)
        check_agent_parts(selector, self._tools, guards, min_confidence)
        self._guards = tuple(guards)
        check_argument("timeout_s", timeout_s, TimeLimit)
        self._timeout_s = timeout_s
        self.selector = selector
        decision_callback = as_callback(decision_callback)
        for flow in selector.flow_registry.values():
            check_calls(flow)
        if self._tools:  # without any, the flows are the caller's to run
            check_connected(selector.flow_registry.values(), self._tools)
        if self._tools and (problem := unusable_checks(selector.flow_registry.values(), self._tools)):
            raise ConfigError(problem)
        note_flows(selector.flow_registry.values(), self._tools)
        self._facts = checked_facts(facts)
        self._grows = prompt.narrowing == "growing"
        self._schema = OutputSchema(prompt.schema) if prompt.schema is not None else None
        self._hooks, self._redact = tuple(tracing.hooks), tracing.redact
        # One client for all parts: they share its breaker and its places.
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
        options = ChainOptions(
            chain_limit=calls.chain_limit,
            before_call=calls.before_call,
            after_call=calls.after_call,
            model_timeout_s=calls.model_timeout_s,
        )
        self._titles = Titles(lambda named: selector.flow_registry.get(flow_id(named)), executor.tools)
        loops = None
        if chat is not None:
            loops = OpenFlows(
                chat,
                self._tools,
                prompt.system,
                options,
                open_tools=prompt.open_tools,
                find=self._titles.find,
                offers=lambda: titles_of(selector.flow_registry.values()),
            )
        gate = DestructionGate(executor.tools)
        asks = self._approval = AgentApproval(approval)
        self._running = TurnFlows(
            selector,
            executor=executor,
            gate=gate,
            loops=loops,
            approval=asks,
            titles=self._titles,
            decision=decision_callback,
            decider=decides,
            handover_after=handover_after,
        )
        self._selecting = TurnSelector(
            selector,
            self._running,
            gate,
            asks,
            self._titles,
            min_confidence=min_confidence,
            model=chat,
            speaks=prompt.system,
            decider=decides,
        )
        self._answers = AnswerWriter(chat, self._titles, model_timeout_s=calls.model_timeout_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections of models that were given as strings; the selector is closed by whoever made it."""
        if self._own is not None:
            await self._own.aclose()
        if self._own_decider is not None:
            await self._own_decider.aclose()

    @property
    def tools(self) -> Toolbox:
        """What is connected, by name."""
        return self._tools

    def with_claims(self, claims: ClaimStore) -> Self:
        """This agent, which claims calls there where it has no store of its own."""
        if self._approval.claims is None:
            self._approval.claims = self._executor.claims = claims
        return self

    async def verdict(self, call: ToolCall) -> Verdict:
        """What this agent says of a call that somebody else wants made, such as a client over MCP.

        Its guards see the call as a message, with the tool and the arguments as the context; then its hook decides, or
        its policy.
        """
        if self._guards:
            context = {**call.arguments, "tool": call.tool}
            said = f"{call.tool} {storable_text(dict(call.arguments))}"
            state = TurnInput(message=said, conversation=Conversation(), context=context)
            route = await through_in_time(self._guards, state)
            if route.tag != CONTINUE:
                reason = route.decision.reason if route.decision else ""
                return Deny(reason or f"a guard of the agent says {route.tag}")
        return await self._approval.verdict(call)

    @property
    def unconnected(self) -> dict[str, tuple[str, ...]]:
        """Flow to the tools that it names and nobody connected, as far as there are any: what cannot be done here."""
        return unconnected(self.selector.flow_registry.values(), self._tools)

    def mermaid(self) -> str:
        """A turn as a mermaid flowchart."""
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
    ) -> TurnResult:
        """Answer one message.

        Args:
            message: What the user says.
            history: What was before: the last result's `conversation`, or messages.
            context: What is known beside, in this turn: guards and tools see it, models what tools return of it.
                It is not kept: send it with each turn. None counts as not known.
            facts: What holds in this conversation, over the agent's own `facts`, such as who is signed in: models are
                told of it, tools are not. It is not kept either.
            schema: What the answer is to have, instead of the agent's own.
            conversation_id: What a new conversation is to be known by, and no other one of this agent; by default a
                new id. It is kept in it.
            timeout_s: The most that this turn may take; None for no limit. By default what the agent was given.
            on_event: Hears of what happens, as `stream` gives it.

        Returns:
            What to say and what to go on with. What fails on the way, or that the time ran out, is in it as data.

        Raises:
            ConfigError: An argument is of the wrong kind, the schema cannot be used, or the conversation has another
                id; nothing was done.
            CancelledError: The caller was cancelled.
        """
        known = checked_input(message, context)
        if timeout_s == "agent":
            timeout_s = self._timeout_s
        else:
            check_argument("timeout_s", timeout_s, TimeLimit)
        whole = Deadline.after(timeout_s)
        with time_budget(timeout_s):
            wanted = self._schema if schema is None else await _prepared(schema)
        conversation = Conversation.of(history).named(conversation_id)
        said = normalized_message(message)
        holds = {**self._facts, **checked_facts(facts)} if self._facts or facts is not None else {}
        request = TurnRequest(
            message=said,
            conversation=conversation,
            context=known,
            schema=wanted,
            key=conversation.next_turn(self.selector.agent_id, said),
            ledger=Ledger(conversation.turns + 1, conversation.shown) if self._grows else None,
        )
        users = (each.content for each in reversed(conversation.messages) if each.role == "user")
        with (
            speaking(self._texts.spoken(chain((said,), users))),
            listening(self._in_words(on_event)),
            Trace(self._hooks, redact=self._redact) as trace,
            span(self.name, "turn") as traced,
            time_budget(whole.left_s) as budget,
        ):
            if holds:
                request = replace(request, facts=await resolve_facts(holds))
            if request.ledger is not None:
                await forget_closed(request.ledger, self._titles.find, known)
            _, ended = await walk(_TOPOLOGY, PRE_CHECK, cast("Any", request), self._passed)
            outcome: TurnOutcome = ended
            if traced is not None:
                traced.note({"status": outcome.status, "flows": [run.flow for run in outcome.work.runs]})
                traced.hold({"message": outcome.work.request.message, "text": outcome.text, "reason": outcome.reason})
            prompt = await self._running.prompts(outcome.work.stack.flows)
        result = outcome.result(prompt=prompt, trace=trace)
        if on_event is not None:
            with time_budget(budget.deadline.left_s):  # of the same time: a listener holds up no turn for ever
                await tell(on_event, Finished(answer=result))
        return result

    def _in_words(self, on_event: OnEvent | None) -> OnEvent | None:
        """Who listens, told of each call in words for the user, too."""

        async def hear(event: Event) -> None:
            if isinstance(event, ToolCalled) and event.call.tool in self._tools:
                event = replace(event, text=say("at_work", tool=self._titles.tool(event.call.tool)))
            await tell(on_event, event)

        return hear if on_event is not None else None

    turn_sync = in_own_loop(turn, lambda agent: agent.own_loop)
    """`turn`, without async: in a loop that the agent keeps, and that ends with it."""
    stream = in_events(turn, "stream")
    """What `turn` does, event by event; the last one, `Finished`, holds the `TurnResult`.

    `FlowChosen` says which flow runs, `ToolCalled` and `ToolReturned` what is called and what came of it, `OutputText`
    and `ChainText` what a model says, piece by piece or as a whole. What to tell the user is the result's `text`.

    Whoever stops iterating early closes the generator (`contextlib.aclosing`), and the turn is cancelled. Arguments and
    errors are those of `turn`.
    """

    async def _passed(self, node: str, value: Any) -> NodeExit[Any]:
        """Pass one node: the edges see to it that each stage is given what the one before it gave."""
        stages: Mapping[str, Callable[[Any], Awaitable[NodeExit[Any]]]] = {
            PRE_CHECK: self._checked,
            _SELECT: self._selected,
            _RUN: self._ran,
            _CONVERSE: self._conversed,
            _ANSWER: self._answered,
        }
        with span(node, "node") as traced:
            left = await stages[node](value) if node in stages else NodeExit(value)
            if traced is not None and left.tag:
                traced.note({"route": left.tag})
        return left

    async def _checked(self, request: TurnRequest) -> NodeExit[TurnRequest | TurnOutcome]:
        """The guards, without a model."""
        if not self._guards:
            return NodeExit(request, CONTINUE)
        state = TurnInput(message=request.message, conversation=request.conversation, context=request.context)
        route = await through_in_time(self._guards, state)
        request = request.guarded(route.updates, withheld=route.tag == GUARD_FAILED)
        if route.tag == CONTINUE:
            return NodeExit(request, CONTINUE)
        decision = route.decision
        said = decision.arguments.get("text", "") if decision else ""
        reason = (decision.reason if decision else "") or route.tag
        text = said if isinstance(said, str) else ""
        return NodeExit(cut_short(TurnOutcome.blocked(request, text=text, reason=reason), self._titles), "blocked")

    async def _selected(self, given: TurnRequest | TurnWork) -> NodeExit[SelectedFlows | TurnWork]:
        """Which flows the message is for; once more, where a model at work on one hands it back."""
        selecting = self._selecting
        selected = await (selecting.handed_back(given) if isinstance(given, TurnWork) else selecting.select(given))
        spent = spent_budget()
        if spent is not None:  # nothing more is begun
            spent.stopped("before anything was run")
            selected = replace(selected, way="ask", pending=selected.pending or selected.granted)
        return NodeExit(TurnWork.of(selected) if selected.way == "ask" else selected, selected.way)

    async def _ran(self, selected: SelectedFlows) -> NodeExit[TurnWork]:
        """The flows, one after the other."""
        work = await self._running.run(selected)
        return NodeExit(work, "back" if work.handed_back else "")

    async def _conversed(self, selected: SelectedFlows) -> NodeExit[TurnWork]:
        """A model without a flow, or nobody."""
        return NodeExit(await self._running.converse(selected))

    async def _answered(self, work: TurnWork) -> NodeExit[TurnOutcome]:
        """What is told."""
        return NodeExit(await self._answers.give(await self._running.handed_over(work)))


async def _prepared(schema: SchemaLike) -> OutputSchema:
    """A schema for one turn."""
    try:
        return await run_within_budget(output_schema(schema), what="its schema")
    except TimeoutError as error:
        msg = "the schema could not be checked within the turn's timeout_s: give a smaller one, or more time"
        raise ConfigError(msg) from error
