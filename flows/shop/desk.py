"""The support desk: letters to customers, a colleague who takes over, and calls at a later time."""

import re
from typing import Final

from flows.shop.account_records import Callback, CallbackSlot, CallbackSlots, Colleague, Email, Summary, Transfer
from flows.shop.database import NotFoundError, RefusedError
from flows.shop.rules import Rules

LONGEST_LETTER: Final = 5000
_FEWEST_DIGITS: Final = 7


class Desk(Rules):
    """Where people help."""

    def send_email(self, email: str, subject: str, text: str, attachment: str = "") -> Email:
        """Write to a customer, at the address in the account.

        Args:
            email: Email address of the customer.
            subject: Subject of the letter.
            text: The letter.
            attachment: Name of a document of the shop, such as invoice-I-40001.pdf.
        """
        with self._writing():
            customer = self._customer(email)
            if not subject.strip() or not text.strip() or len(text) > LONGEST_LETTER:
                msg = f"a letter has a subject, and a text of at most {LONGEST_LETTER} characters"
                raise RefusedError(msg)
            if attachment:
                self._refuse_foreign(attachment, customer["email"])
            number = self._send(customer["contact_email"], subject.strip(), text, attachment=attachment)
            return Email(message_number=number, sent_to=customer["contact_email"])

    def summarise_conversation(self, email: str, wish: str, tried: str) -> Summary:
        """Write down for a colleague who the customer is, what is wanted and what was tried.

        Args:
            email: Email address of the customer; empty where it is not known.
            wish: What it is about and what the customer wants, in one or two sentences.
            tried: What was tried so far; "nothing" if nothing was.
        """
        with self._writing():
            if not wish.strip():
                msg = "a summary says what the customer wants; ask for it"
                raise RefusedError(msg)
            number = self._insert(
                "summaries",
                "Z",
                email=email.strip().lower(),
                wish=wish.strip(),
                tried=tried.strip(),
                written_on=self._today.isoformat(),
            )
            first = re.split(r"(?<=[.!?])\s", wish.strip(), maxsplit=1)[0]
            return Summary(summary_number=number, first_sentence=first)

    def find_free_colleague(self, team: str = "") -> Colleague:
        """The colleague at the desk who is free first, and the waiting time in minutes.

        Args:
            team: "orders", "payments" or "complaints", where it matters; anybody otherwise.
        """
        row = self._one(
            "SELECT * FROM colleagues WHERE present = 1 AND (:team = '' OR team = :team) ORDER BY waiting_minutes",
            f"nobody of {team[:40] or 'the desk'} is there; offer a callback, or ask for another team",
            team=team.strip().lower(),
        )
        return Colleague(colleague=row["name"], team=row["team"], waiting_minutes=row["waiting_minutes"])

    def transfer_conversation(self, summary_number: str, colleague: str) -> Transfer:
        """Hand the conversation over to a colleague at the desk, with its summary, once.

        Args:
            summary_number: Number that summarise_conversation gave (Z-...).
            colleague: Name that find_free_colleague gave.
        """
        with self._writing():
            self._summary(summary_number)
            row = self._one(
                "SELECT * FROM colleagues WHERE name = :name COLLATE NOCASE",
                f"there is no colleague {colleague[:40]!r}; find_free_colleague names one",
                name=colleague.strip(),
            )
            if not row["present"]:
                msg = f"{row['name']} is not at the desk; find_free_colleague names somebody who is"
                raise RefusedError(msg)
            if self._maybe("SELECT 1 FROM transfers WHERE summary_number = :number", number=summary_number):
                msg = f"{summary_number} was handed over already"
                raise RefusedError(msg)
            number = self._insert("transfers", "TF", summary_number=summary_number, colleague=row["name"])
            return Transfer(transfer_number=number, taken_over_by=row["name"], waiting_minutes=row["waiting_minutes"])

    def list_callback_slots(self) -> CallbackSlots:
        """The free times for a call, the soonest first."""
        rows = self._all(
            "SELECT * FROM callback_slots WHERE day >= :today "
            "AND number NOT IN (SELECT slot_number FROM callbacks) ORDER BY day, hours",
            today=self._today.isoformat(),
        )
        if not rows:
            msg = "no call is free in the next days; offer to write an email"
            raise NotFoundError(msg)
        return CallbackSlots(
            slots=tuple(CallbackSlot(slot_number=row["number"], day=row["day"], hours=row["hours"]) for row in rows)
        )

    def book_callback(self, summary_number: str, slot_number: str, phone: str) -> Callback:
        """Book a call at a free time, once for each summary.

        Args:
            summary_number: Number that summarise_conversation gave (Z-...).
            slot_number: Number that list_callback_slots gave (CS-...).
            phone: Phone number with its prefix.
        """
        with self._writing():
            self._summary(summary_number)
            slot = self._one(
                "SELECT * FROM callback_slots WHERE number = :number",
                f"there is no slot {slot_number}; list_callback_slots gives the free ones",
                number=slot_number,
            )
            digits = re.sub(r"[\s()/.-]", "", phone)
            if not re.fullmatch(rf"\+?\d{{{_FEWEST_DIGITS},15}}", digits, re.ASCII):
                msg = f"{phone[:40]!r} is no phone number; ask for it once more, with its prefix"
                raise RefusedError(msg)
            if self._maybe("SELECT 1 FROM callbacks WHERE slot_number = :number", number=slot_number):
                msg = f"slot {slot_number} is taken; list_callback_slots gives the free ones"
                raise RefusedError(msg)
            if self._maybe("SELECT 1 FROM callbacks WHERE summary_number = :number", number=summary_number):
                msg = f"a call for {summary_number} is booked already"
                raise RefusedError(msg)
            number = self._insert(
                "callbacks", "CB", summary_number=summary_number, slot_number=slot_number, phone=digits
            )
            return Callback(callback_number=number, call_on=slot["day"], hours=slot["hours"], phone=digits)

    def _summary(self, number: str) -> None:
        problem = f"there is no summary {number}; write one with summarise_conversation first"
        self._one("SELECT 1 FROM summaries WHERE number = :number", problem, number=number)

    def _refuse_foreign(self, attachment: str, email: str) -> None:
        """Only what is the customer's own is sent to the customer."""
        number = attachment.removeprefix("invoice-").removesuffix(".pdf")
        owner = self._maybe(
            "SELECT email FROM invoices JOIN orders ON orders.number = order_number WHERE invoices.number = :number",
            number=number,
        )
        if owner is None or owner["email"] != email:
            msg = f"{attachment[:60]!r} is no document of {email}; create_invoice_pdf gives the name of one"
            raise RefusedError(msg)
