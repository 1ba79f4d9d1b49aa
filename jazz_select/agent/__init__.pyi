# The public names, each with its home: they stand here and nowhere else.
from jazz_select.agent.agent import Agent as Agent
from jazz_select.agent.agent_options import Approval as Approval
from jazz_select.agent.agent_options import CallOptions as CallOptions
from jazz_select.agent.agent_options import PromptOptions as PromptOptions
from jazz_select.agent.agent_options import TraceOptions as TraceOptions
from jazz_select.agent.chain.finalizer import finalize as finalize
from jazz_select.agent.chain.loop import run_chain as run_chain
from jazz_select.agent.chain.responder import finalize_sync as finalize_sync
from jazz_select.agent.chain.responder import respond as respond
from jazz_select.agent.chain.responder import respond_sync as respond_sync
from jazz_select.agent.chain.responder import run_chain_sync as run_chain_sync
from jazz_select.agent.chain.responder import stream_respond as stream_respond
from jazz_select.agent.conversation import Conversation as Conversation
from jazz_select.agent.graph.guards import ActionDecision as ActionDecision
from jazz_select.agent.graph.guards import Guard as Guard
from jazz_select.agent.graph.guards import Route as Route
from jazz_select.agent.graph.guards import TurnState as TurnState
from jazz_select.agent.graph.guards import changed as changed
from jazz_select.agent.graph.guards import guard as guard
from jazz_select.agent.graph.guards import iteration_cap as iteration_cap
from jazz_select.agent.graph.planner import ModelPlanner as ModelPlanner
from jazz_select.agent.graph.router import Action as Action
from jazz_select.agent.graph.router import Router as Router
from jazz_select.agent.graph.router import Run as Run
from jazz_select.agent.graph.snapshot import Snapshot as Snapshot
from jazz_select.agent.turn import TurnInput as TurnInput
from jazz_select.agent.turn import TurnResult as TurnResult
from jazz_select.errors import ChainError as ChainError
from jazz_select.errors import FormatError as FormatError

__all__: list[str]
