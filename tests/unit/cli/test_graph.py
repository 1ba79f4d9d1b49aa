"""`jazz-select graph`."""

import json
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from tests.unit.cli import shapes
from tests.unit.cli.conftest import Jazz

ROOT = Path(__file__).parents[3]


def test_the_pack_renders_as_mermaid(jazz: Jazz, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = jazz("graph", "flows")
    lines = result.stdout.splitlines()
    assert lines[0] == "flowchart LR"
    ids = dict(line.strip().rstrip('"]').split('["') for line in lines if '["' in line)
    names = {name: node for node, name in ids.items()}
    assert f"    {names['create_return']} --> {names['issue_refund']}" in lines
    assert f"    {names['lookup_order']} -. 0.50 .-> {names['create_exchange']}" in lines
    assert f"{len(ids)} tools" in result.stderr
    assert "no other tool gives what these want: lookup_order, list_orders, check_stock" in result.stderr


def test_json_holds_edges_and_what_is_odd(jazz: Jazz) -> None:
    listing = {
        "tools": [
            {"name": name, "inputSchema": {"type": "object", "properties": {"x": {"type": "string"}}}}
            for name in ("find", "FIND")
        ]
    }
    file = jazz.folder / "tools.json"
    file.write_text(json.dumps(listing), "utf-8")
    printed = jazz("graph", str(file), "--json").stdout
    TypeAdapter(shapes.Graph).validate_json(printed, strict=True, extra="forbid")
    graph = json.loads(printed)
    assert graph["tools"] == ["find", "FIND"]
    assert graph["edges"] == []
    assert graph["unreachable"] == ["find", "FIND"]
    assert graph["collisions"] == [["find", "FIND"]]


@pytest.mark.parametrize("bar", ["0.9", "1"])
def test_a_higher_bar_leaves_the_sure_edges(jazz: Jazz, monkeypatch: pytest.MonkeyPatch, bar: str) -> None:
    monkeypatch.chdir(ROOT)
    graph = json.loads(jazz("graph", "flows", "--json", "--min-compatibility", bar).stdout)
    assert graph["edges"]
    assert {edge["compatibility"] for edge in graph["edges"]} == {1.0}


def test_a_source_without_tools_is_an_error_that_says_what_to_do(jazz: Jazz) -> None:
    (jazz.folder / "empty.py").write_text("", "utf-8")
    result = jazz("graph", str(jazz.folder / "empty.py"), code=2)
    assert "give a module a list named TOOLS, see docs/tools.md" in result.stderr
