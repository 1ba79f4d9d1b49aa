"""What a sync notes of its own answers, from which an error budget makes a threshold."""

from typing import Any

import pytest

from jazz_select import FlowRegistry, FlowSelector, ProceduralMemory, sync_registry
from jazz_select.build import load_registry
from jazz_select.memory.fit.model import UNREAD, RecallModel
from jazz_select.selector.policy import Policy
from jazz_select.stages import LeaveOneOutConfidence
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
        assert list(found.answers.confidences) == sorted(found.answers.confidences, reverse=True)
        assert len(found.answers.confidences) >= 40
        asked = zip(found.answers.confidences, found.answers.errors, strict=True)
        assert all(1 - sure < error for sure, error in asked if 0.5 < sure < 0.999), (
            "without the example it was less sure"
        )
        strict, loose = (found.answers.thresholds().threshold(each) for each in (0.001, 0.2))
        assert strict >= loose
        named = await FlowSelector(None, catalogue, memory, "a", policy=Policy(max_error=0.0)).select("reset password")
        assert named.decision.reason is Reason.EXAMPLE, "a name, word for word, needs no budget"


@pytest.mark.parametrize(
    "errors",
    [[], [1.5], [float("nan")], ["a"], [[0.5]], "ab", 7],
    ids=["one is missing", "above one", "nan", "text", "a list", "letters", "number"],
)
def test_errors_that_are_none_of_these_answers_are_no_note(errors: Any) -> None:
    note = RecallModel(caveat="", answers=LeaveOneOutConfidence((0.5,), (0.5,))).as_note()
    assert RecallModel.from_note(note).caveat == ""
    assert RecallModel.from_note(note | {"answers": note["answers"] | {"errors": errors}}).caveat == UNREAD


@pytest.mark.parametrize(
    "answers",
    [[0.5, 0.9], [1.5, 0.5], [float("nan"), 0.5], ["a", 0.5], [0.5], "ab", 7],
    ids=["rising", "above one", "nan", "text", "too few", "letters", "number"],
)
def test_what_is_no_such_note_is_none(answers: Any) -> None:
    note = RecallModel(caveat="", answers=LeaveOneOutConfidence((0.9, 0.5), (0.1, 0.5))).as_note()
    assert RecallModel.from_note(note).caveat == ""
    assert RecallModel.from_note(note | {"answers": note["answers"] | {"confidences": answers}}).caveat == UNREAD


def test_it_survives_its_note() -> None:
    model = RecallModel(caveat="", answers=LeaveOneOutConfidence((0.9, 0.5), (0.2, 0.6)))
    assert RecallModel.from_note(model.as_note()) == model
