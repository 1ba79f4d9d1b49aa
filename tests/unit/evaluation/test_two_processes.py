"""Requests of one side that two processes share, a process that loads ahead, and caches that cannot be read."""

import asyncio
import logging
import os
import shutil
from asyncio.subprocess import Process
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jazz_select.evaluation import Asked, Case, Difference, Policy, diff
from jazz_select.evaluation.changes.route_book import Known
from jazz_select.evaluation.changes.side_process import Job
from jazz_select.evaluation.changes.side_start import process_for, started_ahead
from jazz_select.evaluation.changes.side_worker import SideWorker
from tests.unit.evaluation.repository import FLOWS, Repository, repository
from tests.vectors import EMBEDDER

pytestmark = pytest.mark.programs

MANY = [f"{words}, number {number}" for number in range(100) for examples in FLOWS.values() for words in examples[:4]]
FEW = MANY[:50]
CASES = [Case(request="parcel tracking please", expect=("track",)), Case(request="bill", expect=("invoice",))]
EDITED = {**FLOWS, "track": [*FLOWS["track"], "my bill has not come"]}
TOLD_ALONE = "one process does it alone"


@dataclass(frozen=True)
class Judged:
    """A comparison of `FEW` on four cores, then one of `MANY` on one; how many processes each took, and where."""

    repo: Repository
    few: dict[str, Any]
    for_few: int
    many: dict[str, Any]
    for_many: int


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    made = repository(tmp_path_factory.mktemp("judged") / "repo")
    made.write(EDITED)
    with pytest.MonkeyPatch.context() as patched:
        found = watched(patched)
        cores(patched, 4)
        few = asyncio.run(between(made, requests=FEW))
        for_few = len(found)
        cores(patched, 1)
        many = asyncio.run(between(made))
    return Judged(made, few, for_few, many, len(found) - for_few)


@pytest.fixture
def known(judged: Judged, tmp_path: Path) -> Repository:
    """In which the routes of both sides are kept, though not the indexes."""
    return judged.repo.copied(tmp_path / "repo", "indexes")


@pytest.fixture
def repo(judged: Judged, tmp_path: Path) -> Repository:
    """In which nothing is kept."""
    return judged.repo.copied(tmp_path / "repo", ".jazz")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Process]:
    """The processes that were started."""
    return watched(monkeypatch)


def watched(monkeypatch: pytest.MonkeyPatch) -> list[Process]:
    """The processes that are started from now on."""
    found: list[Process] = []
    start = asyncio.create_subprocess_exec

    async def noted(*words: str, **options: Any) -> Process:
        found.append(await start(*words, **options))
        return found[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)
    return found


def cores(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """As if this machine had so many."""

    def usable(_: int) -> frozenset[int]:
        return frozenset(range(count))

    monkeypatch.setattr(os, "sched_getaffinity", usable, raising=False)


async def between(repo: Repository, **options: Any) -> dict[str, Any]:
    asked: dict[str, Any] = {"embedder": EMBEDDER, "here": repo.folder, "cases": CASES, "requests": MANY}
    return told(await diff("HEAD", ".", **(asked | options)))


def told(found: Difference) -> dict[str, Any]:
    return rounded(found.to_dict() | {"took_s": 0})


def rounded(value: Any) -> Any:
    """An engine adds up the words of a request in an order of its own, which the last digits show."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
    return round(value, 5) if isinstance(value, float) else value


@pytest.mark.spec("007.3")
@pytest.mark.parametrize("cache", [Path(".jazz/cache"), None], ids=["kept", "not kept"])
async def test_two_processes_find_what_one_finds(
    repo: Repository, judged: Judged, started: list[Process], monkeypatch: pytest.MonkeyPatch, cache: Path | None
) -> None:
    assert judged.for_many == 2
    cores(monkeypatch, 4)
    shared = await between(repo, cache=cache)
    assert len(started) == 4, "two for each side"
    assert shared == judged.many
    assert (repo.folder / ".jazz").exists() == (cache is not None)
    started.clear()
    if cache is not None:
        assert await between(repo, cache=cache) == judged.many
        assert not started


@pytest.mark.spec("007.3")
async def test_the_process_of_a_side_that_has_little_to_do_helps_the_other(
    known: Repository, started: list[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    cores(monkeypatch, 1)
    known.write({**EDITED, "refund": [*FLOWS["refund"], "take it back"]})
    alone = await between(known, cache=None)
    started.clear()
    cores(monkeypatch, 2)
    assert await between(known) == alone
    assert len(started) == 2, "no third one, though there is more than enough to do"


async def test_a_process_does_one_job_after_another(repo: Repository, tmp_path: Path) -> None:
    other = repository(tmp_path / "other")
    asked = [Asked(request=each) for each in MANY[:20]]
    jobs = [Job(root=each.folder, flows="flows", policy=Policy(), embedder=EMBEDDER) for each in (repo, other)]
    apart: list[Known] = []
    for job in jobs:
        async with SideWorker("alone", job) as worker:
            await worker.start()
            apart.append(await worker.routed(asked, asked[:3]))
    async with SideWorker("both", jobs[0]) as worker:
        assert "my bill has not come" in (await worker.start())["flows"]["track"]["examples"]
        first = await worker.routed(asked, asked[:3])
        assert "my bill has not come" not in (await worker.take_over("other", jobs[1]))["flows"]["track"]["examples"]
        second = await worker.routed(asked, asked[:3])
    for one, two in zip((first, second), apart, strict=True):
        assert one.tokens == two.tokens
        assert {key: route.ranking for key, route in one.routes.items()} == {
            key: route.ranking for key, route in two.routes.items()
        }


def test_few_requests_are_not_shared(judged: Judged) -> None:
    assert judged.for_few == 2


async def test_a_second_process_that_ends_leaves_all_to_the_first(
    repo: Repository,
    judged: Judged,
    started: list[Process],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    text = "import os\nif os.path.exists('began'):\n    os._exit(3)\nopen('began', 'x').close()\n"
    (repo.folder / "flows/once.py").write_text(text, "utf-8")
    cores(monkeypatch, 4)
    with caplog.at_level(logging.WARNING):
        shared = await between(repo, cache=None)
    assert len(started) == 4
    assert TOLD_ALONE in caplog.text
    assert "exit code 3" in caplog.text
    assert {**shared, "head": judged.many["head"]} == judged.many


@pytest.mark.parametrize("kept", ["flows", "routes", "indexes"])
async def test_what_is_kept_and_cannot_be_read_is_made_anew(
    known: Repository, judged: Judged, caplog: pytest.LogCaptureFixture, kept: str
) -> None:
    cache = known.folder / ".jazz/cache"
    kept_before = judged.repo.folder / ".jazz/cache" / kept
    for file in [each for each in kept_before.rglob("*") if each.is_file()]:
        spoilt = cache / kept / file.relative_to(kept_before)
        spoilt.parent.mkdir(parents=True, exist_ok=True)
        spoilt.write_bytes(b"\x00nothing")
    if kept == "indexes":
        shutil.rmtree(cache / "routes")  # else nobody asks for them
    with caplog.at_level(logging.WARNING):
        assert await between(known, requests=FEW) == judged.few
    assert kept == "indexes" or f"kept=<{kept}>" in caplog.text
    caplog.clear()
    if kept == "indexes":
        shutil.rmtree(cache / "routes")
    assert await between(known, requests=FEW) == judged.few
    assert not caplog.records, "it was kept again"


async def test_what_another_embedder_found_is_not_taken(known: Repository, started: list[Process]) -> None:
    await between(known, requests=FEW)
    assert not started, "with these settings all is known"
    few: dict[str, Any] = {"requests": FEW, "language": "none"}
    assert await between(known, **few) == await between(known, **few, cache=None)
    assert len(started) == 4, "with other settings nothing is known"


def test_what_loads_ahead_is_used_once_and_ends_with_its_block(
    tmp_path: Path, started: list[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    cores(monkeypatch, 2)
    with started_ahead() as runner:
        (ahead,) = started
        assert runner.run(process_for(tmp_path)) is ahead
        other = runner.run(process_for(tmp_path))
        assert other is not ahead
        for each in (ahead, other):
            each.kill()
            runner.run(each.wait())
    started.clear()
    with started_ahead():
        assert started[0].returncode is None
    assert started[0].returncode is not None
    cores(monkeypatch, 1)
    with started_ahead():
        assert len(started) == 1, "with one core nothing is started ahead"
