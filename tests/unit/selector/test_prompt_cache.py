"""A prompt is built once per definition."""

import pytest

from jazz_select import BaseFlow, FlowRegistry, FlowSelector
from jazz_select.selector.select import PromptCache
from tests.unit.selector.shop import REFUND, guarded, metadata


class Counted(BaseFlow):
    """A flow that counts how often its prompt is built, and how."""

    built: list[bool]

    def build_prompt(self, verbose: bool = True) -> str:  # noqa: FBT002 - the published signature
        self.built.append(verbose)
        return super().build_prompt(verbose)


def counted(registry: FlowRegistry, name: str = "refund_order") -> Counted:
    made = guarded(name, registry, Counted)
    assert isinstance(made, Counted)
    made.built = []
    return made


@pytest.mark.spec("003.14")
async def test_a_second_selection_builds_nothing() -> None:
    registry = FlowRegistry(min_examples=0)
    flow = counted(registry)
    selector = FlowSelector(None, registry)
    results = [await selector.select(query, metadata("refund_order")) for query in ("x", "y", "x")]
    assert flow.built == [False]
    assert len({result.combined_prompt for result in results}) == 1


@pytest.mark.spec("003.14")
async def test_a_changed_flow_is_built_anew() -> None:
    registry = FlowRegistry(min_examples=0)
    flow = counted(registry)
    selector = FlowSelector(None, registry)
    await selector.select("x", metadata("refund_order"))
    flow.condition = "Only on Mondays."
    changed = await selector.select("x", metadata("refund_order"))
    assert flow.built == [False, False]
    assert "Only on Mondays." in changed.combined_prompt


@pytest.mark.spec("003.14")
async def test_a_replaced_flow_of_the_same_id_is_built_anew() -> None:
    registry = FlowRegistry(min_examples=0)
    counted(registry)
    selector = FlowSelector(None, registry)
    await selector.select("x", metadata("refund_order"))
    Counted.built = []
    Counted(
        name="refund_order",
        description="New.",
        condition="New.",
        desired_effects=["new"],
        examples=[],
        registry=registry,
        replace=True,
    )
    assert "<description>New.</description>" in (await selector.select("x", metadata("refund_order"))).combined_prompt


async def test_flows_that_are_gone_are_dropped() -> None:
    registry = FlowRegistry(min_examples=0)
    cache = PromptCache(registry)
    for number in range(20):
        flow = counted(registry, f"flow_{number}")
        await cache.prompt(flow)
        registry.unregister(flow)
    last = counted(registry)
    await cache.prompt(last)
    assert len(cache) == 1
    await cache.prompt(last)
    assert (last.id, last.built) == (REFUND, [False])
