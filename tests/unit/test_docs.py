"""The papers keep their word: every Python block runs, every link between them leads somewhere."""

import ast
import inspect
import json
import os
import pkgutil
import re
import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from jazz_select import FlowRegistry
from jazz_select.flow.flow_loading import load_flows
from jazz_select.settings import Settings
from tests.doc_blocks import ScriptFailedError, WrongOutputError, blocks, run
from tests.doc_pages import Pages

ROOT = Path(__file__).parents[2]
PAPERS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")])
WITH_CODE = [path for path in PAPERS if list(blocks(path.read_text("utf-8"), path.name))]


API = ROOT / "docs" / "api.md"
NEEDS = dict.fromkeys(["docs/mcp.md", "docs/mcp-server.md", "docs/guard.md"], "mcp")
"""Pages that only run with an extra, and the package that it brings."""


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.fixture(scope="module")
def pages() -> Iterator[Pages]:
    pages = Pages()
    yield pages
    pages.close()


@pytest.mark.programs
@pytest.mark.parametrize("path", WITH_CODE, ids=name)
def test_every_python_block_runs(path: Path, pages: Pages, tmp_path: Path) -> None:
    if name(path) in NEEDS:
        pytest.importorskip(NEEDS[name(path)], reason="its extra is not installed")
    here = tmp_path / "here"
    here.mkdir()
    for folder in ("flows", "examples"):  # what a reader has at hand in a clone, to read and to spoil
        if (ROOT / folder).is_dir():
            shutil.copytree(ROOT / folder, here / folder)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("JAZZ_")}  # noqa: TID251
    status, said = pages.run(path, name(path), folder=here, environment=environment)
    assert status == 0, said


def anchors(text: str) -> set[str]:
    """The anchors that headings make."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAPERS, ids=name)
def test_links_between_the_papers_lead_somewhere(path: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if "://" in target or target.startswith("mailto:"):
            continue
        file, _, anchor = target.partition("#")
        there = path if not file else (path.parent / file)
        assert there.exists(), f"{target} is not there"
        if anchor and there.suffix == ".md":
            assert anchor in anchors(there.read_text("utf-8")), f"{target} has no such heading"


def test_every_name_of_the_api_is_there_once() -> None:
    names = re.findall(r"^::: (\S+)$", API.read_text("utf-8"), re.MULTILINE)
    assert len(names) > 50
    assert [each for each, number in Counter(names).items() if number > 1] == []
    assert [pkgutil.resolve_name(each) for each in names]


def imported_by_papers() -> set[tuple[str, str]]:
    """What the blocks of all papers import from here: module and name."""
    trees = (ast.parse(block.source) for path in WITH_CODE for block in blocks(path.read_text("utf-8"), name(path)))
    nodes = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return {(node.module or "", each.name) for node in nodes for each in node.names}


PACKAGES = ("jazz_select", "jazz_select.agent", "jazz_select.routing", "jazz_select.testing")
PUBLIC = {(package, each) for package in PACKAGES for each in pkgutil.resolve_name(package).__all__}


@pytest.mark.parametrize("names", [PUBLIC, imported_by_papers()], ids=["exported", "shown"])
def test_every_name_that_a_reader_may_import_is_in_the_api(names: set[tuple[str, str]]) -> None:
    listed = [pkgutil.resolve_name(each) for each in re.findall(r"^::: (\S+)$", API.read_text("utf-8"), re.MULTILINE)]
    unlisted: set[str] = set()
    for module, each in names:
        if module.partition(".")[0] == "jazz_select":
            value = pkgutil.resolve_name(f"{module}.{each}")
            home = getattr(value, "__module__", None)
            wholes = [one for one in listed if inspect.ismodule(one) and home in {None, one.__name__}]
            if not any(value is one for one in listed) and not any(each in vars(whole) for whole in wholes):
                unlisted.add(f"{module}.{each}")
    assert unlisted == set()


def test_every_decision_is_listed() -> None:
    decisions = ROOT / "docs" / "inside" / "decisions"
    listed = re.findall(r"\]\((\d{4}-[^)]+\.md)\)", (decisions / "index.md").read_text("utf-8"))
    assert listed == sorted(path.name for path in decisions.glob("[0-9]*.md"))


@pytest.mark.parametrize("paper", ["docs/index.md", "mkdocs.yml"])
def test_every_page_is_listed(paper: str) -> None:
    inside = {f"inside/{path.name}" for path in (ROOT / "docs" / "inside").glob("*.md")} | {"inside/decisions/index.md"}
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} | inside
    listed = set(re.findall(r"(?:\(|: )([\w/-]+\.md)\b", (ROOT / paper).read_text("utf-8")))
    assert pages - listed - ({"index.md"} if paper != "mkdocs.yml" else set()) == set()


MOST_WORDS = 1_500
"""A page that holds more answers more than one question: split it."""


@pytest.mark.spec("022.7")
def test_a_page_is_no_longer_than_one_reads() -> None:
    words = {path.name: len(path.read_text("utf-8").split()) for path in (ROOT / "docs").glob("*.md")}
    assert [name for name, count in words.items() if count > MOST_WORDS] == []


AWAITING = [
    "index.md",
    "tools.md",
    "chains.md",
    "calling-tools.md",
    "caller-context.md",
    "real-tools.md",
    "tracing.md",
    "mcp.md",
    "mcp-server.md",
    "client.md",
    "answers.md",
    "router.md",
    "agent-with-model.md",
    "agent-without-model.md",
    "running-turns.md",
    "approving.md",
    "once.md",
    "pydantic-ai.md",
    "langgraph.md",
    "openai-agents.md",
    "embedders.md",
    "stores.md",
    "models.md",
    "testing.md",
    "recorded-conversations.md",
    "tested-catalogue.md",
]


@pytest.mark.parametrize("page", AWAITING)
def test_a_page_that_awaits_says_where_that_works(page: str) -> None:
    text = (ROOT / "docs" / page).read_text("utf-8")
    assert "Jupyter or IPython, where `await` works" in " ".join(text.split())
    assert "`asyncio.run(main())`" in text


def test_every_variable_is_named() -> None:
    named = set(re.findall(r"JAZZ_\w+", (ROOT / "docs" / "command-line.md").read_text("utf-8")))
    assert named == {f"JAZZ_{field.upper()}" for field in Settings.model_fields}


def test_each_test_that_holds_a_promise_is_there() -> None:
    promises = (ROOT / "SECURITY.md").read_text("utf-8").partition("| Promise | Held by |")[2].partition("\n\n")[0]
    rows = promises.strip().splitlines()[1:]
    held = [re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", row) for row in rows]
    assert len(held) > 10
    assert [row for row, found in zip(rows, held, strict=True) if not found or row.count("::") != len(found)] == []
    gone = {f"{file}::{test}" for found in held for file, test in found if test not in functions_of(ROOT / file)}
    assert gone == set()


def functions_of(file: Path) -> set[str]:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {each.name for each in ast.parse(file.read_text("utf-8")).body if isinstance(each, functions)}


FLOW_FILES = re.findall(
    r"^```yaml\n(.*?)^```", (ROOT / "docs/authoring.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
)


@pytest.mark.parametrize("text", FLOW_FILES, ids=range(len(FLOW_FILES)))
def test_every_flow_file_that_is_shown_loads(text: str, tmp_path: Path) -> None:
    file = tmp_path / "flows.yaml"
    file.write_text(text, encoding="utf-8")
    assert load_flows(file, FlowRegistry())


START = ("tutorial.md", "first-agent.md", "first-tests.md", "first-service.md")
SHOWN = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def typed(session: str) -> list[tuple[str, list[str]]]:
    """The commands of a console block, each with the lines that it is said to print."""
    lines: list[tuple[str, list[str]]] = []
    for line in session.splitlines():
        if line.startswith("$ "):
            lines.append((line[2:], []))
        else:
            lines[-1][1].append(line)
    return lines


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A shell in an empty folder, with the commands of this environment; what it began ends with it."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("JAZZ_")}  # noqa: TID251
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    pipe = subprocess.PIPE
    shell = subprocess.Popen(
        [shutil.which("bash") or "bash", "--norc", "-m"],
        cwd=tmp_path,
        env=environment,
        stdin=pipe,
        stdout=pipe,
        stderr=subprocess.STDOUT,
        text=True,
    )
    yield shell
    shell.communicate("kill $(jobs -p) 2>/dev/null\n", timeout=30)


def answered(shell: subprocess.Popen[str], order: str) -> str:
    """What a command prints, which has to end well."""
    assert shell.stdin
    assert shell.stdout
    shell.stdin.write(f"{order}\nprintf '\\n# %s\\n' $?\n")
    shell.stdin.flush()
    printed = ""
    for line in shell.stdout:
        if re.fullmatch(r"# \d+\n", line):
            assert line == "# 0\n", f"{order}\n{printed}"
            return printed
        printed += line
    raise AssertionError(f"{order} ended the shell\n{printed}")


@pytest.mark.programs
@pytest.mark.timeout(300)
def test_the_first_pages_work_as_printed(shell: subprocess.Popen[str], tmp_path: Path) -> None:
    pytest.importorskip("starlette", reason="the last page serves")
    port = str(free_port())
    for page in START:
        text = (ROOT / "docs" / page).read_text("utf-8").replace("jazz-select serve ", "jazz-select serve --port 8420 ")
        for language, title, shown in SHOWN.findall(text.replace("8420", port)):
            if title:
                (tmp_path / title).parent.mkdir(exist_ok=True)
                (tmp_path / title).write_text(shown, "utf-8")
            for order, promised in typed(shown) if language == "console" else ():
                printed = answered(shell, order)
                said = " ".join(printed.split())
                missing = [each for each in promised if " ".join(each.partition("…")[0].split()) not in said]
                assert missing == [], f"{page}: {order}\n{printed}"


@pytest.mark.programs
def test_the_first_script_and_the_command_see_the_same_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = next(
        block for block in blocks((ROOT / "docs" / "index.md").read_text("utf-8"), "index.md") if block.is_script
    )
    Path("support.py").write_text(script.code, encoding="utf-8")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("JAZZ_")}  # noqa: TID251
    for command in (
        [sys.executable, "support.py"],
        [
            sys.executable,
            "-c",
            "from jazz_select.cli import app; app()",
            "select",
            "money back",
            "--flows",
            "support.py",
            "--json",
        ],
    ):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stderr == ""
    assert json.loads(done.stdout)["chosen"][0]["flow_name"] == "refund_order"


# --- the runner itself -----------------------------------------------------------

MAIN = '\n\nif __name__ == "__main__":\n    main()'


def markdown(*codes: str, info: str = "") -> str:
    return "\n".join(f"text\n\n```python{info}\n{code}\n```\n" for code in codes)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(markdown("a = 1", "assert a == 1"), id="blocks share a session"),
        pytest.param(
            markdown(
                "import asyncio\nloop = asyncio.get_running_loop()\nawait asyncio.sleep(0)",
                "import asyncio\nawait asyncio.sleep(0)\nassert asyncio.get_running_loop() is loop",
            ),
            id="and a loop",
        ),
        pytest.param(
            markdown("import asyncio\nasync def f(): return 1\nassert asyncio.run(f()) == 1"), id="asyncio.run"
        ),
        pytest.param(markdown("print(1, 2)\n#> 1 2\nprint()\n#>\nprint('x')\n#> x"), id="output as it says"),
        pytest.param(markdown("print('not said')"), id="output not said"),
        pytest.param(markdown("1 / 0", info=" no-run"), id="no-run in the fence"),
        pytest.param("<!-- no-run -->\n" + markdown("1 / 0").removeprefix("text\n\n"), id="no-run above the fence"),
        pytest.param("```bash\nexit 1\n```\n", id="another language"),
        pytest.param("- item\n\n  ```python\n  if True:\n      pass\n  ```\n", id="indented"),
        pytest.param(markdown("def main():\n    print(1)\n    #> 1" + MAIN), id="a script"),
        pytest.param(
            markdown("import inspect\nclass A:\n    x = 1", "assert 'x = 1' in inspect.getsource(A)"),
            id="source is found",
        ),
    ],
)
def test_the_runner_runs_what_a_reader_would(text: str) -> None:
    run(text, "doc_page.md")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param(markdown("a = 1", "assert a == 2"), AssertionError, id="a false claim"),
        pytest.param(markdown("print(1)\n#> 2"), WrongOutputError, id="another output"),
        pytest.param(markdown("print(1)\nprint(2)\n#> 1"), WrongOutputError, id="more output"),
        pytest.param(markdown("def main():\n    print(1)\n    #> 2" + MAIN), WrongOutputError, id="a script's output"),
        pytest.param(markdown("def main():\n    1 / 0" + MAIN), ScriptFailedError, id="a script's mistake"),
        pytest.param(markdown("a = 1", "def main():\n    a" + MAIN), ScriptFailedError, id="a script is whole"),
        pytest.param(markdown("f(", info=" no-run"), SyntaxError, id="no-run is compiled all the same"),
        pytest.param(
            markdown("import asyncio\nawait asyncio.wait_for(asyncio.Event().wait(), 0)"),
            TimeoutError,
            id="in a coroutine",
        ),
    ],
)
def test_the_runner_fails_where_a_reader_would(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        run(text, "doc_page.md")


def test_a_mistake_is_reported_where_it_stands() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run(markdown("a = 1", "a = 0\n1 / a"), "doc_page.md")
    assert [entry.lineno + 1 for entry in caught.traceback if str(entry.path).endswith("doc_page.md")] == [11]


LEAVES = """
import os, sys, warnings
import jazz_select
jazz_select.left = sys.left = 1
os.environ["LEFT"] = "1"
os.chdir("..")
warnings.simplefilter("ignore")
"""
FINDS_NOTHING = """
import os, sys
from pathlib import Path
import jazz_select
assert not hasattr(sys, "left") and not hasattr(jazz_select, "left") and "LEFT" not in os.environ
assert os.environ["GIVEN"] == "1" and Path("beside.py").exists()
import beside
assert Path(beside.__file__).parent == Path.cwd()
"""


@pytest.mark.programs
@pytest.mark.parametrize(
    ("code", "status", "says"),
    [
        pytest.param(FINDS_NOTHING, 0, "", id="nothing of the one before"),
        pytest.param("import warnings\nwarnings.warn('old')", 1, "UserWarning: old", id="warnings are errors"),
        pytest.param("1 / 0", 1, "ZeroDivisionError", id="a mistake"),
        pytest.param(
            "import os\nos.kill(os.getpid(), 9)",
            -9,
            "",
            id="killed",
            marks=pytest.mark.skipif(os.name != "posix", reason="signals"),
        ),
    ],
)
def test_a_page_runs_as_in_a_new_interpreter(code: str, status: int, says: str, pages: Pages, tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / "beside.py").touch()
    page = tmp_path / "page.md"
    page.write_text(markdown(LEAVES), encoding="utf-8")
    assert pages.run(page, "page.md", folder=here, environment=os.environ) == (0, "")  # noqa: TID251
    page.write_text(markdown(code), encoding="utf-8")
    given = {**os.environ, "GIVEN": "1"}  # noqa: TID251
    ended, said = pages.run(page, "page.md", folder=here, environment=given)
    assert ended == status
    assert says in said
