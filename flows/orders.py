"""Orders on their way: where they are, and what can still be changed before they leave."""

from jazz_select import BaseFlow


class TrackOrder(BaseFlow):
    """The question is *where*, and the promised day has not passed; once it has, it is `late_delivery`."""

    name = "track_order"
    title = "Tracking of an order"
    description = "Tell the customer where an order is and when it will arrive."
    condition = (
        "The customer wants to know the status, whereabouts or arrival day of an order, "
        "and does not say that the promised day has passed or that the parcel is gone."
    )
    desired_effects = [
        "The customer knows where the order is and on which day to expect it",
        "The customer has the tracking link",
    ]
    examples = [
        "where's my order?",
        "Could you tell me whether my package has been shipped yet? I ordered on Monday.",
        "tracking nr pls, the confirmation mail never had one",
        "Hi! Just excited about my new lamp, any idea which day it gets here?",
        "has it left the warehouse",
        "My order says 'processing'. What does that mean and how long does that usually take?",
        "When is the rest coming? Only one of the two boxes arrived so far, the other is still on the road I think",
    ]
    tools = ["lookup_order", "get_tracking"]
    chain = tools
    reply = "Your order {order_number}, {title}: {last_place} on {last_seen_on}. {expectation}"
    aliases = ["order status", "WISMO"]
    steps = [
        "Find the order with lookup_order, by number or item where one was named. If several are open, ask which one.",
        "Read the latest scan with get_tracking. An order may travel in more than one parcel: report each of them.",
        "Say where the parcel is, the day it is expected, and give the tracking link.",
        "If the promised day has already passed, say so openly and go on as for a late delivery.",
    ]


class CancelOrder(BaseFlow):
    """Only before the parcel leaves. After delivery the same wish is `refund_order`."""

    name = "cancel_order"
    title = "Cancellation of an order"
    description = "Stop an order that has not been shipped, and release the payment."
    condition = "The customer no longer wants an order, or placed it by mistake, and it has not been shipped yet."
    desired_effects = [
        "The order is cancelled and nothing will be shipped",
        "The payment is released or refunded in full",
    ]
    examples = [
        "I'd like to cancel the order I placed this morning, please.",
        "STOP!! i clicked buy by accident, dont send it",
        "Found it cheaper elsewhere so I don't want it any more. It hasn't gone out yet, has it?",
        "my kid ordered a drone on my phone 20 minutes ago, can you undo that",
        "Please call off order 58213 before it ships",
        "I ordered the sofa twice, one of the two can go. Neither has left the warehouse",
    ]
    tools = ["lookup_order", "cancel_order", "release_payment"]
    chain = tools
    reply = "Order {order_number}, {title}, is cancelled. {released} are back where you paid from by {back_on}."
    aliases = ["Stornierung", "Bestellung stornieren"]
    steps = [
        "Find the order with lookup_order and read out what is in it, so that the right one is cancelled.",
        "If the status is 'placed' or 'packed', ask for a clear yes, then call cancel_order.",
        "Call release_payment and say when the money is back: at once for a reservation, else in 3 to 5 working days.",
        "If the parcel has left, say that it can be refused at the door, or returned within 30 days of delivery.",
    ]


class ChangeOrderItems(BaseFlow):
    """The order stays, its contents change. Once delivered, another size or colour is `exchange_item`."""

    name = "change_order_items"
    title = "Change of the items of an order"
    description = "Change size, colour, quantity or items of an order that has not been packed."
    condition = (
        "The customer wants to keep an order that has not been packed, "
        "but with other contents: another size, colour or quantity, an item more or an item less."
    )
    desired_effects = [
        "The order holds exactly the items the customer wants",
        "The difference in price is charged or paid back",
    ]
    examples = [
        "Can I add a second phone case to the order I just made?",
        "i picked size M by mistake, should be L, its not shipped yet",
        "Please make it three chairs instead of two.",
        "Take the candles out of my basket order, keep everything else. Placed it ten minutes ago.",
        "Oh no, I chose the grey one and wanted the green. The order only just went through, can you switch it?",
        "forgot to put batteries in my order, can they go in the same parcel",
    ]
    tools = ["lookup_order", "search_products", "check_stock", "update_order_items", "charge_difference"]
    steps = [
        "Find the order with lookup_order. Contents can be changed while the status is 'placed', and no later.",
        "Find the wanted items with search_products and check_stock, and say the new total before changing anything.",
        "After a clear yes, call update_order_items, then charge_difference for what is owed in either direction.",
        "If the order is already packed, offer to cancel it and order again, or to exchange the item after delivery.",
    ]


class ChangeOrderAddress(BaseFlow):
    """One parcel goes elsewhere. The address book stays as it is: that is `change_account_address`."""

    name = "change_order_address"
    title = "Change of the address of an order"
    description = "Send one order that is already placed to another address."
    condition = "The customer wants a particular, already placed order to go to another address than the one on it."
    desired_effects = [
        "This order is shipped to the new address",
        "The addresses saved in the account are unchanged",
    ]
    examples = [
        "I typed the wrong house number on the order I made last night, it should be 14 not 41",
        "Can you ship order 77120 to my office instead?",
        "this parcel must go to my sister, I wont be home all week. her address is different obviously",
        "The confirmation shows my old flat as the destination for this purchase. Please redirect that shipment.",
        "wrong zip on my order!! can it still be fixed before it goes out",
        "Would it be possible to have my current order delivered to a neighbour's address rather than mine?",
    ]
    tools = ["lookup_order", "validate_address", "update_order_address", "redirect_parcel"]
    steps = [
        "Find the order with lookup_order. A guest must give its number as well as the email address.",
        "Take the new address and check it with validate_address; repeat it back in full.",
        "If it has not left, call update_order_address. If it has, name the fee, and after a yes call redirect_parcel.",
        "Ask whether later orders should go there too; only then change the address in the account as well.",
    ]
