"""Frameworks that are not there, or not in a version that fits: one line at import; and slots that stay thin."""

import ast
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

from jazz_select.errors import MissingExtraError, install_command
from jazz_select.integrations.toolkit import FRAMEWORKS, framework

pytestmark = pytest.mark.spec("009.4")
ROOT = Path(__file__).parents[3]
PARTS = ROOT / "jazz_select" / "integrations"
MODULES = {
    "pydantic-ai": "pydantic_ai",
    "langgraph": "langgraph",
    "openai-agents": "agents",
    "fastmcp": "fastmcp",
    "langchain": "langchain",
}


def installed(folder: Path, package: str, number: str) -> None:
    """As pip leaves it: what says which version there is."""
    info = folder / f"{package.replace('-', '_')}-{number}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {number}\n", "utf-8")


def importing(extra: str, tmp_path: Path, *, hidden: bool = False) -> str:
    """The last line of what Python says when a part is imported where `tmp_path` comes first."""
    module = f"jazz_select.integrations.{extra.replace('-', '_')}"
    gone = f"import sys; sys.modules[{MODULES[extra]!r}] = None; " if hidden else ""
    first = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); "
    command = [sys.executable, "-c", f"{gone}{first}import {module}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    return done.stderr.strip().splitlines()[-1]


STRANGE = ("0.1", "99.0", "99.0b1")


@pytest.mark.programs
@pytest.mark.parametrize("number", STRANGE)
@pytest.mark.parametrize("extra", FRAMEWORKS)
def test_a_version_that_does_not_fit_is_one_clear_line(extra: str, number: str, tmp_path: Path) -> None:
    package, wanted = FRAMEWORKS[extra].package, FRAMEWORKS[extra].wanted
    installed(tmp_path, package, number)
    name = f"jazz_select.integrations.{extra.replace('-', '_')}"
    problem = f"{name} needs the package {package!r} {wanted}, got {number}: {install_command(extra)}"
    assert importing(extra, tmp_path) == f"jazz_select.errors.MissingExtraError: {problem}"


@pytest.mark.programs
@pytest.mark.parametrize("extra", FRAMEWORKS)
def test_what_cannot_be_imported_of_it_is_said_too(extra: str, tmp_path: Path) -> None:
    told = importing(extra, tmp_path, hidden=True)
    assert told.startswith("jazz_select.errors.MissingExtraError: ")
    assert told.endswith(install_command(extra))


def test_what_is_not_installed_is_said_as_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(MissingExtraError) as raised, framework("langgraph"):
        pass
    assert (raised.value.extra, raised.value.wanted, raised.value.found) == ("langgraph", ">=1.2,<2", "")
    assert "needs the package 'langgraph' >=1.2,<2: pip install" in str(raised.value)


@pytest.mark.parametrize("extra", FRAMEWORKS)
def test_the_versions_that_fit_are_those_that_the_extra_installs(extra: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = FRAMEWORKS[extra]
    assert project["optional-dependencies"][extra] == [f"{wanted.package}{wanted.wanted}"]
    everything = next(line for line in project["optional-dependencies"]["test"] if line.startswith("jazz-select["))
    assert extra in everything.partition("[")[2].rstrip("]").split(",")
    constraints = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    assert f"{wanted.package}=={version(wanted.package)}" in constraints


def code_lines(path: Path) -> int:
    """Lines of a module that hold code: no imports, docstrings, comments or blanks."""
    text = path.read_text("utf-8")
    beside: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        ):
            beside.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(text.splitlines(), start=1)
    return sum(number not in beside and bool(line.strip()) and line.strip()[0] != "#" for number, line in lines)


SHARED = {"__init__.py", "toolkit.py", "tool_search.py"}
ADAPTERS = [path for path in sorted(PARTS.rglob("*.py")) if path.name not in SHARED]
SEARCHERS = [path for path in ADAPTERS if "jazz_select.integrations.tool_search" in path.read_text("utf-8")]
MOST_LINES_OF_A_SEARCHER = 60


@pytest.mark.spec("020.2")
def test_a_slot_for_tool_search_takes_few_lines() -> None:
    lines = {path.stem: code_lines(path) for path in SEARCHERS}
    assert len(lines) == 6
    assert max(lines.values()) <= MOST_LINES_OF_A_SEARCHER, lines


@pytest.mark.parametrize(
    ("told", "command"),
    [
        (None, "pip install 'jazz-select[serve]'"),
        ("{", "pip install 'jazz-select[serve]'"),
        (
            '{"url": "file:///wheels/jazz_select-0.1.0-py3-none-any.whl", "archive_info": {}}',
            "pip install 'jazz-select[serve] @ file:///wheels/jazz_select-0.1.0-py3-none-any.whl'",
        ),
        ('{"url": "file:///a%20clone", "dir_info": {}}', "pip install 'jazz-select[serve] @ file:///a%20clone'"),
        ('{"url": "file:///a%20clone", "dir_info": {"editable": true}}', "pip install -e '/a clone[serve]'"),
        (
            '{"url": "https://git.example/it", "vcs_info": {"vcs": "git", "commit_id": "0a1b"}}',
            "pip install 'jazz-select[serve] @ git+https://git.example/it@0a1b'",
        ),
    ],
    ids=["an index", "nothing readable", "a wheel", "a clone", "an editable clone", "a repository"],
)
@pytest.mark.skipif(sys.platform == "win32", reason="paths of a clone are others there")
def test_what_is_missing_is_installed_from_where_the_package_came(
    told: str | None, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "jazz_select-0.1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: jazz-select\nVersion: 0.1.0\n", "utf-8")
    if told is not None:
        (package / "direct_url.json").write_text(told, "utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert str(MissingExtraError("uvicorn", extra="serve", purpose="serving")).endswith(f": {command}")
