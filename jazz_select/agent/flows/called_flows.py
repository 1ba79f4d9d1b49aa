"""Flows that other flows call: each runs once, before its first caller, which gets what it found. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from jazz_select.agent.agenda import Agenda
from jazz_select.agent.conversation import OpenFlow
from jazz_select.agent.known_flows import KnownFlows
from jazz_select.agent.titles import Titles
from jazz_select.agent.turn import UNDONE, FlowRun, TurnState
from jazz_select.errors import FlowError
from jazz_select.flow.base import BaseFlow
from jazz_select.json_values import storable_fields
from jazz_select.texts import say
from jazz_select.words import folded_name


def with_flow_to_call(state: TurnState, caller: BaseFlow, flows: KnownFlows) -> Agenda | None:
    """Put a flow on top that the one there calls and that has not run in this conversation; None if there is none."""
    top = state.agenda.top
    if top is None or top.status != "queued":
        return None
    name = next((each for each in caller.calls if each not in state.called), None)
    if name is None:
        return None
    own = next((each for each in state.agenda.flows if each.name == name), None)
    takes = flows.inputs(name, state.request.context, called=state.called)
    given = {each: value for each, value in top.answers.items() if each in takes}
    own = own or OpenFlow(
        name=name, status="queued", request=top.request, turn=top.turn, answers=given, caller=top.name
    )
    rest = tuple(each for each in state.agenda.flows if each.name != name)
    return replace(state.agenda, flows=(*rest, own))


def with_results(state: TurnState, top: OpenFlow, caller: BaseFlow, titles: Titles) -> OpenFlow:
    """Return a flow with the results of the flows that it calls as answers."""
    found = {name: value for each in caller.calls for name, value in state.called.get(each, {}).items()}
    # Results of called flows override what the user says, such as the identity from a login.
    update: dict[str, Any] = {"answers": {**top.answers, **found}}
    if any(name in top.answers and top.answers[name] != value for name, value in found.items()):
        update |= {} if top.is_final or titles.effects(top.past_calls) else {"parts": {}, "pending": None}
    return top.model_copy(update=update) if found else top


def returned_to(state: TurnState, caller: BaseFlow) -> dict[str, Any]:
    """Return what tools of the flows that a flow calls returned, without what the caller's context holds.

    What a user gave a called flow is left out: only tools say who somebody is.
    """
    known = set(map(folded_name, state.request.context))
    return {
        own: value
        for each in caller.calls
        for own, value in state.called.get(each, {}).items()
        if own in state.returned.get(each, ()) and folded_name(own) not in known
    }


def context_from(found: Mapping[str, Any], caller: BaseFlow, flows: KnownFlows) -> dict[str, Any]:
    """Return those of these values that tools of a flow take from the context, as their authors declare."""
    try:
        tools = [*flows.tools_of(caller), *flows.chained(caller)]
    except FlowError:
        return {}
    keys = {folded_name(key) for tool in tools for key in cast("Mapping[str, str]", tool.from_context).values()}
    return {own: value for own, value in found.items() if folded_name(own) in keys}


def with_called_flow_ended(state: TurnState, run: FlowRun, flows: KnownFlows, titles: Titles) -> TurnState:
    """Store the results of a called flow for its callers. If it was not done, fail the callers unbegun.

    Where it failed, they are kept with what was answered for them, but not for it: a wish for one of them tries again.
    """
    callers = flows.callers(run.flow)
    if run.status == "done":
        found = storable_fields({**run.facts, **run.known})[0]
        given = {name for name in run.facts if name in state.request.context}
        kept = {name: value for name, value in found.items() if name not in given}
        returned = tuple(name for name in kept if name in run.known)
        called, names = {**state.called, run.flow: kept}, {**state.returned, run.flow: returned}
        return replace(state, called=called, returned=names)
    while run.status in UNDONE and (top := state.agenda.top) is not None and top.name in callers:
        undone = FlowRun(flow=top.name, status="failed", begun=False, problem=f"{run.flow} was not done")
        answers = {name: value for name, value in top.answers.items() if name not in run.facts}
        is_kept = run.status == "failed" and bool(answers)
        kept = (top.model_copy(update={"answers": answers}),) if is_kept else ()
        if run.refusal:  # nothing failed: what was wished beside it is named, and that is all
            text = say("not_done_either", titles=titles.flow(top.name))
            undone = replace(undone, status="blocked", text=text)
        state = replace(state, agenda=state.agenda.without_top(kept), runs=(*state.runs, undone))
        callers = flows.callers(undone.flow)
    return state
