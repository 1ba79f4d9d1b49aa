"""Which references of a plan lead nowhere, as far as the schemas of outputs tell before anything runs. Pure."""

from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import unquote

from jazz_select.routing.names import NamedTool
from jazz_select.routing.plan import Plan, references_in
from jazz_select.routing.resolution import NameIndex
from jazz_select.routing.schema import Schema, alternatives

_LISTED: Final = 8


def doomed(plan: Plan, index: NameIndex[Any]) -> tuple[str, ...]:
    """A problem for each reference into an output that declares its fields, and none of that name.

    An output counts as described where its schema lists `properties` and says nothing of others: what a schema does
    not tell, a plan cannot know. Outputs without a schema, and whatever a schema leaves open, are for the run to find.
    """
    tools = {step.id: index.resolve(step.tool).tool for step in plan.steps}
    problems: list[str] = []
    for step in plan.steps:
        for reference in references_in(step.arguments)[0]:
            tool = tools.get(reference.step)
            schema: Any = getattr(tool, "output_schema", None)
            if tool is not None and isinstance(schema, Mapping):
                problem = _lost(reference.pointer, cast("Schema", schema))
                problems += [f"{step.id}: {reference.step}#{reference.pointer:.200}: {_whose(tool)} {problem}"] * bool(
                    problem
                )
    return tuple(problems)


def _lost(pointer: str, root: Schema) -> str:
    """Where a pointer leaves what the schema describes; empty where it may lead somewhere."""
    here: list[object] = [root]
    for token in pointer.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        below: list[object] = []
        known: dict[str, None] = {}
        for schema in here:
            for each in alternatives(schema, root):
                inner = _below(each.schema, each.type, key) if each.certain else True
                if inner is True:
                    return ""
                if inner is not None:
                    below.append(inner)
                properties: Any = each.schema.get("properties")
                known |= dict.fromkeys(map(str, cast("Schema", properties))) if isinstance(properties, Mapping) else {}
        if not below:
            return f"has no {key!r:.80}; it has {', '.join([*known][:_LISTED]) or 'no fields'}"
        here = below
    return ""


def _below(schema: Schema, kind: str, key: str) -> object:
    """The schema of one part: True where it may be anything, None where there is no such part."""
    if kind == "object":
        given: object = schema.get("properties")
        if not isinstance(given, Mapping) or "patternProperties" in schema:
            return True
        properties = cast("Schema", given)
        for spelling in (key, unquote(key)):
            if spelling in properties:
                return properties[spelling]
        more = schema.get("additionalProperties", False)
        return None if more is False else more
    if kind == "array":
        if not key.isdecimal():
            return None
        return schema.get("items", True) if "prefixItems" not in schema else True
    return True if kind == "" else None


def _whose(tool: NamedTool) -> str:
    return f"the output of {tool.name}"
