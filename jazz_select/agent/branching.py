"""Which branch of a conditional flow is run: the one whose text holds, as a model reads it, else as recall is sure."""

from jazz_select.agent.turn import Work
from jazz_select.flow.composite import ConditionalFlow
from jazz_select.selector.select import FlowSelector
from jazz_select.values import Reason

_SURE = 0.5


async def branch_of(selector: FlowSelector, flow: ConditionalFlow, work: Work) -> int | None:
    """The place of the branch for a message; that of `otherwise` where none fits; None where there is none."""
    links = [(when, flow.resolve(part)) for when, part in flow.links()]
    branches = {place: (when, part) for place, (when, part) in enumerate(links) if when != ""}
    otherwise = next((place for place, (when, _) in enumerate(links) if when == ""), None)
    if len(branches) == 1 and otherwise is None:
        return next(iter(branches))
    offered = [
        {
            "flow_id": part.id,
            "flow_name": part.name,
            "flow_type": part.type,
            "description": part.description,
            "condition": when or part.condition,
            "desired_effects": list(part.desired_effects),
        }
        for when, part in branches.values()
    ]
    places = {part.id: place for place, (_, part) in branches.items()}
    episodes = work.conversation.episodes
    if selector.has_model and len(offered) > 1:
        chosen = await selector.select(work.message, offered, episodes, context=work.context)
        if chosen.decision.reason is Reason.LLM:
            return places.get(chosen.chosen_flows[0].id, otherwise)
        if chosen.decision.reason in {Reason.NONE, Reason.FALLBACK_EMPTY}:
            return otherwise
    found = (await selector.select(work.message, None, episodes, context=work.context, only=list(places))).decision
    sure = found.confidence is not None and found.confidence >= _SURE and found.candidates
    return places.get(found.candidates[0].flow_id, otherwise) if sure else otherwise
