"""A skill's files are read within its folder alone; its scripts run without a shell, bounded, without secrets."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from jazz_select import FlowRegistry, load_skills
from jazz_select.errors import ToolArgumentsError, ToolError, ToolOutcomeUnknownError
from jazz_select.routing import Tool
from jazz_select.routing.tool_call import CallOutcome, call_tool
from jazz_select.routing.tools.skill_tools import LoadedSkills
from tests.clock import until
from tests.skills import POLICY, TOTAL, write_refunds, write_skill


def loaded(tmp_path: Path, **scripts: str) -> LoadedSkills:
    write_skill(tmp_path, "work", files={f"scripts/{name}.py": text for name, text in scripts.items()})
    return load_skills(tmp_path, FlowRegistry(), scripts=True, script_timeout_s=20.0)


def tool_of(skills: LoadedSkills, name: str) -> Tool:
    return next(tool for tool in skills.tools if tool.name == name)


async def called(tool: Tool, **arguments: Any) -> CallOutcome:
    return await call_tool(tool, arguments, door="executor", timeout_s=60.0)


@pytest.mark.spec("020.1")
async def test_a_file_is_read_by_its_path(tmp_path: Path) -> None:
    write_refunds(tmp_path)
    (tool,) = load_skills(tmp_path, FlowRegistry()).tools
    assert (tool.name, tool.reads, tool.destructive) == ("read_skill_file", True, False)
    found = await called(tool, skill="process-refunds", path="references/policy.md")
    assert found.output == {"text": POLICY}
    found = await called(tool, skill="process-refunds", path="./scripts/total.py")
    assert found.output == {"text": TOTAL}


OUTSIDE = [
    "../secret.txt",
    "references/../../secret.txt",
    "/etc/passwd",
    "references/link.md",
    "outside/secret.txt",
    "references",
    "",
    ".",
    "references/policy.md/",
    "..\\secret.txt",
    "references/policy.md\0",
    "gone.md",
]


@pytest.mark.spec("020.1")
@pytest.mark.parametrize("path", OUTSIDE)
async def test_nothing_outside_of_the_folder_is_read(tmp_path: Path, path: str) -> None:
    (tmp_path / "secret.txt").write_text("hidden", "utf-8")
    folder = write_refunds(tmp_path / "skills")
    (folder / "references" / "link.md").symlink_to(tmp_path / "secret.txt")
    (folder / "outside").symlink_to(tmp_path)
    (tool,) = load_skills(tmp_path / "skills", FlowRegistry()).tools
    found = await called(tool, skill="process-refunds", path=path)
    assert found.status == "failed"
    assert "hidden" not in str(found)


@pytest.mark.spec("020.1")
async def test_a_file_that_became_a_link_is_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("hidden", "utf-8")
    folder = write_refunds(tmp_path / "skills")
    (tool,) = load_skills(tmp_path / "skills", FlowRegistry()).tools
    (folder / "references" / "policy.md").unlink()
    (folder / "references" / "policy.md").symlink_to(secret)
    assert (await called(tool, skill="process-refunds", path="references/policy.md")).status == "failed"
    (folder / "references" / "policy.md").unlink()
    (folder / "references").rmdir()
    (tmp_path / "references").mkdir()
    (tmp_path / "references" / "policy.md").write_text("hidden", "utf-8")
    (folder / "references").symlink_to(tmp_path / "references")
    assert (await called(tool, skill="process-refunds", path="references/policy.md")).status == "failed"


@pytest.mark.spec("020.1")
async def test_a_long_file_comes_in_pieces_and_bytes_not_at_all(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, "long", files={"a.md": "é" * 90_000})
    (folder / "a.bin").write_bytes(b"\xff\xfe\0")
    (folder / "a.big").write_bytes(b"x" * ((2 << 20) + 1))
    (tool,) = load_skills(tmp_path, FlowRegistry()).tools
    text, start = "", 0
    while start is not None:
        found = await called(tool, skill="long", path="a.md", start=start)
        text += found.output["text"]
        start = found.output.get("next_start")
    assert text == "é" * 90_000
    for path, problem in (("a.bin", "no text"), ("a.big", "larger than")):
        found = await called(tool, skill="long", path=path)
        assert found.error is not None
        assert problem in found.error.message


@pytest.mark.spec("020.1")
async def test_scripts_are_tools_only_where_they_are_allowed_and_may_destroy(tmp_path: Path) -> None:
    write_refunds(tmp_path)
    assert [tool.name for tool in load_skills(tmp_path, FlowRegistry()).tools] == ["read_skill_file"]
    skills = load_skills(tmp_path, FlowRegistry(), scripts=True)
    tool = tool_of(skills, "process-refunds_total")
    assert (tool.destructive, tool.reads) == (True, False)
    found = await called(tool, arguments=["1.5", "2"])
    assert found.output == {"output": "3.5\n"}


@pytest.mark.spec("020.1")
async def test_a_script_gets_no_secret_and_no_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("JAZZ_SERVE_KEY", "secret")
    show = "import json, os, sys\nprint(json.dumps([dict(os.environ), sys.argv[1:], os.getcwd(), sys.stdin.read()]))"
    tool = tool_of(loaded(tmp_path, show=show), "work_show")
    found = await called(tool, arguments=["$HOME; touch x", "`id`"], stdin="hello")
    environment, arguments, folder, given = json.loads(found.output["output"])
    assert not {"OPENAI_API_KEY", "JAZZ_SERVE_KEY"} & set(environment)
    assert "PATH" in environment
    assert arguments == ["$HOME; touch x", "`id`"]
    assert folder == str(tmp_path / "work")
    assert given == "hello"


FAILING = [
    pytest.param(
        "import sys; print('no', file=sys.stderr); sys.exit(3)", ToolError, "it ended with code 3: no", id="code"
    ),
    pytest.param(
        "import os; os.kill(os.getpid(), 9)", ToolOutcomeUnknownError, "it was ended by signal 9", id="signal"
    ),
    pytest.param("import time; time.sleep(60)", ToolOutcomeUnknownError, "it was stopped after 1 s", id="time"),
]


@pytest.mark.spec("020.1")
@pytest.mark.parametrize(("script", "kind", "problem"), FAILING)
async def test_a_script_that_fails_is_told(tmp_path: Path, script: str, kind: type[Exception], problem: str) -> None:
    write_skill(tmp_path, "work", files={"scripts/run.py": script})
    skills = load_skills(tmp_path, FlowRegistry(), scripts=True, script_timeout_s=1.0)
    found = await called(tool_of(skills, "work_run"))
    assert found.error is not None
    assert isinstance(found.error.cause, kind)
    assert problem in found.error.message
    assert found.status == ("unknown" if kind is ToolOutcomeUnknownError else "failed")


@pytest.mark.spec("020.1")
async def test_what_a_script_prints_is_bounded_and_what_it_started_ends_with_it(tmp_path: Path) -> None:
    start = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)'])\n"
        "print(child.pid)\n"
        "print('x' * 5_000_000)\n"
    )
    found = await called(tool_of(loaded(tmp_path, start=start), "work_start"))
    output: str = found.output["output"]
    assert len(output) < 101_000
    assert output.endswith("more bytes …]")
    if sys.platform == "linux":
        state = Path(f"/proc/{output.splitlines()[0]}/stat")
        await until(lambda: not state.exists() or state.read_text().rpartition(")")[2].split()[0] in "ZX")


@pytest.mark.spec("020.1")
async def test_a_script_that_was_exchanged_for_a_link_is_not_run(tmp_path: Path) -> None:
    skills = loaded(tmp_path, run="print(1)")
    other = tmp_path / "other.py"
    other.write_text("print('other')", "utf-8")
    (tmp_path / "work" / "scripts" / "run.py").unlink()
    (tmp_path / "work" / "scripts" / "run.py").symlink_to(other)
    assert (await called(tool_of(skills, "work_run"))).status == "failed"


@pytest.mark.spec("020.1")
async def test_an_argument_that_no_program_takes_is_refused(tmp_path: Path) -> None:
    found = await called(tool_of(loaded(tmp_path, run="print(1)"), "work_run"), arguments=["a\0b"])
    assert found.error is not None
    assert isinstance(found.error.cause, ToolArgumentsError)
