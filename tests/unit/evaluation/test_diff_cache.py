"""What a comparison keeps for the next time, and from whom it takes nothing."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import orjson
import pytest

from jazz_select.evaluation import Case, Difference, diff
from tests.unit.evaluation.repository import FLOWS, Judged, Repository, repository
from tests.vectors import EMBEDDER

pytestmark = pytest.mark.programs

CASES = [Case(request="parcel tracking please", expect=("track",))]
LESS = {name: examples for name, examples in FLOWS.items() if name != "track"}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """Of what is committed with `LESS`; nothing is ignored there."""
    made = repository(tmp_path_factory.mktemp("judged") / "repo")
    (made.folder / ".gitignore").unlink()
    made.commit("nothing is ignored")
    made.write(LESS)
    return Judged(made, asyncio.run(between(made)))


@pytest.fixture
def repo(judged: Judged, tmp_path: Path) -> Repository:
    """One like it, of which all is known."""
    return judged.repo.copied(tmp_path / "repo")


async def between(repo: Repository, **options: Any) -> Difference:
    return await diff("HEAD", ".", embedder=EMBEDDER, here=repo.folder, cases=CASES, **options)


async def test_the_cache_is_never_committed_by_chance(repo: Repository) -> None:
    assert (repo.folder / ".jazz/cache/routes").is_dir()
    assert repo.git("status", "--porcelain") == "M flows/all.json"
    await between(repo, cache=Path("kept"))
    assert (repo.folder / "kept/.gitignore").is_file()
    assert repo.git("status", "--porcelain") == "M flows/all.json"


@pytest.mark.spec("007.3")
@pytest.mark.parametrize("place", [".jazz/cache", "linked"])
async def test_a_committed_cache_is_not_believed(repo: Repository, place: str) -> None:
    if place == "linked":
        (repo.folder / ".jazz").rename(repo.folder / "linked")
        (repo.folder / ".jazz").symlink_to("linked")
    for file in (repo.folder / ".jazz/cache/flows").iterdir():  # whatever is asked for, nothing has changed
        told = orjson.loads(file.read_bytes())
        file.write_bytes(orjson.dumps(told | {"flows": {name: {"name": name} for name in FLOWS}}))
    forged = await between(repo)
    assert forged.flows.removed == (), "the cache was forged"
    repo.git("add", "-A", "-f")
    repo.git("commit", "-qm", "and committed")
    found = await diff("HEAD~1", ".", embedder=EMBEDDER, here=repo.folder, cases=CASES)
    assert found.flows.removed == ("track",)
    assert any("is not read: it is committed" in note for note in found.notes)


SPOILT: dict[str, object] = {
    "a flow that is a number": {"flows": {"a": 5}, "digest": "x"},
    "examples that are a number": {"flows": {"a": {"examples": 5}}, "digest": "x"},
    "an example that is a number": {"flows": {"a": {"examples": [5]}}, "digest": "x"},
    "a list of flows": {"flows": [], "digest": "x"},
    "no digest": {"flows": {}, "digest": None},
    "a list": [],
}


@pytest.mark.parametrize("names", [*zip([*SPOILT][::2], [*SPOILT][1::2], strict=True)], ids=" and ".join)
async def test_what_cannot_be_is_made_anew(repo: Repository, judged: Judged, names: tuple[str, str]) -> None:
    """Of each side something else is spoilt: a comparison that took either would find something else."""
    files = sorted((repo.folder / ".jazz/cache/flows").iterdir())
    before = [file.read_bytes() for file in files]
    for file, name in zip(files, names, strict=True):
        file.write_bytes(orjson.dumps(SPOILT[name]))
    again = await between(repo)
    assert again.to_dict() | {"took_s": 0} == judged.found.to_dict() | {"took_s": 0}
    assert [file.read_bytes() for file in files] == before, "each was made anew"


async def test_what_is_kept_and_cannot_be_read_is_made_anew(
    repo: Repository, judged: Judged, caplog: pytest.LogCaptureFixture
) -> None:
    for file in (repo.folder / ".jazz/cache/routes").iterdir():
        file.write_bytes(b"\x00nothing")
    with caplog.at_level(logging.WARNING):
        assert told(await between(repo)) == told(judged.found)
    assert "kept=<routes>" in caplog.text
    caplog.clear()
    assert told(await between(repo)) == told(judged.found)
    assert not caplog.records, "it was kept again"


async def test_one_process_judges_a_side_and_what_other_settings_found_is_not_taken(
    repo: Repository, judged: Judged, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[object] = []
    start = asyncio.BaseEventLoop.subprocess_exec

    async def noted(*words: Any, **options: Any) -> Any:
        started.append(words)
        return await start(*words, **options)

    monkeypatch.setattr(asyncio.BaseEventLoop, "subprocess_exec", noted)
    assert told(await between(repo)) == told(judged.found)
    assert not started, "with these settings all is known"
    otherwise = told(await between(repo, language="none"))
    assert len(started) == 2, "with other settings nothing is known"
    assert otherwise == told(await between(repo, language="none", cache=None))


def told(found: Difference) -> Any:
    """An engine adds up the words of a request in an order of its own, which the last digits show."""

    def rounded(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: rounded(each) for key, each in value.items()}  # pyright: ignore[reportUnknownVariableType]
        if isinstance(value, list | tuple):
            return [rounded(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
        return round(value, 5) if isinstance(value, float) else value

    return rounded(found.to_dict() | {"took_s": 0})
