"""What the tools of the shop give: one frozen record each, whose fields are named as other tools name their inputs."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Order:
    """An order of one article."""

    order_number: str
    status: Literal["placed", "packed", "shipped", "delivered", "cancelled"]
    placed_on: str
    delivered_on: str | None
    sku: str
    title: str
    total_cents: int
    tracking_number: str | None


@dataclass(frozen=True, slots=True)
class Scan:
    """Where a parcel was last seen."""

    last_seen_on: str
    last_place: str
    expected_on: str


@dataclass(frozen=True, slots=True)
class ReturnWindow:
    """Whether, and for how much, an order can go back."""

    eligibility: Literal["returnable", "too_late", "not_delivered", "opened_hygiene"]
    days_left: int
    refundable_cents: int


@dataclass(frozen=True, slots=True)
class Return:
    """A return that is registered."""

    return_number: str
    label: str
    refundable_cents: int
    arrived_on: str | None


@dataclass(frozen=True, slots=True)
class Refund:
    """Money on its way back."""

    refund_number: str
    refunded_cents: int
    refunded: str
    account: str
    refund_expected_on: str


@dataclass(frozen=True, slots=True)
class Credit:
    """A code that is worth money in the shop."""

    credit_code: str
    credit_cents: int


@dataclass(frozen=True, slots=True)
class Availability:
    """How many of an article there are, and what it costs."""

    wanted_sku: str
    in_stock: int
    wanted_cents: int


@dataclass(frozen=True, slots=True)
class Exchange:
    """Another article on its way, for one that comes back."""

    exchange_number: str
    difference_cents: int


@dataclass(frozen=True, slots=True)
class Charge:
    """What an exchange cost or gave back."""

    charged_cents: int
    account: str


@dataclass(frozen=True, slots=True)
class Cancellation:
    """An order that will not be shipped."""

    cancellation_number: str
    total_cents: int


@dataclass(frozen=True, slots=True)
class Release:
    """A payment that is no longer reserved."""

    released_cents: int
