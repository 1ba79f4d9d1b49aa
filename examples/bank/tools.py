"""The tools of the bank: accounts that live in memory, made anew each time. All of it is invented."""

# ruff: noqa: ARG002 - what a tool takes is what users are asked for, whether this small bank needs it or not

from typing import Annotated, Any

from pydantic import Field

from jazz_select import Tool, tool_from_function
from jazz_select.errors import CannotDo, WrongValue

Day = Annotated[str, Field(json_schema_extra={"format": "date"})]
_MOST = 1_000
_LEAST_INCOME = 2_000


class Bank:
    """What the bank knows of its one customer, and what was done."""

    def __init__(self) -> None:
        self.payees = {"DE-1": ("Grandma", "person"), "DE-2": ("Northern Power", "company")}
        self.cards = {"C-1": "Debit card 1111", "C-2": "Credit card 2222"}
        self.charges = {"C-1": {"X-1": "Bakery, 4 EUR"}, "C-2": {"X-2": "Hotel, 90 EUR", "X-3": "Taxi, 20 EUR"}}
        self.bills = {"B-1": ("Electricity", 80), "B-2": ("Water", 35)}

    def check_code(self, code: str) -> dict[str, Any]:
        """Sign a customer in."""
        if code != "4711":
            raise WrongValue("code", "That is not the code.")
        return {"customer": "ada"}

    def list_payees(self, customer: str) -> list[dict[str, str]]:
        """List who a customer sends money to."""
        return [{"iban": iban, "name": name} for iban, (name, _) in self.payees.items()]

    def get_payee(self, payee: str) -> dict[str, str]:
        """Look a payee up."""
        name, kind = self.payees[payee]
        return {"name": name, "kind": kind}

    def check_amount(self, euros: float) -> bool | str:
        """Say whether an amount may be sent."""
        if euros > _MOST:
            return f"At most {_MOST} EUR can be sent at once."
        return euros > 0 or "That is no amount."

    def send_money(self, payee: str, euros: float, reference: str = "") -> dict[str, str]:
        """Send money."""
        return {"remark": f"Reference: {reference}." if reference else "Without a reference."}

    def list_cards(self, customer: str) -> list[dict[str, str]]:
        """List a customer's cards."""
        return [{"card": card, "name": name} for card, name in self.cards.items()]

    def block_card(self, card: str, why: str, report: str = "", *, replace: bool = False) -> dict[str, str]:
        """Block a card."""
        told = f"The police has it as {report}. " if report else ""
        return {"remark": told + ("A new one is on its way." if replace else "No new one is sent.")}

    def get_customer(self, customer: str) -> dict[str, str]:
        """Look the customer up."""
        return {"address": "Long Lane 5"}

    def order_card(self, design: str, to: str) -> dict[str, str]:
        """Order a card."""
        return {}

    def list_bills(self, customer: str) -> list[dict[str, str]]:
        """List a customer's open bills."""
        return [{"bill": bill, "name": name} for bill, (name, _) in self.bills.items()]

    def get_bill(self, bill: str) -> dict[str, int]:
        """Look a bill up."""
        return {"open_euros": self.bills[bill][1]}

    def pay_bill(self, bill: str, euros: float, day: Day) -> dict[str, str]:
        """Pay a bill."""
        if day > "2026-05-31" and euros < self.bills[bill][1]:
            raise WrongValue({"euros": "After May all of it has to be paid.", "day": "Or pay in May."})
        return {}

    def list_charges(self, card: str) -> list[dict[str, str]]:
        """List the last charges of a card."""
        return [{"charge": charge, "name": name} for charge, name in self.charges[card].items()]

    def dispute_charge(
        self, charge: str, reason: str, right: float | None = None, *, asked: bool | None = None
    ) -> dict[str, str]:
        """Dispute a charge."""
        if asked is False:
            raise CannotDo("Please ask the merchant first; most give the money back.")
        return {"remark": "" if right is None else f"It should be {right:g} EUR."}

    def change_limit(self, card: str, limit: int, income: int | None = None) -> dict[str, str]:
        """Change the limit of a card."""
        if income is not None and income < _LEAST_INCOME:
            raise CannotDo(f"That limit needs an income of {_LEAST_INCOME} EUR.")
        return {}


def tools() -> list[Tool]:
    """Return the tools of a bank of their own."""
    bank = Bank()
    reading = (bank.check_code, bank.list_payees, bank.get_payee, bank.check_amount, bank.list_cards)
    reading += (bank.get_customer, bank.list_bills, bank.get_bill, bank.list_charges)
    acting = (bank.order_card, bank.dispute_charge, bank.change_limit)
    final = (bank.send_money, bank.block_card, bank.pay_bill)
    return [
        *(tool_from_function(each, read_only=True) for each in reading),
        *(tool_from_function(each) for each in acting),
        *(tool_from_function(each, destructive=True) for each in final),
    ]


TOOLS = tools
"""What `--tools examples/bank` connects."""
