"""A sync removes what is this index's by its name and by its own word, and nothing that lies beside it."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import models as qm

from jazz_select import ProceduralMemory
from jazz_select.memory.encoder import Encoder, Lexical
from jazz_select.memory.engines.qdrant_server import RemoteStore
from jazz_select.testing import HashEmbedder
from tests.qdrant_server import EngineClient
from tests.unit.memory.cards import CARDS

AGENT = "support"
OLD, NEW = HashEmbedder(32), HashEmbedder(64)


def _memory(client: EngineClient, embedder: HashEmbedder) -> ProceduralMemory:
    encoder = Encoder(embedder, Lexical())
    return ProceduralMemory(RemoteStore(client, encoder.layout), encoder)


async def _copy(
    client: EngineClient, source: str, name: str, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> int:
    """Restore a collection under another name, as from a snapshot; return the number of its points."""
    params = (await client.get_collection(source)).config.params
    await client.create_collection(name, params.vectors, params.sparse_vectors)  # pyright: ignore[reportArgumentType]
    records, _ = await client.scroll(source, limit=1_000, with_vectors=True)
    for record in records:
        payload = change(dict(record.payload or {}))
        vector: Any = record.vector
        await client.upsert(name, [qm.PointStruct(id=record.id, vector=vector, payload=payload)])
    return len(records)


def _same(payload: dict[str, Any]) -> dict[str, Any]:
    return payload


def _without_layout(payload: dict[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in payload.items() if field != "layout"}


def _of_another_program(payload: dict[str, Any]) -> dict[str, Any]:
    return {**payload, "layout": "two columns"}


def _odd_layout(payload: dict[str, Any]) -> dict[str, Any]:
    return {**payload, "layout": ["embedder", 1]}


BESIDE: dict[str, tuple[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "a backup": ("{own}_backup", _same),
    "a backup with a dot": ("{own}.bak", _same),
    "a longer name": ("{own}0", _same),
    "in capitals": ("jazz_flows_ABCDEF012345", _same),
    "a short name": ("jazz_flows_1", _same),
    "restored under the form of a name": ("jazz_flows_0123456789ab", _same),
    "somebody's own, without a layout": ("jazz_flows_0123456789ab", _without_layout),
    "somebody's own, of another layout": ("{own}", _of_another_program),
    "somebody's own, of an odd layout": ("{own}", _odd_layout),
}


@pytest.mark.parametrize(("name", "change"), BESIDE.values(), ids=BESIDE)
async def test_a_collection_beside_ours_keeps_its_points(
    name: str, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    client = EngineClient()
    await _memory(client, OLD).sync(AGENT, CARDS)
    (own,) = [each.name for each in (await client.get_collections()).collections]
    beside = name.format(own=own)
    if beside == own:  # the older layout's very name, with what others put there
        records, _ = await client.scroll(own, limit=1_000)
        for record in records:
            await client.overwrite_payload(own, change(dict(record.payload or {})), points=[record.id])
        count = len(records)
    else:
        count = await _copy(client, own, beside, change)
    report = await _memory(client, NEW).sync(AGENT, CARDS, allow_delete=True)
    assert (await client.count(beside)).count == count
    assert report.deleted == ()
    assert any("removed" in each for each in report.notes) is (beside != own), "what is removed elsewhere is said"
    assert (await _memory(client, NEW).recall("money back", AGENT))[0]["flow_name"] == CARDS[0].name
    await client.close()


async def test_the_older_layout_is_emptied_and_the_report_says_so() -> None:
    client = EngineClient()
    await _memory(client, OLD).sync(AGENT, CARDS)
    await _memory(client, OLD).sync("other", CARDS)
    (own,) = [each.name for each in (await client.get_collections()).collections]
    planned = await _memory(client, NEW).sync(AGENT, CARDS, dry_run=True)
    report = await _memory(client, NEW).sync(AGENT, CARDS)
    assert planned.notes == report.notes
    assert f"its {len(CARDS)} entries are removed: embedder" in report.notes[0]
    assert (await client.count(own)).count == len(CARDS) + 1, "another agent's flows and note stay"
    again = await _memory(client, NEW).sync(AGENT, CARDS)
    assert (again.skipped, again.notes) == (tuple(each.name for each in CARDS), ())
    await client.close()


FOLDERS = ("{key}_backup", "{key}.bak", "{key}.0123", "backup", "0123456789ab", "{key}0")


@pytest.mark.parametrize("name", FOLDERS)
async def test_a_folder_beside_ours_keeps_its_points(name: str, tmp_path: Path) -> None:
    async with await ProceduralMemory.open(tmp_path, embedder=OLD) as memory:
        await memory.sync(AGENT, CARDS)
    (own,) = (tmp_path / "layouts").iterdir()
    beside = tmp_path / "layouts" / name.format(key=own.name)
    shutil.copytree(own, beside)
    async with await ProceduralMemory.open(tmp_path, embedder=NEW) as memory:
        report = await memory.sync(AGENT, CARDS, allow_delete=True)
        assert report.deleted == ()
    assert not own.exists(), "the older layout is empty, and gone"
    shutil.move(beside, own)  # as if it was put back
    async with await ProceduralMemory.open(tmp_path, embedder=OLD) as memory:
        assert len(await memory.list_flows(AGENT)) == len(CARDS)


async def test_an_older_folder_with_other_points_is_not_removed(tmp_path: Path) -> None:
    async with await ProceduralMemory.open(tmp_path, embedder=OLD) as memory:
        await memory.sync(AGENT, CARDS)
        await memory.sync("other", CARDS[:1])
    async with await ProceduralMemory.open(tmp_path, embedder=NEW) as memory:
        await memory.sync(AGENT, CARDS)
    async with await ProceduralMemory.open(tmp_path, embedder=OLD) as memory:
        assert [each["flow_name"] for each in await memory.list_flows("other")] == [CARDS[0].name]
