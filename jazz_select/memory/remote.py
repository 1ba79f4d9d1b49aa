"""Flows in a Qdrant server (url and API key), or in qdrant-client's own in-memory engine (":memory:")."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, TypeVar

import httpx
from qdrant_client import AsyncQdrantClient
from qdrant_client import models as qm
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from jazz_select.errors import StoreUnavailableError
from jazz_select.memory.layout import Layout
from jazz_select.memory.points import AGENT, DENSE, FINGERPRINT, LAYOUT, SPARSE, point_id, to_hits
from jazz_select.ports import FlowPoint, Hit, HybridQuery, SparseVector

IN_MEMORY = ":memory:"
_PREFIX = "jazz_flows_"
_PAGE = 1_000
_TIMEOUT_S = 10
_ATTEMPTS = 3
_TOO_MANY = 429
_SERVER_FAULT = 500
_T = TypeVar("_T")


def connect(url: str | None, api_key: str | None = None) -> AsyncQdrantClient:
    """A client for this server, or for an engine in memory where there is no url."""
    if url is None:
        return AsyncQdrantClient(location=IN_MEMORY)
    return AsyncQdrantClient(url=url, api_key=api_key, timeout=_TIMEOUT_S, check_compatibility=False, prefer_grpc=False)


class RemoteStore:
    """A `FlowStore` on Qdrant's client: one collection per layout, `agent_id` as tenant."""

    def __init__(
        self,
        client: AsyncQdrantClient,
        layout: Layout,
        *,
        where: str = IN_MEMORY,
        shards: int | None = None,
        replicas: int | None = None,
    ) -> None:
        """Use this client; nothing is sent before the first call.

        `where` names the server in error messages; `shards` and `replicas` are used when
        the collection is made, by the first write.
        """
        self._client = client
        self._where = where
        self._layout = layout
        self._collection = _PREFIX + layout.key
        self._shards = shards
        self._replicas = replicas
        self._exists = False

    async def fingerprints(self, agent_id: str) -> dict[str, str]:
        """Flow id to fingerprint."""
        return {payload["flow_id"]: payload[FINGERPRINT] for payload in await self.payloads(agent_id)}

    async def payloads(self, agent_id: str) -> list[dict[str, Any]]:
        """All payloads of this agent."""
        return await self._scroll(self._collection, agent_id) if await self._has_collection() else []

    async def upsert(self, points: Sequence[FlowPoint]) -> None:
        """Write and wait until the server has applied it."""
        if not points:
            return
        if not await self._has_collection():
            await self._create_collection()
        structs = [_to_struct(point, str(self._layout)) for point in points]
        await self._call(lambda: self._client.upsert(self._collection, points=structs, wait=True))

    async def delete(self, agent_id: str, flow_ids: Collection[str]) -> None:
        """Remove and wait until the server has applied it."""
        if flow_ids and await self._has_collection():
            ids: list[Any] = [point_id(agent_id, each) for each in flow_ids]
            selector = qm.PointIdsList(points=ids)
            await self._call(lambda: self._client.delete(self._collection, points_selector=selector, wait=True))

    async def search(self, query: HybridQuery) -> tuple[Hit, ...]:
        """Fused list and both arms in one request."""
        if not await self._has_collection():
            return ()
        requests = _requests(query)
        fused, *legs = await self._call(lambda: self._client.query_batch_points(self._collection, requests=requests))
        return to_hits(fused.points, {arm: leg.points for arm, leg in zip(query.arms, legs, strict=True)})

    async def other_layouts(self, agent_id: str) -> dict[str, int]:
        """Other collections of ours that hold flows of this agent."""
        found: dict[str, int] = {}
        for name in await self._other_collections():
            payloads = await self._scroll(name, agent_id)
            if payloads:
                found[str(payloads[0].get(LAYOUT, "an unknown embedder"))] = len(payloads)
        return found

    async def forget_other_layouts(self, agent_id: str) -> None:
        """Remove this agent's flows from them, and those that are empty then."""
        for name in await self._other_collections():
            await self._forget(name, agent_id)

    async def close(self) -> None:
        """Close the connection; a second call does nothing."""
        await self._client.close()

    async def _has_collection(self) -> bool:
        if not self._exists:
            self._exists = await self._call(lambda: self._client.collection_exists(self._collection))
        return self._exists

    async def _create_collection(self) -> None:
        try:
            await self._call(
                lambda: self._client.create_collection(
                    self._collection,
                    vectors_config={DENSE: qm.VectorParams(size=self._layout.dim, distance=qm.Distance.COSINE)},
                    sparse_vectors_config={SPARSE: qm.SparseVectorParams(modifier=qm.Modifier.IDF)},
                    # No graph over all agents but one within each: requests never cross tenants.
                    hnsw_config=qm.HnswConfigDiff(payload_m=16, m=0),
                    shard_number=self._shards,
                    replication_factor=self._replicas,
                )
            )
        except StoreUnavailableError:
            if not await self._has_collection():  # somebody else made it meanwhile: as good
                raise
        if self._where != IN_MEMORY:
            schema = qm.KeywordIndexParams(type=qm.KeywordIndexType.KEYWORD, is_tenant=True)
            await self._call(lambda: self._client.create_payload_index(self._collection, AGENT, schema, wait=True))
        self._exists = True

    async def _other_collections(self) -> list[str]:
        collections = (await self._call(self._client.get_collections)).collections
        return sorted(
            each.name for each in collections if each.name.startswith(_PREFIX) and each.name != self._collection
        )

    async def _forget(self, collection: str, agent_id: str) -> None:
        mine = qm.FilterSelector(filter=_agent_filter(agent_id))
        await self._call(lambda: self._client.delete(collection, points_selector=mine, wait=True))
        left = await self._call(lambda: self._client.count(collection, exact=True))
        if left.count == 0:
            await self._call(lambda: self._client.delete_collection(collection))

    async def _scroll(self, collection: str, agent_id: str) -> list[dict[str, Any]]:
        payloads: list[dict[str, Any]] = []
        offset: Any = None
        while True:
            records, offset = await self._page(collection, agent_id, offset)
            payloads += [record.payload or {} for record in records]
            if offset is None:
                return payloads

    async def _page(self, collection: str, agent_id: str, offset: Any) -> tuple[list[qm.Record], Any]:
        mine = _agent_filter(agent_id)
        return await self._call(
            lambda: self._client.scroll(collection, scroll_filter=mine, limit=_PAGE, offset=offset, with_payload=True)
        )

    async def _call(self, send: Callable[[], Awaitable[_T]]) -> _T:
        """Send, and send again where that may help; every call here may be repeated without harm.

        Raises:
            StoreUnavailableError: The server did not answer, or refused.
        """
        try:
            async for attempt in AsyncRetrying(
                stop=stop_after_attempt(_ATTEMPTS),
                wait=wait_random_exponential(multiplier=0.1, max=0.5),
                retry=retry_if_exception(_is_passing),
                reraise=True,
            ):
                with attempt:
                    return await send()
        except (ApiException, ResourceExhaustedResponse, httpx.HTTPError, OSError) as error:
            raise StoreUnavailableError(self._where, _problem(error)) from error
        raise AssertionError  # pragma: no cover - the last attempt returns or raises


def _is_passing(error: BaseException) -> bool:
    if isinstance(error, UnexpectedResponse):
        status = error.status_code
        return status is None or status == _TOO_MANY or status >= _SERVER_FAULT
    return isinstance(error, ResponseHandlingException | ResourceExhaustedResponse | httpx.TransportError)


def _problem(error: Exception) -> str:
    if isinstance(error, UnexpectedResponse):
        return f"it answered {error.status_code} {error.reason_phrase}"
    return str(error) or type(error).__name__


def _to_struct(point: FlowPoint, layout: str) -> qm.PointStruct:
    vectors: dict[str, Any] = {SPARSE: _to_sparse(point.sparse)}
    if point.dense is not None:
        vectors[DENSE] = list(point.dense)
    payload = {**point.payload, AGENT: point.agent_id, FINGERPRINT: point.fingerprint, LAYOUT: layout}
    return qm.PointStruct(id=point_id(point.agent_id, point.flow_id), vector=vectors, payload=payload)


def _to_sparse(vector: SparseVector) -> qm.SparseVector:
    return qm.SparseVector(indices=list(vector.indices), values=list(vector.values))


def _agent_filter(agent_id: str, exclude: Sequence[str] = ()) -> qm.Filter:
    mine = qm.FieldCondition(key=AGENT, match=qm.MatchValue(value=agent_id))
    excluded: list[Any] = [point_id(agent_id, flow_id) for flow_id in exclude]
    return qm.Filter(must=[mine], must_not=[qm.HasIdCondition(has_id=excluded)] if excluded else None)


def _requests(query: HybridQuery) -> list[qm.QueryRequest]:
    mine = _agent_filter(query.agent_id, query.exclude)
    # Rarity of a word is counted among this agent's flows alone; a server before 1.19 counts among all.
    idf = qm.SearchParams(idf=qm.IdfCorpusParams(corpus=_agent_filter(query.agent_id)))
    arms: list[dict[str, Any]] = []
    if query.dense is not None:
        arms.append({"query": list(query.dense), "using": DENSE, "filter": mine, "limit": query.depth})
    if query.sparse is not None:
        sparse = _to_sparse(query.sparse)
        arms.append({"query": sparse, "using": SPARSE, "filter": mine, "limit": query.depth, "params": idf})
    fused = qm.QueryRequest(
        prefetch=[qm.Prefetch(**arm) for arm in arms],
        query=qm.RrfQuery(rrf=qm.Rrf(k=query.rrf_k)),
        limit=query.limit,
        with_payload=True,
    )
    return [fused, *(qm.QueryRequest(**arm) for arm in arms)]
