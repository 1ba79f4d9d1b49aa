"""What is asked of Qdrant's client, in its own terms, and what it answers in ours. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any

from qdrant_client import models as qm
from qdrant_client.http.models import QueryResponse

from jazz_select.memory.points import AGENT, DENSE, FINGERPRINT, LAYOUT, SPARSE, leg, point_key
from jazz_select.ports import FlowPoint, HybridQuery, Legs, SparseVector


def collection_options(dim: int, *, shards: int | None, replicas: int | None) -> dict[str, Any]:
    """How a collection is made."""
    return {
        "vectors_config": {DENSE: qm.VectorParams(size=dim, distance=qm.Distance.COSINE)},
        "sparse_vectors_config": {SPARSE: qm.SparseVectorParams(modifier=qm.Modifier.IDF)},
        # No graph over all agents but one within each: requests never cross tenants.
        "hnsw_config": qm.HnswConfigDiff(payload_m=16, m=0),
        "shard_number": shards,
        "replication_factor": replicas,
    }


def to_struct(point: FlowPoint, layout: str) -> qm.PointStruct:
    """A flow with both vectors and all that comes back with a hit."""
    vectors: dict[str, Any] = {SPARSE: _to_sparse(point.sparse)}
    if point.dense is not None:
        vectors[DENSE] = list(point.dense)
    payload = {**point.payload, AGENT: point.agent_id, FINGERPRINT: point.fingerprint, LAYOUT: layout}
    return qm.PointStruct(id=point_key(point.agent_id, point.flow_id), vector=vectors, payload=payload)


def to_requests(query: HybridQuery) -> list[qm.QueryRequest]:
    """The engine's own fusion, for its payloads, and then one request per arm that has something to ask."""
    if not query.arms:
        return []
    mine = agent_filter(query.agent_id, query.exclude)
    # Rarity of a word is counted among this agent's flows alone; a server before 1.19 counts among all.
    idf = qm.SearchParams(idf=qm.IdfCorpusParams(corpus=agent_filter(query.agent_id)))
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


def to_legs(query: HybridQuery, answers: Iterator[QueryResponse]) -> Legs:
    """The answers to `to_requests`, in their order."""
    fused = next(answers).points
    legs = {arm: leg(next(answers).points) for arm in query.arms}
    payloads = {int(point.id): point.payload or {} for point in fused}
    return Legs(dense=legs.get("dense", {}), bm25=legs.get("bm25", {}), payloads=payloads)


def agent_filter(agent_id: str, exclude: Sequence[str] = ()) -> qm.Filter:
    """This agent's flows, without those excluded."""
    mine = qm.FieldCondition(key=AGENT, match=qm.MatchValue(value=agent_id))
    excluded: list[Any] = [point_key(agent_id, flow_id) for flow_id in exclude]
    return qm.Filter(must=[mine], must_not=[qm.HasIdCondition(has_id=excluded)] if excluded else None)


def _to_sparse(vector: SparseVector) -> qm.SparseVector:
    return qm.SparseVector(indices=list(vector.indices), values=list(vector.values))
