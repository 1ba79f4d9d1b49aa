"""What a call that cannot be taken back would do, in words for the customer who is asked for a yes."""

from flows.shop.billing import Billing
from flows.shop.database import euros
from flows.shop.delivery import Delivery
from flows.shop.orders import Orders
from flows.shop.returns import Returns
from flows.shop.subscriptions import Subscriptions


class Saying(Orders, Returns, Delivery, Billing, Subscriptions):
    """One method for each of these tools; each takes what the tool takes, changes nothing, and raises what it would."""

    def say_refund(self, return_number: str) -> str:
        """What would be paid back, for what, and where to."""
        order, amount = self._owed(return_number)
        case = {"R": "returns", "L": "claims"}.get(return_number.partition("-")[0])
        row = self._maybe(f"SELECT sku FROM {case} WHERE number = :number", number=return_number) if case else None  # noqa: S608
        what = f"{self._line(order, row['sku'])['title']} (order {order})" if row is not None else self._held(order)
        return f"{euros(amount)} for {what} go back to {self._order(order)['account']}"

    def say_shipping_fee(self, order_number: str) -> str:
        """Likewise, of the fee of an express delivery."""
        order = self._order(order_number)
        what = f"the delivery of {self._held(order_number)}"
        return f"{euros(order['shipping_fee'])} for {what} go back to {order['account']}"

    def say_difference(self, exchange_number: str) -> str:
        """What would be charged, or paid back, and where."""
        table = "item_changes" if exchange_number.startswith("U-") else "exchanges"
        row = self._one(
            f"SELECT order_number, difference, account FROM {table} "  # noqa: S608 - one of two literals
            f"JOIN orders ON orders.number = order_number JOIN customers USING (email) WHERE {table}.number = :number",
            f"there is no exchange {exchange_number}",
            number=exchange_number,
        )
        what = f"for the change of order {row['order_number']}"
        if row["difference"] < 0:
            return f"{euros(-row['difference'])} {what} go back to {row['account']}"
        return f"{euros(row['difference'])} {what} are charged to {row['account']}"

    def say_cancel(self, order_number: str) -> str:
        """What would not be sent.

        Raises:
            TooLateError: It has left.
        """
        self._refuse_too_late(order_number)
        return f"{self._held(order_number)} will not be sent"

    def say_release(self, cancellation_number: str) -> str:
        """What would be paid back for a cancelled order, and where to."""
        order = self._order(cancellation_number.removeprefix("K-"))
        return f"what was paid for {self._held(order['number'])} goes back to {order['account']}"

    def say_end(self, subscription_number: str) -> str:
        """Which subscription would end."""
        row = self._running(subscription_number)
        product = self._one("SELECT title FROM products WHERE sku = :sku", "there is no such article", sku=row["sku"])
        return f"the subscription of {product['title']} ends for good"

    def _held(self, order_number: str) -> str:
        """An order by what is in it."""
        titles = [
            f"{line['quantity']} x {line['title']}" if line["quantity"] > 1 else line["title"]
            for line in self._lines(order_number)
        ]
        return f"{', '.join(titles)} (order {order_number})"
