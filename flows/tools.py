"""The tools of the flows, and who chooses between them where no model is configured."""

from collections.abc import Mapping
from typing import Any

from flows.shop import Shop
from jazz_select.routing import Tool
from jazz_select.routing.decisions.decision_points import ToolCandidate
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
        *(shop.lookup_order, shop.list_orders, shop.get_tracking, shop.check_return_window, shop.lookup_return),
        *(shop.lookup_refund, shop.check_stock, shop.find_dropoff_points, shop.check_warranty, shop.quote_shipping),
        *(shop.validate_address, shop.list_delivery_slots, shop.search_products, shop.get_product_details),
        *(shop.compare_products, shop.get_manual, shop.run_diagnostics_guide, shop.lookup_account),
        *(shop.check_open_matters, shop.list_charges, shop.search_charges, shop.lookup_payment_attempts),
        *(shop.list_payment_methods, shop.lookup_promo_code, shop.lookup_gift_card, shop.lookup_subscription),
        *(shop.find_free_colleague, shop.list_callback_slots),
    )
    writing = (
        *(shop.create_return_label, shop.offer_store_credit, shop.create_exchange),
        *(shop.hand_to_accounting, shop.create_claim, shop.send_replacement, shop.send_spare_part, shop.book_pickup),
        *(shop.create_repair_case, shop.update_order_items, shop.redirect_parcel, shop.report_delay),
        *(shop.open_carrier_investigation, shop.send_password_reset, shop.send_verification_code),
        *(shop.verify_identity, shop.unlock_account, shop.send_second_factor_setup, shop.open_fraud_case),
        *(shop.apply_discount, shop.redeem_gift_card, shop.replace_gift_card, shop.send_email),
        *(shop.summarise_conversation, shop.transfer_conversation, shop.book_callback),
    )
    again = (  # called once more with the same arguments they change nothing more
        *(shop.update_order_address, shop.add_gift_options, shop.book_delivery_slot, shop.request_photos),
        *(shop.create_stock_alert, shop.update_account_address, shop.restore_contact_details),
        *(shop.sign_out_everywhere, shop.block_card, shop.create_invoice_pdf, shop.create_payment_link),
        *(shop.pause_subscription, shop.update_subscription),
    )
    final = {  # with what says, before it is called, what it would do
        shop.issue_refund: ("Refund", shop.say_refund),
        shop.refund_shipping_fee: ("Refund of the delivery fee", shop.say_shipping_fee),
        shop.charge_difference: ("Difference in price", shop.say_difference),
        shop.cancel_order: ("Cancelling an order", shop.say_cancel),
        shop.release_payment: ("Refund of a cancelled order", shop.say_release),
        shop.remove_second_factor: ("Removing the device for sign-in codes", None),
        shop.close_account: ("Closing the account", None),
        shop.cancel_subscription: ("Ending a subscription", shop.say_end),
    }
    return [
        *(tool_from_function(each, provider="shop", read_only=True) for each in reading),
        *(tool_from_function(each, provider="shop", read_only=False) for each in writing),
        tool_from_function(shop.create_return, provider="shop", read_only=False, title="Registering a return"),
        tool_from_function(
            shop.cancel_return, provider="shop", read_only=False, title="Calling a return off", undoes="create_return"
        ),
        *(tool_from_function(each, provider="shop", read_only=False, idempotent=True) for each in again),
        *(
            tool_from_function(each, provider="shop", read_only=False, destructive=True, title=title, confirm=saying)
            for each, (title, saying) in final.items()
        ),
    ]


def open_shop() -> list[Tool]:
    """The tools of a shop that nobody has been to yet."""
    return shop_tools(Shop())


TOOLS = open_shop
"""Whoever loads the tools gets a shop of their own."""
POLICY = ReturnPolicy()
"""Who chooses where no model is configured."""
