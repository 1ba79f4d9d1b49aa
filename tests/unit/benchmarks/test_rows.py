from pathlib import Path

from benchmarks import rows

KEY = ("dataset", "seed")


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
