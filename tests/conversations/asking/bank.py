"""A small bank: flows that ask for what they need, and the tools that they work with."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from jazz_select import (
    Agent,
    Flow,
    FlowRegistry,
    FlowSelector,
    Input,
    ProceduralMemory,
    sync_registry,
    tool_from_function,
)
from jazz_select.errors import WrongValue
from jazz_select.ports import ChatModel
from jazz_select.selector.policy import Policy
from tests.vectors import EMBEDDER

CUSTOMERS = {"ada@example.org": "Ada", "ben@example.org": "Ben"}


class Bank:
    """What happened at it."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, float]] = []

    def find_customer(self, email: str) -> dict[str, str]:
        """Find a customer."""
        if email not in CUSTOMERS:
            raise WrongValue("email", f"Nobody here has the address {email}.")
        return {"customer": CUSTOMERS[email]}

    def book_visit(self, customer: str, day: str) -> dict[str, str]:
        """Book a visit at the branch."""
        return {"visit": f"{customer} on {day}"}

    def register_transfer(self, recipient: str, amount: float) -> dict[str, str]:
        """Register a transfer."""
        self.sent.append((recipient, amount))
        return {"transfer": f"T-{len(self.sent)}"}

    def send_transfer(self, transfer: str) -> dict[str, str]:
        """Send a registered transfer."""
        return {"sent": transfer}

    def withdraw_transfer(self, transfer: str) -> None:
        """Withdraw a registered transfer."""

    def log_in(self, code: str) -> dict[str, str]:
        """Log a customer in."""
        if code != "4711":
            raise WrongValue("code", "That is not the code that we sent.")
        return {"session": "S-1"}

    def order_card(self, session: str, design: str) -> dict[str, str]:
        """Order a new card."""
        return {"ordered": design}

    def read_balance(self, session: str) -> dict[str, str]:
        """Read the balance."""
        return {"balance": "812 EUR"}

    def close_account(self, session: str) -> dict[str, str]:
        """Close the account."""
        raise OSError("the vault is shut")


def _flows() -> FlowRegistry:
    registry = FlowRegistry(min_examples=0)
    Flow(
        name="visit_branch",
        title="A visit at the branch",
        condition="The customer wants to come to the branch.",
        examples=["I would like a visit at the branch", "book me a visit", "Ich möchte einen Termin in der Filiale"],
        inputs=[
            Input(
                "email",
                "What is the email address of your account?",
                example="ada@example.org",
                check=lambda value: "@" in value,
                problem="{value} is no email address.",
            ),
            Input("day", "On which day?", choices=("Monday", "Tuesday")),
        ],
        tools=["find_customer", "book_visit"],
        chain=["find_customer", "book_visit"],
        reply="Booked: {visit}.",
        registry=registry,
    )
    Flow(
        name="transfer_money",
        title="A transfer",
        condition="The customer wants to send money to somebody.",
        examples=["I want to transfer money", "send money to a friend", "make a transfer"],
        inputs=[
            Input("recipient", "Who gets the money?"),
            Input(
                "amount", "How much?", check=lambda value: value <= 1_000, problem="{value} is over your limit of 1000."
            ),
        ],
        tools=["register_transfer", "send_transfer", "withdraw_transfer"],
        chain=["register_transfer", "send_transfer"],
        registry=registry,
    )
    Flow(
        name="prove_identity",
        title="Logging in",
        condition="The customer wants to log in.",
        examples=["log me in"],
        inputs=[Input("code", "Which code did we send to your phone?", example="1234")],
        tools=["log_in"],
        chain=["log_in"],
        registry=registry,
    )
    Flow(
        name="new_card",
        title="A new card",
        condition="The customer wants a new card.",
        examples=["I need a new card", "order a new bank card"],
        inputs=[Input("design", "Which design?", choices=("blue", "green"))],
        calls=["prove_identity"],
        tools=["order_card"],
        chain=["order_card"],
        reply="The {ordered} card is on its way.",
        registry=registry,
    )
    Flow(
        name="balance",
        title="The balance",
        condition="The customer asks how much money there is.",
        examples=["how much money do I have", "what is my balance"],
        calls=["prove_identity"],
        tools=["read_balance"],
        chain=["read_balance"],
        reply="You have {balance}.",
        registry=registry,
    )
    Flow(
        name="leave_bank",
        title="Closing the account",
        condition="The customer wants to close the account.",
        examples=["close my account", "I am leaving this bank"],
        calls=["prove_identity"],
        tools=["close_account"],
        chain=["close_account"],
        registry=registry,
    )
    Flow(
        name="stolen_card",
        title="A stolen card",
        condition="A card was stolen.",
        examples=["my card was stolen", "somebody took my card"],
        manual=True,
        reply="Please call 116 116 first: they block it at once.",
        registry=registry,
    )
    return registry


@asynccontextmanager
async def make_agent(model: ChatModel | None) -> AsyncGenerator[Agent]:
    """An agent of the bank, with a ledger of its own."""
    bank, registry = Bank(), _flows()
    tools = [
        tool_from_function(bank.find_customer, read_only=True),
        bank.book_visit,
        bank.register_transfer,
        tool_from_function(bank.send_transfer, destructive=True),
        tool_from_function(bank.withdraw_transfer, undoes="register_transfer"),
        tool_from_function(bank.log_in, read_only=True),
        bank.order_card,
        tool_from_function(bank.read_balance, read_only=True),
        tool_from_function(bank.close_account, destructive=True),
    ]
    async with await ProceduralMemory.open(":memory:", embedder=EMBEDDER) as memory:
        await sync_registry(memory, "bank", registry)
        selector = FlowSelector(None, registry, memory, "bank", policy=Policy(on_empty="top1"))
        yield Agent(selector, tools, model, approval="destructive", handover_after=3)
