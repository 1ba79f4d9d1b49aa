"""What is offered: flows that a request names, and what each of its clauses needs."""

from collections.abc import AsyncIterator

import pytest

from jazz_select import ProceduralMemory
from jazz_select.memory.encoder import folded_alias
from jazz_select.memory.fit.model import name_lengths
from jazz_select.memory.requests import names_in
from jazz_select.testing import HashEmbedder
from jazz_select.values import FlowCard, flow_id
from tests.unit.memory.cards import card

TOPICS = ("invoice", "parcel", "password", "address", "voucher", "newsletter", "warranty", "complaint")
DEEDS = ("show", "send", "change", "delete")
CATALOGUE = [card(f"{deed} {topic}", f"{deed} the {topic} of a customer") for topic in TOPICS for deed in DEEDS]
TITLED = FlowCard(
    id=flow_id("f17"),
    name="f17",
    title="Night of the museums",
    description="books a visit",
    examples=("a visit after dark", "the late opening", "museums at night"),
)


@pytest.fixture
async def memory() -> AsyncIterator[ProceduralMemory]:
    """Thirty-two flows, four to a topic, and one whose title says what its name does not."""
    async with await ProceduralMemory.open(":memory:", embedder=HashEmbedder(256)) as opened:
        await opened.sync("a", [*CATALOGUE, TITLED])
        yield opened


def offered(found: object) -> list[str]:
    return [each["flow_name"] for each in found]  # type: ignore[attr-defined]


NAMES = {"cancel order": "c", "order": "o", "track parcel": "t", "top up": "u", "注文を取り消す": "j"}


@pytest.mark.spec("016.7")
@pytest.mark.parametrize(
    ("request_", "found"),
    [
        ("please cancel_order and then trackParcel", ("c", "t")),
        ("Cancel Order, top-up!", ("c", "u")),
        ("cancel my order", ("o",)),
        ("I ordered a top", ()),
        ("cancel order order", ("c", "o")),
        ("注文を取り消す", ("j",)),
        ("", ()),
    ],
)
def test_names_that_stand_in_a_request(request_: str, found: tuple[str, ...]) -> None:
    assert names_in(folded_alias(request_), NAMES, name_lengths(NAMES)) == found


@pytest.mark.spec("016.7")
@pytest.mark.parametrize("top_k", [5, 10, "auto"])
async def test_five_that_are_named_are_all_offered(memory: ProceduralMemory, top_k: int | str) -> None:
    named = ["show_invoice", "send_voucher", "change_address", "delete_warranty", "send complaint"]
    request_ = f"First {named[0]}, then {named[1]} and {named[2]}; {named[3]} or {named[4]} would help, I think"
    found = await memory.recall(request_, "a", top_k)  # type: ignore[arg-type]
    assert {each.replace("_", " ") for each in named} <= set(offered(found))
    assert len(found) <= 10


@pytest.mark.spec("016.7")
async def test_more_than_fit_are_cut_and_the_cut_is_told(memory: ProceduralMemory) -> None:
    named = [f"{deed} {topic}" for topic in TOPICS[:3] for deed in DEEDS]
    found = await memory.recall(", ".join(named), "a", "auto")
    assert len(found) == 10
    assert set(offered(found)) <= set(named)
    assert "12 flows are named in the request, and 10 are offered" in found.notes


@pytest.mark.spec("016.7")
async def test_a_title_names_a_flow_and_an_excluded_flow_stays_away(memory: ProceduralMemory) -> None:
    request_ = "I read of the night of the museums somewhere in an invoice of a customer"
    assert "f17" in offered(await memory.recall(request_, "a", 2))
    assert "f17" not in offered(await memory.recall(request_, "a", 2, exclude={flow_id("f17")}))


@pytest.mark.spec("016.6")
@pytest.mark.parametrize("top_k", ["auto", 3])
async def test_what_each_clause_needs_is_offered(memory: ProceduralMemory, top_k: int | str) -> None:
    wishes = {
        "please show the invoice of a customer and then delete the parcel": {"show invoice", "delete parcel"},
        "send the voucher of a customer. After that change the address of a customer": {
            "send voucher",
            "change address",
        },
    }
    for request_, wanted in wishes.items():
        found = await memory.recall(request_, "a", top_k, coverage=0.6)  # type: ignore[arg-type]
        assert wanted <= set(offered(found)), (request_, offered(found))


@pytest.mark.spec("016.6")
async def test_an_unclear_clause_brings_more_than_its_first(memory: ProceduralMemory) -> None:
    clear = "please show the invoice of a customer"
    brought = [
        await memory.recall(f"{clear} and do something with the parcel", "a", "auto", coverage=coverage)
        for coverage in (0.97, 0.98, 0.985, 0.99)
    ]
    parcels = [sum("parcel" in name for name in offered(found)) for found in brought if len(found) < 10]
    assert max(parcels) > 1
