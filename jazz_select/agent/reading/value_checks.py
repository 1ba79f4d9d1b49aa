"""Check the values that users give, by the checks of their flows' authors."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, cast

from jazz_select.errors import CannotDo, WrongValue
from jazz_select.flow.base import BaseFlow
from jazz_select.flow.field_checks import Input
from jazz_select.routing.schemas.fields import fields
from jazz_select.routing.tool_call import call_tool
from jazz_select.routing.tools.tool import Tool
from jazz_select.text import beginning, describe_error, filled, in_one_line, written
from jazz_select.texts import say
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
    """Run the author's checks of these values.

    A check that fails itself refuses its value. One that raises `CannotDo` refuses the flow: its value is not wrong.
    """
    declared = flow.all_inputs() if flow is not None else {}
    checks = Checked({}, {}, {})
    for name, value in values.items():
        own = declared.get(name)
        if own is None or own.check is None:
            checks.values[name] = value
            continue
        try:
            problem, note = await _verdict(own, value, tools)
        except CannotDo as refusal:
            problem, note = "", ""
            checks = checks._replace(refusal=checks.refusal or refusal.message)
        if note:
            checks.notes[name] = f"the check of {name} {note}"
        if problem:
            checks.wrong[name] = beginning(in_one_line(problem), _LONGEST)
        else:
            checks.values[name] = value
    return checks


async def _verdict(declared: Input, value: Any, tools: Mapping[str, Tool]) -> tuple[str, str]:
    """Return what is wrong with a value, and what failed in its check; empty texts if nothing.

    Raises:
        CannotDo: The check says that the flow cannot be done with this value.
    """
    shown = beginning(in_one_line(written(value)), _LONGEST)
    unchecked = say("not_checked", input=declared.words, value=shown)
    try:
        if isinstance(declared.check, str):
            answer = await _call(tools[declared.check], value)
        else:
            check = cast("Callable[[Any], object]", declared.check)
            answer = await run_with_timeout(check, value, limit_s=_CHECK_S, name="jazz-select-check")
    except CannotDo:
        raise
    except WrongValue as error:
        return error.message, ""
    except Exception as error:  # noqa: BLE001 - any error of an author's check
        return unchecked, f"failed: {describe_error(error)}"
    if answer is None or answer is True:
        return "", ""
    if answer is False:
        own = filled(declared.problem, {"value": shown})
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
