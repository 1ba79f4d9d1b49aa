"""Agents for tests, whose options are given by their own names, wherever `Agent` takes them."""

from dataclasses import fields
from typing import Any, Final

from jazz_select import Policy
from jazz_select.agent import Agent, Approval, CallOptions, PromptOptions, TraceOptions

_KINDS: dict[str, Any] = {
    "prompt": PromptOptions,
    "calls": CallOptions,
    "tracing": TraceOptions,
}
TAKE_FIRST: Final = Policy(max_error=1)
"""Whatever recall finds first is taken."""


def make_agent(*parts: Any, **options: Any) -> Agent:
    """An agent; `approve`, `narrowing`, `hooks` and the like go into the values that hold them."""
    if "approve" in options or "claims" in options:
        policy = {"policy": options.pop("approval")} if "approval" in options else {}
        given = {name: options.pop(name) for name in ("approve", "claims") if name in options}
        options["approval"] = Approval(**policy, **given)
    for argument, kind in _KINDS.items():
        given = {each.name: options.pop(each.name) for each in fields(kind) if each.name in options}
        if given:
            options[argument] = kind(**given)
    return Agent(*parts, **options)
