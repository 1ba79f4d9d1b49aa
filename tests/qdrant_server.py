"""A Qdrant server on loopback: REST and gRPC as the clients speak them, over qdrant-client's engine in memory."""

import gzip
import json
import ssl
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from types import SimpleNamespace
from typing import Any, ClassVar, Self

import grpc
from qdrant_client import AsyncQdrantClient, QdrantClient
from qdrant_client import grpc as qg
from qdrant_client import models as qm
from qdrant_client.conversions.conversion import GrpcToRest, RestToGrpc

_Json = dict[str, Any]
_GENERATED: Any = qg
"""Without types."""


class EngineClient(AsyncQdrantClient):
    """A client over its own engine in memory, which knows no payload indexes and would warn that it makes none."""

    def __init__(self) -> None:
        super().__init__(":memory:")

    async def create_payload_index(self, *_: Any, **__: Any) -> Any:
        """Make none."""

    @property
    def http(self) -> Any:
        """The calls of REST that are asked directly, answered by the engine."""
        return SimpleNamespace(search_api=SimpleNamespace(query_batch_points=self._batch))

    async def _batch(self, name: str, *, query_request_batch: qm.QueryRequestBatch) -> Any:
        return SimpleNamespace(result=await self.query_batch_points(name, query_request_batch.searches))


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Of a server, with its key, as files."""

    file: Path
    key_file: Path


class LoopbackQdrant:
    """`with LoopbackQdrant() as server:` listens until the block ends; `server.url`, `server.grpc_port`."""

    def __init__(
        self,
        *,
        api_key: str = "",
        speaks_grpc: bool = True,
        next_port: bool = False,
        client: QdrantClient | None = None,
        points: "Callable[[LoopbackQdrant], Points] | None" = None,
        certificate: Certificate | None = None,
    ) -> None:
        """`next_port` has it speak gRPC at the port after the one of REST, as an installed server does.

        `client` is its engine, and `points` what answers over gRPC: by default `Points`. With a certificate it speaks
        TLS on both ports.
        """
        self.api_key = api_key
        self.most_bytes = 32 << 20
        """What is larger is answered with 413."""
        self.refuse: Callable[[str], tuple[int, bytes] | None] = lambda _: None
        """Gives the status and the body that a call over REST is answered with instead, such as of "PUT points"."""
        self.headers: list[Mapping[str, str]] = []
        """Of all calls over REST, by name in small letters."""
        self.asked: Counter[str] = Counter()
        """How often each call came, such as "REST scroll" or "gRPC QueryBatch"."""
        self.refusals: list[grpc.StatusCode] = []
        """What the next calls over gRPC are answered with, in this order."""
        self.connections = 0
        """Opened on the REST side."""
        self.on_call: Callable[[str], None] = lambda _: None
        self._speaks_grpc, self._next_port = speaks_grpc, next_port
        self.client: Any = client or QdrantClient(":memory:")
        self._points = points or Points
        self._certificate = certificate
        self._lock = Lock()
        self.url, self.grpc_port = "", 0

    def __enter__(self) -> Self:
        while not self.url:  # the next port may be taken
            self._http = ThreadingHTTPServer(("127.0.0.1", 0), type("_Bound", (_Rest,), {"qdrant": self}))
            try:
                self.start_grpc(self._http.server_address[1] + 1 if self._next_port else 0)
            except RuntimeError:
                self._http.server_close()
                continue
            scheme = "https" if self._certificate else "http"
            self.url = f"{scheme}://127.0.0.1:{self._http.server_address[1]}"
        if self._certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._certificate.file, self._certificate.key_file)
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
        self._http.daemon_threads = True
        Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_grpc()
        self._http.shutdown()
        self._http.server_close()

    def start_grpc(self, port: int = 0) -> None:
        """Listen for gRPC, at its former port if none is named."""
        self._grpc = grpc.server(ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
        place = f"127.0.0.1:{port or self.grpc_port}"
        if self._certificate:
            pair = (self._certificate.key_file.read_bytes(), self._certificate.file.read_bytes())
            self.grpc_port = self._grpc.add_secure_port(place, grpc.ssl_server_credentials([pair]))
        else:
            self.grpc_port = self._grpc.add_insecure_port(place)
        if self._speaks_grpc:
            _GENERATED.add_PointsServicer_to_server(self._points(self), self._grpc)
        self._grpc.start()

    def stop_grpc(self) -> None:
        """Listen for gRPC no more."""
        self._grpc.stop(grace=None).wait()

    def ask(self, call: str, run: Callable[[QdrantClient], Any]) -> Any:
        """One call at a time on the engine."""
        self.asked[call] += 1
        self.on_call(call)
        with self._lock:
            return run(self.client)


def _collections(server: LoopbackQdrant, method: str, path: list[str], body: _Json) -> Any:
    """What the REST side says of collections, and makes."""
    match (method, *path):
        case ("GET",):
            return server.ask("REST collections", lambda client: client.get_collections())
        case ("GET", name, "exists"):
            return {"exists": server.ask("REST exists", lambda client: client.collection_exists(name))}
        case ("DELETE", name):
            return server.ask("REST drop", lambda client: client.delete_collection(name))
        case ("PUT", _, "index"):
            return qm.UpdateResult(status=qm.UpdateStatus.COMPLETED)
        case ("PUT", name):
            made = qm.CreateCollection.model_validate(body)
            vectors, words = made.vectors, made.sparse_vectors
            return server.ask("REST create", lambda client: client.create_collection(name, vectors, words))
        case _:
            raise NotImplementedError(method, path)


def _points(server: LoopbackQdrant, name: str, call: str, body: _Json) -> Any:
    """What the REST side does with the points of a collection."""
    return server.ask(f"REST {call}", partial(_CALLS[call], name=name, body=body))


def _upsert(client: QdrantClient, name: str, body: _Json) -> Any:
    return client.upsert(name, qm.PointsList.model_validate(body).points)


def _delete(client: QdrantClient, name: str, body: _Json) -> Any:
    which: Any = (qm.PointIdsList if "points" in body else qm.FilterSelector).model_validate(body)
    return client.delete(name, which)


def _count(client: QdrantClient, name: str, body: _Json) -> Any:
    return client.count(name, count_filter=qm.CountRequest.model_validate(body).filter)


def _scroll(client: QdrantClient, name: str, body: _Json) -> Any:
    page = qm.ScrollRequest.model_validate(body)
    points, offset = client.scroll(
        name,
        scroll_filter=page.filter,
        limit=page.limit or 10,
        offset=page.offset,
        with_payload=page.with_payload or False,
        with_vectors=page.with_vector or False,
    )
    return {"points": _dumped(points), "next_page_offset": offset}


def _retrieve(client: QdrantClient, name: str, body: _Json) -> Any:
    return client.retrieve(name, ids=qm.PointRequest.model_validate(body).ids, with_payload=True)


def _query(client: QdrantClient, name: str, body: _Json) -> Any:
    return client.query_batch_points(name, qm.QueryRequestBatch.model_validate(body).searches)


_CALLS: dict[str, Callable[..., Any]] = {
    "PUT": _upsert,
    "POST": _retrieve,
    "POST delete": _delete,
    "POST count": _count,
    "POST scroll": _scroll,
    "POST query batch": _query,
}


class _Rest(BaseHTTPRequestHandler):
    """Answers as an installed server does: with Nagle on, in one write; compressed where the client takes that, and
    then in chunks, the last of which is a write of its own."""

    qdrant: ClassVar[LoopbackQdrant]
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 24  # so that an answer is one write

    def setup(self) -> None:
        super().setup()
        self.qdrant.connections += 1

    def _answer(self) -> None:
        self.qdrant.headers.append({name.lower(): value for name, value in self.headers.items()})
        read = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if len(read) > self.qdrant.most_bytes:
            return self._send(413, {"status": {"error": f"Payload reached size limit: {self.qdrant.most_bytes}"}})
        body = json.loads(read or b"{}")
        if self.qdrant.api_key and self.headers.get("api-key") != self.qdrant.api_key:
            return self._send(401, {"status": {"error": "Must provide an API key"}})
        path = self.path.partition("?")[0].strip("/").split("/")
        if (refusal := self.qdrant.refuse(" ".join((self.command, *path[2:])))) is not None:
            return self._send_bytes(*refusal)
        try:
            match path:
                case ["collections", name, "points", *call]:
                    result = _points(self.qdrant, name, " ".join((self.command, *call)), body)
                case _:
                    result = _collections(self.qdrant, self.command, path[1:], body)
        except ValueError as error:
            return self._send(404, {"status": {"error": str(error)}})
        return self._send(200, {"result": _dumped(result), "status": "ok", "time": 0.0})

    do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815

    def _send(self, status: int, answer: _Json) -> None:
        self._send_bytes(status, json.dumps(answer).encode())

    def _send_bytes(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        if "gzip" not in self.headers.get("Accept-Encoding", ""):
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
            return
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        packed = gzip.compress(data, 1)
        self.wfile.write(b"%x\r\n%s\r\n" % (len(packed), packed))
        self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *args: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        pass


def _dumped(result: Any) -> Any:
    if isinstance(result, list):
        return [_dumped(each) for each in result]  # pyright: ignore[reportUnknownVariableType]
    return result.model_dump(mode="json", exclude_none=True) if hasattr(result, "model_dump") else result


class _Grpc:
    def __init__(self, server: LoopbackQdrant) -> None:
        self.server = server

    def _ask(self, call: str, context: grpc.ServicerContext, run: Callable[[QdrantClient], Any]) -> Any:
        told: Mapping[str, Any] = dict(context.invocation_metadata())
        if self.server.api_key and told.get("api-key") != self.server.api_key:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "Must provide an API key")
        if self.server.refusals:
            self.server.asked[f"gRPC {call}"] += 1
            context.abort(self.server.refusals.pop(0), "told to")
        try:
            return self.server.ask(f"gRPC {call}", run)
        except ValueError as error:
            context.abort(grpc.StatusCode.NOT_FOUND, str(error))


class Points(_Grpc, qg.PointsServicer):
    """Searches and points over gRPC."""

    def QueryBatch(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        """The answers of the engine."""
        searches = [GrpcToRest.convert_query_points(each) for each in request.query_points]
        found = self._ask(
            "QueryBatch", context, lambda client: client.query_batch_points(request.collection_name, searches)
        )
        results = [[RestToGrpc.convert_scored_point(hit) for hit in each.points] for each in found]
        return qg.QueryBatchResponse(result=[qg.BatchResult(result=each) for each in results])

    def Get(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        """Points by id."""
        ids = [GrpcToRest.convert_point_id(each) for each in request.ids]
        found = self._ask(
            "Get", context, lambda client: client.retrieve(request.collection_name, ids, with_payload=True)
        )
        return qg.GetResponse(result=[RestToGrpc.convert_record(each) for each in found])
