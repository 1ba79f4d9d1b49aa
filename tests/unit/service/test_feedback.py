"""A name is no permission: feedback is bound to the key that made the selection, and the log keeps who said what."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from jazz_select.client import RemoteSelector
from jazz_select.errors import ConfigError, ServiceError
from jazz_select.evaluation.corrections import SortedCorrections, sort_corrections
from jazz_select.outcomes import OutcomeLog, Source
from jazz_select.service.panel.routes import panel_part
from jazz_select.service.panel.runs import files_of
from jazz_select.service.running import RunningCatalogue
from jazz_select.settings import Settings
from tests.unit.service.served import KEY, OTHER_KEY, REFUND, Service, Shop, clinic, memory, service

pytestmark = pytest.mark.spec("016.3")
SECOND, TEACHER = "another-key-of-the-shop", "a-key-of-who-may-teach"


@asynccontextmanager
async def shops(tmp_path: Path) -> AsyncGenerator[tuple[Service, OutcomeLog]]:
    """A shop with three keys, of which one may teach, and a clinic with one; both in one log."""
    async with memory() as index:
        with OutcomeLog(tmp_path / "log.db") as log:
            shop, other = (
                RunningCatalogue(Settings(agent_id=name, top_k=3), index, read, log=log)
                for name, read in (("shop", Shop().sources), ("clinic", clinic))
            )
            files = {name: files_of(name, tmp_path) for name in ("shop", "clinic")}
            async with service(
                shop,
                other,
                keys=[KEY, OTHER_KEY],
                more_keys={SECOND: "shop", TEACHER: "shop"},
                teachers=[TEACHER],
                parts=[panel_part(files)],
            ) as up:
                yield up, log


def by(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


async def selected(up: Service, key: str) -> str:
    told = await up.post("/v1/select", {"request": REFUND}, **by(key))
    return str(told.json()["logged"])


@pytest.mark.parametrize(
    ("key", "source", "status"),
    [
        pytest.param(KEY, None, 200, id="the key that asked"),
        pytest.param(SECOND, None, 400, id="another key of the agent"),
        pytest.param(OTHER_KEY, None, 400, id="a key of another agent"),
        pytest.param(TEACHER, None, 200, id="a key that may teach"),
        pytest.param(TEACHER, {"kind": "person", "name": "ada"}, 200, id="a reviewer"),
        pytest.param(KEY, {"kind": "user", "name": "c-1"}, 200, id="a user in a conversation"),
        pytest.param(KEY, {"kind": "agent"}, 200, id="an agent of theirs"),
        pytest.param(KEY, {"kind": "person", "name": "ada"}, 403, id="a reviewer without the right"),
        pytest.param(KEY, {"kind": "model"}, 400, id="no one who gives feedback"),
        pytest.param(KEY, {"kind": "user", "name": "c" * 201}, 400, id="an endless name"),
    ],
)
async def test_who_may_correct_a_selection(
    tmp_path: Path, key: str, source: dict[str, str] | None, status: int
) -> None:
    async with shops(tmp_path) as (up, log):
        entry = await selected(up, KEY)
        body: dict[str, Any] = {"selection": entry, "right": [] if key == OTHER_KEY else ["track_order"]}
        told = await up.post("/v1/feedback", body | ({} if source is None else {"source": source}), **by(key))
        assert told.status_code == status, told.text
        kept = log.get(entry)
        assert kept is not None
        assert kept.chosen_by == Source(kind="recall", key=KEY)
        said = {"kind": "user", "name": ""} | (source or {})
        expected = Source(kind=said["kind"], name=said["name"], key=key)  # pyright: ignore[reportArgumentType]
        assert kept.corrected_by == (expected if status == 200 else None)


async def test_what_another_key_made_is_told_like_what_is_not_there(tmp_path: Path) -> None:
    async with shops(tmp_path) as (up, _):
        entry = await selected(up, KEY)
        made_up = "0" * len(entry)
        told = [
            (await up.post("/v1/feedback", {"selection": each, "right": []}, **by(SECOND))).json()["detail"]
            for each in (entry, made_up)
        ]
        assert told[0].replace(entry, made_up) == told[1]
        assert str(tmp_path) not in told[1], "where the log lies is nobody's business"


async def test_a_client_says_who_says_so(tmp_path: Path) -> None:
    async with shops(tmp_path) as (up, log):
        async with RemoteSelector(up.root, key=KEY) as mine, RemoteSelector(up.root, key=SECOND) as other:
            result = await mine.select(REFUND)
            await mine.feedback(result, right="track_order", source=Source(kind="user", name="c-1"))
            with pytest.raises(ConfigError, match="has no entry"):
                await other.feedback(result, right="track_order")
            with pytest.raises(ServiceError, match="may not teach"):
                await mine.feedback(result, right=[], source=Source(kind="person", name="ada"))
        kept = log.get(result.logged)
        assert kept is not None
        assert kept.corrected_by == Source(kind="user", name="c-1", key=KEY)


async def test_a_reviewers_word_stands_against_a_users(tmp_path: Path) -> None:
    async with shops(tmp_path) as (up, log):
        entry = await selected(up, KEY)
        person = {"kind": "person", "name": "ada"}
        await up.post("/v1/feedback", {"selection": entry, "right": [], "source": person}, **by(TEACHER))
        await up.post("/v1/feedback", {"selection": entry, "right": "track_order"}, **by(KEY))
        kept = log.get(entry)
        assert kept is not None
        assert (kept.right, str(kept.corrected_by)) == ((), f"person ada (key {TEACHER})")
        assert [each.source.kind for each in log.feedback(entry)] == ["person", "user"]


async def test_over_http_one_key_is_one_witness_and_only_a_reviewers_word_is_learned(tmp_path: Path) -> None:
    async with shops(tmp_path) as (up, log):
        sources = Shop().sources()

        async def said(key: str, source: dict[str, str]) -> SortedCorrections:
            asked = await up.post("/v1/select", {"request": "the courier got lost"}, **by(key))
            body = {"selection": asked.json()["logged"], "right": "track_order", "source": source}
            assert (await up.post("/v1/feedback", body, **by(key))).status_code == 200
            return sort_corrections(log.read(agent_id="shop"), sources.registry, tools=sources.tools)

        for number in range(12):
            found = await said(KEY, {"kind": "user", "name": f"conversation {number}"})
            assert [len(each.ids) for each in found.waiting] == [number + 1]
            assert found.hinted == found.people == []
        found = await said(SECOND, {"kind": "agent", "name": "conversation 3"})
        assert [len(each.ids) for each in found.hinted] == [13]
        found = await said(TEACHER, {"kind": "person", "name": "ada"})
        assert [len(each.ids) for each in found.people] == [14]


async def test_the_panel_shows_a_key_its_own_entries_and_lets_only_a_teacher_correct(tmp_path: Path) -> None:
    async with shops(tmp_path) as (up, log):
        entries = {key: await selected(up, key) for key in (KEY, SECOND)}

        async def shown(key: str) -> list[str]:
            told = (await up.client.get("/v1/panel/corrections", headers=by(key))).json()
            return [each["id"] for each in told["log"]["entries"]]

        assert await shown(KEY) == [entries[KEY]]
        assert await shown(SECOND) == [entries[SECOND]]
        assert sorted(await shown(TEACHER)) == sorted(entries.values())
        body = {"request": REFUND + " please", "right": ["track_order"], "logged": entries[SECOND]}
        told = await up.post("/v1/panel/corrections", body, **by(KEY))
        assert (told.status_code, told.json()["code"]) == (403, "may_not_teach")
        assert (await up.post("/v1/panel/corrections/undo", {}, **by(KEY))).status_code == 403
        assert (await up.post("/v1/panel/corrections", body, **by(TEACHER))).status_code == 201
        kept = log.get(entries[SECOND])
        assert kept is not None
        assert kept.corrected_by == Source(kind="person", key=TEACHER)


async def test_the_only_key_of_an_agent_may_teach(tmp_path: Path) -> None:
    async with shops(tmp_path) as (up, _):
        for key, may in ((OTHER_KEY, True), (TEACHER, True), (KEY, False)):
            state = (await up.client.get("/v1/panel/state", headers=by(key))).json()
            assert state["may_teach"] is may
