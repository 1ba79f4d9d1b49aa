"""What a sync notes of its own answers, from which an error budget makes a threshold."""

from typing import Any

import pytest

from jazz_select import FlowRegistry, FlowSelector, ProceduralMemory, sync_registry
from jazz_select.build import load_registry
from jazz_select.memory.embedders.known_embedders import open_embedder
from jazz_select.memory.encoder import Encoder, Lexical
from jazz_select.memory.engines.edge import EdgeStore
from jazz_select.memory.fit.model import UNREAD, RecallModel
from jazz_select.stages import OwnAnswers
from jazz_select.testing import ScriptedModel
from jazz_select.values import Reason
from tests.unit.memory.test_confidence import FLOWS
from tests.vectors import EMBEDDER

pytestmark = pytest.mark.spec("009.2")


@pytest.fixture(scope="module")
def catalogue() -> FlowRegistry:
    """The repository's own flows."""
    return load_registry(FLOWS)


async def test_recall_says_how_sure_it_was_of_its_own_answers(catalogue: FlowRegistry, tmp_path: Any) -> None:
    async with await ProceduralMemory.open(tmp_path / "index", embedder=EMBEDDER) as memory:
        await sync_registry(memory, "a", catalogue)
        found = await memory.recall("Process a refund for my last order", "a")
        assert found.answers is not None
        assert list(found.answers.first) == sorted(found.answers.first, reverse=True)
        assert len(found.answers.scoped) == len(found.answers.first) >= 40
        assert found.answers.errors is not None
        asked = zip(found.answers.first, found.answers.errors[0], strict=True)
        assert all(1 - sure < error for sure, error in asked if 0.5 < sure < 0.999), (
            "without the example it was less sure"
        )
        strict, loose = (found.answers.threshold(each, scoped=False) for each in (0.001, 0.2))
        assert strict >= loose
        named = await FlowSelector(None, catalogue, memory, "a", max_error=0.0).select("reset password")
        assert named.decision.reason is Reason.CONFIDENT, "a name, word for word, needs no budget"


async def test_what_an_earlier_version_noted_is_read_and_mended_by_a_sync(
    catalogue: FlowRegistry, tmp_path: Any
) -> None:
    encoder = Encoder(open_embedder(EMBEDDER), Lexical())
    store = EdgeStore(tmp_path / "index", encoder.layout)
    async with ProceduralMemory(store, encoder) as memory:
        await sync_registry(memory, "a", catalogue)
        note = dict(await store.read_note("a") or {})
        del note["answers"]
        await store.write_note("a", note)
    store = EdgeStore(tmp_path / "index", encoder.layout)
    async with ProceduralMemory(store, encoder) as memory:
        found = await memory.recall("Process a refund for my last order", "a")
        assert (found.answers, found.caveat) == (None, "")
        model = ScriptedModel(f'["{found[0]["flow_id"]}"]', repeat=True)
        decision = (await FlowSelector(model, catalogue, memory, "a", max_error=0.01).select("my order")).decision
        assert "0.990 is" in decision.stages[0].why
        await sync_registry(memory, "a", catalogue)
        assert (await memory.recall("Process a refund for my last order", "a")).answers is not None


async def test_what_was_noted_without_the_errors_of_answers_is_gone_by_until_the_next_sync(
    catalogue: FlowRegistry, tmp_path: Any
) -> None:
    encoder = Encoder(open_embedder(EMBEDDER), Lexical())
    async with ProceduralMemory(EdgeStore(tmp_path / "index", encoder.layout), encoder) as memory:
        await sync_registry(memory, "a", catalogue)
    store = EdgeStore(tmp_path / "index", encoder.layout)
    note = dict(await store.read_note("a") or {})
    del note["errors"]
    await store.write_note("a", note)
    async with ProceduralMemory(store, encoder) as memory:
        earlier = (await memory.recall("Process a refund for my last order", "a")).answers
        assert earlier is not None
        assert earlier.errors is None
        assert earlier.threshold(0.2, scoped=False) < 1
        await sync_registry(memory, "a", catalogue)
        mended = (await memory.recall("Process a refund for my last order", "a")).answers
        assert mended is not None
        assert mended.errors is not None


@pytest.mark.parametrize(
    "errors",
    [[[0.5], []], [[1.5], [0.5]], [[float("nan")], [0.5]], [["a"], [0.5]], [[0.5]], "ab", 7],
    ids=["one is missing", "above one", "nan", "text", "one list", "letters", "number"],
)
def test_errors_that_are_none_of_these_answers_are_no_note(errors: Any) -> None:
    note = RecallModel(caveat="", answers=OwnAnswers((0.5,), (0.5,))).as_note()
    assert RecallModel.from_note(note).caveat == ""
    assert RecallModel.from_note(note | {"errors": errors}).caveat == UNREAD


@pytest.mark.parametrize(
    "answers",
    [[[0.5, 0.9], []], [[1.5], []], [[float("nan")], []], [["a"], []], [[0.5]], "ab", 7],
    ids=["rising", "above one", "nan", "text", "one list", "letters", "number"],
)
def test_what_is_no_such_note_is_none(answers: Any) -> None:
    note = RecallModel(caveat="").as_note()
    assert RecallModel.from_note(note | {"answers": answers}).caveat == UNREAD


def test_it_survives_its_note() -> None:
    model = RecallModel(caveat="", answers=OwnAnswers((0.9, 0.5), (0.8, 0.25)))
    assert RecallModel.from_note(model.as_note()) == model
    model = RecallModel(caveat="", answers=OwnAnswers((0.9, 0.5), (0.8, 0.25), ((0.2, 0.6), (0.3, 0.8))))
    assert RecallModel.from_note(model.as_note()) == model
