"""An agent: a message comes in, guards look at it, flows are found and run, and an answer leaves."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from jazz_select.agent.answer import AnswerWriter
from jazz_select.agent.chain.options import ChainOptions
from jazz_select.agent.chain.output_schema import OutputSchema, SchemaLike
from jazz_select.agent.chain.tool_calls import AfterCall, BeforeCall
from jazz_select.agent.checks import check_agent_parts
from jazz_select.agent.conversation import SHIFT_ABOVE, Conversation, heard
from jazz_select.agent.flows.open_flows import OpenFlows
from jazz_select.agent.flows.turn_flows import TurnFlows
from jazz_select.agent.gate import AgentApproval, DestructionGate
from jazz_select.agent.graph.actions import PRE_CHECK
from jazz_select.agent.graph.guards import CONTINUE, GUARD_FAILED, Guard, through
from jazz_select.agent.graph.state import FINISH
from jazz_select.agent.graph.topology import NodeExit, Topology, mermaid, walk
from jazz_select.agent.turn import (
    SelectedFlows,
    TurnInput,
    TurnOutcome,
    TurnRequest,
    TurnResult,
    TurnWork,
    checked_input,
)
from jazz_select.agent.turn_selector import TurnSelector
from jazz_select.chat.client import ChatClient, client_for
from jazz_select.chat.models import ModelLike
from jazz_select.ports import ClaimStore
from jazz_select.routing.decisions.model_decision import ModelDecision
from jazz_select.routing.decisions.points import DecisionCallback
from jazz_select.routing.executor import FlowExecutor, OpenRouter
from jazz_select.routing.tool_call import ApprovalPolicy, Approve
from jazz_select.routing.tools.sources import ToolsLike, toolbox_of
from jazz_select.selector.select import FlowSelector
from jazz_select.telemetry import Redact, Trace, TraceHook, span
from jazz_select.values import Message

_SELECT, _RUN, _CONVERSE, _ANSWER = "select", "run_flows", "converse", "answer"
_EDGES: Final[Mapping[str, Mapping[str, str]]] = {
    PRE_CHECK: {CONTINUE: _SELECT, "blocked": FINISH},
    _SELECT: {"run": _RUN, "open": _CONVERSE, "ask": _ANSWER},
    _RUN: {"": _ANSWER},
    _CONVERSE: {"": _ANSWER},
    _ANSWER: {"": FINISH},
}
_TOPOLOGY: Final = Topology((PRE_CHECK, _SELECT, _RUN, _CONVERSE, _ANSWER, FINISH), _EDGES)


class Agent:
    """Answers messages with flows and their tools. It keeps nothing between turns: the conversation is a value."""

    def __init__(  # noqa: PLR0913 - what an agent is made of
        self,
        selector: FlowSelector,
        tools: ToolsLike = (),
        model: ModelLike | ChatClient | None = None,
        guards: Sequence[Guard[TurnInput]] = (),
        *,
        decision_callback: DecisionCallback | None = None,
        open_router: OpenRouter | None = None,
        system: str = "You are a helpful agent. Follow the procedure you are given, and call tools where it says so.",
        schema: SchemaLike | None = None,
        chain_limit: int = 8,
        before_call: BeforeCall | None = None,
        approval: ApprovalPolicy = "destructive",
        approve: Approve | None = None,
        claims: ClaimStore | None = None,
        after_call: AfterCall | None = None,
        shift_above: float = SHIFT_ABOVE,
        model_timeout_s: float | None = 30.0,
        name: str = "agent",
        hooks: Iterable[TraceHook] = (),
        redact: Redact | None = None,
    ) -> None:
        """Put an agent together.

        Args:
            selector: Finds flows, with a model of its own or without one.
            tools: What is connected: tools, functions, of each of which a tool is made (`tool_from_function`), or what
                `load_tools` returns.
            model: Goes on where flows are open, chooses between tools, finds facts in what the user says, and puts
                answers into a schema; as `FlowSelector` takes it. Without one, all of that is the caller's.
            guards: Checked first, in this order, without a model; whatever tag one answers with ends the turn. What
                one changes in message, context or conversation is all that anything after it sees, and that is kept.
            decision_callback: Who chooses between tools at guided steps, instead of the model.
            open_router: Who chooses among all tools where nothing narrows them.
            system: What the model is told of its task.
            schema: A JSON Schema or a pydantic class that answers are to have.
            chain_limit: How often the model may be asked in one chain of tool calls.
            before_call: Asked before each call that a model makes; may say no.
            approval: Which calls the user is asked to confirm, where there is no `approve`: of tools that destroy
                something, "always", or "never". A turn that asks ends as `confirming`.
            approve: Asked before each call of a tool, whoever chose it and whatever the policy: `Allow()`,
                `Deny(reason)`, or `Ask(reason)` for the user's yes.
            claims: Where calls that destroy something are claimed before they are made, such as `SqliteClaims(path)`:
                then of two processes that go on with one conversation, one makes a call, and the other hears what
                became of it. Without it nobody keeps them apart.
            after_call: Told after each call that a model makes.
            shift_above: How sure recall has to be, without a model, that some flow is meant, and that it is this one,
                for it to be run. 0, for tests, runs the nearest flow whatever is said, but for what would destroy
                something and is denied, supposed or only asked about.
            model_timeout_s: The most that one call of the model may take, retries included; None for no limit.
            name: For traces.
            hooks: Who hears of spans, beside the log.
            redact: Applied to what is said in each span, before anyone gets it.

        Raises:
            ConfigError: An argument cannot work.
            DuplicateToolError: Two tools have one name.
        """
        self.name = name
        self._tools = toolbox_of(tools)
        self._guards = tuple(guards)
        check_agent_parts(self._tools, self._guards, decision_callback)
        self._schema = OutputSchema(schema) if schema is not None else None
        self._hooks, self._redact = tuple(hooks), redact
        chat = None if model is None else client_for(model)  # one for all parts: they share its breaker and its places
        if decision_callback is None and chat is not None:
            decision_callback = ModelDecision(chat)
        executor = FlowExecutor(self._tools.values(), decision_callback, open_router, claims=claims)
        options = ChainOptions(
            chain_limit=chain_limit,
            before_call=before_call,
            after_call=after_call,
            model_timeout_s=model_timeout_s,
        )
        loops = None
        if chat is not None:
            loops = OpenFlows(chat, self._tools, system, options)
        gate = DestructionGate(executor.tools)
        self._running = TurnFlows(selector, executor, gate, chat, loops, AgentApproval(approval, approve, claims))
        self._selecting = TurnSelector(
            selector, self._running, gate, shift_above=shift_above, has_model=chat is not None
        )
        self._answers = AnswerWriter(chat, self._running, model_timeout_s=model_timeout_s)

    def mermaid(self) -> str:
        """A turn as a mermaid flowchart."""
        return mermaid(_TOPOLOGY)

    async def turn(
        self,
        message: str,
        history: Conversation | Sequence[Message] | None = None,
        *,
        context: Mapping[str, Any] | None = None,
        schema: SchemaLike | None = None,
        conversation_id: str = "",
    ) -> TurnResult:
        """Answer one message.

        Args:
            message: What the user says.
            history: What was before: the last result's `conversation`, or messages.
            context: What is known beside, in this turn: guards and tools see it, models what tools return of it.
                It is not kept: send it with each turn. None counts as not known.
            schema: What the answer is to have, instead of the agent's own.
            conversation_id: What a new conversation is to be known by; by default a new id. It is kept in it.

        Returns:
            What to say and what to go on with. What fails on the way is in it, as data.

        Raises:
            ConfigError: An argument is of the wrong kind, the schema cannot be used, or the conversation has another
                id; nothing was done.
            CancelledError: The caller was cancelled.
        """
        known = checked_input(message, context)
        wanted = OutputSchema(schema) if schema is not None else self._schema
        conversation = Conversation.of(history).named(conversation_id)
        said = heard(message)
        request = TurnRequest(
            message=said, conversation=conversation, context=known, schema=wanted, key=conversation.next_turn(said)
        )
        with Trace(self._hooks, redact=self._redact) as trace, span(self.name, "turn") as traced:
            _, ended = await walk(_TOPOLOGY, PRE_CHECK, cast("Any", request), self._passed)
            outcome: TurnOutcome = ended
            if traced is not None:
                traced.note({"status": outcome.status, "flows": [run.flow for run in outcome.work.runs]})
                traced.hold({"message": outcome.work.request.message, "text": outcome.text, "reason": outcome.reason})
        return outcome.result(prompt=self._running.prompts(outcome.work.stack.flows), trace=trace)

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
        route = through(self._guards, state)
        request = request.guarded(route.updates, withheld=route.tag == GUARD_FAILED)
        if route.tag == CONTINUE:
            return NodeExit(request, CONTINUE)
        decision = route.decision
        said = decision.arguments.get("text", "") if decision else ""
        reason = (decision.reason if decision else "") or route.tag
        text = said if isinstance(said, str) else ""
        return NodeExit(TurnOutcome.blocked(request, text=text, reason=reason), "blocked")

    async def _selected(self, request: TurnRequest) -> NodeExit[SelectedFlows | TurnWork]:
        """Which flows the message is for."""
        selected = await self._selecting.select(request)
        return NodeExit(TurnWork.of(selected) if selected.way == "ask" else selected, selected.way)

    async def _ran(self, selected: SelectedFlows) -> NodeExit[TurnWork]:
        """The flows, one after the other."""
        return NodeExit(await self._running.run(selected))

    async def _conversed(self, selected: SelectedFlows) -> NodeExit[TurnWork]:
        """A model without a flow, or nobody."""
        return NodeExit(await self._running.converse(selected))

    async def _answered(self, work: TurnWork) -> NodeExit[TurnOutcome]:
        """What is told."""
        return NodeExit(await self._answers.give(work))
