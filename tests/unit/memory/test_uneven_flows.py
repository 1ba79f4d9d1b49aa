"""Flows with many examples and with few: neither takes the requests of the other for their number alone."""

from collections.abc import Sequence
from zlib import crc32

import numpy as np
import pytest

from jazz_select import ProceduralMemory
from jazz_select.memory import sync
from jazz_select.memory.embedders.known_embedders import CascadeEmbedder
from jazz_select.memory.fit.model import RecallModel
from jazz_select.ports import Vectors
from jazz_select.stages import confidence_if_some
from jazz_select.values import FlowCard

pytestmark = pytest.mark.spec("006.7")

FLOWS, ASKED = 40, 20


class _Drawn:
    """Each text is its flow's direction and as much chance; no text shares a word with another."""

    identity, dim, offload = "drawn", 32, False

    def embed(self, texts: Sequence[str]) -> Vectors:
        return np.array([self.embed_query(text) for text in texts], dtype=np.float32).reshape(-1, self.dim)

    def embed_query(self, text: str) -> Vectors:
        flow = text.partition("x")[0]
        row = _drawn("", self.dim) + _drawn(flow, self.dim) + 1.5 * _drawn(text, self.dim)
        return (row / np.linalg.norm(row)).astype(np.float32)


def _drawn(text: str, dim: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.random.default_rng(crc32(text.encode())).normal(size=dim)


def _cards(*counts: int) -> list[FlowCard]:
    """Flows with so many examples, in turn."""
    return [
        FlowCard(
            id=f"f{number}",
            name=f"{number}x",
            description=f"{number}x",
            examples=tuple(f"{number}xe{each}" for each in range(counts[number % len(counts)])),
            text=f"{number}x",
        )
        for number in range(FLOWS)
    ]


class _Apart(_Drawn):
    """Texts have nothing in common, but those that say the same."""

    identity = "apart"

    def embed_query(self, text: str) -> Vectors:
        row = _drawn("same" if "same" in text else text, self.dim)
        return (row / np.linalg.norm(row)).astype(np.float32)


async def noted(memory: ProceduralMemory) -> RecallModel:
    """What the sync has learned."""
    return RecallModel.from_note(await memory._store.read_note("a"))  # pyright: ignore[reportPrivateUsage]


async def _found(*counts: int) -> list[tuple[int, int, float]]:
    """The right flow of each request, the first one, and P(the first one is right), since some flow is."""
    asked = [(flow, f"{flow}xr{number}") for flow in range(FLOWS) for number in range(ASKED)]
    async with await ProceduralMemory.open(":memory:", embedder=_Drawn()) as memory:
        await memory.sync("a", _cards(*counts))
        found = [await memory.recall(text, "a", top_k=1) for _, text in asked]
    return [
        (flow, int(each[0]["flow_id"][1:]), confidence_if_some(each[0]["confidence"] or 0.0, each.p_none))
        for (flow, _), each in zip(asked, found, strict=True)
    ]


@pytest.mark.parametrize(("few", "many"), [(1, 5), (2, 12), (3, 12)])
async def test_a_flow_with_few_examples_is_found_nearly_as_often(few: int, many: int) -> None:
    """By cosines as they are, .24 to .40 of its requests fewer would be led to it."""
    found = await _found(few, many)
    thin, rich = ([flow == first for flow, first, _ in found if flow % 2 == kind] for kind in (0, 1))
    assert abs(np.mean(thin) - np.mean(rich)) < 0.2


@pytest.mark.parametrize("counts", [(1, 5), (3, 12), (5, 5)])
async def test_confidence_is_that_of_uneven_flows(counts: tuple[int, int]) -> None:
    found = await _found(*counts)
    right = np.mean([flow == first for flow, first, _ in found])
    assert abs(np.mean([chance for _, _, chance in found]) - right) < 0.05


async def test_where_all_have_as_many_nothing_is_evened() -> None:
    async with await ProceduralMemory.open(":memory:", embedder=_Drawn()) as memory:
        await memory.sync("a", _cards(5))
        usual = (await noted(memory)).usual
        assert {usual.lengths.factor_for(count) for count in usual.examples.values()} == {1.0}


async def test_a_flow_that_recall_is_not_fitted_to_is_evened_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a large catalogue recall is fitted to a sample."""
    monkeypatch.setattr(sync, "SAMPLE", FLOWS // 2)
    async with await ProceduralMemory.open(":memory:", embedder=_Drawn()) as memory:
        await memory.sync("a", _cards(2, 11))
        model = await noted(memory)
        assert len(model.usual.flows) == FLOWS // 2
        assert len(model.usual.examples) == FLOWS
        assert model.usual.lengths.factor_for(2) > model.usual.lengths.factor_for(11)
        assert len(model.names) == FLOWS


async def test_what_is_usual_for_a_flow_that_says_the_same_beside_varied_ones_is_read_again() -> None:
    """Its cosines are 1, times a length that is far above that of the others."""
    said = FlowCard(id="s", name="same", description="same", examples=tuple(f"same {each}" for each in range(12)))
    async with await ProceduralMemory.open(":memory:", embedder=_Apart()) as memory:
        await memory.sync("a", [*_cards(600)[:8], said])
        model = await noted(memory)
        assert not model.caveat
        assert model.usual.flows["s"] > 1.1
        assert (await memory.recall("the same", "a", top_k=1))[0]["confidence"] is not None


async def test_a_flow_that_is_changed_between_syncs_takes_no_requests_by_what_it_was() -> None:
    async with await ProceduralMemory.open(":memory:", embedder=_Drawn()) as memory:
        await memory.sync("a", _cards(1, 12))
        await memory.update_memory(_cards(12)[0], "a")
        asked = [f"{flow}xr{number}" for flow in range(FLOWS) for number in range(ASKED)]
        firsts = [(await memory.recall(text, "a", top_k=1))[0]["flow_id"] for text in asked]
        assert firsts.count("f0") < 1.5 * ASKED


async def test_both_stages_know_how_many_examples_a_changed_flow_has() -> None:
    async with await ProceduralMemory.open(":memory:", embedder=CascadeEmbedder(_Drawn(), _Apart())) as memory:
        await memory.sync("a", _cards(1, 12))
        await memory.update_memory(_cards(12)[0], "a")
        await memory.delete_flow("f1", "a")
        model = await noted(memory)
        assert model.second is not None
        assert [{"f0", "f1"} & each.usual.examples.keys() for each in (model, model.second)] == [{"f0"}, {"f0"}]
        assert [each.usual.examples["f0"] for each in (model, model.second)] == [12, 12]
