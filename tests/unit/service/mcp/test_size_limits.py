"""What a foreign server sends is measured before it is parsed: lines over a pipe, answers and events over HTTP."""

import codecs
import gzip
import json
from collections.abc import AsyncIterator
from functools import partial
from itertools import pairwise
from typing import Any, cast

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from jazz_select.json_values import has_more_values
from jazz_select.service.mcp.measured import MessageLimits, encoding_within, measure
from tests.depth import examples
from tests.unit.service.mcp.desk import on_loopback

LIMITS = MessageLimits(1_000, 50)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('a\\",:[]{}\né')),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.sampled_from('ab\\",:')), inner, max_size=4),
    max_leaves=30,
)


def counted(value: Any) -> int:
    """Values and names, an empty list or object as two: its end could begin one more."""
    if isinstance(value, dict):
        return 1 + (sum(1 + counted(each) for each in cast("dict[str, Any]", value).values()) or 1)
    return 1 + (sum(map(counted, cast("list[Any]", value))) or 1) if isinstance(value, list) else 1


@given(JSON)
@settings(max_examples=examples(1_600))
def test_values_are_counted_as_reading_them_would(value: Any) -> None:
    text = json.dumps(value).encode()
    assert not has_more_values(text, counted(value))
    assert has_more_values(text, counted(value) - 1)


def answer(number: object, **result: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode() + b"\n"


LONG, MANY = "x" * 1_000, list(range(60))
LINES = [
    (answer(1, text="é"), {"id": 1, "result": {"text": "é"}}),
    (answer(2, text=LONG), {"id": 2, "error": "it sent a message of more than 1000 bytes (max_message)"}),
    (answer("a-3", many=MANY), {"id": "a-3", "error": "it sent a message of more than 50 values (max_values)"}),
    (b'{"result": {"id": 9, "text": "%s"}, "id": 4}\n' % LONG.encode(), {"id": 4, "error": "1000 bytes"}),
    (answer(5, text=",:[{" * 100), {"id": 5, "result": {"text": ",:[{" * 100}}),
]


def decoded(*pieces: bytes) -> list[dict[str, Any]]:
    decoder = codecs.getincrementaldecoder(encoding_within(LIMITS))(errors="strict")
    text = "".join([*map(decoder.decode, pieces), decoder.decode(b"", final=True)])
    return [json.loads(line) for line in text.splitlines()]


@given(st.lists(st.integers(0, sum(len(line) for line, _ in LINES)), max_size=8))
@settings(max_examples=examples(800))
def test_a_line_is_passed_on_whole_or_is_an_error_in_the_place_of_its_answer(cuts: list[int]) -> None:
    sent = b"".join(line for line, _ in LINES)
    at = [0, *sorted(cuts), len(sent)]
    found = decoded(*(sent[here:there] for here, there in pairwise(at)))
    for told, (_, expected) in zip(found, LINES, strict=True):
        assert told["id"] == expected["id"]
        assert told.get("result") == expected.get("result")
        assert expected.get("error", "") in told.get("error", {}).get("message", "")
        assert ("error" in told) == ("error" in expected)


@pytest.mark.parametrize(
    "sent",
    [
        b'{"method": "x", "params": "%s"}\n' % LONG.encode(),
        b'{"result": {"id": 1}, "x": "%s"}\n' % LONG.encode(),
        b"\xff\xfe\n",
    ],
    ids=["no answer", "an id of no call", "no UTF-8"],
)
def test_what_cannot_be_told_to_a_call_ends_the_connection(sent: bytes) -> None:
    with pytest.raises(ValueError, match=r"1000 bytes|utf-8"):
        decoded(sent)


def test_a_line_without_end_is_not_kept() -> None:
    decoder: Any = codecs.getincrementaldecoder(encoding_within(LIMITS))(errors="strict")
    for _ in range(100):
        assert decoder.decode(b'{"id": 1' + b"x" * 10_000) == ""
        assert len(decoder._begun) < 2_000


async def sent(request: Request) -> Response:
    body = {
        "small": b'{"a": 1}',
        "long": json.dumps(LONG * 10_000).encode(),
        "many": json.dumps(MANY).encode(),
    }[request.path_params["kind"]]
    if "gzip" in request.query_params:
        return Response(gzip.compress(body), headers={"content-encoding": "gzip"}, media_type="application/json")
    return Response(body, media_type="application/json")


async def events(request: Request) -> Response:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"data: " + b"x" * 500
            yield b"\r\n\r\n"
        yield b"data: " + (LONG if request.path_params["kind"] == "long" else "x").encode() + b"\n\n"

    return StreamingResponse(pieces(), media_type="text/event-stream")


@pytest.mark.spec("013.2")
@pytest.mark.parametrize("how", ["", "?gzip"])
async def test_an_answer_is_measured_after_decompression_and_before_it_is_parsed(how: str) -> None:
    app = Starlette(routes=[Route("/events/{kind}", events), Route("/{kind}", sent)])
    hooks = {"response": [partial(measure, LIMITS)]}
    async with on_loopback(app) as root, httpx2.AsyncClient(base_url=root, event_hooks=hooks) as client:
        assert (await client.get(f"/small{how}")).json() == {"a": 1}
        for kind, problem in (("long", "1000 bytes"), ("many", "50 values")):
            with pytest.raises(httpx2.StreamError, match=problem):
                await client.get(f"/{kind}{how}")
        assert (await client.get("/events/short")).text.count("data:") == 101
        with pytest.raises(httpx2.SSEError, match="1000 bytes"):
            await client.get("/events/long")
