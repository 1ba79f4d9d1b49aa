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
    if record.error:
        # A step that fell back or was handed back has a text, too, and nobody's exception.
        code = record.reason if record.status == "ok" else record.status
        span.error = code if record.cause is None else type(record.cause).__name__
        span.hold({"error": record.error})


def note_plan(span: Span, result: PlanResult) -> None:
    """The tools in planned order, and what became of them."""
    span.note(
        {
            "steps": {step.id: step.tool for step in result.steps},
            "status": {step.id: step.status for step in result.steps},
            "problems": len(result.problems),
        }
    )
    if unknown := {step.id: step.requested for step in result.steps if not step.tool}:
        span.hold({"unknown": unknown})
