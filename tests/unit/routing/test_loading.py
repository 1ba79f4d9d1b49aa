"""Tools and policies from modules, folders and listings."""

import json
import sys
from collections.abc import Generator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from jazz_select.errors import DuplicateToolError, FlowLoadError, ToolError
from jazz_select.flow.flow_loading import load_flows
from jazz_select.routing.tools.tool_loading import load_policy, load_tools, no_tools

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
        ("a.py", "TOOLS = 'add'", "tools must be a list of Tools"),
        ("a.py", "TOOLS = [3]", "tools must be Tools or functions"),
        ("a.json", "{", "a.json.*Expecting property name"),
        ("a.json", "3", "a listing must be a list"),
        ("a.json", "[]", "there are no tools"),
        ("a.txt", "", ".py, .yaml and .json"),
        ("missing/a.py", None, "no such package, folder or file"),
        ("a.yaml", None, "no such package, folder or file"),
    ],
)
def test_what_holds_no_tools_is_said(tmp_path: Path, name: str, text: str | None, problem: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(ToolError, match=problem):
        load_tools(tmp_path / name)


def test_where_flows_are_read_from_there_need_not_be_tools(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text("flows: []")
    (tmp_path / "shop.py").write_text("x = 1")
    for source in (tmp_path, tmp_path / "shop.py", tmp_path / "shop.yaml"):
        assert not load_tools(source, may_be_none=True)
    assert load_policy(tmp_path / "shop.yaml") is None
    (tmp_path / "broken.py").write_text("TOOLS = [7, 42]")
    with pytest.raises(ToolError, match=r"its TOOLS: tools must be Tools or functions, got 7"):
        load_tools(tmp_path, may_be_none=True)
    with pytest.raises(ToolError, match="no such package"):
        load_tools(tmp_path / "gone", may_be_none=True)


def test_where_flows_have_no_tools_a_file_of_tools_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text("flows: []")
    assert no_tools(f"{tmp_path}/shop.yaml", named_by="--tools").endswith("so it has none; --tools names them")
    (tmp_path / "tools.yaml").write_text("tools: []")
    for source, where in ((f"{tmp_path}/shop.yaml", "beside it"), (str(tmp_path), "in it")):
        assert f"tools.yaml {where} is read only if it is named; --tools" in no_tools(source, named_by="--tools")
    assert "tools.yaml" not in no_tools("a.package", named_by="--tools")


@pytest.mark.parametrize("source", ["tools_of_nobody.yaml", "tools_of_nobody.py", "tools_of_nobody", "json.nobody"])
def test_a_source_that_is_not_there_is_no_matter_of_flows(source: str) -> None:
    with pytest.raises(ToolError, match=f"'{source}': there is no such package, folder or file, seen from "):
        load_tools(source)


@pytest.mark.parametrize("source", [["tools.py"], None], ids=repr)
def test_several_sources_are_not_one(source: Any) -> None:
    with pytest.raises(ToolError, match="a source is one name or path; load each of several, and put their values"):
        load_tools(source)
    with pytest.raises(FlowLoadError, match="a source is one name or path; load each of several by itself"):
        load_flows(source)


def test_a_folder_of_listings_alone_says_that_a_listing_is_named_itself(tmp_path: Path) -> None:
    (tmp_path / "pilots.json").write_text(json.dumps(MCP), "utf-8")
    with pytest.raises(ToolError, match=r"of a folder only \.py files are read, so name pilots\.json itself"):
        load_tools(tmp_path)


def test_a_module_puts_several_sources_together(tmp_path: Path) -> None:
    (tmp_path / "pilots.json").write_text(json.dumps(MCP), "utf-8")
    (tmp_path / "desk.yaml").write_text("tools: [{name: weigh}]", "utf-8")
    (tmp_path / "all.py").write_text(
        "from pathlib import Path\n"
        "from jazz_select import load_tools\n"
        "here = Path(__file__).parent\n"
        "TOOLS = [*load_tools(here / 'desk.yaml').values(), *load_tools(here / 'pilots.json').values()]\n",
        "utf-8",
    )
    assert list(load_tools(tmp_path)) == ["weigh", "read"]


def test_a_module_that_fails_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("raise ValueError('no')", "utf-8")
    with pytest.raises(FlowLoadError, match="ValueError: no"):
        load_tools(tmp_path)


def test_two_tools_of_one_name_are_an_error(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(TOOLS, "utf-8")
    with pytest.raises(DuplicateToolError, match="add"):
        load_tools(tmp_path)


# --- YAML --------------------------------------------------------------------------

SHOP = '''
from datetime import date

from jazz_select.routing import Tool

def add(left: int, right: int) -> int:
    """Add two numbers."""
    return left + right

class Desk:
    def book(self, when: date, seats: int = 1) -> date:
        """Book a seat."""
        return when

    nothing = None

DESK = Desk()
READY = Tool(name="ready", destructive=True)
'''
TOLD = """
tools:
  - name: lookup_order
    description: Find the latest order.
    input_schema: {type: object, properties: {email: {type: string}, since: {default: 2026-01-02}}, required: [email]}
    output_schema:
      type: object
    provider: shop
    provider_title: The Shop
    group: orders
    secrets: {key: shop_key}
    operation: lookupOrder
    capabilities: [Order:read]
    destructive: true
    idempotent: true
    read_only: false
    title: Look for an order
    undoes: hide_order
    id: shop#1
  - function: yaml_shop:add
    provider: shop
  - name: reserve
    function: yaml_shop:DESK.book
    description: Reserve.
    destructive: true
  - name: raw
    function: yaml_shop:add
    input_schema: {type: object}
  - {function: "yaml_shop:READY", idempotent: true}
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    (tmp_path / "yaml_shop.py").write_text(SHOP, "utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path
    sys.modules.pop("yaml_shop", None)


def test_yaml_says_whatever_a_tool_has(shop: Path) -> None:
    file = shop / "tools.yaml"
    file.write_text(TOLD, "utf-8")
    tools = load_tools(file)
    assert list(tools) == ["lookup_order", "add", "reserve", "raw", "ready"]
    told = tools["lookup_order"]
    assert {field.name: getattr(told, field.name) for field in fields(told)} == {
        "name": "lookup_order",
        "description": "Find the latest order.",
        "input_schema": {
            "type": "object",
            "properties": {"email": {"type": "string"}, "since": {"default": "2026-01-02"}},
            "required": ["email"],
        },
        "output_schema": {"type": "object"},
        "function": None,
        "provider": "shop",
        "provider_title": "The Shop",
        "group": "orders",
        "operation": "lookupOrder",
        "capabilities": ("order.read",),
        "destructive": True,
        "id": "shop#1",
        "idempotent": True,
        "read_only": False,
        "title": "Look for an order",
        "undoes": "hide_order",
        "confirm": None,
        "from_context": {},
        "secrets": {"key": "shop_key"},
        "context_inputs": None,
        "converts": False,
        "argument_checks": {},
    }
    assert (tools["add"].id, tools["add"].description) == ("shop.add", "Add two numbers.")
    assert tools["add"].input_schema["required"] == ["left", "right"]
    assert (tools["reserve"].description, tools["reserve"].destructive) == ("Reserve.", True)
    run: Any = tools["reserve"].function
    assert run(when="2026-05-01") == "2026-05-01"
    assert tools["raw"].input_schema == {"type": "object"}
    assert (tools["ready"].destructive, tools["ready"].idempotent) == (True, True)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("name: one", ["one"]),
        ("- name: one\n- name: two", ["one", "two"]),
        ("name: one\n---\ntools:\n- name: two", ["one", "two"]),
        ("tools:\n- {name: one, inputSchema: {type: object}, annotations: {readOnlyHint: true}}", ["one"]),
        ("- {type: function, function: {name: one, parameters: {type: object}}}", ["one"]),
    ],
    ids=["one", "a list", "documents", "mcp", "openai"],
)
def test_yaml_may_hold_one_tool_or_many_or_a_listing(tmp_path: Path, text: str, names: list[str]) -> None:
    file = tmp_path / "tools.yml"
    file.write_text(text, "utf-8")
    tools = load_tools(file)
    assert list(tools) == names
    assert not tools["one"].destructive


WRONG = {
    "a kind": (
        "tools:\n- name: a\n  destructive: maybe",
        r"tool 'a': .*:3:\d: destructive: input should be a valid boolean",
    ),
    "a number for a text": (
        "tools:\n- name: a\n  provider: 5",
        r":3:\d: provider: .*, got int 5; put quotes around it",
    ),
    "yes for a name": ("- name: yes", r":1:\d: name: .*, got bool True; put quotes"),
    "a text for a list": ("- name: a\n\n  capabilities: read", r":3:\d: capabilities: must be a list"),
    "a list for a schema": (
        "- name: a\n  input_schema: [a]",
        r":2:\d: input_schema: must be a mapping of names to values",
    ),
    "no schema": ("- name: a\n  input_schema:\n    type: strnig", r":2:\d: input_schema: .*strnig"),
    "a misspelt field": (
        "- name: a\n  destuctive: true",
        r":2:\d: destuctive: is no field .*; did you mean 'destructive'",
    ),
    "an unknown field": ("- name: a\n  colour: red", r":2:\d: colour: is no field of a tool; there are name, "),
    "no name": ("- description: a\n- name: b", r":1:\d: name: its name is blank"),
    "no mapping": ("tools:\n- name: a\n- b", r":3:\d: a tool must be a mapping"),
    "no list": ("tools: 5", r":1:\d: it must hold a list of tools"),
    "bad syntax": ("tools:\n- name: a\n  - b", "line 3: "),
    "twice": ("- name: a\n  name: b", "'name' stands twice"),
    "too deep": ("- " * 200 + "a", "100 deep"),
    "no module": (
        "- name: a\n  function: no_such_module:add",
        r":2:\d: function: ModuleNotFoundError.*\(sys.path\)",
    ),
    "no such function": ("- name: a\n  function: yaml_shop:subtract", r":2:\d: function: AttributeError"),
    "no colon": ("- name: a\n  function: yaml_shop.add", r":2:\d: function: it is told as `module:name`"),
    "no function": (
        "- name: a\n  function: yaml_shop:DESK.nothing",
        r":2:\d: function: a tool is made of a function",
    ),
    "nothing": ("", "there are no tools in it; give it a list of them, in YAML under `tools:`"),
}


@pytest.mark.parametrize(("text", "told"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_in_yaml_is_told_with_its_file_and_line(shop: Path, text: str, told: str) -> None:
    file = shop / "tools.yaml"
    file.write_text(text, "utf-8")
    with pytest.raises(ToolError, match=told) as caught:
        load_tools(file)
    assert "tools.yaml" in str(caught.value)
