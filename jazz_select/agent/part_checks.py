"""Checks: of an agent's parts when it is made, and, by its authors' checks, of the values that users give."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, cast

from jazz_select.agent.agent_options import Facts
from jazz_select.agent.flows.open_flows import BLOCKED, FINISHED
from jazz_select.agent.graph.guards import check_guards
from jazz_select.errors import CannotDo, ConfigError, WrongValue
from jazz_select.flow.base import BaseFlow
from jazz_select.flow.field_checks import Input
from jazz_select.routing.schemas.fields import fields
from jazz_select.routing.tool_call import call_tool
from jazz_select.routing.tools.tool import Tool
from jazz_select.text import beginning, describe_error, filled, in_one_line, written
from jazz_select.texts import say
from jazz_select.threads import run_with_timeout
from jazz_select.words import folded_name

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


_FACT_S: Final = 5.0
"""Timeout of a function that returns a fact, in seconds."""


def check_agent_parts(selector: object, tools: Iterable[str], guards: object) -> None:
    """Check the types of an agent's parts.

    Raises:
        ConfigError: A part is of the wrong type, a guard is async, or a tool has a reserved name.
    """
    if not callable(getattr(selector, "select", None)) or not isinstance(
        getattr(selector, "flow_registry", None), Mapping
    ):
        raise ConfigError(f"selector is a FlowSelector(llm or None, registry, memory, agent_id), not {selector!r:.80}")
    check_guards(guards, ConfigError)
    for name in tools:
        if folded_name(name) in {folded_name(FINISHED), folded_name(BLOCKED)}:
            msg = f"a tool is called {name!r}, which is what an agent's model calls to end a procedure; rename it"
            raise ConfigError(msg)


def checked_facts(facts: object) -> Facts:
    """Return the facts of every conversation, checked."""
    given: object = {} if facts is None else facts
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in cast("Mapping[Any, Any]", given)):
        raise ConfigError(f"facts are a mapping of names to values or to functions that give them, not {facts!r:.80}")
    return dict(cast("Facts", given))


async def resolve_facts(facts: Facts) -> dict[str, Any]:
    """Call the facts that are functions, sync or async; one that fails becomes a text that says so."""
    given = await asyncio.gather(*(_given(fact) for fact in facts.values()))
    return dict(zip(facts, given, strict=True))


async def _given(fact: object) -> object:
    if not callable(fact):
        return fact
    try:
        return await run_with_timeout(fact, limit_s=_FACT_S, name="jazz-select-fact")
    except Exception as error:  # noqa: BLE001 - any error of an author's function: the turn goes on without the fact
        return f"not known ({type(error).__name__})"
