"""The part of a message that its author wrote now, and what recall looks for."""

import pytest

from jazz_select import ProceduralMemory
from jazz_select.memory.requests import written_now
from jazz_select.testing import HashEmbedder
from tests.unit.memory.cards import card

pytestmark = pytest.mark.spec("016.10")

WANTED = "Please cancel my order 60142."
QUOTATION = "> We refunded your parcel.\n> Do you want the refund as a voucher?"
CASES = {
    "plain": (WANTED, WANTED),
    "several lines": ("Hi,\nplease cancel it.\nBob", "Hi,\nplease cancel it.\nBob"),
    "below a quotation": (f"{QUOTATION}\n\n{WANTED}", WANTED),
    "above a quotation": (f"{WANTED}\n\nOn Mon, 3 May 2026 at 10:12, Ann <a@example.org> wrote:\n{QUOTATION}", WANTED),
    "an introduction in two lines": (
        f"{WANTED}\n\nOn Mon, 3 May 2026 at 10:12, Ann Smith of the Shop\n<ann@example.org> wrote:\n\n{QUOTATION}",
        WANTED,
    ),
    "a German introduction": (f"{WANTED}\nAm 3. Mai 2026 um 10:12 schrieb Ann <a@example.org>:\n{QUOTATION}", WANTED),
    "a French introduction": (f"{WANTED}\nLe 3 mai 2026 à 10:12, Ann a écrit :\n{QUOTATION}", WANTED),
    "a Spanish introduction": (f"{WANTED}\nEl lun, 3 may 2026, Ann escribió:\n{QUOTATION}", WANTED),
    "between quotations": (f"> Which order?\n{WANTED}\n> Anything else?", WANTED),
    "a nested quotation": (f">> old\n> newer\n{WANTED}", WANTED),
    "a forwarded message": (f"{WANTED}\n\n-----Original Message-----\nI want a refund.", WANTED),
    "a forwarded message of Gmail": (f"{WANTED}\n---------- Forwarded message ---------\nRefund!", WANTED),
    "the heads of Outlook": (f"{WANTED}\n\nFrom: Ann\nSent: Monday\nTo: Shop\nSubject: refund\n\nRefund!", WANTED),
    "German heads": (f"{WANTED}\nVon: Ann\nGesendet: Montag\nAn: Laden\nBetreff: Erstattung\n\nGeld zurück", WANTED),
    "a signature": (f"{WANTED}\n-- \nAnn, head of refunds and vouchers", WANTED),
    "a dash in a sentence": ("cancel it -- now\nplease", "cancel it -- now\nplease"),
    "a table": ("| order | state |\n| 60142 | open |", "| order | state |\n| 60142 | open |"),
    "a form without a subject": (
        "Book it, please.\nFrom: Berlin\nTo: Paris\nDate: 5 May\nA window seat.",
        "Book it, please.\nFrom: Berlin\nTo: Paris\nDate: 5 May\nA window seat.",
    ),
    "heads in another order": (
        f"{WANTED}\nFrom: Ann\nDate: Monday\nTo: Shop\nCc: Bob\nSubject: refund\nRefund!",
        WANTED,
    ),
    "one head alone": ("To: Kim\nsend 20 euros", "To: Kim\nsend 20 euros"),
    "somebody wrote": ("On Monday Ann wrote:\nplease call her back", "On Monday Ann wrote:\nplease call her back"),
    "nothing but a quotation": (QUOTATION, QUOTATION),
    "nothing": ("", ""),
}


@pytest.mark.parametrize(("message", "written"), CASES.values(), ids=CASES.keys())
def test_what_the_author_wrote_now(message: str, written: str) -> None:
    assert written_now(message) == written


async def test_recall_looks_for_what_is_written_and_not_for_what_is_quoted() -> None:
    flows = [card("cancel order", "cancel an order"), card("refund parcel", "refund a parcel as a voucher")]
    async with await ProceduralMemory.open(":memory:", embedder=HashEmbedder(256)) as memory:
        await memory.sync("a", flows)
        for message in (f"{QUOTATION}\n\ncancel an order", "cancel an order\n-- \nrefund parcel voucher refund parcel"):
            found, *_ = await memory.recall(message, "a", 2)
            assert found["flow_name"] == "cancel order"
