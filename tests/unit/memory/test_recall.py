"""Recall: what comes back, in which order, with which facts, for any request."""

from dataclasses import replace

import pytest

from jazz_select import ProceduralMemory
from jazz_select.errors import ConfigError
from jazz_select.testing import FailingEmbedder, HashEmbedder
from jazz_select.values import flow_id
from tests.unit.memory.cards import CARDS, TOPICS, card
from tests.unit.memory.conftest import Place, opened


@pytest.mark.parametrize(("name", "about"), TOPICS.items(), ids=TOPICS)
async def test_a_request_finds_its_flow(memory: ProceduralMemory, name: str, about: str) -> None:
    await memory.sync("a", CARDS)
    found = await memory.recall(f"could somebody {about}?", "a")
    assert found[0]["flow_name"] == name
    assert found[0]["ranks"] == {"dense": 1, "bm25": 1}


@pytest.mark.spec("003.3")
async def test_candidates_are_metadata_dicts(memory: ProceduralMemory) -> None:
    await memory.sync("a", CARDS)
    first = (await memory.recall("where is my parcel", "a"))[0]
    assert first["flow_id"] == flow_id("track_parcel")
    assert first["flow_type"] == "flow"
    assert first["desired_effects"] == ["done: tell where a parcel is now"]
    assert set(first) == {
        *("flow_id", "flow_name", "flow_type", "description", "condition", "desired_effects"),
        *("score", "ranks", "scores", "confidence"),
    }
    assert 0 < first["scores"]["dense"] <= 1


async def test_top_k_bounds_and_exclusions_take_no_place(memory: ProceduralMemory) -> None:
    await memory.sync("a", CARDS)
    everything = await memory.recall("please", "a", top_k=10)
    assert len(everything) == len(CARDS)
    assert len(await memory.recall("please", "a", top_k=2)) == 2
    gone = {each["flow_id"] for each in everything[:2]}
    left = await memory.recall("please", "a", top_k=2, exclude=gone)
    assert {each["flow_id"] for each in left} == {each["flow_id"] for each in everything[2:]}


async def test_an_agent_sees_its_own_flows_alone(memory: ProceduralMemory) -> None:
    await memory.sync("a", CARDS)
    await memory.sync("b", [card("refund_order", "pay back a subscription")])
    assert [each["description"] for each in await memory.recall("refund order", "b")] == ["pay back a subscription"]
    assert len(await memory.recall("refund order", "a", top_k=10)) == len(CARDS)
    assert await memory.recall("refund order", "nobody") == []


@pytest.mark.spec("003.15")
async def test_a_lower_rrf_k_gives_the_very_top_more_weight(memory: ProceduralMemory) -> None:
    await memory.sync("a", CARDS)
    request = "a new password, please, and where is it"

    async def lead(rrf_k: int) -> float:
        first, second, *_ = await memory.recall(request, "a", rrf_k=rrf_k)
        return first["score"] / second["score"]

    assert await lead(1) > await lead(10) > await lead(100) > 1


REQUESTS = {
    "empty": "",
    "blank": " \t\n ",
    "control characters": "refund\x00\x07\x1b my order\x85",
    "lone surrogate": "refund \ud800 my order",
    "emoji": "💸🙏 refund 📦?",
    "emoji alone": "💸🙏",
    "CJK": "我要退款，请把钱退给我",
    "Arabic": "أريد استرداد أموالي",
    "100 kB": "refund my order " * 6_400,
    "one word of 100 kB": "x" * 100_000,
    "stop words": "the of and",
    "query syntax": '"refund" AND (order OR *) -- ; DROP {}',
}


@pytest.mark.parametrize("request_text", REQUESTS.values(), ids=REQUESTS)
async def test_any_request_gets_a_valid_answer(memory: ProceduralMemory, request_text: str) -> None:
    await memory.sync("a", CARDS)
    found = await memory.recall(request_text, "a")
    assert len(found) <= 3
    assert {each["flow_name"] for each in found} <= set(TOPICS)


async def test_a_long_request_is_cut_and_says_so(memory: ProceduralMemory) -> None:
    await memory.sync("a", CARDS)
    found = await memory.recall("where is my parcel " + "and so on " * 10_000, "a")
    assert found[0]["flow_name"] == "track_parcel"
    assert any("8000 of 100019 characters" in note for note in found.notes)
    blank = await memory.recall("\x00" * 9_000, "a")
    assert (list(blank), blank.notes) == ([], ("recall read the first 8000 of 9000 characters",))


async def test_words_are_found_where_no_spaces_stand(place: Place) -> None:
    async with await opened(place, embedder=HashEmbedder()) as memory:
        await memory.sync("a", [card("tuikuan", "把钱退给顾客"), card("wuliu", "查询包裹在哪里")])
        found = await memory.recall("我的包裹在哪里", "a")
        assert found[0]["flow_name"] == "wuliu"
        assert found[0]["ranks"]["bm25"] == 1


@pytest.mark.parametrize("first", ["same_words", "sameWords", "same-words"])
async def test_equal_scores_go_by_priority(memory: ProceduralMemory, first: str) -> None:
    names = ["same_words", "sameWords", "same-words"]
    order = [first, *(name for name in names if name != first)]
    priorities = dict(zip(order, ((2, 0), (1, 9), (1, 3)), strict=True))
    await memory.sync("a", [card(name, "pay it back", priority=priorities[name]) for name in names])
    found = await memory.recall("please pay it back", "a")
    assert len({each["score"] for each in found}) == 1, "they say the same, so that nothing else decides"
    assert [each["flow_name"] for each in found] == order


async def test_recall_goes_on_by_words_when_the_embedder_fails(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    embedder = FailingEmbedder(failing=False)
    async with await opened(place, embedder=embedder) as memory:
        await memory.sync("a", CARDS)
        embedder.failing = True
        found = await memory.recall("where is my parcel", "a")
    assert found[0]["flow_name"] == "track_parcel"
    assert set(found[0]["ranks"]) == {"bm25"}
    assert any("BM25 alone" in note for note in found.notes)
    assert "BM25 alone" in caplog.text


async def test_how_many_are_needed_is_not_known_by_words_alone() -> None:
    embedder = FailingEmbedder(failing=False)
    cards = [card(f"{deed} {topic}") for topic in ["parcel", "invoice", "voucher"] for deed in ["show", "send", "pay"]]
    async with await ProceduralMemory.open(":memory:", embedder=embedder) as memory:
        await memory.sync("a", cards)
        embedder.failing = True
        found = await memory.recall("pay the invoice", "a", "auto")
    assert found.sized.endswith("how many are needed is not known where BM25 alone reads the request")


@pytest.mark.parametrize("more", [0, 1], ids=["three examples each", "one has a fourth"])
async def test_a_flow_with_more_examples_takes_no_request_by_its_stop_words(
    memory: ProceduralMemory, more: int
) -> None:
    things = {"lamp": 3 + more, "sofa": 3, "desk": 3, "chair": 3, "shelf": 3}
    asked = [
        "what is it about the {}",
        "and where would i have my {}",
        "can you do it with the {}",
        "this is my {} too",
    ]
    cards = [
        replace(card(thing), examples=tuple(each.format(thing) for each in asked[:count]))
        for thing, count in things.items()
    ]
    await memory.sync("a", cards)
    for thing in things:
        for each in asked[:2]:
            found = await memory.recall(each.format(thing), "a")
            assert (found[0]["flow_name"], found[0]["ranks"]["bm25"]) == (thing, 1)


@pytest.mark.parametrize(("top_k", "rrf_k"), [(0, 10), (-1, 10), (1 << 40, 10), (3, 0)])
async def test_settings_that_cannot_work_are_refused(memory: ProceduralMemory, top_k: int, rrf_k: int) -> None:
    with pytest.raises(ConfigError, match="a whole number from 1"):
        await memory.recall("anything", "a", top_k=top_k, rrf_k=rrf_k)


async def test_another_language_stems_its_own_words(place: Place) -> None:
    async with await opened(place, embedder=HashEmbedder(), language="german") as memory:
        await memory.sync("a", [card("erstattung", "Bestellungen erstatten"), card("paket", "Pakete verfolgen")])
        assert (await memory.recall("Bestellung", "a"))[0]["ranks"]["bm25"] == 1


async def test_many_are_recalled_as_one_is() -> None:
    topics = ("invoice", "parcel", "password", "address", "voucher", "newsletter", "warranty", "complaint")
    cards = [card(f"{deed} {topic}", f"{deed} the {topic}") for topic in topics for deed in ("show", "send", "delete")]
    asked = ["show me the invoice", "the parcel, and then delete the address", "", "not the voucher but a newsletter"]
    async with await ProceduralMemory.open(":memory:", embedder=HashEmbedder(256)) as memory:
        await memory.sync("a", cards)
        many = await memory.recall_many(asked, "a", "auto")
        for request, found in zip(asked, many, strict=True):
            alone = await memory.recall(request, "a", "auto")
            assert (list(found), found.p_none, found.sized) == (list(alone), alone.p_none, alone.sized)
