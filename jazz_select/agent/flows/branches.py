"""Choose the branch of a conditional flow for a message."""

from dataclasses import replace
from typing import Final

from jazz_select.agent.turn import TurnRequest
from jazz_select.errors import ModelError
from jazz_select.flow.composite import ConditionalFlow
from jazz_select.ports import has_capability
from jazz_select.selector.prompt import WITHIN, candidate_of
from jazz_select.selector.select import FlowSelector
from jazz_select.threads import run_within_budget, spent_budget
from jazz_select.values import Decision, Reason

_SURE: Final = 0.5
"""The lowest probability at which recall or a decision model chooses a branch, if no chat model does."""
_NONE: Final = "none-of-the-branches"


async def branch_in_time(selector: FlowSelector, flow: ConditionalFlow, asked: TurnRequest, first: str) -> int | None:
    """Return the branch of a flow as `branch_of`, unless the time of the turn is over.

    Raises:
        ModelError: The model of the choice failed.
        TimeoutError: No time is left: a branch that is chosen without its model must not be stored.
    """
    try:
        place = await run_within_budget(branch_of(selector, flow, asked, first), what="a branch")
    except ModelError:
        if spent_budget() is None:
            raise
        place = None
    spent = spent_budget()
    if spent is not None:
        spent.stopped(f"before a branch of {flow.name} was chosen")
        raise TimeoutError("no time was left to choose a branch")
    return place


async def branch_of(selector: FlowSelector, flow: ConditionalFlow, asked: TurnRequest, first: str) -> int | None:
    """Return the index of the branch for a message, or of `otherwise` if none fits, or None without `otherwise`.

    The condition of a single branch is checked, too. The choice of a decision model that is sure is final.

    Raises:
        ModelError: The chat model failed, so that nobody chose.
    """
    links = [(when, flow.resolve(part)) for when, part in flow.links()]
    branches = {place: (when, part) for place, (when, part) in enumerate(links) if when != ""}
    otherwise = next((place for place, (when, _) in enumerate(links) if when == ""), None)
    places = {part.id: place for place, (_, part) in branches.items()}
    episodes = [*asked.conversation.episodes, f"The user said: {first}"]
    if selector.has_model:
        parts = [replace(candidate_of(part), condition=when or part.condition) for when, part in branches.values()]
        offered = [each.as_metadata() for each in parts]
        if len(offered) == 1:  # a selector asks no model about one candidate, so its negation is offered as well
            offered.append({"flow_id": _NONE, "flow_name": "none of them", "condition": "No other condition is met."})
        decision = (await selector.select(asked.message, offered, episodes, context=asked.context)).decision
        if decision.error:  # recall would guess, and the branch would be kept
            raise ModelError(decision.model or "of the branches", decision.error, retryable=True)
        if (sure := _sure_branch(decision)) is not None:
            return places.get(sure, otherwise)
        reason, named = _chosen_anyway(decision)
        if reason is Reason.LLM:
            return places.get(named[0], otherwise)
        if reason in {Reason.NONE, Reason.FALLBACK_EMPTY} or _NONE in decision.parsed_ids:
            return otherwise
    within = WITHIN if has_capability(selector, "situation") else None
    found = await selector.select(
        asked.message, None, episodes, context=asked.context, only=list(places), situation=within
    )
    decision = found.decision
    if (sure := _sure_branch(decision)) is not None:
        return places.get(sure, otherwise)
    likely = decision.confidence is not None and decision.confidence >= _SURE and decision.candidates
    return places.get(decision.candidates[0].flow_id, otherwise) if likely else otherwise


def _sure_branch(decision: Decision) -> str | None:
    """Return the id of the branch that a decision model is sure of, "" for none of them, or None if it is unsure."""
    said = next((each for each in decision.stages if each.name == "decider" and each.calls), None)
    if said is None or decision.reason not in {Reason.DECIDER, Reason.NONE} or (said.confidence or 0.0) < _SURE:
        return None
    return next(iter(decision.chosen_ids), "")


def _chosen_anyway(decision: Decision) -> tuple[Reason, tuple[str, ...]]:
    """Return the chat model's reason and chosen ids, even if the selector wants to ask the user.

    Users are never asked about the branches of a flow, because they do not know them.
    """
    if decision.question is None:
        return decision.reason, decision.chosen_ids
    came = {"decided": Reason.LLM, "none": Reason.NONE}
    reasons = [came[each.outcome] for each in decision.stages if each.name == "chat" and each.outcome in came]
    return (reasons or [decision.reason])[0], decision.parsed_ids
