"""A data file names functions of the project's own modules, and nothing else unless the caller lists it."""

import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from jazz_select.errors import ToolError
from jazz_select.evaluation.checks.checking import check
from jazz_select.routing import load_tools
from tests.vectors import EMBEDDER

MINE = '''
import subprocess
from subprocess import getoutput
from functools import partial
from json import dumps as write


def find_loan(title: str) -> str:
    """Find a loan."""
    return title.upper()


class Desk:
    def close(self) -> str:
        """Close the desk."""
        return "closed"


DESK = Desk()
'''


@pytest.fixture
def folder(tmp_path: Path) -> Generator[Path]:
    (tmp_path / "my_tools.py").write_text(MINE, "utf-8")
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").write_text("", "utf-8")
    (package / "orders.py").write_text(MINE.replace("Find a loan", "Find an order"), "utf-8")
    yield tmp_path
    for name in ("my_tools", "shop", "shop.orders"):
        sys.modules.pop(name, None)


def file_with(folder: Path, function: str) -> Path:
    file = folder / "tools.yaml"
    file.write_text(f'tools:\n  - name: a\n    function: "{function}"\n', "utf-8")
    return file


@pytest.mark.parametrize(
    ("function", "about"),
    [
        ("my_tools:find_loan", "Find a loan."),
        ("my_tools:DESK.close", "Close the desk."),
        ("shop.orders:find_loan", "Find an order."),
    ],
)
def test_a_module_beside_the_file_is_found(folder: Path, function: str, about: str) -> None:
    tools = load_tools(file_with(folder, function))
    assert tools["a"].description == about


def test_a_module_that_python_finds_is_imported_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    before = set(sys.modules)
    load_tools(file_with(folder, "my_tools:find_loan"))
    load_tools(file_with(folder, "my_tools:DESK.close"))
    assert [name for name in set(sys.modules) - before if "my_tools" in name] == ["my_tools"]


def test_a_module_of_the_project_elsewhere_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    (folder / "config").mkdir()
    assert load_tools(file_with(folder / "config", "shop.orders:find_loan"))["a"].description == "Find an order."


REFUSED = [
    "subprocess:getoutput",
    "os:system",
    "os.path:join",
    "builtins:eval",
    "sys:exit",
    "importlib:import_module",
    "yaml:safe_load",
    "pytest:main",
    "jazz_select.data_files:read_text",
    "my_tools:subprocess.getoutput",
    "my_tools:getoutput",
    "my_tools:write",
    "my_tools:partial",
    "my_tools:find_loan.__globals__",
    "my_tools:__builtins__.eval",
]


@pytest.mark.parametrize("function", REFUSED)
def test_what_is_not_the_projects_own_is_refused_with_file_and_line(folder: Path, function: str) -> None:
    with pytest.raises(ToolError, match=r"tools\.yaml:3:\d+: function: ") as caught:
        load_tools(file_with(folder, function))
    said = str(caught.value)
    assert "allow_modules" in said or "name what" in said


@pytest.mark.parametrize("function", ["subprocess:getoutput", "os.path:join", "my_tools:getoutput", "json:dumps"])
def test_the_caller_may_list_more(folder: Path, function: str) -> None:
    file = file_with(folder, function)
    file.write_text(file.read_text("utf-8") + "    input_schema: {type: object}\n", "utf-8")
    with pytest.raises(ToolError):
        load_tools(file)
    assert list(load_tools(file, allow_modules=["subprocess", "os", "posixpath", "ntpath", "json"])) == ["a"]


def test_nothing_is_imported_to_be_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "this", raising=False)
    with pytest.raises(ToolError, match="'this'"):
        load_tools(file_with(folder, "this:s"))
    assert "this" not in sys.modules


def test_all_that_is_wrong_in_a_file_of_tools_is_found_at_once(folder: Path) -> None:
    text = """
tools:
  - name: 7
    description: [x]
    destructive: maybe
  - name: b
    colour: red
    input_schema: {type: nothing}
  - 5
  - name: c
    function: subprocess:getoutput
"""
    (folder / "tools.yaml").write_text(text, "utf-8")
    (folder / "flows.yaml").write_text("name: x\ndescription: y\n", "utf-8")
    found = check(folder / "flows.yaml", tools=folder / "tools.yaml", embedder=EMBEDDER, min_examples=0)
    told = "\n".join(each.what for each in found.found if each.code == "unreadable-file")
    for line, field in ((3, "name"), (4, "description"), (5, "destructive"), (7, "colour"), (8, "input_schema")):
        assert f"tools.yaml:{line}:" in told
        assert f": {field}: " in told
    assert ":9:" in told
    assert ":11:" in told


@pytest.mark.parametrize(
    ("function", "told"),
    [
        ("my_tools:find_lone", "my_tools has no attribute 'find_lone'; did you mean 'find_loan'?"),
        ("my_tools:DESK.clsoe", "my_tools has no attribute 'clsoe'; did you mean 'close'?"),
        ("shop.orders:zzzz", "shop.orders has no attribute 'zzzz'"),
    ],
    ids=["a function", "a method", "nothing near"],
)
def test_a_missing_name_is_told_with_the_module_as_the_file_names_it(folder: Path, function: str, told: str) -> None:
    with pytest.raises(ToolError) as caught:
        load_tools(file_with(folder, function))
    assert str(caught.value).endswith(told)
