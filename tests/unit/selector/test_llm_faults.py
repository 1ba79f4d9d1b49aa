"""Every fault of a model has an outcome: what the caller gets, the reason that is recorded, and how long it takes."""

import asyncio
from collections.abc import Sequence

import pytest

from jazz_select import FlowSelector
from jazz_select.errors import ModelError, ModelTimeoutError
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.selector.selector_options import ModelOptions
from jazz_select.testing import ScriptedModel
from jazz_select.testing.doubles import ScriptedReply
from jazz_select.values import Message, Reason, Reply, Usage
from tests.unit.agent.hanging import timed_alone as timed
from tests.unit.selector.shop import CANCEL, metadata, shop

pytestmark = [
    pytest.mark.llm_faults,
    # From 3.12 on a loop gives its threads 300 s to end, which pass at once on a clock that jumps.
    pytest.mark.filterwarnings("ignore:The executor did not finish"),
]


CHOICE = f'["{CANCEL}"]'
BUSY = ModelError("m", "busy", retryable=True)
SOON = ModelError("m", "too many requests", retryable=True, retry_after=0.01)
LATER = ModelError("m", "too many requests", retryable=True, retry_after=3_600)
REFUSED = ModelError("m", "bad key", retryable=False)

TABLE: dict[str, tuple[tuple[ScriptedReply, ...], Reason, int]] = {
    # what the model does: the reason recorded, and how often it is called
    "answers": ((CHOICE,), Reason.LLM, 1),
    "busy once": ((BUSY, CHOICE), Reason.LLM, 2),
    "busy twice": ((BUSY, BUSY, CHOICE), Reason.LLM, 3),
    "busy for ever": ((BUSY, BUSY, BUSY, CHOICE), Reason.FALLBACK_ERROR, 3),
    "says when to come back": ((SOON, CHOICE), Reason.LLM, 2),
    "says to come back after the deadline": ((LATER, CHOICE), Reason.FALLBACK_ERROR, 1),
    "refuses": ((REFUSED, CHOICE), Reason.FALLBACK_ERROR, 1),
    "times out by itself": ((ModelTimeoutError("m", timeout_s=1), CHOICE), Reason.LLM, 2),
    "loses the connection": ((ConnectionResetError(), CHOICE), Reason.LLM, 2),
    "has a bug": ((KeyError("choices"), CHOICE), Reason.FALLBACK_ERROR, 1),
    "prose, then a choice": (("I would have to think about that.", CHOICE), Reason.LLM, 2),
    "a strange id, then a choice": (('["ghost"]', CHOICE), Reason.LLM, 2),
    "prose twice": (("Hm.", "Well."), Reason.FALLBACK_INVALID, 2),
    "prose, then a failure": (("Hm.", REFUSED), Reason.FALLBACK_INVALID, 2),
    "prose, then busy, then a choice": (("Hm.", BUSY, CHOICE), Reason.LLM, 3),
    "nothing fits": (("[]",), Reason.FALLBACK_EMPTY, 1),
    "cut off": ((Reply(text='["', finish_reason="length"), CHOICE), Reason.LLM, 2),
}


async def one_after_another(selector: FlowSelector, count: int) -> list[FlowSelectionResult]:
    return [await selector.select("x", metadata()) for _ in range(count)]


@pytest.mark.parametrize(("replies", "reason", "calls"), TABLE.values(), ids=TABLE)
def test_fault(replies: tuple[ScriptedReply, ...], reason: Reason, calls: int) -> None:
    model = ScriptedModel(*replies)
    result, took_s = timed(FlowSelector(model, shop(), timeout_s=5).select("x", metadata()))
    assert result.decision.reason is reason
    assert result.names == (["cancel_order"] if reason is Reason.LLM else ["refund_order"])
    assert len(model.calls) == calls
    assert took_s < 3


async def test_asking_again_says_why_and_counts_both() -> None:
    model = ScriptedModel(
        Reply(text='["ghost"]', usage=Usage(input_tokens=10, output_tokens=2)),
        Reply(text=CHOICE, usage=Usage(input_tokens=20, output_tokens=3)),
    )
    decision = (await FlowSelector(model, shop()).select("x", metadata())).decision
    assert [message.role for message in model.calls[1]] == ["system", "user", "assistant", "user"]
    assert model.calls[1][2].content == '["ghost"]'
    assert "not among the candidates: ghost" in model.calls[1][3].content
    assert (decision.usage, decision.attempts) == (Usage(input_tokens=30, output_tokens=5), 2)
    assert any(note.startswith("asked again: not among the candidates") for note in decision.notes)


@pytest.mark.parametrize(("options", "calls"), [({"max_reasks": 0}, 1), ({"max_reasks": 3}, 4)])
async def test_how_often_it_is_asked_again_can_be_set(options: dict[str, int], calls: int) -> None:
    model = ScriptedModel("Hm.", repeat=True)
    result = await FlowSelector(model, shop(), model_options=ModelOptions(max_reasks=options["max_reasks"])).select(
        "x", metadata()
    )
    assert (result.decision.reason, len(model.calls)) == (Reason.FALLBACK_INVALID, calls)


async def test_retries_can_be_switched_off() -> None:
    model = ScriptedModel(BUSY, CHOICE)
    result = await FlowSelector(model, shop(), model_options=ModelOptions(max_retries=0)).select("x", metadata())
    assert (result.decision.reason, len(model.calls)) == (Reason.FALLBACK_ERROR, 1)


async def test_a_schema_of_the_offered_ids_goes_to_models_that_take_one() -> None:
    model = ScriptedModel('{"ids": ["2"]}', takes_schema=True)
    result = await FlowSelector(model, shop()).select("x", metadata("refund_order", "cancel_order"))
    assert result.names == ["cancel_order"]
    (schema,) = model.schemas
    assert schema is not None
    assert schema["properties"]["ids"]["items"]["enum"] == ["1", "2"]


# --- time ----------------------------------------------------------------------


class Deaf:
    """A model that hangs, and does not let itself be cancelled for a while."""

    name = "deaf"

    def __init__(self) -> None:
        self.calls = 0

    async def complete(self, messages: Sequence[Message]) -> Reply:
        self.calls += 1
        for _ in range(3):
            try:
                await asyncio.sleep(0.4)
            except asyncio.CancelledError:
                continue
        return Reply(text=CHOICE)


def test_a_model_that_ignores_being_cancelled_is_left_behind_in_time() -> None:
    result, took_s = timed(FlowSelector(Deaf(), shop(), timeout_s=0.1).select("x", metadata()))
    assert took_s < 1.0, "its call takes 1.2 s"
    assert (result.names, result.decision.reason) == (["refund_order"], Reason.FALLBACK_ERROR)


def test_calls_that_never_end_do_not_make_the_others_wait() -> None:
    model = Deaf()
    selector = FlowSelector(model, shop(), timeout_s=0.1, model_options=ModelOptions(max_concurrency=1))
    _, took_s = timed(one_after_another(selector, 5))
    assert took_s < 1.0, "one call takes 1.2 s"
    assert model.calls == 1


@pytest.mark.parametrize(
    "replies",
    [(CHOICE,), ("Hm.",), (BUSY,), (SOON,)],
    ids=["slow", "slow and unreadable", "slow and busy", "slow and throttled"],
)
def test_the_deadline_is_for_all_of_it(replies: tuple[ScriptedReply, ...]) -> None:
    model = ScriptedModel(*replies, repeat=True, delay_s=0.12)
    selector = FlowSelector(model, shop(), timeout_s=0.2, model_options=ModelOptions(max_retries=50, max_reasks=50))
    result, took_s = timed(selector.select("x", metadata()))
    assert took_s < 0.3
    assert result.names


class HangingAt:
    """Goes through a script of faults, and hangs at one of its calls: before it, or with the answer in hand."""

    name = "hanging"

    def __init__(self, call: int, *, late: bool) -> None:
        self._script = ScriptedModel("Hm.", SOON, CHOICE, repeat=True)
        self._call = call
        self._late = late

    async def complete(self, messages: Sequence[Message]) -> Reply:
        here = len(self._script.calls) + 1 == self._call
        if here and not self._late:
            await asyncio.sleep(30)
        reply = await self._script.complete(messages)
        if here:
            await asyncio.sleep(30)
        return reply


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("call", "reason"), [(1, Reason.FALLBACK_ERROR), (2, Reason.FALLBACK_INVALID), (3, Reason.FALLBACK_INVALID)]
)
def test_wherever_it_hangs_the_deadline_holds(call: int, reason: Reason, *, late: bool) -> None:
    selector = FlowSelector(HangingAt(call, late=late), shop(), timeout_s=0.2)
    result, took_s = timed(selector.select("x", metadata()))
    assert took_s < 0.3
    if not (late and call == 2):  # its second call fails before it could hang
        assert (result.names, result.decision.reason) == (["refund_order"], reason)


def test_a_dead_provider_costs_one_deadline_and_not_one_for_each_request() -> None:
    model = ScriptedModel(CHOICE, delay_s=30, repeat=True)
    selector = FlowSelector(model, shop(), timeout_s=0.2)
    results, took_s = timed(one_after_another(selector, 10))
    assert took_s < 0.2 + 0.1
    assert {result.decision.reason for result in results} == {Reason.FALLBACK_ERROR}
    assert len(model.calls) == 1
    assert "ModelTimeoutError" in results[0].decision.error
    assert "asked again in" in results[9].decision.error


async def test_a_model_that_fails_again_and_again_is_left_alone() -> None:
    model = ScriptedModel(BUSY, repeat=True)
    selector = FlowSelector(model, shop(), model_options=ModelOptions(max_retries=0))
    for _ in range(10):
        await selector.select("x", metadata())
    assert len(model.calls) == 3


async def test_what_a_model_refuses_is_no_reason_to_leave_it_alone() -> None:
    model = ScriptedModel(REFUSED, REFUSED, REFUSED, REFUSED, REFUSED, CHOICE)
    selector = FlowSelector(model, shop())
    results = [await selector.select("x", metadata()) for _ in range(6)]
    assert results[-1].decision.reason is Reason.LLM


# --- many at once --------------------------------------------------------------


class Counting:
    """Answers after a while, and knows how many waited at once, and in which order they came."""

    name = "counting"

    def __init__(self, delay_s: float = 0.02) -> None:
        self.now = self.most = 0
        self.order: list[str] = []
        self.cancelled = 0
        self._delay_s = delay_s

    async def complete(self, messages: Sequence[Message]) -> Reply:
        self.now += 1
        self.most = max(self.most, self.now)
        self.order.append(messages[-1].content.partition("<request>")[2].partition("<")[0])
        try:
            await asyncio.sleep(self._delay_s)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.now -= 1
        return Reply(text=CHOICE)


async def test_no_more_than_so_many_are_in_flight_and_the_others_come_in_turn() -> None:
    model = Counting()
    selector = FlowSelector(model, shop(), model_options=ModelOptions(max_concurrency=4))
    results = await asyncio.gather(*(selector.select(f"request {n}", metadata()) for n in range(40)))
    assert {result.decision.reason for result in results} == {Reason.LLM}
    assert model.most == 4
    assert model.order == [f"request {n}" for n in range(40)]


async def test_those_who_wait_in_the_queue_are_not_held_against_the_model() -> None:
    model = Counting(delay_s=0.15)
    selector = FlowSelector(model, shop(), model_options=ModelOptions(max_concurrency=1), timeout_s=0.2)
    results = await asyncio.gather(*(selector.select(f"request {n}", metadata()) for n in range(3)))
    assert results[0].decision.reason is Reason.LLM
    assert results[2].decision.reason is Reason.FALLBACK_ERROR
    await asyncio.sleep(0.2)


async def test_one_who_leaves_takes_nobody_with_him_and_ends_his_own_call() -> None:
    model = Counting(delay_s=0.1)
    selector = FlowSelector(model, shop())
    first, second = (asyncio.ensure_future(selector.select("the same", metadata())) for _ in range(2))
    await asyncio.sleep(0.03)
    first.cancel()
    assert (await second).names == ["cancel_order"]
    assert model.cancelled == 1
    alone = asyncio.ensure_future(selector.select("the same", metadata()))
    await asyncio.sleep(0.03)
    alone.cancel()
    await asyncio.gather(alone, return_exceptions=True)
    await asyncio.sleep(0)
    assert (model.cancelled, model.now) == (2, 0)


# --- cancellation --------------------------------------------------------------


async def _steps(selection: "asyncio.Future[FlowSelectionResult]", count: int) -> None:
    for _ in range(count):
        if selection.done():
            return
        await asyncio.sleep(0)


class Halting:
    """A model that stops at several points on its way, fails once, and answers."""

    name = "halting"

    def __init__(self, *replies: ScriptedReply) -> None:
        self._script = ScriptedModel(*replies, repeat=True)

    async def complete(self, messages: Sequence[Message]) -> Reply:
        for _ in range(3):
            await asyncio.sleep(0)
        return await self._script.complete(messages)


async def test_cancelled_at_any_point_it_passes_and_leaves_nothing_broken() -> None:
    throttled = ModelError("m", "busy", retryable=True, retry_after=0)
    cancelled = 0
    for count in range(40):
        selector = FlowSelector(
            Halting("Hm.", throttled, CHOICE), shop(), model_options=ModelOptions(max_concurrency=1), timeout_s=5
        )
        selection = asyncio.ensure_future(selector.select("x", metadata()))
        await _steps(selection, count)
        selection.cancel()
        (outcome,) = await asyncio.gather(selection, return_exceptions=True)
        cancelled += isinstance(outcome, asyncio.CancelledError)
        assert isinstance(outcome, asyncio.CancelledError | FlowSelectionResult)
        again = await selector.select("x", metadata())
        assert again.decision.reason is Reason.LLM, f"cancelled after {count} steps"
    assert cancelled > 10
