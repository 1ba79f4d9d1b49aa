"""Refill subscriptions: coffee, pet food and the like that arrive by themselves."""

from collections.abc import Mapping
from typing import Any

from flows.guards import is_guest
from jazz_select import BaseFlow


class PauseSubscription(BaseFlow):
    """For a while. For good is `cancel_subscription`."""

    name = "pause_subscription"
    title = "Pause of a subscription"
    description = "Pause a subscription, or skip its next delivery."
    condition = "The customer wants no deliveries from a subscription for a while, and means to go on later."
    desired_effects = [
        "No delivery and no charge until the agreed day",
        "The subscription goes on by itself after that",
    ]
    examples = [
        "Can I pause my coffee subscription for two months?",
        "skip the next box pls, still have plenty",
        "We're travelling until September. Could the dog food stop until we're back?",
        "Hold my monthly delivery, I'm moving and don't know where to yet.",
        "too many razors piling up here, take a break for a bit?",
        "I don't want to lose my plan, I just can't afford it this month.",
    ]
    tools = ["lookup_subscription", "pause_subscription"]
    steps = [
        "Find the subscription with lookup_subscription and name its next delivery.",
        "Ask until when: one delivery, or up to six months.",
        "Call pause_subscription and repeat the day on which it goes on, and the day of the next charge.",
        "If the next box is already packed, say that it still comes and that the pause begins after it.",
    ]

    def available(self, context: Mapping[str, Any]) -> bool:
        """Withheld from guests: a subscription needs an account."""
        return not is_guest(context)


class CancelSubscription(BaseFlow):
    """For good. One box less is `pause_subscription`, one order less is `cancel_order`."""

    name = "cancel_subscription"
    title = "Cancellation of a subscription"
    description = "End a subscription or membership for good."
    condition = "The customer wants a subscription or membership to end for good, or not to be renewed."
    desired_effects = ["The subscription has ended and will not be charged again", "The customer has it in writing"]
    examples = [
        "I want to cancel my subscription.",
        "end my membership, and no i dont want an offer",
        "Please make sure that my plan does not renew next month.",
        "The cat has died, so we won't be needing the food deliveries any longer.",
        "How do I unsubscribe from the refill thing? You keep charging me every month",
        "terminate my contract as of today.",
    ]
    tools = ["lookup_subscription", "cancel_subscription", "send_email"]
    steps = [
        "Find the subscription with lookup_subscription and name its last paid day.",
        "Mention the pause once if the reason is a passing one. Do not argue.",
        "After a clear yes, call cancel_subscription and confirm it in writing with send_email.",
        "Say whether one more box comes; what was paid beyond the last box is paid back.",
    ]

    def available(self, context: Mapping[str, Any]) -> bool:
        """Withheld from guests: a subscription needs an account."""
        return not is_guest(context)


class ChangeSubscription(BaseFlow):
    """It goes on, differently."""

    name = "change_subscription"
    title = "Change of a subscription"
    description = "Change the rhythm, the product or the quantity of a running subscription."
    condition = "The customer wants a subscription to go on with another rhythm, product, quantity or delivery day."
    desired_effects = ["The next delivery follows the new rhythm and contents", "The customer knows the new price"]
    examples = [
        "Send the coffee every six weeks instead of every month.",
        "switch my subscription to decaf",
        "We've got a second dog now! Can you double the amount in the regular delivery?",
        "every month is too often, make it every other",
        "I'd like to move from the basic plan to the large box.",
        "Could my regular parcel come at the start of the month, after payday?",
    ]
    tools = ["lookup_subscription", "search_products", "check_stock", "update_subscription"]
    steps = [
        "Find the subscription with lookup_subscription and name rhythm, contents and price as they are.",
        "Find a new product with search_products and check_stock; say the new price and the next delivery day.",
        "After a clear yes, call update_subscription and repeat the change.",
    ]

    def available(self, context: Mapping[str, Any]) -> bool:
        """Withheld from guests: a subscription needs an account."""
        return not is_guest(context)
