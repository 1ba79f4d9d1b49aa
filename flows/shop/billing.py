"""Money: charges, fraud, invoices, payments that fail, and discount codes."""

from sqlite3 import Row
from typing import Final

from flows.shop.account_records import (
    CardBlocked,
    ChargeLine,
    Charges,
    Discount,
    FoundCharge,
    FraudCase,
    Invoice,
    PaymentAttempt,
    PaymentAttempts,
    PaymentLink,
    PaymentMethod,
    PaymentMethods,
    PromoCode,
)
from flows.shop.database import NotFoundError, RefusedError, as_day, euros
from flows.shop.rules import Rules

DISCOUNT_DAYS: Final = 3
"""So long after an order a code that was forgotten is still applied."""


class Billing(Rules):
    """What was paid, and what is owed."""

    def list_charges(self, order_number: str) -> Charges:
        """The charges and reservations of an order, and how much of them is too much."""
        with self._reading():
            self._order(order_number)
            rows = self._all("SELECT * FROM charges WHERE order_number = :number", number=order_number)
            return Charges(
                order_total_cents=self._total(order_number),
                charges=tuple(
                    ChargeLine(
                        charge_number=row["number"],
                        cents=row["amount"],
                        charge_status=row["status"],
                        day=row["day"],
                        account=row["account"],
                    )
                    for row in rows
                ),
                excess_cents=self._excess(order_number),
            )

    def search_charges(self, day: str, amount_cents: int, last_four: str) -> FoundCharge:
        """Find where a charge comes from that somebody does not recognise; day, amount and card all have to fit.

        Args:
            day: Day of the charge, such as 2025-06-10.
            amount_cents: Its amount in cents.
            last_four: The last four digits of the card.
        """
        wanted = as_day(day, "the day of a charge")
        digits = last_four.strip()
        if len(digits) != 4 or not digits.isdecimal():  # noqa: PLR2004
            msg = "ask for the last four digits of the card, and never for the whole number"
            raise RefusedError(msg)
        row = self._one(
            "SELECT charges.*, orders.status AS order_status FROM charges JOIN orders ON orders.number = order_number "
            "WHERE day = :day AND amount = :amount AND charges.account LIKE :account",
            f"no charge of {euros(amount_cents)} on {wanted} went to a card ending in {digits}; check all three",
            day=wanted.isoformat(),
            amount=amount_cents,
            account=f"% ending in {digits}",
        )
        return FoundCharge(
            charge_number=row["number"], day=row["day"], cents=row["amount"], order_status=row["order_status"]
        )

    def open_fraud_case(self, charge_number: str) -> FraudCase:
        """Dispute a charge that the customer did not make, once; an order behind it that has not left is held back.

        Args:
            charge_number: Number that search_charges gave (CH-...).
        """
        with self._writing():
            row = self._charge_row(charge_number)
            if row["status"] not in {"booked", "reserved"}:
                msg = f"{charge_number} is {row['status']} already; nothing is left to dispute"
                raise RefusedError(msg)
            self._change("UPDATE charges SET status = 'disputed' WHERE number = :number", number=charge_number)
            self._change(
                "UPDATE orders SET status = 'held' WHERE number = :order AND status IN ('placed', 'packed')",
                order=row["order_number"],
            )
            number = self._insert(
                "fraud_cases",
                "Q",
                charge_number=charge_number,
                opened_on=self._today.isoformat(),
                answer_by=self._after(2),
            )
            held = self._order(row["order_number"])["status"] == "held"
            return FraudCase(fraud_case=number, answer_by=self._after(2), shipment_stopped=held)

    def block_card(self, charge_number: str) -> CardBlocked:
        """Block the card of a charge in our shop.

        Args:
            charge_number: Number that search_charges gave (CH-...).
        """
        with self._writing():
            row = self._charge_row(charge_number)
            if " ending in " not in row["account"]:
                msg = f"{charge_number} was paid by {row['account']} and not by card; open a fraud case"
                raise RefusedError(msg)
            self._change(
                "INSERT OR IGNORE INTO blocked_cards VALUES (:account, :today)",
                account=row["account"],
                today=self._today.isoformat(),
            )
            return CardBlocked(blocked=row["account"])

    def create_invoice_pdf(self, order_number: str, name: str = "", vat_number: str = "") -> Invoice:
        """Make the invoice of an order, or one with another name or VAT number; amount and date never change.

        Args:
            order_number: Number of the order.
            name: Name on it, where it is to be another one.
            vat_number: VAT number of a company, where it is to be on it.
        """
        with self._writing():
            order = self._order(order_number)
            if order["status"] in {"basket", "cancelled"}:
                msg = f"order {order_number} is {order['status']}, and there is no invoice of it"
                raise RefusedError(msg)
            last = self._maybe(
                "SELECT * FROM invoices WHERE order_number = :number ORDER BY rowid DESC", number=order_number
            )
            owner = name.strip() or (last["name"] if last else self._customer(order["email"])["name"])
            vat = vat_number.strip() or (last["vat_number"] if last else "")
            if last is not None and (last["name"], last["vat_number"]) == (owner, vat):
                return _invoice(last)
            number = self._insert(
                "invoices",
                "I",
                order_number=order_number,
                name=owner,
                vat_number=vat,
                amount=last["amount"] if last else self._total(order_number),
                issued_on=last["issued_on"] if last else order["placed_on"],
            )
            return _invoice(self._one("SELECT * FROM invoices WHERE number = :number", "it is gone", number=number))

    def lookup_payment_attempts(self, email: str) -> PaymentAttempts:
        """Why the last payments of a customer failed, and for which basket."""
        customer = self._customer(email)["email"]
        rows = self._all(
            "SELECT payment_attempts.* FROM payment_attempts JOIN orders ON orders.number = order_number "
            "WHERE email = :email ORDER BY day DESC, payment_attempts.rowid DESC",
            email=customer,
        )
        if not rows:
            msg = f"no payment of {customer} failed lately; ask what the page says"
            raise NotFoundError(msg)
        return PaymentAttempts(
            attempts=tuple(PaymentAttempt(day=row["day"], method=row["method"], reason=row["reason"]) for row in rows),
            basket_number=rows[0]["order_number"],
            basket_cents=self._total(rows[0]["order_number"]),
        )

    def list_payment_methods(self, email: str) -> PaymentMethods:
        """The means of payment of a customer, and why one cannot be used."""
        rows = self._all("SELECT * FROM payment_methods WHERE email = :email", email=self._customer(email)["email"])
        return PaymentMethods(
            methods=tuple(
                PaymentMethod(method=row["method"], usable=bool(row["usable"]), why_not=row["why_not"]) for row in rows
            )
        )

    def create_payment_link(self, basket_number: str) -> PaymentLink:
        """Send a link with which a basket is paid in another way, valid for 24 hours; the same link while it is valid.

        Args:
            basket_number: Number that lookup_payment_attempts gave.
        """
        with self._writing():
            order = self._order(basket_number)
            if order["status"] != "basket":
                msg = f"order {basket_number} is {order['status']} and not a basket that has to be paid"
                raise RefusedError(msg)
            amount = self._total(basket_number)
            row = self._maybe(
                "SELECT * FROM payment_links WHERE order_number = :number AND amount = :amount "
                "AND valid_until >= :today",
                number=basket_number,
                amount=amount,
                today=self._today.isoformat(),
            )
            number = (
                row["number"]
                if row
                else self._insert(
                    "payment_links", "PL", order_number=basket_number, amount=amount, valid_until=self._after(1)
                )
            )
            if row is None:
                self._send(order["email"], "Pay for your basket", f"https://shop.example/pay/{number}")
            return PaymentLink(link=f"https://shop.example/pay/{number}", pay_cents=amount, valid_until=self._after(1))

    def lookup_promo_code(self, code: str, order_number: str = "") -> PromoCode:
        """The terms of a discount code, and for an order the one term that rules it out, if there is one.

        Args:
            code: The code exactly as it is written.
            order_number: Number of the order or basket that it is for.
        """
        row = self._promo(code)
        against = self._ruled_out(row, order_number) if order_number else self._out_of_date(row)
        return PromoCode(
            code=row["code"],
            percent=row["percent"],
            valid_until=row["valid_until"],
            min_cents=row["min_cents"],
            excluded_brand=row["excluded_brand"],
            first_order_only=bool(row["first_order_only"]),
            ruled_out_by=against,
            other_codes=tuple(self._open_codes(order_number)) if against and order_number else (),
        )

    def apply_discount(self, code: str, order_number: str) -> Discount:
        """Apply a code to an order of the last three days, where its terms allow; one code for each order.

        Args:
            code: The code exactly as it is written.
            order_number: Number of the order.
        """
        with self._writing():
            row, order = self._promo(code), self._order(order_number)
            if order["status"] not in {"placed", "packed", "shipped", "delivered"}:
                msg = f"order {order_number} is {order['status']}; a code is for an order, or typed in at checkout"
                raise RefusedError(msg)
            if order["placed_on"] < self._after(-DISCOUNT_DAYS):
                msg = f"order {order_number} is of {order['placed_on']}; a code is applied for {DISCOUNT_DAYS} days"
                raise RefusedError(msg)
            if against := self._ruled_out(row, order_number):
                msg = f"{row['code']} cannot be used for order {order_number}: {against}"
                raise RefusedError(msg)
            amount = self._goods(order_number) * row["percent"] // 100
            reserved = self._only_reserved(order_number)
            if reserved:
                self._change(
                    "UPDATE charges SET amount = amount - :amount WHERE number = :number",
                    amount=amount,
                    number=reserved,
                )
            number = self._insert(
                "discounts",
                "D",
                order_number=order_number,
                code=row["code"],
                amount=amount,
                reserved=int(bool(reserved)),
            )
            return Discount(discount_number=number, discount_cents=amount, to_be_refunded=not reserved)

    def _only_reserved(self, order_number: str) -> str:
        """The reservation of an order that has not been charged; empty where it has."""
        rows = self._all("SELECT * FROM charges WHERE order_number = :number ORDER BY rowid", number=order_number)
        reserved = [row["number"] for row in rows if row["status"] == "reserved"]
        return "" if any(row["status"] == "booked" for row in rows) or not reserved else reserved[0]

    def _charge_row(self, charge_number: str) -> Row:
        return self._one(
            "SELECT * FROM charges WHERE number = :number",
            f"there is no charge {charge_number}; find it with search_charges",
            number=charge_number,
        )

    def _promo(self, code: str) -> Row:
        return self._one(
            "SELECT * FROM promo_codes WHERE code = :code",
            f"there is no code {code[:40]!r}; ask for it exactly as it is written",
            code=code.strip().upper(),
        )

    def _goods(self, order_number: str) -> int:
        """What the articles of an order cost, without delivery and wrapping."""
        return sum(line["price"] * line["quantity"] for line in self._lines(order_number))

    def _out_of_date(self, promo: Row) -> str:
        valid = promo["valid_from"] <= self._today.isoformat() <= promo["valid_until"]
        return "" if valid else f"it was valid from {promo['valid_from']} to {promo['valid_until']}"

    def _ruled_out(self, promo: Row, order_number: str) -> str:
        """The one term that rules a code out; empty if none does."""
        order, lines = self._order(order_number), self._lines(order_number)
        if against := self._out_of_date(promo):
            return against
        if self._maybe("SELECT 1 FROM discounts WHERE order_number = :number", number=order_number):
            return "there is a code on this order already"
        if self._goods(order_number) < promo["min_cents"]:
            return f"it needs articles for {euros(promo['min_cents'])}"
        if promo["excluded_brand"] and promo["excluded_brand"] in [line["brand"] for line in lines]:
            return f"it is not for articles of {promo['excluded_brand']}"
        earlier = self._maybe(
            "SELECT 1 FROM orders WHERE email = :email AND number <> :number AND status <> 'basket' "
            "AND placed_on <= :day",
            email=order["email"],
            number=order_number,
            day=order["placed_on"],
        )
        return "it is for a first order only" if promo["first_order_only"] and earlier else ""

    def _open_codes(self, order_number: str) -> list[str]:
        return [row["code"] for row in self._all("SELECT * FROM promo_codes") if not self._ruled_out(row, order_number)]


def _invoice(row: Row) -> Invoice:
    return Invoice(
        invoice_number=row["number"],
        document=f"invoice-{row['number']}.pdf",
        invoice_name=row["name"],
        vat_number=row["vat_number"],
        cents=row["amount"],
        issued_on=row["issued_on"],
    )
