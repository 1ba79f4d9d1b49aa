"""A catalogue with parts of a change undone."""

from collections.abc import Mapping
from copy import copy
from typing import Any, Final, cast

from jazz_select.evaluation.changes.snapshots import GUARD
from jazz_select.flow.base import BaseFlow, Flow, FlowRegistry

ROUTING_FIELDS: Final = ("description", "condition", "desired_effects", "examples", "aliases", "priority")
"""Fields that affect routing and can be set."""
Fields = Mapping[str, Any]
Undone = Mapping[str, Fields | None]
"""By a flow's name in the later version: fields to set, or None to remove it; a new name adds a flow."""


def undone(registry: Mapping[str, BaseFlow], parts: Undone) -> FlowRegistry:
    """Return a catalogue with parts of a change undone; the given flows are not changed."""
    made = FlowRegistry(min_examples=0)
    for flow in registry.values():
        fields = parts.get(flow.name, {})
        if fields is None:
            continue
        again = copy(flow) if fields else flow
        for name, value in fields.items():
            if name == GUARD:
                again.available = lambda _, opened=value: opened  # pyright: ignore[reportAttributeAccessIssue]
            else:
                setattr(again, name, tuple(cast("list[Any]", value)) if isinstance(value, list) else value)
        made.register(again)
    known = {flow.name for flow in registry.values()}
    for name, fields in parts.items():
        if name not in known and fields is not None:
            Flow(name=name, registry=made, **{field: fields[field] for field in ROUTING_FIELDS if field in fields})
    return made
