import importlib
import inspect
import pkgutil
import shutil
import subprocess
from pathlib import Path

import pytest
import typer

import benchmarks
from benchmarks import machine, options, rows
from benchmarks.rows import Book, UncleanError

KEY = ("dataset", "seed")
ROW = {"dataset": "a", "seed": 1}
GIT = shutil.which("git")


def test_a_run_replaces_its_own_row_only(tmp_path: Path) -> None:
    rows.store("recall", [{"dataset": "a", "seed": 1, "x": 1}, {"dataset": "a", "seed": 2, "x": 2}], KEY, tmp_path)
    rows.store("recall", [{"dataset": "a", "seed": 1, "x": 3}, {"dataset": "b", "seed": 1, "x": 4}], KEY, tmp_path)
    assert rows.read("recall", tmp_path) == [
        {"dataset": "a", "seed": 1, "x": 3},
        {"dataset": "a", "seed": 2, "x": 2},
        {"dataset": "b", "seed": 1, "x": 4},
    ]


def test_one_line_per_row(tmp_path: Path) -> None:
    path = rows.store("recall", [{"dataset": name, "seed": 1} for name in "abc"], KEY, tmp_path)
    assert len(path.read_text().splitlines()) == 5


def test_a_question_never_asked_has_no_rows(tmp_path: Path) -> None:
    assert rows.read("nothing", tmp_path) == []


def test_rounded() -> None:
    assert rows.rounded({"R@1": 0.123456}) == {"R@1": 0.1235}


# --- only what is committed is stored -------------------------------------------


def git(root: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run([str(GIT), *who, *arguments], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with one commit."""
    if GIT is None:
        pytest.skip("git is not here")
    root = tmp_path / "checkout"
    (root / "benchmarks" / "results").mkdir(parents=True)
    (root / "code.py").write_text("x = 1\n")
    (root / ".gitignore").write_text("*.log\n")
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    return root


def opened(root: Path, *, look: bool = False) -> Book:
    return Book("recall", KEY, look=look, folder=root / "benchmarks" / "results", root=root)


def stored(root: Path) -> list[rows.Row]:
    return rows.read("recall", root / "benchmarks" / "results")


def test_a_row_says_on_which_commit_it_was_measured(checkout: Path) -> None:
    opened(checkout).store(ROW, {**ROW, "seed": 2})
    assert [(row["seed"], row["dirty"]) for row in stored(checkout)] == [(1, False), (2, False)]
    assert {row["commit"] for row in stored(checkout)} == {git(checkout, "rev-parse", "--short=12", "HEAD")}


@pytest.mark.parametrize(
    "path", ["benchmarks/results/recall.json", "benchmarks/plots/coverage.png", "benchmarks/README.md", "a.log"]
)
def test_what_benchmarks_write_and_what_git_ignores_is_no_change(checkout: Path, path: str) -> None:
    file = checkout / path
    file.parent.mkdir(exist_ok=True)
    file.write_text("[]")
    opened(checkout).store(ROW)
    assert len(stored(checkout)) == 1


@pytest.mark.parametrize("path", ["code.py", "new.py", "benchmarks/recall.py", "a b.py", "é.py"])
def test_nothing_is_stored_where_a_file_is_not_committed(checkout: Path, path: str) -> None:
    book = opened(checkout)
    (checkout / path).write_text("x = 2\n")
    with pytest.raises(UncleanError, match=f"not committed: {path};.*--unclean"):
        book.store(ROW)
    with pytest.raises(UncleanError, match=f"not committed: {path};"):
        opened(checkout)
    assert stored(checkout) == []


def test_of_many_files_the_first_are_named(checkout: Path) -> None:
    for number in range(12):
        (checkout / f"new_{number:02}.py").touch()
    with pytest.raises(UncleanError, match=r"new_00\.py, .*, new_09\.py and 2 more;"):
        opened(checkout)


def test_nothing_is_stored_where_another_commit_came_meanwhile(checkout: Path) -> None:
    book = opened(checkout)
    git(checkout, "commit", "-q", "--allow-empty", "-m", "second")
    with pytest.raises(UncleanError, match="another commit is checked out now"):
        book.store(ROW)
    assert stored(checkout) == []


def test_nothing_is_stored_where_there_is_no_commit(tmp_path: Path) -> None:
    with pytest.raises(UncleanError, match="no git checkout with a commit"):
        opened(tmp_path)


def test_a_look_is_allowed_everywhere_and_stores_nothing(checkout: Path, tmp_path: Path) -> None:
    (checkout / "code.py").write_text("x = 2\n")
    for root in (checkout, tmp_path):
        opened(root, look=True).store(ROW)
        assert stored(root) == []


def test_a_run_that_could_not_be_stored_ends_before_it_measures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def changed(root: Path = machine.ROOT) -> list[str]:
        return ["code.py"]

    monkeypatch.setattr(machine, "changed", changed)
    monkeypatch.setattr(machine, "commit", lambda root=machine.ROOT: "abc")
    with pytest.raises(typer.Exit) as ended:
        options.opened_book("recall", KEY, look=False)
    assert ended.value.exit_code == 2
    assert "not committed: code.py" in capsys.readouterr().err
    options.opened_book("recall", KEY, look=True)


MEASURES = sorted(
    each.name
    for each in pkgutil.iter_modules(benchmarks.__path__)
    if hasattr(importlib.import_module(f"benchmarks.{each.name}"), "KEY")
)


def test_every_question_that_stores_rows_can_be_looked_at_without() -> None:
    assert {"recall", "latency", "turn"} <= set(MEASURES)
    for name in MEASURES:
        module = importlib.import_module(f"benchmarks.{name}")
        assert inspect.signature(module.main).parameters["unclean"].default is False, name
        assert "rows.store(" not in inspect.getsource(module), f"{name} stores past the book"


# --- what is stored ---------------------------------------------------------------


@pytest.fixture(scope="module")
def history() -> set[str]:
    """Every commit that HEAD holds, by the digits that rows give."""
    if GIT is None:
        pytest.skip("git is not here")
    asked = [[GIT, "rev-parse", "--is-shallow-repository"], [GIT, "rev-list", "--abbrev-commit", "--abbrev=40", "HEAD"]]
    shallow, commits = (
        subprocess.run(command, cwd=machine.ROOT, capture_output=True, text=True, check=False) for command in asked
    )
    if commits.returncode:
        pytest.skip("not a git checkout")
    if shallow.stdout.strip() != "false":
        pytest.skip("a shallow clone does not hold the history")
    return {commit[:12] for commit in commits.stdout.split()}


@pytest.mark.parametrize("path", sorted(rows.RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_every_stored_row_was_measured_on_a_commit_of_this_history(path: Path, history: set[str]) -> None:
    found = rows.read(path.stem)
    assert found
    assert [row for row in found if row["dirty"]] == [], "measured on what no commit holds"
    assert {row["commit"] for row in found} - history == set(), "measured on commits that are not in this history"
