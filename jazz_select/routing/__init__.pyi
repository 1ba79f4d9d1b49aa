# The public names, each with its home: they stand here and nowhere else.
from jazz_select.routing.approval import Allow as Allow
from jazz_select.routing.approval import Ask as Ask
from jazz_select.routing.approval import Deny as Deny
from jazz_select.routing.claims import SqliteClaims as SqliteClaims
from jazz_select.routing.decisions.analyzer import ChainAnalyzer as ChainAnalyzer
from jazz_select.routing.decisions.model_decision import ModelDecision as ModelDecision
from jazz_select.routing.decisions.points import DecisionCallback as DecisionCallback
from jazz_select.routing.decisions.points import GuidedDecisionPoint as GuidedDecisionPoint
from jazz_select.routing.decisions.points import ToolCandidate as ToolCandidate
from jazz_select.routing.executor import FlowExecutor as FlowExecutor
from jazz_select.routing.names.resolution import resolve as resolve
from jazz_select.routing.plans.plan import Plan as Plan
from jazz_select.routing.plans.plan import PlanStep as PlanStep
from jazz_select.routing.plans.runner import fill_from_outputs as fill_from_outputs
from jazz_select.routing.plans.runner import run_plan as run_plan
from jazz_select.routing.plans.tool_asker import ToolAsker as ToolAsker
from jazz_select.routing.records import StepRecord as StepRecord
from jazz_select.routing.records import ToolCall as ToolCall
from jazz_select.routing.records import promotions as promotions
from jazz_select.routing.run_context import CHOOSE as CHOOSE
from jazz_select.routing.schemas.assignability import assignable as assignable
from jazz_select.routing.tools.functions import tool_from_function as tool_from_function
from jazz_select.routing.tools.loading import load_tools as load_tools
from jazz_select.routing.tools.retrieval import RecalledTools as RecalledTools
from jazz_select.routing.tools.retrieval import ToolRecall as ToolRecall
from jazz_select.routing.tools.retrieval import sync_tools as sync_tools
from jazz_select.routing.tools.retrieval import tool_card as tool_card
from jazz_select.routing.tools.sources import tools_from_mcp as tools_from_mcp
from jazz_select.routing.tools.sources import tools_from_openai as tools_from_openai
from jazz_select.routing.tools.sources import tools_from_session as tools_from_session
from jazz_select.routing.tools.tool import Tool as Tool
from jazz_select.routing.tools.tool import Toolbox as Toolbox

__all__: list[str]
