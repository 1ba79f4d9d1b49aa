"""Parts that are loaded once the service answers: who asks before waits, and nobody else does."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from jazz_select.service.app import AppPart, defer_part


async def _told(request: Request) -> Response:
    return PlainTextResponse(request.url.path)


def _front(part: AppPart) -> Starlette:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        assert part.lifespan is not None
        async with part.lifespan():
            yield

    return Starlette(routes=[Route("/healthz", _told), *part.routes, Route("/late/not", _told)], lifespan=lifespan)


@asynccontextmanager
async def _asked(app: Starlette) -> AsyncGenerator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://x") as client,
    ):
        yield client


@pytest.mark.spec("008.1")
async def test_whoever_asks_for_it_waits_and_is_answered_by_its_routes() -> None:
    made: list[str] = []

    def make() -> AppPart:
        made.append("made")
        return AppPart([Route("/late", _told), Route("/late/{name}", _told)])

    async with _asked(_front(defer_part(["/late"], ["json"], make))) as client:
        assert (await client.get("/healthz")).text == "/healthz"
        assert not made
        both = await asyncio.gather(client.get("/late"), client.get("/late/more"))
        assert [each.text for each in both] == ["/late", "/late/more"]
        assert (await client.get("/late/more/still")).status_code == 404
        assert (await client.get("/later")).status_code == 404
        assert (await client.post("/late")).status_code == 405
    assert made == ["made"]


async def test_it_is_loaded_where_nobody_asks_too_and_open_until_the_service_stops() -> None:
    opened = asyncio.Event()
    ends: list[bool] = []

    @asynccontextmanager
    async def lifespan() -> AsyncGenerator[None]:
        task = asyncio.current_task()
        opened.set()
        yield
        ends.append(asyncio.current_task() is task)

    async with _asked(_front(defer_part(["/late"], [], lambda: AppPart([], lifespan)))):
        await asyncio.wait_for(opened.wait(), 10)
        assert not ends
    assert ends == [True]


async def test_what_cannot_be_loaded_is_logged_and_told_and_the_rest_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    def make() -> AppPart:
        raise AssertionError

    part = defer_part(["/late"], ["jazz_select.there_is_no_such_module"], make)
    with caplog.at_level(logging.ERROR):
        async with _asked(_front(part)) as client:
            assert (await client.get("/late")).status_code == 500
            assert (await client.get("/late/more")).status_code == 500
            assert (await client.get("/healthz")).status_code == 200
    assert "there_is_no_such_module" in caplog.text


async def test_a_service_that_stops_at_once_loads_nothing() -> None:
    made: list[str] = []

    def make() -> AppPart:
        made.append("made")
        return AppPart([])

    async with _asked(_front(defer_part(["/late"], [], make))):
        pass
    assert not made
