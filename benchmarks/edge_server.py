"""A Qdrant server on loopback that searches with Qdrant Edge, as fast as an installed server: for times over a wire.

All else is `tests.qdrant_server`, whose engine in Python takes milliseconds to search a hundred flows; answers over
REST come as an installed server sends them, compressed in two writes where the client takes that, and with Nagle on.
"""

import subprocess
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from threading import RLock
from typing import Any

import grpc
import qdrant_edge as qe
from qdrant_client import QdrantClient
from qdrant_client import grpc as qg
from qdrant_client import models as qm
from qdrant_client.conversions.conversion import payload_to_grpc
from qdrant_client.http.models import QueryResponse

from benchmarks import machine
from jazz_select.memory.engines.stored_points import AGENT, SPARSE
from tests.qdrant_server import LoopbackQdrant, Points


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Where a server listens, and the process that it is, where that is one of this machine."""

    url: str
    grpc_port: int
    api_key: str | None = None
    pid: int = 0


@contextmanager
def loopback() -> Generator[Server]:
    """Start the server in a process of its own, so that it shares no interpreter with whoever asks it."""
    command = [sys.executable, "-m", "benchmarks.edge_server"]
    with subprocess.Popen(  # noqa: S603 - fixed arguments
        command, cwd=machine.ROOT, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    ) as process:
        url, port = process.stdout.readline().split() if process.stdout else ("", "")
        try:
            yield Server(url=url, grpc_port=int(port), pid=process.pid)
        finally:
            process.terminate()


class EdgeClient(QdrantClient):
    """The server's engine, with a shard beside each collection, which is filled at the first search after a write."""

    def __init__(self) -> None:
        super().__init__(":memory:")
        self._shards: dict[str, qe.EdgeShard] = {}
        # Searches over gRPC come past the lock of the server.
        self._filling = RLock()

    def upsert(self, collection_name: str, *given: Any, **options: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Write, and have the next search fill a shard anew."""
        with self._filling:
            self._shards.pop(collection_name, None)
            return super().upsert(collection_name, *given, **options)

    def delete(self, collection_name: str, *given: Any, **options: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Delete points, and have the next search fill a shard anew."""
        with self._filling:
            self._shards.pop(collection_name, None)
            return super().delete(collection_name, *given, **options)

    def delete_collection(self, collection_name: str, timeout: int | None = None, **options: Any) -> bool:
        """Delete a collection and its shard."""
        with self._filling:
            self._shards.pop(collection_name, None)
            return super().delete_collection(collection_name, timeout, **options)

    def shard(self, name: str) -> qe.EdgeShard:
        """Return the shard of a collection, as it is now."""
        with self._filling:
            shard = self._shards.get(name)
            if shard is None:
                shard = self._shards[name] = self._filled(name)
            return shard

    def query_batch_points(  # pyright: ignore[reportIncompatibleMethodOverride] - as this server calls it
        self, collection_name: str, requests: Sequence[qm.QueryRequest]
    ) -> list[QueryResponse]:
        """Search as REST asks."""
        found = self.shard(collection_name).query_batch(qe.QueryBatchRequest([_of_rest(each) for each in requests]))
        return [QueryResponse(points=[_to_rest(hit) for hit in each]) for each in found]

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
            yield qe.Point(each.id, vectors, each.payload or {})


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
    excluded = [key for each in asked.filter.must_not or () for key in each.has_id]
    agents = [each.match.value for each in asked.filter.must]
    return _request(asked, vector, agents, excluded, with_payload=bool(asked.with_payload))


def _of_grpc(asked: Any) -> qe.QueryRequest:
    nearest = asked.query.nearest
    if nearest.HasField("sparse"):
        vector: Any = qe.SparseVector(indices=[*nearest.sparse.indices], values=[*nearest.sparse.values])
    else:
        vector = [*nearest.dense.data]
    excluded = [each.num or each.uuid for one in asked.filter.must_not for each in one.has_id.has_id]
    agents = [each.field.match.keyword for each in asked.filter.must]
    return _request(asked, vector, agents, excluded, with_payload=asked.with_payload.enable)


def _request(
    asked: Any, vector: Any, agents: Sequence[str], excluded: Sequence[Any], *, with_payload: bool
) -> qe.QueryRequest:
    mine: list[Any] = [qe.FieldCondition(key=AGENT, match=qe.MatchValue(agent)) for agent in agents]
    others: list[Any] | None = [qe.HasIdCondition({*excluded})] if excluded else None
    return qe.QueryRequest(
        limit=asked.limit,
        query=qe.Query.Nearest(vector, using=asked.using),
        filter=qe.Filter(must=mine, must_not=others),
        with_payload=with_payload,
    )


def _to_rest(hit: Any) -> qm.ScoredPoint:
    return qm.ScoredPoint(id=hit.id, version=0, score=hit.score, payload=hit.payload)


def _to_grpc(hit: Any) -> qg.ScoredPoint:
    at = qg.PointId(num=hit.id) if isinstance(hit.id, int) else qg.PointId(uuid=str(hit.id))
    return qg.ScoredPoint(id=at, score=hit.score, payload=payload_to_grpc(hit.payload or {}))


def main() -> None:
    """Listen until this process is ended; prints where."""
    with LoopbackQdrant(client=EdgeClient(), points=EdgePoints) as server:
        sys.stdout.write(f"{server.url} {server.grpc_port}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()
