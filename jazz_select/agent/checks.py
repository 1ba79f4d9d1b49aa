"""What an agent is given, checked: tools, guards and callback, each refused by its name where it is no such thing."""

from collections.abc import Iterable, Sequence
from typing import cast

from jazz_select.agent.flows.open_flows import FINISHED
from jazz_select.agent.graph.guards import Guard
from jazz_select.errors import ConfigError
from jazz_select.routing.names.words import folded_name
from jazz_select.threads import is_async


def check_agent_parts(tools: Iterable[str], guards: Sequence[object], callback: object) -> None:
    """See that parts are of their kind.

    Raises:
        ConfigError: One is not.
    """
    for name in tools:
        if folded_name(name) == folded_name(FINISHED):
            msg = f"a tool is called {name!r}, which is what an agent's model calls to end a procedure; rename it"
            raise ConfigError(msg)
    for each in guards:
        if not isinstance(each, Guard):
            msg = f"guards are Guards (make one of a function with @guard), not {each!r:.80}"
            raise ConfigError(msg)
        if is_async(getattr(cast("object", each), "check", None)):
            msg = f"guard {each.name} is async, and nothing waits for a guard: make its check a plain function"
            raise ConfigError(msg)
    if callback is not None and (isinstance(callback, type) or not callable(getattr(callback, "decide", None))):
        msg = f"decision_callback is an object with `decide(context, candidates, prompt)`, not {callback!r:.80}"
        raise ConfigError(msg)
