"""Tools: what may follow what, which was meant, and running them.

Names are loaded on first use, like those of `jazz_select`.
"""

from typing import TYPE_CHECKING

from jazz_select.lazy import lazily

if TYPE_CHECKING:
    from jazz_select.routing.analyze import ChainAnalyzer
    from jazz_select.routing.asking import ToolAsker
    from jazz_select.routing.assignability import assignable
    from jazz_select.routing.execute import CHOOSE, FlowExecutor
    from jazz_select.routing.filling import fill_from_outputs
    from jazz_select.routing.model_decision import ModelDecision
    from jazz_select.routing.plan import Plan
    from jazz_select.routing.points import DecisionCallback, GuidedDecisionPoint, ToolCandidate
    from jazz_select.routing.recalled import RecalledTools, ToolRecall, sync_tools, tool_card
    from jazz_select.routing.resolution import resolve
    from jazz_select.routing.run import run_plan
    from jazz_select.routing.steps import StepRecord, promotions
    from jazz_select.routing.tool import Tool, Toolbox

_HOMES = {
    "CHOOSE": "execute",
    "ChainAnalyzer": "analyze",
    "DecisionCallback": "points",
    "FlowExecutor": "execute",
    "GuidedDecisionPoint": "points",
    "ModelDecision": "model_decision",
    "Plan": "plan",
    "RecalledTools": "recalled",
    "StepRecord": "steps",
    "Tool": "tool",
    "ToolAsker": "asking",
    "ToolCandidate": "points",
    "ToolRecall": "recalled",
    "Toolbox": "tool",
    "assignable": "assignability",
    "fill_from_outputs": "filling",
    "promotions": "steps",
    "resolve": "resolution",
    "run_plan": "run",
    "sync_tools": "recalled",
    "tool_card": "recalled",
}

__all__ = [
    "CHOOSE",
    "ChainAnalyzer",
    "DecisionCallback",
    "FlowExecutor",
    "GuidedDecisionPoint",
    "ModelDecision",
    "Plan",
    "RecalledTools",
    "StepRecord",
    "Tool",
    "ToolAsker",
    "ToolCandidate",
    "ToolRecall",
    "Toolbox",
    "assignable",
    "fill_from_outputs",
    "promotions",
    "resolve",
    "run_plan",
    "sync_tools",
    "tool_card",
]


__getattr__ = lazily(__name__, _HOMES)
