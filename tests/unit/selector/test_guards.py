"""Flows that say themselves whether they may be offered."""

from collections.abc import Mapping
from typing import Any

import pytest

from jazz_select import FlowRegistry, FlowSelector, SequentialFlow
from jazz_select.testing import ListMemory, ScriptedModel
from jazz_select.values import Reason, Tier
from tests.unit.selector.shop import CANCEL, EXCHANGE, REFUND, Guarded, flow, guarded, metadata, shop

MEMBER, GUEST = {"member": True}, {"member": False}


def members_shop() -> FlowRegistry:
    """`refund_order` is for members."""
    registry = shop("exchange_order", "cancel_order")
    guarded("refund_order", registry)
    return registry


class Changes:
    """A guard's answers, one per time it is asked."""

    def __init__(self, answers: list[bool]) -> None:
        self.answers = answers

    def __call__(self) -> bool:
        return self.answers.pop(0)


async def test_an_unavailable_flow_is_excluded_from_recall_and_takes_no_place_in_it() -> None:
    memory = ListMemory(metadata())
    result = await FlowSelector(None, members_shop(), memory, "support", top_k=2).select("x", context=GUEST)
    assert memory.calls[0].exclude == {REFUND}
    assert [found["flow_id"] for found in result.candidates] == [EXCHANGE, CANCEL]
    assert result.decision.notes == ("not available in this context: refund_order",)


async def test_an_available_flow_is_offered_and_nothing_is_excluded() -> None:
    memory = ListMemory(metadata())
    result = await FlowSelector(None, members_shop(), memory, "support").select("x", context=MEMBER)
    assert (memory.calls[0].exclude, result.names) == (frozenset(), ["refund_order"])
    assert result.decision.notes == ()


async def test_no_context_is_an_empty_one() -> None:
    assert (await FlowSelector(None, members_shop()).select("x", metadata())).names == ["exchange_order"]


async def test_given_candidates_are_filtered_too() -> None:
    model = ScriptedModel()
    given = metadata("refund_order", "cancel_order")
    result = await FlowSelector(model, members_shop()).select("x", given, context=GUEST)
    assert (result.names, result.decision.reason, model.calls) == (["cancel_order"], Reason.SINGLE, [])
    assert result.candidates == given[1:]


async def test_a_memory_that_ignores_the_exclusion_changes_nothing() -> None:
    class Stubborn(ListMemory):
        async def recall(self, *args: Any, **options: Any) -> Any:
            return metadata()

    result = await FlowSelector(None, members_shop(), Stubborn(), "support").select("x", context=GUEST)
    assert result.names == ["exchange_order"]


async def test_where_all_are_unavailable_there_is_nothing() -> None:
    registry = FlowRegistry(min_examples=0)
    guarded("refund_order", registry)
    result = await FlowSelector(None, registry).select("x", metadata("refund_order"), context=GUEST)
    assert (result.names, result.candidates, result.decision.tier) == ([], [], Tier.OPEN)
    assert result.unresolved_ids == []


async def test_the_guard_is_asked_again_after_the_choice() -> None:
    context = {"member": Changes([True, False])}
    result = await FlowSelector(ScriptedModel(f'["{REFUND}"]'), members_shop()).select("x", metadata(), context=context)
    assert (result.names, result.chosen_prompts, result.combined_prompt) == ([], [], "")
    assert (result.decision.tier, result.decision.reason, result.decision.chosen_ids) == (Tier.OPEN, Reason.NONE, ())
    assert result.decision.notes == ("after the choice: not available in this context: refund_order",)
    assert result.decision.parsed_ids == (REFUND,)


async def test_a_flow_that_closed_meanwhile_is_dropped_and_the_others_stay() -> None:
    context = {"member": Changes([True, False])}
    model = ScriptedModel(f'["{REFUND}", "{CANCEL}"]')
    result = await FlowSelector(model, members_shop()).select("x", metadata(), context=context)
    assert (result.names, result.decision.reason) == (["cancel_order"], Reason.LLM)


@pytest.mark.parametrize("llm", [None, ScriptedModel("nonsense", repeat=True)], ids=["semantic", "fallback"])
async def test_a_choice_without_the_model_is_guarded_as_well(llm: Any) -> None:
    result = await FlowSelector(llm, members_shop()).select("x", metadata(), context={"member": Changes([True, False])})
    assert (result.names, result.decision.reason) == ([], Reason.NONE)


async def test_a_guard_that_raises_closes_its_flow(caplog: pytest.LogCaptureFixture) -> None:
    context = {"member": PermissionError("directory down")}
    result = await FlowSelector(None, members_shop()).select("x", metadata(), context=context)
    assert result.names == ["exchange_order"]
    assert "PermissionError: directory down" in result.decision.notes[0]
    assert "refund_order" in caplog.text


async def test_a_guard_that_raises_after_the_choice_closes_its_flow() -> None:
    answers = iter([True])
    result = await FlowSelector(None, members_shop()).select("x", metadata(), context={"member": lambda: next(answers)})
    assert (result.names, result.decision.reason) == ([], Reason.NONE)
    assert "StopIteration" in result.decision.notes[0]


async def test_an_async_guard_closes_its_flow_and_says_what_to_do() -> None:
    class Async(Guarded):
        async def available(self, context: Mapping[str, Any]) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
            return True

    registry = shop("cancel_order")
    guarded("refund_order", registry, Async)
    result = await FlowSelector(None, registry).select("x", metadata("refund_order", "cancel_order"))
    assert result.names == ["cancel_order"]
    assert "declare it with `def`" in result.decision.notes[0]


async def test_a_guarded_flow_that_joins_later_is_seen() -> None:
    registry = shop("exchange_order")
    selector = FlowSelector(None, registry)
    assert (await selector.select("x", metadata())).names == ["exchange_order"]
    guarded("refund_order", registry)
    assert (await selector.select("x", metadata(), context=GUEST)).names == ["exchange_order"]
    registry.unregister(REFUND)
    flow("refund_order", registry)
    assert (await selector.select("x", metadata(), context=GUEST)).names == ["refund_order"]


async def test_guards_of_a_plain_mapping_are_found_anew_each_time() -> None:
    registry = dict(shop("exchange_order"))
    selector = FlowSelector(None, registry)
    await selector.select("x", metadata())
    registry[REFUND] = members_shop()[REFUND]
    assert (await selector.select("x", metadata(), context=GUEST)).names == ["exchange_order"]


async def test_a_composite_may_be_guarded() -> None:
    class Both(SequentialFlow):
        def available(self, context: Mapping[str, Any]) -> bool:
            return bool(context.get("member"))

    registry = shop("exchange_order", "cancel_order")
    Both(
        name="refund_order",
        description="Both.",
        condition="Both.",
        examples=[],
        flows=["exchange_order", "cancel_order"],
        registry=registry,
    )
    selector = FlowSelector(None, registry)
    assert (await selector.select("x", metadata(), context=GUEST)).names == ["exchange_order"]
    assert (await selector.select("x", metadata(), context=MEMBER)).names == ["refund_order"]


async def test_recall_may_be_held_to_some_flows() -> None:
    memory = ListMemory(metadata())
    result = await FlowSelector(None, members_shop(), memory, "support").select("x", context=GUEST, only=[EXCHANGE])
    assert memory.calls[0].exclude == {REFUND, CANCEL}
    assert (result.names, result.decision.reason) == (["exchange_order"], Reason.SINGLE)
