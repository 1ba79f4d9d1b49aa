"""Orders: which one is meant, and what can still be changed before it leaves."""

import sqlite3
from typing import Final, Literal

from flows.shop.database import NotFoundError, RefusedError, TooLateError, euros, words
from flows.shop.records import (
    AddressChange,
    Cancellation,
    Charge,
    GiftOptions,
    ItemChange,
    Order,
    OrderItem,
    OrderList,
    Redirect,
    Release,
)
from flows.shop.rules import Rules

GIFT_CENTS: Final = 350
REDIRECT_CENTS: Final = 490
LONGEST_CARD: Final = 200
MOST_OF_ONE: Final = 50
_PAID: Final = frozenset({"placed", "packed", "shipped", "delivered"})
_NEVER_MEANT: Final = words(
    "a an the my our this that of for from in on with and i it is one order ordered bought purchase item last recent"
)


class Orders(Rules):
    """What customers ordered."""

    def lookup_order(self, email: str, order_number: str = "", item: str = "") -> Order:
        """Find an order of a customer by its number or by an item in it; the latest order where neither is named.

        Args:
            email: Email address of the customer.
            order_number: Number of the order, where it was said.
            item: The customer's words for an item of the order, such as "rug" or "desk lamp", where one was named.
        """
        with self._reading():
            rows = self._orders_of(email)
            number = order_number.strip().lstrip("#")
            if not rows or (number and number not in [row["number"] for row in rows]):
                msg = f"{f'{email} has no order {number}'.rstrip()}; {self._named(rows)}"
                raise NotFoundError(msg)
            named = [row for row in rows if row["number"] == number] if number else rows
            line: sqlite3.Row | None = None
            if item.strip():
                named, line = self._holding(email, rows, named, item, number=number)
            elif not number:
                named = [row for row in rows if row["status"] != "basket"] or rows
            return self._shown(named[0], line, others=[row["number"] for row in rows if row is not named[0]])

    def list_orders(self, email: str) -> OrderList:
        """List all orders of a customer with their items, the latest first."""
        with self._reading():
            rows = self._orders_of(email)
            if not rows:
                msg = f"{email} has no order; ask for the email address that was given when ordering"
                raise NotFoundError(msg)
            return OrderList(orders=tuple(self._shown(row, None) for row in rows))

    def cancel_order(self, order_number: str) -> Cancellation:
        """Stop an order that is placed or packed and has not left the warehouse."""
        with self._writing():
            self._refuse_too_late(order_number)
            self._change("UPDATE orders SET status = 'cancelled' WHERE number = :number", number=order_number)
            for line in self._lines(order_number):
                self._change(
                    "UPDATE products SET stock = stock + :quantity WHERE sku = :sku",
                    quantity=line["quantity"],
                    sku=line["sku"],
                )
            self._change(
                "INSERT INTO cancellations VALUES (:number, :order, :day, 0)",
                number=f"K-{order_number}",
                order=order_number,
                day=self._today.isoformat(),
            )
            return Cancellation(cancellation_number=f"K-{order_number}", total_cents=self._total(order_number))

    def _refuse_too_late(self, order_number: str) -> None:
        """Refuse to cancel an order that has left, and say what is left to do."""
        status = self._order(order_number)["status"]
        if status in {"placed", "packed"}:
            return
        left = " It can be refused at the door, or returned." if status == "shipped" else ""
        msg = f"Order {order_number} is {status} and can no longer be cancelled.{left}"
        raise TooLateError(msg)

    def release_payment(self, cancellation_number: str) -> Release:
        """Release what was reserved for a cancelled order, and pay back what was charged.

        Args:
            cancellation_number: Number that cancel_order gave, such as K-60144.
        """
        with self._writing():
            row = self._one(
                "SELECT * FROM cancellations WHERE number = :number",
                f"there is no cancellation {cancellation_number}; cancel the order with cancel_order first",
                number=cancellation_number,
            )
            if row["released"]:
                msg = f"the payment of {cancellation_number} was released already"
                raise RefusedError(msg)
            order = row["order_number"]
            reserved, booked = (
                self._sum(
                    "SELECT sum(amount) FROM charges WHERE order_number = :order AND status = :status",
                    order=order,
                    status=status,
                )
                for status in ("reserved", "booked")
            )
            booked -= self._refunded(order)
            self._change(
                "UPDATE charges SET status = 'released' WHERE order_number = :order AND status = 'reserved'",
                order=order,
            )
            if booked > 0:
                self._pay_back(cancellation_number, order, booked)
            self._change("UPDATE cancellations SET released = 1 WHERE number = :number", number=cancellation_number)
            return Release(
                released_cents=reserved + max(0, booked),
                released=euros(reserved + max(0, booked)),
                back_on=self._after(5) if booked > 0 else self._today.isoformat(),
            )

    def update_order_items(self, order_number: str, sku: str, quantity: int, instead_of: str = "") -> ItemChange:
        """Put an article into an order that is only placed, change how many of it, or take it out.

        Args:
            order_number: Number of the order.
            sku: Article that is wanted.
            quantity: How many of it the order is to hold; 0 takes it out.
            instead_of: Article of the order that it takes the place of, as when size or colour changes.
        """
        with self._writing():
            self._must_be(order_number, {"placed", "basket"}, "can its items be changed")
            product = self._product(sku)
            held = {line["sku"]: line for line in self._lines(order_number)}
            if instead_of and instead_of not in held:
                self._line(order_number, instead_of)  # says what the order holds
            if not 0 <= quantity <= MOST_OF_ONE:
                msg = f"a quantity is 0 to {MOST_OF_ONE}, not {quantity}"
                raise RefusedError(msg)
            before = self._total(order_number)
            wanted = {name: line["quantity"] for name, line in held.items() if name != instead_of} | {sku: quantity}
            if not any(wanted.values()):
                msg = f"that would leave nothing in order {order_number}; cancel it with cancel_order instead"
                raise RefusedError(msg)
            if wanted == {name: line["quantity"] for name, line in held.items()}:
                msg = f"order {order_number} holds {quantity} x {sku} already; nothing is to be changed"
                raise RefusedError(msg)
            for name in {**held, **wanted}:
                had = held[name]["quantity"] if name in held else 0
                self._set_line(order_number, name, had, wanted.get(name, 0), price=product["price"])
            difference = self._total(order_number) - before
            number = self._insert(
                "item_changes", "U", order_number=order_number, sku=sku, quantity=quantity, difference=difference
            )
            return ItemChange(change_number=number, total_cents=self._total(order_number), difference_cents=difference)

    def charge_difference(self, exchange_number: str) -> Charge:
        """Charge what an exchange or a change of items made dearer, or pay back what it made cheaper, once.

        Args:
            exchange_number: Number of the exchange (X-...) or of the change of items (U-...).
        """
        table = "item_changes" if exchange_number.startswith("U-") else "exchanges"
        with self._writing():
            row = self._one(
                f"SELECT order_number, difference, account FROM {table} "  # noqa: S608 - one of two literals
                f"JOIN orders ON orders.number = order_number JOIN customers USING (email) "
                f"WHERE {table}.number = :number",
                f"there is no exchange {exchange_number}; create_exchange and update_order_items give such numbers",
                number=exchange_number,
            )
            self._must_be(row["order_number"], _PAID, "is a difference charged")
            if self._maybe("SELECT 1 FROM charges WHERE for_number = :number", number=exchange_number):
                msg = f"the difference of {exchange_number} was charged already"
                raise RefusedError(msg)
            if row["difference"]:
                self._charge(row["order_number"], exchange_number, row["difference"])
            return Charge(charged_cents=row["difference"], account=row["account"])

    def update_order_address(self, order_number: str, address: str) -> AddressChange:
        """Send an order that has not left the warehouse to another address.

        Args:
            order_number: Number of the order.
            address: The new address, as validate_address gave it.
        """
        with self._writing():
            self._must_be(order_number, {"placed", "packed", "basket"}, "can its address be changed")
            place = self._checked_address(address)
            self._change(
                "UPDATE orders SET address = :address WHERE number = :number", address=place, number=order_number
            )
            return AddressChange(order_number=order_number, ships_to=place)

    def redirect_parcel(self, order_number: str, address: str) -> Redirect:
        """Have the carrier bring a parcel on its way to another address in its country, once, for 4.90 EUR at the door.

        Args:
            order_number: Number of the order.
            address: The new address, as validate_address gave it.
        """
        with self._writing():
            order = self._must_be(order_number, {"shipped"}, "can its parcel be redirected")
            place = self._checked_address(address)
            if place[-2:] != order["address"][-2:]:
                msg = f"the carrier redirects within {order['address'][-2:]} alone"
                raise RefusedError(msg)
            if self._maybe("SELECT 1 FROM redirects WHERE order_number = :number", number=order_number):
                msg = f"the parcel of order {order_number} was redirected already; the carrier does it once"
                raise RefusedError(msg)
            self._change(
                "UPDATE orders SET address = :address WHERE number = :number", address=place, number=order_number
            )
            number = self._insert("redirects", "T", order_number=order_number, address=place, fee=REDIRECT_CENTS)
            return Redirect(
                redirect_number=number,
                ships_to=place,
                fee_cents=REDIRECT_CENTS,
                fee_is_paid_to="the carrier, at the door",
            )

    def add_gift_options(
        self,
        order_number: str,
        paper: Literal["stars", "botanical", "plain"],
        card_text: str = "",
        hide_prices: bool = True,  # noqa: FBT001, FBT002 - a tool's arguments come by name
    ) -> GiftOptions:
        """Wrap an order that is not packed yet as a gift; what was wanted before is replaced.

        Args:
            order_number: Number of the order.
            paper: The paper.
            card_text: Text of the card, word for word, 200 characters at most; empty for no card.
            hide_prices: Whether the parcel holds a gift receipt without prices.
        """
        with self._writing():
            order = self._must_be(order_number, {"placed", "basket"}, "can it be wrapped")
            if len(card_text) > LONGEST_CARD:
                msg = f"the card takes {LONGEST_CARD} characters, not {len(card_text)}; ask for a shorter text"
                raise RefusedError(msg)
            self._change(
                "INSERT OR REPLACE INTO gift_options VALUES (:number, :paper, :text, :hide)",
                number=order_number,
                paper=paper,
                text=card_text,
                hide=int(hide_prices),
            )
            if not order["gift_fee"]:
                self._charge_gift(order)
            return GiftOptions(
                order_number=order_number,
                paper=paper,
                card_text=card_text,
                prices_hidden=hide_prices,
                gift_cents=GIFT_CENTS,
            )

    # --- which one is meant -----------------------------------------------------------

    def _orders_of(self, email: str) -> list[sqlite3.Row]:
        """The orders of a customer, the latest first."""
        return self._all(
            "SELECT * FROM orders WHERE email = :email ORDER BY placed_on DESC, number DESC",
            email=email.strip().lower(),
        )

    def _holding(
        self, email: str, rows: list[sqlite3.Row], named: list[sqlite3.Row], item: str, *, number: str
    ) -> tuple[list[sqlite3.Row], sqlite3.Row]:
        """The one order that holds an item, and its article; never one of several."""
        wanted = words(item) - _NEVER_MEANT
        joined = words("".join(each for each in item.split() if words(each) - _NEVER_MEANT))  # tooth brush: toothbrush
        fitting = [
            (row, line)
            for row in rows
            for line in self._lines(row["number"])
            for called in [words(f"{line['title']} {line['brand']} {line['sku']}")]
            if wanted and (wanted <= called or joined <= called)
        ]
        found = [each for each in fitting if each[0] in named]
        if not found:
            where = (
                f"order {number} holds {self._titles(number)}, and nothing" if number else f"{email} ordered nothing"
            )
            elsewhere = self._named(list(dict.fromkeys(row for row, _ in fitting)) or rows)
            msg = f"{where} like {item!r}; {elsewhere}; ask which is meant"
            raise RefusedError(msg) if number else NotFoundError(msg)
        orders = list(dict.fromkeys(row for row, _ in found))
        if len(orders) > 1:
            msg = f"{len(orders)} orders of {email} hold such an item; {self._named(orders)}; ask which is meant"
            raise RefusedError(msg)
        if len(found) > 1:
            several = ", ".join(f"{line['title']} ({line['sku']})" for _, line in found)
            msg = f"order {orders[0]['number']} holds several like {item!r}: {several}; ask which is meant"
            raise RefusedError(msg)
        return orders, found[0][1]

    def _named(self, rows: list[sqlite3.Row]) -> str:
        """Orders as a message names them."""
        if not rows:
            return "ask for the email address that was given when ordering"
        named = (
            f"{row['number']} of {row['placed_on']} ({self._titles(row['number'])}, {row['status']})" for row in rows
        )
        return f"there is {', '.join(named)}"

    def _titles(self, order_number: str) -> str:
        return ", ".join(
            f"{line['quantity']} x {line['title']}" if line["quantity"] > 1 else line["title"]
            for line in self._lines(order_number)
        )

    def _shown(self, row: sqlite3.Row, line: sqlite3.Row | None, others: list[str] | None = None) -> Order:
        lines = self._lines(row["number"])
        meant = line if line is not None else lines[0] if len(lines) == 1 else None
        more = self._all("SELECT tracking FROM more_parcels WHERE order_number = :number", number=row["number"])
        return Order(
            order_number=row["number"],
            status=row["status"],
            placed_on=row["placed_on"],
            promised_on=row["promised_on"],
            delivered_on=row["delivered_on"],
            sku=None if meant is None else meant["sku"],
            title=self._titles(row["number"]) if meant is None else meant["title"],
            items=tuple(
                OrderItem(sku=each["sku"], title=each["title"], quantity=each["quantity"], price_cents=each["price"])
                for each in lines
            ),
            total_cents=self._total(row["number"]),
            shipping=row["shipping"],
            shipping_fee_cents=row["shipping_fee"],
            ships_to=row["address"],
            tracking_number=row["tracking"],
            more_parcels=tuple(each["tracking"] for each in more),
            other_orders=tuple(others or ()),
        )

    # --- what they change -----------------------------------------------------------------

    def _set_line(self, order_number: str, sku: str, had: int, wanted: int, *, price: int) -> None:
        """Change how many of an article an order holds, and the stock with it."""
        if wanted > had:
            self._take(sku, wanted - had)
        else:
            self._change("UPDATE products SET stock = stock + :more WHERE sku = :sku", more=had - wanted, sku=sku)
        values = {"number": order_number, "sku": sku}
        if not wanted:
            self._change("DELETE FROM order_items WHERE order_number = :number AND sku = :sku", **values)
        elif had:
            self._change(
                "UPDATE order_items SET quantity = :wanted WHERE order_number = :number AND sku = :sku",
                wanted=wanted,
                **values,
            )
        else:
            self._change(
                "INSERT INTO order_items (order_number, sku, quantity, price, opened) "
                "VALUES (:number, :sku, :wanted, :price, 0)",
                wanted=wanted,
                price=price,
                **values,
            )

    def _charge_gift(self, order: sqlite3.Row) -> None:
        """The wrapping goes onto the bill, and where the order is paid already, is charged."""
        self._change("UPDATE orders SET gift_fee = :fee WHERE number = :number", fee=GIFT_CENTS, number=order["number"])
        if order["status"] != "basket":
            self._charge(order["number"], "", GIFT_CENTS)
