"""`jazz-select converse`: conversations from the command line, over flows and tools or with an agent of one's own."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.cli.conftest import Jazz
from tests.vectors import EMBEDDER

CLINIC = Path(__file__).parents[3] / "examples" / "clinic"
GOOD = {
    "title": "Good [b]day[/b]",
    "id": "good",
    "tags": ["short"],
    "turns": [
        {
            "say": "give me my money back",
            "chooses": "refund_order",
            "script": ["Which \x1b[31m order?"],
            "expect": {"flows": "refund_order", "status": "active", "tools": "none"},
        }
    ],
}
BAD = {**GOOD, "title": "Bad", "id": "bad", "tags": [], "expect": {"status": "done", "says": "/^never/"}}


@pytest.fixture
def talks(jazz: Jazz, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(jazz.folder)  # where the cache is
    return jazz.folder / "talks.yaml"


def write(talks: Path, *entries: dict[str, Any]) -> str:
    talks.write_text(yaml.safe_dump(list(entries)), "utf-8")
    return str(talks)


@pytest.mark.spec("007.2")
def test_the_clinic_from_the_command_line(jazz: Jazz, talks: Path) -> None:
    flows, tools = str(CLINIC / "flows.yaml"), str(CLINIC / "tools.py")
    file = str(CLINIC / "conversations.yaml")
    told = jazz("converse", file, "--flows", flows, "--tools", tools, "--embedder", EMBEDDER)
    assert "15 conversations: 15 passed" in told.stdout
    assert "✗" not in told.stdout
    assert (talks.parent / ".jazz" / "cache").is_dir()


def test_one_that_fails_is_shown_and_the_exit_code_says_so(jazz: Jazz, talks: Path) -> None:
    told = jazz("converse", write(talks, GOOD, BAD), code=1).stdout
    assert "Good [b]day[/b]  1 turn" in told
    assert "\x1b[31m" not in told
    assert "talks.yaml --only bad" in " ".join(told.split())
    assert "✗ status: expected done, got active" in told
    assert "2 conversations: 1 passed, 1 failed" in told
    assert told.count("give me my money back") == 1


def test_some_of_them_alone_and_every_turn(jazz: Jazz, talks: Path) -> None:
    file = write(talks, GOOD, BAD)
    told = jazz("converse", file, "--only", "short", "-v").stdout
    assert "1 conversation: 1 passed" in told
    assert "active: refund_order" in told
    assert "no conversation has this id or tag; there are good, bad" in jazz(
        "converse", file, "--only", "gone", code=2
    ).stderr.replace("\n", "")


def test_as_json(jazz: Jazz, talks: Path) -> None:
    told = jazz.json(dict[str, Any], "converse", write(talks, GOOD))
    assert (told["passed"], told["outcomes"]["passed"], told["results"][0]["id"]) == (True, 1, "good")


FACTORY = """
from jazz_select import Agent

made = []

async def make_agent(selector, model):
    made.append(model)
    return Agent(selector, model=model)

class nested:
    number = 3
"""


def test_an_agent_of_ones_own(jazz: Jazz, talks: Path) -> None:
    (talks.parent / "own_agent.py").write_text(FACTORY, "utf-8")
    said = {"say": "hello", "chooses": "none", "script": ["Hello to you."]}
    turn = {**said, "expect": {"flows": "none", "says": "hello to you"}}
    told = jazz("converse", write(talks, {"title": "Own", "turns": [turn]}), "--agent", "own_agent:make_agent")
    assert "1 conversation: 1 passed" in told.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param(["--agent", "own_agent"], "must be package.module:factory", id="no factory"),
        pytest.param(["--agent", "not_there:make"], "ModuleNotFoundError", id="no module"),
        pytest.param(["--agent", "json:nothing"], "has no attribute", id="no such name"),
        pytest.param(["--agent", "json:__name__"], "must be a function", id="no function"),
        pytest.param(["--tools", "nowhere"], "there is no such package, folder or file", id="no tools"),
        pytest.param(["--flows", "nowhere"], "nowhere", id="no flows"),
    ],
)
def test_what_cannot_work_is_told_in_one_line(arguments: list[str], told: str, jazz: Jazz, talks: Path) -> None:
    result = jazz("converse", write(talks, GOOD), *arguments, code=2)
    assert told in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        pytest.param({"request": "x", "expect": []}, "which jazz-select eval reads", id="labelled requests"),
        pytest.param({**GOOD, "expect": {"flows": ["refund_ordr"]}}, "did you mean 'refund_order'?", id="a flow"),
    ],
)
def test_files_that_are_wrong(entry: dict[str, Any], told: str, jazz: Jazz, talks: Path) -> None:
    assert told in jazz("converse", write(talks, entry), code=2).stderr


SEEN = """
from pathlib import Path
from jazz_select import Agent
from jazz_select.routing import Tool

def tools(state):
    if state:
        Path("seen").write_text(str(state["paid"]))
    return [Tool(name="pay_back", input_schema={"type": "object"}, function=dict)]
"""
TOOLS = f"{SEEN}\nTOOLS = tools\n"
OWN_AGENTS = f"""{SEEN}
def make_agent(selector, model, state=None):
    return Agent(selector, tools(state), model)

def without(selector, model):
    return Agent(selector, tools({{}}), model)
"""


@pytest.mark.parametrize("given", [("--tools", "till.py"), ("--agent", "mine:make_agent")])
def test_a_conversation_begins_with_its_state(given: tuple[str, str], jazz: Jazz, talks: Path) -> None:
    (jazz.folder / "till.py").write_text(TOOLS)
    (jazz.folder / "mine.py").write_text(OWN_AGENTS)
    assert "1 passed" in jazz("converse", write(talks, {**GOOD, "state": {"paid": 41}}), *given).stdout
    assert (jazz.folder / "seen").read_text() == "41"


def test_a_state_that_nobody_takes_fails_the_conversation(jazz: Jazz, talks: Path) -> None:
    (jazz.folder / "mine.py").write_text(OWN_AGENTS)
    told = jazz("converse", write(talks, {**GOOD, "state": {"paid": 41}}), "--agent", "mine:without", code=1).stdout
    assert "a conversation has a state: give the factory of the agent a parameter 'state'" in " ".join(told.split())
