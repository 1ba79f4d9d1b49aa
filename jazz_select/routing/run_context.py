"""A run on its way: its steps, what is there so far, and what the next tool gets of it."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from jazz_select.errors import ConfigError, FlowValidationError, ToolError
from jazz_select.flow.base import BaseFlow
from jazz_select.routing.approval import Approve
from jazz_select.routing.decisions.points import DecisionCallback, GuidedDecisionPoint, ToolCandidate
from jazz_select.routing.records import RunResult, StepRecord, ToolCall
from jazz_select.routing.schemas.compatibility import Field, available_fields
from jazz_select.routing.schemas.fields import RESULT, Reading, alternatives, fields, shape
from jazz_select.routing.schemas.validity import verdicts
from jazz_select.routing.tools.tool import Tool
from jazz_select.text import describe_error, meant
from jazz_select.words import folded_name


class Choose:
    """A step that is left open on purpose: whatever fits what is there then."""


CHOOSE = Choose()
"""The step that is left open on purpose: whatever fits what is there then."""
Step = str | GuidedDecisionPoint | Choose
_STEPS = (str, Tool, GuidedDecisionPoint, Choose)


def check_run(steps: object, inputs: object) -> None:
    """Refuse what are no steps, or no inputs."""
    given: list[object] = [steps]
    if isinstance(steps, Sequence) and not isinstance(steps, str | bytes):
        given = [each for each in cast("Sequence[object]", steps) if not isinstance(each, _STEPS)]
    if given:
        msg = f"steps are a list of tools or their names, GuidedDecisionPoints and CHOOSE, not {given[0]!r:.80}"
        raise ConfigError(msg)
    if inputs is not None and not isinstance(inputs, Mapping):
        raise ConfigError(f"inputs are a mapping of names to values, not {inputs!r:.80}")


def chain_of(flow: BaseFlow) -> tuple[Step, ...]:
    """The steps of a flow for an executor: its attribute `chain`, or none where its author gave it none.

    ```python
    class CancelOrder(BaseFlow):
        tools = ["lookup_order", "cancel_order", "release_payment"]
        chain = ("lookup_order", GuidedDecisionPoint(after_step="lookup_order", candidate_tools=[...]), ...)
    ```

    A step is the name of a tool, a `GuidedDecisionPoint` or a mapping of its fields, `CHOOSE` or that word, as a file
    has it. The tools after which points stand are among the flow's as well.

    Raises:
        FlowValidationError: An entry is no step, or names a tool that is not among the flow's `tools`.
    """
    given = cast("object", flow.chain)
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise _wrong(flow, f"it is a list of steps, not {given!r:.80}")
    steps = [_as_step(flow, step) for step in cast("Sequence[Any]", given)]
    for step in steps:
        names = [step] if isinstance(step, str) else _names(step)
        if names is None:
            raise _wrong(flow, f"a step is a tool's name, a GuidedDecisionPoint or CHOOSE, not {step!r:.80}")
        strange = [meant(name, flow.own_tools) for name in dict.fromkeys(names) if name not in flow.own_tools]
        if strange:
            raise _wrong(flow, f"it names {', '.join(strange)}; add that to the flow's tools, or take it out")
    return tuple(steps)


def _as_step(flow: BaseFlow, step: Any) -> Any:
    """What a file can say of a step, as a step; a tool of that name goes before the word CHOOSE."""
    if isinstance(step, Mapping):
        try:
            return GuidedDecisionPoint(**cast("Mapping[str, Any]", step))
        except (TypeError, AttributeError, ToolError) as error:
            raise _wrong(flow, f"{describe_error(error)}, in {dict(cast('Mapping[str, Any]', step))!r:.200}") from error
    return CHOOSE if step == "CHOOSE" and step not in flow.own_tools else step


def _names(step: object) -> list[str] | None:
    if isinstance(step, GuidedDecisionPoint):
        return [step.after_step, *step.candidate_tools, *([step.fallback_tool] if step.fallback_tool else [])]
    return [] if isinstance(step, Choose) else None


def _wrong(flow: BaseFlow, problem: str) -> FlowValidationError:
    return FlowValidationError(flow.label, "chain", problem, place=flow.place)


NameCall = Callable[[str, Mapping[str, Any]], str]
"""Names the next call of this tool with these arguments; empty where it has no name."""
Deciding = Callable[[Sequence[StepRecord]], DecisionCallback]
"""Who chooses in one run, after these steps of it."""


class RunContext:
    """What is there so far."""

    def __init__(
        self,
        given: dict[str, Any],
        *,
        last_tool: str = "",
        fixed: Collection[str] | None = None,
        lost: Iterable[str] = (),
        deciding: Deciding | None = None,
    ) -> None:
        self.context = given
        self.deciding = deciding
        self.approve: Approve | None = None
        self.approve_chosen: Approve | None = None
        """Who lets calls pass that one who chooses chose."""
        self.call_id: NameCall | None = None
        self.fixed = frozenset(given if fixed is None else fixed)
        self.lost = tuple(lost)
        self.records: list[StepRecord] = []
        self.last_tool = last_tool
        self.asked: ToolCall | None = None
        self._last: dict[str, Any] = dict(given)
        self._declared: dict[str, Field] = {}

    def keep(self, tool: Tool, output: Any, declared: Mapping[str, Field]) -> None:
        """A tool gave this; `declared` is what it says that it gives, by name.

        What the caller gave stays as it is, and of a tool that declares its output what it did not declare feeds
        nothing: else whoever fills a field of an output could put another's account in the place of the caller's.
        """
        given = dict(cast("Mapping[str, Any]", output)) if isinstance(output, Mapping) else {RESULT: output}
        fed = [name for name in given if name not in self.fixed and (not declared or name in declared)]
        self.context.update({name: given[name] for name in fed})
        self._declared = {name: each for name, each in self._declared.items() if name not in fed}
        self._declared.update({name: replace(declared[name], certain=True) for name in fed if name in declared})
        # A value that is null feeds nothing, whatever was declared.
        self._declared = {name: each for name, each in self._declared.items() if self.context.get(name) is not None}
        self.last_tool, self._last = tool.name, given

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


def inputs_lost(tool: Tool, lost: Iterable[str], arguments: Mapping[str, Any]) -> str:
    """Why a call that destroys something is not made without inputs that were `lost`; empty where it may be."""
    if not tool.destructive:
        return ""
    gone = {folded_name(name) for name in lost}
    left_out = [name for name in fields(tool.input_schema) if name not in arguments and folded_name(name) in gone]
    if not left_out:
        return ""
    return f"{tool.name} is not run without {', '.join(left_out)}, which was there and could not be kept"


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
        if not optional or verdicts([context[given]], part, Reading(tool.input_schema)) != [False]:
            arguments[name] = context[given]
    least = min(needed, key=lambda names: len(names - arguments.keys()))
    return arguments, [name for name in wanted if name in least and name not in arguments]


def _takes_null(part: object, tool: Tool) -> bool:
    return any(each.type in {"null", ""} for each in alternatives(part, tool.input_schema))
