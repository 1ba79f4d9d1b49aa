"""Confidence and scope: probabilities that follow from the catalogue alone, and say when they cannot."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from jazz_select import FlowRegistry, ProceduralMemory, sync_registry
from jazz_select.build import load_registry
from jazz_select.memory.engines.stored_points import note_key
from jazz_select.memory.fit.model import Logistic, RecallModel, Sets, TypicalCosines
from jazz_select.testing import HashEmbedder
from jazz_select.values import FlowCard
from tests.unit.memory.cards import CARDS, card
from tests.vectors import EMBEDDER

ROOT = Path(__file__).parents[3]
FLOWS, EVAL = ROOT / "flows", ROOT / "examples" / "eval.yaml"


@pytest.fixture(scope="module")
def catalogue() -> FlowRegistry:
    """The repository's own flows."""
    return load_registry(FLOWS)


@pytest.fixture
async def synced(catalogue: FlowRegistry, tmp_path: Path) -> AsyncIterator[ProceduralMemory]:
    """They, indexed."""
    async with await ProceduralMemory.open(tmp_path / "index", embedder=EMBEDDER) as memory:
        await sync_registry(memory, "a", catalogue)
        yield memory


async def test_every_candidate_has_a_probability(synced: ProceduralMemory) -> None:
    found = await synced.recall("Process a refund for my last order", "a", top_k=10)
    chances = [each["confidence"] for each in found]
    assert all(0 <= chance <= 1 for chance in chances)
    assert chances[0] == max(chances) > 0.5
    assert found.p_none is not None
    assert chances == sorted(chances, reverse=True)
    assert sum(chances) + found.p_none <= 1 + 1e-9
    assert found.caveat == ""


async def test_what_nothing_answers_is_likelier_for_none(synced: ProceduralMemory) -> None:
    inside = [
        "Process a refund for my last order",
        "where is my parcel",
        "I forgot my password",
        "cancel my subscription",
    ]
    outside = ["What's the capital of Peru?", "Write me a poem about autumn leaves", "how tall is a giraffe", "2 + 2"]

    async def p_none(text: str) -> float:
        known = (await synced.recall(text, "a")).p_none
        assert known is not None
        return known

    assert max([await p_none(text) for text in inside]) < min([await p_none(text) for text in outside])


async def test_most_held_out_requests_pass_the_recommended_threshold(synced: ProceduralMemory) -> None:
    asked: list[str] = [each["request"] for each in yaml.safe_load(EVAL.read_text(encoding="utf-8"))]
    chances = [(await synced.recall(text, "a")).p_none or 0.0 for text in asked]
    assert sum(chance <= 0.2 for chance in chances) / len(chances) > 0.85


async def test_a_catalogue_too_small_says_so_and_does_not_guess(tmp_path: Path) -> None:
    async with await ProceduralMemory.open(tmp_path / "index", embedder=HashEmbedder()) as memory:
        await memory.sync("a", CARDS)
        found = await memory.recall("money back", "a")
        assert [each["confidence"] for each in found] == [None, None, None]
        assert found.p_none is None
        assert "too few to calibrate" in found.caveat
        await memory.sync("b", [FlowCard(id="1", name="tool", description="Does things.", text="Does things.")])
        assert "no flow has two examples" in (await memory.recall("things", "b")).caveat


async def _note(memory: ProceduralMemory) -> dict[str, object]:
    note = await memory._store.read_note("a")  # pyright: ignore[reportPrivateUsage]
    assert note
    return note


async def test_the_same_catalogue_gives_the_same_model(catalogue: FlowRegistry, tmp_path: Path) -> None:
    notes: list[dict[str, object]] = []
    for name, flows in (("one", list(catalogue.values())), ("two", list(reversed(list(catalogue.values()))))):
        async with await ProceduralMemory.open(tmp_path / name, embedder=HashEmbedder(64)) as memory:
            await memory.sync("a", flows)
            notes.append(await _note(memory))
    assert notes[0] == notes[1]


async def test_the_model_is_fitted_again_when_the_catalogue_changes(tmp_path: Path) -> None:
    many = [card(f"flow_{n}", f"about topic{n} and thing{n}") for n in range(12)]
    async with await ProceduralMemory.open(tmp_path / "index", embedder=HashEmbedder(64)) as memory:
        await memory.sync("a", many)
        first = await _note(memory)
        await memory.sync("a", many)
        assert await _note(memory) == first, "nothing changed, nothing fitted"
        await memory.memorize(card("late", "something new"), "a")
        await memory.sync("a", [*many, card("late", "something new")])
        second = await _note(memory)
        assert second["digest"] != first["digest"]
        assert (await memory.recall("something new", "a"))[0]["flow_name"] == "late"


async def test_labelled_cases_are_learned_from(tmp_path: Path) -> None:
    many = [card(f"flow_{n}", f"about topic{n} and thing{n}") for n in range(12)]
    async with await ProceduralMemory.open(tmp_path / "index", embedder=HashEmbedder(64)) as memory:
        await memory.sync("a", many)
        without = await _note(memory)
        await memory.sync("a", many, cases=[(f"what of thing{n} now", many[n].id) for n in range(12)])
        assert (await _note(memory))["confidence"] != without["confidence"]


async def test_a_sync_without_cases_says_what_it_drops(tmp_path: Path) -> None:
    many = [card(f"flow_{n}", f"about topic{n} and thing{n}") for n in range(12)]
    cases = [(f"what of thing{n} now", many[n].id) for n in range(12)]
    dropped = "an earlier sync learned from 12 labelled requests, and this one was given none"
    async with await ProceduralMemory.open(tmp_path / "index", embedder=HashEmbedder(64)) as memory:
        assert not (await memory.sync("a", many)).notes
        without = await _note(memory)
        for _ in range(2):
            assert not (await memory.sync("a", many, cases=cases)).notes
        for dry_run in (True, False):
            (note,) = (await memory.sync("a", many, dry_run=dry_run)).notes
            assert note.startswith(dropped)
        assert await _note(memory) == without
        assert not (await memory.sync("a", many)).notes, "said once: there is nothing more to drop"
        await memory.sync("a", many, cases=cases)
        changed = [*many, card("late", "something new")]
        (note,) = (await memory.sync("a", changed)).notes
        assert note.startswith(dropped), "also where flows changed"


async def test_cases_that_no_flow_answers_are_left_out(catalogue: FlowRegistry, tmp_path: Path) -> None:
    cases = [("Process a refund for my last order", "refund_order"), ("who painted this", None), ("hello", None)]
    async with await ProceduralMemory.open(tmp_path / "index", embedder=HashEmbedder(64)) as memory:
        report = await sync_registry(memory, "a", catalogue, cases=cases)
        (note,) = (each for each in report.notes if "left out" in each)
        assert note.startswith("2 cases that no flow answers were left out: a sync learns from requests whose flow is")
        assert (await _note(memory))["labelled"] == 1


async def test_names_and_aliases_come_first(tmp_path: Path) -> None:
    flows = [
        card("refund_order", "give money back"),
        card("money_matters", "refund order refund order refund order"),
        FlowCard(id="x", name="swap", aliases=("Change It",), description="other", text="other", checksum="1"),
        FlowCard(id="y", name="one", aliases=("twice",), description="first", text="first", checksum="1"),
        FlowCard(id="z", name="two", aliases=("twice",), description="second", text="second", checksum="1"),
    ]
    async with await ProceduralMemory.open(tmp_path / "index", embedder=HashEmbedder()) as memory:
        await memory.sync("a", flows)
        for request, name in (
            ("Refund Order", "refund_order"),
            ("refund_order", "refund_order"),
            ("change it", "swap"),
        ):
            first = (await memory.recall(request, "a"))[0]
            assert (first["flow_name"], first["confidence"]) == (name, 1.0)
        assert (await memory.recall("twice", "a"))[0]["confidence"] is None, "an alias of two flows names neither"
        left = await memory.recall("change it", "a", exclude=["x"])
        assert "swap" not in [each["flow_name"] for each in left]
        await memory.delete_flow("x", "a")
        assert "swap" not in [each["flow_name"] for each in await memory.recall("change it", "a")]


async def test_a_note_of_another_version_is_as_good_as_none(synced: ProceduralMemory) -> None:
    await synced._store.write_note("a", {"version": 99})  # pyright: ignore[reportPrivateUsage]
    synced._agents.forget("a")  # pyright: ignore[reportPrivateUsage]
    found = await synced.recall("Process a refund for my last order", "a")
    assert found[0]["flow_name"] == "refund_order"
    assert found[0]["confidence"] is None
    assert note_key("a") != note_key("b")


async def test_context_helps_a_vague_request_and_leaves_a_clear_one(synced: ProceduralMemory) -> None:
    summary = "The customer opened the parcel with the new table and found a cracked leg."
    vague, clear = "I need help with that", "I forgot my password and need a new one"

    async def first(request: str) -> str:
        return (await synced.recall(f"{request} {summary}", "a", focus=request))[0]["flow_name"]

    assert await first(vague) == "damaged_item_claim"
    assert await first(clear) == (await synced.recall(clear, "a"))[0]["flow_name"] == "reset_password"


NUMBERS = st.floats(-50, 50)


@given(st.lists(st.tuples(st.floats(0, 9), NUMBERS, NUMBERS), min_size=1, max_size=5), NUMBERS)
def test_more_evidence_is_never_less_belief(rows: list[tuple[float, float, float]], bias: float) -> None:
    weights, low, high = zip(*((w, min(a, b), max(a, b)) for w, a, b in rows), strict=True)
    chance = Logistic(weights=weights, bias=bias)
    assert 0 <= chance(low) <= chance(high) <= 1


def test_a_model_survives_its_note() -> None:
    model = RecallModel(
        digest="d",
        confidence=Logistic(weights=(1.0, 2.0, 0.0, 0.5, 3.0, 0.0, 1.0), bias=-1.0),
        scope=Logistic(weights=(1.0, 2.0, 0.0, 0.5, 3.0, 7.0), bias=-1.0),
        sets=Sets(nonconformity=(0.1, 0.5, 1e9)),
        usual=TypicalCosines(flows={"b": 0.5}, mean=0.25, low=0.125),
        names={"a": "b"},
        flows=frozenset("b"),
        caveat="",
    )
    assert RecallModel.from_note(model.as_note()) == model
