"""Choose the branch of a conditional flow for a message."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

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


async def branch_in_time(selector: FlowSelector, flow: ConditionalFlow, request: TurnRequest, first: str) -> int | None:
    """Return the branch of a flow as `branch_of`, unless the time of the turn is over.

    Raises:
        ModelError: The model of the choice failed.
        TimeoutError: No time is left: a branch that is chosen without its model must not be stored.
    """
    try:
        place = await run_within_budget(branch_of(selector, flow, request, first), what="a branch")
    except ModelError:
        if spent_budget() is None:
            raise
        place = None
    spent = spent_budget()
    if spent is not None:
        spent.stopped(f"before a branch of {flow.name} was chosen")
        raise TimeoutError("no time was left to choose a branch")
    return place


async def branch_of(selector: FlowSelector, flow: ConditionalFlow, request: TurnRequest, first: str) -> int | None:
    """Return the index of the branch for a message, or of `otherwise` if none fits, or None without `otherwise`.

    The condition of a single branch is checked, too. The choice of a decision model that is sure is final.

    Raises:
        ModelError: The chat model failed, so that nobody chose.
    """
    branches = _Branches.of_flow(flow)
    episodes = [*request.conversation.episodes, f"The user said: {first}"]
    if selector.has_model:
        offered = list(branches.offered)
        if len(offered) == 1:
            # A selector asks no model about one candidate, so its negation is offered as well.
            offered.append({"flow_id": _NONE, "flow_name": "none of them", "condition": "No other condition is met."})
        found = await selector.select(request.message, offered, episodes, context=request.context)
        decision = found.decision
        if decision.error:
            # Recall would guess, and the branch would be kept.
            raise ModelError(decision.model or "of the branches", decision.error, retryable=True)
        sure = _sure_branch(decision)
        if sure is not None:
            return branches.place_of(sure)
        reason, chosen_ids = _chosen_anyway(decision)
        if reason is Reason.LLM:
            return branches.place_of(chosen_ids[0])
        if reason in {Reason.NONE, Reason.FALLBACK_EMPTY} or _NONE in decision.parsed_ids:
            return branches.otherwise
    within = WITHIN if has_capability(selector, "situation") else None
    found = await selector.select(
        request.message, None, episodes, context=request.context, only=list(branches.places), situation=within
    )
    decision = found.decision
    sure = _sure_branch(decision)
    if sure is not None:
        return branches.place_of(sure)
    is_likely = decision.confidence is not None and decision.confidence >= _SURE
    if not is_likely or not decision.candidates:
        return branches.otherwise
    return branches.place_of(decision.candidates[0].flow_id)


@dataclass(frozen=True, slots=True)
class _Branches:
    """The branches of a flow.

    Attributes:
        places: The index of each branch with a condition, by the id of its part.
        offered: These branches as a model is shown them.
        otherwise: The index of the branch without a condition.
    """

    places: Mapping[str, int]
    offered: Sequence[Mapping[str, Any]]
    otherwise: int | None = None

    @classmethod
    def of_flow(cls, flow: ConditionalFlow) -> "_Branches":
        places: dict[str, int] = {}
        offered: list[Mapping[str, Any]] = []
        otherwise: list[int] = []
        for place, (when, link) in enumerate(flow.links()):
            if when == "":
                otherwise.append(place)
                continue
            part = flow.resolve(link)
            places[part.id] = place
            candidate = replace(candidate_of(part), condition=when or part.condition)
            offered.append(candidate.as_metadata())
        return cls(places, offered, otherwise[0] if otherwise else None)

    def place_of(self, part_id: str) -> int | None:
        """Return the index of the branch with this part, or of `otherwise`."""
        return self.places.get(part_id, self.otherwise)


def _sure_branch(decision: Decision) -> str | None:
    """Return the id of the branch that a decision model is sure of, "" for none of them, or None if it is unsure."""
    if decision.reason not in {Reason.DECIDER, Reason.NONE}:
        return None
    for stage in decision.stages:
        if stage.name == "decider" and stage.calls:
            is_sure = (stage.confidence or 0.0) >= _SURE
            return next(iter(decision.chosen_ids), "") if is_sure else None
    return None


def _chosen_anyway(decision: Decision) -> tuple[Reason, tuple[str, ...]]:
    """Return the chat model's reason and chosen ids, even if the selector wants to ask the user.

    Users are never asked about the branches of a flow, because they do not know them.
    """
    if decision.question is None:
        return decision.reason, decision.chosen_ids
    reasons = {"decided": Reason.LLM, "none": Reason.NONE}
    for stage in decision.stages:
        if stage.name == "chat" and stage.outcome in reasons:
            return reasons[stage.outcome], decision.parsed_ids
    return decision.reason, decision.parsed_ids
