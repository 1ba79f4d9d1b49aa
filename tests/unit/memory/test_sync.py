"""Sync: create, update, delete, skip; idempotent, interruptible, one agent at a time."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from jazz_select import BaseFlow, Flow, FlowRegistry, ProceduralMemory, sync_registry
from jazz_select.errors import ConfigError, EmbedderMismatchError, EmbeddingError
from jazz_select.memory import sync
from jazz_select.memory.fit.fitting import fit_stages
from jazz_select.testing import FailingEmbedder, HashEmbedder
from tests.unit.memory.cards import CARDS, card
from tests.unit.memory.conftest import Place, opened

NAMES = tuple(each.name for each in CARDS)


BATCH = 8
"""So many flows are written together where batches matter."""
MANY = [card(f"flow_{n}") for n in range(2 * BATCH + 4)]
SMALL = 32
"""As long as a vector needs to be where nobody asks how well it finds: what a sync learns takes the longer, the longer
they are."""


@pytest.fixture
def batches_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "BATCH", BATCH)


@pytest.fixture
async def small(place: Place) -> AsyncIterator[ProceduralMemory]:
    """An empty memory for many flows."""
    async with await opened(place, embedder=HashEmbedder(SMALL)) as memory:
        yield memory


@pytest.mark.parametrize("by", ["sync", "delete_flow"])
async def test_a_deleted_flow_is_known_by_its_name_no_more(memory: ProceduralMemory, by: str) -> None:
    gone, *rest = CARDS
    await memory.sync("a", CARDS)
    before = await memory.recall("Refund order", "a")
    assert (before[0]["flow_id"], before.p_none) == (gone.id, 0.0), "a request that is its name is for it"
    assert before[0]["score"] == max(each["score"] for each in before)
    await (memory.sync("a", rest) if by == "sync" else memory.delete_flow(gone.id, "a"))
    after = await memory.recall("Refund order", "a")
    assert gone.id not in {each["flow_id"] for each in after}
    assert after.p_none is None, "nothing says that it is for one of the others"
    assert after.indexed == {each.id for each in rest}
    await memory.sync("a", [*rest, card("refund", "pay it back")])
    assert (await memory.recall("refund", "a")).p_none == 0.0, "nor is a new one unknown"


async def test_other_flows_or_labelled_requests_are_fitted_anew(memory: ProceduralMemory) -> None:
    deeds, topics = ("show", "send", "delete"), ("invoice", "parcel", "password", "address", "voucher")
    cards = [card(f"{deed} {topic}", f"{deed} the {topic}") for topic in topics for deed in deeds]
    request = "would you send the voucher"

    async def sure() -> float:
        return (await memory.recall(request, "a"))[0]["confidence"]

    await memory.sync("a", cards)
    at_first = await sure()
    await memory.sync("a", cards)
    assert await sure() == at_first, "the same flows are as sure as before"
    await memory.sync("a", [*cards, card("post voucher", "post the voucher")])
    with_a_rival = await sure()
    assert with_a_rival != at_first
    await memory.sync("a", cards)
    assert await sure() == at_first
    await memory.sync("a", cards, cases=[("send me that voucher", cards[-1].id)] * 20)
    assert await sure() not in {at_first, with_a_rival}, "labelled requests that say otherwise are learned from"
    await memory.sync("a", cards, cases=[("send me that voucher", cards[-1].id)])
    (note,) = (await memory.sync("a", cards)).notes
    assert note.startswith("an earlier sync learned from 1 labelled request, and")


async def test_the_same_flows_are_fitted_once_in_a_process(
    memory: ProceduralMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits: list[int] = []

    def counted(*args: Any, **options: Any) -> Any:
        fits.append(1)
        return fit_stages(*args, **options)

    monkeypatch.setattr(sync, "fit_stages", counted)
    monkeypatch.setattr(sync, "_RECENT_FITS", {})
    for agent in ("a", "b"):
        await memory.sync(agent, CARDS)
    assert len(fits) == 1
    ours, theirs = [await memory.recall("money back", agent, top_k=4) for agent in ("a", "b")]
    assert [each["confidence"] for each in ours] == [each["confidence"] for each in theirs]
    await memory.sync("b", CARDS[:-1], allow_delete=True)
    assert len(fits) == 2, "other flows"
    monkeypatch.setattr(sync, "_RECENT_FITS", {})
    await memory.sync("a", CARDS)
    assert len(fits) == 2, "another process finds it in the index"


async def test_a_sync_creates_updates_deletes_and_skips(memory: ProceduralMemory) -> None:
    first = await memory.sync("a", CARDS)
    assert (first.created, first.updated, first.deleted, first.skipped) == (NAMES, (), (), ())
    changed = [card(NAMES[0], "something else"), *CARDS[2:], card("greet")]
    second = await memory.sync("a", changed)
    assert (second.created, second.updated, second.deleted) == (("greet",), (NAMES[0],), (NAMES[1],))
    assert second.skipped == NAMES[2:]
    assert str(second) == "1 created, 1 updated, 1 deleted, 2 unchanged"
    third = await memory.sync("a", changed)
    assert third.skipped == (NAMES[0], *NAMES[2:], "greet")
    assert not third.created + third.updated + third.deleted


async def test_a_dry_run_only_says_what_would_happen(memory: ProceduralMemory) -> None:
    report = await memory.sync("a", CARDS, dry_run=True)
    assert report.created == NAMES
    assert report.dry_run
    assert "nothing was written" in str(report)
    assert await memory.list_flows("a") == []


async def test_one_agents_sync_leaves_anothers_flows(memory: ProceduralMemory) -> None:
    await memory.sync("a", CARDS)
    await memory.sync("b", CARDS[:1])
    await memory.sync("b", [])
    assert len(await memory.list_flows("a")) == len(CARDS)
    assert await memory.list_flows("b") == []


@pytest.mark.usefixtures("batches_are_small")
async def test_progress_is_told_after_each_batch(small: ProceduralMemory) -> None:
    seen: list[tuple[int, int]] = []
    await small.sync("a", MANY, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(BATCH, len(MANY)), (2 * BATCH, len(MANY)), (len(MANY), len(MANY))]


async def test_concurrent_syncs_of_one_agent_end_in_one_of_their_catalogues(memory: ProceduralMemory) -> None:
    catalogues = [
        [card(f"flow_{n}", f"version {version}") for n in range(version, version + 20)] for version in range(5)
    ]
    await asyncio.gather(*(memory.sync("a", catalogue) for catalogue in catalogues))
    found = {(each["flow_name"], each["description"]) for each in await memory.list_flows("a")}
    assert found in [{(each.name, each.description) for each in catalogue} for catalogue in catalogues]


@pytest.mark.usefixtures("batches_are_small")
async def test_a_sync_that_fails_half_way_is_finished_by_the_next(place: Place) -> None:
    embedder = FailingEmbedder(HashEmbedder(SMALL), failing=False)

    def fail(done: int, total: int) -> None:
        embedder.failing = done < total

    async with await opened(place, embedder=embedder) as memory:
        with pytest.raises(EmbeddingError):
            await memory.sync("a", MANY, progress=fail)
        assert len(await memory.list_flows("a")) == BATCH
        embedder.failing = False
        report = await memory.sync("a", MANY)
        assert (len(report.created), len(report.skipped)) == (len(MANY) - BATCH, BATCH)


@pytest.mark.usefixtures("batches_are_small")
async def test_where_a_sync_was_cut_short_the_words_of_what_is_there_count(small: ProceduralMemory) -> None:
    async def of_words() -> float:
        found = {each["flow_name"]: each["scores"] for each in await small.recall("parcel", "a", top_k=20)}
        return found["track_parcel"]["bm25"]

    def stop(done: int, total: int) -> None:
        raise InterruptedError(f"{done} of {total}")

    await small.sync("a", CARDS)
    before = await of_words()
    with pytest.raises(InterruptedError):
        await small.sync("a", [*CARDS, *(card(f"n{each}", f"parcel {each}") for each in range(BATCH))], progress=stop)
    assert await of_words() < before, "now many speak of parcels"


@pytest.mark.usefixtures("batches_are_small")
@pytest.mark.parametrize("batches", [0, 1, 2])
async def test_a_cancelled_sync_is_finished_by_the_next(small: ProceduralMemory, batches: int) -> None:
    reached = asyncio.Event()
    if batches == 0:
        reached.set()

    def progress(done: int, _: int) -> None:
        if done >= BATCH * batches:
            reached.set()

    running = asyncio.create_task(small.sync("a", MANY, progress=progress))
    await asyncio.sleep(0)
    await reached.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await small.sync("a", MANY)
    assert sorted(each["flow_name"] for each in await small.list_flows("a")) == sorted(each.name for each in MANY)


SYNC_FOR_EVER = """
import asyncio, sys
from jazz_select import ProceduralMemory
from jazz_select.testing import HashEmbedder
from tests.unit.memory.cards import card

async def main():
    memory = await ProceduralMemory.open(sys.argv[1], embedder=HashEmbedder(32))
    for version in range(1000):
        cards = [card(f"flow_{n}", f"about {n} version {version}") for n in range(600)]
        await memory.sync("a", cards, progress=lambda done, total: print(version, done, flush=True))

asyncio.run(main())
"""


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1))  # `make index` kills more often
async def test_kill_in_the_middle_of_a_sync_loses_and_doubles_nothing(tmp_path: Path, seed: int) -> None:
    index = tmp_path / "index"
    moments = random.Random(seed)
    for _ in range(2):
        process = subprocess.Popen([sys.executable, "-c", SYNC_FOR_EVER, str(index)], stdout=subprocess.PIPE, text=True)
        assert process.stdout
        for _ in range(moments.randint(1, 7)):
            assert process.stdout.readline()
        await asyncio.sleep(moments.random() * 0.05)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        async with await ProceduralMemory.open(index, embedder=HashEmbedder(SMALL)) as memory:
            known = [each["flow_name"] for each in await memory.list_flows("a")]
            assert len(known) == len(set(known)) >= 256, "what was acknowledged is there, once"
    many = [card(f"flow_{n}") for n in range(600)]
    async with await ProceduralMemory.open(index, embedder=HashEmbedder(SMALL)) as memory:
        await memory.sync("a", many)
        assert sorted(each["flow_name"] for each in await memory.list_flows("a")) == sorted(each.name for each in many)
        assert "flow_17" in [each["flow_name"] for each in await memory.recall("flow_17", "a", top_k=10)]


def _flow(name: str, registry: FlowRegistry, about: str = "do a thing") -> Flow:
    return Flow(
        name=name,
        description=f"{name}: {about}",
        condition=f"The user wants {name}.",
        desired_effects=[f"{name} is done"],
        examples=[f"{word} {name}" for word in ("do", "please", "start", "run", "make")],
        registry=registry,
    )


async def test_a_registry_is_synced_by_checksum(memory: ProceduralMemory) -> None:
    registry = FlowRegistry()
    first, second = _flow("first", registry), _flow("second", registry)
    assert (await sync_registry(memory, "a", registry)).created == ("first", "second")
    assert (await sync_registry(memory, "a", registry=registry)).skipped == ("first", "second")
    registry.unregister(second)
    registry.register(_flow("first", FlowRegistry(), "do it better"), replace=True)
    report = await sync_registry(memory, "a", registry, dry_run=True)
    assert (report.updated, report.deleted) == (("first",), ("second",))
    assert first.name == "first"


async def test_an_empty_registry_deletes_only_when_told_so(memory: ProceduralMemory) -> None:
    await sync_registry(memory, "a", FlowRegistry())
    await memory.sync("a", CARDS)
    with pytest.raises(ConfigError, match=r"delete all 4 flows.*registry=…"):
        await sync_registry(memory, "a", FlowRegistry())
    assert len(await memory.list_flows("a")) == len(CARDS)
    assert set((await sync_registry(memory, "a", FlowRegistry(), dry_run=True)).deleted) == set(NAMES)
    assert set((await sync_registry(memory, "a", FlowRegistry(), allow_empty=True)).deleted) == set(NAMES)


async def test_what_is_no_registry_is_refused(memory: ProceduralMemory) -> None:
    with pytest.raises(ConfigError, match="registry must be a FlowRegistry"):
        await sync_registry(memory, "a", [_flow("first", FlowRegistry())])  # pyright: ignore[reportArgumentType]


async def test_the_default_scope_is_synced_when_none_is_named(memory: ProceduralMemory) -> None:
    report = await sync_registry(memory, agent_id="a")
    assert set(report.created) == {flow.name for flow in BaseFlow.registry.values()}


async def test_a_change_of_the_embedder_indexes_anew(tmp_path: Path) -> None:
    async with await ProceduralMemory.open(tmp_path, embedder=HashEmbedder(64)) as memory:
        await memory.sync("a", CARDS)
    async with await ProceduralMemory.open(tmp_path, embedder=HashEmbedder(32)) as memory:
        report = await memory.sync("a", CARDS)
        assert (report.created, report.deleted) == (NAMES, ())
        assert (await memory.recall("money back", "a"))[0]["flow_name"] == "refund_order"
    async with await ProceduralMemory.open(tmp_path, embedder=HashEmbedder(64)) as memory:
        with pytest.raises(EmbedderMismatchError, match="hash:32"):  # the old vectors are gone
            await memory.list_flows("a")
