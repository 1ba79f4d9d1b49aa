"""The state of a turn after a flow has run as far as it came. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from jazz_select.agent.answer import left_open
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
        return [wish for each in self.replies for wish in each.wishes]


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
    if run.status == "failed" and outcome.is_cut and not any(flow.uncertain_tools for flow in kept):
        status = "waiting" if run.begun else top.status
        agenda = agenda.with_top(progress.model_copy(update={"status": status}))
    elif has_ended:
        if run.status == "failed" and not kept and run.begun and keeps_failed:
            kept = (progress.model_copy(update={"status": "failed"}),)  # a person takes over what was answered
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
    choices = {name: tuple(each) for name, each in storable_fields(run.choices)[0].items()}
    rejected: dict[str, tuple[Any, ...]] = {name: () for name, each in top.choices.items() if not each}
    options = {**top.options, **stored_options(run.options)} if run.options else top.options
    progress = top.model_copy(
        update={
            "asks": run.asks,
            "answers": answers,
            "wrong": {**top.wrong, **run.wrong},
            "changed": run.changed,
            "choices": {**rejected, **choices},
            "options": options,
        }
    )
    if progress.pending is not None and any(map(progress.pending.is_same, approval.made_calls)):
        progress = progress.model_copy(update={"pending": None})
    return progress.model_copy(update={"parts": progress_of(run, top.parts)}) if run.begun else progress


def _still_waits(
    state: TurnState,
    top: OpenFlow,
    replies: Sequence[OpenFlowReply],
    approval: TurnApproval,
    tools: Mapping[str, Tool],
) -> bool:
    """Whether a call of the flow on top still waits for a yes, and only look-ups were called since."""
    waiting = state.request.conversation.pending
    if waiting is None or waiting.flow != top.name or approval.granted is not None:
        return False
    entries = [each for reply in replies for each in reply.chain.entries]
    called = [tools.get(each.tool) for each in entries if isinstance(each, ToolRequest)]
    return bool(replies) and all(each is not None and each.reads for each in called)


def with_dropped(notes: tuple[str, ...], chains: Iterable[Chain]) -> tuple[str, ...]:
    """Append what was dropped of the arguments of a model."""
    return tuple(dict.fromkeys((*notes, *(note for chain in chains for note in chain.dropped))))


def with_handover(state: TurnState, flows: KnownFlows) -> TurnState:
    """Return the state as handed over to a person if the author's flow for that was done, and no call waits."""
    done = (flows.find(run.flow) for run in state.runs if run.status == "done")
    is_over = any(flow is not None and flow.handover for flow in done)
    return replace(state, status="handed_over") if is_over and state.pending is None else state


def with_wishes_handed_over(state: TurnState, wishes: Sequence[str], *, is_cut: bool) -> TurnState:
    """Hand over what models said is for other flows. What are not the user's own words is told as left open.

    All of it is left open if the turn's time limit cut the work short.
    A call that waits for a yes is parked with its flow, so that the question is asked behind what comes of the wishes.
    """
    message = normalized(state.request.message)
    own = [wish for wish in dict.fromkeys(wishes) if normalized(wish) and normalized(wish) in message]
    if is_cut:
        own = []
    left = [left_open(wish) for wish in dict.fromkeys(wishes) if wish.strip() and wish not in own]
    state = replace(state, text=join_paragraphs(state.text, *left))
    if not own:
        return state
    return replace(state.with_call_parked(), resumed="", handed_back=". ".join(own))


def with_message_handed_back(state: TurnState, wish: str, *, is_begun: bool) -> TurnState:
    """Hand back the message of which the first model that read it says that a wish in it is for another flow.

    The run of a flow that did nothing is no run. If the wish is not in the user's words, the whole message is meant.
    """
    message = state.request.message
    is_quoted = normalized(wish) and normalized(wish) in normalized(message)
    runs = state.runs if is_begun else state.runs[:-1]
    return replace(state, runs=runs, handed_back=wish if is_quoted else message)
