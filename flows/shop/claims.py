"""What arrived broken, wrong or incomplete, or broke later: claims, repairs, and what is sent instead."""

from datetime import date
from sqlite3 import Row
from typing import Final, Literal

from flows.shop.database import NotFoundError, RefusedError, as_day
from flows.shop.records import Claim, PhotoRequest, Pickup, RepairCase, Replacement, SparePart, Warranty
from flows.shop.rules import Rules

CLAIM_DAYS: Final = 30
KEPT_IF_DAMAGED: Final = 3000
"""What is damaged and costs less need not come back."""
KEPT_IF_WRONG: Final = 1500
_SUNDAY: Final = 6
_PICKUP_DAYS: Final = 14


class Claims(Rules):
    """What is put right at no cost to the customer."""

    def request_photos(self, order_number: str) -> PhotoRequest:
        """Send the customer a link for photos of an item and its packaging, unless some are there or asked for."""
        with self._writing():
            order = self._order(order_number)
            row = self._maybe("SELECT * FROM photos WHERE order_number = :number", number=order_number)
            if row is None:
                number = self._insert("photos", "PH", order_number=order_number, status="requested")
                self._send(order["email"], f"Photos for order {order_number}", f"https://shop.example/photos/{number}")
            return PhotoRequest(photos="requested" if row is None else row["status"], photos_sent_to=order["email"])

    def create_claim(
        self,
        order_number: str,
        kind: Literal["damaged", "missing_part", "wrong_item"],
        description: str,
        sku: str = "",
    ) -> Claim:
        """Register a claim for an article that arrived damaged, incomplete or as another one; ask for photos first.

        Args:
            order_number: Number of the order.
            kind: What is wrong with it.
            description: What the customer says of it.
            sku: Article of the order, where it holds several.
        """
        with self._writing():
            order, line = self._order(order_number), self._line(order_number, sku)
            if order["delivered_on"] is None:
                msg = f"order {order_number} has not been delivered; there is no claim before that"
                raise RefusedError(msg)
            if (self._today - date.fromisoformat(order["delivered_on"])).days > CLAIM_DAYS:
                msg = f"order {order_number} was delivered on {order['delivered_on']}; look at it with check_warranty"
                raise RefusedError(msg)
            self._refuse_settled(order_number, line["sku"])
            if not self._maybe("SELECT 1 FROM photos WHERE order_number = :number", number=order_number):
                msg = f"there are no photos of order {order_number}; call request_photos first"
                raise RefusedError(msg)
            least = {"damaged": KEPT_IF_DAMAGED, "wrong_item": KEPT_IF_WRONG}.get(kind)
            back = least is not None and line["price"] >= least
            number = self._insert(
                "claims",
                "L",
                order_number=order_number,
                sku=line["sku"],
                kind=kind,
                description=description,
                must_come_back=int(back),
                opened_on=self._today.isoformat(),
            )
            return Claim(case_number=number, claimed_sku=line["sku"], must_come_back=back)

    def send_replacement(self, case_number: str) -> Replacement:
        """Send what was ordered once more, at no cost, where a claim, an investigation or a repair case is open.

        Args:
            case_number: Number of the claim (L-...), the carrier's investigation (V-...) or the repair case (W-...).
        """
        with self._writing():
            order, skus, express = self._to_replace(case_number)
            self._refuse_done(case_number)
            number = ""
            for sku in skus:
                line = self._line(order, sku)
                self._take(sku, line["quantity"])
                number = self._insert(
                    "replacements", "E", case_number=case_number, order_number=order, sku=sku, express=int(express)
                )
            return Replacement(
                replacement_number=number, replaced_skus=tuple(skus), arrives_by=self._after(2 if express else 5)
            )

    def send_spare_part(self, case_number: str, part: str) -> SparePart:
        """Send a part that was missing, once for each claim.

        Args:
            case_number: Number of the claim (L-...) for a missing part.
            part: Which part, and how many of it.
        """
        with self._writing():
            claim = self._claim(case_number)
            if claim["kind"] != "missing_part":
                msg = f"{case_number} is a claim for {claim['kind']}, not for a missing part; use send_replacement"
                raise RefusedError(msg)
            if not part.strip():
                msg = "say which part is missing, and how many of it"
                raise RefusedError(msg)
            self._refuse_done(case_number)
            number = self._insert("spare_parts", "P", case_number=case_number, part=part.strip())
            return SparePart(spare_part_number=number, part=part.strip(), arrives_by=self._after(5))

    def book_pickup(self, case_number: str, day: str) -> Pickup:
        """Have the carrier collect an item that must come back, at the address of the order, once.

        Args:
            case_number: Number of the claim (L-...).
            day: Day of the collection within the next two weeks, such as 2025-06-13; never a Sunday.
        """
        with self._writing():
            claim, wanted = self._claim(case_number), as_day(day, "the day of a collection")
            if not claim["must_come_back"]:
                msg = f"the item of {case_number} need not come back; the customer may keep it"
                raise RefusedError(msg)
            if not 1 <= (wanted - self._today).days <= _PICKUP_DAYS or wanted.weekday() == _SUNDAY:
                msg = f"the carrier collects up to {self._after(_PICKUP_DAYS)}, never on Sundays, and not on {wanted}"
                raise RefusedError(msg)
            if self._maybe("SELECT 1 FROM pickups WHERE case_number = :case", case=case_number):
                msg = f"the collection for {case_number} is booked already"
                raise RefusedError(msg)
            address = self._order(claim["order_number"])["address"]
            number = self._insert("pickups", "PU", case_number=case_number, day=wanted.isoformat(), address=address)
            return Pickup(pickup_number=number, collected_on=wanted.isoformat(), collected_at=address)

    def check_warranty(self, order_number: str, sku: str = "") -> Warranty:
        """Until when an article is under warranty: 24 months from delivery, five years on furniture frames.

        Args:
            order_number: Number of the order.
            sku: Article of the order, where it holds several.
        """
        order, line = self._order(order_number), self._line(order_number, sku)
        if order["delivered_on"] is None:
            msg = f"order {order_number} has not been delivered, so its warranty has not begun"
            raise RefusedError(msg)
        until = _months_after(date.fromisoformat(order["delivered_on"]), line["warranty_months"])
        return Warranty(
            covered=until >= self._today,
            covered_until=until.isoformat(),
            except_for="wear and falls",
            repair_cents=line["repair_cents"],
            repair_is_dearer=line["repair_cents"] > line["price"],
        )

    def create_repair_case(
        self,
        order_number: str,
        fault: str,
        cause: Literal["fault", "wear", "fall"] = "fault",
        at_cost: bool = False,  # noqa: FBT001, FBT002 - a tool's arguments come by name
        sku: str = "",
    ) -> RepairCase:
        """Open a repair under warranty, or at cost where the customer agreed to the price; once for each article.

        Args:
            order_number: Number of the order.
            fault: What is wrong with the product.
            cause: What it came from, by what the customer says.
            at_cost: Whether the customer pays for it, because it is not covered.
            sku: Article of the order, where it holds several.
        """
        with self._writing():
            warranty, line = self.check_warranty(order_number, sku), self._line(order_number, sku)
            covered = warranty.covered and cause == "fault"
            if not covered and not at_cost:
                why = (
                    f"was covered until {warranty.covered_until}" if cause == "fault" else f"is no fault but a {cause}"
                )
                if cause == "wear":
                    why = "is wear and no fault"
                msg = f"order {order_number} {why}; offer a repair at cost for {warranty.repair_cents / 100:.2f} EUR"
                raise RefusedError(msg)
            self._refuse_settled(order_number, line["sku"])
            outcome = "at_cost" if not covered else "replace" if warranty.repair_is_dearer else "repair"
            quote = 0 if covered else warranty.repair_cents
            number = self._insert(
                "repairs", "W", order_number=order_number, sku=line["sku"], fault=fault, outcome=outcome, quote=quote
            )
            return RepairCase(case_number=number, outcome=outcome, quote_cents=quote)

    def _claim(self, case_number: str) -> Row:
        return self._one(
            "SELECT * FROM claims WHERE number = :number",
            f"there is no claim {case_number}; register one with create_claim",
            number=case_number,
        )

    def _to_replace(self, case_number: str) -> tuple[str, list[str], bool]:
        """The order of a case, what of it is sent again, and whether in a hurry."""
        kind = case_number.partition("-")[0]
        if kind == "L":
            claim = self._claim(case_number)
            return claim["order_number"], [claim["sku"]], claim["kind"] == "wrong_item"
        if kind == "V":
            row = self._one(
                "SELECT * FROM investigations WHERE number = :number",
                f"there is no investigation {case_number}; open one with open_carrier_investigation",
                number=case_number,
            )
            self._refuse_waiting(row)
            return row["order_number"], [line["sku"] for line in self._lines(row["order_number"])], False
        if kind == "W":
            row = self._one(
                "SELECT * FROM repairs WHERE number = :number",
                f"there is no repair case {case_number}; open one with create_repair_case",
                number=case_number,
            )
            if row["outcome"] != "replace":
                msg = (
                    f"{case_number} is to be settled by {row['outcome']}, since a repair is not dearer than the product"
                )
                raise RefusedError(msg)
            return row["order_number"], [row["sku"]], False
        msg = f"there is no case {case_number}; create_claim and open_carrier_investigation give such numbers"
        raise NotFoundError(msg)


def _months_after(day: date, months: int) -> date:
    """The same day some months later; of a shorter month its last one."""
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    for last in range(day.day, 27, -1):
        try:
            return date(year, month + 1, last)
        except ValueError:
            continue
    return date(year, month + 1, min(day.day, 28))
