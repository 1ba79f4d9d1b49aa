"""The state of a turn through a router, and its decisions: frozen values that survive JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from jazz_select.values import Tier

FINISH = "finish"
"""The action that ends a turn."""


class ActionDecision(BaseModel):
    """What to do next, and why.

    Attributes:
        action: The name of an action, or `finish`.
        arguments: Arguments of the action.
        reason: Why, in words.
        tier: Deterministic unless a model decided.
        notes: Changes by rewrites, in order.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    action: str
    arguments: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    reason: str = ""
    tier: Tier = Tier.DETERMINISTIC
    notes: tuple[str, ...] = ()


class GuardInput(BaseModel):
    """Base of what guards check: frozen, without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class TurnState(GuardInput):
    """Base of a turn's state. Authors add fields, all of which must survive JSON.

    Attributes:
        iterations: How often the guards were entered.
        route: The tag by which the last node was left; set by the router, so that no action has to.
        decision: The last decision.
    """

    iterations: int = Field(default=0, ge=0)
    route: str = ""
    decision: ActionDecision | None = None


GuardInputT = TypeVar("GuardInputT", bound=GuardInput)
StateT = TypeVar("StateT", bound=TurnState)


@dataclass(frozen=True, kw_only=True)
class NodeRecord:
    """One node that was passed.

    Attributes:
        node: Its name.
        iteration: Its round.
        route: The tag by which it was left.
        action: The last action decided on, if any.
        duration_s: Its duration in seconds; ignored by equality.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    node: str
    iteration: int
    route: str
    action: str = ""
    duration_s: float = field(default=0.0, compare=False)


def changed(state: GuardInput, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the wanted values that differ from the state's."""
    own = vars(state)
    return {name: value for name, value in wanted.items() if name not in own or own[name] != value}


def updated(state: GuardInputT, updates: Mapping[str, Any]) -> GuardInputT:
    """Return the state with these fields, validated."""
    strange = updates.keys() - type(state).model_fields.keys()
    if strange:
        raise LookupError(f"{type(state).__name__} has no field {', '.join(sorted(map(str, strange)))}")
    return type(state).model_validate({**vars(state), **updates}) if updates else state
