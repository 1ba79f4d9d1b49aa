"""What is no request of ours is refused with the reason: no failure, no hang, and nothing of anybody else."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from hashlib import sha256
from typing import Any

import httpx
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.routing import Route

from jazz_select.errors import ConfigError
from jazz_select.service.agents import ServedAgents, hash_key
from jazz_select.service.api.operations import OPERATIONS
from jazz_select.service.app import AppPart, make_app
from jazz_select.service.http.limits import AdmissionMiddleware, Lifecycle, TokenBucket
from jazz_select.service.server import LARGEST_HEAD
from jazz_select.service.service_options import ServeOptions
from tests.clock import until
from tests.unit.service.served import (
    KEY,
    OTHER_KEY,
    REFUND,
    Service,
    Shop,
    asking,
    beside,
    catalogue,
    clinic,
    endless,
    memory,
    service,
    shop_service,
    streams,
)

pytestmark = pytest.mark.spec("008.2")
JSON = b"content-type: application/json\r\n"
IMPATIENT = ServeOptions(
    max_body=2_000, body_timeout_s=0.1, head_timeout_s=0.1, stop_s=1, panel=False, mcp=False, max_in_flight=2
)


@pytest.fixture(scope="module")
def shop() -> Iterator[Service]:
    with beside() as up:
        yield up


@pytest.fixture(scope="module")
def impatient() -> Iterator[Service]:
    with beside(IMPATIENT) as up:
        yield up


def problem_in(response: httpx.Response, status: int) -> dict[str, Any]:
    """The problem, once it is seen to be one."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    told = response.json()
    assert told.keys() == {"type", "title", "status", "detail", "code", "request_id"}
    assert (told["status"], told["request_id"]) == (status, response.headers["x-request-id"])
    return told


def status_of(raw: bytes) -> int:
    """Of an answer as it came."""
    return int(raw.split(b" ", 2)[1])


def posted(body: bytes, *headers: bytes, path: bytes = b"/v1/select") -> bytes:
    """A request as it is sent."""
    head = b"".join(each + b"\r\n" for each in headers)
    length = (
        b""
        if any(each.startswith((b"content-length", b"transfer")) for each in headers)
        else (b"content-length: %d\r\n" % len(body))
    )
    return b"POST " + path + b" HTTP/1.1\r\nhost: localhost\r\n" + JSON + length + head + b"\r\n" + body


BODIES: dict[str, bytes] = {
    "empty": b"",
    "no JSON": b"{request: x",
    "a list": b"[]",
    "a text": b'"refund"',
    "no request": b"{}",
    "another field": b'{"request": "x", "requset": "y"}',
    "a number for a text": b'{"request": 7}',
    "null for a text": b'{"request": null}',
    "a text for a list": b'{"request": "x", "episode_summaries": "y"}',
    "a list for a mapping": b'{"request": "x", "context": []}',
    "bad UTF-8": b'{"request": "\xff\xfe"}',
    "NaN": b'{"request": "x", "context": {"n": NaN}}',
    "an endless number": b'{"request": "x", "context": {"n": 1e999}}',
    "deep": b'{"request": "x", "context": {"n": ' + b"[" * 5_000 + b"]" * 5_000 + b"}}",
    "zero bytes": b"\x00" * 100,
    "candidates that are none": b'{"request": "x", "candidates": [7]}',
    "an answer to no question": b'{"request": "2", "asked": {"tier": "open", "reason": "none"}}',
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_a_body_that_is_not_what_is_taken_is_refused(shop: Service, body: bytes) -> None:
    async with asking(shop) as up:
        response = await up.client.post("/v1/select", content=body, headers={"content-type": "application/json"})
        told = problem_in(response, 400)
        assert told["code"] in {"invalid_body", "not_json"}
        assert (await up.post("/v1/select", {"request": REFUND})).status_code == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/select_many", {"requests": ["x"] * 501}),
        ("/v1/select_many", {"requests": [7]}),
        ("/v1/select_many", {"requests": "x"}),
        ("/v1/recall", {"request": "x", "top_k": 0}),
        ("/v1/recall", {"request": "x", "top_k": True}),
        ("/v1/recall", {"request": "x", "top_k": "all"}),
        ("/v1/recall", {"request": "x", "coverage": 2}),
        ("/v1/turn", {"message": "x", "timeout_s": 0}),
        ("/v1/turn", {"message": "x", "timeout_s": 1e9}),
        ("/v1/turn", {"message": "x", "history": {"messages": []}}),
        ("/v1/turn", {"message": "x", "history": "[]"}),
        ("/v1/turn", {"message": "x", "history": "{}"}),
        ("/v1/turn", {"message": "x", "schema": {"type": "no such type"}}),
        ("/v1/turn", {"message": "x", "schema": {"$ref": "http://127.0.0.1:1/x"}}),
        ("/v1/turn", {"message": "x", "schema": {"type": "object", "description": "x" * 70_000}}),
        ("/v1/feedback", {"selection": "x", "right": []}),
        ("/v1/feedback", {"selection": "x"}),
    ],
)
async def test_arguments_that_cannot_work_are_refused(shop: Service, path: str, body: Any) -> None:
    async with asking(shop) as up:
        problem_in(await up.post(path, body), 400)


async def test_what_is_not_there_or_asked_otherwise_is_refused(shop: Service) -> None:
    async with asking(shop) as up:
        nothing = problem_in(await up.client.get("/v1/nothing"), 404)
        assert (nothing["code"], "/docs lists" in nothing["detail"]) == ("not_found", True)
        problem_in(await up.client.get("/v1/flows/" + "x" * 5_000), 404)
        refused = await up.client.get("/v1/select")
        told = problem_in(refused, 405)
        assert (told["code"], "this path takes POST" in told["detail"]) == ("method_not_allowed", True)
        assert refused.headers["allow"] == "POST"
        problem_in(await up.client.post("/v1/select", content=b"request=x"), 415)
        problem_in(await up.client.request("PATCH", "/v1/select"), 405)


async def test_a_body_is_not_too_large_and_comes_in_time(impatient: Service) -> None:
    async with asking(impatient) as up:
        large = orjson.dumps({"request": "x" * 3_000})
        problem_in(await up.client.post("/v1/select", content=large, headers={"content-type": "application/json"}), 413)

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(300):
                yield b" " * 10_000

        chunked = await up.client.post("/v1/select", content=pieces(), headers={"content-type": "application/json"})
        problem_in(chunked, 413)
        slow = posted(b'{"request', b"content-length: 100")
        assert status_of(await up.raw(slow)) == 408
        assert status_of(await up.raw(slow, b'": "x"}', pause_s=0.05)) == 408
        assert (await up.post("/v1/select", {"request": REFUND})).status_code == 200
        await up.rests()


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param([b"GET /healthz HTT"], id="half a line"),
        pytest.param([b"GET /healthz HTTP/1.1\r\nhost: loc"], id="half a header"),
        pytest.param([b"\r\n\r\n"], id="blank lines"),
        pytest.param([b"\x16\x03\x01\x02\x00\x01"], id="TLS"),
        pytest.param([b"nonsense\r\n\r\n"], id="nonsense"),
        pytest.param([b"GET /\xff\xfe HTTP/1.1\r\nhost: localhost\r\n\r\n"], id="a path in no encoding"),
        pytest.param([b"GET / HTTP/1.1\r\nx: " + b"y" * 2 * LARGEST_HEAD], id="an endless header"),
        pytest.param([posted(b"zz\r\n", b"transfer-encoding: chunked")], id="a chunk that is none"),
        pytest.param([posted(b"{}", b"content-length: -1")], id="a length below nothing"),
        pytest.param([posted(b"{}", b"content-length: 2", b"content-length: 9")], id="two lengths"),
        pytest.param([posted(b'{"requ', b"content-length: 100")], id="a body that stops"),
        pytest.param([b"GET /healthz HTTP/1.1\r\n", b"host: localhost\r\n"], id="line by line"),
    ],
)
@pytest.mark.parametrize("eof", [False, True], ids=["waits", "closes its side"])
async def test_a_connection_that_sends_no_request_ends(impatient: Service, sent: list[bytes], *, eof: bool) -> None:
    async with asking(impatient) as up:
        back = await up.raw(*sent, eof=eof, pause_s=0.01)
        assert not back or 400 <= status_of(back) < 500
        assert (await up.post("/v1/select", {"request": REFUND})).status_code == 200
        await up.rests()


async def test_who_leaves_before_the_answer_leaves_nothing_behind() -> None:
    async with shop_service() as up:
        request = posted(orjson.dumps({"requests": [REFUND] * 200}), path=b"/v1/select_many")
        for _ in range(5):
            _, writer = await asyncio.open_connection("127.0.0.1", up.port)
            writer.write(request)
            await writer.drain()
            writer.transport.abort()
        assert (await up.post("/v1/select", {"request": REFUND})).status_code == 200
        await up.rests()


async def test_more_than_there_is_room_for_is_refused_at_once() -> None:
    held = [posted(b'{"requ', b"content-length: 100") for _ in range(2)]
    async with shop_service(options=ServeOptions(max_in_flight=2, body_timeout_s=0.3, stop_s=3)) as up:
        waiting = [asyncio.create_task(up.raw(each)) for each in held]
        await until(lambda: up.life.in_flight >= 2)
        refused = await up.post("/v1/select", {"request": REFUND})
        assert problem_in(refused, 503)["code"] == "no_room"
        assert refused.headers["retry-after"] == "1"
        assert (await up.client.get("/readyz")).status_code == 200, "who looks after it is still answered"
        assert [status_of(each) for each in await asyncio.gather(*waiting)] == [408, 408]


HELD = AppPart(routes=[Route("/mcp", endless)])
LISTEN = b"GET /mcp HTTP/1.1\r\nhost: localhost\r\n\r\n"


async def test_as_many_streams_are_held_open_as_there_may_be_and_not_one_more() -> None:
    options = ServeOptions(max_streams=2, stop_s=1, panel=False, mcp=False)
    async with shop_service(options=options, parts=[HELD]) as up:
        held = [await asyncio.open_connection("127.0.0.1", up.port) for _ in range(2)]
        for number, (_, writer) in enumerate(held, start=1):
            writer.write(LISTEN)
            await streams(up.life, number)
        refused = await up.client.get("/mcp")
        assert problem_in(refused, 503)["code"] == "no_room"
        assert refused.headers["retry-after"] == "1"
        held[0][1].transport.abort()
        await streams(up.life, 1)
        held[0] = await asyncio.open_connection("127.0.0.1", up.port)
        held[0][1].write(LISTEN)
        await streams(up.life, 2)
        for _, writer in held:
            writer.transport.abort()


async def test_who_is_about_to_stop_takes_no_stream_and_answers_the_rest() -> None:
    async with shop_service(options=ServeOptions(stop_s=1, panel=False, mcp=False), parts=[HELD]) as up:
        up.life.stop()
        assert problem_in(await up.client.get("/mcp"), 503)["code"] == "no_room"
        assert (await up.post("/v1/select", {"request": REFUND})).status_code == 200


async def test_the_end_ends_what_is_held_open() -> None:
    async with shop_service(options=ServeOptions(stop_s=1, panel=False, mcp=False), parts=[HELD]) as up:
        _, writer = await asyncio.open_connection("127.0.0.1", up.port)
        writer.write(LISTEN)
        await streams(up.life, 1)
        up.life.end()
        await streams(up.life, 0)
        assert (up.life.is_stopping, up.life.is_over) == (True, True)
        writer.transport.abort()


async def test_a_websocket_is_refused_at_the_door() -> None:
    async with memory() as index:
        app = make_app(ServedAgents({"shop": catalogue(index, Shop().sources)}, is_open=True))
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "websocket.connect"}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "websocket", "path": "/v1/select", "headers": [(b"host", b"localhost")], "query_string": b""}
        await app(scope, receive, send)
        assert sent == [{"type": "websocket.close", "code": 1008}]


async def test_a_key_that_asks_too_often_is_refused_and_no_other() -> None:
    options = ServeOptions(rate=0.001, burst=2, stop_s=1)
    async with memory() as index:
        shops = catalogue(index, Shop().sources), catalogue(index, clinic, "clinic")
        async with service(*shops, keys=[KEY, OTHER_KEY], options=options) as up:
            said = [(await up.client.get("/v1/flows", headers=bearer(KEY))) for _ in range(3)]
            assert [each.status_code for each in said] == [200, 200, 429]
            assert int(said[-1].headers["retry-after"]) > 100
            assert (await up.client.get("/v1/flows", headers=bearer(OTHER_KEY))).status_code == 200


async def test_at_once_there_may_be_as_many_as_in_two_seconds() -> None:
    async with memory() as index:
        for rate, most in ((0.4, 1), (2.5, 5)):
            options = ServeOptions(rate=rate, stop_s=1)
            async with service(catalogue(index, Shop().sources), keys=[KEY], options=options) as up:
                asked = (up.client.get("/v1/flows", headers=bearer(KEY)) for _ in range(most + 1))
                said = sorted(each.status_code for each in await asyncio.gather(*asked))
            assert said == [*[200] * most, 429]


async def through_the_door(scope: dict[str, Any], *messages: dict[str, Any]) -> list[Any]:
    """What an app behind the door of an open service is asked."""
    asked: list[Any] = []
    left = iter(messages)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        asked.append((scope["type"], await receive()))

    async def receive() -> Any:
        return next(left)

    async def send(message: Any) -> None:
        pytest.fail(f"nobody answers {message}")

    async with memory() as index:
        served = ServedAgents({"shop": catalogue(index, Shop().sources)}, is_open=True)
        await AdmissionMiddleware(app, served=served, options=ServeOptions(), life=Lifecycle())(scope, receive, send)
    return asked


async def test_what_is_no_request_is_the_apps() -> None:
    begins = {"type": "lifespan.startup"}
    assert await through_the_door({"type": "lifespan"}, begins) == [("lifespan", begins)]


async def test_a_body_whose_sender_left_is_nobodys() -> None:
    headers = [(b"host", b"localhost"), (b"content-length", b"9")]
    scope = {"type": "http", "method": "POST", "path": "/v1/select", "headers": headers, "server": ("localhost", 80)}
    begun = {"type": "http.request", "body": b"{", "more_body": True}
    whole = {"type": "http.request", "body": b"}"}
    assert await through_the_door(dict(scope), begun, {"type": "http.disconnect"}) == []
    assert await through_the_door(dict(scope), begun, whole) == [("http", {"type": "http.request", "body": b"{}"})]


@pytest.mark.parametrize("by", ["who asked", "the service"])
async def test_a_stream_that_is_ended_is_over_and_only_its_caller_is_cancelled_with_it(by: str) -> None:
    over: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            over.append(scope["path"])

    life = Lifecycle()
    scope = {"type": "http", "method": "GET", "path": "/mcp", "headers": [(b"host", b"localhost")]}
    async with memory() as index:
        served = ServedAgents({"shop": catalogue(index, Shop().sources)}, is_open=True)
        door = AdmissionMiddleware(app, served=served, options=ServeOptions(), life=life)
        held = asyncio.ensure_future(door(scope, nothing, nothing))
        await streams(life, 1)
        if by == "who asked":
            held.cancel()
        else:
            life.stop()
        await asyncio.wait([held])
        await until(lambda: bool(over))
    assert (held.cancelled(), over, life.streams) == (by == "who asked", ["/mcp"], set())


async def nothing(*_: Any) -> Any:
    """Neither asks nor hears anything."""


async def test_one_key_is_one_caller_however_it_is_written() -> None:
    options = ServeOptions(rate=0.001, burst=2, stop_s=1)
    written = [f"Bearer {KEY}", f"bearer  {KEY}", f"BEARER {KEY}", f"beareR    {KEY}"]
    async with memory() as index:
        async with service(catalogue(index, Shop().sources), keys=[KEY], options=options) as up:
            said = [await up.client.get("/v1/flows", headers={"authorization": each}) for each in written]
            assert [each.status_code for each in said] == [200, 200, 429, 429]
        async with service(catalogue(index, Shop().sources), options=options) as up:
            said = [await up.client.get("/v1/flows", headers=bearer(f"made up {n}")) for n in range(3)]
            assert [each.status_code for each in said] == [200, 200, 429], "no key is needed, and none gives more"


def test_a_bucket_fills_as_time_passes() -> None:
    now = [0.0]
    bucket = TokenBucket(2.0, 3.0, lambda: now[0])
    assert [bucket.wait_s() for _ in range(4)] == [0, 0, 0, 0.5]
    now[0] = 0.5
    assert bucket.wait_s() == 0
    now[0] = 100
    assert [bucket.wait_s() > 0 for _ in range(4)] == [False, False, False, True]
    now[0] = 200
    assert [bucket.wait_s(ahead_s=1.0) for _ in range(7)] == [0, 0, 0, 0.5, 1.0, 1.5, 1.5], "no more than so far ahead"


async def test_no_line_of_the_log_is_written_by_a_client(shop: Service, caplog: pytest.LogCaptureFixture) -> None:
    forged = 'x> | ok\n{"time": "2026-01-01"}\r\x1b[31m\u2028'
    given_ids = [forged, "b" * 100_000]
    candidates = [{"flow_id": each, "flow_name": "a", "description": "b"} for each in given_ids]
    async with asking(shop) as up:
        for each in candidates:
            response = await up.post("/v1/select", {"request": REFUND, "candidates": [each]})
            assert response.status_code == 200
    lines = [record.getMessage() for record in caplog.records if "flow is not run" in record.getMessage()]
    assert len(lines) == 2
    assert all(len(line) < 1_000 and line.isprintable() for line in lines)


# --- keys --------------------------------------------------------------------------


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer"},
        bearer("wrong"),
        bearer(KEY[:-1]),
        bearer(KEY + "x"),
        {"authorization": KEY},
        {"authorization": f"Basic {KEY}"},
        bearer(sha256(KEY.encode()).hexdigest()),
    ],
)
async def test_without_its_key_an_agent_says_nothing(headers: dict[str, str]) -> None:
    async with shop_service(keys=[KEY]) as up:
        for operation in OPERATIONS:
            if operation.public:
                continue
            path = operation.path.replace("{name:path}", "refund_order")
            refused = await up.client.request(operation.method, path, headers=headers)
            told = problem_in(refused, 401)
            assert refused.headers["www-authenticate"] == "Bearer"
            assert "refund" not in told["detail"]


async def test_each_key_of_an_agent_opens_it() -> None:
    async with memory() as index:
        shop, other = catalogue(index, Shop().sources), catalogue(index, clinic, "clinic")
        keys = {hash_key(key): agent for key, agent in ((KEY, "shop"), (OTHER_KEY, "clinic"), ("a-new-key", "shop"))}
        served = ServedAgents({"shop": shop, "clinic": other}, keys)
        opens = [served.of_key(key) for key in (KEY, "a-new-key", OTHER_KEY, "another", "", None)]
        assert opens == [shop, shop, other, None, None, None]


async def test_of_two_keys_none_counts() -> None:
    async with shop_service(keys=[KEY]) as up:
        twice = [("authorization", f"Bearer {KEY}"), ("authorization", "Bearer wrong")]
        for headers in (twice, twice[::-1], [twice[0], twice[0]]):
            told = problem_in(await up.client.get("/v1/flows", headers=headers), 400)
            assert told["code"] == "several_keys"


@pytest.mark.spec("008.2")
async def test_a_key_opens_one_agent_and_shows_nothing_of_another() -> None:
    async with memory() as index:
        shops = catalogue(index, Shop().sources), catalogue(index, clinic, "clinic")
        async with service(*shops, keys=[KEY, OTHER_KEY]) as up:
            mine, theirs = bearer(KEY), bearer(OTHER_KEY)
            told = (await up.post("/v1/select", {"request": "see a doctor, book a visit"}, **mine)).json()
            assert {each["flow_name"] for each in told["candidates"]} <= {"refund_order", "track_order", "cancel_order"}
            told = (await up.post("/v1/select", {"request": "book a visit"}, **theirs)).json()
            assert [each["flow_name"] for each in told["chosen"]] == ["book_visit"]
            assert (await up.client.get("/v1/flows/book_visit", headers=mine)).status_code == 404
            listed = (await up.client.get("/v1/flows", headers=mine)).text
            measured = (await up.client.get("/metrics", headers=mine)).text
            assert "clinic" not in listed + measured
            assert 'agent="shop"' in measured
            begun = (await up.post("/v1/turn", {"message": "book a visit"}, **theirs)).json()
            stolen = {"message": "yes", "history": begun["conversation"]}
            assert problem_in(await up.post("/v1/turn", stolen, **mine), 400)["code"] == "SnapshotError"


async def test_one_agent_leaves_room_for_the_others() -> None:
    options = ServeOptions(max_in_flight=4, body_timeout_s=0.3, stop_s=3)
    async with memory() as index:
        shops = catalogue(index, Shop().sources), catalogue(index, clinic, "clinic")
        async with service(*shops, keys=[KEY, OTHER_KEY], options=options) as up:
            slow = posted(b'{"requ', b"content-length: 100", b"authorization: Bearer " + KEY.encode())
            waiting = [asyncio.create_task(up.raw(slow)) for _ in range(3)]
            await until(lambda: up.life.in_flight >= 3)
            assert problem_in(await up.post("/v1/select", {"request": REFUND}, **bearer(KEY)), 429)
            assert (await up.post("/v1/select", {"request": REFUND}, **bearer(OTHER_KEY))).status_code == 200
            await asyncio.gather(*waiting)


def test_several_agents_are_not_open() -> None:
    with pytest.raises(ConfigError, match="each needs a key"):
        ServedAgents({"a": None, "b": None}, is_open=True)  # pyright: ignore[reportArgumentType]


# --- pages from elsewhere, where there is no key -----------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "localhost:1"}, 200),
        ({"host": "[::1]:1"}, 200),
        ({"host": "127.0.0.7"}, 200),
        ({"host": "evil.example"}, 421),
        ({"host": "127.0.0.1.evil.example"}, 421),
        ({"host": "localhost.evil.example"}, 421),
        ({"host": "192.168.0.1"}, 421),
        ({"host": ""}, 421),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://localhost:1"}, 403),
        ({"host": "localhost:1", "origin": "http://localhost:1"}, 200),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "same-origin"}, 200),
    ],
    ids=str,
)
async def test_a_page_from_elsewhere_does_not_get_in_by_a_browser(
    shop: Service, headers: dict[str, str], status: int
) -> None:
    async with asking(shop) as up:
        assert (await up.client.get("/v1/flows", headers=headers)).status_code == status
        assert (await up.post("/v1/select", {"request": REFUND}, **headers)).status_code == status


# --- anything ------------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
FIELDS = sorted({name for each in OPERATIONS if each.body for name in each.body.model_json_schema()["properties"]})
bodies = st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=6) | json_values
POSTS = [each.path for each in OPERATIONS if each.body is not None]


def test_whatever_is_sent_is_answered_and_nothing_fails() -> None:
    async def ask(up: Service, path: str, body: Any) -> None:
        try:
            content = orjson.dumps(body)
        except TypeError:  # no JSON: half of a surrogate pair, a number that is too large
            return
        response = await up.client.post(path, content=content, headers={"content-type": "application/json"})
        assert response.status_code in {200, 400}, response.text

    with asyncio.Runner() as runner:
        serving = shop_service()
        up = runner.run(serving.__aenter__())
        try:

            @settings(max_examples=150)
            @given(path=st.sampled_from(POSTS), body=bodies)
            def whatever(path: str, body: Any) -> None:
                runner.run(ask(up, path, body))

            whatever()
        finally:
            runner.run(serving.__aexit__(None, None, None))


async def test_an_answer_chooses_no_flow_that_is_guarded_gone_or_of_another_agent() -> None:
    """A question comes back from whoever has the key: what it names is looked at as anything else is."""
    registry = clinic().registry
    visit = next(each for each in registry.values() if each.name == "book_visit")
    async with shop_service() as up:
        live = up.agents["shop"].live.registry
        refund, track = (
            next(each for each in live.values() if each.name == name) for name in ("refund_order", "track_order")
        )

        def available(_: Any) -> bool:
            return False

        vars(refund).update(available=available)
        forged = {"text": "Which?", "options": [{"flow_id": each.id} for each in (refund, visit, track)]}
        for answer, chosen in (("1", []), ("2", []), ("3", ["track_order"])):
            told = (await up.post("/v1/select", {"request": answer, "asked": forged})).json()
            assert [each["flow_name"] for each in told["chosen"]] == chosen
            assert [each["flow_name"] for each in told["candidates"]] == ["track_order"]
        many = {"text": "", "options": [{"flow_id": str(place)} for place in range(101)]}
        assert (await up.post("/v1/select", {"request": "1", "asked": many})).status_code == 400


# --- a door, message by message ----------------------------------------------------------


async def at_the_door(
    *sent: dict[str, Any], path: str = "/v1/select", headers: Sequence[tuple[bytes, bytes]] = (), **options: Any
) -> tuple[int, bool, int]:
    """The status, whether the connection is closed, and how many of the messages of a body were read."""
    told: list[Any] = []
    left = [{"type": "http.request", **each} for each in sent]

    async def receive() -> Any:
        return left.pop(0) if left else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        told.append(message)

    async with memory() as index:
        served = ServedAgents({"shop": catalogue(index, Shop().sources)}, keys={hash_key(KEY): "shop"})
        scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "scheme": "http"}
        scope |= {"headers": [(b"host", b"localhost"), (b"content-type", b"application/json"), *headers]}
        await make_app(served, options=ServeOptions(**options))(scope, receive, send)
    return told[0]["status"], (b"connection", b"close") in told[0]["headers"], len(sent) - len(left)


LET_IN = (b"authorization", b"Bearer " + KEY.encode())
IN_PARTS = (b"transfer-encoding", b"chunked")
MEGABYTE = b"x" * (1 << 20)


async def test_a_stranger_s_body_is_passed_over_up_to_a_megabyte() -> None:
    parts = {"body": MEGABYTE, "more_body": True}, {"body": b"x"}
    assert await at_the_door(*parts, headers=[IN_PARTS]) == (401, False, 2)
    parts = {"body": MEGABYTE + b"x", "more_body": True}, {"body": b"x"}
    assert await at_the_door(*parts, headers=[IN_PARTS]) == (401, True, 1)


async def test_who_waits_to_be_told_to_go_on_is_not_waited_for() -> None:
    assert await at_the_door({"body": b"{}"}, headers=[IN_PARTS, (b"expect", b"100-continue")]) == (401, True, 0)
    assert await at_the_door({"body": b""}, headers=[(b"expect", b"100-continue")]) == (401, False, 0)


async def test_a_body_may_be_as_large_as_is_said_and_no_larger() -> None:
    body = orjson.dumps({"request": "x" * 86})
    assert len(body) == 100
    for headers in ([LET_IN, IN_PARTS], [LET_IN, (b"content-length", b"100")]):
        status, *rest = await at_the_door({"body": body}, headers=headers, max_body=100)
        assert (status == 413, *rest) == (False, False, 1)
    for sent, read in (({"body": body}, 1), ({"body": body[:99], "more_body": True}, 2)):
        assert await at_the_door(sent, {"body": b""}, headers=[LET_IN, IN_PARTS], max_body=98) == (413, False, read)


async def test_a_page_for_everybody_reads_no_body() -> None:
    assert await at_the_door({"body": b"{}"}, path="/healthz", headers=[IN_PARTS]) == (405, False, 0)
    begun = b"POST /healthz HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    async with shop_service(options=ServeOptions(stop_s=1, panel=False, mcp=False)) as up:
        back = await up.raw(begun)
        assert back.count(b"HTTP/1.1 405") == back.count(b"connection: close") == 1
