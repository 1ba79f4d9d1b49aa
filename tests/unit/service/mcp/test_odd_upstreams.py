"""Servers behind the gateway that are odd in part, or die: the rest stays, and why is told."""

from pathlib import Path
from typing import Any

import pytest

from tests.clock import until
from tests.unit.service.mcp.desk import data, entry, said
from tests.unit.service.mcp.test_gateway import behind, call

pytestmark = pytest.mark.programs

ODD = r"""
import json, sys

NOTHING = {"type": "object", "properties": {}}
later = False


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def listed():
    count = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
    reads = {"readOnlyHint": True}
    return [
        {"name": "flip", "inputSchema": NOTHING, "annotations": reads},
        {"name": "union", "inputSchema": {"anyOf": [{"type": "object"}]}, "annotations": reads},
        {"name": "count", "inputSchema": NOTHING, "outputSchema": count, "annotations": reads},
        {"name": "odd", "inputSchema": {"type": "string"} if not later else NOTHING, "annotations": reads},
        {"name": "sound", "inputSchema": NOTHING if not later else {"type": "string"}, "annotations": reads},
        {"name": "last", "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}},
         "annotations": reads},
    ]


for line in sys.stdin:
    asked = json.loads(line)
    method, number = asked.get("method"), asked.get("id")
    if method == "initialize":
        capabilities = {"tools": {"listChanged": True}}
        about = {"name": "odd", "version": "1"}
        send(id=number, result={"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": about})
    elif method == "tools/list":
        send(id=number, result={"tools": listed()})
    elif method == "tools/call":
        name, given = asked["params"]["name"], asked["params"].get("arguments")
        if name == "flip":
            later = True
            send(method="notifications/tools/list_changed")
        content = [{"type": "text", "text": json.dumps(given) if name == "last" else "seven"}, {"type": "hologram"}]
        send(id=number, result={"content": content[: 2 if name == "union" else 1]})
    elif number is not None:
        send(id=number, error={"code": -32601, "message": "no such method"})
"""
DIES = r"""
import os, sys
sys.stderr.write("Traceback (most recent call last):\n")
sys.stderr.write("\x1b[31mKeyError: 'LIBRARY_DB'\x1b[0m " + os.environ["API_KEY"] + "\n")
sys.exit(3)
"""
NAMES = {f"lib.{name}" for name in ("flip", "union", "count", "sound", "last")}


def program(folder: Path, source: str, name: str) -> Path:
    path = folder / name
    path.write_text(source, "utf-8")
    return path


@pytest.mark.spec("008.3")
async def test_one_odd_tool_is_left_out_and_named_at_first_and_when_the_list_changes(tmp_path: Path) -> None:
    async with behind({"lib": entry(program(tmp_path, ODD, "odd.py"))}) as (client, made):
        assert set(made.tools) == NAMES
        found = data(await client.call_tool("search_tools", {"request": "count", "limit": 20}))
        assert {tool["name"] for tool in found["tools"]} == NAMES | {"look_up_order", "cancel_order"}
        assert [note for note in found["notes"] if 'the tool "odd" of the MCP server lib is left out' in note]
        await call(client, "lib.flip")
        await until(lambda: "lib.sound" not in made.tools)
        assert set(made.tools) == NAMES - {"lib.sound"} | {"lib.odd"}
        assert [note for note in made.notes if 'the tool "sound"' in note and "takes no object" in note]


async def test_what_it_answers_comes_back_whatever_it_declares(tmp_path: Path) -> None:
    async with behind({"lib": entry(program(tmp_path, ODD, "odd.py"))}) as (client, _):
        assert said(await call(client, "lib.count")) == "seven"
        answer: Any = await call(client, "lib.union")
        assert [part.text for part in answer.content] == ["seven", '{"type":"hologram"}']
        assert said(await call(client, "lib.last", n=None)) == "{}"


async def test_why_a_server_died_is_told_in_its_last_words_and_without_its_secrets(tmp_path: Path) -> None:
    key = "sk-live-0123456789"
    servers = {"gone": entry(program(tmp_path, DIES, "dies.py"), env={"API_KEY": key})}
    async with behind(servers) as (client, made):
        (upstream,) = made.upstreams
        assert "it last wrote \"Traceback (most recent call last): / [31mKeyError: 'LIBRARY_DB'" in upstream.problem
        found = data(await client.call_tool("search_tools", {"request": "anything", "limit": None}))
        (note,) = found["notes"]
        assert "gone is not connected" in note
        assert "KeyError: 'LIBRARY_DB'" in note
        assert key not in upstream.problem + note
        assert "\x1b" not in upstream.problem
