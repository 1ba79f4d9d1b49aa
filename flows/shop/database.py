"""The database of the shop: the connection, one change at a time, and the rows that every desk starts from."""

import re
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from threading import RLock
from typing import Any, Final, LiteralString, Self
from weakref import finalize

from jazz_select.errors import CannotDo

DATA: Final = Path(__file__).with_name("data.sql")
TODAY: Final = date(2025, 6, 11)
"""The day of the data."""
_VERSION: Final = 2
"""What `data.sql` writes into `user_version`: a file with another number holds other tables."""
_FIRST: Final = 40001
_SATURDAY: Final = 5


class NotFoundError(LookupError):
    """The shop has nothing of that name."""


class RefusedError(ValueError):
    """The shop's own rules forbid it."""


class TooLateError(CannotDo, RefusedError):
    """An order is no longer in a state in which that can be done. The customer is told so in these words."""


class Database:
    """A shop's rows. It may be asked from any thread, and of several processes one changes a file at a time.

    Close it, or use it in a `with` block. A shop whose tools nobody holds any more closes itself.
    """

    def __init__(self, path: str | Path | None = None, *, today: date = TODAY) -> None:
        """Open the shop.

        Args:
            path: A SQLite file to keep what is done. One that is there already goes on as it was left; without one the
                shop is in memory, as the data has it.
            today: The day of the shop.

        Raises:
            ValueError: The file holds something else than this shop.
        """
        self._today = today
        self._lock = RLock()  # a rule is checked and its row added in one go, by methods that lock, too
        self._depth = 0
        self._rows = sqlite3.connect(path or ":memory:", check_same_thread=False, isolation_level=None, timeout=10)
        self._closing = finalize(self, self._rows.close)  # tools that were loaded by name have nobody who closes them
        self._rows.row_factory = sqlite3.Row
        try:
            self._open(path)
        except BaseException:
            self._closing()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the database; a second call does nothing."""
        with self._lock:
            self._closing()

    def reload(self) -> None:
        """Take back all that was done: the data is loaded anew, into a file too."""
        with self._lock:
            self._rows.execute("PRAGMA foreign_keys = OFF")
            drop = "".join(f"DROP TABLE {name};" for name in self._tables())
            self._rows.executescript(f"BEGIN IMMEDIATE; {drop} {DATA.read_text(encoding='utf-8')} COMMIT;")
            self._rows.execute("PRAGMA foreign_keys = ON")

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """All tables as they are now, row by row; `changes` compares two of these."""
        with self._reading():
            return {name: [dict(row) for row in self._all(f"SELECT * FROM {name} ORDER BY rowid")] for name in self._tables()}  # noqa: E501, S608 # fmt: skip

    def _open(self, path: str | Path | None) -> None:
        try:
            (version,) = self._rows.execute("PRAGMA user_version").fetchone()
            tables = self._tables()
        except sqlite3.DatabaseError as error:
            msg = f"{path} is no SQLite file that can be opened ({error}); name another one"
            raise ValueError(msg) from error
        if not tables:
            self.reload()
        elif version != _VERSION or "order_items" not in tables:
            msg = f"{path} holds other tables than this shop's; name another file, or delete it"
            raise ValueError(msg)
        self._rows.execute("PRAGMA foreign_keys = ON")

    def _tables(self) -> list[str]:
        found = self._rows.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name"
        )
        return [name for (name,) in found]

    # --- asking and changing -------------------------------------------------------

    @contextmanager
    def _writing(self) -> Generator[None]:
        """All that is done in the block is done, or nothing; nobody else writes meanwhile."""
        with self._transaction("BEGIN IMMEDIATE"):
            yield

    @contextmanager
    def _reading(self) -> Generator[None]:
        """All that is read in the block is of one moment."""
        with self._transaction("BEGIN"):
            yield

    @contextmanager
    def _transaction(self, begin: str) -> Generator[None]:
        with self._lock:
            if self._depth == 0:
                self._rows.execute(begin)
            self._depth += 1
            try:
                yield
            except BaseException:
                self._depth -= 1
                if self._depth == 0:
                    self._rows.execute("ROLLBACK")
                raise
            self._depth -= 1
            if self._depth == 0:
                self._rows.execute("COMMIT")

    def _all(self, query: str, **values: Any) -> list[sqlite3.Row]:
        with self._lock:
            return self._rows.execute(query, values).fetchall()

    def _maybe(self, query: str, **values: Any) -> sqlite3.Row | None:
        with self._lock:
            return self._rows.execute(query, values).fetchone()

    def _one(self, query: str, problem: str, **values: Any) -> sqlite3.Row:
        row = self._maybe(query, **values)
        if row is None:
            raise NotFoundError(problem)
        return row

    def _sum(self, query: str, **values: Any) -> int:
        """The one number that a query gives; 0 for none."""
        row = self._maybe(query, **values)
        return 0 if row is None or row[0] is None else int(row[0])

    def _change(self, statement: str, **values: Any) -> None:
        with self._lock:
            self._rows.execute(statement, values)

    def _insert(self, table: LiteralString, letter: str, **rest: Any) -> str:
        """Add a row under the next number, and say which that is."""
        with self._writing():
            last = self._sum(f"SELECT max(CAST(substr(number, instr(number, '-') + 1) AS INTEGER)) FROM {table}")  # noqa: S608
            number = f"{letter}-{max(last + 1, _FIRST)}"
            columns = ", ".join(rest)
            marks = ", ".join(f":{name}" for name in rest)
            self._rows.execute(
                f"INSERT INTO {table} (number, {columns}) VALUES (:number, {marks})",  # noqa: S608 - names of ours
                {"number": number, **rest},
            )
        return number

    # --- what every desk starts from -----------------------------------------------

    def _order(self, number: str) -> sqlite3.Row:
        return self._one(
            "SELECT orders.*, customers.account FROM orders JOIN customers USING (email) WHERE number = :number",
            f"there is no order {number}; find it with lookup_order or list_orders",
            number=number,
        )

    def _lines(self, order_number: str) -> list[sqlite3.Row]:
        """What an order holds, article by article."""
        return self._all(
            "SELECT order_items.*, products.title, products.brand, products.hygiene, products.warranty_months, "
            "products.repair_cents FROM order_items JOIN products USING (sku) "
            "WHERE order_number = :number ORDER BY order_items.rowid",
            number=order_number,
        )

    def _line(self, order_number: str, sku: str = "") -> sqlite3.Row:
        """One article of an order: the one that is named, or the only one."""
        lines = self._lines(order_number)
        held = ", ".join(f"{line['sku']} ({line['title']})" for line in lines)
        if sku:
            found = [line for line in lines if line["sku"] == sku]
            if not found:
                msg = f"order {order_number} does not hold {sku}; it holds {held}"
                raise NotFoundError(msg)
            return found[0]
        if len(lines) != 1:
            msg = f"order {order_number} holds {held}; ask which is meant, and name its sku"
            raise RefusedError(msg)
        return lines[0]

    def _total(self, order_number: str) -> int:
        """What an order costs now, delivery and gift wrap included."""
        return self._sum(
            "SELECT (SELECT coalesce(sum(quantity * price), 0) FROM order_items WHERE order_number = number) "
            "+ shipping_fee + gift_fee FROM orders WHERE number = :number",
            number=order_number,
        )

    def _product(self, sku: str) -> sqlite3.Row:
        problem = f"there is no article {sku}; find its sku with search_products"
        return self._one("SELECT * FROM products WHERE sku = :sku", problem, sku=sku)

    def _take(self, sku: str, quantity: int) -> None:
        """Take articles out of the stock."""
        product = self._product(sku)
        if product["stock"] < quantity:
            left = f"only {product['stock']} left" if product["stock"] else "sold out"
            when = f", new ones are expected on {product['expected_on']}" if product["expected_on"] else ""
            msg = f"{product['title']} is {left}{when}"
            raise RefusedError(msg)
        self._change("UPDATE products SET stock = stock - :quantity WHERE sku = :sku", sku=sku, quantity=quantity)

    def _customer(self, email: str) -> sqlite3.Row:
        return self._one(
            "SELECT * FROM customers WHERE email = :email",
            f"there is no account of {email}; ask for another address, and do not say whether an account exists",
            email=email.strip().lower(),
        )

    def _send(self, email: str, subject: str, text: str, *, attachment: str = "") -> str:
        """Put a message to a customer into the outbox."""
        return self._insert(
            "outbox",
            "M",
            email=email,
            sent_on=self._today.isoformat(),
            subject=subject,
            text=text,
            attachment=attachment,
        )

    def _after(self, days: int) -> str:
        return (self._today + timedelta(days=days)).isoformat()


def as_day(text: str, what: str) -> date:
    """A day that somebody named.

    Raises:
        RefusedError: It is none.
    """
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        msg = f"{what} is a day such as 2025-06-20, not {text[:40]!r}"
        raise RefusedError(msg) from None


def working_days(first: date, last: date) -> int:
    """How many days from Monday to Friday lie after the first, up to the last."""
    days = (first + timedelta(days=each) for each in range(1, (last - first).days + 1))
    return sum(day.weekday() < _SATURDAY for day in days)


def euros(cents: int) -> str:
    """An amount as customers read it."""
    return f"{cents / 100:.2f} EUR"


def words(text: str) -> set[str]:
    """The words of a text, whether there is one of a thing or several."""
    return {word.rstrip("s") or word for word in re.findall(r"\w+", text.casefold())}
