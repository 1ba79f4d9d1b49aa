"""Run the queued flows that wait for nobody, while the one on top waits for the user."""

from collections.abc import Sequence
from dataclasses import replace

from jazz_select.agent.chain.transcript import FlowChosen
from jazz_select.agent.conversation import OpenFlow
from jazz_select.agent.flows.one_flow import OneFlow
from jazz_select.agent.gate import AgentApproval, TurnApproval
from jazz_select.agent.known_flows import walk_flow
from jazz_select.agent.turn import TurnState
from jazz_select.agent.turn_events import tell_turn
from jazz_select.errors import FlowError
from jazz_select.flow.base import BaseFlow, chain_of
from jazz_select.routing.tools.tool import Tool


async def run_ready(
    state: TurnState, one: OneFlow, policy: AgentApproval, approval: TurnApproval
) -> tuple[TurnState, list[str]]:
    """Run the queued flows that need nothing from the user, while the one on top waits for an answer.

    Their runs come before that of the one on top, so that its question is the last thing said. Return the wishes that
    their models hand over, too.
    """
    paused, top, wishes = state, state.agenda.top, list[str]()
    if top is None or not state.runs:
        return state, wishes
    for queued in reversed(state.agenda.flows[:-1]):
        if not _is_ready(state, queued, top, one, policy):
            continue
        # Its model sees the flow that waits among the other wishes.
        parked = state.agenda.with_top(top.model_copy(update={"pending": paused.pending}))
        alone = replace(state, agenda=parked.with_on_top(queued), status="done", pending=None, runs=state.runs[:-1])
        await tell_turn(FlowChosen(flow=queued.name))
        with approval.separate_question():
            done, outcome = await one.run(alone, approval)
        has_failed = outcome.run.status == "failed" or any(each.error for each in outcome.replies)
        if has_failed and not outcome.made:
            continue  # nothing came of it, so it stays queued
        wishes += outcome.wishes
        state = _with_paused_on_top(done, paused, top, queued)
    return state, wishes


def _is_ready(state: TurnState, queued: OpenFlow, top: OpenFlow, one: OneFlow, policy: AgentApproval) -> bool:
    """Whether a queued flow needs no yes, asks for no input, and does not depend on the one on top."""
    flow, above = one.flows.find(queued.name), one.flows.find(top.name)
    if flow is None or above is None or queued.status != "queued" or queued.choices or queued.wrong:
        return False
    if flow.manual or flow.calls or flow.name in above.calls or flow.name == above.name:
        return False
    tools = _tools_alone(flow, queued, one, is_told=bool(state.runs[-1].text))
    if not tools:
        return False
    known = {**queued.answers, **state.request.context}
    is_held = any(tool.destructive or policy.asks_user(tool) for tool in tools)
    return not is_held and not one.flows.lacks(flow, known, optional=False)


def _tools_alone(flow: BaseFlow, queued: OpenFlow, one: OneFlow, *, is_told: bool) -> Sequence[Tool]:
    """Return the tools that a flow may run beside the one on top: by its chain alone, or by a model; none if it waits.

    No model runs it if one runs the flow on top, too (`is_told`): its text may say that the other wishes come later.
    """
    is_free = one.loops is not None and not flow.composite and not is_told
    if is_free and (queued.every or not chain_of(flow)):
        return one.flows.tools_of(flow)
    if queued.every or not all(one.flows.is_chained(part) for part in walk_flow(flow)):
        return ()
    try:
        return one.flows.chained(flow)
    except FlowError:
        return ()


def _with_paused_on_top(done: TurnState, paused: TurnState, top: OpenFlow, queued: OpenFlow) -> TurnState:
    """Return the state in which the flow on top waits, with what has been done of a queued one below it.

    The run of the flow on top stays the last one, so that its question is the last thing said.
    """
    flows = tuple(each for each in done.agenda.flows if each.key != top.key)
    if done.pending is not None and flows and flows[-1].key == queued.key:
        flows = (*flows[:-1], flows[-1].model_copy(update={"pending": done.pending}))
    return replace(
        done,
        agenda=replace(done.agenda, flows=(*flows, top)),
        status=paused.status,
        pending=paused.pending,
        runs=(*done.runs, paused.runs[-1]),
        chain=paused.chain or done.chain,
    )
