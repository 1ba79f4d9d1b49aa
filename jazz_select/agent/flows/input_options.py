"""The choices of an input that a tool lists: called for when it is asked, and matched with what the user says."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from jazz_select.agent.conversation import InputOptions
from jazz_select.errors import CannotDo, WrongValue
from jazz_select.flow.inputs import Input, InputState, ToolChoices
from jazz_select.json_values import is_object
from jazz_select.routing.approval import Approve
from jazz_select.routing.executor import arguments_of
from jazz_select.routing.flow_inputs import entries_of, in_type_of
from jazz_select.routing.question import escape_invisible
from jazz_select.routing.schemas.fields import fields
from jazz_select.routing.tool_call import call_tool, fingerprint
from jazz_select.routing.tools.context_inputs import bind_context, filled_arguments
from jazz_select.routing.tools.tool import Tool
from jazz_select.text import beginning, number_text, one_line

_TIMEOUT_S: Final = 10.0
_MOST_STORED: Final = 100
_MOST_READ: Final = 10_000
_LONGEST_LABEL: Final = 80
_LONGEST_VALUE: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionLister:
    """Lists the choices of a flow's inputs in one turn.

    Attributes:
        tools: The connected tools.
        context: The caller's context, which fills what no user gives.
        approve: Asked before a tool is called.
        known: What was listed before, by input; what is listed now is added.
        notes: Why choices could not be listed; added to.
    """

    tools: Mapping[str, Tool]
    context: Mapping[str, Any] = field(default_factory=dict[str, Any])
    approve: Approve | None = None
    known: dict[str, InputOptions] = field(default_factory=dict[str, InputOptions])
    notes: list[str] = field(default_factory=list[str])

    async def list_options(self, declared: Input, state: InputState) -> InputOptions | None:
        """Return the choices of an input as things stand; None, with a note, if they cannot be listed.

        Raises:
            CannotDo: The tool says that the flow cannot be done.
            WrongValue: The tool refuses values that it was called with.
        """
        choices = declared.by_tool
        if choices is None:
            return None
        tool = self.tools.get(choices.tool)
        if tool is None:
            return self._note_unlisted(declared, f"there is no tool {choices.tool}")
        bound = bind_context(tool, self.context)
        arguments, missing = arguments_of(bound, _facts_for(bound, choices, state))
        if missing:
            return self._note_unlisted(declared, f"{tool.name} needs {', '.join(missing)}")
        call = fingerprint(tool.name, filled_arguments(bound, arguments).arguments)
        before = self.known.get(declared.name)
        if before is not None and before.call == call and before.is_whole:
            return before
        called = await call_tool(bound, arguments, door="executor", timeout_s=_TIMEOUT_S, approve=self.approve)
        if called.error is not None and isinstance(called.error.cause, CannotDo | WrongValue):
            raise called.error.cause
        options, problem = None, ""
        if called.error is None:
            options, problem = _read_options(called.output, choices, call)
        else:
            problem = called.error.message
        if options is None:
            return self._note_unlisted(declared, problem)
        self.known[declared.name] = options
        return options

    def _note_unlisted(self, declared: Input, why: str) -> None:
        note = f"the choices of {declared.name} could not be listed, so any value is taken: {why}"
        if note not in self.notes:
            self.notes.append(note)


def _facts_for(tool: Tool, choices: ToolChoices, state: InputState) -> dict[str, Any]:
    """Return what is known by the names and in the types of a tool's inputs."""
    facts = dict(state.facts)
    for argument, name in choices.arguments.items():
        value = state.value(name)
        if value is not None:
            facts[argument] = value
    schema = tool.input_schema
    for name, (part, _) in fields(schema).items():
        if name in facts:
            facts[name], _ = in_type_of(facts[name], name, part, schema)
    return facts


def _read_options(output: object, choices: ToolChoices, call: str) -> tuple[InputOptions | None, str]:
    """Return the choices in a tool's output; or None, and why there are none."""
    entries = entries_of(output)
    if entries is None:
        return None, f"{choices.tool} returned no list"
    found = _options(entries, choices, call)
    if entries and not found.entries:
        return None, f"{choices.tool} returned no entry with a value"
    return found, ""


def _options(entries: Sequence[Any], choices: ToolChoices, call: str) -> InputOptions:
    found: dict[str, tuple[Any, str]] = {}
    for entry in entries[:_MOST_READ]:
        known = entry if is_object(entry) else dict[str, Any]()
        value = known.get(choices.value) if choices.value else entry
        if not _is_plain(value):
            continue
        label = known.get(choices.label) if choices.label else None
        if not _is_plain(label):
            label = value
        shown = escape_invisible(one_line(number_text(label)))
        found.setdefault(str(value), (value, beginning(shown, _LONGEST_LABEL)))
    count = Counter(label for _, label in found.values())
    labeled: list[tuple[Any, str]] = []
    for value, label in found.values():
        # Entries of one label are told apart by their values.
        own_label = label if count[label] == 1 else f"{label} ({number_text(value)})"
        labeled.append((value, own_label))
    return InputOptions(entries=tuple(labeled), is_whole=len(entries) <= _MOST_READ, call=call)


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float) and 0 < len(str(value).strip()) <= _LONGEST_VALUE


def stored_options(options: Mapping[str, InputOptions]) -> dict[str, InputOptions]:
    """Return choices as a conversation keeps them: of a long list only the first."""
    stored: dict[str, InputOptions] = {}
    for name, each in options.items():
        is_whole = each.is_whole and len(each.entries) <= _MOST_STORED
        stored[name] = InputOptions(entries=each.entries[:_MOST_STORED], is_whole=is_whole, call=each.call)
    return stored
