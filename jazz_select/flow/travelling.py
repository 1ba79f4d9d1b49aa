"""Flows as data: what a flow says of itself, told to another process, and a flow made of that there.

What runs does not travel: a guard, a chain, a prompt of an author's own making. The flow that is made of data says
what the other said, checksum included, and stands in a registry of its own.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import count
from typing import Any, Final

from jazz_select.errors import FlowError, FlowValidationError
from jazz_select.flow.base import MOST_PARTS, BaseFlow, Flow, FlowRegistry, current_scope
from jazz_select.flow.composite import ConditionalFlow, ParallelFlow, SequentialFlow
from jazz_select.flow.definition import Definition, SubflowDefinition
from jazz_select.flow.origin import received
from jazz_select.travel import unreadable, value_of
from jazz_select.values import flow_id

_FLOW: Final = "flow"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What a flow says to whoever runs it and to users, beside its definition."""

    title: str = ""
    optional_tools: tuple[str, ...] = ()
    manual: bool = False
    max_error: float | None = None


def flow_data(flow: BaseFlow) -> dict[str, Any]:
    """All that a flow says, its parts included, and the checksum of it; `plain` makes JSON of it."""
    try:
        own = flow.definition()
    except FlowValidationError:  # a part has left the registry since
        own = flow.outline()
    told = {each.name: getattr(flow, each.name) for each in fields(_Told)}
    return {**{each.name: getattr(own, each.name) for each in fields(own)}, **told, "checksum": own.checksum()}


def flow_of(data: object) -> BaseFlow:
    """A flow of what `flow_data` told, in a registry of its own; it is registered nowhere else."""
    known = value_of(dict[str, Any], data, _FLOW)
    own, told = value_of(Definition, known), value_of(_Told, known)
    try:
        with received():
            flow = _made(own, FlowRegistry(min_examples=0), count(1), told)
            if own.parts:
                flow.outline()  # not too deep
    except (FlowError, RecursionError) as error:
        raise unreadable(_FLOW, str(error)) from error
    return flow


def live_flows(wanted: Iterable[tuple[str, tuple[str, str]]]) -> dict[str, BaseFlow]:
    """Those flows of this process that are wanted, by id.

    Args:
        wanted: The name of each, and the module and qualified name of its class. A class that this process has, and
            that declares such a flow, comes before the registry of the current scope, and that before the default one;
            nothing is imported.
    """
    found: dict[str, BaseFlow] = {}
    for name, (module, qualname) in wanted:
        own = flow_id(name)
        kind: Any = sys.modules.get(module)
        for part in qualname.split("."):
            kind = getattr(kind, part, None)
        declared = kind.declared() if isinstance(kind, type) and issubclass(kind, BaseFlow) else None
        homes = (current_scope(), BaseFlow.registry)
        registered = (home[own] for home in homes if home is not None and own in home)
        live = declared if declared is not None and declared.name == name else next(registered, None)
        if live is not None:
            found[own] = live
    return found


def _made(own: Definition, registry: FlowRegistry, counted: Iterator[int], told: _Told = _Told()) -> BaseFlow:
    if next(counted) > MOST_PARTS:
        raise FlowValidationError(own.name, "flows", f"has more than {MOST_PARTS} parts of parts")
    known: Mapping[str, Any] = {
        **{name: getattr(own, name) for name in ("name", "description", "condition", "priority")},
        **{name: getattr(own, name) for name in ("desired_effects", "examples", "aliases", "tools", "steps")},
        **{each.name: getattr(told, each.name) for each in fields(told)},
        "registry": registry,
        "replace": True,
    }
    parts = [(part.when, _part(part, registry, counted)) for part in own.parts]
    if not parts:
        flow = Flow(**known)
    elif own.type == "conditional":
        taken = [(when, part) for when, part in parts if when.strip()]
        rest = [part for when, part in parts if not when.strip()]
        # The last one without a "when" is what is left; one alone, beside nothing, is a part that says nothing of when.
        last = rest.pop() if taken and rest else None
        flow = ConditionalFlow(**known, branches=taken, flows=rest, otherwise=last)
    else:
        kind = ParallelFlow if own.type == "parallel" else SequentialFlow
        flow = kind(**known, flows=[part for _, part in parts])
    flow.type = own.type
    return flow


def _part(part: SubflowDefinition, registry: FlowRegistry, counted: Iterator[int]) -> BaseFlow | str:
    return part.name if part.flow is None else _made(part.flow, registry, counted)
