"""The pytest plugin in runs of its own: a test for each labelled request, as users of the library would see it."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.programs

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[3]
FLOWS = {"refund": "money back", "track": "where is my parcel", "invoice": "a bill for taxes"}
CASES = [
    {"request": "I want my money back", "expect": ["refund"]},
    {"request": "where is my parcel now", "expect": ["track"], "why": "in the words of an example"},
    {"request": "sing me a song", "expect": "none", "why": "nothing in common"},
    {"request": "a bill\x1b[31m, please", "expect": ["track"]},
]
INI = """[pytest]
filterwarnings =
    error
    ignore:Module already imported so cannot be rewritten:pytest.PytestAssertRewriteWarning
"""
"""Where this package is installed to be edited, its finder is imported before pytest begins."""
TEST = """
from jazz_select.evaluation import RouteOptions
from jazz_select.evaluation.plugin import jazz_cases
from jazz_select.testing import HashEmbedder

@jazz_cases("cases.yaml", flows="flows.yaml", embedder=HashEmbedder(), routing=RouteOptions(top_k=1))
def test_routes(route, case):
    assert set(case.expect) <= set(route.candidates)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with flows, requests and a test; and the plugin as an installed package would bring it."""
    flows = [
        {
            "name": name,
            "description": f"All about {words}.",
            "condition": f"The user says {words}.",
            "desired_effects": ["it is done"],
            "examples": [f"{words} {more}" for more in ("please", "now", "today", "at last", "again")],
        }
        for name, words in FLOWS.items()
    ]
    (tmp_path / "flows.yaml").write_text(yaml.safe_dump(flows), "utf-8")
    (tmp_path / "cases.yaml").write_text(yaml.safe_dump(CASES), "utf-8")
    (tmp_path / "test_routes.py").write_text(TEST, "utf-8")
    (tmp_path / "pytest.ini").write_text(INI, "utf-8")
    info = tmp_path / "site" / "routes_plugin-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: routes-plugin\nVersion: 1\n", "utf-8")
    points = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]["pytest11"]
    lines = "\n".join(f"{name} = {value}" for name, value in points.items())
    (info / "entry_points.txt").write_text(f"[pytest11]\n{lines}\n", "utf-8")
    return tmp_path


def python(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}  # noqa: TID251
    environment["PYTHONPATH"] = os.pathsep.join([str(project / "site"), str(ROOT)])
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)


def pytest_in(project: Path, *arguments: str) -> str:
    """What a run in a process of its own says, with the plugin loaded as an installed one is."""
    return python(project, "-m", "pytest", "-p", "no:asyncio", *arguments).stdout


Said = Callable[..., str]


@pytest.fixture
def said(pytester: pytest.Pytester, project: Path) -> Said:
    """What a run in this process says: quicker, with the plugin named, whether or not it is installed."""

    def run(*arguments: str) -> str:
        plugin = ("-p", "no:asyncio", "-p", "no:jazz_select", "-p", "jazz_select.evaluation.plugin")
        os.chdir(project)
        return pytester.runpytest_inprocess(*plugin, "--rootdir", str(project), *arguments, str(project)).stdout.str()

    return run


IDS = ("[1-i-want-my-money-back]", "[2-where-is-my-parcel-now]", "[3-sing-me-a-song]", "[4-a-bill-31m-please]")


@pytest.mark.spec("007.2")
@pytest.mark.parametrize(
    "arguments", [pytest.param(["--strict-markers"], id="one process"), pytest.param(["-n", "2"], id="xdist")]
)
def test_each_request_is_a_test_with_an_id_that_can_be_read(project: Path, arguments: list[str]) -> None:
    told = pytest_in(project, "-v", *arguments)
    assert [name for name in IDS if name not in told] == [], told
    assert "1 failed, 3 passed" in told


def test_an_index_is_kept_for_the_next_run(said: Said, project: Path) -> None:
    said()
    kept = project / ".pytest_cache" / "d" / "jazz_select" / "indexes"
    (index,) = kept.iterdir()
    assert "1 passed" in said("-k", "money")
    assert list(kept.iterdir()) == [index]
    assert "1 passed" in said("-k", "money", "-p", "no:cacheprovider")


def test_a_route_is_there_also_where_a_loop_runs(said: Said, project: Path) -> None:
    asked = """
import asyncio, pytest

@pytest.fixture(autouse=True)
def loop():
    with asyncio.Runner() as runner:
        asyncio._set_running_loop(runner.get_loop())
        yield
        asyncio._set_running_loop(None)
"""
    (project / "test_routes.py").write_text(f"{asked}{TEST}", "utf-8")
    assert "1 failed, 3 passed" in said()


BARE = "import pytest\n@pytest.mark.jazz_cases\ndef test_x(case): ...\n"
TWICE = TEST.replace("@jazz_cases", "@jazz_cases('cases.yaml', flows='flows.yaml')\n@jazz_cases")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(TEST.replace("cases.y", "gone.y"), "jazz_cases: cannot read the requests in", id="no file"),
        pytest.param(TEST.replace("flows.yaml", "nowhere"), "jazz_cases: ", id="no flows"),
        pytest.param(TEST.replace("cases.y", "flows.y"), "entry 1 (line 1): request: is missing", id="no requests"),
        pytest.param(TWICE, "one @jazz_cases a test", id="two"),
        pytest.param(BARE, "above the test put @jazz_cases(file, flows=…)", id="bare"),
    ],
)
def test_what_cannot_be_collected_says_why_without_a_traceback(said: Said, project: Path, text: str, told: str) -> None:
    (project / "test_routes.py").write_text(text, "utf-8")
    lines = said()
    assert told in lines
    assert "Traceback" not in lines
    assert "1 error" in lines


def test_a_route_without_cases_says_what_is_missing(said: Said, project: Path) -> None:
    text = "import pytest\n@pytest.fixture\ndef case(): ...\ndef test_x(route): ...\n"
    (project / "test_routes.py").write_text(text, "utf-8")
    assert "route needs @jazz_cases(file, flows=…) above the test" in said()


def test_importing_it_costs_next_to_nothing(project: Path) -> None:
    heavy = "{'numpy', 'pydantic', 'yaml', 'orjson', 'asyncio'}"
    code = f"""if True:
        import pytest, sys
        before = {{*sys.modules}}
        import jazz_select.evaluation.plugin
        print({heavy} & ({{*sys.modules}} - before))
    """
    done = python(project, "-c", code)
    assert (done.stdout, done.stderr) == ("set()\n", "")


def test_it_can_be_left_out(project: Path) -> None:
    (project / "test_other.py").write_text("def test_x(): ...\n", "utf-8")
    told = pytest_in(project, "-p", "no:jazz_select", "--continue-on-collection-errors")
    assert "Unknown pytest.mark.jazz_cases" in told
    assert "1 passed, 1 error" in told
