"""Money: charges that surprise, payments that fail, invoices, codes and gift cards."""

from jazz_select import BaseFlow


class DuplicateCharge(BaseFlow):
    """The purchase is known, the sum is wrong. When the purchase is unknown, it is `unknown_charge`."""

    name = "duplicate_charge"
    title = "Refund of a charge made twice"
    description = "Check whether an order was charged twice or too high, and pay the excess back."
    condition = "The customer knows the purchase and sees it charged more than once, or with too high an amount."
    desired_effects = [
        "It is clear which charges are real and which are reservations",
        "What was overcharged is paid back",
    ]
    examples = [
        "I was charged twice for the same order.",
        "My card statement shows 49.90 two times on the same day but I bought only one lamp",
        "why did u take the money 2x",
        "Payment froze, I pressed the button again, and now both payments have gone through. Please reverse one.",
        "The receipt says 80 and my bank took 92. Where do the other twelve come from?",
        "Paid with the wallet AND the card got debited. One is enough, surely?",
    ]
    tools = ["lookup_order", "list_charges", "issue_refund"]
    aliases = ["double charge", "overcharge"]
    steps = [
        "Find the order with lookup_order and read its payments with list_charges.",
        "Tell charges from reservations: a reservation vanishes by itself within seven days.",
        "If there are two real charges, or one too high, call issue_refund for the excess and say when it arrives.",
        "If each charge belongs to an order of its own, name the orders with day and amount.",
    ]


class UnknownCharge(BaseFlow):
    """The customer does not know the purchase at all, so it may be fraud."""

    name = "unknown_charge"
    title = "Look into an unknown charge"
    description = "Find out where an unrecognised charge comes from, and act if it is fraud."
    condition = "The customer sees a charge from us and does not recognise any purchase behind it."
    desired_effects = [
        "The origin of the charge is known",
        "In case of fraud the payment is disputed and the card is blocked in our shop",
    ]
    examples = [
        "There's a payment to you on my credit card that I never made.",
        "what is this 129 from your shop?? i havent bought anything in months",
        "I don't recognise a transaction from the 14th. I'm not even a customer of yours!",
        "Somebody seems to be using my card in your store, the bank told me to ask you.",
        "My husband swears it wasn't him, and it wasn't me. So who bought something for 300 dollars?",
        "Unfamiliar debit on my statement with your name on it, please explain.",
        "I never bought this.",
    ]
    tools = ["search_charges", "block_card", "open_fraud_case"]
    aliases = ["fraudulent charge"]
    priority = (1, 0)
    steps = [
        "Ask for the day, the amount and the last four digits of the card. Never ask for the whole number.",
        "Call search_charges. Ask about a renewed subscription and the household, but reveal nobody else's order.",
        "If the customer still does not know it, call block_card, then open_fraud_case, which stops an open shipment.",
        "Advise the customer to tell the bank as well, and say that we answer within two working days.",
    ]


class InvoiceCopy(BaseFlow):
    name = "invoice_copy"
    title = "Copy of an invoice"
    description = "Send an invoice or a receipt again, or correct the details on it."
    condition = "The customer needs an invoice or a receipt as a document, or a detail on it corrected."
    desired_effects = ["The customer has the right document as a PDF"]
    examples = [
        "Please send me the invoice for my March order, I need it for my tax return.",
        "cant find the receipt anywhere, can u mail it again",
        "Our accounting department requires the bill made out to the company, with VAT number.",
        "How do I download a PDF of what I paid?",
        "The invoice carries my maiden name. Could that be corrected?",
        "insurance wants proof of purchase for the bike",
    ]
    tools = ["lookup_order", "create_invoice_pdf", "send_email"]
    aliases = ["receipt"]
    steps = [
        "Find the order with lookup_order.",
        "If details are to be changed, take them down and repeat them; the amount and the date never change.",
        "Call create_invoice_pdf and send it with send_email to the address in the account.",
        "Show where all invoices can be downloaded: account, orders, documents.",
    ]


class PaymentDeclined(BaseFlow):
    """Nothing was bought yet, because the payment fails."""

    name = "payment_declined"
    title = "Help with a declined payment"
    description = "Help a customer whose payment is refused at checkout."
    condition = "A payment fails or is refused at checkout, so that the order cannot be placed."
    desired_effects = [
        "The customer knows why the payment fails",
        "The order is placed, with the same or another means of payment",
    ]
    examples = [
        "My card keeps getting declined at checkout.",
        "payment failed payment failed payment failed. theres money on it!!",
        "I approve it on the bank's page, and then your site says that something went wrong.",
        "It won't accept my Visa although it works everywhere else.",
        "checkout throws error 402, what am i doing wrong",
        "Can I pay in another way? Neither of my cards seems to go through.",
    ]
    tools = ["lookup_payment_attempts", "list_payment_methods", "create_payment_link"]
    steps = [
        "Read the reason of the last refusals with lookup_payment_attempts.",
        "Say it in plain words: wrong expiry date, limit reached, not confirmed in the banking app, address mismatch.",
        "Offer another way from list_payment_methods, or send a link by create_payment_link, valid for 24 hours.",
        "If our side is at fault, say so and keep the basket for the customer.",
    ]


class ApplyPromoCode(BaseFlow):
    name = "apply_promo_code"
    title = "Promotion code on an order"
    description = "Find out why a discount code does not work, and apply it where its terms allow."
    condition = "The customer has a discount, voucher or promotion code that does not work or was forgotten."
    desired_effects = ["The discount is applied, or the customer knows which term rules it out"]
    examples = [
        "My discount code isn't working.",
        "WELCOME10 says invalid, i only just got it in your newsletter",
        "I forgot to type in the voucher when I paid. Can you take the 15% off afterwards?",
        "Can two coupons be combined?",
        "A friend gave me a referral link but the basket still shows the full price :(",
        "student rebate disappeared from my basket when i added a sale item",
    ]
    tools = ["lookup_order", "lookup_promo_code", "apply_discount", "issue_refund"]
    aliases = ["voucher", "coupon"]
    steps = [
        "Ask for the code as it is written; find the order with lookup_order, and the code with lookup_promo_code.",
        "Check its terms: dates, minimum value, excluded brands, first order only, one code for each order.",
        "If they are met, call apply_discount on an order of the last three days; issue_refund pays it back.",
        "If not, name the one term that rules it out, and a promotion that is open to this customer, if there is one.",
    ]


class GiftCardHelp(BaseFlow):
    """A gift card is money that was paid; a promotion code is a discount."""

    name = "gift_card_help"
    title = "Help with a gift card"
    description = "Check the balance of a gift card, help to redeem it, or replace a lost one."
    condition = (
        "The customer asks about a gift card: its balance, how to redeem it, or one that is lost or not accepted."
    )
    desired_effects = ["The balance is known", "The gift card can be used, or has been replaced"]
    examples = [
        "How much is left on my gift card?",
        "grandma gave me a gift card, where do i put the number in",
        "I've scratched the field too hard and can't read the last digits of the card any more.",
        "Is it possible to pay part with the gift card and the rest by bank transfer?",
        "The e-card I bought for my colleague never reached her inbox.",
        "do gift cards expire",
    ]
    tools = ["lookup_gift_card", "redeem_gift_card", "replace_gift_card"]
    steps = [
        "Ask for the card number, or for the order in which the card was bought, and call lookup_gift_card.",
        "Say the balance and the expiry date: five years after purchase.",
        "Help to redeem it at checkout, or book it to the account with redeem_gift_card.",
        "A lost or unreadable card is replaced with replace_gift_card, for whoever can show the purchase.",
    ]
