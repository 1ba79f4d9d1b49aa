"""A provider on this machine: a small Starlette app that speaks the vendors' protocols, and fails as it is told to.

It is what the vendors' own clients talk to in these tests, over real connections.
"""

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from jazz_select.testing import ProviderCase
from tests.http_server import LoopbackServer
from tests.unit.chat.decision_protocols import DECISION_PROTOCOLS, DecisionProtocol, Gives, first_likely
from tests.unit.chat.protocols import CALLING, GENERATE, Protocol
from tests.unit.chat.streams import written

PATIENCE_S = 10.0


@dataclass(kw_only=True)
class Provider:
    """Set `case`, or `body` for an answer of your own; `requests` are those that came, with their paths."""

    root: str
    case: ProviderCase = field(default_factory=lambda: ProviderCase(name="normal"))
    body: object = None
    """What to send instead of the protocol's own answer."""
    refuses_once: tuple[int, object] | None = None
    """The status and the body of the next answer alone."""
    script: list[Any] = field(default_factory=list[Any])
    """Whole answers for the next requests, as dictionaries, or as the bytes of a stream."""
    refuses: Callable[[Mapping[str, Any]], str] | None = None
    """Returns why a request is refused with 400; empty if it is not."""
    gives: Gives = first_likely
    """What a decision gives each option."""
    cached: int = 0
    """How many of the input tokens the answer reports as read from a cache."""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    """Sent beside those of the case."""
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    paths: list[str] = field(default_factory=list[str])
    arrived: threading.Event = field(default_factory=threading.Event)
    left: threading.Event = field(default_factory=threading.Event)
    """Set when a caller closed its connection while it was kept waiting."""
    release: threading.Event = field(default_factory=threading.Event)
    """Set it to have those answered that are kept waiting."""

    def says(self, text: str) -> None:
        """Answer this from now on."""
        self.case = ProviderCase(name="says it", text=text)

    def fails(self, status: int) -> None:
        """Fail with this status from now on."""
        self.case = ProviderCase(name="fails", status=status)


class Loopback:
    """The server: one port, and at each time one provider behind it."""

    def __init__(self, root: str) -> None:
        self.provider = Provider(root=root)

    def fresh(self) -> Provider:
        """A healthy provider that was never asked, in place of the one before."""
        self.provider.release.set()
        self.provider = Provider(root=self.provider.root)
        return self.provider


class _Line(H11Protocol):
    """Lets a request hang up on its caller."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - uvicorn narrows it too
        super().connection_made(transport)
        self.app_state = {**self.app_state, "transport": transport}


def _app(loopback: Loopback) -> Starlette:
    def route(protocol: Protocol | DecisionProtocol, path: str = "") -> Route:
        async def endpoint(request: Request) -> Response:
            return await _answer(loopback.provider, protocol, request)

        return Route(path or protocol.path, endpoint, methods=["POST"])

    routes = [route(protocol) for protocol in (*CALLING, *DECISION_PROTOCOLS)]
    streamed = GENERATE.path.replace(":generate", ":streamGenerate")
    return Starlette(routes=[*routes, route(GENERATE, streamed)])


async def _answer(provider: Provider, protocol: Protocol | DecisionProtocol, request: Request) -> Response:
    asked = await request.json()
    provider.requests.append(asked)
    provider.paths.append(request.url.path)
    provider.arrived.set()
    if provider.case.act == "silence":
        await _wait(provider, request)
    elif provider.case.act == "hang up":
        request.scope["state"]["transport"].abort()
    return _refused_or_scripted(provider, protocol, asked) or _response(provider, protocol, request, asked)


async def _wait(provider: Provider, request: Request) -> None:
    while not provider.release.is_set():
        if await request.is_disconnected():
            provider.left.set()
            return
        await asyncio.sleep(0.01)


def _refused_or_scripted(
    provider: Provider, protocol: Protocol | DecisionProtocol, asked: dict[str, Any]
) -> Response | None:
    why = provider.refuses(asked) if provider.refuses is not None else ""
    if why:
        return Response(json.dumps(protocol.failure("", why)), 400, media_type="application/json")
    if not provider.script:
        return None
    answer = provider.script.pop(0)
    if isinstance(answer, bytes):
        return Response(answer, media_type="text/event-stream")
    return Response(json.dumps(answer), media_type="application/json")


def _response(
    provider: Provider, protocol: Protocol | DecisionProtocol, request: Request, asked: dict[str, Any]
) -> Response:
    case = provider.case
    if provider.refuses_once is not None:
        (status, body), provider.refuses_once = provider.refuses_once, None
        return Response(json.dumps(body), status, media_type="application/json")
    if case.act == "garbage":
        raw = b'<html>{"not": json'
    elif provider.body is not None:
        raw = json.dumps(provider.body).encode()
    elif case.status != 200:
        raw = json.dumps(protocol.failure(case.code, "as told")).encode()
    elif isinstance(protocol, DecisionProtocol):
        raw = json.dumps(protocol.answer(asked, provider.gives)).encode()
    else:
        raw = json.dumps(protocol.answer(case.text, case.finish_reason, provider.cached)).encode()
    is_written = asked.get("stream") is True or ":stream" in request.url.path
    if is_written and case.status == 200 and isinstance(protocol, Protocol) and provider.body is None:
        pieces = list(written(protocol, case.text, case.finish_reason, provider.cached))
        if case.act != "cut":
            return StreamingResponse(iter(pieces), media_type="text/event-stream")
        first = next(place for place, each in enumerate(pieces) if json.dumps(case.text[:4])[1:-1].encode() in each)
        raw = 2 * b"".join(pieces[: first + 1])  # of which the first half is sent
    if case.act == "trickle":
        return StreamingResponse(_blanks(provider, request), media_type="application/json")
    if case.act == "cut":
        return StreamingResponse(
            _half(raw, request), media_type="application/json", headers={"Content-Length": str(len(raw))}
        )
    headers = {**case.headers, **provider.headers}
    return Response(raw, case.status, media_type="application/json", headers=headers)


async def _blanks(provider: Provider, request: Request) -> AsyncIterator[bytes]:
    while not provider.release.is_set() and not await request.is_disconnected():
        yield b" "
        await asyncio.sleep(0.02)


async def _half(raw: bytes, request: Request) -> AsyncIterator[bytes]:
    yield raw[: len(raw) // 2]
    await asyncio.sleep(0.02)  # lets the first half leave
    request.scope["state"]["transport"].abort()
    yield b""


@contextmanager
def serving() -> Generator[Loopback]:
    """The server, up and running in a thread of its own."""
    # asyncio turns Nagle's algorithm off, and with it 40 ms a reply, only where the protocol is named.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    loopback = Loopback(f"http://127.0.0.1:{listening.getsockname()[1]}")
    config = uvicorn.Config(
        _app(loopback), http=_Line, ws="none", lifespan="off", log_config=None, log_level="critical", access_log=False
    )
    server = LoopbackServer(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the loopback provider did not start"
        thread.join(0.01)
    try:
        yield loopback
    finally:
        loopback.fresh()
        server.should_exit = True
        thread.join(PATIENCE_S)
