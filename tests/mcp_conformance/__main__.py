"""Runs the conformance suite of the Model Context Protocol against the server over HTTP, in both ages of the protocol.

`python -m tests.mcp_conformance` installs the suite with npm in a folder of its own, starts a server on this machine
with a gateway in front of the suite's own tools, and compares what fails with `expected.yaml`. Where there is no npm,
it says so and ends with 0; where there is, and the suite cannot be had, with 1.
"""

# ruff: noqa: T201 - a program that prints

import argparse
import asyncio
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import yaml

from jazz_select import Flow, FlowRegistry, ProceduralMemory
from jazz_select.routing.tools.tool import Toolbox
from jazz_select.service.agents import ServedAgents
from jazz_select.service.app import make_app
from jazz_select.service.http.limits import Lifecycle
from jazz_select.service.mcp.agent_server import AgentServer, McpApp
from jazz_select.service.mcp.gateway import Gateway
from jazz_select.service.mcp.servers_file import servers_of
from jazz_select.service.running import RunningCatalogue, Sources
from jazz_select.service.server import bind_address, serve
from jazz_select.service.service_options import ServeOptions
from jazz_select.settings import Settings
from jazz_select.testing import HashEmbedder

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
REVISIONS: Final = ("2025-11-25", "2026-07-28")
LEAST_NODE: Final = 22
NODE: Final = "node@22"
SUITE: Final = "@modelcontextprotocol/conformance"
_INSTALL_S, _RUN_S, _START_S = 300, 420, 30


@dataclass
class Report:
    """What became of the scenarios of a revision."""

    revision: str
    passed: list[str] = field(default_factory=list[str])
    failed: dict[str, str] = field(default_factory=dict[str, str])


def installed(folder: Path) -> list[str]:
    """The command that runs the suite; empty where there is no npm.

    Raises:
        SystemExit: It cannot be had.
    """
    npm = shutil.which("npm")
    if npm is None:
        print("There is no npm here: the conformance suite was not run.")
        return []
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, folder / name)
    program = folder / "node_modules" / SUITE / "dist" / "index.js"
    node = shutil.which("node")
    if not program.is_file():
        _npm(npm, folder, "ci")
    if node is None or _major(node) < LEAST_NODE:
        node = str(folder / "node_modules" / ".bin" / "node")
        if not Path(node).exists():
            _npm(npm, folder, "install", "--no-save", NODE)
    return [node, str(program), "server"]


def _npm(npm: str, folder: Path, *what: str) -> None:
    command = [npm, *what, "--no-audit", "--no-fund", "--loglevel=error"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_INSTALL_S, check=False)
    if done.returncode:
        sys.exit(f"npm {what[0]} failed, so the conformance suite was not run: {done.stderr.strip()[-300:]}")


def _major(node: str) -> int:
    done = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    found = re.match(r"v(\d+)", done.stdout)
    return int(found[1]) if found else 0


@asynccontextmanager
async def serving() -> AsyncGenerator[str]:
    """The address of a server with all that the suite asks for that there is here."""
    registry = FlowRegistry(min_examples=0)
    Flow(name="test_simple_prompt", description="This is a simple prompt for testing.", registry=registry)
    entry = {"command": sys.executable, "args": [str(HERE / "everything.py")], "prefix": "", "trusted": True}
    gateway = Gateway(servers_of({"mcpServers": {"everything": entry}}))
    async with await ProceduralMemory.open(":memory:", embedder=HashEmbedder()) as memory, gateway.running():
        if not await gateway.wait_until_tried(_START_S):
            sys.exit(f"the suite's own tools were not listed within {_START_S} s")
        found = Sources(registry=registry, tools=Toolbox())
        running = RunningCatalogue(Settings(agent_id="support"), memory, lambda: found)
        await running.reload()
        served = ServedAgents({"support": running}, is_open=True)
        mcp_app = McpApp(served, lambda each: AgentServer(each, gateway, listed="all"))
        options, life, ready = ServeOptions(stop_s=1, panel=False), Lifecycle(), asyncio.Event()
        app = make_app(served, options, life=life, parts=[mcp_app.part()])
        listening = bind_address("127.0.0.1", 0)
        task = asyncio.create_task(serve(app, listening, options=options, life=life, ready=ready.set))
        try:
            await asyncio.wait_for(ready.wait(), _START_S)
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        finally:
            life.end()
            await task


def read(revision: str, folder: Path) -> Report:
    """What the suite wrote of each scenario."""
    report = Report(revision)
    for path in sorted(folder.rglob("checks.json")):
        scenario = re.sub(r"^server-(.*?)-\d{4}-\d{2}-\d{2}T.*$", r"\1", path.parent.name)
        checks = cast("list[dict[str, Any]]", json.loads(path.read_text("utf-8")))
        kinds = Counter(str(check.get("status")) for check in checks)
        wrong = [
            str(check.get("errorMessage") or check.get("name")) for check in checks if check["status"] == "FAILURE"
        ]
        if wrong:
            report.failed[scenario] = "; ".join(wrong)[:200]
        elif kinds["SUCCESS"]:
            report.passed.append(scenario)
        else:
            report.failed[scenario] = f"nothing was checked: {dict(kinds)}"
    return report


async def run(command: list[str], folder: Path) -> list[Report]:
    """Every revision against one server."""
    reports: list[Report] = []
    async with serving() as url:
        for revision in REVISIONS:
            results = folder / "results" / revision
            shutil.rmtree(results, ignore_errors=True)
            process = await asyncio.create_subprocess_exec(
                *(*command, "--url", url, "--requirements", revision, "--output-dir", str(results)),
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                cwd=folder,
            )
            await asyncio.wait_for(process.wait(), _RUN_S)
            reports.append(read(revision, results))
    return reports


def judged(reports: list[Report], expected: dict[str, dict[str, str]]) -> int:
    """Print what passed and what did not, and why; how many did not that should have, or did that should not."""
    surprises = 0
    for report in reports:
        known = expected.get(report.revision, {})
        print(
            f"\nMCP {report.revision}: {len(report.passed)} scenarios pass, {len(report.failed)} do not apply or fail"
        )
        for scenario in report.passed:
            late = scenario in known
            surprises += late
            print(f"  pass  {scenario}{'  <- was expected to fail: correct expected.yaml' if late else ''}")
        for scenario, why in report.failed.items():
            surprises += scenario not in known
            said = known.get(scenario) or f"NOT EXPECTED: {why}"
            print(f"  -     {scenario}: {said}")
        if not report.passed:
            surprises += 1
            print("  NOTHING PASSED")
    return surprises


def main() -> int:
    """0 where all is as expected, or there is no npm."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mcp_conformance", description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parser.add_argument("--folder", type=Path, default=ROOT / ".venv" / "mcp-conformance", help="where npm installs it")
    folder: Path = parser.parse_args().folder.resolve()
    command = installed(folder)
    if not command:
        return 0
    reports = asyncio.run(run(command, folder))
    expected = cast("dict[str, dict[str, str]]", yaml.safe_load((HERE / "expected.yaml").read_text("utf-8")) or {})
    return 1 if judged(reports, expected) else 0


if __name__ == "__main__":
    sys.exit(main())
