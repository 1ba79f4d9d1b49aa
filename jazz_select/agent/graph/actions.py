"""What a router can do, and what becomes of decisions on the way to it."""

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
"""A decision that needs no model; None where a model has to plan."""
Planner = Callable[[StateT], Awaitable[ActionDecision]]
"""A decision by a model, in one call."""
Rewrite = Callable[[StateT, ActionDecision], ActionDecision]
"""What becomes of a model's decision. Pure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action(Generic[StateT]):
    """Something that is done.

    Attributes:
        run: Does it, sync or async; the fields of the state that change, or a Route where `then` has several ways.
        then: The node that comes after, or one for each tag that `run` may answer with.
        planned: Whether it may be decided on; False for one that only comes after another.
        pauses: Whether the turn is handed back after it, to go on with what comes then: when somebody was asked.
    """

    run: Callable[[StateT], Any]
    then: str | Mapping[str, str] = PRE_CHECK
    planned: bool = True
    pauses: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Generic[StateT]):
    """What became of a turn, or how far it came.

    Attributes:
        status: `finished`, or `paused` where it is to be resumed.
        state: What it knows.
        trace: The nodes that were passed.
        node: Where paused: the node that comes next.
    """

    status: Literal["finished", "paused"]
    state: StateT
    trace: tuple[NodeRecord, ...] = ()
    node: str = ""

    def snapshot(self) -> Snapshot:
        """To go on with, elsewhere or later.

        Raises:
            SnapshotError: The turn has ended, or its state does not go to JSON and back.
        """
        return Snapshot.of(self.node, self.state, self.trace)


def decided(decision: ActionDecision, known: Collection[str]) -> Route:
    """Where a decision leads; one for what cannot be done ends the turn."""
    if decision.action not in known:
        reason = f"there is no action {decision.action!r:.80}"
        decision = decision.model_copy(update={"action": FINISH, "reason": reason})
    return Route(decision.action, {}, decision)


def a_decision(found: object, tier: Tier) -> ActionDecision:
    """What an author's function gave, as a decision of this tier."""
    if not isinstance(found, ActionDecision):
        raise TypeError(f"it gave {type(found).__name__}, not an ActionDecision")
    return found.model_copy(update={"tier": tier})


def rewritten(rewrite: Rewrite[StateT], name: str, state: StateT, decision: ActionDecision) -> ActionDecision:
    """What a rewrite makes of a decision, noted on it; one that fails ends the turn."""
    try:
        found = a_decision(rewrite(state, decision), decision.tier)
        if found == decision:
            return decision
    except Exception as error:  # noqa: BLE001 - whatever an author's function fails with
        reason = f"{name} failed: {describe_error(error)}"
        return decision.model_copy(update={"action": FINISH, "reason": reason, "notes": (*decision.notes, reason)})
    # What was noted before stays, even where a rewrite makes a decision of its own.
    own = tuple(each for each in found.notes if each not in decision.notes)
    note = f"{name}: {decision.action} → {found.action}"
    return found.model_copy(update={"notes": (*decision.notes, *own, note)})


def exit_of_action(name: str, given: object, ways: Mapping[str, str]) -> Route:
    """Where an action leads with what it answered; where it has one way, it need not name it."""
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
    """The end of a turn, since something failed."""
    return Route(tag, {}, ActionDecision(action=FINISH, reason=reason))
