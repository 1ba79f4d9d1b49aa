"""A sync that would delete most of an agent's flows stops and names them, unless it is told that it may."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazz_select import Flow, FlowRegistry, ProceduralMemory, sync_registry
from jazz_select.errors import SyncDeletesError
from jazz_select.memory.encoder import Encoder, Lexical
from jazz_select.memory.engines.qdrant_server import RemoteStore
from jazz_select.memory.engines.stored_points import point_key
from jazz_select.routing import Tool, sync_tools
from jazz_select.testing import HashEmbedder
from tests.qdrant_server import EngineClient
from tests.unit.memory.cards import card

STAFF = [card(f"staff_{number}") for number in range(4)]
SUPPORT = [card(f"support_{number}") for number in range(33)]

PLANS: dict[str, tuple[int, int, bool]] = {
    "another catalogue": (33, 0, True),
    "more than half": (10, 4, True),
    "exactly half": (12, 6, False),
    "few, though more than half": (5, 0, False),
    "six of eleven": (11, 5, True),
    "six of twelve": (12, 6, False),
    "all of six": (6, 0, True),
}


@pytest.mark.spec("005.17")
@pytest.mark.parametrize(("had", "kept", "refused"), PLANS.values(), ids=PLANS)
async def test_most_of_an_agents_flows_are_deleted_only_when_told_so(
    memory: ProceduralMemory, had: int, kept: int, refused: bool
) -> None:
    await memory.sync("support", SUPPORT[:had])
    await memory.sync("other", SUPPORT[:had])
    catalogue = [*SUPPORT[:kept], *STAFF]
    planned = await memory.sync("support", catalogue, dry_run=True)
    assert len(planned.deleted) == had - kept, "the plan can be seen first"
    before = await memory.list_flows("support")
    if refused:
        with pytest.raises(SyncDeletesError, match=r"allow_delete=True .*--yes") as caught:
            await memory.sync("support", catalogue)
        assert sorted(caught.value.deleted) == sorted(planned.deleted)
        assert (caught.value.agent_id, caught.value.total) == ("support", had)
        assert all(name in str(caught.value) for name in caught.value.deleted)
        assert await memory.list_flows("support") == before, "nothing was written either"
    report = await memory.sync("support", catalogue, allow_delete=refused)
    assert report.deleted == planned.deleted
    assert {each["flow_name"] for each in await memory.list_flows("support")} == {each.name for each in catalogue}
    assert len(await memory.list_flows("other")) == had


@pytest.mark.spec("005.17")
async def test_another_embedder_is_no_way_around_it(tmp_path: Path) -> None:
    async with await ProceduralMemory.open(tmp_path, embedder=HashEmbedder(64)) as memory:
        await memory.sync("support", SUPPORT)
    async with await ProceduralMemory.open(tmp_path, embedder=HashEmbedder(32)) as memory:
        with pytest.raises(SyncDeletesError) as caught:
            await memory.sync("support", STAFF)
        assert len(caught.value.deleted) == caught.value.total == len(SUPPORT)
    async with await ProceduralMemory.open(tmp_path, embedder=HashEmbedder(64)) as memory:
        assert len(await memory.list_flows("support")) == len(SUPPORT)
    async with await ProceduralMemory.open(tmp_path, embedder=HashEmbedder(32)) as memory:
        report = await memory.sync("support", [*STAFF, *SUPPORT[:30]])
        assert sorted(report.deleted) == sorted(each.name for each in SUPPORT[30:]), "what a move leaves out is told"


@pytest.mark.spec("005.17")
async def test_a_registry_and_tools_are_asked_for_in_the_same_way(memory: ProceduralMemory) -> None:
    await memory.sync("support", SUPPORT)
    registry = FlowRegistry(min_examples=0)
    with registry.scope():
        Flow(name="only_one")
    with pytest.raises(SyncDeletesError):
        await sync_registry(memory, "support", registry)
    assert (await sync_registry(memory, "support", registry, dry_run=True)).created == ("only_one",)
    assert len((await sync_registry(memory, "support", registry, allow_delete=True)).deleted) == len(SUPPORT)
    tools = [Tool(name=f"tool_{number}") for number in range(20)]
    await sync_tools(memory, "support", tools)
    with pytest.raises(SyncDeletesError):
        await sync_tools(memory, "support", tools[:3])
    assert len((await sync_tools(memory, "support", tools[:3], allow_delete=True)).deleted) == 17
    assert [each["flow_name"] for each in await memory.list_flows("support")] == ["only_one"]


def _nameless(payload: dict[str, Any]) -> dict[str, Any]:
    return {"agent_id": payload["agent_id"]}


def _unknown_effects(payload: dict[str, Any]) -> dict[str, Any]:
    return {**payload, "desired_effects": 7}


UNREADABLE: dict[str, tuple[Callable[[dict[str, Any]], dict[str, Any]], str]] = {
    "with their names": (_unknown_effects, r"support_0 \(cannot be read: its desired_effects are no list\)"),
    "with nothing": (_nameless, r"an entry \(cannot be read: its flow_id is missing\)"),
}


IN_ANOTHER_LAYOUT = [(64, each) for each in UNREADABLE] + [(32, "with their names")]


@pytest.mark.spec("005.17")
@pytest.mark.parametrize(("dim", "kind"), IN_ANOTHER_LAYOUT)
async def test_flows_that_cannot_be_read_are_not_deleted_without_a_word(dim: int, kind: str) -> None:
    change, named = UNREADABLE[kind]
    client = EngineClient()
    first, second = (Encoder(HashEmbedder(each), Lexical()) for each in (64, dim))
    await ProceduralMemory(RemoteStore(client, first.layout), first).sync("support", SUPPORT)
    (collection,) = [each.name for each in (await client.get_collections()).collections]
    for each in SUPPORT:
        (record,) = await client.retrieve(collection, ids=[point_key("support", each.id)])
        await client.overwrite_payload(collection, change(record.payload or {}), points=[record.id])
    memory = ProceduralMemory(RemoteStore(client, second.layout), second)
    with pytest.raises(SyncDeletesError, match=named) as caught:
        await memory.sync("support", STAFF)
    assert len(caught.value.deleted) == caught.value.total == len(SUPPORT)
    assert (await client.count(collection)).count == len(SUPPORT) + 1, "they and their note are all there"
    if change is _unknown_effects or dim == 64:
        await memory.sync("support", SUPPORT)
        assert len(await memory.list_flows("support")) == len(SUPPORT), "what is written anew is not deleted"
    await memory.sync("support", STAFF, allow_delete=True)
    assert {each["flow_name"] for each in await memory.list_flows("support")} == {each.name for each in STAFF}
    await client.close()
