"""A sync sees that the tools which flows name exist, and a selection says which flows recall cannot find yet."""

from typing import Any

import pytest

from jazz_select import Flow, FlowRegistry, FlowSelector, ProceduralMemory, sync_registry
from jazz_select.errors import FlowValidationError
from jazz_select.routing import Tool
from jazz_select.testing import ListMemory
from jazz_select.values import flow_id
from tests.unit.memory.cards import TOPICS

TOOLS = [Tool(name=name) for name in ("lookup_order", "issue_refund", "send_label")]


def registry_of(**tools: list[str]) -> FlowRegistry:
    registry = FlowRegistry(min_examples=0)
    for name, named in tools.items():
        Flow(name=name, description=TOPICS.get(name, name), tools=named, registry=registry)
    return registry


MISSING: dict[str, tuple[dict[str, list[str]], str]] = {
    "one that is misspelt": (
        {"refund": ["lookup_order", "issue_refunds"]},
        r"'refund'.*tools: names tools that do not exist: issue_refunds \(did you mean 'issue_refund'\?\)$",
    ),
    "two flows": (
        {"refund": ["pay"], "track": ["lookup_order"], "swap": ["ship"]},
        r"'refund'.*do not exist: pay; so does 1 other flow: swap; connect them, too .*, or take them out$",
    ),
}


@pytest.mark.spec("005.17")
@pytest.mark.parametrize(("flows", "problem"), MISSING.values(), ids=MISSING)
async def test_a_tool_that_does_not_exist_is_found_by_a_sync(
    memory: ProceduralMemory, flows: dict[str, list[str]], problem: str
) -> None:
    with pytest.raises(FlowValidationError, match=problem):
        await sync_registry(memory, "a", registry_of(**flows), tools=TOOLS)
    assert await memory.list_flows("a") == [], "nothing was written"


@pytest.mark.spec("005.17")
async def test_a_report_says_whether_anybody_looked(memory: ProceduralMemory) -> None:
    registry = registry_of(refund=["lookup_order"], track=[], swap=["send_label"])
    assert (await sync_registry(memory, "a", registry, tools=TOOLS)).notes == ()
    (note,) = (await sync_registry(memory, "a", registry)).notes
    assert note.startswith("whether the tools that 2 flows name exist was not checked: pass tools=…")
    assert (await sync_registry(memory, "b", registry_of(talk=[]))).notes == ()


WRONG_CHAINS: dict[str, Any] = {
    "a step that is not the flow's": ["issue_refund"],
    "a point that is not the flow's": [{"after_step": "lookup_order", "candidate_tools": ["issue_refund"]}],
    "no step": [5],
}


@pytest.mark.spec("005.17")
@pytest.mark.parametrize("chain", WRONG_CHAINS.values(), ids=WRONG_CHAINS)
async def test_a_chain_that_cannot_run_is_found_by_a_sync(memory: ProceduralMemory, chain: Any) -> None:
    registry = registry_of(refund=["lookup_order"])
    (flow,) = registry.values()
    flow.chain = chain
    with pytest.raises(FlowValidationError, match="chain"):
        await sync_registry(memory, "a", registry)


@pytest.mark.spec("005.17")
async def test_a_flow_that_is_not_synced_is_noted(memory: ProceduralMemory) -> None:
    registry = registry_of(**{name: list[str]() for name in TOPICS})
    selector = FlowSelector(None, registry, memory, "a")
    await sync_registry(memory, "a", registry)
    assert (await selector.select("money back")).decision.notes == ()
    late = [Flow(name=f"late_{number}", description="x", registry=registry).name for number in range(7)]
    (note,) = (await selector.select("money back")).decision.notes
    assert note.startswith("registered, and cannot be found until sync_registry (jazz-select sync) is run, are late_0,")
    assert note.endswith(" and 2 more")
    for one, _ in zip(await selector.select_many(["money back", "where is it"]), late, strict=False):
        assert note in one.decision.notes
    await memory.memorize(registry[flow_id("late_3")], "a")
    assert (await selector.select("money back")).decision.notes[0].endswith("late_5 and 1 more")
    await sync_registry(memory, "a", registry)
    assert (await selector.select("money back")).decision.notes == ()


@pytest.mark.spec("005.17")
@pytest.mark.parametrize("only", [None, ["nothing"]], ids=["all flows", "among few"])
async def test_an_agent_that_the_index_does_not_know_is_noted(memory: ProceduralMemory, only: list[str] | None) -> None:
    registry = registry_of(refund=[])
    await sync_registry(memory, "support", registry)
    result = await FlowSelector(None, registry, memory, "suport").select("money back", only=only)
    assert (result.names, result.candidates) == ([], [])
    assert any("agent 'suport' has no flows in this index" in note for note in result.decision.notes)


async def test_a_memory_that_does_not_say_what_it_has_is_not_doubted() -> None:
    registry = registry_of(refund=[], swap=[])
    found = [{"flow_id": flow_id, "flow_name": flow.name} for flow_id, flow in registry.items()][:1]
    result = await FlowSelector(None, registry, ListMemory(found), "a").select("money back")
    assert result.decision.notes == ()
