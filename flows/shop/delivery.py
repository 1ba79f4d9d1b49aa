"""Parcels: what delivery costs, where a parcel is, another day for it, and what to do when it is late or gone."""

from datetime import date, timedelta
from sqlite3 import Row
from typing import Final

from flows.shop.database import NotFoundError, RefusedError, as_day, working_days
from flows.shop.records import (
    DelayReport,
    DeliveryBooking,
    DeliverySlot,
    DeliverySlots,
    Investigation,
    Quote,
    Refund,
    Scan,
    ShippingOption,
    ValidAddress,
)
from flows.shop.rules import Rules

STUCK_DAYS: Final = 5
"""Working days without a scan after which a parcel counts as lost."""
_MOST_SLOTS: Final = 3
_YEAR: Final = 366


class Delivery(Rules):
    """What the carriers do."""

    def quote_shipping(self, country: str, postcode: str = "", wanted_day: str = "") -> Quote:
        """Ways of delivery to a country, the cheapest first: price, days, from which value it is free, duties.

        Args:
            country: Two-letter code, such as DE.
            postcode: Postcode, where it is furniture.
            wanted_day: Day by which it has to be there, such as 2025-12-24; then each way says until when to order.
        """
        code = country.strip().upper()
        rows = self._all("SELECT * FROM shipping_rates WHERE country = :country ORDER BY cents", country=code)
        if not rows:
            served = ", ".join(row[0] for row in self._all("SELECT DISTINCT country FROM shipping_rates"))
            msg = f"we do not ship to {code[:20]}; we ship to {served}"
            raise NotFoundError(msg)
        if postcode and self._all("SELECT 1 FROM postcodes WHERE country = :country", country=code):
            self._one(
                "SELECT 1 FROM postcodes WHERE country = :country AND postcode = :postcode",
                f"the carrier knows no postcode {postcode[:20]} in {code}; ask for it once more",
                country=code,
                postcode=postcode.strip(),
            )
        wanted = as_day(wanted_day, "the wanted day") if wanted_day else None
        if wanted is not None and not 0 <= (wanted - self._today).days <= _YEAR:
            msg = f"the wanted day lies between today, {self._today}, and a year later, not on {wanted}"
            raise RefusedError(msg)
        return Quote(options=tuple(self._option(row, wanted) for row in rows))

    def get_tracking(self, tracking_number: str | None) -> Scan:
        """Where a parcel was last seen, and when it is expected.

        Args:
            tracking_number: Number of the parcel, as lookup_order or lookup_return gives it.
        """
        if tracking_number is None:
            msg = "the order has not been handed to a carrier yet"
            raise NotFoundError(msg)
        row = self._one(
            "SELECT * FROM scans WHERE tracking = :tracking ORDER BY day DESC, rowid DESC LIMIT 1",
            f"there is no scan of parcel {tracking_number}; lookup_order gives the number of an order's parcel",
            tracking=tracking_number,
        )
        return Scan(
            last_seen_on=row["day"],
            last_place=row["place"],
            expected_on=row["expected_on"],
            expectation=self._expectation(row["expected_on"]),
            working_days_since=working_days(date.fromisoformat(row["day"]), self._today),
            tracking_link=f"https://carrier.example/{tracking_number}",
        )

    def _expectation(self, day: str) -> str:
        """Say on which day a parcel is expected, or was if that day has passed."""
        is_over = date.fromisoformat(day) < self._today
        return f"It was expected on {day}." if is_over else f"We expect it on {day}."

    def validate_address(self, address: str) -> ValidAddress:
        """Check that the carrier knows an address, and give it as it is to be written.

        Args:
            address: "street and number, postcode city, country", such as "Lindenweg 14, 04103 Leipzig, DE".
        """
        return ValidAddress(address=self._checked_address(address))

    def list_delivery_slots(self, tracking_number: str) -> DeliverySlots:
        """At most three free days, times and pickup points to which a parcel on its way can be moved.

        Args:
            tracking_number: Number of the parcel, as lookup_order gives it.
        """
        order = self._under_way(tracking_number)
        rows = self._all(
            "SELECT * FROM delivery_slots WHERE country = :country AND tracking IS NULL AND day > :today "
            "ORDER BY day, hours LIMIT :most",
            country=order["address"][-2:],
            today=self._today.isoformat(),
            most=_MOST_SLOTS,
        )
        if not rows:
            msg = f"the carrier of {tracking_number} offers no change; it keeps the parcel for seven days at its depot"
            raise NotFoundError(msg)
        return DeliverySlots(slots=tuple(_slot(row) for row in rows))

    def book_delivery_slot(self, tracking_number: str, slot_number: str) -> DeliveryBooking:
        """Move a parcel on its way to a free slot; one that it had before is free again.

        Args:
            tracking_number: Number of the parcel.
            slot_number: Number that list_delivery_slots gave (SL-...).
        """
        with self._writing():
            order = self._under_way(tracking_number)
            row = self._one(
                "SELECT * FROM delivery_slots WHERE number = :number",
                f"there is no slot {slot_number}; list_delivery_slots gives the free ones",
                number=slot_number,
            )
            free = row["tracking"] in (None, tracking_number) and row["day"] > self._today.isoformat()
            if not free or row["country"] != order["address"][-2:]:
                msg = f"slot {slot_number} is not free for {tracking_number}; list_delivery_slots gives the free ones"
                raise RefusedError(msg)
            self._change(
                "UPDATE delivery_slots SET tracking = NULL WHERE tracking = :tracking", tracking=tracking_number
            )
            self._change(
                "UPDATE delivery_slots SET tracking = :tracking WHERE number = :number",
                tracking=tracking_number,
                number=slot_number,
            )
            return DeliveryBooking(booked=_slot(row))

    def report_delay(self, order_number: str) -> DelayReport:
        """Report to the carrier that an order is late and its parcel still moving, once."""
        with self._writing():
            order = self._late(order_number)
            if self._stuck(order):
                msg = f"the parcel of order {order_number} is lost, not late; call open_carrier_investigation"
                raise RefusedError(msg)
            if self._maybe("SELECT 1 FROM delays WHERE order_number = :number", number=order_number):
                msg = f"the delay of order {order_number} was reported already"
                raise RefusedError(msg)
            number = self._insert(
                "delays",
                "DL",
                order_number=order_number,
                promised_on=order["promised_on"],
                reported_on=self._today.isoformat(),
            )
            return DelayReport(delay_number=number, promised_on=order["promised_on"])

    def refund_shipping_fee(self, order_number: str) -> Refund:
        """Pay back the fee of an express delivery that came too late, once."""
        with self._writing():
            order = self._late(order_number)
            if order["shipping"] != "express" or not order["shipping_fee"]:
                msg = f"order {order_number} went by {order['shipping']}; only an express fee is paid back"
                raise RefusedError(msg)
            self._pay_back(order_number, order_number, order["shipping_fee"])
            return self._refund(order_number)

    def open_carrier_investigation(self, order_number: str, report: str = "") -> Investigation:
        """Have the carrier look for a parcel that is marked as delivered and not there, or without a trace, once.

        Args:
            order_number: Number of the order.
            report: Police report or video of a theft, where there is one.
        """
        with self._writing():
            order = self._order(order_number)
            kind = "marked_as_delivered" if order["status"] == "delivered" else "without_a_trace"
            if order["status"] not in {"shipped", "delivered"} or order["tracking"] is None:
                msg = f"order {order_number} is {order['status']} and has no parcel that could be lost"
                raise RefusedError(msg)
            if order["status"] == "shipped" and not self._stuck(order):
                msg = f"the parcel of order {order_number} is still moving; once it is late, call report_delay"
                raise RefusedError(msg)
            for line in self._lines(order_number):
                self._refuse_settled(order_number, line["sku"])
            waits = kind == "marked_as_delivered" and not report.strip()
            answer_by = self._today
            while waits and working_days(self._today, answer_by) < 2:  # noqa: PLR2004 - two working days
                answer_by += timedelta(days=1)
            number = self._insert(
                "investigations",
                "V",
                order_number=order_number,
                kind=kind,
                report=report.strip(),
                opened_on=self._today.isoformat(),
                answer_by=answer_by.isoformat(),
            )
            return Investigation(case_number=number, kind=kind, settle_from=answer_by.isoformat(), must_wait=waits)

    def _option(self, row: Row, wanted: date | None) -> ShippingOption:
        """One way of delivery, and until when to order where there is a wanted day."""
        last = wanted
        while last is not None and working_days(last, wanted or last) < row["days"]:
            last -= timedelta(days=1)
        late = last is not None and last < self._today
        return ShippingOption(
            way=row["way"],
            cents=row["cents"],
            working_days=row["days"],
            free_from_cents=row["free_from"] or None,
            customer_pays_duties=bool(row["duties"]),
            order_until=None if last is None or late else last.isoformat(),
            too_late=late,
        )

    def _under_way(self, tracking_number: str) -> Row:
        """The order of a parcel that can still be moved."""
        order = self._one(
            "SELECT * FROM orders WHERE tracking = :tracking "
            "OR number = (SELECT order_number FROM more_parcels WHERE tracking = :tracking)",
            f"there is no parcel {tracking_number}; lookup_order gives the number of an order's parcel",
            tracking=tracking_number,
        )
        if order["status"] != "shipped":
            msg = f"parcel {tracking_number} is {order['status']} and cannot be moved"
            raise RefusedError(msg)
        return order

    def _late(self, order_number: str) -> Row:
        order = self._order(order_number)
        reached = order["delivered_on"] or self._today.isoformat()
        if (
            order["status"] not in {"shipped", "delivered"}
            or not order["promised_on"]
            or order["promised_on"] >= reached
        ):
            msg = f"order {order_number} is not late: it is {order['status']}, promised for {order['promised_on']}"
            raise RefusedError(msg)
        return order

    def _stuck(self, order: Row) -> bool:
        row = self._maybe("SELECT max(day) AS day FROM scans WHERE tracking = :tracking", tracking=order["tracking"])
        seen = order["placed_on"] if row is None or row["day"] is None else row["day"]
        return working_days(date.fromisoformat(seen), self._today) >= STUCK_DAYS


def _slot(row: Row) -> DeliverySlot:
    return DeliverySlot(slot_number=row["number"], day=row["day"], hours=row["hours"], place=row["place"])
