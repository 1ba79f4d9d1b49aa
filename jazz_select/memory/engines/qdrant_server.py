"""The `FlowStore` on a Qdrant server."""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any, TypeVar

import orjson
from qdrant_client import AsyncQdrantClient
from qdrant_client import models as qm
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, stop_after_delay, wait_random_exponential

from jazz_select.errors import JazzSelectError, StoreUnavailableError
from jazz_select.memory.engines.qdrant_wire import Sample, Wire
from jazz_select.memory.engines.server_address import ServerAddress, hide_credentials
from jazz_select.memory.engines.server_errors import (
    describe_refusal,
    is_gone,
    is_of_grpc_alone,
    is_passing,
    is_too_large,
)
from jazz_select.memory.engines.server_queries import (
    payload_of,
    retrieve,
    server_filter,
    server_requests,
    to_legs,
    to_sparse,
)
from jazz_select.memory.engines.stored_points import (
    AGENT,
    NOTE,
    NOTE_OF,
    SPARSE,
    Kept,
    Layout,
    dense_vectors,
    is_layout_key,
    is_of_layout,
    local_key,
    note_in,
    note_key,
    point_id,
    point_key,
    sparse_terms,
    stored_payload,
)
from jazz_select.ports import ArmHits, FlowPoint, HybridQuery, Key
from jazz_select.text import one_line

_log = logging.getLogger(__name__)
_SAMPLE = 16
"""Number of points read over both REST and gRPC, to check that both ports belong to one server."""


_PREFIX = "jazz_flows_"
_PAGE = 1_000

_ATTEMPTS = 3
_BUDGET_S, _GRPC_BUDGET_S = 12.0, 4.0
"""No attempt starts after this many seconds, so a hanging server costs little more than one timeout; over gRPC none
after fewer, since REST may answer."""
_PART_BYTES = 8 << 20
"""Most bytes of one write, about: a server takes 32 MiB, a proxy before it may take less."""
_MOST_IDS = 10_000
"""Most points that one request deletes."""
_FRESH_S = 60.0
"""Seconds for which payloads are cached: as long as everything else that is remembered of an index."""
_T = TypeVar("_T")


def collection_options(dense: Mapping[str, int], *, shards: int | None, replicas: int | None) -> dict[str, Any]:
    """Return the options to create a collection with."""
    return {
        "vectors_config": {name: qm.VectorParams(size=dim, distance=qm.Distance.COSINE) for name, dim in dense.items()},
        "sparse_vectors_config": {SPARSE: qm.SparseVectorParams()},
        # A graph per agent, none over all: requests never cross tenants.
        "hnsw_config": qm.HnswConfigDiff(payload_m=16, m=0),
        "shard_number": shards,
        "replication_factor": replicas,
    }


def to_struct(point: FlowPoint, layout: str) -> qm.PointStruct:
    """Return the point of a flow: its vectors, and the payload that comes back with a hit."""
    vectors: dict[str, Any] = {SPARSE: to_sparse(point.sparse), **dense_vectors(point)}
    key = point_key(point.agent_id, point.flow_id)
    return qm.PointStruct(id=key, vector=vectors, payload=stored_payload(point, layout))


def _size(struct: qm.PointStruct) -> int:
    """Return the bytes of a point as JSON, about."""
    vectors: dict[str, Any] = struct.vector if isinstance(struct.vector, dict) else {}  # pyright: ignore[reportAssignmentType]
    numbers = sum(
        2 * len(each.indices) if isinstance(each, qm.SparseVector) else len(each) for each in vectors.values()
    )
    return _BYTES_OF_NUMBER * numbers + len(orjson.dumps(struct.payload or {}, option=orjson.OPT_NON_STR_KEYS))


_BYTES_OF_NUMBER = 21


def _parts(structs: Sequence[qm.PointStruct], most: int) -> list[list[qm.PointStruct]]:
    """Return the points in groups of at most so many bytes, or of one point."""
    parts: list[list[qm.PointStruct]] = []
    left = 0
    for each in structs:
        size = _size(each)
        if size > left or not parts:
            parts.append([])
            left = most
        parts[-1].append(each)
        left -= size
    return parts


class RemoteStore:
    """A `FlowStore` on Qdrant's client: one collection per layout, `agent_id` as tenant."""

    shared = True

    def __init__(
        self,
        client: AsyncQdrantClient,
        layout: Layout,
        *,
        where: ServerAddress | str = "the server",
        shards: int | None = None,
        replicas: int | None = None,
        wire: Wire | None = None,
    ) -> None:
        """Use this client; nothing is sent before the first call.

        `where` names the server in error messages; `shards` and `replicas` apply when the first write creates the
        collection. Recall goes over `wire` where that works.
        """
        self._client = client
        address = where if isinstance(where, ServerAddress) else None
        self._where = address.url if address else hide_credentials(str(where))
        self._secrets = address.secrets if address else ()
        self.caveat = address.caveat if address else ""
        """What users should know of the connection; empty if nothing."""
        self._layout = layout
        self._collection = _PREFIX + layout.key
        self._options = collection_options(layout.dense, shards=shards, replicas=replicas)
        self._wire = wire
        self._kept = Kept(_FRESH_S)
        self._exists = False
        self._is_ready = False
        self._part_bytes = _PART_BYTES

    def key(self, agent_id: str, flow_id: str) -> Key:
        """Return the key of a flow."""
        return point_key(agent_id, flow_id)

    async def payloads(self, agent_id: str) -> dict[Key, dict[str, Any]]:
        """Return all payloads of this agent."""
        return await self._or_gone(lambda: self._scroll(self._collection, agent_id), gone=dict[Key, dict[str, Any]])

    async def count(self, agent_id: str) -> int:
        """Return the number of this agent's flows."""

        async def ask() -> int:
            mine = server_filter(agent_id)
            return (await self._client.count(self._collection, count_filter=mine, exact=True)).count

        return await self._or_gone(lambda: self._call(ask), gone=int)

    async def terms(self, agent_id: str, limit: int) -> list[tuple[int, ...]]:
        """Return the token ids of each flow."""

        async def ask() -> list[tuple[int, ...]]:
            found = await self._records(self._collection, agent_id, limit, vectors=True)
            return [sparse_terms(record.vector) for record in found[:limit]]

        return await self._or_gone(ask, gone=list[tuple[int, ...]])

    async def upsert(self, points: Sequence[FlowPoint]) -> None:
        """Write and wait until the server has applied it."""
        if points:
            await self._write([to_struct(point, str(self._layout)) for point in points])

    async def delete(self, agent_id: str, keys: Collection[Key]) -> None:  # noqa: ARG002 - keys say whose they are
        """Remove and wait until the server has applied it."""
        if keys and await self._has_collection():
            await self._delete(self._collection, keys)

    async def search(self, queries: Sequence[HybridQuery]) -> list[ArmHits]:
        """Search the vectors of all queries in one request; an agent's first search caches the payloads of its hits."""
        nothing = [ArmHits(dense={}, bm25={}, payloads={}) for _ in queries]
        if not any(query.arms for query in queries) or not await self._has_collection():
            return nothing
        kept = self._kept = self._kept.current()
        along = not all(query.agent_id in kept.agents for query in queries)

        async def over_rest() -> list[ArmHits]:
            requests: list[qm.QueryRequest] = []
            for query in queries:
                requests.extend(server_requests(query, payloads=along))
            # The client's own `query_batch_points` first copies each request deeply, to look for texts to embed.
            ask_all = self._client.http.search_api.query_batch_points
            batch = qm.QueryRequestBatch(searches=requests)
            response = await ask_all(self._collection, query_request_batch=batch)
            answers = iter(response.result or ())
            read = payload_of if along else None
            found: list[ArmHits] = []
            for query in queries:
                hits = {arm: next(answers).points for arm in query.arms}
                found.append(to_legs(hits, local_key, read))
            return found

        def over_grpc(wire: Wire) -> Awaitable[list[ArmHits]]:
            return wire.search(self._collection, queries, payloads=along)

        found = await self._or_gone(lambda: self._recall(over_grpc, over_rest), gone=lambda: nothing)
        if not along:
            return [replace(legs, payloads=kept.cached_payloads((*legs.dense, *legs.bm25))) for legs in found]
        kept.known.update({key: dict(each) for legs in found for key, each in legs.payloads.items()})
        kept.agents.update(query.agent_id for query in queries)
        return found

    async def retrieve(self, keys: Collection[Key]) -> dict[Key, dict[str, Any]]:
        """Return payloads by key."""
        if not keys or not await self._has_collection():
            return {}
        kept = self._kept = self._kept.current()

        def over_grpc(wire: Wire) -> Awaitable[dict[Key, dict[str, Any]]]:
            return wire.retrieve(self._collection, keys)

        over_rest = partial(retrieve, self._client, self._collection, keys)
        found = await self._or_gone(lambda: self._recall(over_grpc, over_rest), gone=dict[Key, dict[str, Any]])
        kept.known.update(found)
        return found

    @property
    def asked_over(self) -> str:
        """REST or gRPC, and what it costs; empty before the first recall."""
        return self._wire.status if self._wire else ""

    async def _working_wire(self) -> Wire | None:
        async def read_sample() -> Sample:
            page = partial(self._client.scroll, self._collection, limit=_SAMPLE, with_payload=True)
            records, _ = await self._call(page)
            return {local_key(record.id): payload_of(record) for record in records}

        return self._wire if self._wire and await self._wire.works(self._collection, read_sample) else None

    async def _recall(self, over_grpc: Callable[[Wire], Awaitable[_T]], over_rest: Callable[[], Awaitable[_T]]) -> _T:
        """Ask over gRPC where that works, and over REST where it does not, or fails by itself."""
        wire = await self._working_wire()
        if wire is None:
            return await self._call(over_rest)
        try:
            return await self._call(lambda: over_grpc(wire), budget_s=_GRPC_BUDGET_S)
        except StoreUnavailableError as error:
            if not is_of_grpc_alone(error.__cause__):
                raise
            found = await self._call(over_rest)  # where this fails too, the server is away, and gRPC no worse than REST
            wire.lose(error.problem)
            return found

    async def read_note(self, agent_id: str) -> dict[str, Any] | None:
        """Return the agent's note, if any."""
        found = await self.retrieve([note_key(agent_id)])
        return next((note_in(payload, agent_id) for payload in found.values()), None)

    async def write_note(self, agent_id: str, note: Mapping[str, Any]) -> None:
        """Write and wait until the server has applied it."""
        payload = {NOTE_OF: agent_id, NOTE: dict(note)}
        await self._write([qm.PointStruct(id=note_key(agent_id), vector={}, payload=payload)])

    async def elsewhere(self, agent_id: str) -> list[dict[str, Any]]:
        """Return the agent's payloads in our other collections."""
        found: list[dict[str, Any]] = []
        for name in await self._other_collections():
            found += (await self._own_points(name, agent_id)).values()
        return found

    async def forget_other_layouts(self, agent_id: str) -> None:
        """Remove this agent's flows from other layouts. Empty collections stay: another agent may be about to write."""
        for name in await self._other_collections():
            own = [*await self._own_points(name, agent_id)]
            if own:
                noted = await self._call(partial(retrieve, self._client, name, [note_key(agent_id)]))
                own += [key for key, payload in noted.items() if note_in(payload, agent_id) is not None]
                await self._delete(name, own)

    async def close(self) -> None:
        """Close the connections; a second call does nothing."""
        if self._wire:
            await self._wire.close()
        await self._client.close()

    async def _write(self, structs: Sequence[qm.PointStruct]) -> None:
        """Write points in requests of a bounded size, and in smaller ones where the server takes less."""
        await self._ensure_collection()
        parts = _parts(structs, self._part_bytes)
        parts.reverse()
        while parts:
            part = parts.pop()
            try:
                await self._write_part(part)
            except StoreUnavailableError as error:
                if not is_too_large(error.__cause__):
                    raise
                if len(part) == 1:
                    raise self._too_large(part[0], error) from error.__cause__
                self._part_bytes = max(1, sum(map(_size, part)) // 2)
                half = len(part) // 2
                parts += [part[half:], part[:half]]

    def _too_large(self, point: qm.PointStruct, error: StoreUnavailableError) -> StoreUnavailableError:
        payload = point.payload or {}
        name = one_line(payload.get("flow_name") or payload.get(NOTE_OF) or point.id)
        what = "what was learned for agent" if NOTE_OF in payload else "flow"
        problem = f"{error.problem} ({what} {name!r} alone takes about {_size(point):,} bytes)"
        return StoreUnavailableError(self._where, problem, advice=error.advice)

    async def _write_part(self, structs: list[qm.PointStruct]) -> None:
        async def send() -> None:
            try:
                await self._client.upsert(self._collection, points=structs, wait=True)
            finally:
                self._kept = Kept(_FRESH_S)

        try:
            await self._call(send)
        except StoreUnavailableError as error:
            if not is_gone(error.__cause__):
                raise
            self._note_gone()
            await self._ensure_collection()
            await self._call(send)

    async def _delete(self, collection: str, keys: Collection[Key]) -> None:
        ids: list[Any] = [point_id(each) for each in keys]
        for start in range(0, len(ids), _MOST_IDS):
            which = qm.PointIdsList(points=ids[start : start + _MOST_IDS])
            try:
                await self._call(partial(self._client.delete, collection, points_selector=which, wait=True))
            finally:
                self._kept = Kept(_FRESH_S)

    async def _has_collection(self) -> bool:
        if not self._exists:
            self._exists = await self._call(lambda: self._client.collection_exists(self._collection))
        return self._exists

    async def _ensure_collection(self) -> None:
        """Create the collection once per process, and again after somebody removed it."""
        if self._is_ready:
            return
        if not await self._has_collection():
            try:
                await self._call(lambda: self._client.create_collection(self._collection, **self._options))
            except StoreUnavailableError:
                if not await self._has_collection():  # else another client created it first
                    raise
        schema = qm.KeywordIndexParams(type=qm.KeywordIndexType.KEYWORD, is_tenant=True)
        await self._call(lambda: self._client.create_payload_index(self._collection, AGENT, schema, wait=True))
        self._exists = self._is_ready = True

    async def _other_collections(self) -> list[str]:
        """Return the collections that may be other layouts of ours. Backups and those of others have other names."""
        found = (await self._call(self._client.get_collections)).collections
        names: list[str] = []
        for each in found:
            is_layout = each.name.startswith(_PREFIX) and is_layout_key(each.name.removeprefix(_PREFIX))
            if is_layout and each.name != self._collection:
                names.append(each.name)
        return sorted(names)

    async def _own_points(self, collection: str, agent_id: str) -> dict[Key, dict[str, Any]]:
        """Return the points of an agent in another collection that are of our layout, by their own word."""
        key = collection.removeprefix(_PREFIX)
        found = await self._scroll(collection, agent_id)
        return {at: payload for at, payload in found.items() if is_of_layout(payload, key)}

    async def _scroll(self, collection: str, agent_id: str) -> dict[Key, dict[str, Any]]:
        return {local_key(record.id): payload_of(record) for record in await self._records(collection, agent_id)}

    async def _records(
        self, collection: str, agent_id: str, most: float = inf, *, vectors: bool = False
    ) -> list[qm.Record]:
        """Return the points of the lowest keys, at least `most` if there are: with payloads, or sparse vectors."""
        mine = server_filter(agent_id)
        found: list[qm.Record] = []
        offset: Any = None
        while True:
            page = partial(
                self._client.scroll,
                collection,
                scroll_filter=mine,
                limit=_PAGE,
                offset=offset,
                with_payload=not vectors,
                with_vectors=[SPARSE] if vectors else False,
            )
            records, offset = await self._call(page)
            found += records
            if offset is None or len(found) >= most:
                return found

    async def _or_gone(self, ask: Callable[[], Awaitable[_T]], *, gone: Callable[[], _T]) -> _T:
        """Return what `ask` does, or `gone()` where the collection does not exist."""
        if not await self._has_collection():
            return gone()
        try:
            return await ask()
        except StoreUnavailableError as error:
            if not is_gone(error.__cause__):
                raise
            self._note_gone()
            return gone()

    def _note_gone(self) -> None:
        if self._exists:
            _log.warning(
                "server=<%s>, collection=<%s> | the collection is gone: somebody deleted it, and its flows with it",
                self._where,
                self._collection,
            )
        self._exists = self._is_ready = False
        self._kept = Kept(_FRESH_S)

    async def _call(self, send: Callable[[], Awaitable[_T]], *, budget_s: float = _BUDGET_S) -> _T:
        """Send with retries; every call here is idempotent.

        Raises:
            StoreUnavailableError: The server did not answer, refused, or answered what cannot be read.
        """
        try:
            async for attempt in AsyncRetrying(
                stop=stop_after_attempt(_ATTEMPTS) | stop_after_delay(budget_s),
                wait=wait_random_exponential(multiplier=0.1, max=0.5),
                retry=retry_if_exception(is_passing),
                reraise=True,
            ):
                with attempt:
                    return await send()
        except JazzSelectError:
            raise
        except Exception as error:
            problem, advice = describe_refusal(error, secrets=self._secrets)
            raise StoreUnavailableError(self._where, problem, advice=advice) from error
        raise AssertionError  # pragma: no cover - the last attempt returns or raises
