"""Which flow is under way: a stack, so that a change of subject parks one and can bring it back. Pure."""

from collections.abc import Sequence

from jazz_select.agent.conversation import OpenFlow
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.values import Reason

SHIFT_ABOVE = 0.5
_UNSURE = (Reason.SEMANTIC, Reason.FALLBACK_EMPTY, Reason.FALLBACK_INVALID, Reason.FALLBACK_ERROR, Reason.SINGLE)


def is_decisive(result: FlowSelectionResult, *, above: float, unknown: bool) -> bool:
    """Whether a selection is worth acting on: a model chose, or recall is sure enough.

    Without a model the nearest flow is taken for whatever is said, "yes" and "thanks" among it.

    Args:
        result: What was selected.
        above: How sure recall has to be, both that some flow is right and that this one is.
        unknown: What to make of a catalogue that is too small to tell.
    """
    decision = result.decision
    if not result.chosen_flows:
        return False
    if decision.reason not in _UNSURE:
        return True
    known = (decision.in_scope, decision.confidence)
    return all(unknown if each is None else each >= above for each in known)


def after_selection(
    flows: Sequence[OpenFlow], chosen: Sequence[str], *, decisive: bool, request: str
) -> tuple[OpenFlow, ...]:
    """The stack once a request has chosen these flows, the one to run now on top.

    The first of them comes first and the others wait for their turn below it. One that was parked comes back as it
    was. What was active is parked below those, unless the choice is not decisive or includes it: then it stays.
    """
    if not chosen:
        return tuple(flows)
    if flows and not decisive:
        return tuple(flows)
    active = flows[-1].name if flows else ""
    wanted = list(dict.fromkeys(chosen))
    if active in wanted:
        wanted.remove(active)
        wanted.insert(0, active)
    known = {flow.name: flow for flow in flows}
    rest = [flow for flow in flows if flow.name not in wanted]
    fresh = [known.get(name) or OpenFlow(name=name, status="queued", request=request) for name in wanted]
    return (*rest, *reversed(fresh))
