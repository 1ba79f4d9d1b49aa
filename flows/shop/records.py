"""What the tools of the shop give about goods: one frozen record each, with fields named as other tools name inputs."""

from dataclasses import dataclass
from typing import Literal

# --- orders


@dataclass(frozen=True, slots=True)
class AddressChange:
    """Where an order goes to now."""

    order_number: str
    ships_to: str


@dataclass(frozen=True, slots=True)
class Cancellation:
    """An order that will not be shipped."""

    cancellation_number: str
    total_cents: int


@dataclass(frozen=True, slots=True)
class Charge:
    """What an exchange or a change of items cost, or gave back where it is below zero."""

    charged_cents: int
    account: str


@dataclass(frozen=True, slots=True)
class GiftOptions:
    """How an order is wrapped."""

    order_number: str
    paper: str
    card_text: str
    prices_hidden: bool
    gift_cents: int


@dataclass(frozen=True, slots=True)
class ItemChange:
    """Other contents of an order, and what they change in price."""

    change_number: str
    total_cents: int
    difference_cents: int


@dataclass(frozen=True, slots=True)
class OrderItem:
    """An article of an order."""

    sku: str
    title: str
    quantity: int
    price_cents: int


@dataclass(frozen=True, slots=True)
class Order:
    """An order. `sku` and `title` are of the article that is meant; where that is not clear there is no sku."""

    order_number: str
    status: Literal["basket", "placed", "packed", "shipped", "delivered", "cancelled", "held"]
    placed_on: str
    promised_on: str | None
    delivered_on: str | None
    sku: str | None
    title: str
    items: tuple[OrderItem, ...]
    total_cents: int
    shipping: str
    shipping_fee_cents: int
    ships_to: str
    tracking_number: str | None
    more_parcels: tuple[str, ...]
    other_orders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OrderList:
    """All orders of a customer, the latest first."""

    orders: tuple[Order, ...]


@dataclass(frozen=True, slots=True)
class Redirect:
    """A parcel that goes elsewhere."""

    redirect_number: str
    ships_to: str
    fee_cents: int
    fee_is_paid_to: str


@dataclass(frozen=True, slots=True)
class Release:
    """A payment that is no longer reserved, or is on its way back."""

    released_cents: int
    released: str
    back_on: str


# --- goods that go back


@dataclass(frozen=True, slots=True)
class ReturnWindow:
    """Whether, and for how much, an article can go back."""

    eligibility: Literal["returnable", "too_late", "not_delivered", "opened_hygiene"]
    days_left: int
    refundable_cents: int


@dataclass(frozen=True, slots=True)
class Return:
    """A return that is registered."""

    return_number: str
    sku: str
    label: str
    refundable_cents: int
    arrived_on: str | None
    deduction: str
    tracking_number: str | None


@dataclass(frozen=True, slots=True)
class ReturnEnd:
    """A return that was called off: the customer keeps the article."""

    return_number: str
    kept_sku: str


@dataclass(frozen=True, slots=True)
class Refund:
    """Money on its way back."""

    refund_number: str
    refunded_cents: int
    refunded: str
    account: str
    refund_expected_on: str
    deduction: str


@dataclass(frozen=True, slots=True)
class Label:
    """A prepaid label, and where it was sent."""

    label: str
    label_sent_to: str


@dataclass(frozen=True, slots=True)
class DropoffPoint:
    """A place where a return can be handed in."""

    name: str
    address: str


@dataclass(frozen=True, slots=True)
class DropoffPoints:
    """The nearest of them."""

    points: tuple[DropoffPoint, ...]


@dataclass(frozen=True, slots=True)
class AccountingCase:
    """A refund that accounting looks into."""

    accounting_case: str
    answer_by: str


@dataclass(frozen=True, slots=True)
class Credit:
    """A code that is worth money in the shop."""

    credit_code: str
    credit_cents: int


@dataclass(frozen=True, slots=True)
class Exchange:
    """Another article on its way, for one that comes back."""

    exchange_number: str
    difference_cents: int
    hand_in_by: str


# --- what arrived broken, wrong or incomplete, or broke later


@dataclass(frozen=True, slots=True)
class PhotoRequest:
    """Whether photos are there, or were asked for."""

    photos: Literal["requested", "received"]
    photos_sent_to: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim that is registered."""

    case_number: str
    claimed_sku: str
    must_come_back: bool


@dataclass(frozen=True, slots=True)
class Replacement:
    """What is sent once more."""

    replacement_number: str
    replaced_skus: tuple[str, ...]
    arrives_by: str


@dataclass(frozen=True, slots=True)
class SparePart:
    """A part on its way."""

    spare_part_number: str
    part: str
    arrives_by: str


@dataclass(frozen=True, slots=True)
class Pickup:
    """When and where the carrier collects."""

    pickup_number: str
    collected_on: str
    collected_at: str


@dataclass(frozen=True, slots=True)
class Warranty:
    """Until when an article is covered."""

    covered: bool
    covered_until: str
    except_for: str
    repair_cents: int
    repair_is_dearer: bool


@dataclass(frozen=True, slots=True)
class RepairCase:
    """How a fault is settled: repaired, replaced, or repaired at cost."""

    case_number: str
    outcome: Literal["repair", "replace", "at_cost"]
    quote_cents: int


# --- parcels


@dataclass(frozen=True, slots=True)
class Scan:
    """Where a parcel was last seen."""

    last_seen_on: str
    last_place: str
    expected_on: str
    expectation: str
    working_days_since: int
    tracking_link: str


@dataclass(frozen=True, slots=True)
class ShippingOption:
    """A way of delivery; `order_until` where there is a wanted day and time enough."""

    way: str
    cents: int
    working_days: int
    free_from_cents: int | None
    customer_pays_duties: bool
    order_until: str | None
    too_late: bool


@dataclass(frozen=True, slots=True)
class Quote:
    """The ways of delivery to a country, the cheapest first."""

    options: tuple[ShippingOption, ...]


@dataclass(frozen=True, slots=True)
class ValidAddress:
    """An address that the carrier knows."""

    address: str


@dataclass(frozen=True, slots=True)
class DeliverySlot:
    """A day, time and place for a parcel."""

    slot_number: str
    day: str
    hours: str
    place: str


@dataclass(frozen=True, slots=True)
class DeliverySlots:
    """Those that are free."""

    slots: tuple[DeliverySlot, ...]


@dataclass(frozen=True, slots=True)
class DeliveryBooking:
    """The one that was booked."""

    booked: DeliverySlot


@dataclass(frozen=True, slots=True)
class DelayReport:
    """A delay that the carrier knows of."""

    delay_number: str
    promised_on: str


@dataclass(frozen=True, slots=True)
class Investigation:
    """A parcel that the carrier looks for; replacement or refund from `settle_from` on."""

    case_number: str
    kind: str
    settle_from: str
    must_wait: bool


# --- products


@dataclass(frozen=True, slots=True)
class Product:
    """A product and its facts."""

    sku: str
    title: str
    brand: str
    price_cents: int
    stock: int
    facts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProductList:
    """Products that were found."""

    products: tuple[Product, ...]


@dataclass(frozen=True, slots=True)
class ProductComparison:
    """Products beside each other; `differences` are the facts that not all share."""

    products: tuple[Product, ...]
    differences: dict[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Availability:
    """How many of an article there are, and what it costs."""

    wanted_sku: str
    in_stock: int
    wanted_cents: int
    expected_on: str | None
    discontinued: bool
    successor_sku: str | None


@dataclass(frozen=True, slots=True)
class StockAlert:
    """Who hears of it when an article is back."""

    alert_number: str
    alert_goes_to: str
    expected_on: str | None


@dataclass(frozen=True, slots=True)
class ManualPassage:
    """What the manual says."""

    topic: str
    text: str


@dataclass(frozen=True, slots=True)
class DiagnosticStep:
    """What to try."""

    step: str
    attempt: int
    attempts_left: int
