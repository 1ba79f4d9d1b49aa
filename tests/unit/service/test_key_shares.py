"""Public paths wait for nobody and read no body; keys have places and turns of their own; connections are bounded."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import orjson
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from jazz_select.service.app import AppPart
from jazz_select.service.http import limits
from jazz_select.service.http.shares import Shares, Threads
from jazz_select.service.service_options import ServeOptions
from tests.clock import until
from tests.unit.service.served import KEY, OTHER_KEY, REFUND, Service, Shop, catalogue, clinic, memory, service

pytestmark = pytest.mark.spec("013.3")
MINE = {"authorization": f"Bearer {KEY}"}
SLOW = b"POST %s HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n"


async def two(
    check: Callable[[Service], Awaitable[None]], options: ServeOptions, parts: Sequence[AppPart] = ()
) -> None:
    async with memory() as index:
        shops = catalogue(index, Shop().sources), catalogue(index, clinic, "clinic")
        async with service(*shops, keys=[KEY, OTHER_KEY], options=options, parts=parts) as up:
            await check(up)


async def test_strangers_take_no_place_and_are_answered_without_their_bodies() -> None:
    async def check(up: Service) -> None:
        paths = (b"/docs", b"/healthz", b"/readyz", b"/openapi.json", b"/")
        told = await asyncio.gather(*(up.raw(SLOW % path + b"x" * 10) for path in paths))
        assert [each.split(b" ", 2)[1] for each in told] == [b"405"] * 5
        assert not any(b"HTTP/1.1 408" in each for each in told)
        told = await asyncio.gather(*(up.raw(SLOW.replace(b"POST", b"GET") % path + b"x" * 10) for path in paths))
        assert [each.split(b" ", 2)[1] for each in told] == [b"200", b"200", b"200", b"200", b"307"]
        assert not up.life.in_flight
        assert (await up.post("/v1/select", {"request": REFUND}, **MINE)).status_code == 200

    await two(check, ServeOptions(max_in_flight=2, stop_s=1, panel=False, mcp=False))


async def test_strangers_who_would_wait_too_long_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_ANONYMOUS_AT_ONCE", 3.0)
    monkeypatch.setattr(limits, "_ANONYMOUS_A_SECOND", 0.001)

    async def check(up: Service) -> None:
        told = [await up.client.get(path) for path in ("/healthz", "/v1/flows", "/docs", "/healthz", "/v1/flows")]
        assert [each.status_code for each in told] == [200, 401, 200, 429, 429]
        assert int(told[-1].headers["retry-after"]) > 900
        assert (await up.client.get("/v1/flows", headers=MINE)).status_code == 200

    await two(check, ServeOptions(stop_s=1, panel=False, mcp=False))


async def test_a_key_always_has_its_part_of_the_places() -> None:
    held = asyncio.Event()

    async def hold(_: Request) -> Response:
        await held.wait()
        return Response("held")

    async def check(up: Service) -> None:
        theirs = {"authorization": f"Bearer {OTHER_KEY}"}
        holding = [asyncio.create_task(up.client.get("/v1/hold", headers=theirs)) for _ in range(3)]
        await until(lambda: up.life.in_flight == 3)
        assert (await up.client.get("/v1/hold", headers=theirs)).status_code == 429
        holding += [asyncio.create_task(up.client.get("/v1/hold", headers=MINE)) for _ in range(2)]
        await until(lambda: up.life.in_flight == 5)
        assert (await up.client.get("/v1/hold", headers=MINE)).status_code == 503
        held.set()
        assert {each.status_code for each in await asyncio.gather(*holding)} == {200}

    options = ServeOptions(max_in_flight=4, stop_s=1, panel=False, mcp=False)
    await two(check, options, [AppPart([Route("/v1/hold", hold)])])


async def test_a_body_has_so_many_values_and_no_more() -> None:
    async def check(up: Service) -> None:
        bodies: dict[str, Any] = {
            "/v1/select": {"request": "x", "context": {"rows": [0] * 100}},
            "/v1/turn": {"message": "x", "context": {str(number): {} for number in range(60)}},
        }
        for path, body in bodies.items():
            told = await up.post(path, body, **MINE)
            assert (told.status_code, "more than 100 values" in told.text) == (413, True)
        assert (await up.post("/v1/select", {"request": ",:[{" * 100}, **MINE)).status_code == 200

    await two(check, ServeOptions(max_values=100, stop_s=1, panel=False, mcp=False))


async def test_a_connection_of_a_stranger_makes_room_and_one_that_was_let_in_stays() -> None:
    ask = b"POST /v1/select HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nauthorization: Bearer %s\r\n"
    body = orjson.dumps({"request": REFUND})
    ask = ask % KEY.encode() + b"content-length: %d\r\n\r\n" % len(body) + body

    async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(ask)
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        await reader.readexactly(size)
        return head.split(b" ", 2)[1]

    async def check(up: Service) -> None:
        mine = await asyncio.open_connection("127.0.0.1", up.port)
        assert await answered(*mine) == b"200"
        strangers = [await asyncio.open_connection("127.0.0.1", up.port) for _ in range(4)]
        assert await strangers[0][0].read() == b"", "the oldest was closed"
        assert await strangers[1][0].read() == b""
        assert await answered(*mine) == b"200"
        others = [strangers[2], strangers[3]]
        assert [await answered(*each) for each in others] == [b"200", b"200"]
        assert await answered(*mine) == b"200"
        late = await asyncio.open_connection("127.0.0.1", up.port)
        assert await others[0][0].read() == b"", "of the key with the most, the idle one that was used longest ago"
        assert await answered(*late) == b"200"
        assert await answered(*mine) == b"200"
        for _, writer in (mine, *strangers, late):
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)

    for options in ({"max_connections": 3}, {"max_connections_of_one": 3}):
        await two(check, ServeOptions(**options, stop_s=1, panel=False, mcp=False))  # pyright: ignore[reportArgumentType]


async def test_who_asks_without_a_key_more_often_than_is_answered_waits_and_nobody_else_does() -> None:
    async def check(up: Service) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for _ in range(50):
            assert (await up.client.get("/healthz")).status_code == 200
            assert (await up.client.get("/v1/flows")).status_code == 401
        at_once_s = loop.time() - began
        for _ in range(50):
            assert (await up.client.get("/healthz")).status_code == 200
            assert (await up.client.get("/v1/flows")).status_code == 401
        held_s = loop.time() - began - at_once_s
        assert held_s > 0.5
        assert held_s > at_once_s
        began = loop.time()
        assert (await up.post("/v1/select", {"request": REFUND}, **MINE)).status_code == 200
        assert loop.time() - began < 0.5

    await two(check, ServeOptions(stop_s=1, panel=False, mcp=False))


# --- turns ---------------------------------------------------------------------------


async def worked(shares: Shares, whose: str, seconds: float, log: list[str]) -> None:
    async with shares.at_work(whose):
        log.append(whose)
        await asyncio.sleep(seconds)


async def test_one_key_alone_waits_for_nothing() -> None:
    shares, log = Shares(ServeOptions(), 2), list[str]()
    for _ in range(3):
        await asyncio.gather(*(worked(shares, "a", 1, log) for _ in range(50)))
    assert asyncio.get_running_loop().time() < 3.1
    assert len(log) == 150


async def test_who_asks_little_waits_for_one_request_of_who_asks_much() -> None:
    shares, log = Shares(ServeOptions(), 3), list[str]()
    keys = {"a": 40, "b": 2, "c": 40}
    async with shares.at_work("b"):
        waiting = [asyncio.create_task(worked(shares, key, 0.01, log)) for key in ("a", "c") for _ in range(keys[key])]
        await asyncio.sleep(0)
        assert log == ["a"], "one of each of two keys"
    for _ in range(keys["b"]):
        before = len(log)
        await worked(shares, "b", 0.01, log)
        assert log[before:].index("b") <= 2
    await asyncio.gather(*waiting)
    assert sorted(log) == sorted(key for key, times in keys.items() for _ in range(times))
    rest = [key for key in log if key != "b"]
    assert all(abs(rest[:end].count("a") - rest[:end].count("c")) <= 2 for end in range(len(rest))), "these in turn"


async def test_a_request_that_waits_for_somebody_else_keeps_no_turn() -> None:
    shares, log = Shares(ServeOptions(), 2), list[str]()
    waiting = [asyncio.create_task(worked(shares, key, 30, log)) for key in ("a", "b", "a", "b", "a")]
    await asyncio.sleep(1)
    assert sorted(log) == ["a", "a", "a", "b", "b"]
    await asyncio.gather(*waiting)


async def test_who_leaves_while_it_waits_leaves_nothing_behind() -> None:
    shares, log = Shares(ServeOptions(), 2), list[str]()
    async with shares.at_work("b"):
        waiting = [asyncio.create_task(worked(shares, "a", 0.001, log)) for _ in range(5)]
        await asyncio.sleep(0)
        for each in waiting[1:3]:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    assert log == ["a"] * 3
    await asyncio.wait_for(worked(shares, "a", 0, log), 1)


async def computed(shares: Shares, whose: str, pieces: int, log: list[str]) -> None:
    """A request of several pieces of work in a thread, each a tenth of a second."""
    async with shares.at_work(whose) as share:
        for _ in range(pieces):
            await share.acquire()
            log.append(whose)
            try:
                await asyncio.sleep(0.1)
            finally:
                share.release()
            await share.resume()


async def test_a_key_whose_work_is_in_threads_takes_one_and_waits_for_who_asks_little() -> None:
    shares, log = Shares(ServeOptions(), 2), list[str]()
    heavy = [asyncio.create_task(computed(shares, "heavy", 5, log)) for _ in range(12)]
    await asyncio.sleep(0.55)
    for _ in range(3):
        loop, before = asyncio.get_running_loop(), len(log)
        began = loop.time()
        await computed(shares, "light", 2, log)
        assert loop.time() - began < 0.35, "two pieces of its own, and at most one of the other's"
        assert log[before:].count("heavy") <= 3
        await asyncio.sleep(0.3)
    await asyncio.gather(*heavy)
    assert log.count("heavy") == 60


async def test_a_new_turn_takes_over_the_thread_that_the_request_waits_for() -> None:
    shares, log, loop = Shares(ServeOptions(), 2), list[str](), asyncio.get_running_loop()
    async with shares.at_work("b"), shares.at_work("a") as share:
        await share.acquire()
        second = asyncio.create_task(share.acquire())
        await asyncio.sleep(1)
        await share.resume()
        for _ in range(2):
            share.release()
            await second
        began = loop.time()
        await asyncio.gather(worked(shares, "b", 0, log), worked(shares, "a", 0, log))
        assert loop.time() - began < 0.1, "the request is in no thread, so it keeps no turn for long"


async def test_who_leaves_while_it_waits_for_a_thread_gives_it_back() -> None:
    shares, log = Shares(ServeOptions(), 2), list[str]()
    tasks = [asyncio.create_task(computed(shares, "a", 2, log)) for _ in range(8)]
    await asyncio.sleep(0.05)
    for each in tasks[:6]:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.wait_for(computed(shares, "a", 1, log), 1)
    await asyncio.wait_for(computed(shares, "b", 1, log), 1)


async def test_every_key_has_a_thread_and_none_takes_the_last() -> None:
    threads = Threads(most=3)
    for _ in range(2):
        await threads.acquire("a")
    third = asyncio.create_task(threads.acquire("a"))
    await asyncio.sleep(0)
    assert not third.done()
    for key in "bcd":
        await asyncio.wait_for(threads.acquire(key), 1)
    threads.release("a")
    await asyncio.sleep(0)
    assert not third.done(), "others have theirs"
    for key in "abcd":
        threads.release(key)
    await asyncio.wait_for(third, 1)
