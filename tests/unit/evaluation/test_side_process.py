"""What the flows of a side do to the process that judges them."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from jazz_select.errors import FlowLoadError
from jazz_select.evaluation import Difference, diff
from tests.unit.evaluation.repository import FLOWS, Repository, repository
from tests.vectors import EMBEDDER

pytestmark = pytest.mark.programs


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    """With flows in Python."""
    made = repository(tmp_path / "repo")
    made.git("rm", "-q", "flows/all.json")
    for name in FLOWS:
        made.write_python(name)
    made.commit("in Python")
    return made


async def between(repo: Repository, *, cache: Path | None = None, **options: Any) -> Difference:
    return await diff("HEAD", ".", embedder=EMBEDDER, here=repo.folder, cache=cache, **options)


@pytest.mark.spec("007.3")
async def test_a_tree_does_not_shadow_what_judges_it(repo: Repository) -> None:
    """Of a commit whose flows are a package, and of a working tree where they are a folder."""
    for name in ("calendar", "yaml", "numpy", "orjson", "typing_extensions", "types", "string", "logging"):
        (repo.folder / f"{name}.py").write_text(f"raise RuntimeError('{name} of the tree')", "utf-8")
    package = repo.folder / "flows/__init__.py"
    package.write_text("import calendar, yaml\nassert yaml.safe_load('1') == 1\n")
    (repo.folder / "shop.py").write_text("GUARDED = True\n", "utf-8")
    file = repo.write_python("refund", guard="GUARDED")
    file.write_text(f"from shop import GUARDED\nimport calendar\n{file.read_text('utf-8')}", "utf-8")
    repo.commit()
    package.unlink()
    repo.write_python("track", guard="False")
    found = await between(repo)
    assert (found.before.flows, found.after.flows) == (3, 3)
    assert found.moved
    assert all(each.before.first == "track" for each in found.moved if each.expect == ("track",))


async def test_a_package_of_the_same_name_elsewhere_does_not_win(
    repo: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("flows", "helpers"):
        (tmp_path / "elsewhere" / folder).mkdir(parents=True)
        (tmp_path / "elsewhere" / folder / "__init__.py").write_text("raise RuntimeError('of another place')", "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "elsewhere"))
    (repo.folder / "helpers").mkdir()
    (repo.folder / "helpers/__init__.py").write_text("HERE = True\n", "utf-8")
    (repo.folder / "flows/__init__.py").write_text("from helpers import HERE\n", "utf-8")
    repo.commit()
    found = await between(repo, flows="flows")
    assert (found.before.flows, found.changes) == (3, ())


needs_fork = pytest.mark.skipif(sys.platform == "win32", reason="there is no fork, and no group of processes")
FORK = """import fcntl, os, time
if os.fork() == 0:
    {apart}held = open({file!r}, "w")
    fcntl.flock(held, fcntl.LOCK_EX)
    held.write(str(os.getpid()))
    held.flush()
    time.sleep(60)
    os._exit(0)
while not (os.path.exists({file!r}) and os.path.getsize({file!r})):
    time.sleep(.01)
{then}
"""


async def ended(file: Path) -> bool:
    """Whether the child that holds this file ends within a moment."""
    import fcntl  # not on every platform

    for _ in range(100):
        try:
            with file.open() as other:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            await asyncio.sleep(0.05)
        else:
            return True
    return False


def write_child(folder: Path, file: Path, *, apart: bool, ends: bool = False) -> None:
    """A module of flows that starts a child, which holds this file for a minute, and may end its own process then."""
    then = "os._exit(3)" if ends else ""
    text = FORK.format(apart="os.setsid(); " if apart else "", file=str(file), then=then)
    (folder / "flows/child.py").write_text(text, "utf-8")


@pytest.mark.spec("007.3")
@needs_fork
async def test_a_background_child_keeps_nobody_waiting(repo: Repository, tmp_path: Path) -> None:
    """Of a commit, whose child is in a session of its own, and of a working tree, whose child is beside it."""
    apart, beside = tmp_path / "apart", tmp_path / "beside"
    write_child(repo.folder, apart, apart=True)
    repo.commit()
    write_child(repo.folder, beside, apart=False)
    began = monotonic()
    try:
        found = await between(repo)
        assert (found.before.flows, found.after.flows) == (3, 3)
        assert monotonic() - began < 40
        assert await ended(beside)
    finally:
        os.kill(int(apart.read_text("utf-8")), signal.SIGKILL)


@pytest.mark.spec("007.3")
@needs_fork
async def test_a_background_child_keeps_nobody_waiting_when_the_side_itself_ends(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    for apart in (False, True):  # the commit is known the second time
        file = tmp_path / f"child {apart}"
        write_child(repo.folder, file, apart=apart, ends=True)
        began = monotonic()
        try:
            with pytest.raises(FlowLoadError, match="ended the process: exit code 3"):
                await between(repo, cache=tmp_path / "cache")
            assert monotonic() - began < 40
            assert apart or await ended(file)
        finally:
            if apart:
                os.kill(int(file.read_text("utf-8")), signal.SIGKILL)
