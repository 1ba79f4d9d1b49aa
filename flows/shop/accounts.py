"""Accounts: who somebody is, getting in again, keeping the details right, and closing it."""

from datetime import timedelta
from typing import Final, Literal
from zlib import crc32

from flows.shop.account_records import (
    Account,
    AccountClosed,
    CodeSent,
    ContactDetails,
    OpenMatters,
    PasswordReset,
    SavedAddress,
    SecondFactor,
    SignedOut,
    Verification,
)
from flows.shop.database import RefusedError, euros
from flows.shop.rules import Rules

LINK_MINUTES: Final = 30
MOST_TRIES: Final = 3
MOST_LINKS: Final = 3
CHANGED_DAYS: Final = 30
"""A contact detail that was changed since may be an intruder's, so codes go to the one before."""
UNDO_DAYS: Final = 14
_RESET: Final = "Set a new password"
_PROOFS: Final = 2


class Accounts(Rules):
    """What the shop knows of its customers, and what it does for those who have proven who they are."""

    def lookup_account(self, email: str) -> Account:
        """The state of a customer's account: whether and why it is locked, its second factor, its saved addresses."""
        row = self._customer(email)
        places = self._all("SELECT * FROM addresses WHERE email = :email ORDER BY kind DESC", email=row["email"])
        changed = self._all(
            "SELECT field FROM contact_changes WHERE email = :email AND restored = 0 AND changed_on >= :since",
            email=row["email"],
            since=self._after(-CHANGED_DAYS),
        )
        return Account(
            account_email=row["email"],
            name=row["name"],
            account_status=row["status"],
            lock_reason=row["lock_reason"],
            second_factor=row["second_factor"],
            saved_addresses=tuple(SavedAddress(kind=place["kind"], address=place["address"]) for place in places),
            points=row["points"],
            credit_cents=row["credit_cents"],
            lately_changed=tuple(each["field"] for each in changed),
        )

    def send_password_reset(self, email: str) -> PasswordReset:
        """Send a link for a new password, valid for 30 minutes; says the same whether there is an account or not."""
        with self._writing():
            address = email.strip().lower()
            sent = self._sum(
                "SELECT count(*) FROM outbox WHERE email = :email AND subject = :subject AND sent_on = :today",
                email=self._contact(address),
                subject=_RESET,
                today=self._today.isoformat(),
            )
            if sent >= MOST_LINKS:
                msg = f"{MOST_LINKS} links were sent today; check the spelling and the spam folder, or try tomorrow"
                raise RefusedError(msg)
            known = self._maybe("SELECT status FROM customers WHERE email = :email", email=address)
            if known is not None and known["status"] in {"active", "locked"}:
                self._send(self._contact(address), _RESET, f"This link is valid for {LINK_MINUTES} minutes.")
            return PasswordReset(link_goes_to=_masked(address), valid_minutes=LINK_MINUTES)

    def send_verification_code(self, email: str, way: Literal["email", "phone"] = "email") -> CodeSent:
        """Send a six-digit code to what is on file for a customer; where that was changed lately, to what was before.

        Args:
            email: Email address of the account.
            way: Where the code goes to.
        """
        with self._writing():
            row = self._customer(email)
            field = "phone" if way == "phone" else "contact_email"
            target = self._before_changes(row["email"], field, row[field])
            count = self._sum("SELECT count(*) FROM codes WHERE email = :email", email=row["email"])
            seed = f"{row['email']} {count + 1}"
            code = f"{crc32(seed.encode()) % 1_000_000:06d}"  # the same in every run
            self._change("UPDATE codes SET used = 1 WHERE email = :email", email=row["email"])
            self._insert(
                "codes",
                "N",
                email=row["email"],
                sent_to=target,
                code=code,
                sent_on=self._today.isoformat(),
                tries=0,
                used=0,
            )
            return CodeSent(code_sent_to=_masked(target))

    def verify_identity(self, email: str, code: str, last_order_number: str = "") -> Verification:
        """Check that somebody is the customer, by the code that was sent, and by the last order for a second proof.

        Args:
            email: Email address of the account.
            code: What the customer read out of the message.
            last_order_number: Number of the customer's last order, where two proofs are needed.
        """
        with self._writing():
            customer = self._customer(email)["email"]
            row = self._maybe(
                "SELECT * FROM codes WHERE email = :email AND used = 0 AND sent_on = :today",
                email=customer,
                today=self._today.isoformat(),
            )
            if row is None or row["tries"] >= MOST_TRIES:
                why = "too many wrong codes were given" if row is not None else f"no code is open for {customer}"
                msg = f"{why}; send_verification_code sends a new one, or a colleague checks within one working day"
                raise RefusedError(msg)
            last = self._last_order(customer)
            order_fits = bool(last) and last == last_order_number.strip().lstrip("#")
            right = code.strip() == row["code"] and (order_fits or not last_order_number.strip())
            if right:
                self._change("UPDATE codes SET used = 1 WHERE number = :number", number=row["number"])
                self._insert(
                    "verifications",
                    "Y",
                    email=customer,
                    verified_on=self._today.isoformat(),
                    proofs=1 + order_fits,
                )
            else:  # this has to stay, so the refusal is raised once it is written
                self._change("UPDATE codes SET tries = tries + 1 WHERE number = :number", number=row["number"])
        if not right:
            msg = f"the proofs of {customer} are not right; ask once more, or offer a check by a colleague"
            raise RefusedError(msg)
        return Verification(verified=True, proofs=1 + order_fits)

    def unlock_account(self, email: str) -> Account:
        """Unlock an account that failed attempts have locked; its customer has to be verified today."""
        with self._writing():
            row = self._customer(email)
            if row["status"] != "locked":
                msg = f"the account of {row['email']} is {row['status']} and not locked"
                raise RefusedError(msg)
            if row["lock_reason"] != "failed_attempts":
                msg = (
                    f"the account of {row['email']} is locked by {row['lock_reason']}, who decides on it; do not unlock"
                )
                raise RefusedError(msg)
            self._refuse_unverified(row["email"])
            self._change(
                "UPDATE customers SET status = 'active', lock_reason = NULL WHERE email = :email", email=row["email"]
            )
            return self.lookup_account(row["email"])

    def remove_second_factor(self, email: str) -> SecondFactor:
        """Make the old device for sign-in codes count no longer; its customer has to be verified with two proofs."""
        with self._writing():
            row = self._customer(email)
            if row["second_factor"] != "device":
                msg = f"the account of {row['email']} has no device for codes; send_second_factor_setup sets one up"
                raise RefusedError(msg)
            self._refuse_unverified(row["email"], proofs=_PROOFS)
            self._change("UPDATE customers SET second_factor = 'none' WHERE email = :email", email=row["email"])
            return SecondFactor(second_factor="none")

    def send_second_factor_setup(self, email: str) -> SecondFactor:
        """Send a link with which a new device for sign-in codes is set up, once the old one is removed."""
        with self._writing():
            row = self._customer(email)
            if row["second_factor"] == "device":
                msg = f"the old device of {row['email']} still counts; call remove_second_factor first"
                raise RefusedError(msg)
            self._refuse_unverified(row["email"])
            self._change("UPDATE customers SET second_factor = 'setup_sent' WHERE email = :email", email=row["email"])
            self._send(
                self._before_changes(row["email"], "contact_email", row["contact_email"]),
                "Set up your new device",
                f"This link is valid for {LINK_MINUTES} minutes.",
            )
            return SecondFactor(second_factor="setup_sent")

    def update_account_address(
        self, email: str, address: str, kind: Literal["delivery", "billing", "both"] = "both"
    ) -> Account:
        """Save another address in the account, for orders to come.

        Args:
            email: Email address of the account.
            address: The new address, as validate_address gave it.
            kind: What it is for.
        """
        with self._writing():
            row, place = self._customer(email), self._checked_address(address)
            if row["status"] in {"guest", "closed"}:
                msg = f"{row['email']} has no open account to save an address in"
                raise RefusedError(msg)
            for each in ("delivery", "billing") if kind == "both" else (kind,):
                saved = self._maybe(
                    "SELECT number FROM addresses WHERE email = :email AND kind = :kind", email=row["email"], kind=each
                )
                if saved is None:
                    self._insert("addresses", "A", email=row["email"], kind=each, address=place)
                else:
                    self._change(
                        "UPDATE addresses SET address = :address WHERE number = :number",
                        address=place,
                        number=saved["number"],
                    )
            return self.lookup_account(row["email"])

    def restore_contact_details(self, email: str) -> ContactDetails:
        """Set email address and phone back to what they were before changes of the last 30 days."""
        with self._writing():
            row = self._customer(email)
            self._refuse_unverified(row["email"])
            for field in ("contact_email", "phone"):
                self._change(
                    f"UPDATE customers SET {field} = :before WHERE email = :email",  # noqa: S608 - one of two literals
                    before=self._before_changes(row["email"], field, row[field]),
                    email=row["email"],
                )
            self._change(
                "UPDATE contact_changes SET restored = 1 WHERE email = :email AND changed_on >= :since",
                email=row["email"],
                since=self._after(-CHANGED_DAYS),
            )
            now = self._customer(email)
            return ContactDetails(contact_email=now["contact_email"], phone=_masked(now["phone"]))

    def sign_out_everywhere(self, email: str) -> SignedOut:
        """End every sign-in of an account; its customer has to be verified today."""
        with self._writing():
            row = self._customer(email)
            self._refuse_unverified(row["email"])
            ended = self._sum("SELECT count(*) FROM sign_ins WHERE email = :email", email=row["email"])
            self._change("DELETE FROM sign_ins WHERE email = :email", email=row["email"])
            return SignedOut(ended_sign_ins=ended)

    def check_open_matters(self, email: str) -> OpenMatters:
        """What keeps an account from being closed: open orders, returns, subscriptions, gift cards, credit."""
        row = self._customer(email)
        orders = self._all(
            "SELECT number FROM orders WHERE email = :email AND status IN ('placed', 'packed', 'shipped', 'held')",
            email=row["email"],
        )
        returns = self._all(
            "SELECT returns.number FROM returns JOIN orders ON orders.number = order_number WHERE email = :email "
            "AND returns.number NOT IN (SELECT for_number FROM refunds)",
            email=row["email"],
        )
        subscriptions = self._all(
            "SELECT number FROM subscriptions WHERE email = :email AND status <> 'ended'", email=row["email"]
        )
        cards = self._sum(
            "SELECT sum(balance) FROM gift_cards JOIN orders ON orders.number = order_number "
            "WHERE email = :email AND gift_cards.status = 'active'",
            email=row["email"],
        )
        found = [tuple(each["number"] for each in rows) for rows in (orders, returns, subscriptions)]
        return OpenMatters(
            open_orders=found[0],
            open_returns=found[1],
            running_subscriptions=found[2],
            gift_card_cents=cards,
            credit_cents=row["credit_cents"],
            all_settled=not any((*found, cards, row["credit_cents"])),
        )

    def close_account(self, email: str) -> AccountClosed:
        """Close the account of a customer who is verified today, once nothing is open; it can be undone for 14 days."""
        with self._writing():
            row = self._customer(email)
            if row["status"] in {"guest", "closed"}:
                msg = f"there is no open account of {row['email']}; it is {row['status']}"
                raise RefusedError(msg)
            self._refuse_unverified(row["email"])
            matters = self.check_open_matters(row["email"])
            if not matters.all_settled:
                named = ", ".join((*matters.open_orders, *matters.open_returns, *matters.running_subscriptions))
                money = matters.gift_card_cents + matters.credit_cents
                msg = f"{row['email']} has open matters, {named or 'none'}, and {euros(money)} of balance; settle them"
                raise RefusedError(msg)
            self._change(
                "UPDATE customers SET status = 'closed', closed_on = :today WHERE email = :email",
                today=self._today.isoformat(),
                email=row["email"],
            )
            self._change("DELETE FROM sign_ins WHERE email = :email", email=row["email"])
            undo = self._after(UNDO_DAYS)
            self._send(row["contact_email"], "Your account is closed", f"It can be undone until {undo}.")
            return AccountClosed(
                closed_on=self._today.isoformat(),
                undo_until=undo,
                invoices_kept_until=(self._today + timedelta(days=3652)).isoformat(),
            )

    def _last_order(self, email: str) -> str:
        """The order that a customer knows as the last one: none since contact details were changed."""
        row = self._maybe(
            "SELECT number FROM orders WHERE email = :email AND status <> 'basket' AND NOT EXISTS ("
            "SELECT 1 FROM contact_changes WHERE contact_changes.email = :email AND restored = 0 "
            "AND changed_on >= :since AND changed_on <= placed_on) ORDER BY placed_on DESC, number DESC",
            email=email,
            since=self._after(-CHANGED_DAYS),
        )
        return "" if row is None else row["number"]

    def _contact(self, email: str) -> str:
        """Where mail to an account goes."""
        row = self._maybe("SELECT contact_email FROM customers WHERE email = :email", email=email)
        return email if row is None else self._before_changes(email, "contact_email", row["contact_email"])

    def _before_changes(self, email: str, field: str, now: str) -> str:
        """A contact detail as it was before the changes that may be somebody else's."""
        row = self._maybe(
            "SELECT old FROM contact_changes WHERE email = :email AND field = :field AND restored = 0 "
            "AND changed_on >= :since ORDER BY changed_on, rowid",
            email=email,
            field=field,
            since=self._after(-CHANGED_DAYS),
        )
        return now if row is None else row["old"]


def _masked(text: str) -> str:
    """Enough of an address or number for whoever knows it."""
    name, at, host = text.partition("@")
    return f"{name[:1]}***@{host}" if at else f"***{text[-4:]}"
