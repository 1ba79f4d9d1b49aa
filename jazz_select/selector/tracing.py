"""What a trace says of a selection."""

from collections.abc import Mapping
from typing import Any

from jazz_select.selector.result import FlowSelectionResult
from jazz_select.telemetry import Span


def note_selection(span: Span, request: str, result: FlowSelectionResult) -> None:
    """Among what, what was decided, why, and what it took."""
    decision = result.decision
    known: dict[str, Any] = {
        "tier": decision.tier.value,
        "reason": decision.reason.value,
        "chosen": result.names,
        "candidates": {each.flow_name or each.flow_id: round(each.score, 4) for each in decision.candidates},
        "confidence": decision.confidence,
        "in_scope": decision.in_scope,
        "unresolved": len(result.unresolved_ids) or None,
        "attempts": decision.attempts or None,
    }
    if decision.usage is not None:
        known |= {"input_tokens": decision.usage.input_tokens, "output_tokens": decision.usage.output_tokens}
    span.note({name: value for name, value in known.items() if value not in (None, "")})
    span.hold({"request": request, "raw_reply": decision.raw_reply, "notes": list(decision.notes)})
    if decision.error:
        span.hold({"problem": decision.error})


def note_recall(span: Span, found: list[Mapping[str, Any]]) -> None:
    """What came back, best first, with its fused scores."""
    span.note({"candidates": {str(each.get("flow_name")): round(each.get("score") or 0.0, 4) for each in found}})
