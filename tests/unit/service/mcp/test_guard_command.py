"""`jazz-select guard` as clients start it: at a pipe and over HTTP, in a process of its own."""

import asyncio
import json
import os
import sys
from pathlib import Path

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from typer.testing import CliRunner

from jazz_select.cli import app
from tests.unit.service.mcp.desk import YES, Person, entry, said, server_file
from tests.unit.service.mcp.test_guard import FILES

ROOT = Path(__file__).parents[4]
PROGRAM = ["-c", "from jazz_select.cli import app; app()", "guard"]
KEY = "0123456789abcdef0123"


def environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}  # noqa: TID251 - of a test
    return {**kept, "PYTHONPATH": str(ROOT)}


@pytest.fixture
def servers(tmp_path: Path) -> Path:
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": {"files": entry(server_file(tmp_path, FILES))}}), "utf-8")
    return file


@pytest.mark.programs
@pytest.mark.spec("020.5")
async def test_a_client_starts_it_at_a_pipe(servers: Path, tmp_path: Path) -> None:
    target, log = tmp_path / "notes.txt", tmp_path / "guard.jsonl"
    arguments = [*PROGRAM, "--mcp-servers", str(servers), "--log", str(log)]
    started = StdioServerParameters(command=sys.executable, args=arguments, env=environment())
    person = Person("accept", YES)
    with (tmp_path / "stderr").open("w") as errors:
        async with Client(stdio_client(started, errlog=errors), elicitation_callback=person) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["read", "append", "search", "wait"]
            assert said(await client.call_tool("append", {"path": str(target), "text": "x"})) == "added"
    assert target.read_text("utf-8") == "x"
    assert len(person.questions) == 1
    shown = (tmp_path / "stderr").read_text("utf-8")
    assert "guard: 1 of 1 server connected, 4 tools: 2 wait for a yes" in shown
    assert '"event":"allowed"' in log.read_text("utf-8")


@pytest.mark.programs
@pytest.mark.spec("020.5")
async def test_over_http_a_key_is_needed_and_names_the_client_in_the_log(servers: Path, tmp_path: Path) -> None:
    (tmp_path / "ada.key").write_text(KEY, "utf-8")
    log = tmp_path / "guard.jsonl"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *PROGRAM,
        *("--mcp-servers", str(servers), "--http", "--port", "0"),
        *("--key-file", str(tmp_path / "ada.key"), "--log", str(log)),
        env=environment(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        url = (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()
        async with httpx2.AsyncClient() as stranger:
            assert (await stranger.post(url, json={})).status_code == 401
        headers = {"Authorization": f"Bearer {KEY}"}
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            Client(streamable_http_client(url, http_client=http), elicitation_callback=Person("decline")) as client,
        ):
            result = await client.call_tool("append", {"path": str(tmp_path / "a"), "text": "x"})
            assert result.is_error
    finally:
        process.terminate()
        await process.wait()
    assert not (tmp_path / "a").exists()
    told = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    assert {each["client"] for each in told} == {"ada"}


MISUSE = [
    pytest.param([], "name the MCP servers to guard", id="no file"),
    pytest.param(["--mcp-servers", "gone.json"], "gone.json cannot be read", id="a file that is not there"),
    pytest.param(["--mcp-servers", "bad.json"], "is no JSON", id="no JSON"),
    pytest.param(["--mcp-servers", "down.json"], "none of the MCP servers is connected", id="none connected"),
    pytest.param(["--mcp-servers", "down.json", "--log", "no/such/log"], "cannot be written", id="no log"),
    pytest.param(["--mcp-servers", "down.json", "--http", "--host", "0.0.0.0"], "a key is needed", id="no key"),  # noqa: S104
]


@pytest.mark.spec("020.5")
@pytest.mark.parametrize(("options", "problem"), MISUSE)
def test_what_cannot_work_is_said_in_one_line(
    options: list[str], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.json").write_text("{", "utf-8")
    Path("down.json").write_text('{"mcpServers": {"gone": {"command": "/no/such/program"}}}', "utf-8")
    result = CliRunner().invoke(app, ["guard", *options])
    assert result.exit_code == 2, result.output
    assert problem in " ".join(result.stderr.split())
