"""An answer without a model: by the flow's own words, and in a schema where what is known has its fields. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import orjson

from jazz_select.agent.flows import FlowRun
from jazz_select.agent.schemas import OutputSchema, Read
from jazz_select.flow.base import BaseFlow
from jazz_select.routing.compatibility import folded
from jazz_select.routing.schema import fields

_LONGEST_VALUE: Final = 300


def worded(flow: BaseFlow, run: FlowRun) -> str:
    """What a user is told of a run: what a model said, the flow's `reply` with what is known, or the last output.

    A flow may have a text `reply` with names of facts in braces, such as "{refunded_cents} cents go to {account}.". It
    is used where the flow is done and every fact of it is known.
    """
    if run.text:
        return run.text
    if run.status == "waiting":
        return f"To go on, I need: {', '.join(map(_spaced, run.asks))}."
    if run.status != "done":
        became = "could not be done" if run.status == "failed" else "is not finished"
        so_far = f" So far: {told}." if (told := _returned(run)) else ""
        return f"{_spaced(run.flow)} {became}: {run.problem}.{so_far}"
    return _replied(flow, run) or _reported(run)


def _replied(flow: BaseFlow, run: FlowRun) -> str:
    """The flow's own words; none where a fact of them is not known, or they are no template."""
    reply: object = getattr(flow, "reply", "")
    if not isinstance(reply, str):
        return ""
    try:
        return reply.format_map({name: _shown(value) for name, value in run.facts.items()})
    except (KeyError, ValueError, IndexError, AttributeError):
        return ""


def _reported(run: FlowRun) -> str:
    """That it is done, and what came of it."""
    told = _returned(run)
    return f"{_spaced(run.flow)} is done." + (f" {told}." if told else "")


def _returned(run: FlowRun) -> str:
    """What the last tool returned."""
    last = next((step.output for step in reversed(run.steps) if step.status == "ok"), None)
    if not isinstance(last, Mapping):
        return "" if last is None else _shown(last)
    return ", ".join(f"{_spaced(name)}: {_shown(value)}" for name, value in cast("Mapping[str, Any]", last).items())


def fitted(schema: OutputSchema, runs: Sequence[FlowRun]) -> Read | None:
    """What is known, in the schema: each field from the fact of its name. None where one that is required is not there.

    A schema that asks for no field at all is not filled: an empty object would be an answer to nothing.
    """
    if not schema.has_object or not runs or any(run.status != "done" for run in runs):
        return None
    facts = runs[-1].facts
    alike: dict[str, list[str]] = {}
    for name in facts:
        alike.setdefault(folded(name), []).append(name)
    found: dict[str, Any] = {}
    for name, (_, required) in fields(schema.json).items():
        same = [name] if name in facts else alike.get(folded(name), [])
        if len(same) == 1:
            found[name] = facts[same[0]]
        elif required:
            return None
    read = schema.check(found) if found else Read(problem="nothing of it is known")
    return None if read.problem else read


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def _shown(value: object) -> str:
    if isinstance(value, str | int | float | bool) or value is None:
        text = str(value)
    else:
        text = orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
