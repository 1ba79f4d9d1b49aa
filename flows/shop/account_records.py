"""What the tools of the shop give about customers and their money: one frozen record each, as in `records.py`."""

from dataclasses import dataclass

# --- accounts


@dataclass(frozen=True, slots=True)
class SavedAddress:
    """An address of the address book."""

    kind: str
    address: str


@dataclass(frozen=True, slots=True)
class Account:
    """The state of an account."""

    account_email: str
    name: str
    account_status: str
    lock_reason: str | None
    second_factor: str
    saved_addresses: tuple[SavedAddress, ...]
    points: int
    credit_cents: int
    lately_changed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PasswordReset:
    """Where the link went, if there is an account."""

    link_goes_to: str
    valid_minutes: int


@dataclass(frozen=True, slots=True)
class CodeSent:
    """Where a code went."""

    code_sent_to: str


@dataclass(frozen=True, slots=True)
class Verification:
    """How many proofs a customer gave."""

    verified: bool
    proofs: int


@dataclass(frozen=True, slots=True)
class SecondFactor:
    """How the second factor stands."""

    second_factor: str


@dataclass(frozen=True, slots=True)
class ContactDetails:
    """What is on file again."""

    contact_email: str
    phone: str


@dataclass(frozen=True, slots=True)
class SignedOut:
    """How many sign-ins were ended."""

    ended_sign_ins: int


@dataclass(frozen=True, slots=True)
class OpenMatters:
    """What keeps an account open."""

    open_orders: tuple[str, ...]
    open_returns: tuple[str, ...]
    running_subscriptions: tuple[str, ...]
    gift_card_cents: int
    credit_cents: int
    all_settled: bool


@dataclass(frozen=True, slots=True)
class AccountClosed:
    """An account that is closed, and until when what is kept."""

    closed_on: str
    undo_until: str
    invoices_kept_until: str


# --- money


@dataclass(frozen=True, slots=True)
class ChargeLine:
    """One charge or reservation."""

    charge_number: str
    cents: int
    charge_status: str
    day: str
    account: str


@dataclass(frozen=True, slots=True)
class Charges:
    """All of an order, and how much is too much."""

    order_total_cents: int
    charges: tuple[ChargeLine, ...]
    excess_cents: int


@dataclass(frozen=True, slots=True)
class FoundCharge:
    """A charge that fits, without saying whose it is."""

    charge_number: str
    day: str
    cents: int
    order_status: str


@dataclass(frozen=True, slots=True)
class FraudCase:
    """A charge that is disputed."""

    fraud_case: str
    answer_by: str
    shipment_stopped: bool


@dataclass(frozen=True, slots=True)
class CardBlocked:
    """A card that buys nothing here any more."""

    blocked: str


@dataclass(frozen=True, slots=True)
class Invoice:
    """An invoice as a document."""

    invoice_number: str
    document: str
    invoice_name: str
    vat_number: str
    cents: int
    issued_on: str


@dataclass(frozen=True, slots=True)
class PaymentAttempt:
    """A payment that failed, and why."""

    day: str
    method: str
    reason: str


@dataclass(frozen=True, slots=True)
class PaymentAttempts:
    """The last ones, and the basket they were for."""

    attempts: tuple[PaymentAttempt, ...]
    basket_number: str
    basket_cents: int


@dataclass(frozen=True, slots=True)
class PaymentMethod:
    """A means of payment."""

    method: str
    usable: bool
    why_not: str


@dataclass(frozen=True, slots=True)
class PaymentMethods:
    """Those of a customer."""

    methods: tuple[PaymentMethod, ...]


@dataclass(frozen=True, slots=True)
class PaymentLink:
    """A link with which a basket is paid."""

    link: str
    pay_cents: int
    valid_until: str


@dataclass(frozen=True, slots=True)
class PromoCode:
    """The terms of a code, and the one that rules it out."""

    code: str
    percent: int
    valid_until: str
    min_cents: int
    excluded_brand: str
    first_order_only: bool
    ruled_out_by: str
    other_codes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Discount:
    """What a code takes off an order, and whether that is to be refunded because it is paid already."""

    discount_number: str
    discount_cents: int
    to_be_refunded: bool


@dataclass(frozen=True, slots=True)
class GiftCard:
    """What is left on a gift card."""

    card_number: str
    card_status: str
    balance_cents: int
    expires_on: str


@dataclass(frozen=True, slots=True)
class Redeemed:
    """What was booked to an account, and what it holds now."""

    booked_cents: int
    credit_cents: int


@dataclass(frozen=True, slots=True)
class NewGiftCard:
    """The card that takes the place of another."""

    new_card_number: str
    balance_cents: int


# --- subscriptions


@dataclass(frozen=True, slots=True)
class Subscription:
    """What comes by itself."""

    subscription_number: str
    subscription_status: str
    subscribed_sku: str
    title: str
    quantity: int
    every_weeks: int
    box_cents: int
    next_delivery: str
    next_box_is_packed: bool
    paused_until: str | None
    paid_until: str


@dataclass(frozen=True, slots=True)
class SubscriptionEnd:
    """A subscription that has ended."""

    subscription_number: str
    ended_on: str
    one_more_box_on: str | None
    paid_back: str


# --- the desk


@dataclass(frozen=True, slots=True)
class Email:
    """A letter to a customer."""

    message_number: str
    sent_to: str


@dataclass(frozen=True, slots=True)
class Summary:
    """What a colleague reads first."""

    summary_number: str
    first_sentence: str


@dataclass(frozen=True, slots=True)
class Colleague:
    """Who is free first."""

    colleague: str
    team: str
    waiting_minutes: int


@dataclass(frozen=True, slots=True)
class Transfer:
    """Who has taken over."""

    transfer_number: str
    taken_over_by: str
    waiting_minutes: int


@dataclass(frozen=True, slots=True)
class CallbackSlot:
    """A free time for a call."""

    slot_number: str
    day: str
    hours: str


@dataclass(frozen=True, slots=True)
class CallbackSlots:
    """All of them."""

    slots: tuple[CallbackSlot, ...]


@dataclass(frozen=True, slots=True)
class Callback:
    """A call that is booked."""

    callback_number: str
    call_on: str
    hours: str
    phone: str
