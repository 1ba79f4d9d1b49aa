from typing import Any

import pytest

from benchmarks import report

NUMBERS = {"R@1": 0.8, "R@3": 0.9, "R@5": 0.95, "R@10": 0.99, "MRR": 0.85, "nDCG@10": 0.88}
WHERE = {
    "commit": "abc",
    "dirty": False,
    "at": "2030-01-02T03:04:05+00:00",
    "cpu": "a processor",
    "cores": 4,
    "load": 0.5,
    "python": "3.11.7",
    "packages": {"numpy": "2.0"},
}


def run(dataset: str = "set-5", embedder: str = "static", seed: int = 1, **fused: float) -> dict[str, Any]:
    return {
        "dataset": dataset,
        "embedder": embedder,
        "seed": seed,
        "data": "d1",
        "flows": 10,
        "requests": 2000,
        "fused": NUMBERS | {key.replace("_", "@"): value for key, value in fused.items()},
        "dense": NUMBERS,
        "bm25": NUMBERS | {"R@1": 0.5},
        "recall_ms": {"p50": 0.5, "p99": 1.0},
        **WHERE,
    }


def cells(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_seeds_are_averaged() -> None:
    rows = cells(report.recall_table([run(seed=1, R_1=0.8), run(seed=2, R_1=0.9)]))
    assert rows == [
        ["set-5", "10", "2,000", "static", "85.0", "90.0", "95.0", "99.0", "85.0", "88.0", "", "0.50", "1.00"]
    ]


def test_data_sets_in_natural_order_and_the_default_embedder_first() -> None:
    runs = [run("set-10"), run("set-5", "fastembed:x"), run("set-5")]
    assert [(row[0], row[3]) for row in cells(report.recall_table(runs))] == [
        ("set-5", "static"),
        ("set-5", "fastembed:x"),
        ("set-10", "static"),
    ]


def test_completeness_stands_where_requests_have_several_answers() -> None:
    assert cells(report.recall_table([run(COMP_5=0.25)]))[0][10] == "25.0"


def test_gain_is_over_the_better_leg() -> None:
    (row,) = cells(report.legs_table([run(R_1=0.78)]))
    assert row == ["set-5", "static", "80.0 / 95.0", "50.0 / 95.0", "78.0 / 95.0", "-2.0 / +0.0"]


@pytest.mark.parametrize(
    ("dirty", "expected"), [pytest.param(True, True, id="dirty"), pytest.param(False, False, id="clean")]
)
def test_provenance_says_where_the_code_was_not_committed(*, dirty: bool, expected: bool) -> None:
    text = report.provenance([run() | {"dirty": dirty}, run(seed=2) | {"dirty": dirty}])
    assert ("uncommitted" in text) is expected
    assert text.count("commit abc") == 1
    assert "load average 0.5" in text
    assert "set-5 `d1`" in text


TEXT = "a\n<!-- recall: made by benchmarks.report -->\nold\n<!-- /recall -->\nz"


def test_only_what_stands_between_markers_is_made_anew() -> None:
    new = report.filled(TEXT, lambda _: [run()])
    assert new.startswith("a\n<!-- recall: made")
    assert new.endswith("<!-- /recall -->\nz")
    assert "old" not in new
    assert "| set-5 |" in new
    assert report.filled(new, lambda _: [run()]) == new


def test_without_rows_the_table_says_so() -> None:
    assert "No run is stored." in report.filled(TEXT, lambda _: [])


def test_an_unknown_marker_is_an_error() -> None:
    text = "<!-- nothing: made by benchmarks.report -->\n<!-- /nothing -->"
    with pytest.raises(ValueError, match="no table is called 'nothing'"):
        report.filled(text)


def test_the_readme_shows_the_stored_results() -> None:
    text = report.README.read_text(encoding="utf-8")
    assert report.filled(text) == text


def test_every_marked_table_has_rows() -> None:
    # A table without rows says so; what cannot be measured is taken off the page, with the command that measures it.
    assert "No run is stored." not in report.README.read_text(encoding="utf-8")
