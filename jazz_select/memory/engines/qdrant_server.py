"""The `FlowStore` on a Qdrant server."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import grpc
import grpc.aio
import httpx
from qdrant_client import AsyncQdrantClient
from qdrant_client import grpc as qg
from qdrant_client import models as qm
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.conversions.conversion import grpc_to_payload
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, stop_after_delay, wait_random_exponential

from jazz_select.errors import ConfigError, JazzSelectError, StoreUnavailableError
from jazz_select.memory.engines.stored_points import (
    AGENT,
    NOTE,
    NOTE_OF,
    SPARSE,
    Kept,
    Layout,
    arms_of,
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
from jazz_select.ports import FlowPoint, HybridQuery, Key, Legs, SparseVector
from jazz_select.text import describe_error

_log = logging.getLogger(__name__)
REST_PORT = 6333
_TIMEOUT_S = 10
_PROBE_S, _GUESS_S = 2.0, 0.5
"""Timeouts of the probe for gRPC: of a configured port, and of a guessed one."""
_SAMPLE = 16
"""Number of points read over both REST and gRPC, to check that both ports belong to one server."""
_SLOWER = "a recall over REST takes longer than over gRPC; set grpc_port (JAZZ_GRPC_PORT), or 0 for REST alone"
Sample = Mapping[Key, Mapping[str, Any]]
_OPTIONS = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1))


class Wire:
    """The gRPC side of one server, with a channel per event loop."""

    def __init__(self, url: str, *, port: int | None, api_key: str | None = None) -> None:
        """Set up for the host of this url (`https`: with TLS); nothing is sent yet.

        `port` 0: never use gRPC; None: try the port after that of REST.
        """
        parts = urlsplit(url if "//" in url else f"//{url}")
        self._port = (parts.port or REST_PORT) + 1 if port is None else port
        self._probe_s = _GUESS_S if port is None else _PROBE_S
        self._target = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        self._tls = parts.scheme == "https"
        self._metadata = (("api-key", api_key),) if api_key else None
        self.status = ""
        """Which protocol is in use and what it costs; empty until known."""
        self._works: bool | None = None
        if not (self._port and self._target):
            self._works, self.status = False, "REST, as grpc_port says"
        self._channels: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[grpc.aio.Channel, Any]]
        self._channels = WeakKeyDictionary()

    async def works(self, collection: str, read_sample: Callable[[], Awaitable[Sample]]) -> bool:
        """Whether this port belongs to the server of the REST side. Decided once, and logged if not.

        It must return the same points as `read_sample` over REST: another server may have a collection of the same
        name. An empty sample decides nothing.
        """
        if self._works is None:
            sample, why = await read_sample(), "another server answers there"
            if not sample:
                return False
            try:
                works = await self.retrieve(collection, sample, timeout_s=self._probe_s) == sample
            except Exception as error:  # noqa: BLE001 - any program may listen there
                works, why = False, describe_error(error)
            place = f"{self._target}:{self._port}"
            if self._works is None:  # the first of several concurrent probes decides
                self._works = works
                self.status = f"gRPC at {place}" if works else f"REST, since gRPC at {place} failed ({why}): {_SLOWER}"
                if not works:
                    _log.warning("grpc=<%s>, reason=<%s> | the server is asked over REST: %s", place, why, _SLOWER)
        return self._works

    async def search(self, collection: str, queries: Sequence[HybridQuery], *, payloads: bool) -> list[Legs]:
        """Search the vectors of all queries in one request; `payloads`: return those of all hits too."""
        points = [each for query in queries for each in to_protobuf(collection, query, payloads=payloads)]
        request = qg.QueryBatchPoints(collection_name=collection, query_points=points)
        _, stub = self._open()
        answer = await stub.QueryBatch(request, timeout=_TIMEOUT_S, metadata=self._metadata)
        found = iter(answer.result)
        read = _grpc_payload if payloads else None
        return [_to_legs({arm: next(found).result for arm in query.arms}, _key, read) for query in queries]

    async def retrieve(
        self, collection: str, keys: Collection[Key], *, timeout_s: float = _TIMEOUT_S
    ) -> dict[Key, dict[str, Any]]:
        """Return payloads by key."""
        request = qg.GetPoints(
            collection_name=collection,
            ids=[_to_id(key) for key in keys],
            with_payload=qg.WithPayloadSelector(enable=True),
            with_vectors=qg.WithVectorsSelector(enable=False),
        )
        _, stub = self._open()
        answer = await stub.Get(request, timeout=timeout_s, metadata=self._metadata)
        return {_key(each.id): _grpc_payload(each) for each in answer.result}

    async def close(self) -> None:
        """Close this loop's channel; a second call does nothing."""
        channel, _ = self._channels.pop(asyncio.get_running_loop(), (None, None))
        if channel is not None:
            await channel.close(grace=_TIMEOUT_S)  # without grace, running calls would be cancelled

    def _open(self) -> tuple[grpc.aio.Channel, Any]:
        loop = asyncio.get_running_loop()
        found = self._channels.get(loop)
        if found is None:
            target = f"{self._target}:{self._port}"
            if self._tls:
                credentials = grpc.ssl_channel_credentials()
                channel = grpc.aio.secure_channel(target, credentials, options=_OPTIONS)
            else:
                channel = grpc.aio.insecure_channel(target, options=_OPTIONS)
            found = self._channels[loop] = (channel, qg.PointsStub(channel))
        return found


def to_protobuf(collection: str, query: HybridQuery, *, payloads: bool) -> Iterable[qg.QueryPoints]:
    """Return one request per vector of the query."""
    mine = _filter(query.agent_id, query.exclude)
    along = qg.WithPayloadSelector(enable=payloads)
    for using, vector in arms_of(query):
        if isinstance(vector, SparseVector):
            asked = qg.VectorInput(sparse=qg.SparseVector(values=vector.values, indices=vector.indices))
        else:
            asked = qg.VectorInput(dense=qg.DenseVector(data=vector))
        yield qg.QueryPoints(
            collection_name=collection,
            query=qg.Query(nearest=asked),
            using=using,
            filter=mine,
            limit=query.depth,
            with_payload=along,
        )


def _to_legs(
    arms: Mapping[str, Sequence[Any]],
    key_of: Callable[[Any], Key],
    payload_of: Callable[[Any], dict[str, Any]] | None,
) -> Legs:
    """Combine a query's hits by arm; without `payload_of` they came without payloads."""
    scores = {arm: {key_of(each.id): each.score for each in hits} for arm, hits in arms.items()}
    found = {key_of(each.id): each for hits in arms.values() for each in hits}
    payloads = {key: payload_of(each) for key, each in found.items()} if payload_of else {}
    return Legs(dense=scores.get("dense", {}), bm25=scores.get("bm25", {}), payloads=payloads)


def _payload(point: Any) -> dict[str, Any]:
    return point.payload or {}


def _grpc_payload(point: Any) -> dict[str, Any]:
    return grpc_to_payload(point.payload)


def _key(point: Any) -> Key:
    return local_key(point.uuid) if point.uuid else point.num


def _to_id(key: Key) -> qg.PointId:
    return qg.PointId(num=key) if key >= 0 else qg.PointId(uuid=str(point_id(key)))


def _filter(agent_id: str, exclude: Sequence[str]) -> qg.Filter:
    mine = qg.Condition(field=qg.FieldCondition(key=AGENT, match=qg.Match(keyword=agent_id)))
    if not exclude:
        return qg.Filter(must=[mine])
    excluded = qg.HasIdCondition(has_id=[_to_id(point_key(agent_id, flow_id)) for flow_id in exclude])
    return qg.Filter(must=[mine], must_not=[qg.Condition(has_id=excluded)])


class _KeptAlive(httpx.AsyncBaseTransport):
    """Reused HTTP connections, a pool per event loop."""

    def __init__(self) -> None:
        self._opened: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[httpx.AsyncBaseTransport, _Open]]
        self._opened = WeakKeyDictionary()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        loop = asyncio.get_running_loop()
        if loop not in self._opened:
            opened = _open_connections()
            self._opened[loop] = (await anext(opened), opened)
        return await self._opened[loop][0].handle_async_request(request)

    async def aclose(self) -> None:
        _, opened = self._opened.pop(asyncio.get_running_loop(), (None, None))
        if opened is not None:
            await opened.aclose()


_Open = AsyncGenerator[httpx.AsyncBaseTransport]


async def _open_connections() -> _Open:
    """Yield a pool that closes with this generator: `asyncio.run` closes all generators before its loop ends."""
    async with httpx.AsyncHTTPTransport(limits=_LIMITS) as connections:
        yield connections


_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=32)
_PREFIX = "jazz_flows_"
_PAGE = 1_000

_ATTEMPTS = 3
_BUDGET_S = 12.0
"""No attempt starts after this many seconds, so a hanging server costs little more than one timeout."""
_NOT_FOUND = 404
_TOO_MANY = 429
_SERVER_FAULT = 500
_PASSING = {"UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "ABORTED", "INTERNAL", "UNKNOWN"}
"""gRPC codes of errors worth a retry."""
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
    vectors: dict[str, Any] = {SPARSE: _to_sparse(point.sparse), **dense_vectors(point)}
    key = point_key(point.agent_id, point.flow_id)
    return qm.PointStruct(id=key, vector=vectors, payload=stored_payload(point, layout))


def server_requests(query: HybridQuery, *, payloads: bool) -> list[qm.QueryRequest]:
    """Return one request per vector of the query."""
    mine = server_filter(query.agent_id, query.exclude)
    return [
        qm.QueryRequest(
            query=_to_sparse(vector) if isinstance(vector, SparseVector) else list(vector),
            using=using,
            filter=mine,
            limit=query.depth,
            with_payload=payloads,
        )
        for using, vector in arms_of(query)
    ]


def server_filter(agent_id: str, exclude: Sequence[str] = ()) -> qm.Filter:
    """Return the filter for this agent's flows, without the excluded ones."""
    mine = qm.FieldCondition(key=AGENT, match=qm.MatchValue(value=agent_id))
    excluded: list[Any] = [point_key(agent_id, flow_id) for flow_id in exclude]
    return qm.Filter(must=[mine], must_not=[qm.HasIdCondition(has_id=excluded)] if excluded else None)


def _to_sparse(vector: SparseVector) -> qm.SparseVector:
    return qm.SparseVector(indices=list(vector.indices), values=list(vector.values))


def connect(url: str, api_key: str | None = None) -> AsyncQdrantClient:
    """Return a client of this server."""
    try:
        return AsyncQdrantClient(
            url=url,
            api_key=api_key,
            timeout=_TIMEOUT_S,
            check_compatibility=False,
            prefer_grpc=False,
            transport=_KeptAlive(),  # by default, the client opens a connection for each call to localhost
        )
    except Exception as error:
        msg = f"url={url!r} or its api_key cannot be used ({error}); a url looks like http://127.0.0.1:6333"
        raise ConfigError(msg) from error


class RemoteStore:
    """A `FlowStore` on Qdrant's client: one collection per layout, `agent_id` as tenant."""

    shared = True

    def __init__(
        self,
        client: AsyncQdrantClient,
        layout: Layout,
        *,
        where: str = "the server",
        shards: int | None = None,
        replicas: int | None = None,
        wire: Wire | None = None,
    ) -> None:
        """Use this client; nothing is sent before the first call.

        `where` names the server in error messages; `shards` and `replicas` apply when the first write creates the
        collection. Recall goes over `wire` where that works.
        """
        self._client = client
        self._where = where
        self._layout = layout
        self._collection = _PREFIX + layout.key
        self._options = collection_options(layout.dense, shards=shards, replicas=replicas)
        self._wire = wire
        self._kept = Kept(_FRESH_S)
        self._exists = False
        self._is_ready = False

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

    async def search(self, queries: Sequence[HybridQuery]) -> list[Legs]:
        """Search the vectors of all queries in one request; an agent's first search caches the payloads of its hits."""
        nothing = [Legs(dense={}, bm25={}, payloads={}) for _ in queries]
        if not any(query.arms for query in queries) or not await self._has_collection():
            return nothing
        kept = self._kept = self._kept.current()
        along = not all(query.agent_id in kept.agents for query in queries)
        wire = await self._working_wire()

        async def ask() -> list[Legs]:
            if wire:
                return await wire.search(self._collection, queries, payloads=along)
            requests = [request for query in queries for request in server_requests(query, payloads=along)]
            # The client's own `query_batch_points` first copies each request deeply, to look for texts to embed.
            ask_all = self._client.http.search_api.query_batch_points
            batch = qm.QueryRequestBatch(searches=requests)
            answers = iter((await ask_all(self._collection, query_request_batch=batch)).result or ())
            read = _payload if along else None
            return [_to_legs({arm: next(answers).points for arm in query.arms}, local_key, read) for query in queries]

        found = await self._or_gone(lambda: self._call(ask), gone=lambda: nothing)
        if not along:
            return [replace(legs, payloads=kept.of((*legs.dense, *legs.bm25))) for legs in found]
        kept.known.update({key: dict(each) for legs in found for key, each in legs.payloads.items()})
        kept.agents.update(query.agent_id for query in queries)
        return found

    async def retrieve(self, keys: Collection[Key]) -> dict[Key, dict[str, Any]]:
        """Return payloads by key."""
        if not keys or not await self._has_collection():
            return {}
        kept = self._kept = self._kept.current()
        wire = await self._working_wire()
        retrieve = wire.retrieve if wire else self._retrieve
        ask = partial(retrieve, self._collection, keys)
        found = await self._or_gone(lambda: self._call(ask), gone=dict[Key, dict[str, Any]])
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
            return {local_key(record.id): _payload(record) for record in records}

        return self._wire if self._wire and await self._wire.works(self._collection, read_sample) else None

    async def _retrieve(self, collection: str, keys: Collection[Key]) -> dict[Key, dict[str, Any]]:
        ids: list[Any] = [point_id(each) for each in keys]
        found = await self._client.retrieve(collection, ids=ids, with_payload=True)
        return {local_key(record.id): _payload(record) for record in found}

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
                noted = await self._call(partial(self._retrieve, name, [note_key(agent_id)]))
                own += [key for key, payload in noted.items() if note_in(payload, agent_id) is not None]
                await self._delete(name, own)

    async def close(self) -> None:
        """Close the connections; a second call does nothing."""
        if self._wire:
            await self._wire.close()
        await self._client.close()

    async def _write(self, structs: list[qm.PointStruct]) -> None:
        await self._ensure_collection()

        async def send() -> None:
            try:
                await self._client.upsert(self._collection, points=structs, wait=True)
            finally:
                self._kept = Kept(_FRESH_S)

        try:
            await self._call(send)
        except StoreUnavailableError as error:
            if not _is_gone(error.__cause__):
                raise
            self._exists = self._is_ready = False
            await self._ensure_collection()
            await self._call(send)

    async def _delete(self, collection: str, keys: Collection[Key]) -> None:
        ids: list[Any] = [point_id(each) for each in keys]
        which = qm.PointIdsList(points=ids)
        try:
            await self._call(lambda: self._client.delete(collection, points_selector=which, wait=True))
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
        return sorted(
            each.name
            for each in found
            if each.name.startswith(_PREFIX)
            and is_layout_key(each.name.removeprefix(_PREFIX))
            and each.name != self._collection
        )

    async def _own_points(self, collection: str, agent_id: str) -> dict[Key, dict[str, Any]]:
        """Return the points of an agent in another collection that are of our layout, by their own word."""
        key = collection.removeprefix(_PREFIX)
        found = await self._scroll(collection, agent_id)
        return {at: payload for at, payload in found.items() if is_of_layout(payload, key)}

    async def _scroll(self, collection: str, agent_id: str) -> dict[Key, dict[str, Any]]:
        return {local_key(record.id): _payload(record) for record in await self._records(collection, agent_id)}

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
            if not _is_gone(error.__cause__):
                raise
            self._exists = self._is_ready = False
            return gone()

    async def _call(self, send: Callable[[], Awaitable[_T]]) -> _T:
        """Send with retries; every call here is idempotent.

        Raises:
            StoreUnavailableError: The server did not answer, refused, or answered what cannot be read.
        """
        try:
            async for attempt in AsyncRetrying(
                stop=stop_after_attempt(_ATTEMPTS) | stop_after_delay(_BUDGET_S),
                wait=wait_random_exponential(multiplier=0.1, max=0.5),
                retry=retry_if_exception(_is_passing),
                reraise=True,
            ):
                with attempt:
                    return await send()
        except JazzSelectError:
            raise
        except Exception as error:
            raise StoreUnavailableError(self._where, _problem(error)) from error
        raise AssertionError  # pragma: no cover - the last attempt returns or raises


def _is_gone(error: BaseException | None) -> bool:
    if isinstance(error, grpc.aio.AioRpcError):
        return error.code() is grpc.StatusCode.NOT_FOUND
    if isinstance(error, UnexpectedResponse):
        return error.status_code == _NOT_FOUND
    return isinstance(error, ValueError) and "not found" in str(error)  # the client's engine in this process


def _is_passing(error: BaseException) -> bool:
    if isinstance(error, grpc.aio.AioRpcError):
        return error.code().name in _PASSING
    if isinstance(error, UnexpectedResponse):
        status = error.status_code
        return status is None or status == _TOO_MANY or status >= _SERVER_FAULT
    return isinstance(error, ResponseHandlingException | ResourceExhaustedResponse | httpx.TransportError)


def _problem(error: Exception) -> str:
    if isinstance(error, UnexpectedResponse):
        return f"it answered {error.status_code} {error.reason_phrase}"
    if isinstance(error, grpc.aio.AioRpcError):
        return f"it answered {error.code().name} over gRPC: {error.details()}"
    source = error.source if isinstance(error, ResponseHandlingException) else error
    return f"{type(source).__name__}: {source}".removesuffix(": ")
