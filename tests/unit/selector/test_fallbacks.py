"""What happens when the model says that nothing fits, says nonsense, fails, or is too late."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from jazz_select import FlowSelector
from jazz_select.errors import EmbeddingError, ModelError, StoreUnavailableError
from jazz_select.selector.policy import OnEmpty, Policy
from jazz_select.testing import ListMemory, ScriptedModel
from jazz_select.values import Message, Reason, Reply, Tier
from tests.unit.selector.shop import CANCEL, REFUND, STALE, metadata, shop

DOWN = StoreUnavailableError("http://nowhere", "connection refused")


# --- replies -------------------------------------------------------------------

EMPTY = ["[]", "```json\n[]\n```", '{"ids": []}', "none", "null", "None of the flows fits."]
UNUSABLE = [
    "",
    "   ",
    "Sorry, I am a teapot.",
    "{",
    "[[[",
    '{"thoughts": "hm"}',
    '["ghost"]',
    "[99]",
    f'["{STALE}"]',
    "\x00",
]


@pytest.mark.spec("003.10")
@pytest.mark.parametrize("reply", EMPTY)
@pytest.mark.parametrize(
    ("on_empty", "names", "tier", "reason"),
    [
        ("top1", ["refund_order"], Tier.DETERMINISTIC, Reason.FALLBACK_EMPTY),
        ("none", [], Tier.OPEN, Reason.NONE),
    ],
)
async def test_nothing_fits(reply: str, on_empty: OnEmpty, names: list[str], tier: Tier, reason: Reason) -> None:
    result = await FlowSelector(ScriptedModel(reply), shop(), policy=Policy(on_empty=on_empty)).select("x", metadata())
    assert (result.names, result.decision.tier, result.decision.reason) == (names, tier, reason)
    assert (result.decision.raw_reply, result.decision.parsed_ids) == (reply, ())


@pytest.mark.spec("003.10")
async def test_the_top_candidate_is_the_default_for_nothing_fits() -> None:
    result = await FlowSelector(ScriptedModel("[]"), shop()).select("x", metadata())
    assert result.decision.reason is Reason.FALLBACK_EMPTY


@pytest.mark.spec("003.10")
@pytest.mark.parametrize("reply", UNUSABLE)
@pytest.mark.parametrize("on_empty", ["top1", "none"])
async def test_a_reply_that_cannot_be_used(reply: str, on_empty: OnEmpty) -> None:
    given = metadata("refund_order", "gift_wrap", "cancel_order")
    result = await FlowSelector(ScriptedModel(reply), shop(), policy=Policy(on_empty=on_empty)).select("x", given)
    assert (result.names, result.decision.tier) == (["refund_order"], Tier.DETERMINISTIC)
    assert (result.decision.reason, result.decision.raw_reply) == (Reason.FALLBACK_INVALID, reply)
    assert result.unresolved_ids == list(result.decision.parsed_ids)


@pytest.mark.spec("003.10")
@pytest.mark.parametrize("reply", ["[]", "nonsense", ModelError("m", "busy", retryable=True)], ids=str)
async def test_the_fallback_passes_over_stale_candidates(reply: str | Exception) -> None:
    given = metadata("gift_wrap", "cancel_order", "refund_order")
    result = await FlowSelector(ScriptedModel(reply), shop()).select("x", given)
    assert (result.names, result.unresolved_ids) == (["cancel_order"], [STALE])


@pytest.mark.spec("003.10")
@pytest.mark.parametrize("reply", ["[]", "nonsense", f'["{STALE}"]', ModelError("m", "busy", retryable=True)], ids=str)
async def test_where_nothing_is_live_nothing_runs(reply: str | Exception) -> None:
    result = await FlowSelector(ScriptedModel(reply), shop()).select("x", metadata("gift_wrap", "gift_card"))
    assert (result.names, result.decision.tier, result.decision.reason) == ([], Tier.OPEN, Reason.NONE)
    assert len(result.unresolved_ids) == 2


@pytest.mark.parametrize("answer", [None, 42, b"[]", ["x"], Reply(text=None)], ids=repr)  # pyright: ignore[reportArgumentType]
async def test_a_model_that_answers_no_text_is_not_believed(answer: Any) -> None:
    class Odd:
        async def complete(self, messages: Sequence[Message]) -> Reply:
            return answer

    result = await FlowSelector(Odd(), shop(), policy=Policy(on_empty="none")).select("x", metadata())
    assert (result.names, result.decision.reason) == (["refund_order"], Reason.FALLBACK_INVALID)
    assert result.decision.raw_reply is None
    assert "without a text" in result.decision.notes[0]


async def test_a_model_that_answers_a_bare_text_is_understood() -> None:
    class Bare:
        async def complete(self, messages: Sequence[Message]) -> Any:
            return f'["{CANCEL}"]'

    assert (await FlowSelector(Bare(), shop()).select("x", metadata())).names == ["cancel_order"]


# --- failures ------------------------------------------------------------------

FAILURES = [
    ModelError("m", "busy", retryable=True),
    RuntimeError("boom"),
    TimeoutError(),
    KeyError("choices"),
    ExceptionGroup("several", [ValueError("one")]),
    OSError("x" * 100_000),
]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
async def test_a_failing_model_leads_to_the_top_candidate(failure: Exception, caplog: pytest.LogCaptureFixture) -> None:
    result = await FlowSelector(ScriptedModel(failure, repeat=True), shop(), policy=Policy(on_empty="none")).select(
        "x", metadata()
    )
    decision = result.decision
    assert (result.names, decision.tier, decision.reason) == (
        ["refund_order"],
        Tier.DETERMINISTIC,
        Reason.FALLBACK_ERROR,
    )
    shown = "ValueError" if isinstance(failure, ExceptionGroup) else type(failure).__name__
    assert decision.error.startswith(shown)
    assert (decision.raw_reply, len(decision.error) < 600) == (None, True)
    assert [record.levelname for record in caplog.records] == ["WARNING"]


async def test_a_model_that_is_too_late_leads_to_the_top_candidate() -> None:
    model = ScriptedModel(f'["{CANCEL}"]', delay_s=30)
    result = await FlowSelector(model, shop(), timeout_s=0.01).select("x", metadata())
    assert (result.names, result.decision.reason) == (["refund_order"], Reason.FALLBACK_ERROR)
    assert result.decision.error == "ModelTimeoutError: the model ScriptedModel failed: no answer within 0.01 s"


async def test_a_models_own_timeout_is_not_taken_for_ours() -> None:
    result = await FlowSelector(ScriptedModel(TimeoutError("socket"), repeat=True), shop()).select("x", metadata())
    assert result.decision.error == "TimeoutError: socket"


async def test_no_time_limit_may_be_asked_for() -> None:
    model = ScriptedModel(f'["{CANCEL}"]', delay_s=0.01)
    assert (await FlowSelector(model, shop(), timeout_s=None).select("x", metadata())).names == ["cancel_order"]


# --- cancellation --------------------------------------------------------------


class Waits:
    """A model that says when it was asked, and answers a cancellation with `on_cancel`, if that is set."""

    def __init__(self, on_cancel: Exception | None = None) -> None:
        self.asked = asyncio.Event()
        self.on_cancel = on_cancel

    async def complete(self, messages: Sequence[Message]) -> Reply:
        self.asked.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError as cancelled:
            if self.on_cancel is not None:
                raise self.on_cancel from cancelled
            raise
        return Reply(text="[]")


ON_CANCEL = [None, TimeoutError("mine"), RuntimeError("connection closed")]


@pytest.mark.parametrize("on_cancel", ON_CANCEL, ids=lambda error: type(error).__name__)
async def test_a_cancellation_always_passes(on_cancel: Exception | None) -> None:
    model = Waits(on_cancel)
    task = asyncio.create_task(FlowSelector(model, shop()).select("x", metadata()))
    await model.asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("on_cancel", ON_CANCEL, ids=lambda error: type(error).__name__)
async def test_a_callers_time_limit_stays_the_callers(on_cancel: Exception | None) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await FlowSelector(Waits(on_cancel), shop()).select("x", metadata())


@pytest.mark.parametrize("on_cancel", ON_CANCEL, ids=lambda error: type(error).__name__)
async def test_our_time_limit_is_no_cancellation(on_cancel: Exception | None) -> None:
    result = await FlowSelector(Waits(on_cancel), shop(), timeout_s=0.01).select("x", metadata())
    assert result.decision.error.startswith("ModelTimeoutError")
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_cancellation_that_the_model_raises_passes() -> None:
    with pytest.raises(asyncio.CancelledError):
        await FlowSelector(ScriptedModel(asyncio.CancelledError()), shop()).select("x", metadata())


# --- recall --------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [DOWN, EmbeddingError("static", "out of memory"), KeyError("x")], ids=lambda error: type(error).__name__
)
async def test_a_memory_that_fails_fails_the_selection(error: Exception) -> None:
    with pytest.raises(type(error)):
        await FlowSelector(None, shop(), ListMemory(error=error), "support").select("stop it")


async def test_a_memory_that_finds_nothing_leaves_nothing_to_choose() -> None:
    memory = ListMemory(metadata("cancel_order"))
    selector = FlowSelector(None, shop(), memory, "support")
    assert (await selector.select("stop it")).names == ["cancel_order"]
    memory.candidates.clear()
    assert (await selector.select("stop it")).names == []


async def test_a_selector_with_candidates_given_does_not_need_its_memory() -> None:
    selector = FlowSelector(None, shop(), ListMemory(error=DOWN), "support")
    assert (await selector.select("x", metadata())).decision.chosen_ids == (REFUND,)
