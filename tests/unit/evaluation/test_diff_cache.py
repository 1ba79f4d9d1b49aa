"""What a comparison keeps for the next time, and from whom it takes nothing."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from jazz_select.evaluation import Case, Difference, diff
from tests.unit.evaluation.repository import FLOWS, Repository, repository
from tests.vectors import EMBEDDER

CASES = [Case(request="parcel tracking please", expect=("track",))]
LESS = {name: examples for name, examples in FLOWS.items() if name != "track"}


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    made = repository(tmp_path / "repo")
    (made.folder / ".gitignore").unlink()
    made.commit("nothing is ignored")
    return made


async def between(repo: Repository, **options: Any) -> Difference:
    return await diff("HEAD", ".", embedder=EMBEDDER, here=repo.folder, cases=CASES, **options)


async def test_the_cache_is_never_committed_by_chance(repo: Repository) -> None:
    await between(repo)
    assert (repo.folder / ".jazz/cache/routes").is_dir()
    assert repo.git("status", "--porcelain") == ""
    await between(repo, cache=Path("kept"))
    assert (repo.folder / "kept/.gitignore").is_file()
    assert repo.git("status", "--porcelain") == ""


@pytest.mark.spec("007.3")
@pytest.mark.parametrize("place", [".jazz/cache", "linked"])
async def test_a_committed_cache_is_not_believed(repo: Repository, place: str) -> None:
    if place == "linked":
        (repo.folder / ".jazz").symlink_to("linked")
        (repo.folder / "linked").mkdir()
    repo.write(LESS)
    await between(repo)
    for file in (repo.folder / ".jazz/cache/flows").iterdir():  # whatever is asked for, nothing has changed
        file.write_bytes(orjson.dumps({"flows": {name: {"name": name} for name in FLOWS}, "digest": "x"}))
    forged = await between(repo)
    assert forged.flows.removed == (), "the cache was forged"
    repo.git("add", "-A", "-f")
    repo.git("commit", "-qm", "and committed")
    found = await diff("HEAD~1", ".", embedder=EMBEDDER, here=repo.folder, cases=CASES)
    assert found.flows.removed == ("track",)
    assert any("is not read: it is committed" in note for note in found.notes)


@pytest.mark.parametrize(
    "told",
    [
        pytest.param({"flows": {"a": 5}, "digest": "x"}, id="a flow that is a number"),
        pytest.param({"flows": {"a": {"examples": 5}}, "digest": "x"}, id="examples that are a number"),
        pytest.param({"flows": {"a": {"examples": [5]}}, "digest": "x"}, id="an example that is a number"),
        pytest.param({"flows": [], "digest": "x"}, id="a list of flows"),
        pytest.param({"flows": {}, "digest": None}, id="no digest"),
        pytest.param([], id="a list"),
    ],
)
async def test_what_cannot_be_is_made_anew(repo: Repository, told: object) -> None:
    repo.write(LESS)
    first = await between(repo)
    for file in (repo.folder / ".jazz/cache/flows").iterdir():
        file.write_bytes(orjson.dumps(told))
    again = await between(repo)
    assert again.to_dict() | {"took_s": 0} == first.to_dict() | {"took_s": 0}
