"""What a key may hold: streams, sessions and connections; and what another one still gets beside it."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.routing import Route

from jazz_select.outcomes import Logged, OutcomeLog
from jazz_select.service.app import AppPart
from jazz_select.service.mcp.agent_server import McpApp
from jazz_select.service.panel.runs import SharedDrift
from jazz_select.service.running import RunningCatalogue
from jazz_select.service.service_options import ServeOptions
from jazz_select.settings import Settings
from jazz_select.values import Decision, Reason, Tier
from tests.unit.service.served import (
    KEY,
    OTHER_KEY,
    Service,
    Shop,
    catalogue,
    clinic,
    endless,
    memory,
    service,
    streams,
)

pytestmark = pytest.mark.spec("013.3")
SECOND = "another-key-of-the-shop"
INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
LISTEN: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {}}
ACCEPTS = {"accept": "application/json, text/event-stream"}


def by(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}", **ACCEPTS}


@asynccontextmanager
async def served(options: ServeOptions, *, mcp: bool = False) -> AsyncGenerator[Service]:
    """A shop with two keys and a clinic with one; without MCP, whatever is asked at its path never ends."""
    async with memory() as index:
        shop, other = catalogue(index, Shop().sources), catalogue(index, clinic, "clinic")
        parts = [AppPart([Route("/mcp", endless, methods=["GET", "POST"])])]
        async with service(
            shop, other, keys=[KEY, OTHER_KEY], more_keys={SECOND: "shop"}, options=options, parts=[] if mcp else parts
        ) as up:
            if not mcp:
                yield up
                return
        part = McpApp(up.agents, options=options).part()
        async with service(
            shop, other, keys=[KEY, OTHER_KEY], more_keys={SECOND: "shop"}, options=options, parts=[part]
        ) as up:
            yield up


async def listen(up: Service, key: str, method: str, left: list[int]) -> None:
    body = LISTEN if method == "POST" else None
    async with up.client.stream(method, "/mcp", headers=by(key), json=body) as answer:
        if answer.is_error:
            left.append(answer.status_code)
            return
        async for _ in answer.aiter_raw():
            pass


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    ("options", "held"),
    [
        pytest.param({"max_streams": 8}, 6, id="three quarters"),
        pytest.param({"max_streams": 8, "max_streams_of_one": 3}, 3, id="as it was told"),
    ],
)
async def test_who_listens_much_shuts_no_other_key_out(method: str, options: dict[str, int], held: int) -> None:
    limits = ServeOptions(max_in_flight=4, stop_s=1, panel=False, mcp=False, **options)  # pyright: ignore[reportArgumentType]
    async with served(limits) as up:
        left: list[int] = []
        many = [asyncio.create_task(listen(up, KEY, method, left)) for _ in range(20)]
        await streams(up.life, held)
        async with asyncio.timeout(10):
            while len(left) < 20 - held:
                await asyncio.sleep(0.01)
        assert left == [429] * (20 - held)
        told = await up.client.get("/mcp", headers=by(KEY))
        assert int(told.headers["retry-after"]) >= 1
        assert f"{held} streams with this key are held open already" in told.json()["detail"]
        others = [asyncio.create_task(listen(up, each, method, left)) for each in (OTHER_KEY, SECOND) for _ in range(2)]
        await streams(up.life, held + 4)
        assert up.life.in_flight == 0, "who listens takes no place of those that are answered soon"
        assert (await up.post("/v1/select", {"request": "x"}, **by(KEY))).status_code == 200
        for each in (*many, *others):
            each.cancel()
        await asyncio.gather(*many, *others, return_exceptions=True)


async def opened(up: Service, key: str) -> httpx.Response:
    return await up.client.post("/mcp", json=INITIALIZE, headers=by(key))


async def test_sessions_of_one_key_leave_room_for_another_of_the_same_agent() -> None:
    async with served(ServeOptions(max_sessions=8, session_idle_s=600, stop_s=1, panel=False), mcp=True) as up:
        mine = [await opened(up, KEY) for _ in range(10)]
        assert [each.status_code for each in mine] == [200] * 6 + [429] * 4
        assert "6 MCP sessions with this key are open already" in mine[-1].json()["detail"]
        assert int(mine[-1].headers["retry-after"]) >= 1
        session = {"mcp-session-id": mine[0].headers["mcp-session-id"]}
        ended = await up.client.delete("/mcp", headers=by(KEY) | session)
        assert ended.status_code == 200
        assert (await opened(up, KEY)).status_code == 200, "one that has ended makes room"
        assert [(await opened(up, SECOND)).status_code for _ in range(4)] == [200] * 4


async def test_a_session_answers_only_the_key_that_opened_it() -> None:
    async with served(ServeOptions(stop_s=1, panel=False), mcp=True) as up:
        session = {"mcp-session-id": (await opened(up, KEY)).headers["mcp-session-id"]}
        listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        told = [await up.client.post("/mcp", json=listing, headers=by(key) | session) for key in (SECOND, KEY)]
        assert [each.status_code for each in told] == [404, 200]
        assert (await up.client.delete("/mcp", headers=by(SECOND) | session)).status_code == 404
        assert (await up.client.delete("/mcp", headers=by(KEY) | session)).status_code == 200


async def test_a_name_of_a_session_has_a_bound() -> None:
    async with served(ServeOptions(stop_s=1, panel=False), mcp=True) as up:
        listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        told = await up.client.post("/mcp", json=listing, headers=by(KEY) | {"mcp-session-id": "s" * 129})
        assert (told.status_code, "at most 128 characters, got 129" in told.text) == (400, True)


async def test_sessions_that_nobody_uses_make_room() -> None:
    limits = ServeOptions(max_sessions_of_one=2, session_idle_s=0.3, stop_s=1, panel=False)
    async with served(limits, mcp=True) as up:
        assert [(await opened(up, KEY)).status_code for _ in range(3)] == [200, 200, 429]
        await asyncio.sleep(0.5)
        assert (await opened(up, KEY)).status_code == 200


async def test_a_key_fills_no_disk_with_feedback_and_another_goes_on(tmp_path: Path) -> None:
    limits = ServeOptions(stop_s=1, panel=False, mcp=False)
    async with memory() as index:
        with OutcomeLog(tmp_path / "log.db", hourly_bytes=20_000) as log:
            shop = RunningCatalogue(Settings(agent_id="shop", top_k=3), index, Shop().sources, log=log)
            async with service(shop, keys=[KEY], more_keys={SECOND: "shop"}, options=limits) as up:
                entry = {
                    key: (await up.post("/v1/select", {"request": "x"}, **by(key))).json() for key in (KEY, SECOND)
                }
                told = [
                    await up.post(
                        "/v1/feedback",
                        {"selection": entry[KEY]["logged"], "right": [], "note": f"{number}" * 4_000},
                        **by(KEY),
                    )
                    for number in range(8)
                ]
                assert [each.status_code for each in told] == [200] * 5 + [429] * 3
                assert 0 < int(told[-1].headers["retry-after"]) <= 3_600
                assert told[-1].json()["code"] == "OutcomeQuotaError"
                assert str(tmp_path) not in told[-1].text
                selected = await up.post("/v1/select", {"request": "x"}, **by(KEY))
                assert (selected.status_code, selected.json()["logged"]) == (200, ""), "it is answered, and not kept"
                fine: dict[str, Any] = {"selection": entry[SECOND]["logged"], "right": []}
                assert (await up.post("/v1/feedback", fine, **by(SECOND))).status_code == 200


class CountedLog(OutcomeLog):
    """Counts how often it is read."""

    reads = 0

    def read(self, **options: Any) -> Iterator[Logged]:
        self.reads += 1
        return super().read(**options)


async def test_drift_is_computed_once_for_all_who_ask_at_once(tmp_path: Path) -> None:
    async with memory() as index:
        with CountedLog(tmp_path / "log.db") as log:
            for number in range(20):
                log.record(f"request {number}", Decision(tier=Tier.OPEN, reason=Reason.NONE), agent_id="shop")
            shop = RunningCatalogue(Settings(agent_id="shop"), index, Shop().sources, log=log)
            await shop.reload()
            shared = SharedDrift(shop)
            found = await asyncio.gather(*(shared.compare_last_days(7) for _ in range(12)))
            assert log.reads == 2, "the last entry, and once all of them"
            assert all(each == found[0] for each in found)
            assert found[0] is not None
            assert found[0]["now"]["requests"] == 20
