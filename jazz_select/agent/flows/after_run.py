"""The state of a turn after a flow has run as far as it came. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from jazz_select.agent.answer import left_open_text
from jazz_select.agent.chain.transcript import Chain, ToolRequest
from jazz_select.agent.conversation import OpenFlow, PastCall
from jazz_select.agent.flows.flow_runner import progress_of
from jazz_select.agent.flows.input_options import stored_options
from jazz_select.agent.flows.open_flows import OpenFlowReply
from jazz_select.agent.gate import DestructionGate, TurnApproval
from jazz_select.agent.known_flows import KnownFlows
from jazz_select.agent.reading.grounding import normalized
from jazz_select.agent.turn import UNDONE, FlowRun, TurnState
from jazz_select.json_values import storable_fields
from jazz_select.routing.tools.tool import Tool
from jazz_select.text import join_paragraphs


class FlowOutcome(NamedTuple):
    """What one flow came to in a turn.

    Attributes:
        run: Its run.
        replies: The replies of models at work on it and its parts, in order of completion.
        made: Its calls.
        is_cut: Whether the time of the turn was over when it stopped.
        notes: What could not be looked up for a question, and why.
    """

    run: FlowRun
    replies: tuple[OpenFlowReply, ...] = ()
    made: tuple[PastCall, ...] = ()
    is_cut: bool = False
    notes: tuple[str, ...] = ()

    @property
    def wishes(self) -> list[str]:
        """What its models hand over to other flows, in the user's words."""
        wishes: list[str] = []
        for reply in self.replies:
            wishes += reply.wishes
        return wishes


def after_run(
    state: TurnState,
    outcome: FlowOutcome,
    approval: TurnApproval,
    gate: DestructionGate,
    tools: Mapping[str, Tool],
    *,
    keeps_failed: bool,
) -> TurnState:
    """Return the state after the run of the flow on top.

    A flow that was cut by the turn's time limit waits to resume later. With `keeps_failed` a flow that failed is kept
    for the person who takes over.
    """
    run, replies, top = outcome.run, outcome.replies, state.agenda.top
    if top is None:
        return state
    progress = _progress_after(top, run, approval)
    # Another try of the same wish ends here, so what an earlier one left behind is no longer kept.
    failed_before = [flow for flow in state.agenda.failed if flow.key != top.key]
    agenda = replace(state.agenda, failed=tuple(failed_before))
    kept = gate.flow_to_keep(progress, run, approval) if run.status in UNDONE else ()
    has_ended = run.status == "done" or run.status in UNDONE
    # Nothing failed but the time; where an effect is uncertain, it counts as failed all the same.
    if run.status == "failed" and outcome.is_cut and not any(flow.uncertain_tools for flow in kept):
        status = "waiting" if run.begun else top.status
        agenda = agenda.with_top(progress.model_copy(update={"status": status}))
    elif has_ended:
        if run.status == "failed" and not kept and run.begun and keeps_failed:
            # A person takes over what was answered.
            kept = (progress.model_copy(update={"status": "failed"}),)
        agenda = agenda.without_top(kept)
    else:
        status = "waiting" if run.status == "waiting" else "active"
        agenda = agenda.with_top(progress.model_copy(update={"status": status}))
    pending = None if has_ended else approval.pending
    if pending is None and run.status == "active" and _still_waits(state, top, replies, approval, tools):
        pending = state.request.conversation.pending
    chains = [reply.chain for reply in replies]
    errors = [reply.error for reply in replies if reply.error]
    return replace(
        state,
        agenda=agenda,
        status=run.status if pending is None else "confirming",
        pending=pending,
        runs=(*state.runs, run),
        chain=chains[-1] if chains else state.chain,
        incomplete=state.incomplete or any(chain.incomplete for chain in chains),
        calls=(*state.calls, *outcome.made),
        notes=with_dropped((*state.notes, *outcome.notes), chains),
        error=errors[-1] if errors else state.error,
    )


def _progress_after(top: OpenFlow, run: FlowRun, approval: TurnApproval) -> OpenFlow:
    """Return a flow with the progress of its run."""
    answers = {name: value for name, value in top.answers.items() if name not in run.wrong}
    # What the user rejected once is not proposed again.
    choices: dict[str, tuple[Any, ...]] = {name: () for name, values in top.choices.items() if not values}
    for name, values in storable_fields(run.choices)[0].items():
        choices[name] = tuple(values)
    changes: dict[str, Any] = {
        "asks": run.asks,
        "answers": answers,
        "wrong": {**top.wrong, **run.wrong},
        "changed": run.changed,
        "choices": choices,
        "options": {**top.options, **stored_options(run.options)},
    }
    if top.pending is not None and any(map(top.pending.is_same, approval.made_calls)):
        changes["pending"] = None
    if run.begun:
        changes["parts"] = progress_of(run, top.parts)
    return top.model_copy(update=changes)


def _still_waits(
    state: TurnState,
    top: OpenFlow,
    replies: Sequence[OpenFlowReply],
    approval: TurnApproval,
    tools: Mapping[str, Tool],
) -> bool:
    """Whether a call of the flow on top still waits for a yes, and only look-ups were called since."""
    waiting = state.request.conversation.pending
    if waiting is None or waiting.flow != top.name or approval.granted is not None or not replies:
        return False
    for reply in replies:
        for entry in reply.chain.entries:
            if not isinstance(entry, ToolRequest):
                continue
            tool = tools.get(entry.tool)
            if tool is None or not tool.reads:
                return False
    return True


def with_dropped(notes: tuple[str, ...], chains: Iterable[Chain]) -> tuple[str, ...]:
    """Append what was dropped of the arguments of a model."""
    all_notes = list(notes)
    for chain in chains:
        all_notes += chain.dropped
    return tuple(dict.fromkeys(all_notes))


def with_handover(state: TurnState, flows: KnownFlows) -> TurnState:
    """Return the state as handed over to a person if the author's flow for that was done, and no call waits.

    A manual flow for that is done as soon as it is reached: its steps are the person's.
    """
    if state.pending is not None:
        return state
    for run in state.runs:
        flow = flows.find(run.flow)
        if flow is None or not flow.handover:
            continue
        if run.status == "done" or (run.status == "blocked" and flow.manual):
            return replace(state, status="handed_over")
    return state


def with_wishes_handed_over(state: TurnState, wishes: Sequence[str], *, is_cut: bool) -> TurnState:
    """Hand over what models said is for other flows. What are not the user's own words is told as left open.

    All of it is left open if the turn's time limit cut the work short.
    A call that waits for a yes is parked with its flow, so that the question is asked behind what comes of the wishes.
    """
    message = normalized(state.request.message)
    own: list[str] = []
    for wish in dict.fromkeys(wishes):
        words = normalized(wish)
        # A model may not make the user wish for what the message does not say.
        if words and words in message and not is_cut:
            own.append(wish)
        elif wish.strip():
            state = replace(state, text=join_paragraphs(state.text, left_open_text(wish)))
    if not own:
        return state
    return replace(state.with_call_parked(), resumed="", handed_back=". ".join(own))


def with_message_handed_back(state: TurnState, wish: str, *, is_begun: bool) -> TurnState:
    """Hand back the message of which the first model that read it says that a wish in it is for another flow.

    The run of a flow that did nothing is no run. If the wish is not in the user's words, the whole message is meant.
    """
    message = state.request.message
    words = normalized(wish)
    is_quoted = bool(words) and words in normalized(message)
    runs = state.runs if is_begun else state.runs[:-1]
    return replace(state, runs=runs, handed_back=wish if is_quoted else message)
