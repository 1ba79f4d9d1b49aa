"""A turn of the agent, told event by event, with its trace. The conversation travels signed: none is kept here."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import fields, is_dataclass
from typing import Any, Final, cast

import orjson

from jazz_select.agent.chain.transcript import Event, Finished
from jazz_select.agent.turn import TurnResult
from jazz_select.errors import JazzSelectError
from jazz_select.json_values import Secret, plain
from jazz_select.service.running import Generation
from jazz_select.text import as_text, describe_error

_MOST_SPANS: Final = 400
_LONGEST: Final = 20_000
"""Characters of a text of a span that are sent; the browser need not hold more."""


async def told(live: Generation, given: dict[str, Any], secret: Secret) -> AsyncGenerator[bytes]:
    """The events of one turn as server-sent events; the last is `finished`, or `failed` with what went wrong."""
    try:
        async with aclosing(live.agent.stream(**given)) as heard:
            async for event in heard:
                yield _sse(*_named(event, secret))
    except JazzSelectError as error:
        yield _sse("failed", {"code": type(error).__name__, "detail": describe_error(error)})


def _named(event: Event, secret: Secret) -> tuple[str, Mapping[str, Any]]:
    if isinstance(event, Finished):
        return "finished", _result(event.answer, secret)
    kind = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in type(event).__name__)
    return kind.lstrip("_"), _flat(event)


def _flat(event: object) -> dict[str, Any]:
    """A frozen value with those in it, as plain JSON values."""
    if not is_dataclass(event):
        return {}
    values = {each.name: getattr(event, each.name) for each in fields(event)}
    return {name: _flat(value) if is_dataclass(value) else plain(value) for name, value in values.items()}


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
        "runs": [{"flow": run.flow, "status": run.status} for run in result.runs],
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


def _sse(name: str, data: Mapping[str, Any]) -> bytes:
    # JSON of orjson has no line breaks, so one line of data is all of it.
    return b"event: %s\ndata: %s\n\n" % (name.encode(), orjson.dumps(data, option=orjson.OPT_NON_STR_KEYS))
