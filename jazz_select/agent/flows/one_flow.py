"""Run one flow of a turn as far as it comes, with the model that continues it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, cast

from jazz_select.agent.conversation import OpenFlow, PastCall
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
    if view.ledger is not None:  # stable parts first, for the provider's prompt cache
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
        self, state: TurnState, approval: TurnApproval, *, hears_first: bool = False
    ) -> tuple[TurnState, FlowOutcome]:
        """Run the flow on top as far as it comes, and return the state after it; at least one flow has to be open.

        With `hears_first` its model reads the message before any other, and may hand it back.
        """
        top = state.agenda.flows[-1]
        came = _Collected([], [], [])
        try:
            run = await self._run(state, top, approval, came, hears_first=hears_first)
        except Exception as error:  # noqa: BLE001 - an author's part may raise anything; the turn continues
            run = FlowRun(flow=top.name, status="failed", problem=describe_error(error), begun=False)
        outcome = FlowOutcome(run, tuple(came.replies), tuple(came.made), spent_budget() is not None, tuple(came.notes))
        state = after_run(state, outcome, approval, self.gate, self.flows.tools, keeps_failed=self.keeps_failed)
        if self.flows.callers(top.name):
            state = with_called_flow_ended(state, run, self.flows, self.titles)
        return state, outcome

    async def _run(
        self,
        state: TurnState,
        top: OpenFlow,
        approval: TurnApproval,
        came: _Collected,
        *,
        hears_first: bool,
    ) -> FlowRun:
        replies, made, notes = came
        flow = self.flows.find(top.name)
        begun = FlowRun(flow=top.name, status="failed", begun=False)
        if flow is None:
            return replace(begun, problem=f"there is no flow {top.name!r} any more")
        found = returned_to(state, flow) if flow.calls else {}
        approval.found[top.name] = found
        approval.named[top.name] = _named_things(state, top, flow, self.flows)
        context = state.request.context
        if found:
            context = {**context_from(found, flow, self.flows), **context}
        begun = replace(begun, type=flow.type)
        if (ended := await self._run_unbegun(begun, top, flow, {**found, **context})) is not None:
            return ended

        async def go_on(part: BaseFlow, run: FlowRun) -> FlowRun:
            if self.loops is None:
                return run
            opening = "" if replies or hears_first else state.opening_of(part.name)
            has_begun = bool(opening or run.ran or top.status != "queued")
            with reading_first(part.name if hears_first else ""):
                reply = await self.loops.bound_to(context).talk(
                    self._view(state, approval, made),
                    top.name,
                    part,
                    run,
                    approval,
                    hears_first=hears_first,
                    hands_over=state.hands_over,
                    opening=opening,
                    known=None if has_begun else top.answers,
                )
            replies.append(reply)
            made.extend(reply.ran)
            return self._run_with(reply, run, top.name)

        async def choose(conditional: ConditionalFlow) -> int | None:
            return await branch_in_time(self.selector, conditional, state.request, top.request)

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
            rejected=[name for name, each in top.choices.items() if not each],
            called=[name for each in called_by(flow) for name in steps_named(each)],
        )
        run = await runner.run(flow, {**top.answers, **context})
        wrong = {**top.wrong, **run.wrong}
        return replace(run, wrong={name: text for name, text in wrong.items() if name in run.asks})

    async def _run_unbegun(
        self, begun: FlowRun, top: OpenFlow, flow: BaseFlow, known: Mapping[str, Any]
    ) -> FlowRun | None:
        """Return the run of a flow that does not begin, or does not go on; None for any other."""
        closed = await Availability.closed_among([flow], known)
        if closed.ids:
            return replace(begun, problem="; ".join(closed.notes))
        _ = [chain_of(part) for part in walk_flow(flow)]  # an invalid one raises before anything runs
        if top.refusal:
            return refused_run(begun, CannotDo(top.refusal), f"a check of {top.name}: cannot be done: {top.refusal}")
        is_new = top.status == "queued" and not flow.manual
        unclear = {name: each for name, each in top.choices.items() if each}
        if is_new and unclear:
            which = f"which is meant is not clear: {', '.join(unclear)}"
            return replace(
                begun, status="waiting", asks=tuple(unclear), choices=unclear, wrong=top.wrong, problem=which
            )
        if not flow.manual and (changed := self.gate.held_by_change(top, flow)):
            why = "its steps have changed since it was begun"
            return replace(begun, status="waiting", problem=why, wrong=top.wrong, changed=changed)
        return None

    def _run_with(self, reply: OpenFlowReply, run: FlowRun, flow: str) -> FlowRun:
        """Return a run that a model continued. If the model failed, the flow keeps its state, and repeats nothing."""
        run = replace(run, final=run.final or any(each.final for each in reply.ran))
        if self.flows.callers(flow):
            run = replace(run, own={**run.own, **storable_fields(reply.found)[0]})
        ran = (*run.ran, *reply.ran)
        if reply.error is not None:
            return replace(run, status="active", ran=ran, problem=str(reply.error))
        status = "blocked" if reply.blocked else "done" if reply.finished else "active"
        return replace(run, status=status, ran=ran, text=reply.text, problem=reply.blocked)

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
        points = [step for step in chain_of(flow) if isinstance(step, GuidedDecisionPoint)]
        alone = {step.candidate_tools[0] for step in points if len(step.candidate_tools) == 1}

        async def decide(context: dict[str, Any], candidates: list[ToolCandidate], prompt: str) -> Chosen:
            only = candidates[0].name if len(candidates) == 1 else ""
            # Its author names no other, and the user is asked before it is called.
            if only in alone and approval.asks_user(self.executor.tools[only]):
                return only
            situation = decision_situation(view, flow, [self.executor.tools[each.name] for each in candidates])
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
        (looked_up if tool.reads else acted_on).update(map(folded_name, fields(tool.input_schema)))
    found = {name for each in flow.calls for name in state.called.get(each, {})}
    own = {name: value for name, value in top.answers.items() if name not in found}
    named = [value for name, value in own.items() if folded_name(name) in looked_up - acted_on]
    return [value for value in named if isinstance(value, str) and _is_in_words(value)]


def _is_in_words(value: str) -> bool:
    """Whether a value names something in words: not by a number, a code or an address."""
    return 0 < len(value.strip()) <= _LONGEST_NAME and "@" not in value and not any(map(str.isdigit, value))
