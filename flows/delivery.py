"""Parcels: what delivery costs, another day for it, and what to do when it is late or gone."""

from collections.abc import Mapping
from typing import Any

from flows.guards import RESCHEDULE_REGIONS, is_outside
from jazz_select import BaseFlow


class DeliveryOptions(BaseFlow):
    """Before buying. Once there is an order, it is `track_order` or `reschedule_delivery`."""

    name = "delivery_options"
    title = "Advice on delivery"
    description = "Explain shipping costs, delivery times, express service and the countries we ship to."
    condition = "The customer has not ordered yet and asks what delivery costs, how long it takes or where we ship to."
    desired_effects = [
        "The customer knows the price and the duration of each way of delivery to their country",
        "The customer can decide whether to order",
    ]
    examples = [
        "how much is shipping to Ireland?",
        "Do you deliver to PO boxes?",
        "If I order before noon, would next-day be possible, and what would it cost me?",
        "thinking of buying the desk, is delivery free over a certain amount",
        "Do you ship to Norway and who pays customs?",
        "Is there a way to pick things up in a shop rather than have them sent?",
    ]
    tools = ["quote_shipping"]
    aliases = ["shipping costs"]
    steps = [
        "Ask for the country and, for furniture, the postcode.",
        "Call quote_shipping and list the ways of delivery with price and duration, the cheapest first.",
        "Say from which basket value delivery is free, and, outside the customs union, who pays the duties.",
    ]


class RescheduleDelivery(BaseFlow):
    """The parcel is fine, the day is not. Another *place* is `change_order_address`."""

    name = "reschedule_delivery"
    title = "New day for a delivery"
    description = "Move the delivery of a parcel on its way to another day, time slot or pickup point."
    condition = (
        "The customer cannot receive a parcel on the announced day, or missed the courier, "
        "and wants another day, another time slot or a pickup point."
    )
    desired_effects = [
        "The carrier has a new day, time slot or pickup point",
        "The customer knows when and where the parcel can be received",
    ]
    examples = [
        "I'm away on Thursday, can the driver come on Saturday?",
        "Missed the courier, there's a card in my letterbox. What now?",
        "can u drop it at a parcel shop, nobody is home during the day",
        "The fridge is due tomorrow morning but the electrician only comes on Friday, so please bring it later.",
        "evening slot possible??",
        "They tried twice while I was at work. I'd rather have a fixed appointment for the third try.",
    ]
    tools = ["lookup_order", "get_tracking", "list_delivery_slots", "book_delivery_slot"]
    steps = [
        "Find the parcel with lookup_order and get_tracking, and confirm the day that is announced now.",
        "Call list_delivery_slots and offer at most three choices, pickup points near the address included.",
        "Book the chosen one with book_delivery_slot and repeat day, time window and place.",
        "If the carrier offers no change, say until when it keeps the parcel and where it can be collected.",
    ]

    def available(self, context: Mapping[str, Any]) -> bool:
        """Withheld where our carriers do not let the recipient choose."""
        return not is_outside(context, RESCHEDULE_REGIONS)


class LateDelivery(BaseFlow):
    """The promised day has passed and the parcel is still moving. When it is not, it is `lost_parcel`."""

    name = "late_delivery"
    title = "Look into a late delivery"
    description = "Handle a complaint that an order did not arrive on the promised day."
    condition = "The promised delivery day has passed and the order has not arrived, but nothing says that it is gone."
    desired_effects = [
        "The customer has an honest new delivery day and an apology",
        "The delay is reported to the carrier",
        "The express fee is paid back where one was paid",
    ]
    examples = [
        "My parcel should have been here on Tuesday. It's Friday!",
        "you promised 2 days its been over a week now, what is going on",
        "I paid extra for express and it still isn't here, I want that fee back",
        "Third time the date has been pushed back. Honestly, will this ever turn up?",
        "The birthday was yesterday and the present is still sitting in some depot. Very disappointed.",
        "Delivery overdue by four days. Please look into the delay.",
        "Late again. Not impressed.",
    ]
    tools = ["lookup_order", "get_tracking", "report_delay", "refund_shipping_fee"]
    steps = [
        "Find the order with lookup_order and compare the promised day with the latest scan from get_tracking.",
        "Apologise once, in plain words, and give the new day the carrier names. Never invent one.",
        "Open a case with report_delay, and call refund_shipping_fee if express was paid for.",
        "If there was no scan for five working days, the parcel is lost and not late: say so, and go on with that.",
    ]


class LostParcel(BaseFlow):
    """Gone, not late: marked as delivered and not there, or without a trace."""

    name = "lost_parcel"
    title = "Search for a lost parcel"
    description = "Investigate a parcel that disappeared, and replace or refund it."
    condition = (
        "A parcel is marked as delivered but the customer does not have it, it was stolen, "
        "or its tracking has shown nothing for days."
    )
    desired_effects = [
        "The carrier investigates the disappearance",
        "The customer gets a replacement or the money back",
    ]
    examples = [
        "It says delivered but there is nothing at my door.",
        "courier lost my parcel",
        "someone stole my package off the porch, i have it on camera",
        "Tracking has been stuck on the same depot since the 3rd. I believe it's lost.",
        "I've asked all the neighbours and the concierge; nobody has seen the box your courier claims was handed over.",
        "signed for by 'Miller' - there is no Miller here!!",
        "The carrier told me that they can't find my shipment anywhere and that I have to contact you.",
    ]
    tools = ["lookup_order", "get_tracking", "open_carrier_investigation", "send_replacement", "issue_refund"]
    aliases = ["missing package", "stolen parcel"]
    priority = (1, 0)
    steps = [
        "Find the parcel with lookup_order and get_tracking, and read out where and when it was last seen.",
        "Unless the customer has looked there already, ask about household, neighbours and parcel lockers.",
        "Open a case with open_carrier_investigation; a theft with video or police report goes in with it.",
        "Marked as delivered: wait two working days for the carrier's answer. Without a trace: do not wait.",
        "Then offer the choice: send_replacement or issue_refund.",
    ]
