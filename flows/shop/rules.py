"""Rules that several desks of the shop keep: nothing is paid back twice, sent to nowhere, or done for a stranger."""

import re
import sqlite3
from collections.abc import Collection

from flows.shop.database import Database, RefusedError, TooLateError, euros
from flows.shop.records import Refund


class Rules(Database):
    """What has to be so before something is done."""

    def _must_be(self, order_number: str, states: Collection[str], what: str) -> sqlite3.Row:
        order = self._order(order_number)
        if order["status"] not in states:
            msg = f"Order {order_number} is {order['status']}; only while it is {' or '.join(sorted(states))} {what}."
            raise TooLateError(msg)
        return order

    def _checked_address(self, address: str) -> str:
        """An address as the carrier takes it: street and number, postcode and city, country.

        Raises:
            RefusedError: It is none that the carrier knows.
        """
        form = "an address is 'street and number, postcode city, country', as 'Lindenweg 14, 04103 Leipzig, DE'"
        parts = [" ".join(part.split()) for part in address.split(",")]
        postcode, _, city = parts[1].partition(" ") if len(parts) == 3 else ("", "", "")  # noqa: PLR2004
        if not city or not re.search(r"[^\W\d]", parts[0]) or not re.search(r"\d", parts[0]):
            msg = f"{form}, not {address[:120]!r}"
            raise RefusedError(msg)
        row = self._maybe(
            "SELECT * FROM postcodes WHERE country = :country AND postcode = :postcode",
            country=parts[2].upper(),
            postcode=postcode,
        )
        if row is None:
            msg = f"the carrier knows no postcode {postcode} in {parts[2].upper()}; ask for it once more"
            raise RefusedError(msg)
        if row["city"].casefold() != city.casefold():
            msg = f"{postcode} is {row['city']} and not {city}; ask which of the two is right"
            raise RefusedError(msg)
        return f"{parts[0]}, {postcode} {row['city']}, {row['country']}"

    def _refunded(self, order_number: str) -> int:
        return self._sum("SELECT sum(amount) FROM refunds WHERE order_number = :number", number=order_number)

    def _pay_back(self, for_number: str, order_number: str, amount: int) -> str:
        """Schedule money to where a payment came from: once for one reason, and never more than was paid.

        Raises:
            RefusedError: It was paid back already.
        """
        with self._writing():
            if self._maybe("SELECT 1 FROM refunds WHERE for_number = :number", number=for_number):
                msg = f"{for_number} was refunded already; lookup_refund says when the money is there"
                raise RefusedError(msg)
            paid = self._sum(
                "SELECT sum(amount) FROM charges WHERE order_number = :number AND status = 'booked'",
                number=order_number,
            )
            left = paid - self._refunded(order_number)
            if not 0 < amount <= left:
                msg = f"of order {order_number} {euros(max(0, left))} are left to pay back, not {euros(amount)}"
                raise RefusedError(msg)
            return self._insert(
                "refunds",
                "F",
                for_number=for_number,
                order_number=order_number,
                amount=amount,
                account=self._order(order_number)["account"],
                expected_on=self._after(5),
            )

    def _refund(self, for_number: str) -> Refund:
        """What was paid back for something."""
        row = self._one(
            "SELECT refunds.*, coalesce(deduction, '') AS deduction FROM refunds "
            "LEFT JOIN returns ON returns.number = for_number WHERE for_number = :number",
            f"nothing was refunded for return {for_number} yet",
            number=for_number,
        )
        return Refund(
            refund_number=row["number"],
            refunded_cents=row["amount"],
            refunded=euros(row["amount"]),
            account=row["account"],
            refund_expected_on=row["expected_on"],
            deduction=row["deduction"],
        )

    def _charge(self, order_number: str, for_number: str, amount: int) -> str:
        """Take money, or give some back where the amount is below zero, the way the order was paid."""
        return self._insert(
            "charges",
            "CH",
            order_number=order_number,
            for_number=for_number,
            amount=amount,
            status="booked",
            day=self._today.isoformat(),
            account=self._order(order_number)["account"],
        )

    def _refuse_settled(self, order_number: str, sku: str) -> None:
        """An article goes back, is exchanged, credited or claimed one time in all."""
        settled = (
            ("returns", "a return", "lookup_return"),
            ("exchanges", "an exchange", ""),
            ("credits", "store credit", ""),
            ("claims", "a claim", ""),
            ("repairs", "a repair case", ""),
        )
        for table, what, tool in settled:
            row = self._maybe(
                f"SELECT number FROM {table} WHERE order_number = :order AND sku = :sku",  # noqa: S608 - literals
                order=order_number,
                sku=sku,
            )
            if row is not None:
                more = f"; look at it with {tool}" if tool else ""
                msg = f"order {order_number} has {what} already, {row['number']}{more}"
                raise RefusedError(msg)
        row = self._maybe("SELECT number FROM investigations WHERE order_number = :order", order=order_number)
        if row is not None:
            msg = f"order {order_number} has a carrier's investigation already, {row['number']}; settle that"
            raise RefusedError(msg)

    def _refuse_done(self, case_number: str) -> None:
        """A case ends once: with money, a replacement or a spare part."""
        ends = (
            ("refunds", "for_number", "was refunded already"),
            ("replacements", "case_number", "has a replacement already"),
            ("spare_parts", "case_number", "has a spare part already"),
        )
        for table, column, what in ends:
            found = self._maybe(f"SELECT number FROM {table} WHERE {column} = :case", case=case_number)  # noqa: S608
            if found is not None:
                msg = f"{case_number} {what}, {found['number']}"
                raise RefusedError(msg)

    def _refuse_unverified(self, email: str, *, proofs: int = 1) -> None:
        """Only who has proven today to be the customer gets this done."""
        given = self._sum(
            "SELECT max(proofs) FROM verifications WHERE email = :email AND verified_on = :today",
            email=email.strip().lower(),
            today=self._today.isoformat(),
        )
        if given < proofs:
            needed = "a code" if proofs == 1 else "a code and the number of the last order"
            msg = f"{email} is not verified with {needed} today; call send_verification_code, then verify_identity"
            raise RefusedError(msg)

    def _refuse_waiting(self, investigation: sqlite3.Row) -> None:
        """Where a parcel is marked as delivered, the carrier is heard first, unless a theft is on record."""
        waits = investigation["kind"] == "marked_as_delivered" and not investigation["report"]
        if waits and investigation["answer_by"] > self._today.isoformat():
            msg = f"the carrier answers {investigation['number']} by {investigation['answer_by']}; wait for that day"
            raise RefusedError(msg)

    def _paid_for(self, line: sqlite3.Row) -> int:
        """What was paid for an article of an order: less than its price where a code was applied."""
        percent = self._sum(
            "SELECT percent FROM discounts JOIN promo_codes USING (code) WHERE order_number = :number",
            number=line["order_number"],
        )
        return line["price"] * line["quantity"] * (100 - percent) // 100

    def _excess(self, order_number: str) -> int:
        """How much more was charged for an order than it costs, and not paid back; reservations do not count."""
        charged = self._sum(
            "SELECT sum(amount) FROM charges WHERE order_number = :number AND status = 'booked' AND for_number = ''",
            number=order_number,
        )
        later = self._sum("SELECT sum(difference) FROM item_changes WHERE order_number = :number", number=order_number)
        back = self._sum(
            "SELECT sum(amount) FROM refunds WHERE order_number = :number AND for_number LIKE 'CH-%'",
            number=order_number,
        )
        return max(0, charged - (self._total(order_number) - later) - back)
