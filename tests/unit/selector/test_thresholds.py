"""The confidence of recall: skipping the model, taking nothing, and what is worth asking about."""

from typing import Any

import pytest

from jazz_select import FlowSelector
from jazz_select.errors import ConfigError
from jazz_select.selector.policy import Policy
from jazz_select.testing import ListMemory, ScriptedModel
from jazz_select.values import Reason, RecallResult, Tier
from tests.unit.selector.shop import REFUND, metadata, shop, with_policy


class _Sure(ListMemory):
    """Recalls with these probabilities, if some flow fits."""

    def __init__(self, *confidence: float | None, p_none: float | None = None, caveat: str = "") -> None:
        chances = (None if each is None else (1 - (p_none or 0.0)) * each for each in confidence)
        super().__init__({**each, "confidence": chance} for each, chance in zip(metadata(), chances, strict=False))
        self._p_none, self._caveat = p_none, caveat

    async def recall(self, *args: Any, **options: Any) -> RecallResult:
        found = await super().recall(*args, **options)
        return RecallResult(found, p_none=self._p_none, caveat=self._caveat)


def _selector(memory: ListMemory, model: ScriptedModel | None, **options: Any) -> FlowSelector:
    return FlowSelector(model, shop(), memory, "support", **with_policy(options))


async def test_the_model_is_skipped_where_recall_is_sure() -> None:
    model = ScriptedModel("[]", repeat=True)
    result = await _selector(_Sure(0.99, 0.2), model, max_error=0.02).select("money back")
    assert (result.decision.tier, result.decision.reason) == (Tier.DETERMINISTIC, Reason.CONFIDENT)
    assert result.decision.chosen_ids == (REFUND,)
    assert result.decision.confidence == 0.99
    assert model.calls == []


@pytest.mark.parametrize("confidence", [0.97, None], ids=["less sure", "not known"])
async def test_the_model_is_asked_where_recall_is_not_sure(confidence: float | None) -> None:
    model = ScriptedModel(f'["{REFUND}"]')
    result = await _selector(_Sure(confidence, 0.2), model, max_error=0.02).select("money back")
    assert result.decision.reason == Reason.LLM
    assert len(model.calls) == 1


@pytest.mark.spec("006.5")
@pytest.mark.parametrize(("p_none", "asked"), [(0.036, 1), (0.0011, 0), (None, 0)])
async def test_a_model_that_is_believed_is_asked_where_perhaps_no_flow_is_right(
    p_none: float | None, asked: int
) -> None:
    model = ScriptedModel("[]")
    await _selector(_Sure(0.99, 0.2, p_none=p_none), model, max_error=0.02, on_empty="none").select(
        "lost my library card"
    )
    assert len(model.calls) == asked


async def test_without_the_option_the_model_is_always_asked() -> None:
    model = ScriptedModel(f'["{REFUND}"]')
    assert (await _selector(_Sure(1.0, 0.2), model).select("money back")).decision.reason == Reason.LLM


async def test_a_sure_flow_that_cannot_run_is_no_reason_to_skip_the_model() -> None:
    memory = _Sure(0.99, 0.2)
    memory.candidates[0]["flow_id"] = "stale"
    model = ScriptedModel("[]")
    await _selector(memory, model, max_error=0.1).select("money back")
    assert len(model.calls) == 1


@pytest.mark.parametrize(("on_empty", "reason"), [("none", Reason.NONE), ("top1", Reason.SEMANTIC)])
async def test_without_a_model_nothing_is_taken_if_that_is_likelier(on_empty: str, reason: Reason) -> None:
    result = await _selector(_Sure(0.9, 0.2, p_none=0.68), None, on_empty=on_empty).select("capital of Peru")
    assert result.decision.reason is reason
    assert result.decision.p_none == 0.68
    assert len(result.candidates) == 2


async def test_a_catalogue_that_cannot_tell_says_so_if_a_budget_is_set() -> None:
    memory = _Sure(None, None, caveat="too few to calibrate")
    assert "too few to calibrate" in (await _selector(memory, None, max_error=0.01).select("x")).decision.notes
    assert (await _selector(memory, None).select("x")).decision.notes == ()


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), "high", True])
def test_a_budget_is_a_share(value: Any) -> None:
    with pytest.raises(ConfigError, match="max_error"):
        Policy(max_error=value)


async def test_a_memory_that_weighs_context_is_told_what_was_just_said() -> None:
    class Weighing(ListMemory):
        capabilities = ("focus",)
        focus = ""

        async def recall(self, *args: Any, focus: str = "", **options: Any) -> RecallResult:
            self.focus = focus
            return await super().recall(*args, **options)

    memory = Weighing(metadata())
    await _selector(memory, None).select("and that?", episode_summaries=["A lamp broke."])
    assert (memory.focus, memory.calls[0].query) == ("and that?", "and that? A lamp broke.")
    await _selector(memory, None).select("a refund")
    assert memory.focus == ""
