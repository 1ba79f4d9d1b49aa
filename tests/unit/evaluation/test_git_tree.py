"""Versions out of git as somebody hostile, or a clone that is not whole, has them."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from jazz_select.errors import ConfigError
from jazz_select.evaluation import diff
from jazz_select.evaluation.changes.git_tree import commit_of, write_files
from tests.unit.evaluation.repository import Repository, repository
from tests.vectors import EMBEDDER

Entry = tuple[str, str, bytes]
"""Mode, name and content; of a tree, the entries as `crafted` made them."""


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return repository(tmp_path / "repo")


def stored(repo: Repository, kind: str, content: bytes) -> str:
    words = ["git", "hash-object", "-t", kind, "-w", "--stdin", "--literally"]
    done = subprocess.run(words, cwd=repo.folder, input=content, capture_output=True, check=True)
    return done.stdout.decode().strip()


def tree(repo: Repository, entries: Sequence[tuple[str, str, str]]) -> str:
    """A tree of mode, name and hash, whatever git thinks of it."""
    content = b"".join(f"{mode} {name}".encode() + b"\0" + bytes.fromhex(sha) for mode, name, sha in entries)
    return stored(repo, "tree", content)


def committed(repo: Repository, top: str) -> str:
    sha = repo.git("commit-tree", top, "-m", "crafted")
    repo.git("update-ref", "refs/heads/evil", sha)
    return sha


def written(repo: Repository, into: Path) -> None:
    into.mkdir(parents=True)
    write_files(commit_of("evil", repo.folder), "", into)


def below(folder: Path) -> list[str]:
    return sorted(each.relative_to(folder).as_posix() for each in folder.rglob("*"))


@pytest.mark.spec("007.3")
@pytest.mark.parametrize(
    "names",
    [
        pytest.param(("..", "escaped"), id="the folder above"),
        pytest.param(("flows", "..", "..", "escaped"), id="above, from further down"),
        pytest.param(("a/../../escaped",), id="in one name"),
        pytest.param(("/escaped",), id="absolute"),
        pytest.param(("", "escaped"), id="no name"),
        pytest.param((".", "escaped"), id="the folder itself"),
        pytest.param((".git", "config"), id="git's own"),
        pytest.param((".GIT", "config"), id="git's own, in capitals"),
    ],
)
def test_a_path_that_leads_out_is_refused(repo: Repository, tmp_path: Path, names: Sequence[str]) -> None:
    *folders, file = names
    top = tree(repo, [("100644", file, stored(repo, "blob", b"evil"))])
    for name in reversed(folders):
        top = tree(repo, [("40000", name, top)])
    committed(repo, top)
    with pytest.raises(ConfigError, match=r"which no checkout may write|empty filename"):
        written(repo, tmp_path / "deep/into")
    assert below(tmp_path / "deep") == ["into"], "nothing was written"
    assert not Path("/escaped").exists()


def test_nothing_is_written_through_a_link(repo: Repository, tmp_path: Path) -> None:
    inner = tree(repo, [("100644", "file", stored(repo, "blob", b"evil"))])
    top = tree(repo, [("120000", "d", stored(repo, "blob", b"../out")), ("40000", "d", inner)])
    committed(repo, top)
    (tmp_path / "deep/out").mkdir(parents=True)
    written(repo, tmp_path / "deep/into")
    assert below(tmp_path / "deep/out") == []
    assert (tmp_path / "deep/into/d/file").read_bytes() == b"evil", "there it is no link"


def test_links_stay_where_they_lead_inside_once_all_of_it_lies_there(repo: Repository, tmp_path: Path) -> None:
    """`a` seems to stay inside until `b`, which comes later, is a link as well."""
    links = {"a": b"b/../out", "b": b".", "c": b"c", "good": b"d/e/file", "up": b"..", "root": b"/etc", "x": b"d"}
    inner = tree(repo, [("100644", "file", stored(repo, "blob", b"x"))])
    deep = tree(repo, [("40000", "e", inner), ("120000", "z", stored(repo, "blob", b"../x/../../out"))])
    entries = [("120000", name, stored(repo, "blob", leads)) for name, leads in links.items()]
    committed(repo, tree(repo, sorted([*entries, ("40000", "d", deep)], key=lambda each: each[1])))
    into = tmp_path / "into"
    written(repo, into)
    assert below(into) == ["b", "d", "d/e", "d/e/file", "good", "x"]
    assert all(each.resolve().is_relative_to(into.resolve()) for each in into.rglob("*"))
    assert (into / "good").read_bytes() == b"x"


@pytest.mark.programs
async def test_a_blob_that_is_not_there_says_what_to_do(repo: Repository) -> None:
    sha = repo.git("rev-parse", "HEAD:flows/all.json")
    (repo.folder / ".git/objects" / sha[:2] / sha[2:]).unlink()
    with pytest.raises(ConfigError, match=r"cannot give the files of HEAD .* run git fetch --refetch"):
        await diff("HEAD", ".", embedder=EMBEDDER, here=repo.folder)


@pytest.mark.parametrize(
    ("base", "flows", "said"),
    [
        pytest.param("HEAD", "../../etc", "'../../etc' lie outside the repository", id="above the top"),
        pytest.param("HEAD", "flows/../../../x", "lie outside the repository", id="above it, from further down"),
        pytest.param("HEAD\0x", "flows", "has a NUL in its name", id="a NUL"),
        pytest.param("nothing:of:it", "flows", "no commit, folder or file 'nothing:of:it'", id="colons and no commit"),
    ],
)
async def test_a_name_that_cannot_be_one_says_why(repo: Repository, base: str, flows: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        await diff(base, ".", flows=flows, embedder=EMBEDDER, here=repo.folder)
    assert said in str(caught.value)


@pytest.mark.programs
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(":/mend: all", id="a message with a colon"),
        pytest.param("HEAD^{/mend: all}", id="the nearest such message"),
        pytest.param("main@{2099-01-01 12:30:00}", id="a time"),
    ],
)
async def test_a_revision_may_have_colons(repo: Repository, name: str) -> None:
    repo.git("commit", "-q", "--allow-empty", "-m", "mend: all of it")
    found = await diff(name, ".", embedder=EMBEDDER, here=repo.folder)
    assert (found.changes, found.before.flows) == ((), 3)
    assert repo.git("rev-parse", "HEAD")[:9] in found.base


@pytest.mark.programs
async def test_looking_at_a_repository_leaves_its_index_alone(repo: Repository) -> None:
    file = repo.folder / "flows/all.json"
    os.utime(file, (1_000_000_000, 1_000_000_000))
    before = (repo.folder / ".git/index").read_bytes()
    await diff("HEAD", ".", embedder=EMBEDDER, here=repo.folder)
    assert (repo.folder / ".git/index").read_bytes() == before
    repo.git("status")
    assert (repo.folder / ".git/index").read_bytes() != before, "there was something to refresh"
