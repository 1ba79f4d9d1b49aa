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
    called = next((flow for flow in state.agenda.flows if flow.name == name), None)
    if called is None:
        # What was said for the caller may be meant for what it calls.
        takes = flows.inputs(name, state.request.context, called=state.called)
        answers = {each: value for each, value in top.answers.items() if each in takes}
        called = OpenFlow(
            name=name, status="queued", request=top.request, turn=top.turn, answers=answers, caller=top.name
        )
    others = [flow for flow in state.agenda.flows if flow.name != name]
    return replace(state.agenda, flows=(*others, called))


def with_results(state: TurnState, top: OpenFlow, caller: BaseFlow, titles: Titles) -> OpenFlow:
    """Return a flow with the results of the flows that it calls as answers."""
    found: dict[str, Any] = {}
    for callee in caller.calls:
        found.update(state.called.get(callee, {}))
    if not found:
        return top
    # Results of called flows override what the user says, such as the identity from a login.
    changes: dict[str, Any] = {"answers": {**top.answers, **found}}
    if top.is_for_another(found) and not top.is_final and not titles.effects(top.past_calls):
        # Its steps have used another value, and changed nothing.
        changes |= {"parts": {}, "pending": None}
    return top.model_copy(update=changes)


def returned_to(state: TurnState, caller: BaseFlow) -> dict[str, Any]:
    """Return what tools of the flows that a flow calls returned, without what the caller's context holds.

    What a user gave a called flow is left out: only tools say who somebody is.
    """
    known = set(map(folded_name, state.request.context))
    found: dict[str, Any] = {}
    for callee in caller.calls:
        returned = state.returned.get(callee, ())
        for name, value in state.called.get(callee, {}).items():
            if name in returned and folded_name(name) not in known:
                found[name] = value
    return found


def context_from(found: Mapping[str, Any], caller: BaseFlow, flows: KnownFlows) -> dict[str, Any]:
    """Return those of these values that tools of a flow take from the context, as their authors declare."""
    try:
        tools = [*flows.tools_of(caller), *flows.chained(caller)]
    except FlowError:
        return {}
    keys: set[str] = set()
    for tool in tools:
        keys.update(map(folded_name, cast("Mapping[str, str]", tool.from_context).values()))
    return {name: value for name, value in found.items() if folded_name(name) in keys}


def with_called_flow_ended(state: TurnState, run: FlowRun, flows: KnownFlows, titles: Titles) -> TurnState:
    """Store the results of a called flow for its callers. If it was not done, fail the callers unbegun.

    Where it failed, they are kept with what was answered for them, but not for it: a wish for one of them tries again.
    """
    callers = flows.callers(run.flow)
    if run.status == "done":
        found = storable_fields({**run.facts, **run.known})[0]
        # The caller's context is for one turn, and is not kept.
        from_caller = {name for name in run.facts if name in state.request.context}
        results = {name: value for name, value in found.items() if name not in from_caller}
        returned = tuple(name for name in results if name in run.known)
        return replace(
            state,
            called={**state.called, run.flow: results},
            returned={**state.returned, run.flow: returned},
        )
    if run.status not in UNDONE:
        return state
    # The callers lie directly below what they called, and their own callers below them.
    while (top := state.agenda.top) is not None and top.name in callers:
        undone = FlowRun(flow=top.name, status="failed", begun=False, problem=f"{run.flow} was not done")
        if run.refusal:
            # Nothing failed: what was wished beside it is named, and that is all.
            text = say("not_done_either", titles=titles.flow(top.name))
            undone = replace(undone, status="blocked", text=text)
        answers = {name: value for name, value in top.answers.items() if name not in run.facts}
        kept: tuple[OpenFlow, ...] = ()
        if run.status == "failed" and answers:
            kept = (top.model_copy(update={"answers": answers}),)
        state = replace(state, agenda=state.agenda.without_top(kept), runs=(*state.runs, undone))
        callers = flows.callers(undone.flow)
    return state
