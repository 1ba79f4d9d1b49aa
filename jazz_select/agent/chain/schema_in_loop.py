"""How a schema takes part in the loop, where it is not left to the end: on every turn, or as one more tool. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from jazz_select.agent.chain.output_schema import OutputSchema
from jazz_select.chat.client import ChatClient
from jazz_select.chat.json_reader import BROKEN, decoded, embedded
from jazz_select.errors import ConfigError
from jazz_select.routing.plans.plan import PlanStep
from jazz_select.routing.plans.replies import folded_key
from jazz_select.routing.tools.tool import Tool, Toolbox
from jazz_select.text import json_line

FINAL: Final = "final_answer"
"""What the tool, or the field, is called that holds the answer."""
_LAST: Final = "No further call will be run: answer now, {}, with what there is."
_AS_TOOL: Final = f" When you know the answer, call the tool {FINAL} with it, and nothing else."
_NATIVE: Final = (
    ' Answer every time with one JSON object: {{"tool_calls": [...]}}, or, when you know the answer, '
    '{{"' + FINAL + '": ...}} where the answer has this JSON Schema: {schema}'
)
_CALLS: Final[Mapping[str, Any]] = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"id": {"type": "string"}, "tool": {"type": "string"}, "arguments": {"type": "object"}},
        "required": ["tool", "arguments"],
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Whether calls end the loop: the answer's JSON text, or what is wrong with the answer."""

    final: str | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaInLoop:
    """What the schema does in the loop; nothing by default.

    Attributes:
        offered: The tools that the model is shown.
        output: The schema, where it takes part.
        wire: What is sent along on every turn.
        instructions: What the model is told of it.
        notes: What was degraded.
    """

    offered: tuple[Tool, ...]
    output: OutputSchema | None = None
    wire: Mapping[str, Any] | None = None
    instructions: str = ""
    notes: tuple[str, ...] = field(default=())

    @property
    def last(self) -> str:
        """What the model is told before its last turn."""
        how = "in plain text" if self.output is None else f"by {FINAL}"
        return _LAST.format(how)

    def is_final(self, text: str) -> bool:
        """Whether a reply that is no call, but JSON, is the answer itself."""
        value = decoded(text.strip())
        return self.output is not None and value is not BROKEN and not self.output.check(value).problem

    def final_of(self, text: str) -> str | None:
        """The answer in a reply to a turn that carried the schema."""
        if self.output is None or self.wire is None:
            return None
        for value in reversed(embedded(text)):
            said = cast("Mapping[str, Any]", value if isinstance(value, Mapping) else {})
            if FINAL in said and not said.get("tool_calls") and not self.output.check(said[FINAL]).problem:
                return json_line(said[FINAL])
        return None

    def end_of(self, calls: Sequence[PlanStep]) -> Ending:
        """Whether one of these calls is the answer."""
        if self.output is None or self.wire is not None:
            return Ending()
        finals = [call for call in calls if folded_key(call.tool) == folded_key(FINAL)]
        if not finals:
            return Ending()
        if len(calls) > 1:
            return Ending(problem=f"not run: {FINAL} is called alone, when the results of all other calls are known")
        problem = finals[0].problem or self.output.check(dict(finals[0].arguments)).problem
        if problem:
            return Ending(problem=f"the answer is not valid: {problem}")
        return Ending(final=json_line(dict(finals[0].arguments)))


def schema_in_loop(client: ChatClient, output: OutputSchema | None, strategy: str, tools: Toolbox) -> SchemaInLoop:
    """What the schema does in the loop with these tools.

    Raises:
        ConfigError: A tool has the name of the one that holds the answer.
    """
    offered = tuple(tools.values())
    if output is None or strategy == "deferred" or not offered:
        return SchemaInLoop(offered=offered)
    if strategy == "native" and not client.takes_schema:
        return SchemaInLoop(offered=offered, notes=("the model takes no schema, so it is left to the end",))
    if strategy == "tool" and not output.has_object:
        return SchemaInLoop(
            offered=offered, notes=("the schema is no object, so it cannot be a tool and is left to the end",)
        )
    if strategy == "native":
        told = _NATIVE.format(schema=output.text)
        return SchemaInLoop(offered=offered, output=output, wire=wire_schema(output.json), instructions=told)
    if FINAL in tools:
        msg = f"strategy 'tool' offers a tool named {FINAL!r}, and there is one; rename it, or choose another strategy"
        raise ConfigError(msg)
    final = Tool(name=FINAL, description="Gives the final answer.", input_schema=output.json)
    return SchemaInLoop(offered=(*offered, final), output=output, instructions=_AS_TOOL)


def wire_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema of either calls or the answer, an object at its root; references keep leading where they led."""
    definitions = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    inner = {key: value for key, value in schema.items() if key not in {*definitions, "$schema", "$id"}}
    return {
        "type": "object",
        "properties": {"tool_calls": _CALLS, FINAL: _moved(inner)},
        **{key: _moved(value) for key, value in definitions.items()},
    }


def _moved(value: Any) -> Any:
    if isinstance(value, list):
        return [_moved(each) for each in cast("list[Any]", value)]
    if not isinstance(value, Mapping):
        return value
    fields = {key: _moved(each) for key, each in cast("Mapping[str, Any]", value).items()}
    reference = fields.get("$ref")
    if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")):
        stays = reference.startswith(("#/$defs/", "#/definitions/"))
        fields["$ref"] = reference if stays else f"#/properties/{FINAL}{reference[1:]}"
    return fields
