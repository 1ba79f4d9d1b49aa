"""The agent's turn: guards, a graph, a chain of tools, and an answer in the schema that was asked for.

Names are loaded on first use, like those of `jazz_select`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jazz_select.agent.actions import Action, Run
    from jazz_select.agent.guards import Guard, Route, guard, iteration_cap
    from jazz_select.agent.router import Router
    from jazz_select.agent.snapshot import Snapshot
    from jazz_select.agent.state import ActionDecision, TurnState, changed

_HOMES = {
    "Action": "actions",
    "ActionDecision": "state",
    "Guard": "guards",
    "Route": "guards",
    "Router": "router",
    "Run": "actions",
    "Snapshot": "snapshot",
    "TurnState": "state",
    "changed": "state",
    "guard": "guards",
    "iteration_cap": "guards",
}

__all__ = [
    "Action",
    "ActionDecision",
    "Guard",
    "Route",
    "Router",
    "Run",
    "Snapshot",
    "TurnState",
    "changed",
    "guard",
    "iteration_cap",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
