"""Run one flow of a turn as far as it comes, with the model that continues it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, cast

from jazz_select.agent.conversation import FlowStatus, OpenFlow, PastCall
from jazz_select.agent.conversation_view import ConversationView
from jazz_select.agent.flows.after_run import FlowOutcome, after_run
from jazz_select.agent.flows.branches import branch_in_time
from jazz_select.agent.flows.called_flows import context_from, returned_to, with_called_flow_ended
from jazz_select.agent.flows.flow_runner import FlowRunner, refused_run
from jazz_select.agent.flows.input_options import OptionLister
from jazz_select.agent.flows.open_flows import OpenFlowReply, OpenFlows
from jazz_select.agent.gate import DestructionGate, TurnApproval
from jazz_select.agent.known_flows import KnownFlows, walk_flow
from jazz_select.agent.titles import Titles
from jazz_select.agent.turn import FlowRun, TurnState
from jazz_select.agent.turn_events import reading_first
from jazz_select.errors import CannotDo, FlowError
from jazz_select.flow.base import BaseFlow, GuidedDecisionPoint, called_by, chain_of, steps_named
from jazz_select.flow.composite import ConditionalFlow
from jazz_select.json_values import storable_fields
from jazz_select.routing.decisions.decision_points import Chosen, DecisionCallback, ToolCandidate
from jazz_select.routing.decisions.model_decision import ModelDecision
from jazz_select.routing.executor import FlowExecutor
from jazz_select.routing.schemas.fields import fields
from jazz_select.routing.tools.tool import Tool
from jazz_select.selector.candidates_stage import Availability
from jazz_select.selector.select import FlowSelector
from jazz_select.text import describe_error, name_shown, one_line
from jazz_select.threads import spent_budget
from jazz_select.words import folded_name

_LONGEST_NAME: Final = 60
"""The most characters in which a user names something; longer texts describe it."""


class _Collected(NamedTuple):
    """What comes of a flow while it runs: its parts may run side by side, and add to all of it."""

    replies: list[OpenFlowReply]
    made: list[PastCall]
    notes: list[str]


def decision_situation(view: ConversationView, flow: BaseFlow, tools: Sequence[Tool]) -> str:
    """Return the situation of a model that chooses the next tool: goal, progress, and the effect of each tool."""
    steps = [f"- {one_line(step)}" for step in flow.steps]
    effects = [f"{name_shown(tool.name)} {tool.effect}" for tool in tools]
    parts = {
        "said by the user, in turn": view.render_user_messages(),
        "procedure": one_line(f"{flow.display_name}: {flow.description}"),
        "its steps": "\n".join(steps),
        "calls made so far": view.render_calls(),
        "known": view.render_facts(),
        "effects": "\n".join(effects),
    }
    if view.ledger is not None:
        # Stable parts first, for the provider's prompt cache.
        parts = {name: parts[name] for name in ("known", "procedure", "its steps", *parts)}
    return "\n".join(f"{name}:\n{text}" for name, text in parts.items() if text)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneFlow:
    """Runs one flow at a time.

    Attributes:
        selector: Chooses branches.
        executor: Calls tools.
        flows: The flows of the agent.
        titles: Their titles.
        gate: Holds flows for a yes, and keeps those that stop after an effect.
        loops: Continues flows by a model; None without one.
        decision: Chooses between tools by a model; None without one.
        keeps_failed: Whether a flow that fails is kept, for a person who takes over.
    """

    selector: FlowSelector
    executor: FlowExecutor
    flows: KnownFlows
    titles: Titles
    gate: DestructionGate
    loops: OpenFlows | None
    decision: ModelDecision | None
    keeps_failed: bool

    async def run(
        self, state: TurnState, approval: TurnApproval, *, reads_first: bool = False
    ) -> tuple[TurnState, FlowOutcome]:
        """Run the flow on top as far as it comes, and return the state after it; at least one flow has to be open.

        With `reads_first` its model reads the message before any other, and may hand it back.
        """
        top = state.agenda.flows[-1]
        collected = _Collected([], [], [])
        try:
            run = await self._run(state, top, approval, collected, reads_first=reads_first)
        except Exception as error:  # noqa: BLE001 - an author's part may raise anything; the turn continues
            run = FlowRun(flow=top.name, status="failed", problem=describe_error(error), begun=False)
        outcome = FlowOutcome(
            run,
            tuple(collected.replies),
            tuple(collected.made),
            is_cut=spent_budget() is not None,
            notes=tuple(collected.notes),
        )
        state = after_run(state, outcome, approval, self.gate, self.flows.tools, keeps_failed=self.keeps_failed)
        if self.flows.callers(top.name):
            state = with_called_flow_ended(state, run, self.flows, self.titles)
        return state, outcome

    async def _run(
        self,
        state: TurnState,
        top: OpenFlow,
        approval: TurnApproval,
        collected: _Collected,
        *,
        reads_first: bool,
    ) -> FlowRun:
        replies, made, notes = collected
        flow = self.flows.find(top.name)
        unstarted = FlowRun(flow=top.name, status="failed", begun=False)
        if flow is None:
            return replace(unstarted, problem=f"there is no flow {top.name!r} any more")
        found = returned_to(state, flow) if flow.calls else {}
        approval.found[top.name] = found
        approval.named[top.name] = _named_things(state, top, flow, self.flows)
        context = state.request.context
        if found:
            # What the caller gives wins over what a called flow returned.
            context = {**context_from(found, flow, self.flows), **context}
        unstarted = replace(unstarted, type=flow.type)
        withheld = await self._run_withheld(unstarted, top, flow, {**found, **context})
        if withheld is not None:
            return withheld

        async def go_on(part: BaseFlow, run: FlowRun) -> FlowRun:
            if self.loops is None:
                return run
            opening = "" if replies or reads_first else state.opening_of(part.name)
            has_begun = bool(opening or run.ran or top.status != "queued")
            with reading_first(part.name if reads_first else ""):
                reply = await self.loops.bound_to(context).talk(
                    self._view(state, approval, made),
                    top.name,
                    part,
                    run,
                    approval,
                    reads_first=reads_first,
                    hands_over=state.hands_over,
                    opening=opening,
                    known=None if has_begun else top.answers,
                )
            replies.append(reply)
            made.extend(reply.ran)
            return self._run_with(reply, run, top.name)

        async def choose(conditional: ConditionalFlow) -> int | None:
            return await branch_in_time(self.selector, conditional, state.request, top.request)

        called_steps: list[str] = []
        for callee in called_by(flow):
            called_steps += steps_named(callee)
        runner = FlowRunner(
            executor=self.executor,
            before=top.parts,
            choose=choose,
            go_on=go_on if self.loops is not None else None,
            fixed=context,
            approve=lambda path, later: approval.verdict_at(
                top.name, path, uncertain_tools=top.uncertain_tools, later=later
            ),
            call_id=lambda path: approval.names_at(top.name, path, "executor", top.calls_of_unknown_outcome),
            returned=approval.record_result,
            made=made.append,
            deciding=partial(self._decides, self.decision, state, approval, made) if self.decision else None,
            every=top.every,
            options=OptionLister(
                tools=self.executor.tools,
                context=context,
                approve=approval.verdict_on_look_up,
                known=dict(top.options),
                notes=notes,
            ),
            rejected=[name for name, values in top.choices.items() if not values],
            called=called_steps,
        )
        run = await runner.run(flow, {**top.answers, **context})
        wrong = {**top.wrong, **run.wrong}
        return replace(run, wrong={name: text for name, text in wrong.items() if name in run.asks})

    async def _run_withheld(
        self, unstarted: FlowRun, top: OpenFlow, flow: BaseFlow, known: Mapping[str, Any]
    ) -> FlowRun | None:
        """Return the run of a flow that does not begin, or does not go on; None for any other."""
        closed = await Availability.closed_among([flow], known)
        if closed.ids:
            return replace(unstarted, problem="; ".join(closed.notes))
        for part in walk_flow(flow):
            # An invalid chain raises before anything runs.
            chain_of(part)
        if top.refusal:
            problem = f"a check of {top.name}: cannot be done: {top.refusal}"
            return refused_run(unstarted, CannotDo(top.refusal), problem)
        if flow.manual:
            return None
        unclear = {name: values for name, values in top.choices.items() if values}
        if top.status == "queued" and unclear:
            waiting = replace(unstarted, status="waiting", asks=tuple(unclear), choices=unclear, wrong=top.wrong)
            return replace(waiting, problem=f"which is meant is not clear: {', '.join(unclear)}")
        changed = self.gate.held_by_change(top, flow)
        if changed:
            problem = "its steps have changed since it was started"
            return replace(unstarted, status="waiting", problem=problem, wrong=top.wrong, changed=changed)
        return None

    def _run_with(self, reply: OpenFlowReply, run: FlowRun, flow: str) -> FlowRun:
        """Return a run that a model continued. If the model failed, the flow keeps its state, and repeats nothing."""
        ran = (*run.ran, *reply.ran)
        run = replace(run, ran=ran, final=run.final or any(call.final for call in reply.ran))
        if self.flows.callers(flow):
            # Its callers take what its tools returned.
            run = replace(run, own={**run.own, **storable_fields(reply.found)[0]})
        if reply.error is not None:
            return replace(run, status="active", problem=str(reply.error))
        status: FlowStatus = "active"
        if reply.blocked:
            status = "blocked"
        elif reply.finished:
            status = "done"
        return replace(run, status=status, text=reply.text, problem=reply.blocked)

    def _decides(
        self,
        decision: ModelDecision,
        state: TurnState,
        approval: TurnApproval,
        made: Sequence[PastCall],
        flow: BaseFlow,
        calls: Sequence[PastCall],
    ) -> DecisionCallback:
        view = self._view(state, approval, (*made, *calls))
        only_choices: set[str] = set()
        for step in chain_of(flow):
            if isinstance(step, GuidedDecisionPoint) and len(step.candidate_tools) == 1:
                only_choices.add(step.candidate_tools[0])

        async def decide(context: dict[str, Any], candidates: list[ToolCandidate], prompt: str) -> Chosen:
            tools = [self.executor.tools[candidate.name] for candidate in candidates]
            # Its author names no other, and the user is asked before it is called.
            if len(tools) == 1 and tools[0].name in only_choices and approval.asks_user(tools[0]):
                return tools[0].name
            situation = decision_situation(view, flow, tools)
            return await decision.decide(context, candidates, prompt, situation=situation)

        return cast("DecisionCallback", SimpleNamespace(decide=decide))

    def _view(self, state: TurnState, approval: TurnApproval, made: Sequence[PastCall]) -> ConversationView:
        return ConversationView.from_turn(state, self.titles.flow, tuple(made), agreed=approval.granted is not None)


def _named_things(state: TurnState, top: OpenFlow, flow: BaseFlow, flows: KnownFlows) -> list[str]:
    """Return the user's words for what a flow is about: what only look-ups take, and is no number or address."""
    if not top.answers:
        return []
    try:
        tools = flows.tools_of(flow)
    except FlowError:
        return []
    looked_up, acted_on = set[str](), set[str]()
    for tool in tools:
        inputs = looked_up if tool.reads else acted_on
        inputs.update(map(folded_name, fields(tool.input_schema)))
    # What an action takes stands in the question itself.
    only_looked_up = looked_up - acted_on
    found: set[str] = set()
    for callee in flow.calls:
        found.update(state.called.get(callee, {}))
    named: list[str] = []
    for name, value in top.answers.items():
        if name in found or folded_name(name) not in only_looked_up:
            continue
        if isinstance(value, str) and _is_in_words(value):
            named.append(value)
    return named


def _is_in_words(value: str) -> bool:
    """Whether a value names something in words: not by a number, a code or an address."""
    if not 0 < len(value.strip()) <= _LONGEST_NAME:
        return False
    return "@" not in value and not any(map(str.isdigit, value))
