"""Which branch of a conditional flow a message is for."""

from typing import Any, Final

from jazz_select.agent.flows.which import chosen_anyway
from jazz_select.agent.turn import TurnRequest
from jazz_select.flow.base import BaseFlow
from jazz_select.flow.composite import ConditionalFlow
from jazz_select.selector.prompt import WITHIN
from jazz_select.selector.select import FlowSelector
from jazz_select.values import Decision, Reason

_SURE: Final = 0.5
"""How sure recall has to be of a branch, alone or with a decision model, where no chat model chooses."""
_NONE: Final = "none-of-the-branches"


async def branch_of(selector: FlowSelector, flow: ConditionalFlow, asked: TurnRequest, first: str) -> int | None:
    """The place of the branch for a message; that of `otherwise` where none fits; None where there is none.

    A sole branch is no certain one: its text has to hold, too. What a decision model makes likely stands.

    Args:
        selector: Finds it.
        flow: The one that has the branches.
        asked: What the user says now.
        first: What the user said when the flow was chosen.
    """
    links = [(when, flow.resolve(part)) for when, part in flow.links()]
    branches = {place: (when, part) for place, (when, part) in enumerate(links) if when != ""}
    otherwise = next((place for place, (when, _) in enumerate(links) if when == ""), None)
    places = {part.id: place for place, (_, part) in branches.items()}
    episodes = [*asked.conversation.episodes, f"The user said: {first}"]
    if selector.has_model:
        offered = [_offer(part, when or part.condition) for when, part in branches.values()]
        if len(offered) == 1:  # a selector asks nobody about one candidate: what speaks against it is offered, too
            offered.append({"flow_id": _NONE, "flow_name": "none of them", "condition": "No other condition is met."})
        decision = (await selector.select(asked.message, offered, episodes, context=asked.context)).decision
        if (sure := _decided(decision)) is not None:
            return places.get(sure, otherwise)
        reason, named = chosen_anyway(decision)
        if reason is Reason.LLM:
            return places.get(named[0], otherwise)
        if reason in {Reason.NONE, Reason.FALLBACK_EMPTY} or _NONE in decision.parsed_ids:
            return otherwise
    within = WITHIN if selector.takes_situation else None
    found = await selector.select(
        asked.message, None, episodes, context=asked.context, only=list(places), situation=within
    )
    decision = found.decision
    if (sure := _decided(decision)) is not None:
        return places.get(sure, otherwise)
    likely = decision.confidence is not None and decision.confidence >= _SURE and decision.candidates
    return places.get(decision.candidates[0].flow_id, otherwise) if likely else otherwise


def _decided(decision: Decision) -> str | None:
    """The id of the branch that is likely by what a decision model said, empty for none of them; else None."""
    said = next((each for each in decision.stages if each.name == "decider" and each.calls), None)
    if said is None or decision.reason not in {Reason.DECIDER, Reason.NONE} or (said.confidence or 0.0) < _SURE:
        return None
    return next(iter(decision.chosen_ids), "")


def _offer(flow: BaseFlow, condition: str) -> dict[str, Any]:
    return {
        "flow_id": flow.id,
        "flow_name": flow.name,
        "flow_type": flow.type,
        "description": flow.description,
        "condition": condition,
        "desired_effects": list(flow.desired_effects),
    }
