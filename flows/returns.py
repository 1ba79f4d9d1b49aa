"""Goods that go back: refund, exchange, label, and what arrived damaged, wrong or broke later."""

from jazz_select import BaseFlow
from jazz_select.routing import GuidedDecisionPoint


class RefundOrder(BaseFlow):
    """Money back for something that works. A replacement of any kind belongs to one of the neighbours."""

    name = "refund_order"
    title = "Refund of an order"
    description = "Take back a delivered item and refund the money."
    condition = (
        "The customer has received an item that is as ordered and intact, does not want to keep it, "
        "and wants the money back rather than another item."
    )
    desired_effects = [
        "The return is registered",
        "The refund to the original payment method is scheduled",
    ]
    examples = [
        "I want my money back for the headphones, they're just not for me.",
        "Process a refund for my last order",
        "the rug looks nothing like in my head lol, can i return it and get refunded",
        "I bought two coats to choose from and am keeping one. How do I get reimbursed for the other?",
        "Not happy with the coffee machine, too loud. It came last week. Refund please.",
        "Hello, my mother no longer needs the walking frame. It is unopened. Would you take it back and pay us?",
        "changed my mind after it arrived",
    ]
    tools = ["lookup_order", "check_return_window", "create_return", "issue_refund", "offer_store_credit"]
    chain = (
        "lookup_order",
        "check_return_window",
        GuidedDecisionPoint(
            after_step="check_return_window",
            candidate_tools=["create_return", "offer_store_credit"],
            when={"create_return": {"eligibility": "returnable"}},
        ),
        GuidedDecisionPoint(after_step="create_return", candidate_tools=["issue_refund"]),
    )
    reply = (
        "The return {return_number} is registered, and {label} is on its way to you. "
        "{refunded} will be back on {account} by {refund_expected_on}."
    )
    aliases = ["money back"]
    steps = [
        "Find the order with lookup_order and ask which items go back, if there are several.",
        "Call check_return_window: 30 days from delivery, hygiene articles only unopened.",
        "Register the return with create_return and send the label along.",
        "Schedule the refund with issue_refund, and say on which day the money is back, and where.",
        "Outside the window, decline kindly, and offer_store_credit if the item is unused.",
    ]


class ExchangeItem(BaseFlow):
    """The customer still wants the product, in another variant."""

    name = "exchange_item"
    title = "Exchange of an item"
    description = "Swap a delivered item for another size, colour or model."
    condition = (
        "The customer has received an item that is as ordered and intact, "
        "and wants to swap it for another size, colour or model instead of money."
    )
    desired_effects = [
        "The wanted variant is reserved and on its way",
        "The first item is registered for return, without a second payment",
    ]
    examples = [
        "The shoes are too small, can I swap them for a 43?",
        "Love the jacket but in blue it makes me look ill, could I have the black one instead?",
        "need a bigger size, these jeans dont close",
        "Got the 60 cm shelf and it turns out I need the 80 cm one. I'd pay the difference.",
        "exchange for another colour please",
        "Is it possible to trade the starter set I received for the professional set?",
        "My husband got the left-handed golf glove he asked for, but needs a right-handed one after all. Same model!",
    ]
    tools = [
        *("lookup_order", "check_return_window", "search_products", "check_stock", "create_exchange"),
        "charge_difference",
    ]
    aliases = ["swap"]
    steps = [
        "Find the order with lookup_order and confirm the item, and the variant that is wanted instead.",
        "Call check_return_window; find the wanted variant with search_products, and look at it with check_stock.",
        "Say the difference in price, if any, and after a clear yes call create_exchange and charge_difference.",
        "Explain that the new item leaves at once, and that the old one must be handed in within 14 days.",
        "If the variant is sold out, offer a refund or a message when it is back.",
    ]


class ReturnLabel(BaseFlow):
    """Paper, not permission: the return is agreed and only the label is missing."""

    name = "return_label"
    title = "Label for a return"
    description = "Send the label, QR code or drop-off instructions for a return that is already registered."
    condition = (
        "The customer has already registered a return and needs the shipping label, a new copy of it, "
        "or to know where and how to hand the parcel in."
    )
    desired_effects = ["The customer has a working label or QR code", "The customer knows where to drop the parcel"]
    examples = [
        "I never got the return label by email.",
        "no printer here. is there a qr code or something for sending it back?",
        "Where do I drop off the box I'm sending back to you?",
        "The label in my returns page gives an error when I open the PDF",
        "Which carrier takes your returns? The post office refused it",
        "Could you resend the sticker for return R-40213, please? I've misplaced it.",
    ]
    tools = [
        *("lookup_order", "lookup_return", "create_return", "create_return_label", "find_dropoff_points"),
        "cancel_return",
    ]
    steps = [
        "Find the return with lookup_order and lookup_return. If there is none, register one with create_return.",
        "Call create_return_label: as a PDF, or as a QR code for customers without a printer.",
        "Call find_dropoff_points for the customer's postcode and name the nearest two.",
        "Remind the customer to keep the receipt until the refund has arrived.",
        "If the customer keeps the item after all, call the return off with cancel_return instead.",
    ]


class ReturnStatus(BaseFlow):
    """The goods are on their way back or here; the question is about the money."""

    name = "return_status"
    title = "Status of a return"
    description = "Tell the customer whether a return has arrived and when the refund will be paid."
    condition = "The customer has already sent an item back and asks whether it arrived or when the money comes."
    desired_effects = [
        "The customer knows whether the return has arrived and been checked",
        "The customer knows the day and the account of the refund",
    ]
    examples = [
        "I posted the boots back ten days ago and still haven't been refunded.",
        "did my return arrive yet?",
        "Your mail says 'refund issued' but there's nothing on my card. When will it show up?",
        "sent it all back on the 2nd, wheres the money",
        "The refund I received is 12 euros short. What was deducted?",
        "Could you confirm that the warehouse has my parcel? I returned a tablet and I'm a little nervous about it.",
    ]
    tools = ["lookup_order", "lookup_return", "get_tracking", "lookup_refund", "hand_to_accounting"]
    aliases = ["refund status"]
    steps = [
        "Find the return with lookup_order and lookup_return; follow its parcel with get_tracking if it is on its way.",
        "If it has, read amount, day and account from lookup_refund, and explain each deduction.",
        "Say how long the bank still needs: 3 to 5 working days for cards, one for wallets.",
        "If the refund is overdue by our own rules, apologise and call hand_to_accounting.",
    ]


class DamagedItemClaim(BaseFlow):
    """Broken on arrival. Broken after months of use is `warranty_claim`."""

    name = "damaged_item_claim"
    title = "Claim for a damaged item"
    description = "Settle a claim for an item that arrived broken, damaged or incomplete."
    condition = "An item was broken, damaged, leaking or missing parts when the customer opened the parcel."
    desired_effects = [
        "The damage is documented",
        "A replacement, a missing part or a refund is on its way at no cost to the customer",
    ]
    examples = [
        "The vase arrived in a thousand pieces.",
        "box was crushed and the screen has a crack right out of the packaging",
        "Two screws and one leg are missing from the table I just unpacked.",
        "Shampoo leaked all over everything in the parcel!!! what a mess",
        "Received my order today, unfortunately there is a big scratch across the front. Photos attached.",
        "doa. doesn't switch on, brand new",
    ]
    tools = [
        *("lookup_order", "request_photos", "create_claim", "send_replacement", "send_spare_part", "issue_refund"),
        "create_return_label",
    ]
    aliases = ["dead on arrival"]
    priority = (1, 0)
    steps = [
        "Say sorry, and find the order with lookup_order.",
        "Ask for photos of the item and of the packaging with request_photos, unless the customer has sent them.",
        "Register it with create_claim. Under 30 euros the item need not come back.",
        "Offer the choice: send_replacement, send_spare_part where a part is missing, or issue_refund.",
        "If the item must come back, send a label with create_return_label. The customer never pays for damage.",
    ]


class WrongItemReceived(BaseFlow):
    """Our mistake in packing. A customer's own wrong choice is `exchange_item`."""

    name = "wrong_item_received"
    title = "Wrong item in a parcel"
    description = "Put right a parcel that holds something else than was ordered."
    condition = "The parcel held another product, size, colour or quantity than the order says: a mistake of ours."
    desired_effects = [
        "The item that was ordered is on its way",
        "The wrong item is collected at no cost to the customer",
    ]
    examples = [
        "I ordered a kettle and you sent me a toaster.",
        "wrong thing in the box",
        "this isnt what i bought?? got a dog bed, i dont even have a dog",
        "The order says size 38, in the box were 36s. Your error, I think.",
        "You've mixed up my parcel with somebody else's, there's another person's name on the invoice inside.",
        "Only one pillow was in there although I paid for four",
        "Good morning, the tin is labelled 'white' as ordered, but the paint in it is plainly green.",
    ]
    tools = ["lookup_order", "request_photos", "create_claim", "send_replacement", "book_pickup"]
    steps = [
        "Find the order with lookup_order and compare it with what the customer describes.",
        "Ask for one photo of item and packing slip with request_photos.",
        "Register it with create_claim, and call send_replacement for what was ordered, by express.",
        "Have the wrong item collected with book_pickup, or let the customer keep it if it is worth under 15 euros.",
    ]


class WarrantyClaim(BaseFlow):
    """It worked, then it did not. How to *use* a thing is `troubleshoot_product`."""

    name = "warranty_claim"
    title = "Claim under warranty"
    description = "Open a warranty case for a product that failed after a time of normal use."
    condition = "A product worked at first and developed a fault after weeks, months or years of normal use."
    desired_effects = [
        "It is clear whether the fault is covered",
        "Repair, replacement or a quote for the repair is arranged",
    ]
    examples = [
        "My blender died after eight months. Is it still covered?",
        "the zipper on the backpack i got last year came off, thats a defect isnt it",
        "How long is the guarantee on the robot vacuum? Mine stopped charging over the summer.",
        "Bought the mattress in March, by now there is a hollow in the middle as deep as a soup plate.",
        "tv went black yesterday. purchased 14 months ago. repair??",
        "I'd like to have the watch repaired under warranty; it has been losing ten minutes a day recently.",
    ]
    tools = ["lookup_order", "check_warranty", "request_photos", "create_repair_case", "send_replacement"]
    aliases = ["guarantee", "repair"]
    steps = [
        "Find the purchase with lookup_order; the date of delivery counts, and a receipt is not needed.",
        "Call check_warranty: 24 months, five years on mattresses and furniture frames, wear and falls excepted.",
        "Ask for a short description and a photo or video with request_photos.",
        "Covered: open create_repair_case; where that says that a repair is dearer than the product, send_replacement.",
        "Not covered: say why in one sentence, and offer a repair at cost; after a yes, create_repair_case as well.",
    ]
