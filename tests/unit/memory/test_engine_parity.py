"""How rare a word is belongs to the catalogue: the same request gives the same order on every engine."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from heapq import nlargest
from pathlib import Path
from typing import Any

import pytest

from jazz_select import ProceduralMemory
from jazz_select.memory.encoder import Encoder, Lexical
from jazz_select.memory.engines.edge import EdgeStore
from jazz_select.memory.engines.qdrant_server import RemoteStore
from jazz_select.memory.engines.stored_points import Layout
from jazz_select.ports import ArmHits, FlowPoint, FlowStore, HybridQuery
from jazz_select.testing import HashEmbedder
from jazz_select.values import FlowCard
from tests.qdrant_server import EngineClient

THINGS = ("order", "invoice", "parcel", "password", "account", "voucher", "booking", "ticket")
DEEDS = ("cancel", "track", "print", "share")
CATALOGUE = [
    FlowCard(
        id=f"{deed}_{thing}",
        name=f"{deed}_{thing}",
        description=f"{deed} the {thing} of a customer",
        examples=(f"please {deed} my {thing}", f"I want to {deed} the {thing} of {number}", f"{thing}: {deed} it"),
        checksum="1",
    )
    for number, thing in enumerate(THINGS)
    for deed in DEEDS
]
REQUESTS = (
    "please cancel my parcel",
    "track the invoice of 3",
    "I want a voucher printed",
    "the order and the ticket of a customer",
    "share it",
    "password",
)


class Cluster(RemoteStore):
    """One collection as a cluster keeps it: each flow on one of three shards, each shard asked, the best hits kept."""

    def __init__(self, layout: Layout) -> None:
        super().__init__(EngineClient(), layout)
        self.shards = [RemoteStore(EngineClient(), layout) for _ in range(3)]

    async def upsert(self, points: Sequence[FlowPoint]) -> None:
        await super().upsert(points)
        for number, shard in enumerate(self.shards):
            mine = [each for each in points if self.key(each.agent_id, each.flow_id) % 7 % 3 == number]
            await shard.upsert(mine)

    async def delete(self, agent_id: str, keys: Collection[int]) -> None:
        for store in (super(), *self.shards):
            await store.delete(agent_id, keys)

    async def search(self, queries: Sequence[HybridQuery]) -> list[ArmHits]:
        answers = [await shard.search(queries) for shard in self.shards]
        return [
            ArmHits(
                dense=_best([each[at].dense for each in answers], query.depth),
                bm25=_best([each[at].bm25 for each in answers], query.depth),
                payloads={},
            )
            for at, query in enumerate(queries)
        ]


def _best(legs: Sequence[Mapping[int, float]], depth: int) -> dict[int, float]:
    found = {key: score for each in legs for key, score in each.items()}
    return {key: found[key] for key in nlargest(depth, found, key=found.__getitem__)}


ENGINES: Mapping[str, Callable[[Path, Layout], FlowStore]] = {
    "edge": EdgeStore,
    "memory": lambda _, layout: RemoteStore(EngineClient(), layout),
    "three shards": lambda _, layout: Cluster(layout),
}


async def _told(memory: ProceduralMemory) -> list[tuple[list[str], list[float], list[float]]]:
    """Order, fused scores and raw lexical scores for each request."""
    found = await memory.recall_many(REQUESTS, "support", top_k=8)
    return [
        (
            [each["flow_name"] for each in result],
            [each["score"] for each in result],
            [each["scores"].get("bm25", 0.0) for each in result],
        )
        for result in found
    ]


def _near(told: Sequence[tuple[list[str], list[float], list[float]]]) -> list[Any]:
    return [
        (order, pytest.approx(fused, abs=1e-5), pytest.approx(words, abs=1e-5))  # pyright: ignore[reportUnknownMemberType]
        for order, fused, words in told
    ]


@pytest.mark.spec("006.8")
async def test_every_engine_gives_the_same_order_and_scores(tmp_path: Path) -> None:
    encoder = Encoder(HashEmbedder(), Lexical())
    answers: dict[str, list[Any]] = {}
    for name, make in ENGINES.items():
        async with ProceduralMemory(make(tmp_path / name, encoder.layout), encoder) as memory:
            await memory.sync("support", CATALOGUE)
            await memory.sync("another", [replace(CATALOGUE[0], description="order " * 40, checksum="2")])
            answers[name] = [await _told(memory)]
            await memory.memorize(replace(CATALOGUE[3], id="share_twice", name="share_twice", checksum="3"), "support")
            await memory.delete_flow(CATALOGUE[5].id, "support")
            answers[name].append(await _told(memory))
    synced, written = answers["edge"]
    assert synced != written
    assert len(synced[0][0]) == 8
    for name, told in answers.items():
        assert told == [_near(synced), _near(written)], name


NEW = replace(
    CATALOGUE[0], id="cancel_delivery", name="cancel_delivery", description="cancel cancel order", checksum="9"
)
CHANGED = replace(CATALOGUE[1], description="order and invoice of a parcel", checksum="8")
WANTED = [CATALOGUE[0], CHANGED, *CATALOGUE[2:20], NEW]


class CutShortError(Exception):
    """Somebody pulled the plug."""


async def _synced(memory: ProceduralMemory) -> None:
    await memory.sync("support", WANTED)


async def _memorized(memory: ProceduralMemory) -> None:
    for card in WANTED:
        await memory.memorize(card, "support")


async def _changed_one_by_one(memory: ProceduralMemory) -> None:
    await memory.sync("support", CATALOGUE[:22])
    await memory.recall("order", "support")
    await memory.memorize(NEW, "support")
    await memory.update_memory(CHANGED, "support")
    for card in CATALOGUE[20:22]:
        await memory.delete_flow(card.id, "support")


async def _by_two_at_once(memory: ProceduralMemory) -> None:
    other = ProceduralMemory(memory._store, memory._encoder)  # pyright: ignore[reportPrivateUsage]
    await memory.sync("support", CATALOGUE[:10])
    await asyncio.gather(*(each.recall("order", "support") for each in (memory, other)))
    await asyncio.gather(
        memory.memorize(NEW, "support"),
        other.memorize(CHANGED, "support"),
        *(other.memorize(card, "support") for card in CATALOGUE[10:15]),
        *(memory.memorize(card, "support") for card in CATALOGUE[15:20]),
    )
    memory._agents.forget("support")  # pyright: ignore[reportPrivateUsage] - as a minute later


async def _by_a_sync_cut_short(memory: ProceduralMemory) -> None:
    def pull(*_: int) -> None:
        raise CutShortError

    await memory.sync("support", CATALOGUE[:20])
    with pytest.raises(CutShortError):
        await memory.sync("support", WANTED, progress=pull)


WAYS: dict[str, Callable[[ProceduralMemory], Awaitable[None]]] = {
    "memorized": _memorized,
    "changed one by one": _changed_one_by_one,
    "two at once": _by_two_at_once,
    "a sync cut short": _by_a_sync_cut_short,
}


@pytest.mark.spec("006.8")
@pytest.mark.parametrize("engine", ["edge", "memory"])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_words_weigh_what_is_indexed_says_however_it_came_there(
    way: Callable[[ProceduralMemory], Awaitable[None]], engine: str, tmp_path: Path
) -> None:
    encoder = Encoder(HashEmbedder(), Lexical())
    weighed: list[list[dict[str, float]]] = []
    for number, write in enumerate((_synced, way)):
        async with ProceduralMemory(ENGINES[engine](tmp_path / str(number), encoder.layout), encoder) as memory:
            await write(memory)
            found = await memory.recall_many(REQUESTS, "support", top_k=30)
        weighed.append([{each["flow_id"]: each["scores"].get("bm25", 0.0) for each in result} for result in found])
    right, told = weighed
    assert [pytest.approx(each, abs=1e-5) for each in right] == told  # pyright: ignore[reportUnknownMemberType]


async def test_a_word_of_few_flows_weighs_more(tmp_path: Path) -> None:
    encoder = Encoder(HashEmbedder(), Lexical())
    cards = [FlowCard(id=name, name=name, description=name, checksum="1") for name in ("red", "blue one", "blue two")]
    async with ProceduralMemory(EdgeStore(tmp_path / "index", encoder.layout), encoder) as memory:
        await memory.sync("a", cards)
        found = await memory.recall("red blue", "a")
    words = {each["flow_name"]: each["scores"]["bm25"] for each in found}
    assert words["red"] > words["blue one"] > 0
