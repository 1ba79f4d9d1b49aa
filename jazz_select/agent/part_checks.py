"""Check the parts of an agent when it is made, and call the functions that give its facts."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from jazz_select.agent.agent_options import Facts
from jazz_select.agent.flows.open_flows import BLOCKED, FINISHED
from jazz_select.agent.graph.guards import check_guards
from jazz_select.agent.reading.reading_context import checked_fact
from jazz_select.errors import ConfigError
from jazz_select.threads import run_with_timeout
from jazz_select.words import folded_name

_FACT_S: Final = 5.0
"""Timeout of a function that returns a fact, in seconds."""


def check_agent_parts(selector: object, tools: Iterable[str], guards: object) -> None:
    """Check the types of an agent's parts.

    Raises:
        ConfigError: A part is of the wrong type, a guard is async, or a tool has a reserved name.
    """
    is_selector = callable(getattr(selector, "select", None))
    if not is_selector or not isinstance(getattr(selector, "flow_registry", None), Mapping):
        raise ConfigError(
            f"selector must be a FlowSelector(llm or None, registry, memory, agent_id), got {selector!r:.80}"
        )
    check_guards(guards, ConfigError)
    reserved = {folded_name(FINISHED), folded_name(BLOCKED)}
    for name in tools:
        if folded_name(name) in reserved:
            msg = f"a tool is called {name!r}, which is what an agent's model calls to end a procedure; rename it"
            raise ConfigError(msg)


def checked_facts(facts: object) -> Facts:
    """Return the facts of every conversation, checked."""
    given: object = {} if facts is None else facts
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in cast("Mapping[Any, Any]", given)):
        raise ConfigError(
            f"facts must be a mapping of names to values or to functions that give them, got {facts!r:.80}"
        )
    facts_given = dict(cast("Facts", given))
    for name, fact in facts_given.items():
        if not callable(fact):
            checked_fact(name, fact)
    return facts_given


async def resolve_facts(facts: Facts) -> dict[str, Any]:
    """Call the facts that are functions, sync or async; one that fails becomes a text that says so.

    Raises:
        ConfigError: A function returned what no answer can be read by.
    """
    given = await asyncio.gather(*(_value_of_fact(name, fact) for name, fact in facts.items()))
    return dict(zip(facts, given, strict=True))


async def _value_of_fact(name: str, fact: object) -> object:
    if not callable(fact):
        return fact
    try:
        found = await run_with_timeout(fact, limit_s=_FACT_S, name="jazz-select-fact")
    except Exception as error:  # noqa: BLE001 - any error of an author's function: the turn goes on without the fact
        return f"not known ({type(error).__name__})"
    return checked_fact(name, found)
