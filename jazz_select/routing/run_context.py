"""A run on its way: what is there so far, and what the next tool gets of it."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

from jazz_select.routing.decisions.points import GuidedDecisionPoint, ToolCandidate
from jazz_select.routing.names.words import folded_name
from jazz_select.routing.records import RunResult, StepRecord, ToolCall
from jazz_select.routing.schemas.compatibility import Field, available_fields, outputs
from jazz_select.routing.schemas.fields import RESULT, alternatives, fields, shape
from jazz_select.routing.schemas.validity import is_valid
from jazz_select.routing.tools.tool import Tool


class RunContext:
    """What is there so far."""

    def __init__(
        self,
        given: dict[str, Any],
        *,
        last_tool: str = "",
        fixed: Collection[str] | None = None,
        lost: Iterable[str] = (),
    ) -> None:
        self.context = given
        self.fixed = frozenset(given if fixed is None else fixed)
        self._lost = tuple(lost)
        self.records: list[StepRecord] = []
        self.last_tool = last_tool
        self.asked: ToolCall | None = None
        self._last: dict[str, Any] = dict(given)
        self._declared: dict[str, Field] = {}

    def keep(self, tool: Tool, output: Any) -> None:
        """A tool gave this.

        What the caller gave stays as it is, and of a tool that declares its output what it did not declare feeds
        nothing: else whoever fills a field of an output could put another's account in the place of the caller's.
        """
        given = dict(cast("Mapping[str, Any]", output)) if isinstance(output, Mapping) else {RESULT: output}
        declared = {each.name: each for each in outputs(tool)}
        fed = {name for name in given if name not in self.fixed and (not declared or name in declared)}
        self.context.update({name: given[name] for name in fed})
        self._declared = {name: each for name, each in self._declared.items() if name not in fed}
        self._declared.update({name: replace(declared[name], certain=True) for name in fed if name in declared})
        # A value that is null feeds nothing, whatever was declared.
        self._declared = {name: each for name, each in self._declared.items() if self.context.get(name) is not None}
        self.last_tool, self._last = tool.name, given

    def lost_inputs(self, tool: Tool, arguments: Mapping[str, Any]) -> list[str]:
        """The inputs of a tool that were given before, were not kept, and are not among its arguments."""
        return inputs_lost(tool, self._lost, arguments)

    @property
    def fields(self) -> tuple[Field, ...]:
        """All that is there, by what was declared or else by the values."""
        return available_fields(self.context, self._declared)

    def last_fields(self, tools: Mapping[str, Tool]) -> list[str]:
        """What the last step gave, by name."""
        tool = tools.get(self.last_tool)
        return list(fields(tool.output_schema)) if tool and tool.output_schema else list(self._last)

    def shown(self, point: GuidedDecisionPoint | None) -> dict[str, Any]:
        """What one who chooses sees: the named fields, or the last step's; never the whole context."""
        if point and point.context_fields:
            return {name: self.context[name] for name in point.context_fields if name in self.context}
        return dict(self._last)

    def ended(self, status: Any, *, pending: tuple[ToolCandidate, ...] = ()) -> RunResult:
        """The result as it stands."""
        return RunResult(status=status, records=tuple(self.records), context=self.context, pending=pending)


def inputs_lost(tool: Tool, lost: Iterable[str], arguments: Mapping[str, Any]) -> list[str]:
    """The inputs of a tool that a call leaves out, and that are among what was there and could not be kept."""
    gone = {folded_name(name) for name in lost}
    return [name for name in fields(tool.input_schema) if name not in arguments and folded_name(name) in gone]


def arguments_of(
    tool: Tool, context: Mapping[str, Any], fixed: Collection[str] = ()
) -> tuple[dict[str, Any], list[str]]:
    """Arguments from what is there, and the required ones that are not: of the way to call it that lacks least.

    What a tool gave and is not valid for an optional input of the next one is left out. The `fixed` ones, which the
    caller gave, are not, and a tool that destroys something gets all that is there or fails.
    """
    alike: dict[str, list[str]] = {}
    for name in context:
        alike.setdefault(folded_name(name), []).append(name)
    found = shape(tool.input_schema)
    needed = found.needed if found else (frozenset[str](),)
    wanted: dict[str, object] = {name: part for name, (part, _) in fields(tool.input_schema).items()}
    wanted |= {name: True for names in needed for name in sorted(names) if name not in wanted}
    arguments: dict[str, Any] = {}
    for name, part in wanted.items():
        same = alike.get(folded_name(name), [])
        given = name if name in context else same[0] if len(same) == 1 else None
        if given is None or (context[given] is None and given == name and not _takes_null(part, tool)):
            continue
        optional = not tool.destructive and given not in fixed and not all(name in names for names in needed)
        if not optional or is_valid(context[given], part, tool.input_schema, unread=frozenset()) is not False:
            arguments[name] = context[given]
    least = min(needed, key=lambda names: len(names - arguments.keys()))
    return arguments, [name for name in wanted if name in least and name not in arguments]


def _takes_null(part: object, tool: Tool) -> bool:
    return any(each.type in {"null", ""} for each in alternatives(part, tool.input_schema))
