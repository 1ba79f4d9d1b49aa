"""The shop behind the flows, on a small SQLite database in memory.

`flows/shop.sql` is the data. Every `Shop` starts from it anew, so that nothing one run
changes is there in the next.
"""

import sqlite3
from datetime import date, timedelta
from pathlib import Path
from threading import RLock
from typing import Any, Literal, Self
from weakref import finalize

from flows.shop_records import (
    Availability,
    Cancellation,
    Charge,
    Credit,
    Exchange,
    Order,
    Refund,
    Release,
    Return,
    ReturnWindow,
    Scan,
)

DATA = Path(__file__).with_name("shop.sql")
TODAY = date(2025, 6, 11)
"""The day of the data."""
RETURN_DAYS = 30
REFUND_DAYS = 5


class NotFoundError(LookupError):
    """The shop has nothing of that name."""


class RefusedError(ValueError):
    """The shop's own rules forbid it."""


class Shop:
    """One shop with a database of its own. Its tools may be called from any thread.

    Close it, or use it in a `with` block. A shop whose tools nobody holds any more closes itself.
    """

    def __init__(self, *, today: date = TODAY) -> None:
        """Open the shop as the data has it."""
        self._today = today
        self._lock = RLock()  # a rule is checked and its row added in one go, by methods that lock, too
        self._rows = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._rows.row_factory = sqlite3.Row
        self._closing = finalize(self, self._rows.close)  # tools that were loaded by name have nobody who closes them
        self._rows.executescript(DATA.read_text(encoding="utf-8"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the database; a second call does nothing."""
        with self._lock:
            self._closing()

    def lookup_order(self, email: str, order_number: str = "") -> Order:
        """Find an order of a customer: the one of this number, or the latest."""
        row = self._one(
            "SELECT orders.*, title, price FROM orders JOIN products USING (sku) "
            "WHERE email = :email AND (:number = '' OR number = :number) ORDER BY placed_on DESC LIMIT 1",
            f"{email} has no order {order_number}".rstrip(),
            email=email,
            number=order_number,
        )
        return Order(
            order_number=row["number"],
            status=row["status"],
            placed_on=row["placed_on"],
            delivered_on=row["delivered_on"],
            sku=row["sku"],
            title=row["title"],
            total_cents=row["price"],
            tracking_number=row["tracking"],
        )

    def get_tracking(self, tracking_number: str | None) -> Scan:
        """Where a parcel was last seen, and when it is expected."""
        if tracking_number is None:
            msg = "the order has not been handed to a carrier yet"
            raise NotFoundError(msg)
        row = self._one(
            "SELECT * FROM scans WHERE tracking = :tracking ORDER BY day DESC LIMIT 1",
            f"there is no scan of parcel {tracking_number}",
            tracking=tracking_number,
        )
        return Scan(last_seen_on=row["day"], last_place=row["place"], expected_on=row["expected_on"])

    def check_return_window(self, order_number: str) -> ReturnWindow:
        """Whether an order can go back: within 30 days of delivery, hygiene articles only unopened."""
        row = self._order(order_number)
        if row["delivered_on"] is None:
            return ReturnWindow(eligibility="not_delivered", days_left=0, refundable_cents=0)
        left = RETURN_DAYS - (self._today - date.fromisoformat(row["delivered_on"])).days
        if row["hygiene"] and row["opened"]:
            return ReturnWindow(eligibility="opened_hygiene", days_left=left, refundable_cents=0)
        return ReturnWindow(
            eligibility="returnable" if left >= 0 else "too_late", days_left=left, refundable_cents=row["price"]
        )

    def create_return(self, order_number: str, refundable_cents: int) -> Return:
        """Register a return within the window, and send the label along."""
        with self._lock:
            window = self.check_return_window(order_number)
            if window.eligibility != "returnable":
                msg = f"order {order_number} cannot go back: {window.eligibility}"
                raise RefusedError(msg)
            self._refuse_settled(order_number)
            amount = max(0, min(refundable_cents, window.refundable_cents))
            number = self._insert("returns", "R", (order_number, amount, None))
            return self.lookup_return(order_number, number)

    def lookup_return(self, order_number: str, return_number: str = "") -> Return:
        """Find the return of an order: the one of this number, or the latest."""
        row = self._one(
            "SELECT * FROM returns WHERE order_number = :order AND (:number = '' OR number = :number) "
            "ORDER BY number DESC LIMIT 1",
            f"order {order_number} has no return {return_number}".rstrip(),
            order=order_number,
            number=return_number,
        )
        return Return(
            return_number=row["number"],
            label=f"label-{row['number']}.pdf",
            refundable_cents=row["refundable"],
            arrived_on=row["arrived_on"],
        )

    def issue_refund(self, return_number: str) -> Refund:
        """Schedule the refund of a return to where the payment came from, once."""
        with self._lock:
            row = self._one(
                "SELECT refundable, account FROM returns JOIN orders ON orders.number = order_number "
                "JOIN customers USING (email) WHERE returns.number = :number",
                f"there is no return {return_number}",
                number=return_number,
            )
            if self._count("refunds", "return_number", return_number):
                msg = f"return {return_number} was refunded already"
                raise RefusedError(msg)
            expected = (self._today + timedelta(days=REFUND_DAYS)).isoformat()
            self._insert("refunds", "F", (return_number, row["refundable"], row["account"], expected))
            return self.lookup_refund(return_number)

    def lookup_refund(self, return_number: str) -> Refund:
        """How much of a return was refunded, where to, and when it is there."""
        row = self._one(
            "SELECT * FROM refunds WHERE return_number = :number ORDER BY number DESC LIMIT 1",
            f"nothing was refunded for return {return_number} yet",
            number=return_number,
        )
        return Refund(
            refund_number=row["number"],
            refunded_cents=row["amount"],
            refunded=f"{row['amount'] / 100:.2f} EUR",
            account=row["account"],
            refund_expected_on=row["expected_on"],
        )

    def offer_store_credit(self, order_number: str, refundable_cents: int) -> Credit:
        """Give store credit for an unused article that is past the return window, once."""
        with self._lock:
            row = self._order(order_number)
            if row["opened"]:
                msg = f"order {order_number} was used, so there is no store credit for it"
                raise RefusedError(msg)
            self._refuse_settled(order_number)
            amount = max(0, min(refundable_cents, row["price"]))
            return Credit(credit_code=self._insert("credits", "C", (order_number, amount)), credit_cents=amount)

    def check_stock(self, wanted_sku: str) -> Availability:
        """How many of an article are in stock, and what it costs."""
        row = self._product(wanted_sku)
        return Availability(wanted_sku=wanted_sku, in_stock=row["stock"], wanted_cents=row["price"])

    def create_exchange(self, order_number: str, wanted_sku: str) -> Exchange:
        """Swap the article of a delivered order for another one that is in stock, once."""
        with self._lock:
            order, wanted = self._order(order_number), self._product(wanted_sku)
            if order["delivered_on"] is None:
                msg = f"order {order_number} has not been delivered"
                raise RefusedError(msg)
            self._refuse_settled(order_number)
            if wanted["stock"] < 1:
                msg = f"{wanted['title']} is sold out"
                raise RefusedError(msg)
            number = self._insert("exchanges", "X", (order_number, wanted_sku))
            self._change("UPDATE products SET stock = stock - 1 WHERE sku = ?", wanted_sku)
        return Exchange(exchange_number=number, difference_cents=wanted["price"] - order["price"])

    def charge_difference(self, exchange_number: str, difference_cents: int) -> Charge:
        """Charge, or pay back where it is below zero, what an exchange differs in price."""
        row = self._one(
            "SELECT account FROM exchanges JOIN orders ON orders.number = order_number "
            "JOIN customers USING (email) WHERE exchanges.number = :number",
            f"there is no exchange {exchange_number}",
            number=exchange_number,
        )
        return Charge(charged_cents=difference_cents, account=row["account"])

    def cancel_order(self, order_number: str) -> Cancellation:
        """Stop an order that has not left the warehouse."""
        with self._lock:
            row = self._order(order_number)
            if row["status"] not in {"placed", "packed"}:
                msg = f"order {order_number} is {row['status']} and can no longer be cancelled"
                raise RefusedError(msg)
            self._change("UPDATE orders SET status = 'cancelled' WHERE number = ?", order_number)
        return Cancellation(cancellation_number=f"K-{order_number}", total_cents=row["price"])

    def release_payment(self, cancellation_number: str, total_cents: int) -> Release:
        """Release the payment of a cancelled order."""
        self._order(cancellation_number.removeprefix("K-"))
        return Release(released_cents=total_cents)

    def _order(self, number: str) -> sqlite3.Row:
        return self._one(
            "SELECT orders.*, price, hygiene FROM orders JOIN products USING (sku) WHERE number = :number",
            f"there is no order {number}",
            number=number,
        )

    def _product(self, sku: str) -> sqlite3.Row:
        return self._one("SELECT * FROM products WHERE sku = :sku", f"there is no article {sku}", sku=sku)

    def _one(self, query: str, problem: str, **values: str) -> sqlite3.Row:
        with self._lock:
            row: sqlite3.Row | None = self._rows.execute(query, values).fetchone()
        if row is None:
            raise NotFoundError(problem)
        return row

    def _refuse_settled(self, order_number: str) -> None:
        """An article goes back, is exchanged or credited one time in all."""
        settled: tuple[tuple[Literal["returns", "exchanges", "credits"], str], ...] = (
            ("returns", "a return"),
            ("exchanges", "an exchange"),
            ("credits", "store credit"),
        )
        for table, what in settled:
            if self._count(table, "order_number", order_number):
                msg = f"order {order_number} has {what} already"
                raise RefusedError(msg)

    def _count(
        self,
        table: Literal["returns", "refunds", "credits", "exchanges"],
        column: Literal["order_number", "return_number"],
        value: str,
    ) -> int:
        with self._lock:
            (count,) = self._rows.execute(
                f"SELECT count(*) FROM {table} WHERE {column} = ?",  # noqa: S608 - literals
                (value,),
            ).fetchone()
        return count

    def _change(self, statement: str, key: str) -> None:
        with self._lock:
            self._rows.execute(statement, (key,))

    def _insert(
        self, table: Literal["returns", "refunds", "credits", "exchanges"], letter: str, rest: tuple[Any, ...]
    ) -> str:
        """Add a row under the next number, and say which that is."""
        with self._lock:
            (count,) = self._rows.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 - a literal
            number = f"{letter}-{40001 + count}"
            marks = ", ".join("?" * (1 + len(rest)))
            self._rows.execute(f"INSERT INTO {table} VALUES ({marks})", (number, *rest))  # noqa: S608
        return number
