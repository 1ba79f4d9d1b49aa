"""Two versions out of git, folders and an index, each in a process of its own."""

import asyncio
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from jazz_select import ProceduralMemory
from jazz_select.build import load_registry
from jazz_select.errors import ConfigError
from jazz_select.evaluation import Case, Difference, Gates, Query, Source, diff
from tests.clock import until
from tests.unit.evaluation.repository import FLOWS, Judged, Repository, repository
from tests.vectors import EMBEDDER

pytestmark = pytest.mark.programs


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return repository(tmp_path / "repo")


async def between(repo: Repository, base: str = "HEAD", head: str = ".", **options: Any) -> Difference:
    return await diff(base, head, embedder=EMBEDDER, here=repo.folder, **options)


ONE_MORE = {**FLOWS, "track": [*FLOWS["track"], "my bill has not come"]}
CASES = [Case(request="parcel tracking please", expect=("track",)), Case(request="bill", expect=("invoice",))]
REQUESTS: list[str | Query] = ["my parcel", Query(request="it", episodes=("a parcel",))]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """Of what is committed with `ONE_MORE`."""
    made = repository(tmp_path_factory.mktemp("judged") / "repo")
    made.write(ONE_MORE)
    return Judged(made, asyncio.run(between(made, cases=CASES, requests=REQUESTS)))


@pytest.fixture
def known(judged: Judged, tmp_path: Path) -> Repository:
    """One like it, of which all is known."""
    return judged.repo.copied(tmp_path / "known")


@pytest.mark.spec("007.3")
def test_an_edit_that_is_not_committed(judged: Judged) -> None:
    repo, found = judged.repo, judged.found
    assert found.head == "the working tree, 1 file of it not committed"
    assert found.base.startswith("HEAD (")
    assert found.flows.changed == {"track": ("examples",)}
    assert found.after.requests == 2 + 2 + 15 + 1
    assert found.after.counted == 4
    moved = {each.request: each for each in found.moved}
    assert moved["my bill has not come"].after.first == "track"
    assert repo.git("status", "--porcelain") == "M flows/all.json"
    assert repo.git("worktree", "list").count("\n") == 0
    assert found.to_dict()["after"]["recall_at_1"] == 1.0
    assert "my bill has not come" in found._repr_html_()  # pyright: ignore[reportPrivateUsage]


@pytest.mark.spec("007.3")
async def test_an_unchanged_side_costs_nothing(
    known: Repository, judged: Judged, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def started(*_: object, **__: object) -> None:
        raise AssertionError(_)

    with monkeypatch.context() as patched:
        patched.setattr(asyncio.BaseEventLoop, "subprocess_exec", started)
        again = await between(known, cases=CASES, requests=REQUESTS)
    assert again.to_dict() | {"took_s": 0} == judged.found.to_dict() | {"took_s": 0}
    known.commit()
    committed = await between(known, "HEAD~1", "HEAD", cases=CASES, requests=REQUESTS)
    assert committed.changes == judged.found.changes
    assert len(list((known.folder / ".jazz/cache/routes").iterdir())) == 2, "a commit of the same flows is the same"


async def test_a_new_request_is_all_that_is_asked_anew(known: Repository, judged: Judged) -> None:
    requests = [*REQUESTS, "one more thing"]
    routes = sorted((known.folder / ".jazz/cache/routes").iterdir())
    second = await between(known, cases=CASES, requests=requests)
    assert second.after.requests == judged.found.after.requests + 1
    assert sorted((known.folder / ".jazz/cache/routes").iterdir()) == routes, "kept beside what was known"
    for file in [*routes, *(known.folder / ".jazz/cache/flows").iterdir()]:
        file.write_bytes(b'{"routes": [1')
    third = await between(known, cases=CASES, requests=requests)
    assert third.to_dict() | {"took_s": 0} == second.to_dict() | {"took_s": 0}, "a spoilt file is made anew"


@pytest.mark.spec("007.3")
async def test_python_flows_of_two_versions_with_their_guards(repo: Repository) -> None:
    repo.git("rm", "-q", "flows/all.json")
    for name in FLOWS:
        repo.write_python(name)
    (repo.folder / "flows/__init__.py").write_text("print('a package that talks')\n", "utf-8")
    repo.commit()
    signed_out = Case(request="refund my order", expect=("refund",), context={"signed_in": False})
    cases = [signed_out, Case(request="refund my order", expect=("refund",))]
    same = await between(repo, cases=cases)
    assert (same.changes, same.flows.any) == ((), False)
    repo.write_python("refund", guard='context.get("signed_in", True)')
    guarded = await between(repo, cases=cases)
    assert [(each.request, each.effect.value, each.after.first != "refund") for each in guarded.broken] == [
        ("refund my order", "broken", True)
    ]
    assert guarded.flows.changed == {"refund": ("guard",)}
    assert {each.why for each in guarded.moved} == {"the guard of refund withholds it"}


async def test_guards_see_the_context_of_a_request_as_json(repo: Repository) -> None:
    repo.write_python("refund", guard='context["since"] == "2026-11-01" and context["odd"].startswith("object")')
    repo.write({name: examples for name, examples in FLOWS.items() if name != "refund"})
    repo.commit()
    context = {"since": date(2026, 11, 1), "odd": Odd()}
    cases = [Case(request="refund my order", expect=("refund",), context=context)]
    found = await between(repo, cases=cases, requests=["half of a pair: \ud83d"])
    assert (found.before.recall_at_1, found.after.recall_at_1, found.changes) == (1.0, 1.0, ())


class Odd:
    """What is no JSON, and cannot be sent to another process either."""

    def __repr__(self) -> str:
        return "object"

    def __reduce__(self) -> str:
        raise TypeError


@pytest.mark.spec("007.3")
async def test_what_is_live_against_what_would_be_synced(repo: Repository) -> None:
    async with await ProceduralMemory.open(repo.folder / "live", embedder=EMBEDDER) as memory:
        registry = load_registry(repo.folder / "flows")
        await memory.sync("support", registry.values())
    same = await between(repo, "index:live", ".")
    assert (same.changes, same.flows.any) == ((), False)
    repo.write({name: FLOWS[name] for name in ("refund", "track")})
    found = await between(repo, "index:live", ".")
    assert found.flows.removed == ("invoice",)
    assert found.base == "the index live"
    with pytest.raises(ConfigError, match="there is no index"):
        await between(repo, "index:dead")


async def test_folders_files_and_flows_that_moved(repo: Repository, tmp_path: Path) -> None:
    other = Repository(tmp_path / "other")
    other.write(ONE_MORE, "catalogue/all.json")
    found = await between(repo, ".", "../other", base_flows="flows", flows="catalogue")
    assert found.flows.changed == {"track": ("examples",)}
    by_file = await between(repo, "HEAD", str(other.folder / "catalogue/all.json"), flows="flows/all.json")
    assert [each.request for each in by_file.changes] == [each.request for each in found.changes]
    repo.write(ONE_MORE, "moved/all.json")
    repo.git("rm", "-q", "flows/all.json")
    absent = await between(repo, "HEAD", ".", flows="./flows")
    assert absent.flows.removed == ("invoice", "refund", "track")
    assert all(each.after.first == "" for each in absent.changes)
    repo.commit()
    with pytest.raises(ConfigError, match=r"there are no flows at ./flows of HEAD .* and ./flows of the working tree"):
        await between(repo, flows="./flows")
    assert (await between(repo, "HEAD", "moved", base_flows="moved")).changes == ()


@pytest.mark.parametrize(
    ("base", "said"),
    [
        pytest.param("mian", "there is no commit, folder or file 'mian' here; did you mean main?", id="misspelt"),
        pytest.param("HEAD~9", "there is no commit, folder or file 'HEAD~9' here", id="before the first"),
        pytest.param("./nowhere", "there is no folder or file './nowhere'", id="no folder"),
        pytest.param("--output=x", "there is no commit", id="an option"),
        pytest.param(" ", "a side of the comparison is empty", id="nothing"),
        pytest.param("./hollow", "the folder './hollow' holds no flows: it has no 'flows'", id="a folder of nothing"),
    ],
)
async def test_a_side_that_is_not_there(repo: Repository, base: str, said: str) -> None:
    (repo.folder / "hollow").mkdir()
    with pytest.raises(ConfigError) as caught:
        await between(repo, base)
    assert said in str(caught.value)


async def test_outside_of_a_repository_and_in_a_shallow_one(repo: Repository, tmp_path: Path) -> None:
    bare = Repository(tmp_path / "bare")
    bare.write()
    with pytest.raises(ConfigError, match="lies in no git repository"):
        await between(bare)
    repo.write(ONE_MORE)
    repo.commit()
    repo.git("clone", "-q", "--depth", "1", f"file://{repo.folder}", str(tmp_path / "shallow"))
    with pytest.raises(ConfigError, match="this clone is shallow: run git fetch --unshallow"):
        await between(Repository(tmp_path / "shallow"), "HEAD~1")


async def test_what_both_branches_share(known: Repository) -> None:
    known.git("checkout", "-q", "-b", "mine")
    known.commit()
    known.git("checkout", "-q", "main")
    known.write({name: FLOWS[name] for name in ("refund", "track")})
    known.commit()
    found = await between(known, "main...mine", "mine")
    assert (found.flows.removed, list(found.flows.changed)) == ((), ["track"])


@pytest.mark.parametrize(
    ("source", "said"),
    [
        pytest.param("raise RuntimeError('not today')", "not today", id="an error"),
        pytest.param("import os\nos._exit(3)", "ended the process: exit code 3", id="it ends the process"),
        pytest.param("import nothing_like_it", "nothing_like_it", id="a module that is not there"),
    ],
)
async def test_a_version_that_cannot_be_loaded_says_so_itself(repo: Repository, source: str, said: str) -> None:
    (repo.folder / "flows/broken.py").write_text(source, "utf-8")
    with pytest.raises(ConfigError if "exit" not in source else Exception, match=said) as caught:
        await between(repo)
    assert "the working tree" in str(caught.value)
    assert len(list((repo.folder / ".jazz/cache/routes").iterdir())) == 1, "the other side is kept for the next time"


async def test_a_run_that_is_called_off_leaves_nothing_behind(
    repo: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "passing").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "passing"))
    (repo.folder / "flows/slow.py").write_text("import time\ntime.sleep(50)", "utf-8")
    repo.commit()
    task = asyncio.create_task(between(repo))
    await until(lambda: list((tmp_path / "passing").iterdir()))
    await asyncio.sleep(0.5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert list((tmp_path / "passing").iterdir()) == []
    assert repo.git("worktree", "list").count("\n") == 0


async def test_without_a_cache_nothing_is_kept(repo: Repository) -> None:
    repo.write(ONE_MORE)
    found = await between(repo, cache=None, gates=Gates(max_changed_first=0))
    assert not (repo.folder / ".jazz").exists()
    assert [each.gate for each in found.failures] == ["max_changed_first"]
    assert {each.source for each in found.changes} == {Source.EXAMPLE}
    assert any("no labelled cases" in note for note in found.notes)


async def test_what_a_version_may_hold_that_is_not_its_flows(repo: Repository, tmp_path: Path) -> None:
    """Links lead to no file outside of a commit, and a version's own `jazz_select` folder is not imported."""
    (repo.folder / "jazz_select").mkdir()
    (repo.folder / "jazz_select/__init__.py").write_text("raise RuntimeError('the wrong one')", "utf-8")
    repo.write({name: examples for name, examples in FLOWS.items() if name != "refund"})
    repo.write_python("refund")
    (tmp_path / "secret.yaml").write_text("- nothing", "utf-8")
    links = [repo.folder / "flows/outside.yaml", repo.folder / "flows/again.json"]
    for link, target in zip(links, (tmp_path / "secret.yaml", "all.json"), strict=True):
        link.symlink_to(target)
    repo.commit()
    for link in links:
        link.unlink()
    found = await between(repo)
    assert (found.before.flows, found.changes) == (3, ())
    assert "jazz_select" in sys.modules
