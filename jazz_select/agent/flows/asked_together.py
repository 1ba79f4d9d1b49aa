"""Ask in one question about the same call for each object that was wished for."""

from dataclasses import replace

from jazz_select.agent.flows.one_flow import OneFlow
from jazz_select.agent.gate import TurnApproval
from jazz_select.agent.turn import TurnState


async def ask_together(state: TurnState, one: OneFlow, approval: TurnApproval) -> TurnState:
    """Ask about the calls of the other wishes for the flow on top together with its own.

    These wishes run as far as to their calls. Those that the question lists stay queued directly below the flow on top,
    so that they come next after the yes. What another one came to is kept, and nothing is made twice; its own question
    comes when it is its turn.
    """
    top = state.agenda.top
    if top is None or state.pending is None or state.pending.door != "executor" or not state.runs:
        return state
    for queued in reversed(state.agenda.flows[:-1]):
        is_other = queued.name != top.name or queued.status != "queued" or queued.every
        if is_other or queued.choices or queued.wrong:
            continue
        alone = replace(state, agenda=state.agenda.with_on_top(queued), pending=None, runs=())
        with approval.separate_question():
            tried, outcome = await one.run(alone, approval)
        state = replace(state, calls=tried.calls, notes=tried.notes)
        reached = next((each for each in tried.agenda.flows if each.key == queued.key), None)
        if reached is None:
            if outcome.run.status != "failed" or one.titles.effects(outcome.made):
                state = _with_ended(state, tried)
            continue  # what failed without an effect stays queued
        asked = tried.pending if outcome.run.status == "waiting" else None
        is_listed = asked is not None and approval.ask_besides(asked)
        reached = reached.model_copy(update={"status": "queued", "pending": asked if is_listed else None})
        agenda = state.agenda.with_queued(reached, approval.pending)
        state = replace(state, agenda=agenda, pending=approval.pending)
    return state


def _with_ended(state: TurnState, tried: TurnState) -> TurnState:
    """Return the state with a flow that ended while the one on top waits: its run is told before that one's question.

    The question of the one on top is still the last thing said, and its call still waits.
    """
    return replace(
        tried,
        status=state.status,
        pending=state.pending,
        chain=state.chain,
        runs=(*state.runs[:-1], *tried.runs, state.runs[-1]),
    )
