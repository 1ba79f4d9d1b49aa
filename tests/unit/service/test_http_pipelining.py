"""What is sent beside heads and bodies is bounded, and what is sent ahead of an answer does no harm."""

import asyncio
from typing import Final

import pytest
from starlette.routing import Route

from jazz_select.service.app import AppPart
from jazz_select.service.server import LARGEST_HEAD
from jazz_select.service.service_options import ServeOptions
from tests.unit.service.served import REFUND, Service, endless, shop_service, streams

pytestmark = pytest.mark.spec("008.2")
OPTIONS: Final = ServeOptions(body_timeout_s=5, head_timeout_s=5, stop_s=1, panel=False)
CHUNKED: Final = (
    b"POST /v1/select HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
HEALTHY: Final = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
MUCH: Final = 64 << 20


async def swallowed(up: Service, first: bytes, more: bytes, most: int = MUCH) -> tuple[int, bytes]:
    """How many bytes of `more`, again and again, the service takes before it closes, and what it says."""
    reader, writer = await asyncio.open_connection("127.0.0.1", up.port)
    taken, back = 0, b""
    try:
        writer.write(first)
        await writer.drain()
        await asyncio.sleep(0.2)
        async with asyncio.timeout(20):
            while taken < most:
                writer.write(more)
                await writer.drain()
                taken += len(more)
                await asyncio.sleep(0)
            back = await reader.read()
    except ConnectionError:
        pass
    except TimeoutError:  # it reads no more: that bounds it, too
        pass
    finally:
        writer.transport.abort()
    return taken, back


@pytest.mark.parametrize(
    ("first", "more"),
    [
        (CHUNKED + b"2\r\n{}\r\n0\r\n", b"a: b\r\n" * 10_000),
        (CHUNKED + b"2\r\n{}\r\n0\r\na: ", b"b" * 60_000),
        (CHUNKED + b"2\r\n{}\r\n1;", b"b" * 60_000),
        (CHUNKED[:-2] + b"expect: 100-continue\r\n\r\n2\r\n{ \r\n", b"00000000000000000000" * 3_000),
    ],
    ids=["trailers", "one trailer", "an extension of a chunk", "the size of a chunk"],
)
async def test_what_is_neither_head_nor_body_is_bounded(first: bytes, more: bytes) -> None:
    async with shop_service(options=OPTIONS) as up:
        taken, _ = await swallowed(up, first, more)
        assert taken < MUCH / 4  # what the sockets between hold is in it
        await up.rests()
        assert (await up.post("/v1/select", {"request": REFUND})).status_code == 200


async def test_a_request_for_another_protocol_is_answered_and_the_connection_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    upgrade = HEALTHY[:-2] + b"connection: upgrade\r\nupgrade: websocket\r\n\r\n"
    async with shop_service(options=OPTIONS) as up:
        reader, writer = await asyncio.open_connection("127.0.0.1", up.port)
        writer.write(upgrade)
        async with asyncio.timeout(2):
            answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.count(b"HTTP/1.1") == 1
    assert [each.message for each in caplog.records if each.name == "uvicorn.error"] == []


STREAM: Final = b"GET /mcp HTTP/1.1\r\nhost: localhost\r\n\r\n"
PART: Final = AppPart(routes=[Route("/mcp", endless)])


async def test_a_head_behind_a_stream_is_bounded() -> None:
    async with shop_service(options=OPTIONS, parts=[PART]) as up:
        taken, _ = await swallowed(up, STREAM + b"GET / HTTP/1.1\r\n", b"a: b\r\n" * 10_000)
        assert taken < MUCH / 4
        await streams(up.life, 0)


async def test_a_stream_ends_with_its_client_whatever_was_sent_behind_it() -> None:
    async with shop_service(options=OPTIONS, parts=[PART]) as up:
        _, writer = await asyncio.open_connection("127.0.0.1", up.port)
        writer.write(STREAM)
        await streams(up.life, 1)
        writer.write(HEALTHY * 2)
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.transport.abort()
        await streams(up.life, 0)


async def test_what_is_sent_before_an_answer_is_not_read_and_the_connection_closed() -> None:
    async with shop_service(options=OPTIONS) as up:
        for count in (5, LARGEST_HEAD // len(HEALTHY)):
            back = await up.raw(HEALTHY * count)
            assert back.count(b"HTTP/1.1 200") == back.count(b"connection: close") == 1
        assert (
            await up.raw(HEALTHY, HEALTHY.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"), pause_s=0.1)
        ).count(b"200 OK") == 2


async def test_small_chunks_are_a_body_as_any_other() -> None:
    async with shop_service(options=OPTIONS) as up:
        text = b'{"request": "' + REFUND.encode() + b" " * 20_000 + b'"}'
        chunks = b"".join(b"1\r\n%c\r\n" % each for each in text) + b"0\r\nx-sum: 7\r\n\r\n"
        sent = CHUNKED.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n") + chunks
        assert len(sent) > LARGEST_HEAD
        back = await up.raw(*(sent[at : at + 10_000] for at in range(0, len(sent), 10_000)), pause_s=0.001)
        assert back.startswith(b"HTTP/1.1 200")
