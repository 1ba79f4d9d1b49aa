"""The gRPC side of a Qdrant server: recall asks over it, since it is faster than REST."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from time import monotonic
from typing import Any
from weakref import WeakKeyDictionary

from qdrant_client import AsyncQdrantClient
from qdrant_client import grpc as qg
from qdrant_client.conversions.conversion import grpc_to_payload

from jazz_select.memory.engines.server_address import ServerAddress
from jazz_select.memory.engines.server_client import TIMEOUT_S, connect_grpc
from jazz_select.memory.engines.server_errors import describe_refusal
from jazz_select.memory.engines.server_queries import retrieve, to_legs
from jazz_select.memory.engines.stored_points import AGENT, arms_of, local_key, point_key
from jazz_select.ports import ArmHits, HybridQuery, Key, SparseVector

_log = logging.getLogger(__name__)
_PROBE_S, _GUESS_S = 2.0, 0.5
"""Timeouts of the probe for gRPC: of a configured port, and of a guessed one."""
_PROBES = 2
"""Times that the points of both sides are compared: somebody may write between the two readings."""
_AGAIN_S, _AGAIN_MOST_S = 5.0, 60.0
"""Seconds after which gRPC is tried again where it failed: at first, and at most."""
_SLOWER = "a recall over REST takes longer than over gRPC; set grpc_port (JAZZ_GRPC_PORT), or 0 for REST alone"
Sample = Mapping[Key, Mapping[str, Any]]


class Wire:
    """The gRPC side of one server, with a client per event loop."""

    def __init__(self, url: str, *, port: int | None, api_key: str | None = None) -> None:
        """Set up for the host of this url (`https`: with TLS); nothing is sent yet.

        `port` 0: never use gRPC; None: try the port after that of REST.

        Raises:
            ConfigError: The url or the key cannot be used.
        """
        self._probe_s = _GUESS_S if port is None else _PROBE_S
        address = ServerAddress.parse(url, api_key)
        port = address.port + 1 if port is None else port
        host = f"[{address.host}]" if ":" in address.host else address.host
        self._place = f"{host}:{port}"
        self._address, self._port = address, port
        self.status = ""
        """Which protocol is in use and what it costs; empty until known."""
        self._works: bool | None = None
        self._is_used = port != 0
        self._again_at = 0.0
        self._pause_s = _AGAIN_S
        if not self._is_used:
            self.status = "REST, as grpc_port says"
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncQdrantClient] = WeakKeyDictionary()

    async def works(self, collection: str, read_sample: Callable[[], Awaitable[Sample]]) -> bool:
        """Whether this port belongs to the server of the REST side, and answers.

        It must know the points that `read_sample` reads over REST: another server may have a collection of the same
        name. An empty sample decides nothing. Where it does not answer, it is tried again after a while.
        """
        if self._works or not self._is_used:
            return bool(self._works)
        if self._works is False:
            if monotonic() < self._again_at:
                return False
            self._again_at = monotonic() + self._pause_s  # others go on over REST while this one tries
        problem = await self._problem(collection, read_sample)
        if problem == "":
            self._take_up()
        elif problem and not self._works:
            self._give_up(problem)
        return bool(self._works)

    def lose(self, problem: str) -> None:
        """Note that gRPC failed where REST answered: the server is asked over REST for a while."""
        if self._works:
            self._give_up(problem)

    async def _problem(self, collection: str, read_sample: Callable[[], Awaitable[Sample]]) -> str | None:
        """Return why gRPC cannot be used; empty if it can, None if that is not known.

        A point may be deleted or written between both readings, and all that are compared hardly twice.
        """
        for _ in range(_PROBES):
            sample = await read_sample()
            if not sample:
                return None
            try:
                async with asyncio.timeout(self._probe_s):
                    found = await self.retrieve(collection, sample)
            except TimeoutError:
                return f"no answer within {self._probe_s} s"
            except Exception as error:  # noqa: BLE001 - any program may listen there
                return describe_refusal(error, secrets=self._address.secrets)[0]
            if found.keys() == sample.keys() and any(found[key] == payload for key, payload in sample.items()):
                return ""
        return "another server answers there"

    def _take_up(self) -> None:
        if self._works is False:
            _log.warning("grpc=<%s> | the server is asked over gRPC again", self._place)
        self._works, self._pause_s = True, _AGAIN_S
        self.status = f"gRPC at {self._place}"

    def _give_up(self, problem: str) -> None:
        if self._works is not False:
            _log.warning("grpc=<%s>, reason=<%s> | the server is asked over REST: %s", self._place, problem, _SLOWER)
            self._pause_s = _AGAIN_S
        self._works = False
        self._again_at = monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, _AGAIN_MOST_S)
        self.status = f"REST, since gRPC at {self._place} failed ({problem}): {_SLOWER}"

    async def search(self, collection: str, queries: Sequence[HybridQuery], *, payloads: bool) -> list[ArmHits]:
        """Search the vectors of all queries in one request; `payloads`: return those of all hits too.

        Recall must cost at most 1.5 times as much as the embedding and a bare batch query. With the client's own
        `query_batch_points` it costs more: that copies each request deeply, checks its numbers one by one, and makes a
        model of each hit. Hence the client's stub is asked with messages that are built here.
        """
        points = [each for query in queries for each in _messages(collection, query, payloads=payloads)]
        batch = qg.QueryBatchPoints(collection_name=collection, query_points=points)
        stub: Any = self._client().grpc_points  # its types are not published
        answer = await stub.QueryBatch(batch, timeout=TIMEOUT_S)
        found = iter(answer.result)
        read = _payload if payloads else None
        return [to_legs({arm: next(found).result for arm in query.arms}, _key, read) for query in queries]

    async def retrieve(self, collection: str, keys: Collection[Key]) -> dict[Key, dict[str, Any]]:
        """Return payloads by key."""
        return await retrieve(self._client(), collection, keys)

    async def close(self) -> None:
        """Close this loop's connection; a second call does nothing."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close(grpc_grace=TIMEOUT_S)  # without grace, running calls would be cancelled

    def _client(self) -> AsyncQdrantClient:
        loop = asyncio.get_running_loop()
        found = self._clients.get(loop)
        if found is None:
            found = self._clients[loop] = connect_grpc(self._address, self._port)
        return found


def _messages(collection: str, query: HybridQuery, *, payloads: bool) -> Iterator[qg.QueryPoints]:
    """Yield one request per vector of the query, as `server_requests` for REST."""
    mine = _filter(query.agent_id, query.exclude)
    along = qg.WithPayloadSelector(enable=payloads)
    for using, vector in arms_of(query):
        if isinstance(vector, SparseVector):
            nearest = qg.VectorInput(sparse=qg.SparseVector(values=vector.values, indices=vector.indices))
        else:
            nearest = qg.VectorInput(dense=qg.DenseVector(data=vector))
        yield qg.QueryPoints(
            collection_name=collection,
            query=qg.Query(nearest=nearest),
            using=using,
            filter=mine,
            limit=query.depth,
            with_payload=along,
        )


def _filter(agent_id: str, exclude: Sequence[str]) -> qg.Filter:
    mine = qg.Condition(field=qg.FieldCondition(key=AGENT, match=qg.Match(keyword=agent_id)))
    if not exclude:
        return qg.Filter(must=[mine])
    excluded = [qg.PointId(num=point_key(agent_id, flow_id)) for flow_id in exclude]
    return qg.Filter(must=[mine], must_not=[qg.Condition(has_id=qg.HasIdCondition(has_id=excluded))])


def _payload(point: Any) -> dict[str, Any]:
    return grpc_to_payload(point.payload)


def _key(point: Any) -> Key:
    return local_key(point.uuid) if point.uuid else point.num
