"""Subscriptions: what comes by itself, for how long, and how often."""

from datetime import date, timedelta
from sqlite3 import Row
from typing import Final

from flows.shop.account_records import Subscription, SubscriptionEnd
from flows.shop.database import NotFoundError, RefusedError, as_day, euros, words
from flows.shop.rules import Rules

LONGEST_PAUSE: Final = 184
"""Days: half a year."""
_MOST_WEEKS: Final = 26
_MOST: Final = 20


class Subscriptions(Rules):
    """What customers have delivered by themselves."""

    def lookup_subscription(self, email: str, item: str = "", subscription_number: str = "") -> Subscription:
        """Find a customer's subscription by an item or by its number; where there are several, one has to be named.

        Args:
            email: Email address of the account.
            item: The customer's words for what is delivered, such as "coffee".
            subscription_number: Number of the subscription (S-...).
        """
        customer = self._customer(email)["email"]
        rows = self._all("SELECT * FROM subscriptions WHERE email = :email", email=customer)
        listed = ", ".join(f"{row['number']} ({self._product(row['sku'])['title']}, {row['status']})" for row in rows)
        wanted = words(item) - {"subscription", "my", "the", "delivery", "monthly", "regular", "box", "plan"}
        found = [
            row
            for row in rows
            if wanted <= words(self._product(row["sku"])["title"])
            and subscription_number.strip().upper() in {"", row["number"]}
        ]
        if not found:
            what = f"; there is {listed}" if rows else ""
            msg = f"{customer} has no such subscription{what}"
            raise NotFoundError(msg)
        running = [row for row in found if row["status"] != "ended"] or found
        if len(running) > 1:
            msg = f"{customer} has {len(running)} subscriptions: {listed}; ask which is meant"
            raise RefusedError(msg)
        return self._subscription(running[0]["number"])

    def pause_subscription(self, subscription_number: str, until: str) -> Subscription:
        """Pause a subscription up to a day within half a year; it goes on by itself. A packed box still comes.

        Args:
            subscription_number: Number of the subscription (S-...).
            until: First day on which a box may come again, such as 2025-09-01.
        """
        with self._writing():
            row, day = self._running(subscription_number), as_day(until, "the end of a pause")
            if not 1 <= (day - self._today).days <= LONGEST_PAUSE:
                msg = f"a pause ends between tomorrow and {self._after(LONGEST_PAUSE)}, not on {day}"
                raise RefusedError(msg)
            following = date.fromisoformat(row["next_delivery"])
            upcoming = following if row["packed"] else max(following, day)
            self._change(
                "UPDATE subscriptions SET status = 'paused', paused_until = :until, next_delivery = :next "
                "WHERE number = :number",
                until=day.isoformat(),
                next=upcoming.isoformat(),
                number=row["number"],
            )
            return self._subscription(row["number"])

    def cancel_subscription(self, subscription_number: str) -> SubscriptionEnd:
        """End a subscription for good; what was paid beyond the last box is paid back.

        Args:
            subscription_number: Number of the subscription (S-...).
        """
        with self._writing():
            row = self._running(subscription_number)
            self._change(
                "UPDATE subscriptions SET status = 'ended', prepaid_cents = 0 WHERE number = :number",
                number=row["number"],
            )
            if row["prepaid_cents"]:
                self._insert(
                    "refunds",
                    "F",
                    for_number=row["number"],
                    order_number=None,
                    amount=row["prepaid_cents"],
                    account=self._customer(row["email"])["account"],
                    expected_on=self._after(5),
                )
            return SubscriptionEnd(
                subscription_number=row["number"],
                ended_on=self._today.isoformat(),
                one_more_box_on=row["next_delivery"] if row["packed"] else None,
                paid_back=euros(row["prepaid_cents"]),
            )

    def update_subscription(
        self,
        subscription_number: str,
        sku: str = "",
        quantity: int = 0,
        every_weeks: int = 0,
        next_delivery: str = "",
    ) -> Subscription:
        """Change what a running subscription delivers, how much, how often or when; not while its next box is packed.

        Args:
            subscription_number: Number of the subscription (S-...).
            sku: Article that it is to deliver.
            quantity: How many of it, 1 to 20.
            every_weeks: Weeks between two boxes, 1 to 26; counted from the last box, so the next one moves too.
            next_delivery: Day of the next box, such as 2025-07-01.
        """
        with self._writing():
            row = self._running(subscription_number)
            if not (sku or quantity or every_weeks or next_delivery):
                msg = "say what is to change: article, quantity, rhythm or day of the next box"
                raise RefusedError(msg)
            if not 0 <= quantity <= _MOST or not 0 <= every_weeks <= _MOST_WEEKS:
                msg = f"a box holds 1 to {_MOST}, every 1 to {_MOST_WEEKS} weeks"
                raise RefusedError(msg)
            if row["packed"]:
                msg = f"the box of {row['next_delivery']} is packed; change the subscription after that day"
                raise RefusedError(msg)
            if sku:
                product = self._product(sku)
                if not product["refill"]:
                    msg = f"{product['title']} is not sold as a subscription"
                    raise RefusedError(msg)
                if product["stock"] < (quantity or row["quantity"]):
                    msg = f"{product['title']} is sold out; check_stock says when new ones come"
                    raise RefusedError(msg)
            day = as_day(next_delivery, "the day of the next box") if next_delivery else None
            if day is not None and not 1 <= (day - self._today).days <= LONGEST_PAUSE:
                msg = f"the next box comes between tomorrow and {self._after(LONGEST_PAUSE)}, not on {day}"
                raise RefusedError(msg)
            last = date.fromisoformat(row["next_delivery"]) - timedelta(weeks=row["every_weeks"])
            moved = max(last + timedelta(weeks=every_weeks or row["every_weeks"]), self._today + timedelta(days=1))
            self._change(
                "UPDATE subscriptions SET sku = :sku, quantity = :quantity, every_weeks = :weeks, "
                "next_delivery = :next WHERE number = :number",
                sku=sku or row["sku"],
                quantity=quantity or row["quantity"],
                weeks=every_weeks or row["every_weeks"],
                next=(day or moved).isoformat(),
                number=row["number"],
            )
            return self._subscription(row["number"])

    def _subscription(self, number: str) -> Subscription:
        row = self._one(
            "SELECT subscriptions.*, title, price FROM subscriptions JOIN products USING (sku) WHERE number = :number",
            f"there is no subscription {number}; find it with lookup_subscription",
            number=number.strip().upper(),
        )
        return Subscription(
            subscription_number=row["number"],
            subscription_status=row["status"],
            subscribed_sku=row["sku"],
            title=row["title"],
            quantity=row["quantity"],
            every_weeks=row["every_weeks"],
            box_cents=row["price"] * row["quantity"],
            next_delivery=row["next_delivery"],
            next_box_is_packed=bool(row["packed"]),
            paused_until=row["paused_until"],
            paid_until=row["paid_until"],
        )

    def _running(self, number: str) -> Row:
        row = self._one(
            "SELECT * FROM subscriptions WHERE number = :number",
            f"there is no subscription {number}; find it with lookup_subscription",
            number=number.strip().upper(),
        )
        if row["status"] == "ended":
            msg = f"subscription {row['number']} has ended already"
            raise RefusedError(msg)
        return row
