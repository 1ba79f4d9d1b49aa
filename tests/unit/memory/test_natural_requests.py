"""Requests as people write them: follow-ups, denials, long mails, typing errors, several in one go."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from random import Random

import pytest
import pytest_asyncio

from benchmarks.followups import WRITTEN, mail, mistyped
from jazz_select import FlowRegistry, ProceduralMemory, load_flows, sync_registry
from jazz_select.memory.requests import MOST_SENTENCES, sentences
from jazz_select.ports import Vectors
from jazz_select.testing import FailingEmbedder, HashEmbedder
from tests.tables import read_table
from tests.unit.memory.cards import CARDS

FLOWS = Path(__file__).parents[3] / "flows"
SAID = read_table(WRITTEN)
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shop() -> AsyncIterator[ProceduralMemory]:
    """The flows of this repository, read by the transformer."""
    registry = FlowRegistry()
    load_flows(FLOWS, registry)
    async with await ProceduralMemory.open(":memory:", embedder="minilm") as memory:
        await sync_registry(memory, "shop", registry)
        yield memory


async def first(memory: ProceduralMemory, query: str, focus: str = "") -> str:
    return (await memory.recall(query, "shop", focus=focus))[0]["flow_name"]


@pytest.mark.programs
@pytest.mark.spec("006.3")
async def test_most_follow_ups_are_read_with_what_was_said_before(shop: ProceduralMemory) -> None:
    asked = SAID["follow_ups"]
    right = [await first(shop, f"{one['said']} {one['after']}", one["said"]) in one["gold"] for one in asked]
    alone = [await first(shop, one["said"]) in one["gold"] for one in asked]
    assert sum(right) >= 0.85 * len(asked) > 0.6 * len(asked) > sum(alone)


@pytest.mark.programs
@pytest.mark.parametrize("vague", SAID["vague"])
@pytest.mark.spec("006.3")
async def test_what_means_nothing_alone_means_what_was_said_before(shop: ProceduralMemory, vague: str) -> None:
    before = "The customer opened the parcel with the new table and found a cracked leg."
    assert await first(shop, f"{vague} {before}", vague) == "damaged_item_claim"


CLEAR = {
    "a new topic": ("I forgot my password and need a new one", "reset_password"),
    "a short one": ("where is my parcel", "track_order"),
    "a close one": ("close my account", "close_account"),
    "a word or two": ("gift wrap please", "gift_wrapping"),
}


@pytest.mark.programs
@pytest.mark.parametrize(("said", "flow"), CLEAR.values(), ids=CLEAR)
@pytest.mark.spec("006.3")
async def test_a_clear_request_is_not_drawn_to_what_was_said_before(
    shop: ProceduralMemory, said: str, flow: str
) -> None:
    before = "The customer opened the parcel with the new table and found a cracked leg."
    assert await first(shop, f"{said} {before}", said) == await first(shop, said)
    assert flow in [each["flow_name"] for each in await shop.recall(f"{said} {before}", "shop", focus=said)]


@pytest.mark.programs
@pytest.mark.spec("006.3")
async def test_most_denials_are_understood_and_the_others_are_among_the_first(shop: ProceduralMemory) -> None:
    asked = SAID["negations"]
    found = await shop.recall_many([one["said"] for one in asked], "shop", top_k=3)
    names = [[each["flow_name"] for each in result] for result in found]
    assert sum(its[0] in one["gold"] for its, one in zip(names, asked, strict=True)) >= 0.75 * len(asked)
    assert all(set(its) & set(one["gold"]) for its, one in zip(names, asked, strict=True))


TROUBLE = {
    "what is wrong comes last": (
        "the lamp arrived but it is not working and the glass is broken",
        "damaged_item_claim",
    ),
    "a wish that denies nothing": ("no password works, I need a new one", "reset_password"),
    "not long enough to be meant": ("not now, ok, where is my parcel", "track_order"),
}


@pytest.mark.programs
@pytest.mark.parametrize(("said", "flow"), TROUBLE.values(), ids=TROUBLE)
@pytest.mark.spec("006.3")
async def test_what_is_wrong_is_no_denial(shop: ProceduralMemory, said: str, flow: str) -> None:
    assert flow in [each["flow_name"] for each in await shop.recall(said, "shop")]


WISHES = {
    "reset_password": "I have forgotten my password and would like to choose a new one.",
    "cancel_subscription": "Please end my coffee subscription for good.",
    "duplicate_charge": "You have charged my card twice for the same order.",
}


@pytest.mark.programs
@pytest.mark.parametrize(("flow", "wish"), WISHES.items(), ids=WISHES)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.spec("006.3")
async def test_the_wish_in_a_long_mail_is_found(shop: ProceduralMemory, flow: str, wish: str, seed: int) -> None:
    letter = mail(wish, SAID["mail"], Random(seed), words=280)
    assert len(letter.split()) > 250
    found = await shop.recall(letter, "shop")
    assert found[0]["flow_name"] == flow
    assert any("the sentences that are most about a flow" in note for note in found.notes)


@pytest.mark.programs
@pytest.mark.spec("006.3")
async def test_a_long_follow_up_is_read_with_its_context(shop: ProceduralMemory) -> None:
    said = mail(WISHES["duplicate_charge"], SAID["mail"], Random(5), words=280)
    assert await first(shop, f"{said} The agent ran track_order.", said) == "duplicate_charge"


@pytest.mark.programs
@pytest.mark.spec("006.3")
async def test_one_slip_of_the_finger_leaves_a_request_among_the_first(shop: ProceduralMemory) -> None:
    draw = Random(0)
    asked = [(mistyped(wish, draw, 1), flow) for flow, wish in WISHES.items() for _ in range(10)]
    found = await shop.recall_many([said for said, _ in asked], "shop")
    assert all(flow in [each["flow_name"] for each in its] for its, (_, flow) in zip(found, asked, strict=True))


ENDLESS = {
    "no end": ("and so on " * 400, 1),
    "one word": ("x" * 5_000, 25),
    "ends alone": (". " * 2_500, 1),
    "lines": ("one thing to do\n" * 300, MOST_SENTENCES),
    "Chinese": ("我想退款给我的订单好吗。" * 200, MOST_SENTENCES),
    "nothing": ("", 0),
}


@pytest.mark.parametrize(("text", "least"), ENDLESS.values(), ids=ENDLESS)
async def test_sentences_of_any_text_are_few_and_short(text: str, least: int) -> None:
    found = sentences(text)
    assert least <= len(found) <= MOST_SENTENCES
    assert all(each.strip() for each in found)
    assert (
        "".join(found).replace(" ", "")
        == text.replace(" ", "").replace("\n", "")[: sum(map(len, found))].replace(" ", "")
        or len(found) == MOST_SENTENCES
        or " " in text
    )


class Counting(HashEmbedder):
    """Says how often it is asked, and embeds requests and documents alike."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        self.asked.append(len(texts))
        return self.embed(texts)


async def test_requests_go_to_the_embedder_together_where_it_allows_that() -> None:
    embedder = Counting()
    async with await ProceduralMemory.open(":memory:", embedder=embedder) as memory:
        await memory.sync("a", CARDS)
        embedder.asked.clear()
        requests = ["where is my parcel", "a new password", "money back"]
        many = await memory.recall_many(requests, "a")
        assert embedder.asked == [3]
        assert many == [
            await memory.recall(said, "a") for said in ("where is my parcel", "a new password", "money back")
        ]


async def test_a_follow_up_is_answered_where_the_embedder_fails() -> None:
    embedder = FailingEmbedder(failing=False)
    async with await ProceduralMemory.open(":memory:", embedder=embedder) as memory:
        await memory.sync("a", CARDS)
        embedder.failing = True
        found = await memory.recall("and now? where is my parcel", "a", focus="and now?")
    assert found[0]["flow_name"] == "track_parcel"
