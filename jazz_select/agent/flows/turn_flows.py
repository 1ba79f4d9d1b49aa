"""Run the flows of a turn in order, until one waits or all are done."""

from dataclasses import dataclass, replace
from typing import Final

from jazz_select.agent.chain.transcript import FlowChosen
from jazz_select.agent.conversation import OpenFlow
from jazz_select.agent.flows.after_run import with_handover, with_message_handed_back, with_wishes_handed_over
from jazz_select.agent.flows.asked_together import ask_together
from jazz_select.agent.flows.called_flows import with_flow_to_call, with_results
from jazz_select.agent.flows.free_answer import FreeAnswer
from jazz_select.agent.flows.one_flow import OneFlow
from jazz_select.agent.flows.ready_flows import run_ready
from jazz_select.agent.gate import AgentApproval, TurnApproval
from jazz_select.agent.turn import TurnState
from jazz_select.agent.turn_events import tell_turn
from jazz_select.threads import spent_budget

_PAUSED: Final = frozenset({"waiting", "active"})
"""Statuses of a flow that goes on after the user's next message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFlows:
    """Runs the flows of turns.

    Attributes:
        one: Runs one flow.
        answers: Answers what no flow fits.
        approval: The agent's approval.
    """

    one: OneFlow
    answers: FreeAnswer
    approval: AgentApproval

    async def run(self, state: TurnState) -> TurnState:
        """Run the flow on top, then the flows queued below it, and answer what was said beside a yes."""
        request, granted = state.request, state.granted
        approval = TurnApproval(self.approval, request.key, granted, request.conversation.pending)
        state = await self._run(state.with_status_before(), approval, reads_first=state.way.is_first)
        state = with_handover(state, self.one.flows)
        if state.rest and (granted is None or granted.door == "executor"):
            state = await self.answers.answer_rest(state, approval)
        return replace(state, notes=(*state.notes, *approval.notes))

    async def run_handover(self, state: TurnState, name: str) -> TurnState:
        """Run the flow by which the author hands a turn over to a person, before all that is open."""
        request = state.request
        begun = OpenFlow(name=name, status="queued", request=request.message, turn=request.conversation.turns)
        left = tuple(each for each in state.agenda.flows if each.name != name)
        agenda = replace(state.agenda, flows=(*left, begun))
        approval = TurnApproval(self.approval, request.key, None, None)
        state = await self._run(replace(state, agenda=agenda, hands_over=False), approval)
        return with_handover(state, self.one.flows)

    async def _run(self, state: TurnState, approval: TurnApproval, *, reads_first: bool = False) -> TurnState:
        wishes: list[str] = []
        while (top := state.agenda.top) is not None:
            flow = self.one.flows.find(top.name)
            if flow is not None and flow.calls:
                if (called := with_flow_to_call(state, flow, self.one.flows)) is not None:
                    state = replace(state, agenda=called)
                    continue
                top = with_results(state, top, flow, self.one.titles)
                state = replace(state, agenda=state.agenda.with_top(top))
            await tell_turn(FlowChosen(flow=top.name))
            is_first = reads_first and not state.runs
            opened = len(state.agenda.flows)
            state, outcome = await self.one.run(state, approval, reads_first=is_first)
            spent, following = spent_budget(), state.agenda.top
            if outcome.wishes and is_first and state.pending is None:
                is_begun = any(each.ran for each in outcome.replies)
                return with_message_handed_back(state, outcome.wishes[-1], is_begun=is_begun)
            wishes += outcome.wishes
            status = outcome.run.status
            if status in {"done", "blocked"} and following is not None and following.status == "queued":
                if spent is None:
                    continue
                spent.stopped(f"before {following.name} was started")
                return replace(state, status="failed")
            is_over = len(state.agenda.flows) < opened
            if status in _PAUSED and not is_over and spent is None:
                state = await ask_together(state, self.one, approval)
                state, more = await run_ready(state, self.one, self.approval, approval)
                wishes += more
            state = replace(state, resumed=following.name if is_over and following is not None else "")
            break
        return with_wishes_handed_over(state, wishes, is_cut=spent_budget() is not None)
