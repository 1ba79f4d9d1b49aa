# The public names, each with its home: they stand here and nowhere else.
from jazz_select.agent.agent import Agent as Agent
from jazz_select.agent.chain.responder import respond as respond
from jazz_select.agent.conversation import Conversation as Conversation
from jazz_select.agent.graph.guards import Route as Route
from jazz_select.agent.graph.guards import guard as guard
from jazz_select.agent.turn import TurnResult as TurnResult
from jazz_select.build import sync_registry as sync_registry
from jazz_select.errors import JazzSelectError as JazzSelectError
from jazz_select.flow.base import BaseFlow as BaseFlow
from jazz_select.flow.base import Flow as Flow
from jazz_select.flow.base import FlowRegistry as FlowRegistry
from jazz_select.flow.composite import ConditionalFlow as ConditionalFlow
from jazz_select.flow.composite import ParallelFlow as ParallelFlow
from jazz_select.flow.composite import SequentialFlow as SequentialFlow
from jazz_select.flow.flow_loading import load_flows as load_flows
from jazz_select.flow.inputs import Input as Input
from jazz_select.flow.inputs import ToolChoices as ToolChoices
from jazz_select.memory.procedural import ProceduralMemory as ProceduralMemory
from jazz_select.routing.tools.context_inputs import FromContext as FromContext
from jazz_select.routing.tools.functions import tool_from_function as tool_from_function
from jazz_select.routing.tools.skill_tools import load_skills as load_skills
from jazz_select.routing.tools.tool import Tool as Tool
from jazz_select.routing.tools.tool_loading import load_tools as load_tools
from jazz_select.selector.candidates_stage import SelectRequest as SelectRequest
from jazz_select.selector.policy import Policy as Policy
from jazz_select.selector.result import FlowSelectionResult as FlowSelectionResult
from jazz_select.selector.select import FlowSelector as FlowSelector
from jazz_select.selector.selector_options import RECOMMENDED as RECOMMENDED

__all__: list[str]
__version__: str
