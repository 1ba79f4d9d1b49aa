"""What a search of a Qdrant server asks, over REST or gRPC, and what it finds."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from qdrant_client import AsyncQdrantClient
from qdrant_client import models as qm

from jazz_select.memory.engines.stored_points import AGENT, arms_of, local_key, point_id, point_key
from jazz_select.ports import ArmHits, HybridQuery, Key, SparseVector


def server_requests(query: HybridQuery, *, payloads: bool) -> list[qm.QueryRequest]:
    """Return one request per vector of the query."""
    mine = server_filter(query.agent_id, query.exclude)
    return [
        qm.QueryRequest(
            query=to_sparse(vector) if isinstance(vector, SparseVector) else list(vector),
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


def to_legs(
    arms: Mapping[str, Sequence[Any]],
    key_of: Callable[[Any], Key],
    payload_of: Callable[[Any], dict[str, Any]] | None,
) -> ArmHits:
    """Combine a query's hits by arm; without `payload_of` they came without payloads."""
    scores: dict[str, dict[Key, float]] = {"dense": {}, "bm25": {}}
    payloads: dict[Key, dict[str, Any]] = {}
    for arm, hits in arms.items():
        own = scores[arm]
        for hit in hits:
            key = key_of(hit.id)
            own[key] = hit.score
            # Most hits are found by both arms: a payload is read once.
            if payload_of is not None and key not in payloads:
                payloads[key] = payload_of(hit)
    return ArmHits(dense=scores["dense"], bm25=scores["bm25"], payloads=payloads)


def to_sparse(vector: SparseVector) -> qm.SparseVector:
    """Return a sparse vector as the client takes it."""
    return qm.SparseVector(indices=list(vector.indices), values=list(vector.values))


async def retrieve(client: AsyncQdrantClient, collection: str, keys: Collection[Key]) -> dict[Key, dict[str, Any]]:
    """Return payloads by key."""
    ids: list[Any] = [point_id(each) for each in keys]
    found = await client.retrieve(collection, ids=ids, with_payload=True)
    return {local_key(record.id): payload_of(record) for record in found}


def payload_of(point: Any) -> dict[str, Any]:
    """Return the payload of a record or a hit; empty where it has none."""
    return point.payload or {}
