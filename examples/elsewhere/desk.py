"""A desk with three flows and the tools that they name: what the programs beside it have in common."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from jazz_select import (
    BaseFlow,
    FlowRegistry,
    FlowSelector,
    ProceduralMemory,
    Tool,
    sync_registry,
    tool_from_function,
)
from jazz_select.integrations.toolkit import FlowToolkit
from jazz_select.selector.policy import Policy

ASKED = "The lamp of order A1 is not for me, I want my money back"
DESK = FlowRegistry()
ORDERS: dict[str, dict[str, Any]] = {"A1": {"item": "lamp", "paid": 129, "state": "delivered"}}


class TrackOrder(BaseFlow, registry=DESK):
    """Say where an order is."""

    name = "track_order"
    condition = "The customer has not got the order yet and asks where it is."
    desired_effects = ["The customer knows where the parcel is"]
    examples = [
        "Where is my order?",
        "when does the parcel arrive",
        "has A7 been shipped?",
        "I am still waiting for my package",
        "track order 4711",
    ]
    tools = ["look_up_order"]
    steps = ["Find the order with look_up_order, and say its state."]


class RefundOrder(BaseFlow, registry=DESK):
    """Take an item back and give the money back."""

    name = "refund_order"
    condition = "The customer has the item and wants money for it."
    desired_effects = ["The money is on its way"]
    examples = [
        "I want my money back for the headphones",
        "refund my order",
        "can I return the rug and get refunded?",
        "I don't like it, money back please",
        "How do I get reimbursed?",
    ]
    tools = ["look_up_order", "pay_back"]
    steps = ["Find the order with look_up_order.", "Pay back what was paid for it with pay_back."]


class MoveOrder(BaseFlow, registry=DESK):
    """Send a parcel somewhere else."""

    name = "move_order"
    condition = "The order has not arrived, and is to go to another address."
    desired_effects = ["The parcel goes to the new address"]
    examples = [
        "send it to my office instead",
        "the address of my order is wrong",
        "I moved, please change where it goes",
        "can the parcel go to my neighbour?",
        "deliver to another street",
    ]
    tools = ["look_up_order", "redirect_parcel"]
    steps = ["Find the order with look_up_order.", "Call redirect_parcel."]


def look_up_order(order_id: str) -> dict[str, Any]:
    """An order by its id."""
    return {"order_id": order_id, **ORDERS[order_id]}


def pay_back(order_id: str, amount: int) -> dict[str, Any]:
    """Give money back: it cannot be called back."""
    ORDERS[order_id]["state"] = "refunded"
    return {"order_id": order_id, "refunded": amount}


def redirect_parcel(order_id: str, street: str) -> dict[str, Any]:
    """Send a parcel to another street."""
    return {"order_id": order_id, "goes_to": street}


def desk_tools() -> list[Tool]:
    """The tools, with what they do to the world."""
    return [
        tool_from_function(look_up_order, read_only=True),
        tool_from_function(pay_back, destructive=True, title="Refund"),
        tool_from_function(redirect_parcel),
    ]


@asynccontextmanager
async def open_selector(*, ask_user: bool = False) -> AsyncGenerator[FlowSelector]:
    """Finds the flows of the desk: the nearest, as there is no model to choose; or whichever the user says."""
    async with await ProceduralMemory.open(":memory:", embedder="static") as memory:
        await sync_registry(memory, agent_id="desk", registry=DESK)
        policy = Policy(max_error=0.01, ask_user=True) if ask_user else Policy()
        yield FlowSelector(None, DESK, memory, "desk", policy=policy)


@asynccontextmanager
async def open_toolkit(*, ask_user: bool = False) -> AsyncGenerator[FlowToolkit]:
    """The flows and tools of the desk, for the loop of a framework."""
    async with open_selector(ask_user=ask_user) as selector:
        yield FlowToolkit(selector, desk_tools())
