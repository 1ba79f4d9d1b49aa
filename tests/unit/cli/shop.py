"""A small catalogue in a folder, as an author writes it: two flows in YAML, one with a guard in Python."""

from pathlib import Path

REFUND = """
  - name: refund_order
    description: Refund a delivered order.
    condition: The customer wants the money back.
    desired_effects: [The money is refunded]
    examples: [I want my money back, refund my order, give me a refund please, can I be reimbursed, money back now]
"""
TRACK = """
  - name: track_order
    description: Say where a parcel is.
    condition: The customer asks where the parcel is.
    desired_effects: [The customer knows where it is]
    examples: [where is my parcel, track my package, has it shipped yet, when will the courier come, any delivery news]
"""
INVOICE = """
  - name: invoice_copy
    description: Send a copy of an invoice.
    condition: The customer needs an invoice.
    desired_effects: [The customer has the invoice]
    examples: [send me the invoice, I need a bill for my taxes, a receipt please, PDF of the invoice, lost my receipt]
"""
GUARDED = """
from jazz_select import BaseFlow


class CloseAccount(BaseFlow):
    name = "close_account"
    description = "Close an account for good."
    condition = "The customer wants to leave."
    desired_effects = ["The account is closed"]
    examples = ["close my account", "delete my profile", "erase my data", "let me leave", "shut the account down"]

    def available(self, context):
        return context.get("authenticated") is True
"""


def write_flows(folder: Path, *flows: str) -> Path:
    """Replace the YAML flows of the folder by these."""
    folder.mkdir(exist_ok=True)
    (folder / "shop.yaml").write_text("flows:" + "".join(flows), encoding="utf-8")
    (folder / "account.py").write_text(GUARDED, encoding="utf-8")
    return folder
