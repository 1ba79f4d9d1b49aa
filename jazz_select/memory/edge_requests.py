"""What is asked of Qdrant Edge, in its own terms. Pure."""

from collections.abc import Iterator
from typing import Any

import qdrant_edge as qe

from jazz_select.memory.points import AGENT, DENSE, FINGERPRINT, LAYOUT, SPARSE, point_key
from jazz_select.ports import FlowPoint, HybridQuery, SparseVector


def shard_config(dim: int) -> qe.EdgeConfig:
    """One dense vector and one sparse one per flow."""
    return qe.EdgeConfig(
        vectors={DENSE: qe.EdgeVectorParams(size=dim, distance=qe.Distance.Cosine)},
        sparse_vectors={SPARSE: qe.EdgeSparseVectorParams(modifier=qe.Modifier.Idf)},
    )


def to_point(point: FlowPoint, layout: str) -> qe.Point:
    """A flow with both vectors and all that comes back with a hit."""
    vectors: dict[str, Any] = {SPARSE: _to_sparse(point.sparse)}
    if point.dense is not None:
        vectors[DENSE] = list(point.dense)
    payload = {**point.payload, AGENT: point.agent_id, FINGERPRINT: point.fingerprint, LAYOUT: layout}
    return qe.Point(point_key(point.agent_id, point.flow_id), vectors, payload)


def to_requests(query: HybridQuery, *, filtered: bool) -> Iterator[qe.QueryRequest]:
    """One request per arm that has something to ask."""
    mine = _filter(query) if filtered or query.exclude else None
    if query.dense is not None:
        nearest = qe.Query.Nearest(list(query.dense), using=DENSE)
        yield qe.QueryRequest(limit=query.depth, query=nearest, filter=mine)
    if query.sparse is not None:
        # Rarity of a word is counted among this agent's flows alone, as it would be if the others were not there.
        params = None if mine is None else qe.SearchParams(idf=qe.IdfParams(corpus=agent_filter(query.agent_id)))
        nearest = qe.Query.Nearest(_to_sparse(query.sparse), using=SPARSE)
        yield qe.QueryRequest(limit=query.depth, query=nearest, filter=mine, params=params)


def agent_filter(agent_id: str) -> qe.Filter:
    """This agent's flows."""
    return qe.Filter(must=[_belongs_to(agent_id)])


def _filter(query: HybridQuery) -> qe.Filter:
    if not query.exclude:
        return agent_filter(query.agent_id)
    excluded: set[qe.PointId] = {point_key(query.agent_id, flow_id) for flow_id in query.exclude}
    return qe.Filter(must=[_belongs_to(query.agent_id)], must_not=[qe.HasIdCondition(excluded)])


def _belongs_to(agent_id: str) -> qe.FieldCondition:
    return qe.FieldCondition(key=AGENT, match=qe.MatchValue(agent_id))


def _to_sparse(vector: SparseVector) -> qe.SparseVector:
    return qe.SparseVector(indices=list(vector.indices), values=list(vector.values))
