"""The look-ups of a flow that a model runs whose arguments are all known, so that they are made before it is asked."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from jazz_select.routing.plans.plan import PlanStep
from jazz_select.routing.schemas.fields import fields
from jazz_select.routing.tools.tool import Tool
from jazz_select.words import by_spelling, folded_name

MOST_LOOK_UPS_AHEAD: Final = 3
"""The most look-ups that are made before a model is asked."""


def look_ups_of(tools: Sequence[Tool], known: Mapping[str, Any]) -> list[PlanStep]:
    """Return the calls of the tools that only read, and whose inputs are all known, the optional ones included.

    A tool with an optional input that nobody gave is left to the model: what it would look up without it may not be
    what is meant, as the latest order where one is described. So is a tool whose schema does not say what it takes:
    called with nothing, it may return more than was asked for. The inputs that the caller's context fills are not among
    those of these tools.
    """
    steps: list[PlanStep] = []
    alike = by_spelling(known)
    for tool in tools:
        if not tool.reads or tool.function is None or len(steps) == MOST_LOOK_UPS_AHEAD:
            continue
        wanted = fields(tool.input_schema)
        if not wanted and not _takes_nothing(tool.input_schema):
            continue
        arguments: dict[str, Any] = {}
        for name in wanted:
            same = [name] if name in known else alike.get(folded_name(name), [])
            if len(same) == 1:
                arguments[name] = known[same[0]]
        if len(arguments) == len(wanted):
            steps.append(PlanStep(id=f"s{len(steps) + 1}", tool=tool.name, arguments=arguments))
    return steps


def _takes_nothing(schema: Mapping[str, Any]) -> bool:
    """Whether a schema without inputs says that there are none, and does not just leave them out."""
    return schema.get("properties") == {} or schema.get("additionalProperties") is False
