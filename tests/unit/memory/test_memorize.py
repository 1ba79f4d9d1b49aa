"""Single flows: memorize, update, delete, list."""

import pytest

from jazz_select import ProceduralMemory
from jazz_select.errors import UnknownFlowError
from jazz_select.values import flow_id
from tests.unit.memory.cards import CARDS, card


async def test_a_memorized_flow_is_found(memory: ProceduralMemory) -> None:
    assert await memory.memorize(card("refund_order"), "a") == flow_id("refund_order")
    assert [each["flow_name"] for each in await memory.recall("money back", "a")] == ["refund_order"]


async def test_memorizing_again_replaces(memory: ProceduralMemory) -> None:
    await memory.memorize(card("refund_order"), "a")
    await memory.memorize(card("refund_order", "pay back in points"), "a")
    assert [each["description"] for each in await memory.list_flows("a")] == ["pay back in points"]


async def test_an_update_says_whether_anything_changed(memory: ProceduralMemory) -> None:
    await memory.memorize(card("refund_order"), "a")
    assert await memory.update_memory(card("refund_order"), "a") is False
    assert await memory.update_memory(card("refund_order", "pay back in points"), "a") is True
    assert (await memory.list_flows("a"))[0]["description"] == "pay back in points"


async def test_an_update_of_an_unknown_flow_says_what_to_do(memory: ProceduralMemory) -> None:
    with pytest.raises(UnknownFlowError, match="memorize it first"):
        await memory.update_memory(card("refund_order"), "a")


async def test_a_deleted_flow_is_gone_for_its_agent_alone(memory: ProceduralMemory) -> None:
    await memory.memorize(CARDS[0], "a")
    await memory.memorize(CARDS[0], "b")
    assert await memory.delete_flow(CARDS[0].id, "a") is True
    assert await memory.delete_flow(CARDS[0].id, "a") is False
    assert await memory.list_flows("a") == []
    assert len(await memory.list_flows("b")) == 1


async def test_flows_are_listed_by_name_as_metadata(memory: ProceduralMemory) -> None:
    await memory.sync("a", CARDS)
    flows = await memory.list_flows("a")
    assert [flow["flow_name"] for flow in flows] == sorted(each.name for each in CARDS)
    assert "fingerprint" not in flows[0]
    assert flows[0]["priority"] == [0, 0]
