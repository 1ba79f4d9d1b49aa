"""Tools and policies from modules, folders and listings."""

import json
from pathlib import Path

import pytest

from jazz_select.errors import DuplicateToolError, FlowLoadError, ToolError
from jazz_select.routing.tools.loading import load_policy, load_tools

TOOLS = '''
from jazz_select import BaseFlow
from jazz_select.routing import Tool

class Beside(BaseFlow):
    """A flow without examples, which a registry with bars would refuse."""
    name = "beside_the_tools"

def add(left: int, right: int) -> int:
    """Add two numbers."""
    return left + right

TOOLS = [add, Tool(name="noop")]
POLICY = "whoever decides"
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tools.py").write_text(TOOLS, "utf-8")
    (tmp_path / "empty.py").write_text("", "utf-8")
    return tmp_path


def test_a_folder_gives_the_tools_of_its_modules_and_leaves_flows_aside(folder: Path) -> None:
    from jazz_select import BaseFlow

    tools = load_tools(folder)
    assert list(tools) == ["add", "noop"]
    assert tools["add"].description == "Add two numbers."
    assert BaseFlow.registry.by_name("beside_the_tools") is None
    assert load_policy(folder) == "whoever decides"
    assert load_policy(folder / "empty.py") is None


def test_a_package_by_name_gives_its_tools_once() -> None:
    tools = load_tools("flows")
    assert {"lookup_order", "issue_refund"} <= set(tools)
    again = load_tools(Path("flows").resolve())
    assert list(again) == list(tools)
    assert again["lookup_order"] is not tools["lookup_order"], "a function gives everyone tools of their own"


MCP = {"tools": [{"name": "read", "inputSchema": {"type": "object"}}]}
OPENAI = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]


@pytest.mark.parametrize(
    "listing", [MCP, {"jsonrpc": "2.0", "result": MCP}, OPENAI, {"tools": OPENAI}], ids=["mcp", "rpc", "openai", "kept"]
)
def test_a_listing_is_told_by_what_it_holds(tmp_path: Path, listing: object) -> None:
    file = tmp_path / "tools.json"
    file.write_text(json.dumps(listing), "utf-8")
    assert list(load_tools(file)) == ["read"]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.py", "", "a list named TOOLS"),
        ("a.py", "TOOLS = 'add'", "is a list of tools"),
        ("a.py", "TOOLS = [3]", "a Tool or a function"),
        ("a.json", "{", "cannot be read as JSON"),
        ("a.json", "3", "a listing is a list"),
        ("a.json", "[]", "there are no tools"),
        ("a.txt", "", ".py and .json"),
        ("missing/a.py", None, "no such package, folder or file"),
    ],
)
def test_what_holds_no_tools_is_said(tmp_path: Path, name: str, text: str | None, problem: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(ToolError, match=problem):
        load_tools(tmp_path / name)


def test_a_module_that_fails_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("raise ValueError('no')", "utf-8")
    with pytest.raises(FlowLoadError, match="ValueError: no"):
        load_tools(tmp_path)


def test_two_tools_of_one_name_are_an_error(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(TOOLS, "utf-8")
    with pytest.raises(DuplicateToolError, match="add"):
        load_tools(tmp_path)
