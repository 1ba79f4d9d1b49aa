"""What becomes of a service that fails: errors with a name, asked again where that does no harm, and never a hang."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from jazz_select import errors
from jazz_select.client import (
    RemoteAgent,
    RemoteSelector,
    ServiceBusyError,
    ServiceError,
    ServiceKeyError,
    ServiceReplyError,
    ServiceTimeoutError,
    ServiceUnavailableError,
)
from jazz_select.client.connection import LARGEST_ANSWER
from jazz_select.selector.result import FlowSelectionResult
from tests.clock import until
from tests.unit.client.serving import Act, acting, hangs, problem, raw, says

NOTHING = FlowSelectionResult().to_dict()
OK = says(200, NOTHING)
Call = Callable[[str], Awaitable[Any]]


def selecting(**options: Any) -> Call:
    async def call(url: str) -> Any:
        async with RemoteSelector(url, **options) as remote:
            return await remote.select("x")

    return call


def turning(**options: Any) -> Call:
    async def call(url: str) -> Any:
        async with RemoteAgent(url, **options) as remote:
            return await remote.turn("x")

    return call


def streaming(**options: Any) -> Call:
    async def call(url: str) -> Any:
        async with RemoteAgent(url, **options) as remote:
            return [event async for event in remote.stream("x")]

    return call


def events(*frames: bytes) -> Act:
    """A stream of these."""
    return says(200, b"".join(frames), media="text/event-stream")


CASES: list[tuple[str, Act, type[Exception], str]] = [
    ("401", says(401, {}), ServiceKeyError, "it requires a key"),
    ("403", problem(403, "forbidden"), ServiceKeyError, "key"),
    ("421", problem(421, "wrong_host", "for localhost"), ServiceError, "for localhost"),
    ("413", problem(413, "content_too_large", "too large"), ServiceError, "too large"),
    ("429", problem(429, "too_many_requests"), ServiceBusyError, "ask again later"),
    ("503, no room", problem(503, "no_room"), ServiceBusyError, "too much to do"),
    (
        "503",
        problem(503, "StoreError", "its log says why"),
        ServiceUnavailableError,
        r"its log says why \(StoreError, requ",
    ),
    ("502 of a proxy", says(502, b"<html>"), ServiceUnavailableError, "HTTP 502, from something that stands before it"),
    ("500", problem(500, "internal_server_error"), ServiceError, "internal_server_error, request r1"),
    ("404 of another", says(404, b"<html>Not Found"), ServiceReplyError, "HTTP 404"),
    ("a redirect", says(307, b"", location="http://127.0.0.1:1/"), ServiceReplyError, "HTTP 307"),
    ("400", problem(400, "ConfigError", "top_k is wrong"), errors.ConfigError, "^top_k is wrong$"),
    ("400 of a body", problem(400, "invalid_body", "the body: no"), errors.ConfigError, "the body: no"),
    ("400 of a conversation", problem(400, "SnapshotError", "not signed"), errors.SnapshotError, "^not signed$"),
    ("an error of nobody", problem(400, "SystemExit", "x"), ServiceError, "x"),
    ("a long word of why", problem(400, "ConfigError", "x" * 9_000), errors.ConfigError, "x…$"),
    ("nothing at all", raw(b""), ServiceUnavailableError, "is it running"),
    ("a reset", raw(b"", reset=True), ServiceUnavailableError, "is it running"),
    ("half a head", raw(b"HTTP/1.1 200 O"), ServiceUnavailableError, "is it running"),
    ("half a body", raw(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{"), ServiceUnavailableError, "is it running"),
    ("no HTTP", raw(b"SSH-2.0-OpenSSH_9\r\n\r\n"), ServiceUnavailableError, "is it running"),
    ("an encoding", says(200, b"x", content_encoding="gzip"), ServiceReplyError, "in the encoding 'gzip'"),
]


@pytest.mark.spec("008.2")
@pytest.mark.parametrize(("act", "kind", "told"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
@pytest.mark.parametrize("call", [selecting, turning, streaming], ids=lambda call: call.__name__)
async def test_each_failure_is_an_error_with_a_name(
    call: Callable[..., Call], act: Act, kind: type[Exception], told: str
) -> None:
    async with acting(act) as script:
        with pytest.raises(kind, match=told) as raised:
            await call(max_retries=0)(script.url)
        assert isinstance(raised.value, errors.JazzSelectError)
        assert type(raised.value) is kind
        assert script.connections == 1


@pytest.mark.spec("008.2")
@pytest.mark.parametrize("code", ["ModelError", "StoreError", "no_room"])
async def test_whoever_says_when_to_come_again_is_heard(code: str) -> None:
    async with acting(problem(503, code, retry_after="7")) as script:
        with pytest.raises(ServiceError) as raised:
            await selecting(max_retries=0)(script.url)
        assert (raised.value.retry_after, raised.value.retryable) == (7.0, True)
    async with acting(says(503, b"<html>", retry_after="7")) as script:
        with pytest.raises(ServiceUnavailableError) as gone:
            await selecting(max_retries=0)(script.url)
        assert gone.value.retry_after == 7


def test_all_of_them_have_one_root() -> None:
    own = [kind for name, kind in vars(errors).items() if name.startswith("Service")]
    assert len(own) == 6
    assert all(issubclass(kind, ServiceError) for kind in own)


PASSING: list[tuple[str, Act, bool]] = [
    ("a reset", raw(b"", reset=True), False),
    ("closed", raw(b""), False),
    ("half a body", raw(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{"), False),
    ("502", says(502, b""), False),
    ("503 of what it needs", problem(503, "StoreError"), False),
    ("429", problem(429, "too_many_requests", retry_after="0"), True),
    ("503, no room", problem(503, "no_room", retry_after="0"), True),
]
"""What passes, and whether nothing was done."""


@pytest.mark.parametrize(("act", "undone"), [case[1:] for case in PASSING], ids=[case[0] for case in PASSING])
async def test_a_selection_is_asked_for_again_and_a_turn_only_where_nothing_was_done(act: Act, *, undone: bool) -> None:
    async with acting(act, act, OK) as script:
        assert (await selecting()(script.url)).to_dict() == NOTHING
        assert len(script.requests) == 3
    for call in (turning, streaming):
        async with acting(act, says(400, {"detail": "second", "code": "x"})) as script:
            with pytest.raises(ServiceError) as raised:
                await call()(script.url)
            assert len(script.requests) == 1 + undone
            assert ("second" in str(raised.value)) is undone


async def test_it_is_asked_a_bounded_number_of_times() -> None:
    async with acting(raw(b"")) as script:
        with pytest.raises(ServiceUnavailableError):
            await selecting(max_retries=1)(script.url)
        assert script.connections == 2


async def test_a_refused_connection_is_tried_again_even_for_a_turn() -> None:
    taken = socket.socket()  # bound and not listening: nobody else gets the port, and who connects is refused
    taken.bind(("127.0.0.1", 0))
    address = taken.getsockname()

    async def later() -> asyncio.Server:
        await asyncio.sleep(0.15)

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            await says(400, {"detail": "here now", "code": "x"})(reader, writer)
            writer.close()

        return await asyncio.start_server(connected, sock=taken)

    with pytest.raises(ServiceUnavailableError, match="ConnectError"):
        await turning(max_retries=0)(f"http://127.0.0.1:{address[1]}")
    begun = asyncio.create_task(later())
    with pytest.raises(ServiceError, match="here now"):
        await turning(max_retries=6)(f"http://127.0.0.1:{address[1]}")
    (await begun).close()


async def test_it_waits_as_long_as_it_is_asked_to_and_not_beyond_its_time() -> None:
    loop = asyncio.get_running_loop()
    async with acting(problem(429, "too_many_requests", retry_after="1"), OK) as script:
        began = loop.time()
        await selecting()(script.url)
        assert loop.time() - began >= 1.0
    async with acting(problem(429, "too_many_requests", retry_after="3600")) as script:
        with pytest.raises(ServiceBusyError, match="ask again in 3600 s") as raised:
            await selecting(timeout_s=5.0)(script.url)
        assert (raised.value.retry_after, raised.value.retryable) == (3600.0, True)
        assert script.connections == 1


@pytest.mark.parametrize(("value", "wait_s"), [("3", 3.0), ("1e9", 86_400.0), ("soon", None), ("-7", None)])
async def test_how_long_to_wait(value: str, wait_s: float | None) -> None:
    async with acting(problem(429, "too_many_requests", retry_after=value)) as script:
        with pytest.raises(ServiceBusyError) as raised:
            await selecting(max_retries=0)(script.url)
        assert raised.value.retry_after == wait_s


SLOW = [
    ("nothing", hangs()),
    ("half a head", hangs(b"HTTP/1.1 200 OK\r\n")),
    ("half a body", hangs(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{")),
    ("half an event", hangs(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nevent: x\n")),
]


@pytest.mark.parametrize("act", [act for _, act in SLOW], ids=[name for name, _ in SLOW])
@pytest.mark.parametrize("call", [selecting, turning, streaming], ids=lambda call: call.__name__)
async def test_one_that_hangs_is_waited_for_no_longer_than_said(call: Callable[..., Call], act: Act) -> None:
    async with acting(act) as script:
        with pytest.raises(ServiceTimeoutError, match=r"no answer within 0\.1 s") as raised:
            await call(timeout_s=0.1)(script.url)
        assert raised.value.timeout_s == 0.1


async def _awaited(work: Awaitable[Any]) -> Any:
    return await work


async def test_a_cancellation_passes_and_ends_the_connection() -> None:
    left = asyncio.Event()

    async def act(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()
        left.set()

    for call in (selecting, turning, streaming):
        left.clear()
        async with acting(act) as script:
            task: asyncio.Task[Any] = asyncio.create_task(_awaited(call(timeout_s=None)(script.url)))
            await until(lambda: script.requests)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.wait_for(left.wait(), 10)


async def test_an_answer_without_an_end_is_left() -> None:
    async def act(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        for _piece in range(LARGEST_ANSWER // 1_000_000 + 2):
            writer.write(b"x" * 1_000_000)
            await writer.drain()

    for call in (selecting, streaming):
        async with acting(act) as script:
            with pytest.raises(ServiceReplyError, match=str(LARGEST_ANSWER)):
                await call()(script.url)


FRAMES: list[tuple[str, list[bytes], type[Exception], str]] = [
    (
        "no last one",
        [b'event: model_called\ndata: {"purpose": "chain", "number": 1}\n\n'],
        ServiceUnavailableError,
        "broke off",
    ),
    ("none", [b": still here\n\n"], ServiceUnavailableError, "broke off"),
    (
        "a problem",
        [b'event: problem\ndata: {"detail": "lost", "code": "internal_server_error", "status": 500}\n\n'],
        ServiceError,
        "lost",
    ),
    ("a problem of a key", [b'event: problem\ndata: {"status": 401}\n\n'], ServiceKeyError, "key"),
    ("a problem that is none", [b"event: problem\ndata: []\n\n"], ServiceReplyError, "HTTP 500"),
    ("no JSON", [b"event: flow_chosen\ndata: {\n\n"], ServiceReplyError, "no JSON"),
    ("of the wrong kind", [b'event: flow_chosen\ndata: {"flow": 7}\n\n'], ServiceReplyError, "FlowChosen"),
    ("no object", [b"event: flow_chosen\ndata: 7\n\n"], ServiceReplyError, "FlowChosen"),
    ("no result", [b"event: finished\ndata: {}\n\n"], ServiceReplyError, "TurnResult"),
]


@pytest.mark.parametrize(("frames", "kind", "told"), [case[1:] for case in FRAMES], ids=[case[0] for case in FRAMES])
async def test_a_stream_that_is_not_as_it_should_be(frames: list[bytes], kind: type[Exception], told: str) -> None:
    async with acting(events(*frames)) as script:
        with pytest.raises(kind, match=told):
            await streaming()(script.url)
        assert len(script.requests) == 1
