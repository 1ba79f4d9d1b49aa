"""What an agent is given, checked, and why it does not act on what it found."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from jazz_select.agent.flows.open_flows import FINISHED
from jazz_select.agent.graph.guards import Guard
from jazz_select.errors import ConfigError
from jazz_select.routing.names.words import words
from jazz_select.routing.tools.sources import tool_from_function
from jazz_select.routing.tools.tool import Tool
from jazz_select.selector.result import FlowSelectionResult


def as_tool(given: Tool | Callable[..., object]) -> Tool:
    """A tool from whatever a caller has as one.

    Raises:
        ConfigError: It is none.
    """
    if isinstance(given, Tool):
        return given
    if callable(given):
        return tool_from_function(given)
    msg = f"tools are Tools or functions, not {given!r:.80}"
    raise ConfigError(msg)


def check_agent_parts(tools: Iterable[str], guards: Sequence[object], callback: object) -> None:
    """See that parts are of their kind.

    Raises:
        ConfigError: One is not.
    """
    for name in tools:
        if "".join(words(name)) == "".join(words(FINISHED)):
            msg = f"a tool is called {name!r}, which is what an agent's model calls to end a procedure; rename it"
            raise ConfigError(msg)
    for each in guards:
        if not isinstance(each, Guard):
            msg = f"guards are Guards (make one of a function with @guard), not {each!r:.80}"
            raise ConfigError(msg)
    if callback is not None and (isinstance(callback, type) or not callable(getattr(callback, "decide", None))):
        msg = f"decision_callback is an object with `decide(context, candidates, prompt)`, not {callback!r:.80}"
        raise ConfigError(msg)


def checked_input(message: object, context: object) -> dict[str, Any]:
    """What is known of a context; what is None is not.

    Raises:
        ConfigError: The message is no text, or the context no mapping.
    """
    if not isinstance(message, str):
        msg = f"message is a text, not {type(message).__name__}"
        raise ConfigError(msg)
    given: object = {} if context is None else context
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in cast("Mapping[Any, Any]", given)):
        msg = f"context is a mapping of names to values, not {given!r:.80}"
        raise ConfigError(msg)
    return {name: value for name, value in cast("Mapping[str, Any]", given).items() if value is not None}


def why_open(found: FlowSelectionResult) -> str:
    """Why nothing is run of what was found."""
    if found.names:
        decision = found.decision
        unknown = decision.confidence is None or decision.in_scope is None
        more = ": the catalogue is too small to tell how sure recall is, and no model chooses" if unknown else ""
        return f"it is not sure enough that {found.names[0]} is meant{more}"
    if not found.candidates:
        return "nothing was recalled: has sync_registry run for this agent, with this memory?"
    return "no flow fits"
