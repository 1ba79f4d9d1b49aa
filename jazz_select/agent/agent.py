"""An agent: a message comes in, guards look at it, flows are found and run, and an answer leaves."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final
from unicodedata import normalize

from jazz_select.agent.answer import AnswerWriter, called_off
from jazz_select.agent.chain.output_schema import OutputSchema, SchemaLike
from jazz_select.agent.chain.tool_calls import AfterCall, BeforeCall
from jazz_select.agent.checks import as_tool, check_agent_parts, checked_input, why_open
from jazz_select.agent.conversation import SHIFT_ABOVE, Conversation, OpenFlow, after_selection, is_decisive
from jazz_select.agent.flows.open_flows import OpenFlows
from jazz_select.agent.flows.slots import AGREED, CALLED_OFF, folded_message, is_hesitant, single_word
from jazz_select.agent.flows.turn_flows import TurnFlows
from jazz_select.agent.graph.actions import PRE_CHECK
from jazz_select.agent.graph.guards import CONTINUE, Guard, through
from jazz_select.agent.graph.state import FINISH
from jazz_select.agent.graph.topology import NodeExit, Topology, mermaid, walk
from jazz_select.agent.turn import TurnInput, TurnResult, Work
from jazz_select.chat.models import ChatCallable, as_chat_model
from jazz_select.errors import JazzSelectError
from jazz_select.ports import ChatModel
from jazz_select.routing.decisions.model_decision import ModelDecision
from jazz_select.routing.decisions.points import DecisionCallback
from jazz_select.routing.executor import FlowExecutor, OpenRouter
from jazz_select.routing.tools.tool import Tool, Toolbox
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.selector.select import FlowSelector
from jazz_select.telemetry import Redact, Trace, TraceHook, span
from jazz_select.text import as_text, describe_error
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
        tools: Iterable[Tool | Callable[..., object]] = (),
        model: ChatModel | ChatCallable | str | None = None,
        guards: Sequence[Guard[TurnInput]] = (),
        *,
        decision_callback: DecisionCallback | None = None,
        open_router: OpenRouter | None = None,
        system: str = "You are a helpful agent. Follow the procedure you are given, and call tools where it says so.",
        schema: SchemaLike | None = None,
        chain_limit: int = 8,
        before_call: BeforeCall | None = None,
        after_call: AfterCall | None = None,
        shift_above: float = SHIFT_ABOVE,
        name: str = "agent",
        hooks: Iterable[TraceHook] = (),
        redact: Redact | None = None,
    ) -> None:
        """Put an agent together.

        Args:
            selector: Finds flows, with a model of its own or without one.
            tools: What is connected; of a function, a tool is made (`tool_from_function`).
            model: Goes on where flows are open, chooses between tools, finds facts in what the user says, and puts
                answers into a schema; as `FlowSelector` takes it. Without one, all of that is the caller's.
            guards: Checked first, in this order, without a model; whatever tag one answers with ends the turn.
            decision_callback: Who chooses between tools at guided steps, instead of the model.
            open_router: Who chooses among all tools where nothing narrows them.
            system: What the model is told of its task.
            schema: A JSON Schema or a pydantic class that answers are to have.
            chain_limit: How often the model may be asked in one chain of tool calls.
            before_call: Asked before each call that a model makes; may say no.
            after_call: Told after each.
            shift_above: How sure recall has to be, without a model, that some flow is meant, and that it is this one,
                for it to be run. 0 runs the nearest flow whatever is said, which is for tests.
            name: For traces.
            hooks: Who hears of spans, beside the log.
            redact: Applied to what is said in each span, before anyone gets it.

        Raises:
            ConfigError: An argument cannot work.
            DuplicateToolError: Two tools have one name.
        """
        self.name = name
        self._selector = selector
        self._tools = Toolbox(as_tool(each) for each in tools)
        self._guards = tuple(guards)
        check_agent_parts(self._tools, self._guards, decision_callback)
        self._schema = OutputSchema(schema) if schema is not None else None
        self._shift_above = shift_above
        self._hooks, self._redact = tuple(hooks), redact
        chat = as_chat_model(model)
        if decision_callback is None and chat is not None:
            decision_callback = ModelDecision(chat)
        executor = FlowExecutor(self._tools.values(), decision_callback, open_router)
        loops = None
        if chat is not None:
            loops = OpenFlows(chat, self._tools, system, chain_limit, before_call=before_call, after_call=after_call)
        self._has_model = chat is not None
        self._running = TurnFlows(selector, executor, chat, loops)
        self._answers = AnswerWriter(chat, self._running)

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
    ) -> TurnResult:
        """Answer one message.

        Args:
            message: What the user says.
            history: What was before: the last result's `conversation`, or messages.
            context: What is known beside, in this turn: guards and tools see it, models what tools return of it.
                It is not kept: send it with each turn. None counts as not known.
            schema: What the answer is to have, instead of the agent's own.

        Returns:
            What to say and what to go on with. What fails on the way is in it, as data.

        Raises:
            ConfigError: An argument is of the wrong kind, or the schema cannot be used; nothing was done.
            CancelledError: The caller was cancelled.
        """
        known = checked_input(message, context)
        wanted = OutputSchema(schema) if schema is not None else self._schema
        conversation = Conversation.of(history)
        work = Work(
            message=normalize("NFKC", as_text(message)), conversation=conversation, context=known, schema=wanted
        )
        work.flows, work.failed = conversation.flows, conversation.failed
        with Trace(self._hooks, redact=self._redact) as trace, span(self.name, "turn") as traced:
            await walk(_TOPOLOGY, PRE_CHECK, work, self._passed)
            if traced is not None:
                traced.note({"status": work.status, "flows": [run.flow for run in work.runs]})
                traced.hold({"message": work.message, "text": work.text, "reason": work.reason})
        return work.result(self._after(work), prompt=self._running.prompts(work.flows), trace=trace)

    async def _passed(self, node: str, work: Work) -> NodeExit[Work]:
        steps: Mapping[str, Callable[[Work], Awaitable[str]]] = {
            PRE_CHECK: self._checked,
            _SELECT: self._selected,
            _RUN: self._ran,
            _CONVERSE: self._conversed,
            _ANSWER: self._answered,
        }
        with span(node, "node") as traced:
            tag = await steps[node](work) if node in steps else ""
            if traced is not None and tag:
                traced.note({"route": tag})
        return NodeExit(work, tag)

    async def _checked(self, work: Work) -> str:
        """The guards, without a model."""
        if not self._guards:
            return CONTINUE
        state = TurnInput(message=work.message, conversation=work.conversation, context=work.context)
        route = through(self._guards, state)
        if route.tag == CONTINUE:
            return CONTINUE
        work.blocked(route)
        return "blocked"

    async def _selected(self, work: Work) -> str:
        """Which flow is under way: the one that waits for this answer, or what the message is about."""
        gone = [each.name for each in work.flows if self._running.flow(each.name) is None]
        if gone:
            work.flows = tuple(each for each in work.flows if each.name not in gone)
            work.reason = f"there is no flow {', '.join(gone)} any more"
        active = work.flows[-1] if work.flows else None
        idle = active is not None and active.status != "active"
        if active is not None and (tag := self._answered_at_once(work, active, idle=idle)):
            return tag
        try:
            work.selection = found = await self._found(work, alone=idle)
        except Exception as error:  # noqa: BLE001 - whatever a memory or a selector fails with
            work.error = error if isinstance(error, JazzSelectError) else None
            work.reason = f"no flow could be looked for: {describe_error(error)}"
            return "ask" if idle else "run" if work.flows else "open"
        decisive = is_decisive(found, work.message, above=self._shift_above)
        if active is not None and idle and (not decisive or found.names == [active.name]):
            return await self._heard(work, active, chosen=decisive)
        if decisive:
            work.flows = after_selection(
                work.flows, work.failed, found.names, request=work.message, turn=work.conversation.turns
            )
            work.failed = tuple(each for each in work.failed if each.name not in found.names)
            return "run"
        if work.flows:
            return "run"
        work.reason = work.reason or why_open(found)
        return "open"

    def _answered_at_once(self, work: Work, active: OpenFlow, *, idle: bool) -> str:
        """Where a message is a bare answer, agrees or calls off, nothing has to be looked for."""
        said = folded_message(work.message)
        known = {**active.answers, **work.context}
        lacking = {name: each for name, each in self._running.wanted(active).items() if name not in known}
        if idle and (answers := single_word(lacking, work.message)):
            return self._go_on(work, active, answers)
        if idle and said in AGREED and all(name in known for name in active.asks):
            agreed = {"agreed": (*active.agreed, *active.named), "named": (), "doubt": ""}
            return self._go_on(work, active.model_copy(update=agreed), {})
        if said in CALLED_OFF and (idle or not self._has_model):
            work.flows = work.flows[:-1]
            work.text = called_off(active)
            if active.is_final:  # asked for again, it goes on where it was called off
                work.failed = (*work.failed, active.model_copy(update={"status": "failed"}))
            work.resumed = work.flows[-1].name if work.flows else ""
            return "ask"
        return ""

    async def _heard(self, work: Work, active: OpenFlow, *, chosen: bool) -> str:
        """Whether a message that is about nothing else lets a flow that waits go on."""
        answers = await self._running.found(work, active)
        if (answers or chosen) and not (is_hesitant(work.message) and self._running.destroys(active.name)):
            return self._go_on(work, active, answers)
        work.flows = (*work.flows[:-1], active.model_copy(update={"answers": {**active.answers, **answers}}))
        return "ask"

    def _go_on(self, work: Work, active: OpenFlow, answers: Mapping[str, Any]) -> str:
        work.flows = (*work.flows[:-1], active.model_copy(update={"answers": {**active.answers, **answers}}))
        return "run"

    async def _found(self, work: Work, *, alone: bool) -> FlowSelectionResult:
        """By the message alone where that says enough, or has to; else with what was said before.

        A model reads both at once. Recall would find what was just done, or waits, for every "thanks" that follows, so
        what earlier turns are needed for does not count where it was done in them.
        """
        context, episodes = work.context, work.conversation.episodes
        if self._selector.has_model or not episodes:
            return await self._selector.select(work.message, episode_summaries=episodes, context=context)
        own = await self._selector.select(work.message, context=context)
        if alone or is_decisive(own, work.message, above=self._shift_above):
            return own
        found = await self._selector.select(work.message, episode_summaries=episodes, context=context)
        return own if set(found.names) & set(work.conversation.done) else found

    async def _ran(self, work: Work) -> str:
        await self._running.run(work)
        return ""

    async def _conversed(self, work: Work) -> str:
        await self._running.converse(work)
        return ""

    async def _answered(self, work: Work) -> str:
        await self._answers.give(work)
        return ""

    def _after(self, work: Work) -> Conversation:
        """What to go on with."""
        ran = [run.flow for run in work.runs]
        done = [run.flow for run in work.runs if run.status == "done"]
        return work.conversation.after(
            work.message, work.text, flows=work.flows, failed=work.failed, ran=ran, done=done
        )
