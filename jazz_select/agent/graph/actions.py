"""The actions of a router, and the decisions that lead to them."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, cast

from jazz_select.agent.graph.guards import CONTINUE, Route
from jazz_select.agent.graph.snapshot import Snapshot
from jazz_select.agent.graph.state import FINISH, ActionDecision, NodeRecord, StateT
from jazz_select.agent.graph.topology import FAILED
from jazz_select.text import describe_error
from jazz_select.values import Tier

PRE_CHECK: Final = "pre_check"
Updates = Mapping[str, Any]
Acquire = Callable[[StateT], ActionDecision | None]
"""Decides without a model; None to let a model plan."""
Planner = Callable[[StateT], Awaitable[ActionDecision]]
"""Decides by one model call."""
Rewrite = Callable[[StateT, ActionDecision], ActionDecision]
"""Changes a model's decision. Pure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action(Generic[StateT]):
    """An action of a turn.

    Attributes:
        run: Performs it, sync or async; returns changed fields of the state, or a Route if `then` has several edges.
        then: The next node, or one per tag that `run` may return.
        planned: Whether it may be decided on; False for one that only follows another.
        pauses: Whether the turn pauses after it, such as after a question to the user.
    """

    run: Callable[[StateT], Any]
    then: str | Mapping[str, str] = PRE_CHECK
    planned: bool = True
    pauses: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Generic[StateT]):
    """A turn that has finished or paused.

    Attributes:
        status: `finished`, or `paused` if it is to be resumed.
        state: The state.
        trace: The nodes that were passed.
        node: The next node if paused.
    """

    status: Literal["finished", "paused"]
    state: StateT
    trace: tuple[NodeRecord, ...] = ()
    node: str = ""

    def snapshot(self) -> Snapshot:
        """Return a snapshot to resume from.

        Raises:
            SnapshotError: The turn has ended, or its state does not survive JSON.
        """
        return Snapshot.of(self.node, self.state, self.trace)


def decided(decision: ActionDecision, known: Collection[str]) -> Route:
    """Return the route of a decision; an unknown action ends the turn."""
    if decision.action not in known:
        reason = f"there is no action {decision.action!r:.80}"
        decision = decision.model_copy(update={"action": FINISH, "reason": reason})
    return Route(decision.action, {}, decision)


def as_decision(found: object, tier: Tier) -> ActionDecision:
    """Return an author's result as a decision of this tier."""
    if not isinstance(found, ActionDecision):
        raise TypeError(f"it gave {type(found).__name__}, not an ActionDecision")
    return found.model_copy(update={"tier": tier})


def rewritten(rewrite: Rewrite[StateT], name: str, state: StateT, decision: ActionDecision) -> ActionDecision:
    """Return the rewritten decision with a note of the change; a rewrite that fails ends the turn."""
    try:
        found = as_decision(rewrite(state, decision), decision.tier)
        if found == decision:
            return decision
    except Exception as error:  # noqa: BLE001 - any error of an author's function
        reason = f"{name} failed: {describe_error(error)}"
        return decision.model_copy(update={"action": FINISH, "reason": reason, "notes": (*decision.notes, reason)})
    # Earlier notes stay, even if the rewrite returns a new decision.
    own = tuple(each for each in found.notes if each not in decision.notes)
    note = f"{name}: {decision.action} → {found.action}"
    return found.model_copy(update={"notes": (*decision.notes, *own, note)})


def exit_of_action(name: str, given: object, ways: Mapping[str, str]) -> Route:
    """Return an action's exit; with a single edge, the action need not name its tag."""
    if given is not None and not isinstance(given, Route | Mapping):
        return ended(f"{name} answered with {type(given).__name__}, not with fields of the state")
    route = given if isinstance(given, Route) else Route("", cast("Updates | None", given) or {})
    if route.tag in ways:
        return route
    own = [tag for tag in ways if tag != FAILED]
    if len(own) == 1 and route.tag in {"", CONTINUE}:
        return Route(own[0], route.updates, route.decision)
    return ended(f"{name} answered {route.tag!r}, for which there is no edge")


def ended(reason: str, tag: str = FAILED) -> Route:
    """Return a route that ends the turn after a failure."""
    return Route(tag, {}, ActionDecision(action=FINISH, reason=reason))
