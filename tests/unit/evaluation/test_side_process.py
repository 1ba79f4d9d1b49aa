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


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    """With flows in Python."""
    made = repository(tmp_path / "repo")
    made.git("rm", "-q", "flows/all.json")
    for name in FLOWS:
        made.write_python(name)
    made.commit("in Python")
    return made


async def between(repo: Repository, **options: Any) -> Difference:
    return await diff("HEAD", ".", embedder=EMBEDDER, here=repo.folder, cache=None, **options)


@pytest.mark.spec("007.3")
@pytest.mark.parametrize("is_package", [True, False], ids=["a package", "a folder"])
async def test_a_tree_does_not_shadow_what_judges_it(repo: Repository, is_package: bool) -> None:
    for name in ("calendar", "yaml", "numpy", "orjson", "typing_extensions", "types", "string", "logging"):
        (repo.folder / f"{name}.py").write_text(f"raise RuntimeError('{name} of the tree')", "utf-8")
    if is_package:
        (repo.folder / "flows/__init__.py").write_text("import calendar, yaml\nassert yaml.safe_load('1') == 1\n")
    (repo.folder / "shop.py").write_text("GUARDED = True\n", "utf-8")
    file = repo.write_python("refund", guard="GUARDED")
    file.write_text(f"from shop import GUARDED\nimport calendar\n{file.read_text('utf-8')}", "utf-8")
    repo.commit()
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


@pytest.mark.spec("007.3")
@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork, and no group of processes")
@pytest.mark.parametrize(
    ("apart", "ends"),
    [
        pytest.param("", False, id="beside"),
        pytest.param("os.setsid(); ", False, id="in a session of its own"),
        pytest.param("", True, id="when the side itself ends"),
        pytest.param("os.setsid(); ", True, id="apart when it ends"),
    ],
)
async def test_a_background_child_keeps_nobody_waiting(
    repo: Repository, tmp_path: Path, apart: str, ends: bool
) -> None:
    file = tmp_path / "child"
    text = FORK.format(apart=apart, file=str(file), then="os._exit(3)" if ends else "")
    (repo.folder / "flows/child.py").write_text(text, "utf-8")
    began = monotonic()
    try:
        if ends:
            with pytest.raises(FlowLoadError, match="ended the process: exit code 3"):
                await between(repo)
        else:
            assert (await between(repo)).after.flows == 3
        assert monotonic() - began < 40
        assert apart or await ended(file)
    finally:
        if apart:
            os.kill(int(file.read_text("utf-8")), signal.SIGKILL)
