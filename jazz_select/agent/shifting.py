"""Which flow is under way: a stack, so that a change of subject parks one and can bring it back. Pure."""

from collections.abc import Sequence

from jazz_select.agent.conversation import OpenFlow, bounded
from jazz_select.agent.slots import folded
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.values import Reason

SHIFT_ABOVE = 0.5
_UNSURE = (Reason.SEMANTIC, Reason.FALLBACK_EMPTY, Reason.FALLBACK_INVALID, Reason.FALLBACK_ERROR, Reason.SINGLE)


def is_decisive(result: FlowSelectionResult, message: str, *, above: float) -> bool:
    """Whether to act on a selection: a model chose, recall is sure enough, or a flow was named.

    Without a model the nearest flow is taken for whatever is said, "yes" and "thanks" among it. Where a catalogue is
    too small for recall to know how sure it is, only a flow's name, alias or example, word for word, is sure.

    Args:
        result: What was selected.
        message: What the user said.
        above: How sure recall has to be, both that some flow is right and that this one is; 0 for the nearest flow.
    """
    decision = result.decision
    if not result.chosen_flows:
        return False
    if decision.reason not in _UNSURE or above <= 0:
        return True
    first = result.chosen_flows[0]
    if folded(message) in {folded(text.replace("_", " ")) for text in (first.name, *first.aliases, *first.examples)}:
        return True
    return all(each is not None and each >= above for each in (decision.in_scope, decision.confidence))


def after_selection(
    flows: Sequence[OpenFlow], failed: Sequence[OpenFlow], chosen: Sequence[str], *, request: str, turn: int
) -> tuple[OpenFlow, ...]:
    """The stack once a request has decisively chosen these flows, the one to run now on top.

    The first of them comes first and the others wait for their turn below it. One that was parked comes back as it was,
    and so does one that failed. What was active is parked below those, unless it is among them: then it stays.
    """
    if not chosen:
        return tuple(flows)
    active = flows[-1].name if flows else ""
    wanted = list(dict.fromkeys(chosen))
    if active in wanted:
        wanted.remove(active)
        wanted.insert(0, active)
    known = {flow.name: flow for flow in (*failed, *flows)}
    rest = [flow for flow in flows if flow.name not in wanted]
    fresh = [
        known.get(name) or OpenFlow(name=name, status="queued", request=bounded(request), turn=turn) for name in wanted
    ]
    return (*rest, *reversed(fresh))
