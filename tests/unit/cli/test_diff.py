"""`jazz-select diff`."""

import json
from pathlib import Path

import pytest
import yaml

from jazz_select.evaluation.changes.difference import sure_in_words
from tests.unit.cli.conftest import Jazz
from tests.unit.evaluation.repository import FLOWS, Repository, repository
from tests.vectors import EMBEDDER


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """With an edit, some cases and the working directory in it."""
    made = repository(tmp_path / "repo")
    made.write({**FLOWS, "track": [*FLOWS["track"], "my [bold]bill has not come"]})
    cases = [{"request": "refund of the bill", "expect": ["refund"]}, {"request": "hi", "expect": ["not_there"]}]
    (made.folder / "cases.yaml").write_text(yaml.safe_dump(cases), "utf-8")
    (made.folder / "log.txt").write_text("where is it\n\nthe bill \x1b[31m\n", "utf-8")
    monkeypatch.chdir(made.folder)
    return made


@pytest.fixture
def here(tmp_path: Path) -> Jazz:
    return Jazz(tmp_path / "repo", {"JAZZ_EMBEDDER": EMBEDDER, "JAZZ_FLOWS": "flows"})


@pytest.mark.programs
@pytest.mark.spec("007.3")
def test_it_shows_what_an_edit_moves_and_stops_at_a_gate(repo: Repository, here: Jazz) -> None:
    asked = ("diff", "--cases", "cases.yaml", "--requests", "log.txt")
    text = here(*asked, "--all", "--markdown", "comment.md").stdout
    assert "HEAD (" in text
    assert "1 file of it not committed" in text
    assert "track (examples)" in text
    assert "my [bold]bill has not come" in text
    assert "\x1b" not in text
    assert "not_there" in text
    assert (repo.folder / "comment.md").read_text("utf-8").startswith("<!-- jazz-select diff -->")
    found = json.loads(here(*asked, "--json").stdout)
    assert found["passed"] is True
    assert found["after"]["requests"] == 2 + 2 + 15 + 1
    (repo.folder / "pyproject.toml").write_text("[tool.jazz-select.gates]\nmax_changed_first = 0\n", "utf-8")
    assert "max_changed_first: " in here(*asked, code=1).stdout
    assert json.loads(here(*asked, "--json", code=1).stdout)["failures"][0]["gate"] == "max_changed_first"
    (repo.folder / "pyproject.toml").write_text("[tool.jazz-select.gates]\nmax_moved = 0\n", "utf-8")
    assert "'max_moved' is no field of a table" in here(*asked, code=2).stderr


@pytest.mark.programs
def test_nothing_moved_is_said_as_well(repo: Repository, here: Jazz) -> None:
    repo.git("checkout", "-q", "--", "flows")
    (repo.folder / "pyproject.toml").write_text("[tool.jazz-select.gates]\nmax_changed_first = 0\n", "utf-8")
    text = here("diff", "main", "HEAD").stdout
    assert "No request is led elsewhere (15 requests)." in text
    assert "every gate is passed" in text
    assert "there are no labelled cases" in text
    assert "name them with --cases" in text


def test_help_names_the_table_of_the_gates(repo: Repository, here: Jazz) -> None:
    assert "[tool.jazz-select.gates]" in " ".join(here("diff", "--help").stdout.split())


@pytest.mark.parametrize(
    ("sure", "told"),
    [
        pytest.param(0.796, "open (0.796)", id="just below a class"),
        pytest.param(0.82, "likely (0.82)", id="within one"),
        pytest.param(0.79999999, "open (0.79999999)", id="as near as can be"),
        pytest.param(None, "unknown", id="not known"),
    ],
)
def test_a_confidence_is_shown_as_of_its_class(sure: float | None, told: str) -> None:
    assert sure_in_words(sure) == told


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(("diff", "mian"), "did you mean main?", id="a misspelt branch"),
        pytest.param(("diff", "--cases", "none.yaml"), "cannot read the requests in none.yaml", id="no cases"),
        pytest.param(("diff", "--requests", "none.txt"), "cannot read the requests in none.txt", id="no log"),
        pytest.param(("diff", "--embedder", "best"), "no such embedder: 'best'", id="no embedder"),
    ],
)
def test_misuse_is_one_line(repo: Repository, here: Jazz, words: tuple[str, ...], said: str) -> None:
    result = here(*words, code=2)
    assert said in result.stderr
    assert result.stdout == ""
