"""What a router can do, and what becomes of decisions on the way to it."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal

from jazz_select.agent.guards import Route
from jazz_select.agent.snapshot import Snapshot
from jazz_select.agent.state import FINISH, ActionDecision, NodeRecord, StateT
from jazz_select.agent.topology import FAILED
from jazz_select.telemetry import described

PRE_CHECK: Final = "pre_check"
Updates = Mapping[str, Any]
Acquire = Callable[[StateT], ActionDecision | None]
"""A decision that needs no model; None where a model has to plan."""
Plan = Callable[[StateT], Awaitable[ActionDecision]]
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
        """To go on with, elsewhere or later."""
        return Snapshot(node=self.node, state=self.state.model_dump(mode="json"), trace=self.trace)


def decided(decision: ActionDecision, known: Collection[str]) -> Route:
    """Where a decision leads; one for what cannot be done ends the turn."""
    if decision.action not in known:
        reason = f"there is no action {decision.action!r:.80}"
        decision = decision.model_copy(update={"action": FINISH, "reason": reason})
    return Route(decision.action, {}, decision)


def rewritten(rewrite: Rewrite[StateT], name: str, state: StateT, decision: ActionDecision) -> ActionDecision:
    """What a rewrite makes of a decision, noted on it; one that fails ends the turn."""
    try:
        found = rewrite(state, decision)
    except Exception as error:  # noqa: BLE001 - whatever an author's function fails with
        reason = f"{name} failed: {described(error)}"
        return decision.model_copy(update={"action": FINISH, "reason": reason, "notes": (*decision.notes, reason)})
    if found == decision:
        return decision
    note = f"{name}: {decision.action} → {found.action}"
    return found.model_copy(update={"notes": (*found.notes, note)})


def ended(reason: str) -> Route:
    """The end of a turn, since something failed."""
    return Route(FAILED, {}, ActionDecision(action=FINISH, reason=reason))
