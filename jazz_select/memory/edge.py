"""Flows in Qdrant Edge: the engine in this process, its data in a folder, nothing else to run."""

import asyncio
import shutil
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any
from uuid import uuid4

import qdrant_edge as qe

from jazz_select.errors import IndexUnusableError
from jazz_select.memory.folder import IndexFolder
from jazz_select.memory.layout import Layout
from jazz_select.memory.points import AGENT, DENSE, FINGERPRINT, LAYOUT, SPARSE, point_id, to_hits
from jazz_select.ports import FlowPoint, Hit, HybridQuery, SparseVector

_PAGE = 1_000
_THREAD_FROM = 20_000
"""From this many flows on a search takes long enough (about 2 ms) to be worth a thread."""


class EdgeStore:
    """A `FlowStore` on an embedded shard: one folder per layout, one writer."""

    def __init__(self, path: Path, layout: Layout) -> None:
        """Open the folder; the shard itself is made by the first write.

        Raises:
            IndexLockedError: The folder is open elsewhere.
            IndexUnusableError: It is corrupt, not writable, or no index.
        """
        self._folder = IndexFolder(path.expanduser())
        self._layout = layout
        self._writing = Lock()
        self._closed = False
        self._size = 0
        self._only_agent: str | None = None
        self._shard: qe.EdgeShard | None = None
        try:
            if self._folder.layout(layout.key).is_dir():
                self._shard = self._load(layout.key)
                self._take_stock()
        except BaseException:
            self._folder.close()
            raise

    async def fingerprints(self, agent_id: str) -> dict[str, str]:
        """Flow id to fingerprint."""
        return {payload["flow_id"]: payload[FINGERPRINT] for payload in await self.payloads(agent_id)}

    async def payloads(self, agent_id: str) -> list[dict[str, Any]]:
        """All payloads of this agent."""
        if self._shard is None:
            return []
        return await asyncio.to_thread(lambda: list(_scroll(self._open(), agent_id)))

    async def upsert(self, points: Sequence[FlowPoint]) -> None:
        """Write and flush."""
        if points:
            await asyncio.to_thread(self._upsert, points)

    async def delete(self, agent_id: str, flow_ids: Collection[str]) -> None:
        """Remove and flush."""
        if flow_ids and self._shard is not None:
            await asyncio.to_thread(self._delete, agent_id, flow_ids)

    async def search(self, query: HybridQuery) -> tuple[Hit, ...]:
        """Fused list and both arms, planned by the engine as one batch."""
        if self._shard is None:
            return ()
        if self._size < _THREAD_FROM:
            return self._search(query)
        return await asyncio.to_thread(self._search, query)

    async def other_layouts(self, agent_id: str) -> dict[str, int]:
        """Layouts in the same folder that hold flows of this agent."""
        return await asyncio.to_thread(self._other_layouts, agent_id)

    async def forget_other_layouts(self, agent_id: str) -> None:
        """Remove this agent's flows from them, and those that are empty then."""
        await asyncio.to_thread(self._forget_other_layouts, agent_id)

    async def close(self) -> None:
        """Flush, close the shard and unlock the folder."""
        with self._writing:
            if self._closed:
                return
            self._closed = True
            if self._shard is not None:
                self._shard.close()
            self._folder.close()

    def _open(self) -> qe.EdgeShard:
        if self._closed or self._shard is None:
            raise IndexUnusableError(str(self._folder.path), "it is closed", advice="Open the memory again.")
        return self._shard

    def _upsert(self, points: Sequence[FlowPoint]) -> None:
        with self._writing:
            if self._shard is None:
                self._shard = self._create()
            shard = self._open()
            if any(point.agent_id != self._only_agent for point in points):
                self._only_agent = None  # before the write: no search may see a second agent unfiltered
            with self._engine_errors():
                shard.update(
                    qe.UpdateOperation.upsert_points([_to_point(point, str(self._layout)) for point in points])
                )
                shard.flush()
            self._take_stock()

    def _delete(self, agent_id: str, flow_ids: Collection[str]) -> None:
        with self._writing, self._engine_errors():
            shard = self._open()
            shard.update(qe.UpdateOperation.delete_points([point_id(agent_id, each) for each in flow_ids]))
            shard.flush()
            self._take_stock()

    def _take_stock(self) -> None:
        """With one agent in the shard no query needs a filter, which halves its time."""
        shard = self._open()
        self._size = shard.count(qe.CountRequest(exact=True))
        agents = shard.facet(qe.FacetRequest(key=AGENT, limit=2, exact=True)).hits
        self._only_agent = str(agents[0].value) if len(agents) == 1 else None

    def _search(self, query: HybridQuery) -> tuple[Hit, ...]:
        shard = self._open()
        mine = _filter(query) if query.exclude or query.agent_id != self._only_agent else None
        with self._engine_errors():
            fused, *legs = shard.query_batch(qe.QueryBatchRequest(_requests(query, mine)))
        return to_hits(fused, dict(zip(query.arms, legs, strict=True)))

    def _create(self) -> qe.EdgeShard:
        """Make the shard beside its place and move it there whole, so that no crash leaves half a shard."""
        home = self._folder.layout(self._layout.key)
        draft = home.with_name(f"{home.name}.{uuid4().hex[:8]}")
        with self._engine_errors():
            shard = qe.EdgeShard.create(str(draft), _shard_config(self._layout.dim))
            shard.update(qe.UpdateOperation.create_field_index(AGENT, qe.PayloadSchemaType.Keyword))
            shard.flush()
            shard.close()
        draft.rename(home)
        for leftover in home.parent.glob("*.*"):
            shutil.rmtree(leftover, ignore_errors=True)
        return self._load(self._layout.key)

    def _load(self, key: str) -> qe.EdgeShard:
        with self._engine_errors():
            return qe.EdgeShard.load(str(self._folder.layout(key)))

    def _other_layouts(self, agent_id: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for _, shard in self._others():
            payloads = list(_scroll(shard, agent_id))
            if payloads:
                found[str(payloads[0].get(LAYOUT, "an unknown embedder"))] = len(payloads)
        return found

    def _forget_other_layouts(self, agent_id: str) -> None:
        with self._writing:
            for key, shard in self._others():
                shard.update(qe.UpdateOperation.delete_points_by_filter(_agent_filter(agent_id)))
                shard.flush()
                if shard.count(qe.CountRequest(exact=True)) == 0:
                    shard.close()
                    shutil.rmtree(self._folder.layout(key), ignore_errors=True)

    def _others(self) -> Iterator[tuple[str, qe.EdgeShard]]:
        for key in self._folder.layouts():
            if key != self._layout.key:
                shard = self._load(key)
                try:
                    yield key, shard
                finally:
                    shard.close()

    @contextmanager
    def _engine_errors(self) -> Generator[None]:
        """The engine raises bare `Exception`s, and panics as `BaseException`s; both mean that the data is unusable."""
        try:
            yield
        except Exception as error:
            raise self._unusable(error) from error
        except BaseException as error:
            if type(error).__name__ != "PanicException":
                raise
            raise self._unusable(error) from error

    def _unusable(self, error: BaseException) -> IndexUnusableError:
        advice = (
            "Flows live in your code: delete the folder and run sync_registry (jazz-select sync) to build it again."
        )
        return IndexUnusableError(str(self._folder.path), f"the engine says: {error}", advice=advice)


def _shard_config(dim: int) -> qe.EdgeConfig:
    return qe.EdgeConfig(
        vectors={DENSE: qe.EdgeVectorParams(size=dim, distance=qe.Distance.Cosine)},
        sparse_vectors={SPARSE: qe.EdgeSparseVectorParams(modifier=qe.Modifier.Idf)},
    )


def _to_point(point: FlowPoint, layout: str) -> qe.Point:
    vectors: dict[str, Any] = {SPARSE: _to_sparse(point.sparse)}
    if point.dense is not None:
        vectors[DENSE] = list(point.dense)
    payload = {**point.payload, AGENT: point.agent_id, FINGERPRINT: point.fingerprint, LAYOUT: layout}
    return qe.Point(point_id(point.agent_id, point.flow_id), vectors, payload)


def _to_sparse(vector: SparseVector) -> qe.SparseVector:
    return qe.SparseVector(indices=list(vector.indices), values=list(vector.values))


def _requests(query: HybridQuery, mine: qe.Filter | None) -> list[qe.QueryRequest]:
    # Rarity of a word is counted among this agent's flows alone, as it would be if the others were not there.
    idf = None if mine is None else qe.SearchParams(idf=qe.IdfParams(corpus=_agent_filter(query.agent_id)))
    arms: list[tuple[qe.Query, qe.SearchParams | None]] = []
    if query.dense is not None:
        arms.append((qe.Query.Nearest(list(query.dense), using=DENSE), None))
    if query.sparse is not None:
        arms.append((qe.Query.Nearest(_to_sparse(query.sparse), using=SPARSE), idf))
    rrf: Any = qe.Fusion.Rrf(k=query.rrf_k)  # the engine's stubs miss that this is a Fusion
    fused = qe.QueryRequest(
        limit=query.limit,
        query=rrf,
        prefetches=[qe.Prefetch(limit=query.depth, query=arm, filter=mine, params=params) for arm, params in arms],
        with_payload=True,
    )
    return [fused, *(qe.QueryRequest(limit=query.depth, query=arm, filter=mine, params=params) for arm, params in arms)]


def _agent_filter(agent_id: str) -> qe.Filter:
    return qe.Filter(must=[qe.FieldCondition(key=AGENT, match=qe.MatchValue(agent_id))])


def _filter(query: HybridQuery) -> qe.Filter:
    if not query.exclude:
        return _agent_filter(query.agent_id)
    excluded: set[qe.PointId] = {point_id(query.agent_id, flow_id) for flow_id in query.exclude}
    mine = qe.FieldCondition(key=AGENT, match=qe.MatchValue(query.agent_id))
    return qe.Filter(must=[mine], must_not=[qe.HasIdCondition(excluded)])


def _scroll(shard: qe.EdgeShard, agent_id: str) -> Iterator[dict[str, Any]]:
    offset: Any = None
    while True:
        records, offset = shard.scroll(
            qe.ScrollRequest(offset=offset, limit=_PAGE, filter=_agent_filter(agent_id), with_payload=True)
        )
        yield from (record.payload or {} for record in records)
        if offset is None:
            return
