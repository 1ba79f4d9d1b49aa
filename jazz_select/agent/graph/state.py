"""What a turn through a router knows and decides: frozen values that go to JSON and back."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from jazz_select.values import Tier

FINISH = "finish"
"""The action that ends a turn."""


class ActionDecision(BaseModel):
    """What is to be done next, and why.

    Attributes:
        action: The name of an action, or `finish`.
        arguments: What the action is given.
        reason: Why, in words.
        tier: How free the decision was: deterministic, unless a model made it.
        notes: What rewrites made of it, in their order.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    action: str
    arguments: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    reason: str = ""
    tier: Tier = Tier.DETERMINISTIC
    notes: tuple[str, ...] = ()


class GuardInput(BaseModel):
    """The base of what guards look at: frozen, and without a field that nobody knows."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class TurnState(GuardInput):
    """The base of what a turn knows. Authors add fields; all of them have to go to JSON and back.

    Attributes:
        iterations: How often the guards were entered.
        route: The tag by which the last node was left. A field of its own: no action has to know of it.
        decision: The last decision.
    """

    iterations: int = Field(default=0, ge=0)
    route: str = ""
    decision: ActionDecision | None = None


GuardInputT = TypeVar("GuardInputT", bound=GuardInput)
StateT = TypeVar("StateT", bound=TurnState)


class NodeRecord(BaseModel):
    """One node that was passed.

    Attributes:
        node: Its name.
        iteration: In which round.
        route: The tag by which it was left.
        action: The action that was decided on by then, if any.
        duration_s: Seconds it took; no part of what makes two records equal.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    node: str
    iteration: int
    route: str
    action: str = ""
    duration_s: float = 0.0

    def __eq__(self, other: object) -> bool:
        """The same node, left the same way."""
        return isinstance(other, NodeRecord) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[str, int, str, str]:
        return (self.node, self.iteration, self.route, self.action)


def changed(state: GuardInput, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Of the wanted values those that differ from what the state has: what is unchanged is absent."""
    own = vars(state)
    return {name: value for name, value in wanted.items() if name not in own or own[name] != value}


def updated(state: GuardInputT, updates: Mapping[str, Any]) -> GuardInputT:
    """The state with these fields, validated."""
    strange = updates.keys() - type(state).model_fields.keys()
    if strange:
        raise LookupError(f"{type(state).__name__} has no field {', '.join(sorted(map(str, strange)))}")
    return type(state).model_validate({**vars(state), **updates}) if updates else state
