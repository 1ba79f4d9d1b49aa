"""How many candidates there are is left to recall: what a selector asks for, says, and makes of a set of one."""

from collections.abc import Collection
from typing import Any

import pytest

from jazz_select import RECOMMENDED, FlowSelector
from jazz_select.selector.policy import Policy
from jazz_select.testing import ListMemory, ScriptedModel
from jazz_select.values import Reason, RecallResult
from tests.unit.selector.shop import REFUND, metadata, shop


class SizedMemory:
    """Recalls so many, and says why; keeps what it was asked with."""

    capabilities: tuple[str, ...] = ("auto_size",)

    def __init__(self, *names: str, p_none: float | None = None) -> None:
        self.names = names
        self.p_none = p_none
        self.asked: list[dict[str, Any]] = []

    async def recall(
        self, query: str, agent_id: str, top_k: Any = 3, rrf_k: int = 10, *, exclude: Collection[str] = (), **more: Any
    ) -> RecallResult:
        self.asked.append({"top_k": top_k, **more})
        sized = f"{len(self.names)} of at most 10" if self.capabilities else ""
        return RecallResult(map(dict, metadata(*self.names)), p_none=self.p_none, sized=sized)


class PlainMemory(SizedMemory):
    """One that never heard of it."""

    capabilities = ()


@pytest.mark.spec("006.4")
async def test_recall_is_asked_for_the_coverage_and_its_reason_is_told() -> None:
    memory = SizedMemory("refund_order", "cancel_order")
    selector = FlowSelector(ScriptedModel("[]"), shop(), memory, "shop", top_k="auto")
    result = await selector.select("my money")
    assert memory.asked == [{"top_k": "auto", "coverage": 0.98}]
    assert result.decision.sized == "2 of at most 10"
    assert "candidates: 2 of at most 10" in result.explain().splitlines()


@pytest.mark.spec("006.5")
@pytest.mark.parametrize(("p_none", "told"), [(0.89, ["P(none): 0.89"]), (None, [])])
async def test_whether_any_flow_is_right_is_told_beside_which(p_none: float | None, told: list[str]) -> None:
    memory = SizedMemory("refund_order", "cancel_order", p_none=p_none)
    result = await FlowSelector(None, shop(), memory, "shop").select("what is the capital of Peru")
    assert [line for line in result.explain().splitlines() if line.startswith("P(none)")] == told


async def test_a_memory_that_cannot_size_a_set_is_asked_for_eight_and_that_is_noted() -> None:
    memory = PlainMemory("refund_order", "cancel_order")
    result = await FlowSelector(None, shop(), memory, "shop", top_k="auto").select("my money")
    assert memory.asked == [{"top_k": 8}]
    assert any('does not know top_k="auto"' in note for note in result.decision.notes)


@pytest.mark.spec("006.4")
@pytest.mark.parametrize(
    ("p_none", "on_empty", "asked", "reason"),
    [
        (0.069, "none", 1, Reason.NONE),
        (None, "none", 1, Reason.NONE),
        (0.0011, "none", 0, Reason.SINGLE),
        (0.069, "top1", 0, Reason.SINGLE),
    ],
)
async def test_a_set_of_one_does_not_say_that_anything_fits(
    p_none: float | None, on_empty: Any, asked: int, reason: Reason
) -> None:
    model = ScriptedModel("[]")
    memory = SizedMemory("refund_order", p_none=p_none)
    selector = FlowSelector(model, shop(), memory, "shop", top_k="auto", policy=Policy(on_empty=on_empty))
    result = await selector.select("what is the weather like")
    assert (len(model.calls), result.decision.reason) == (asked, reason)


async def test_a_set_of_one_that_fits_is_chosen_by_the_model() -> None:
    model = ScriptedModel(f'["{REFUND}"]')
    result = await FlowSelector(model, shop(), SizedMemory("refund_order"), "shop", **RECOMMENDED).select("my money")
    assert (result.names, result.decision.reason) == (["refund_order"], Reason.LLM)


async def test_one_candidate_that_was_given_is_taken_as_ever_where_there_is_no_budget() -> None:
    model = ScriptedModel("[]")
    options: Any = {**RECOMMENDED, "policy": Policy(on_empty="none")}
    result = await FlowSelector(model, shop(), **options).select("my money", metadata("refund_order"))
    assert (len(model.calls), result.decision.reason) == (0, Reason.SINGLE)


async def test_what_recall_is_sure_of_within_the_recommended_budget_is_not_asked() -> None:
    for confidence, reason in ((0.999, Reason.CONFIDENT), (0.98, Reason.LLM)):
        model = ScriptedModel(f'["{REFUND}"]')
        found = metadata("refund_order", "cancel_order")
        found[0]["confidence"] = confidence
        memory = ListMemory(RecallResult(found, p_none=0.00011))
        result = await FlowSelector(model, shop(), memory, "shop", **RECOMMENDED).select("my money")
        assert (result.decision.reason, len(model.calls)) == (reason, int(reason is Reason.LLM))


async def test_a_second_wish_is_noted_without_a_model() -> None:
    memory = ListMemory(metadata("refund_order", "cancel_order"))
    selector = FlowSelector(None, shop(), memory, "shop")
    told = await selector.select("I want my money back, and then cancel the other order.")
    assert (told.names, len(told.decision.notes)) == (["refund_order"], 1)
    assert "what else is wanted is not answered" in told.decision.notes[0]
    assert not (await selector.select("I want my money back")).decision.notes
