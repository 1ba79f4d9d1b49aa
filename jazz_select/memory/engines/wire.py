"""What a recall asks of a server over gRPC: queries as protobuf, answers as legs, nothing made of what is not read."""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import grpc
import grpc.aio
from qdrant_client import grpc as qg
from qdrant_client.conversions.conversion import grpc_to_payload

from jazz_select.memory.engines.points import AGENT, arms_of, key_of, point_id, point_key
from jazz_select.ports import HybridQuery, Key, Legs, SparseVector
from jazz_select.text import describe_error

_log = logging.getLogger(__name__)
REST_PORT, GRPC_PORT = 6333, 6334
_PROBE_S = 2.0
_OPTIONS = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1))


class Wire:
    """The gRPC side of one server. A channel belongs to an event loop, and a memory may be used from several."""

    def __init__(self, url: str, *, port: int | None, api_key: str | None, timeout_s: float) -> None:
        """Talk to the host of this url, where it has a port for gRPC; nothing is sent yet.

        Args:
            url: The address of the REST side; `https` means TLS here too.
            port: Of gRPC; 0 for never, None for 6334 where the REST side is at 6333.
            api_key: Sent with each call.
            timeout_s: Of each call.
        """
        parts = urlsplit(url if "//" in url else f"//{url}")
        rest = parts.port or REST_PORT
        self._port = port if port is not None else (GRPC_PORT if rest == REST_PORT else 0)
        self._target = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        self._tls = parts.scheme == "https"
        self._metadata = (("api-key", api_key),) if api_key else None
        self._timeout_s = timeout_s
        self._works: bool | None = None if self._port and self._target else False
        self._channels: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[grpc.aio.Channel, Any]]
        self._channels = WeakKeyDictionary()

    async def works(self, collection: str) -> bool:
        """Whether the collection, which the REST side has, can be read here; found out once, and said if not."""
        if self._works is None:
            channel, _ = self._open()
            ask: Any = qg.CollectionsStub(channel)
            try:
                request = qg.CollectionExistsRequest(collection_name=collection)
                answer = await ask.CollectionExists(request, timeout=_PROBE_S, metadata=self._metadata)
                self._works = bool(answer.result.exists)
                why = "" if self._works else "another server answers there"
            except Exception as error:  # noqa: BLE001 - anything may listen there, and answer anything
                self._works, why = False, describe_error(error)
            if not self._works:
                _log.info("grpc=<%s:%s>, reason=<%s> | the server is asked over REST", self._target, self._port, why)
        return self._works

    async def search(self, collection: str, queries: Sequence[HybridQuery], *, payloads: bool) -> list[Legs]:
        """Both arms of all queries in one request; `payloads` has those of all hits come along."""
        points = [each for query in queries for each in to_protobuf(collection, query, payloads=payloads)]
        request = qg.QueryBatchPoints(collection_name=collection, query_points=points)
        _, stub = self._open()
        answer = await stub.QueryBatch(request, timeout=self._timeout_s, metadata=self._metadata)
        found = iter(answer.result)
        return [_legs({arm: next(found).result for arm in query.arms}, payloads=payloads) for query in queries]

    async def retrieve(self, collection: str, keys: Collection[Key]) -> dict[Key, dict[str, Any]]:
        """Payloads by key."""
        request = qg.GetPoints(
            collection_name=collection,
            ids=[_to_id(key) for key in keys],
            with_payload=qg.WithPayloadSelector(enable=True),
            with_vectors=qg.WithVectorsSelector(enable=False),
        )
        _, stub = self._open()
        answer = await stub.Get(request, timeout=self._timeout_s, metadata=self._metadata)
        return {_key(each.id): grpc_to_payload(each.payload) for each in answer.result}

    async def close(self) -> None:
        """Close this loop's channel; a second call does nothing."""
        channel, _ = self._channels.pop(asyncio.get_running_loop(), (None, None))
        if channel is not None:
            await channel.close(grace=self._timeout_s)  # without grace, calls that are under way would be cancelled

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
    """One request for each arm that has something to ask."""
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


def _legs(found: Mapping[str, Sequence[Any]], *, payloads: bool) -> Legs:
    legs = {arm: {_key(each.id): each.score for each in hits} for arm, hits in found.items()}
    hits = {_key(each.id): each for hits in found.values() for each in hits} if payloads else {}
    along = {key: grpc_to_payload(each.payload) for key, each in hits.items()}
    return Legs(dense=legs.get("dense", {}), bm25=legs.get("bm25", {}), payloads=along)


def _key(point: Any) -> Key:
    return key_of(point.uuid) if point.uuid else point.num


def _to_id(key: Key) -> qg.PointId:
    return qg.PointId(num=key) if key >= 0 else qg.PointId(uuid=str(point_id(key)))


def _filter(agent_id: str, exclude: Sequence[str]) -> qg.Filter:
    mine = qg.Condition(field=qg.FieldCondition(key=AGENT, match=qg.Match(keyword=agent_id)))
    if not exclude:
        return qg.Filter(must=[mine])
    excluded = qg.HasIdCondition(has_id=[_to_id(point_key(agent_id, flow_id)) for flow_id in exclude])
    return qg.Filter(must=[mine], must_not=[qg.Condition(has_id=excluded)])
