"""The agent's turn: guards, a graph, a chain of tools, and an answer in the schema that was asked for.

Names are loaded on first use, like those of `jazz_select`.
"""

from typing import TYPE_CHECKING

from jazz_select.lazy import lazily

if TYPE_CHECKING:
    from jazz_select.agent.actions import Action, Run
    from jazz_select.agent.agent import Agent
    from jazz_select.agent.chain import run_chain
    from jazz_select.agent.conversation import Conversation
    from jazz_select.agent.finalizing import finalize
    from jazz_select.agent.guards import Guard, Route, guard, iteration_cap
    from jazz_select.agent.planning import ModelPlanner
    from jazz_select.agent.responding import respond
    from jazz_select.agent.router import Router
    from jazz_select.agent.snapshot import Snapshot
    from jazz_select.agent.state import ActionDecision, TurnState, changed
    from jazz_select.agent.streaming import stream_respond
    from jazz_select.agent.sync import finalize_sync, respond_sync, run_chain_sync
    from jazz_select.agent.turn import TurnInput, TurnResult
    from jazz_select.errors import ChainError, FormatError

_HOMES = {
    "Action": "actions",
    "ActionDecision": "state",
    "Agent": "agent",
    "ChainError": ".errors",
    "Conversation": "conversation",
    "FormatError": ".errors",
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
    "finalize": "finalizing",
    "finalize_sync": "sync",
    "guard": "guards",
    "iteration_cap": "guards",
    "respond": "responding",
    "respond_sync": "sync",
    "run_chain": "chain",
    "run_chain_sync": "sync",
    "stream_respond": "streaming",
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
    "finalize_sync",
    "guard",
    "iteration_cap",
    "respond",
    "respond_sync",
    "run_chain",
    "run_chain_sync",
    "stream_respond",
]


__getattr__ = lazily(__name__, _HOMES)
