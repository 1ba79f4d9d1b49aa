"""A Qdrant server on loopback that searches with Qdrant Edge, as fast as an installed server: for times over a wire.

All else is `tests.qdrant_server`, whose engine in Python takes milliseconds to search a hundred flows; answers over
REST come as an installed server sends them, compressed in two writes where the client takes that, and with Nagle on.
"""

import sys
from collections.abc import Iterator, Sequence
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any

import grpc
import qdrant_edge as qe
from qdrant_client import QdrantClient
from qdrant_client import grpc as qg
from qdrant_client import models as qm
from qdrant_client.http.models import QueryResponse

from jazz_select.memory.engines.stored_points import AGENT, SPARSE
from tests.qdrant_server import LoopbackQdrant, Points


class EdgeClient(QdrantClient):
    """The server's engine, with a shard beside each collection: filled when it is searched first, and not written."""

    def __init__(self) -> None:
        super().__init__(":memory:")
        self.shard = cache(self._filled)

    def query_batch_points(  # pyright: ignore[reportIncompatibleMethodOverride] - as this server calls it
        self, collection_name: str, requests: Sequence[qm.QueryRequest]
    ) -> list[QueryResponse]:
        """Search as REST asks."""
        found = self.shard(collection_name).query_batch(qe.QueryBatchRequest([_of_rest(each) for each in requests]))
        hits = ([qm.ScoredPoint(id=hit.id, version=0, score=hit.score) for hit in each] for each in found)
        return [QueryResponse(points=each) for each in hits]

    def _filled(self, name: str) -> qe.EdgeShard:
        made: Any = self.get_collection(name).config.params.vectors
        config = qe.EdgeConfig(
            vectors={each: qe.EdgeVectorParams(size=made[each].size, distance=qe.Distance.Cosine) for each in made},
            sparse_vectors={SPARSE: qe.EdgeSparseVectorParams()},
            max_search_threads=1,
        )
        with TemporaryDirectory() as folder:  # a shard lives on in its open files
            shard = qe.EdgeShard.create(folder, config)
            shard.update(qe.UpdateOperation.create_field_index(AGENT, qe.PayloadSchemaType.Keyword))
            shard.update(qe.UpdateOperation.upsert_points([*self._points(name)]))
        return shard

    def _points(self, name: str) -> Iterator[qe.Point]:
        found, _ = self.scroll(name, limit=1_000_000, with_vectors=True)
        for each in found:
            vectors: dict[str, Any] = {**each.vector} if isinstance(each.vector, dict) else {}
            if words := vectors.get(SPARSE):
                vectors[SPARSE] = qe.SparseVector(indices=words.indices, values=words.values)
            yield qe.Point(each.id, vectors, {AGENT: (each.payload or {}).get(AGENT)})


class EdgePoints(Points):
    """`QueryBatch` without the conversions between REST and gRPC, which take longer than the search."""

    def QueryBatch(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: ARG002, N802
        """Search as gRPC asks."""
        shard = self.server.client.shard(request.collection_name)
        found = shard.query_batch(qe.QueryBatchRequest([_of_grpc(each) for each in request.query_points]))
        return qg.QueryBatchResponse(result=[qg.BatchResult(result=[_to_grpc(hit) for hit in each]) for each in found])


def _of_rest(asked: Any) -> qe.QueryRequest:
    vector: Any = getattr(asked.query, "nearest", asked.query)
    if isinstance(vector, qm.SparseVector):
        vector = qe.SparseVector(indices=vector.indices, values=vector.values)
    return _request(asked, vector, [each.match.value for each in asked.filter.must])


def _of_grpc(asked: Any) -> qe.QueryRequest:
    nearest = asked.query.nearest
    if nearest.HasField("sparse"):
        vector: Any = qe.SparseVector(indices=[*nearest.sparse.indices], values=[*nearest.sparse.values])
    else:
        vector = [*nearest.dense.data]
    return _request(asked, vector, [each.field.match.keyword for each in asked.filter.must])


def _request(asked: Any, vector: Any, agents: Sequence[str]) -> qe.QueryRequest:
    mine = qe.Filter(must=[qe.FieldCondition(key=AGENT, match=qe.MatchValue(agent)) for agent in agents])
    return qe.QueryRequest(limit=asked.limit, query=qe.Query.Nearest(vector, using=asked.using), filter=mine)


def _to_grpc(hit: Any) -> qg.ScoredPoint:
    at = qg.PointId(num=hit.id) if isinstance(hit.id, int) else qg.PointId(uuid=str(hit.id))
    return qg.ScoredPoint(id=at, score=hit.score)


def main() -> None:
    """Listen until this process is ended; prints where."""
    with LoopbackQdrant(client=EdgeClient(), points=EdgePoints) as server:
        sys.stdout.write(f"{server.url} {server.grpc_port}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()
