"""A turn of the agent, told event by event, with its trace. The conversation travels signed: none is kept here."""

from collections.abc import Mapping
from typing import Any, Final, cast

from jazz_select.agent.chain.transcript import Event, Finished
from jazz_select.agent.events import event_data
from jazz_select.agent.turn import TurnResult
from jazz_select.json_values import Secret, plain
from jazz_select.text import as_text, describe_error

_MOST_SPANS: Final = 400
_LONGEST: Final = 20_000
"""Characters of a text of a span that are sent; the browser need not hold more."""


def told(event: Event, secret: Secret) -> Mapping[str, Any]:
    """What the panel is told of an event: what every client is, but of the last one as its pages show it."""
    return _result(event.answer, secret) if isinstance(event, Finished) else event_data(event)


def _result(result: TurnResult, secret: Secret) -> dict[str, Any]:
    conversation = result.conversation
    pending, active = conversation.pending, conversation.active
    selection = result.selection
    return {
        "status": result.status,
        "text": as_text(result.text),
        "reason": as_text(result.reason),
        "notes": list(map(as_text, result.notes)),
        "error": "" if result.error is None else describe_error(result.error),
        "incomplete": result.incomplete,
        "prompt": as_text(result.prompt),
        "runs": [{"flow": run.flow, "status": run.status, "problem": as_text(run.problem)} for run in result.runs],
        "pending": None
        if pending is None
        else {
            "tool": pending.tool,
            "title": pending.display_name,
            "words": as_text(pending.words),
            "arguments": plain(pending.arguments),
            "destructive": pending.destructive,
            "flow": pending.flow,
            "question": pending.question(),
        },
        "waits_for": list(active.asks) if active is not None else [],
        "choices": {} if active is None else {name: list(plain(each)) for name, each in active.choices.items()},
        "options": [] if result.question is None else [each.title for each in result.question.options],
        "flows": [{"name": each.name, "status": each.status} for each in reversed(conversation.flows)],
        "selection": None
        if selection is None
        else {
            "names": selection.names,
            "explained": as_text(selection.explain()),
            "logged": selection.logged,
            "decision": selection.decision.to_dict(),
        },
        "model_calls": result.model_calls,
        "input_tokens": result.usage.input_tokens,
        "output_tokens": result.usage.output_tokens,
        "trace": [_bounded(each.as_json()) for each in result.trace.spans[:_MOST_SPANS]],
        "left_out": max(0, len(result.trace.spans) - _MOST_SPANS),
        "turns": conversation.turns,
        "conversation": conversation.to_json(secret=secret),
    }


def _bounded(value: Any) -> Any:
    """A JSON value whose long texts are cut where one can see it."""
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else f"{value[:_LONGEST]}… ({len(value):,} characters)"
    if isinstance(value, Mapping):
        return {name: _bounded(each) for name, each in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list):
        return [_bounded(each) for each in cast("list[Any]", value)]
    return value
