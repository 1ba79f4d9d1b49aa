"""Goods that go back because the customer does not want to keep them, and the money for them."""

import sqlite3
from datetime import date, timedelta
from typing import Final, Literal

from flows.shop.database import NotFoundError, RefusedError
from flows.shop.records import (
    AccountingCase,
    Credit,
    DropoffPoint,
    DropoffPoints,
    Exchange,
    Label,
    Refund,
    Return,
    ReturnEnd,
    ReturnWindow,
)
from flows.shop.rules import Rules

RETURN_DAYS: Final = 30
REFUND_DAYS: Final = 5
_NEAREST: Final = 2


class Returns(Rules):
    """What comes back, and what is paid for it."""

    def check_return_window(self, order_number: str, sku: str = "") -> ReturnWindow:
        """Whether an order can go back: within 30 days of delivery, hygiene articles only unopened.

        Args:
            order_number: Number of the order.
            sku: Article of the order, where it holds several.
        """
        order, line = self._order(order_number), self._line(order_number, sku)
        if order["delivered_on"] is None:
            return ReturnWindow(eligibility="not_delivered", days_left=0, refundable_cents=0)
        last = date.fromisoformat(order["delivered_on"]) + timedelta(days=RETURN_DAYS)
        placed = date.fromisoformat(order["placed_on"])
        if (11, 1) <= (placed.month, placed.day) <= (12, 24):  # presents may go back until the end of January
            last = max(last, date(placed.year + 1, 1, 31))
        left = (last - self._today).days
        if line["hygiene"] and line["opened"]:
            return ReturnWindow(eligibility="opened_hygiene", days_left=left, refundable_cents=0)
        return ReturnWindow(
            eligibility="returnable" if left >= 0 else "too_late",
            days_left=left,
            refundable_cents=self._paid_for(line),
        )

    def create_return(self, order_number: str, sku: str = "") -> Return:
        """Register a return within the window, and send the label along.

        Args:
            order_number: Number of the order.
            sku: Article of the order that goes back, where it holds several.
        """
        with self._writing():
            window, line = self.check_return_window(order_number, sku), self._line(order_number, sku)
            if window.eligibility != "returnable":
                msg = f"order {order_number} cannot go back: {window.eligibility}"
                raise RefusedError(msg)
            self._refuse_settled(order_number, line["sku"])
            number = self._insert(
                "returns",
                "R",
                order_number=order_number,
                sku=line["sku"],
                refundable=window.refundable_cents,
                arrived_on=None,
                deduction="",
                tracking=None,
            )
            self._label(number, "pdf", self._order(order_number)["email"])
            return self.lookup_return(order_number, number)

    def cancel_return(self, return_number: str) -> ReturnEnd:
        """Call a return off that has not arrived and was not refunded: the customer keeps the item.

        Args:
            return_number: Number of the return (R-...).
        """
        with self._writing():
            row = self._case("returns", return_number, "return")
            if row["arrived_on"]:
                msg = f"the parcel of {return_number} arrived on {row['arrived_on']}, so it cannot be called off"
                raise RefusedError(msg)
            self._refuse_done(return_number)
            for table, column in (("labels", "for_number"), ("returns", "number")):
                self._change(f"DELETE FROM {table} WHERE {column} = :number", number=return_number)  # noqa: S608 - ours
        return ReturnEnd(return_number=return_number, kept_sku=row["sku"])

    def lookup_return(self, order_number: str, return_number: str = "") -> Return:
        """Find the return of an order: the one of this number, or the latest.

        Args:
            order_number: Number of the order.
            return_number: Number of the return (R-...), where it was said.
        """
        row = self._one(
            "SELECT * FROM returns WHERE order_number = :order AND (:number = '' OR number = :number) "
            "ORDER BY rowid DESC LIMIT 1",
            f"order {order_number} has no return {return_number}".rstrip() + "; register one with create_return",
            order=order_number,
            number=return_number,
        )
        return Return(
            return_number=row["number"],
            sku=row["sku"],
            label=f"label-{row['number']}.pdf",
            refundable_cents=row["refundable"],
            arrived_on=row["arrived_on"],
            deduction=row["deduction"],
            tracking_number=row["tracking"],
        )

    def create_return_label(self, return_number: str, form: Literal["pdf", "qr"] = "pdf") -> Label:
        """Send the prepaid label of a return, or of a claim whose item must come back, to the customer once more.

        Args:
            return_number: Number of the return (R-...) or of the claim (L-...).
            form: As a PDF, or as a QR code for customers without a printer.
        """
        with self._writing():
            table = "claims" if return_number.startswith("L-") else "returns"
            row = self._one(
                f"SELECT {table}.*, email FROM {table} JOIN orders ON orders.number = order_number "  # noqa: S608
                f"WHERE {table}.number = :number",
                f"there is no return {return_number}; find it with lookup_return",
                number=return_number,
            )
            if table == "returns" and row["arrived_on"]:
                msg = f"the parcel of {return_number} arrived on {row['arrived_on']} and needs no label"
                raise RefusedError(msg)
            if table == "claims" and not row["must_come_back"]:
                msg = f"the item of {return_number} need not come back, so there is no label"
                raise RefusedError(msg)
            return self._label(return_number, form, row["email"])

    def find_dropoff_points(self, postcode: str) -> DropoffPoints:
        """The two places nearest to a postcode where a return can be handed in."""
        wanted = postcode.strip()
        if not wanted.isdecimal() or not 4 <= len(wanted) <= 5:  # noqa: PLR2004 - as our countries have them
            msg = f"a postcode has four or five digits, not {postcode[:20]!r}"
            raise RefusedError(msg)
        rows = [row for row in self._all("SELECT * FROM dropoffs") if len(row["postcode"]) == len(wanted)]
        if not rows:
            msg = f"there is no drop-off point near {wanted}; the carrier collects there, free of charge"
            raise NotFoundError(msg)
        rows.sort(key=lambda row: abs(int(row["postcode"]) - int(wanted)))
        return DropoffPoints(
            points=tuple(DropoffPoint(name=row["name"], address=row["address"]) for row in rows[:_NEAREST])
        )

    def issue_refund(self, return_number: str) -> Refund:
        """Schedule a refund to where the payment came from, once; the amount follows from what it is for.

        Args:
            return_number: Number of what it is for: a return (R-...), a claim (L-...), an investigation (V-...),
                a charge that is too much (CH-...) or a discount that was applied afterwards (D-...).
        """
        with self._writing():
            order, amount = self._owed(return_number)
            self._pay_back(return_number, order, amount)
            return self._refund(return_number)

    def lookup_refund(self, return_number: str) -> Refund:
        """How much was refunded for a return, where to, when it is there, and what was deducted.

        Args:
            return_number: Number of the return, or of what else was refunded.
        """
        return self._refund(return_number)

    def hand_to_accounting(self, return_number: str) -> AccountingCase:
        """Hand a refund that is overdue by our own rules to accounting, once.

        Args:
            return_number: Number of the return (R-...).
        """
        with self._writing():
            row = self._one(
                "SELECT returns.*, expected_on FROM returns LEFT JOIN refunds ON for_number = returns.number "
                "WHERE returns.number = :number",
                f"there is no return {return_number}; find it with lookup_return",
                number=return_number,
            )
            if row["arrived_on"] is None:
                msg = f"the parcel of {return_number} has not arrived, so no refund is overdue"
                raise RefusedError(msg)
            due = (
                row["expected_on"] or (date.fromisoformat(row["arrived_on"]) + timedelta(days=REFUND_DAYS)).isoformat()
            )
            if due >= self._today.isoformat():
                msg = f"the refund of {return_number} is due on {due} and not overdue"
                raise RefusedError(msg)
            if self._maybe("SELECT 1 FROM accounting_cases WHERE return_number = :number", number=return_number):
                msg = f"{return_number} lies with accounting already"
                raise RefusedError(msg)
            number = self._insert(
                "accounting_cases", "AC", return_number=return_number, opened_on=self._today.isoformat()
            )
            return AccountingCase(accounting_case=number, answer_by=self._after(2))

    def offer_store_credit(self, order_number: str, sku: str = "") -> Credit:
        """Give store credit for an unused article that is past the return window, once.

        Args:
            order_number: Number of the order.
            sku: Article of the order, where it holds several.
        """
        with self._writing():
            window, line = self.check_return_window(order_number, sku), self._line(order_number, sku)
            if line["opened"]:
                msg = f"order {order_number} was used, so there is no store credit for it"
                raise RefusedError(msg)
            self._refuse_settled(order_number, line["sku"])
            if window.eligibility != "too_late":
                what = "register a return with create_return" if window.days_left else "it has not been delivered"
                msg = f"order {order_number} is not past its return window; {what}"
                raise RefusedError(msg)
            number = self._insert(
                "credits", "C", order_number=order_number, sku=line["sku"], amount=window.refundable_cents
            )
            return Credit(credit_code=number, credit_cents=window.refundable_cents)

    def create_exchange(self, order_number: str, wanted_sku: str, sku: str = "") -> Exchange:
        """Swap a delivered article within its return window for another one that is in stock, once.

        Args:
            order_number: Number of the order.
            wanted_sku: Article that is wanted instead, as search_products gives its sku.
            sku: Article of the order that comes back, where it holds several.
        """
        with self._writing():
            order, wanted = self._order(order_number), self._product(wanted_sku)
            if order["delivered_on"] is None:
                msg = f"order {order_number} has not been delivered"
                raise RefusedError(msg)
            line = self._line(order_number, sku)
            self._refuse_settled(order_number, line["sku"])
            window = self.check_return_window(order_number, line["sku"])
            if window.eligibility != "returnable":
                msg = f"order {order_number} cannot be exchanged: {window.eligibility}"
                raise RefusedError(msg)
            if wanted_sku == line["sku"]:
                msg = f"order {order_number} holds {wanted['title']} already; ask for the variant that is wanted"
                raise RefusedError(msg)
            self._take(wanted_sku, line["quantity"])
            difference = (wanted["price"] - line["price"]) * line["quantity"]
            number = self._insert(
                "exchanges",
                "X",
                order_number=order_number,
                sku=line["sku"],
                wanted_sku=wanted_sku,
                difference=difference,
            )
        return Exchange(exchange_number=number, difference_cents=difference, hand_in_by=self._after(14))

    def _label(self, number: str, form: str, email: str) -> Label:
        label = f"label-{number}.{'pdf' if form == 'pdf' else 'png'}"
        if not self._maybe(
            "SELECT 1 FROM labels WHERE for_number = :for AND form = :form", **{"for": number}, form=form
        ):
            self._insert("labels", "LB", for_number=number, form=form)
        self._send(
            email, f"Your label for {number}", "Please stick it on the parcel, or show the code.", attachment=label
        )
        return Label(label=label, label_sent_to=email)

    def _owed(self, number: str) -> tuple[str, int]:
        """The order a refund belongs to, and how much it is.

        Raises:
            NotFoundError: There is no such thing.
            RefusedError: It was settled already, or has to wait.
        """
        kind = number.partition("-")[0]
        if kind == "R":
            row = self._case("returns", number, "return")
            return row["order_number"], row["refundable"]
        if kind == "L":
            row = self._case("claims", number, "claim")
            self._refuse_done(number)
            line = self._line(row["order_number"], row["sku"])
            return row["order_number"], self._paid_for(line)
        if kind == "V":
            row = self._case("investigations", number, "investigation")
            self._refuse_done(number)
            self._refuse_waiting(row)
            return row["order_number"], self._total(row["order_number"]) - self._refunded(row["order_number"])
        if kind == "CH":
            row = self._case("charges", number, "charge")
            if (row["status"], row["for_number"]) != ("booked", ""):
                msg = f"{number} is {row['status']}; only what was charged for an order itself can be too much"
                raise RefusedError(msg)
            excess = self._excess(row["order_number"])
            if not excess:
                msg = f"order {row['order_number']} was charged what it costs, or the rest was refunded already"
                raise RefusedError(msg)
            return row["order_number"], excess
        if kind == "D":
            row = self._case("discounts", number, "discount")
            if row["reserved"]:
                msg = f"{number} was taken off what is reserved, so nothing is to be paid back"
                raise RefusedError(msg)
            return row["order_number"], row["amount"]
        msg = (
            f"there is no return {number}; a refund is for a return, a claim, an investigation, a charge or a discount"
        )
        raise NotFoundError(msg)

    def _case(self, table: str, number: str, what: str) -> sqlite3.Row:
        return self._one(
            f"SELECT * FROM {table} WHERE number = :number",  # noqa: S608 - names of ours
            f"there is no {what} {number}",
            number=number,
        )
