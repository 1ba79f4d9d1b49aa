"""Check the values that users give, by the types of the flows' tools and by the checks of their authors."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, cast

from jazz_select.agent.known_flows import tools_named
from jazz_select.agent.reading.value_reasons import reason_of
from jazz_select.days import in_full
from jazz_select.errors import CannotDo, FlowError, ToolArgumentsError, WrongValue
from jazz_select.flow.base import BaseFlow
from jazz_select.flow.inputs import Input
from jazz_select.routing.schemas.fields import fields
from jazz_select.routing.schemas.validity import invalid
from jazz_select.routing.tool_call import call_tool
from jazz_select.routing.tools.tool import Tool
from jazz_select.text import beginning, describe_error, fill_fields, in_one_line, in_words, number_text
from jazz_select.texts import current_language, say
from jazz_select.threads import run_with_timeout

_CHECK_S: Final = 10.0
"""Timeout of a check, in seconds."""
_LONGEST: Final = 300


class Checked(NamedTuple):
    """The result of checks.

    Attributes:
        values: Values that passed or have no check, and those for which the flow cannot be done.
        wrong: Why the others are wrong, in words for the user.
        notes: Failures of the checks themselves, by input.
        refusal: Why the flow cannot be done with a value, as a check tells the user (`CannotDo`); empty if none does.
    """

    values: dict[str, Any]
    wrong: dict[str, str]
    notes: dict[str, str]
    refusal: str = ""


async def check_inputs(flow: BaseFlow | None, values: Mapping[str, Any], tools: Mapping[str, Tool]) -> Checked:
    """Check these values by the types of the flow's tools, then by the author's checks.

    A check that fails itself refuses its value. One that raises `CannotDo` refuses the flow: its value is not wrong.
    `WrongValue` refuses the inputs that it names, which may be others than the one that is checked.
    """
    declared = flow.all_inputs() if flow is not None else {}
    own_tools = _tools_of(flow, tools)
    checks = Checked({}, {}, {})
    for name, value in values.items():
        problem = await _type_problem(own_tools, name, value)
        if problem:
            checks.wrong[name] = beginning(in_one_line(problem), _LONGEST)
            continue
        own = declared.get(name)
        if own is None or own.check is None:
            checks.values[name] = value
            continue
        try:
            problem, note = await _verdict(own, value, tools)
        except CannotDo as refusal:
            problem, note = "", ""
            checks = checks._replace(refusal=checks.refusal or refusal.message)
        except WrongValue as error:
            problem, note = "", ""
            reasons = {each: text for each, text in error.reasons.items() if each in declared}
            for each, text in (reasons or {name: error.message}).items():
                checks.wrong[each] = beginning(in_one_line(text), _LONGEST)
        if note:
            checks.notes[name] = f"the check of {name} {note}"
        if problem:
            checks.wrong[name] = beginning(in_one_line(problem), _LONGEST)
        else:
            checks.values[name] = value
    for name in checks.wrong:
        checks.values.pop(name, None)
    return checks


def _tools_of(flow: BaseFlow | None, tools: Mapping[str, Tool]) -> list[Tool]:
    """Return the connected tools of a flow; none if one of its parts is gone, which its run tells."""
    if flow is None:
        return []
    try:
        return [tools[name] for name in tools_named(flow) if name in tools]
    except FlowError:
        return []


async def _type_problem(tools: Iterable[Tool], name: str, value: object) -> str:
    """Return, for the user, why a value is none that these tools take; empty if they take it."""
    shown = beginning(in_one_line(in_full(number_text(value), current_language())), _LONGEST)
    for tool in tools:
        if name not in fields(tool.input_schema):
            continue
        check = tool.argument_checks.get(name)
        if check is not None:
            try:
                await run_with_timeout(check, value, limit_s=_CHECK_S, name="jazz-select-check")
            except ToolArgumentsError as error:
                why = reason_of(error)
                if why:
                    return say("wrong_because", value=shown, input=in_words(name), why=why)
                return say("wrong_value", value=shown, input=in_words(name))
            except Exception:  # noqa: BLE001, S112 - the call itself says what fails there
                continue
        elif not tool.converts and _is_invalid(tool, name, value):
            return say("wrong_value", value=shown, input=in_words(name))
    return ""


def _is_invalid(tool: Tool, name: str, value: object) -> bool:
    part, _ = fields(tool.input_schema)[name]
    schema = {**tool.input_schema, "type": "object", "properties": {name: part}, "required": [name]}
    return bool(invalid(schema, {name: value}))


async def _verdict(declared: Input, value: Any, tools: Mapping[str, Tool]) -> tuple[str, str]:
    """Return what is wrong with a value, and what failed in its check; empty texts if nothing.

    Raises:
        CannotDo: The check says that the flow cannot be done with this value.
        WrongValue: The check refuses this value, or others.
    """
    shown = beginning(in_one_line(number_text(value)), _LONGEST)
    unchecked = say("not_checked", input=declared.words, value=shown)
    try:
        if isinstance(declared.check, str):
            answer = await _call(tools[declared.check], value)
        else:
            check = cast("Callable[[Any], object]", declared.check)
            answer = await run_with_timeout(check, value, limit_s=_CHECK_S, name="jazz-select-check")
    except (CannotDo, WrongValue):
        raise
    except Exception as error:  # noqa: BLE001 - any error of an author's check
        return unchecked, f"failed: {describe_error(error)}"
    if answer is None or answer is True:
        return "", ""
    if answer is False:
        own = fill_fields(declared.problem, {"value": shown})
        return own or say("wrong_value", value=shown, input=declared.words), ""
    if isinstance(answer, str) and answer.strip():
        return answer, ""
    return unchecked, f"said {type(answer).__name__}, which is neither True nor False nor a text"


async def _call(tool: Tool, value: Any) -> object:
    (argument,) = fields(tool.input_schema)
    called = await call_tool(tool, {argument: value}, door="executor", timeout_s=_CHECK_S)
    if called.error is not None:
        raise called.error.cause or TimeoutError(called.error.message)
    return called.output


def unusable_checks(flows: Iterable[BaseFlow], tools: Mapping[str, Tool]) -> str:
    """Return what is wrong with the first check that names an unsuitable tool; empty if none does."""
    for flow in flows:
        for each in flow.inputs:
            if not isinstance(each.check, str):
                continue
            tool = tools.get(each.check)
            if tool is None:
                return f"{flow.name}: the check of {each.name} is the tool {each.check!r:.80}, which is not connected"
            if not tool.reads or len(fields(tool.input_schema)) != 1:
                why = "it has to change nothing (`read_only=True`) and take the value alone"
                return f"{flow.name}: the check of {each.name} is the tool {each.check!r:.80}: {why}"
    return ""
