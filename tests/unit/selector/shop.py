"""A small shop: flows, the metadata that recall would give for them, and selectors over both."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from jazz_select import BaseFlow, Flow, FlowRegistry
from jazz_select.selector.policy import Policy
from jazz_select.values import Candidate, flow_id

NAMES = ("refund_order", "exchange_order", "cancel_order")
REFUND, EXCHANGE, CANCEL = (flow_id(name) for name in NAMES)
STALE = flow_id("gift_wrap")


def with_policy(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a selector, whose policy may be given field by field."""
    own = {each.name for each in fields(Policy)}
    rest = {name: value for name, value in options.items() if name not in own}
    given = {name: value for name, value in options.items() if name in own}
    return {**rest, "policy": Policy(**given)} if given else rest


def flow(name: str, registry: FlowRegistry, **changes: Any) -> Flow:
    """A flow of the shop."""
    fields: dict[str, Any] = {
        "description": f"What {name} does.",
        "condition": f"The user wants {name}.",
        "desired_effects": [f"{name} is done"],
        "examples": [],
    }
    return Flow(name=name, **(fields | changes), registry=registry)


def shop(*names: str) -> FlowRegistry:
    """A registry of these flows, or of the usual three."""
    registry = FlowRegistry(min_examples=0)
    for name in names or NAMES:
        flow(name, registry)
    return registry


def metadata(*names: str, **changes: Any) -> list[dict[str, Any]]:
    """What recall would find, best first."""
    return [
        {
            "flow_id": flow_id(name),
            "flow_name": name,
            "flow_type": "flow",
            "description": f"What {name} does.",
            "condition": f"The user wants {name}.",
            "desired_effects": [f"{name} is done"],
            "score": 1 / position,
        }
        | changes
        for position, name in enumerate(names or NAMES, start=1)
    ]


def candidates(*names: str) -> list[Candidate]:
    """The same as values."""
    return [Candidate.from_metadata(found) for found in metadata(*names)]


class Guarded(BaseFlow):
    """A flow for members; `context["member"]` may be a value, or an exception to raise."""

    def available(self, context: Mapping[str, Any]) -> bool:
        member: object = context.get("member", False)
        if isinstance(member, Exception):
            raise member
        return bool(member() if callable(member) else member)


def guarded(name: str, registry: FlowRegistry, kind: type[BaseFlow] = Guarded) -> BaseFlow:
    """A flow of the shop that is for members."""
    return kind(
        name=name,
        description=f"What {name} does.",
        condition=f"The user wants {name}.",
        desired_effects=[f"{name} is done"],
        examples=[],
        registry=registry,
    )
