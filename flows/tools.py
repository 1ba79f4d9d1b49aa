"""The tools of the flows, and who chooses between them where no model is configured."""

from collections.abc import Mapping
from typing import Any

from flows.shop import Shop
from jazz_select.routing import Tool
from jazz_select.routing.decisions.points import ToolCandidate
from jazz_select.routing.tools.functions import tool_from_function


class ReturnPolicy:
    """The shop's own rule for what follows a look at the return window: a decision without a model."""

    def decide(self, context: dict[str, Any], candidates: list[ToolCandidate], prompt: str) -> str | None:  # noqa: ARG002
        """A swap where one is wanted, else a return within the window and its refund, else store credit."""
        offered = {each.name for each in candidates}
        for name in ("create_exchange", "issue_refund"):
            if name in offered:
                return name
        wanted: Mapping[str, str] = {"returnable": "create_return", "too_late": "offer_store_credit"}
        choice = wanted.get(context.get("eligibility", ""))
        return choice if choice in offered else None


def shop_tools(shop: Shop) -> list[Tool]:
    """The tools of one shop."""
    reading = (
        shop.lookup_order,
        shop.get_tracking,
        shop.check_return_window,
        shop.lookup_return,
        shop.lookup_refund,
        shop.check_stock,
    )
    writing = (shop.create_return, shop.offer_store_credit, shop.create_exchange, shop.charge_difference)
    final = (shop.issue_refund, shop.cancel_order, shop.release_payment)
    return [
        *(tool_from_function(each, provider="shop") for each in (*reading, *writing)),
        *(tool_from_function(each, provider="shop", destructive=True) for each in final),
    ]


def open_shop() -> list[Tool]:
    """The tools of a shop that nobody has been to yet."""
    return shop_tools(Shop())


TOOLS = open_shop
"""Whoever loads the tools gets a shop of their own."""
POLICY = ReturnPolicy()
"""Who chooses where no model is configured."""
