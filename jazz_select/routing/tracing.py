"""What a trace says of steps and plans."""

from jazz_select.routing.outcomes import PlanResult
from jazz_select.routing.steps import StepRecord
from jazz_select.telemetry import Span


def note_step(span: Span, record: StepRecord) -> None:
    """Among what, what was chosen, how freely, and what came of it."""
    span.note(
        {
            "step": record.step,
            "tool": record.tool,
            "tier": record.tier.value,
            "reason": record.reason,
            "status": record.status,
            "candidates": {each.name: round(each.compatibility_score, 4) for each in record.candidates},
            "attempts": record.attempts,
        }
    )
    span.error = record.error


def note_plan(span: Span, result: PlanResult) -> None:
    """The tools in planned order, and what became of them."""
    span.note(
        {
            "steps": {step.id: step.tool or step.requested for step in result.steps},
            "status": {step.id: step.status for step in result.steps},
            "problems": len(result.problems),
        }
    )
