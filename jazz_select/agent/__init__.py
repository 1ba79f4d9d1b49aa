"""The agent's turn: guards, a graph, a chain of tools, and an answer in the schema that was asked for.

Names are loaded on first use, like those of `jazz_select`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jazz_select.agent.actions import Action, Run
    from jazz_select.agent.agent import Agent
    from jazz_select.agent.chain import run_chain
    from jazz_select.agent.conversation import Conversation
    from jazz_select.agent.finalize import finalize
    from jazz_select.agent.guards import Guard, Route, guard, iteration_cap
    from jazz_select.agent.planning import ModelPlanner
    from jazz_select.agent.respond import respond
    from jazz_select.agent.router import Router
    from jazz_select.agent.snapshot import Snapshot
    from jazz_select.agent.state import ActionDecision, TurnState, changed
    from jazz_select.agent.turn import TurnInput, TurnResult
    from jazz_select.errors import ChainError, FormatError

_HOMES = {
    "Action": "actions",
    "ActionDecision": "state",
    "Agent": "agent",
    "ChainError": "jazz_select.errors",
    "Conversation": "conversation",
    "FormatError": "jazz_select.errors",
    "Guard": "guards",
    "ModelPlanner": "planning",
    "Route": "guards",
    "Router": "router",
    "Run": "actions",
    "Snapshot": "snapshot",
    "TurnInput": "turn",
    "TurnResult": "turn",
    "TurnState": "state",
    "changed": "state",
    "finalize": "finalize",
    "guard": "guards",
    "iteration_cap": "guards",
    "respond": "respond",
    "run_chain": "chain",
}

__all__ = [
    "Action",
    "ActionDecision",
    "Agent",
    "ChainError",
    "Conversation",
    "FormatError",
    "Guard",
    "ModelPlanner",
    "Route",
    "Router",
    "Run",
    "Snapshot",
    "TurnInput",
    "TurnResult",
    "TurnState",
    "changed",
    "finalize",
    "guard",
    "iteration_cap",
    "respond",
    "run_chain",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    home = _HOMES[name]
    value = getattr(import_module(home if home.startswith("jazz_select") else f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
