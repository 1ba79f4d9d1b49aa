"""An index that others write to may hold anything: it is passed over with a note, and a sync mends it."""

import asyncio
import random
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from qdrant_client import models as qm

from jazz_select import FlowSelector, ProceduralMemory
from jazz_select.errors import ConfigError, StoreError
from jazz_select.memory.encoder import Encoder, Lexical
from jazz_select.memory.engines.qdrant_server import RemoteStore
from jazz_select.memory.engines.stored_points import SPARSE, note_key, point_key
from jazz_select.ports import ArmHits, HybridQuery, Vectors
from jazz_select.testing import HashEmbedder
from tests.qdrant_server import EngineClient
from tests.unit.memory.cards import CARDS, card
from tests.unit.selector.shop import shop

FLOWS = [*CARDS, *(card(f"flow_{number}") for number in range(8))]
VICTIM = CARDS[0]
REQUEST = "give money back for a delivered order"
Payload = dict[str, Any]


class Shared:
    """An index in this process that somebody else writes to as well."""

    def __init__(self) -> None:
        self.client = EngineClient()
        self.encoder = Encoder(HashEmbedder(), Lexical())

    def memory(self) -> ProceduralMemory:
        return ProceduralMemory(RemoteStore(self.client, self.encoder.layout), self.encoder)

    async def collection(self) -> str:
        (found,) = [each.name for each in (await self.client.get_collections()).collections]
        return found

    async def payload(self, key: int) -> Payload:
        (record,) = await self.client.retrieve(await self.collection(), ids=[key], with_payload=True)
        return record.payload or {}

    async def overwrite(self, key: int, payload: Payload) -> None:
        await self.client.overwrite_payload(await self.collection(), payload=payload, points=[key])


@pytest.fixture
async def shared() -> AsyncIterator[Shared]:
    index = Shared()
    await index.memory().sync("a", FLOWS)
    yield index
    await index.client.close()


def _without(field: str) -> Callable[[Payload], Payload]:
    return lambda payload: {name: value for name, value in payload.items() if name != field}


def _with(**fields: Any) -> Callable[[Payload], Payload]:
    return lambda payload: {**payload, **fields}


PAYLOADS: dict[str, tuple[Callable[[Payload], Payload], str]] = {
    "nothing but whose it is": (lambda payload: {"agent_id": payload["agent_id"]}, "flow_id is missing"),
    "no flow_id": (_without("flow_id"), "flow_id is missing"),
    "an empty flow_id": (_with(flow_id=""), "flow_id is missing"),
    "a number for a flow_id": (_with(flow_id=7), "flow_id is no text"),
    "a list for a flow_id": (_with(flow_id=["x"]), "flow_id is no text"),
    "another flow's id": (_with(flow_id=FLOWS[1].id), "lies where another flow belongs"),
    "a mapping for a name": (_with(flow_name={"x": 1}), "flow_name is no text"),
    "nothing for a type": (_with(flow_type=None), "flow_type is no text"),
    "a list for a description": (_with(description=["x"]), "description is no text"),
    "a number for a condition": (_with(condition=1.5), "condition is no text"),
    "text for effects": (_with(desired_effects="done"), "desired_effects are no list"),
    "a number for effects": (_with(desired_effects=3), "desired_effects are no list"),
    "numbers in effects": (_with(desired_effects=[1, 2]), "one of its desired_effects is no text"),
    "texts for a priority": (_with(priority=["high", "low"]), "priority is not two"),
    "one number for a priority": (_with(priority=5), "priority is not two"),
    "nothing for a priority": (_with(priority=None), "priority is not two"),
    "half a character": (_with(description="half \ud800"), "description is no valid Unicode"),
    "a book": (_with(description="x" * 1_000_001), "description has more than 1,000,000 characters"),
}


@pytest.mark.spec("005.17")
@pytest.mark.parametrize(("change", "fault"), PAYLOADS.values(), ids=PAYLOADS)
async def test_a_flow_that_cannot_be_read_is_passed_over_and_mended(
    shared: Shared, change: Callable[[Payload], Payload], fault: str
) -> None:
    key = point_key("a", VICTIM.id)
    before = await shared.payload(key)
    await shared.overwrite(key, change(before))
    memory = shared.memory()
    selector = FlowSelector(None, shop(*(each.name for each in FLOWS)), memory, "a")
    result = await selector.select(REQUEST)
    assert VICTIM.name not in result.names
    assert len(result.candidates) == 3, "it takes no place"
    assert any(fault in note and "sync_registry" in note for note in result.decision.notes)
    assert VICTIM.name not in [each["flow_name"] for each in await memory.list_flows("a")]
    assert len(await memory.recall_many([REQUEST, "where is my parcel"], "a")) == 2
    report = await memory.sync("a", FLOWS)
    assert report.created == (VICTIM.name,)
    assert fault in report.notes[0]
    again = await selector.select(REQUEST)
    assert (again.names, again.decision.notes) == ([VICTIM.name], ())
    assert await shared.payload(key) == before


@pytest.mark.spec("005.17")
async def test_fields_that_are_missing_count_as_empty(shared: Shared) -> None:
    key = point_key("a", VICTIM.id)
    before = await shared.payload(key)
    await shared.overwrite(key, {name: before[name] for name in ("agent_id", "flow_id")})
    memory = shared.memory()
    (first, *_) = await memory.recall(REQUEST, "a")
    assert (first["flow_id"], first["flow_name"], first["desired_effects"]) == (VICTIM.id, "", [])
    listed = {each["flow_id"]: each for each in await memory.list_flows("a")}
    assert listed[VICTIM.id] == {**dict.fromkeys(listed[VICTIM.id], ""), "flow_id": VICTIM.id} | {
        "desired_effects": [],
        "priority": [0, 0],
    }
    assert (await memory.sync("a", FLOWS)).updated == (VICTIM.name,)


STRANGERS: dict[str, int | str] = {"a number": 12, "a UUID": "6f9619ff-8b86-d011-b42d-00c04fc964ff"}


@pytest.mark.spec("005.17")
@pytest.mark.parametrize("point", STRANGERS.values(), ids=STRANGERS)
async def test_what_is_no_flow_is_removed_by_a_sync(shared: Shared, point: int | str) -> None:
    own = await shared.client.retrieve(await shared.collection(), ids=[point_key("a", VICTIM.id)], with_vectors=True)
    stranger = qm.PointStruct(id=point, vector=own[0].vector or {}, payload={"agent_id": "a", "rubbish": True})  # pyright: ignore[reportArgumentType]
    await shared.client.upsert(await shared.collection(), points=[stranger])
    memory = shared.memory()
    found = await memory.recall(REQUEST, "a")
    assert found[0]["flow_name"] == VICTIM.name
    assert any("cannot be read" in note for note in found.notes)
    report = await memory.sync("a", FLOWS)
    assert (report.created, report.updated, report.deleted) == ((), (), ())
    assert "1 entries" in report.notes[0]
    assert (await memory.recall(REQUEST, "a")).notes == ()
    assert not await shared.client.retrieve(await shared.collection(), ids=[point])


_SCALE = {"width": 1.0, "weight": 1.0}


def _packed(matrix: Vectors) -> str:
    return b64encode(matrix.tobytes()).decode()


NOTES: dict[str, Callable[[Payload], Any]] = {
    "empty": lambda _: {},
    "no mapping": lambda _: ["version", 3],
    "a text": lambda _: "x" * 100_000,
    "nothing": lambda _: None,
    "another version": lambda note: {**note, "version": 99},
    "no version": _without("version"),
    "no digest": _without("digest"),
    "a number for a digest": _with(digest=4),
    "no scales": _without("scales"),
    "scales of one arm": _with(scales={"dense": _SCALE}),
    "a width of nothing": _with(scales={"dense": _SCALE | {"width": 0.0}, "bm25": _SCALE}),
    "texts for scales": _with(scales={"dense": {"width": "a", "weight": "b"}, "bm25": _SCALE}),
    "a list for scales": _with(scales=[1, 2]),
    "a transform of another embedder": _with(transform="AACAPwAAAAAAAAAAAACAPw=="),
    "a transform that is cut": _with(transform="AACAPwAAAAAAAAAA"),
    "a transform that is no text": _with(transform=7),
    "a transform of nothing": _with(transform=[]),
    "too few weights": _with(confidence={"weights": [1.0, 2.0], "bias": 0.0}),
    "texts for weights": _with(confidence={"weights": ["a"] * 7, "bias": 0.0}),
    "a mapping for weights": _with(scope={"a": 1}),
    "a list of names": _with(names=["refund"]),
    "numbers for names": _with(names={"give money back": 5}),
    "names of nothing": _with(names={"give money back": None}),
    "no flows": _without("flows"),
    "a number of flows": _with(flows=7),
    "numbers for flows": _with(flows=[1, 2]),
    "a number for a caveat": _with(caveat=0),
    "weights whose sum overflows": _with(confidence={"weights": [1e308] * 7, "bias": 1e308}),
    "weights of both signs that overflow": _with(scope={"weights": [1e308, -1e308] * 3, "bias": 0.0}),
    "more flows than a float holds": lambda note: {**note, "terms": {**note["terms"], "flows": 10**400}},
    "a transform of huge numbers": _with(transform=_packed(np.full((256, 256), 3e38, dtype=np.float32))),
    "a second of a second": lambda note: {**note, "second": {**note, "second": note}},
    "sizes of sets without end": _with(sets={"nonconformity": [0.0] * (1 << 20 | 1)}),
}


class _Silent(RemoteStore):
    """Answers without any payload."""

    async def search(self, queries: Sequence[HybridQuery]) -> list[ArmHits]:
        found = await super().search(queries)
        nothing: Payload = {}
        return [replace(legs, payloads=dict.fromkeys((*legs.dense, *legs.bm25), nothing)) for legs in found]


async def test_hits_without_a_payload_are_passed_over(shared: Shared) -> None:
    memory = ProceduralMemory(_Silent(shared.client, shared.encoder.layout), shared.encoder)
    found = await memory.recall(REQUEST, "a")
    assert not found
    assert any("its flow_id is missing" in note for note in found.notes)


@pytest.mark.spec("005.17")
@pytest.mark.parametrize("weight", [-1e6, float("inf"), float("-inf")])
@pytest.mark.parametrize("top_k", [3, "auto"])
async def test_words_that_others_weigh_break_no_recall(
    weight: float, top_k: int | Literal["auto"], shared: Shared
) -> None:
    terms = shared.encoder.lexical.query("a word that nobody else has: xylophone")
    assert terms is not None
    words = qm.SparseVector(indices=[*terms.indices], values=[weight] * len(terms.indices))
    for flow in FLOWS:
        given = qm.PointVectors(id=point_key("a", flow.id), vector={SPARSE: words})
        await shared.client.update_vectors(await shared.collection(), points=[given])
    found = await shared.memory().recall("a word that nobody else has: xylophone", "a", top_k)
    assert all(0.0 <= each["confidence"] <= 1.0 for each in found)
    assert found.p_none is not None
    assert 0.0 <= found.p_none <= 1.0


@pytest.mark.spec("005.17")
@pytest.mark.parametrize("change", NOTES.values(), ids=NOTES)
async def test_a_note_that_cannot_be_read_is_said_and_mended(shared: Shared, change: Callable[[Payload], Any]) -> None:
    before = await shared.payload(note_key("a"))
    await shared.overwrite(note_key("a"), {**before, "note": change(before["note"])})
    memory = shared.memory()
    found = await memory.recall(REQUEST, "a")
    assert found[0]["flow_name"] == VICTIM.name
    assert any("cannot be read" in note and "sync_registry" in note for note in found.notes)
    await memory.memorize(card("one_more"), "a")
    await memory.delete_flow(FLOWS[5].id, "a")
    await memory.sync("a", FLOWS)
    assert (await shared.payload(note_key("a")))["note"] == before["note"]
    assert (await memory.recall(REQUEST, "a")).notes == ()


@pytest.mark.spec("005.17")
async def test_flows_that_are_gone_without_a_word_are_missed(memory: ProceduralMemory) -> None:
    await memory.sync("a", FLOWS)
    store = memory._store  # pyright: ignore[reportPrivateUsage]
    await store.delete("a", [store.key("a", each.id) for each in FLOWS[3:5]])
    memory._agents.forget("a")  # pyright: ignore[reportPrivateUsage]
    notes = (await memory.recall(REQUEST, "a")).notes
    assert any("10 of the 12 flows that were last written" in note for note in notes)
    await memory.sync("a", FLOWS)
    assert (await memory.recall(REQUEST, "a")).notes == ()
    await memory.delete_flow(FLOWS[3].id, "a")
    await memory.memorize(card("another"), "a")
    assert (await memory.recall(REQUEST, "a")).notes == (), "what was deleted on purpose is not missed"


@pytest.mark.spec("005.17")
async def test_a_folder_that_has_lost_flows_is_no_smaller_catalogue(tmp_path: Path) -> None:
    async with await ProceduralMemory.open(tmp_path, embedder=HashEmbedder()) as memory:
        await memory.sync("a", FLOWS)
    (tracker,) = tmp_path.rglob("mutable_id_tracker.versions")
    with tracker.open("r+b") as file:
        file.truncate(tracker.stat().st_size // 2)
    async with await ProceduralMemory.open(tmp_path, embedder=HashEmbedder()) as memory:
        left = len(await memory.list_flows("a"))
        assert 0 < left < len(FLOWS)
        notes = (await memory.recall(REQUEST, "a")).notes
        assert any(f"the index has {left} of the {len(FLOWS)} flows" in note for note in notes)
        await memory.sync("a", FLOWS)
        assert len(await memory.list_flows("a")) == len(FLOWS)
        assert (await memory.recall(REQUEST, "a")).notes == ()


@pytest.mark.soak
@pytest.mark.spec("005.17")
async def test_concurrent_recalls_over_many_tenants_never_leak() -> None:
    shared = Shared()
    memory = shared.memory()
    agents = [f"tenant {number}" for number in range(160)]  # more than are kept
    for agent in agents:
        await memory.memorize(card(f"flow of {agent}", "give money back"), agent)
    random.Random(0).shuffle(agents)

    async def recall(agent: str) -> None:
        for _ in range(3):
            found = await memory.recall("give money back", agent)
            assert [each["flow_name"] for each in found] == [f"flow of {agent}"]

    await asyncio.gather(*(recall(agent) for agent in agents))
    await shared.client.close()


async def test_what_could_not_be_read_again_is_not_written(memory: ProceduralMemory) -> None:
    with pytest.raises(ConfigError, match="'endless' cannot be indexed: its description has more than 1,000,000"):
        await memory.sync("a", [card("endless", "x" * 1_000_001)])
    assert await memory.list_flows("a") == []


async def test_a_typed_error_is_all_that_leaves_a_broken_store(shared: Shared) -> None:
    await shared.client.close()
    with pytest.raises(StoreError):
        await shared.memory().recall(REQUEST, "a")
