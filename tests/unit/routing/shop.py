"""Tools of a shop whose schemas chain: order → eligibility → refund."""

from collections.abc import Callable
from typing import Any

from jazz_select.routing.tools.tool import Tool

STRING, INTEGER = {"type": "string"}, {"type": "integer"}


def obj(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    """An object schema."""
    return {"type": "object", "properties": {**required, **optional}, "required": list(required)}


def find_order(order_id: str) -> dict[str, Any]:
    """Look an order up."""
    return {"order_id": order_id, "amount": 20, "email": "a@example.org"}


def check_refund(order_id: str, amount: int) -> dict[str, Any]:
    """May this be refunded?"""
    return {"eligible": True, "amount": amount, "order_id": order_id}


def send_mail(email: str) -> str:
    """Send a mail."""
    return f"sent to {email}"


def weigh_parcel(grams: int) -> dict[str, Any]:
    """Weigh a parcel."""
    return {"weight": grams}


def tools(**changes: Any) -> list[Tool]:
    """The shop's tools; keyword arguments replace a tool's function."""
    made: list[tuple[str, Callable[..., object], dict[str, Any], dict[str, Any]]] = [
        (
            "find_order",
            find_order,
            obj({"order_id": STRING}),
            obj({"order_id": STRING, "amount": INTEGER}, email=STRING),
        ),
        (
            "check_refund",
            check_refund,
            obj({"order_id": STRING, "amount": INTEGER}),
            obj({"eligible": {"type": "boolean"}}),
        ),
        ("send_mail", send_mail, obj({"email": STRING}), STRING),
        ("weigh_parcel", weigh_parcel, obj({"grams": INTEGER}), obj({"weight": INTEGER})),
    ]
    return [
        Tool(
            name=name,
            description=f"What {name} does.",
            input_schema=takes,
            output_schema=gives,
            function=changes.get(name, function),
        )
        for name, function, takes, gives in made
    ]
