"""Gift cards: money that was paid, on a card of its own."""

from datetime import date
from sqlite3 import Row
from typing import Final

from flows.shop.account_records import GiftCard, NewGiftCard, Redeemed
from flows.shop.database import RefusedError
from flows.shop.rules import Rules

VALID_YEARS: Final = 5


class GiftCards(Rules):
    """What is left on a card, and who gets it."""

    def lookup_gift_card(self, card_number: str = "", order_number: str = "") -> GiftCard:
        """Find a gift card by its number, or by the order in which it was bought: balance, expiry and state.

        Args:
            card_number: Number of the card (G-...).
            order_number: Order in which it was bought, where the number cannot be read.
        """
        if not card_number.strip() and not order_number.strip():
            msg = "ask for the number of the card, or for the order in which it was bought"
            raise RefusedError(msg)
        row = self._card(card_number, order_number)
        return GiftCard(
            card_number=row["number"],
            card_status=self._state(row),
            balance_cents=row["balance"],
            expires_on=_expiry(row).isoformat(),
        )

    def redeem_gift_card(self, card_number: str, email: str) -> Redeemed:
        """Book all that is left on a gift card to a customer's account, once.

        Args:
            card_number: Number of the card (G-...).
            email: Email address of the account.
        """
        with self._writing():
            row, customer = self._card(card_number), self._customer(email)
            self._refuse_dead(row)
            if customer["status"] != "active":
                msg = f"{customer['email']} has no active account ({customer['status']}); redeem the card at checkout"
                raise RefusedError(msg)
            self._change(
                "UPDATE gift_cards SET status = 'redeemed', balance = 0 WHERE number = :number", number=row["number"]
            )
            self._change(
                "UPDATE customers SET credit_cents = credit_cents + :balance WHERE email = :email",
                balance=row["balance"],
                email=customer["email"],
            )
            return Redeemed(booked_cents=row["balance"], credit_cents=customer["credit_cents"] + row["balance"])

    def replace_gift_card(self, card_number: str, email: str, order_number: str) -> NewGiftCard:
        """Replace a lost or unreadable gift card for its buyer: the old one is void, the new one is sent by email.

        Args:
            card_number: Number of the old card, as lookup_gift_card gives it.
            email: Email address with which it was bought.
            order_number: Order in which it was bought.
        """
        with self._writing():
            row = self._card(card_number)
            self._refuse_dead(row)
            bought = self._maybe(
                "SELECT 1 FROM orders WHERE number = :order AND email = :email",
                order=order_number,
                email=email.strip().lower(),
            )
            if not order_number or row["order_number"] != order_number or bought is None:
                msg = (
                    f"order {order_number} of {email} does not show that {row['number']} was bought; ask for the order"
                )
                raise RefusedError(msg)
            self._change(
                "UPDATE gift_cards SET status = 'replaced', balance = 0 WHERE number = :number", number=row["number"]
            )
            number = self._insert(
                "gift_cards",
                "G",
                order_number=order_number,
                balance=row["balance"],
                bought_on=row["bought_on"],
                status="active",
            )
            self._send(email.strip().lower(), "Your new gift card", f"Its number is {number}.")
            return NewGiftCard(new_card_number=number, balance_cents=row["balance"])

    def _card(self, card_number: str, order_number: str = "") -> Row:
        return self._one(
            "SELECT * FROM gift_cards WHERE (number = :number OR (:number = '' AND order_number = :order)) "
            "ORDER BY status = 'active' DESC, rowid DESC",
            f"there is no gift card {card_number or f'of order {order_number}'}; check the number once more",
            number=card_number.strip().upper(),
            order=order_number.strip(),
        )

    def _state(self, row: Row) -> str:
        return "expired" if row["status"] == "active" and _expiry(row) < self._today else row["status"]

    def _refuse_dead(self, row: Row) -> None:
        if (state := self._state(row)) != "active":
            when = f" since {_expiry(row)}" if state == "expired" else ""
            msg = f"gift card {row['number']} is {state}{when}, and nothing is left on it to book"
            raise RefusedError(msg)


def _expiry(row: Row) -> date:
    bought = date.fromisoformat(row["bought_on"])
    return bought.replace(year=bought.year + VALID_YEARS, day=min(bought.day, 28))
