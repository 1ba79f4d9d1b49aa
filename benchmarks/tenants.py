"""What a sync, a recall and memory cost as tenants and flows grow, each tenant with flows of names of its own.

`synced` tenants are written by `sync_registry`, as a service does, to an index server in a process of its own: an
installed Qdrant where `QDRANT_BIN` names one, else the stand-in of `benchmarks.edge_server`, which holds each point
twice, in Python and in Qdrant Edge.

`simulated` tenants are written straight to an index of Qdrant Edge, which this process then opens and asks. The flows
of the first are embedded and fitted by a real sync; all others have the same vectors and the same note of their fit,
under names of their own. So what a sync of a million flows would take is not measured there, and is told by the synced
rows; how large an index becomes, what it holds of memory, and how soon a tenant finds its flows among those of all
others is measured.
"""

import asyncio
import multiprocessing
import os
import random
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

import qdrant_edge as qe

from benchmarks import rows
from benchmarks.local_cluster import index_server, qdrant_program
from benchmarks.machine import resident_mb
from jazz_select import Flow, FlowRegistry, ProceduralMemory, sync_registry
from jazz_select.memory.encoder import Encoder, Lexical
from jazz_select.memory.engines.edge import EdgeStore
from jazz_select.memory.engines.stored_points import NOTE, NOTE_OF, note_key
from jazz_select.ports import FlowPoint
from jazz_select.testing import HashEmbedder
from jazz_select.threads import in_thread

_RECALLS: Final = 300
_AGAIN: Final = 50
"""Of the last recalls so many are repeated: by then all that is kept of their tenants is in memory."""
_AT_ONCE: Final = 10_000
"""Points in one write of a simulation."""
_NOTES_AT_ONCE: Final = 50
_WORDS: Final = ("order", "parcel", "account", "refund", "invoice", "address", "visit", "doctor", "seat", "ticket")


def tenant_id(tenant: int) -> str:
    """Return the agent id of a tenant."""
    return f"tenant-{tenant}"


def flow_name(tenant: int, number: int) -> str:
    """Return the name of a flow, which says whose it is."""
    return f"flow_{number}_of_{tenant_id(tenant)}"


def is_foreign(recalled: Mapping[str, Any], tenant: int) -> bool:
    """Whether a flow that was recalled is another tenant's."""
    return not str(recalled["flow_name"]).endswith(f"_of_{tenant_id(tenant)}")


def registry_of(tenant: int, flows: int) -> FlowRegistry:
    """Return the flows of one tenant, of words that all tenants share."""
    chance, registry = random.Random(tenant), FlowRegistry(min_examples=0)
    for number in range(flows):
        first, second, third = chance.sample(_WORDS, 3)
        Flow(
            name=flow_name(tenant, number),
            description=f"Handles {first} and {second}, case {number}",
            examples=[f"{first} {second} {number}", f"my {third} {number}"],
            registry=registry,
        )
    return registry


class CopiedStore(EdgeStore):
    """An index that remembers what a sync wrote of one tenant, and writes it for others under names of their own."""

    def __init__(self, path: Path, encoder: Encoder) -> None:
        super().__init__(path, encoder.layout)
        self._points: list[FlowPoint] = []
        self._note: Mapping[str, Any] = {}

    async def upsert(self, points: Sequence[FlowPoint]) -> None:
        """Write and remember."""
        self._points += points
        await super().upsert(points)

    async def write_note(self, agent_id: str, note: Mapping[str, Any]) -> None:
        """Write and remember."""
        self._note = note
        await super().write_note(agent_id, note)

    async def copy(self, tenants: int) -> None:
        """Write what the first tenant has for all others."""
        pending: list[FlowPoint] = []
        for tenant in range(1, tenants):
            pending += self._points_of(tenant)
            if len(pending) >= _AT_ONCE:
                await super().upsert(pending)
                pending.clear()
        await super().upsert(pending)
        agents = [tenant_id(tenant) for tenant in range(1, tenants)]
        for at in range(0, len(agents), _NOTES_AT_ONCE):
            # One by one each note would wait for a flush of the whole index.
            points = [self._note_of(agent_id) for agent_id in agents[at : at + _NOTES_AT_ONCE]]
            await in_thread(self._write, qe.UpdateOperation.upsert_points(points))

    def _note_of(self, agent_id: str) -> qe.Point:
        return qe.Point(note_key(agent_id), {}, {NOTE_OF: agent_id, NOTE: dict(self._note)})

    def _points_of(self, tenant: int) -> list[FlowPoint]:
        agent_id = tenant_id(tenant)
        made: list[FlowPoint] = []
        for number, point in enumerate(self._points):
            payload = {**point.payload, "flow_name": flow_name(tenant, number)}
            made.append(replace(point, agent_id=agent_id, payload=payload))
        return made


async def synced(tenants: int, flows: int) -> rows.Row:
    """Sync so many tenants into the index of a server, and recall from it."""
    with TemporaryDirectory() as name, index_server(Path(name)) as server:
        opening = ProceduralMemory.open(url=server.url, grpc_port=server.grpc_port, embedder=HashEmbedder())
        async with await opening as memory:
            before_mb, server_before_mb = resident_mb(os.getpid()), resident_mb(server.pid)
            began = perf_counter()
            for tenant in range(tenants):
                await sync_registry(memory, tenant_id(tenant), registry_of(tenant, flows))
            written_s = perf_counter() - began
            recalled = await _recalled(memory, tenants, flows)
            return {
                **_row("synced", "Qdrant" if qdrant_program() else "stand-in", tenants, flows, written_s),
                **recalled,
                "memory_mb": round(resident_mb(os.getpid()) - before_mb, 1),
                "index_mb": round(resident_mb(server.pid) - server_before_mb, 1),
            }


async def simulated(tenants: int, flows: int) -> rows.Row:
    """Write so many tenants straight to an index, and recall from it: what wrote it has ended by then."""
    with TemporaryDirectory() as name:
        folder = Path(name) / "index"
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            written_s = pool.submit(write_copies, folder, tenants, flows).result()
        before_mb = resident_mb(os.getpid())
        async with await ProceduralMemory.open(folder, embedder=HashEmbedder()) as memory:
            recalled = await _recalled(memory, tenants, flows)
            return {
                **_row("simulated", "Qdrant Edge", tenants, flows, written_s),
                **recalled,
                "index_mb": round(resident_mb(os.getpid()) - before_mb, 1),
                "disk_mb": round(_on_disk(folder) / 1e6, 1),
            }


def write_copies(folder: Path, tenants: int, flows: int) -> float:
    """Sync the first tenant, copy it for all others, and return the seconds that the copies took."""

    async def write() -> float:
        encoder = Encoder(HashEmbedder(), Lexical("english"))
        store = CopiedStore(folder, encoder)
        async with ProceduralMemory(store, encoder) as memory:
            await sync_registry(memory, tenant_id(0), registry_of(0, flows))
            began = perf_counter()
            await store.copy(tenants)
            return perf_counter() - began

    return asyncio.run(write())


def _row(question: str, index: str, tenants: int, flows: int, written_s: float) -> rows.Row:
    return {
        "question": question,
        "replicas": 0,
        "tenants": tenants,
        "flows": flows,
        "index": index,
        "written_s": round(written_s, 2),
        "written_ms_of_a_flow": round(written_s / tenants / flows * 1_000, 3),
    }


async def _recalled(memory: ProceduralMemory, tenants: int, flows: int) -> rows.Row:
    """Recall for tenants by chance: each first, when nothing of most is in memory, and the last of them again."""
    chance = random.Random(7)
    asked = [(chance.randrange(tenants), chance.randrange(flows)) for _ in range(_RECALLS)]
    foreign, found = 0, 0

    async def took_ms(tenant: int, number: int) -> float:
        nonlocal foreign, found
        began = perf_counter()
        recalled = await memory.recall(f"my order {number}", tenant_id(tenant))
        passed_ms = (perf_counter() - began) * 1_000
        found += bool(recalled)
        foreign += sum(is_foreign(each, tenant) for each in recalled)
        return passed_ms

    await took_ms(*asked[0])
    first = [await took_ms(*each) for each in asked]
    again = [await took_ms(*each) for _ in range(_RECALLS // _AGAIN) for each in asked[-_AGAIN:]]
    return {
        "recalls": len(first) + len(again) + 1,
        "found": found,
        "foreign": foreign,
        "first_p50_ms": round(median(first), 2),
        "first_p99_ms": round(quantiles(first, n=100)[98], 2),
        "p50_ms": round(median(again), 2),
        "p99_ms": round(quantiles(again, n=100)[98], 2),
    }


def _on_disk(folder: Path) -> int:
    """Bytes that are really taken; an engine's files have holes."""
    return sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file())
