"""Clients of a Qdrant server: how they connect, reconnect and prove who they are."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any
from weakref import WeakKeyDictionary

import httpx
from qdrant_client import AsyncQdrantClient

from jazz_select.errors import ConfigError
from jazz_select.memory.engines.server_address import ServerAddress, own_certificates
from jazz_select.memory.engines.server_errors import describe_refusal

TIMEOUT_S = 10
_GRPC_OPTIONS = {
    # A server that was away for minutes is asked again within a second or two, not within the two minutes of gRPC.
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 1_000,
    "grpc.min_reconnect_backoff_ms": 2_000,  # the time limit of one attempt to connect, despite its name
    # A connection that hangs, as behind a firewall that forgot it, is given up before the call's own time limit.
    "grpc.keepalive_time_ms": 5_000,
    "grpc.keepalive_timeout_ms": 3_000,
}
_UNCOMPRESSED = {"accept-encoding": "identity"}
"""Where an answer may be compressed, the server sends it in two writes, and the second one waits up to 40 ms for the
acknowledgement of the first."""
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=32)


def connect(url: str, api_key: str | None = None) -> AsyncQdrantClient:
    """Return a client of this server over REST.

    Raises:
        ConfigError: The url or the key cannot be used.
    """
    address = ServerAddress.parse(url, api_key)
    address.warn_once()
    return _client(address, headers={**address.headers, **_UNCOMPRESSED})


def connect_grpc(address: ServerAddress, port: int) -> AsyncQdrantClient:
    """Return a client of this server over gRPC, for the running event loop alone.

    Raises:
        ConfigError: The address or its certificates cannot be used.
    """
    options: dict[str, Any] = {**_GRPC_OPTIONS}
    if address.is_encrypted:
        options["root_certificates"] = own_certificates()
    return _client(address, headers=dict(address.headers), grpc_port=port, prefer_grpc=True, grpc_options=options)


def _client(address: ServerAddress, *, headers: dict[str, str], **options: Any) -> AsyncQdrantClient:
    try:
        return AsyncQdrantClient(
            url=address.url,
            # The key as a header: as an argument, the client warns of http at each start, and on this machine too.
            headers=headers,
            timeout=TIMEOUT_S,
            check_compatibility=False,
            transport=_KeptAlive(),  # by default, the client opens a connection for each call to localhost
            pool_size=1,  # of connections over gRPC, each of which takes many calls at once
            **options,
        )
    except Exception as error:
        problem, _ = describe_refusal(error, secrets=address.secrets)
        msg = f"url={address.url!r} cannot be used ({problem}); a url looks like http://127.0.0.1:6333"
        raise ConfigError(msg) from error


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
