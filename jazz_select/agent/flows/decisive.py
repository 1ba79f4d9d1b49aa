"""How sure a selection is that nobody made who has read the message."""

from typing import Final

from jazz_select.flow.base import BaseFlow
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.values import Decision, Reason

_NEAR: Final = 0.36
"""How near recall has to find a request to the only flow that there is."""


def is_sure(result: FlowSelectionResult, *, above: float) -> bool:
    """Whether recall, or a decision model, is sure enough of the first flow that was selected.

    Without a chat model the nearest flow is taken for whatever is said, "yes" and "thanks" among it. Where a catalogue
    is too small for recall to know how sure it is, only what a decision model is sure of is sure, and a request that
    lies near the only flow there is.

    Args:
        result: What was selected, a flow at least.
        above: How sure recall has to be, both that some flow is right and that this one is; 0 for the nearest flow.
    """
    decision, first = result.decision, result.chosen_flows[0]
    known = (_confidence_in(decision, first), decision.in_scope)
    if _was_sure(decision) or None not in known:
        return all(each >= above for each in known if each is not None)
    near = decision.candidates[0].scores.get("dense") if len(decision.candidates) == 1 else None
    return above <= 0 or (above <= 1 and near is not None and near >= _NEAR)


def _was_sure(decision: Decision) -> bool:
    """Whether the stage that chose was sure enough, and did not only take what is likeliest."""
    if decision.reason is Reason.DECIDER:
        return any(each.name == "decider" and each.outcome == "decided" for each in decision.stages)
    return decision.reason is Reason.CONFIDENT


def _confidence_in(decision: Decision, flow: BaseFlow) -> float | None:
    """P(this flow is right), as recall knows it; a decision model that is sure knows better."""
    if decision.reason is Reason.DECIDER and _was_sure(decision):
        return None
    return next((each.confidence for each in decision.candidates if each.flow_id == flow.id), None)
